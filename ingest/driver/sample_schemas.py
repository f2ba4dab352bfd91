"""Samples the newest records on the driver, before the first batch: so that tables are known by then.

In: the source, connected, and where its splits stand. Out: an observed schema for each table that was met. What cannot
be taken is passed over here: it is a reject, or an error, when its turn comes. Rules:
docs/spec/sources.md#the-first-look.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from ingest.errors import ConfigError, IngestError
from ingest.formats.metadata_columns import MetadataColumns
from ingest.model.numbers import Numbers
from ingest.model.reject import RowError
from ingest.schema.evolve import Schemas, all_fit, unchanged
from ingest.schema.infer import observe, reasons_of
from ingest.task.decoding import ChunkDecoder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ingest.driver.schemas import SchemaRules
    from ingest.model.change import Change
    from ingest.model.record import Split
    from ingest.model.schema import TableSchema
    from ingest.model.table import TableId
    from ingest.schema.infer import Inference
    from ingest.sources import Chunk, Source

SAMPLE_S: Final = 5.0
"""The time to read, at most, in seconds: a start shall not wait for a slow partition."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """What records show of tables."""

    tables: dict[TableId, TableSchema] = field(default_factory=dict)
    widening: dict[tuple[TableId, str], bytes] = field(default_factory=dict)
    """By table and column: values that gave them their types."""


def sample_schemas(source: Source, pipeline: str, ends: Mapping[Split, tuple[int, int]], rules: SchemaRules) -> Sampled:
    """Return what the newest records of each split show; `ends`: the first offset and the end of each."""
    count = source.sample_size
    ranges = {split: (max(first, end - count), end) for split, (first, end) in ends.items() if end > first}
    if not count or not ranges:
        return Sampled()
    reader = source.reader(pipeline)
    chunks: list[Chunk] = []
    deadline = time.monotonic() + SAMPLE_S
    reading = reader.read(ranges)
    try:
        for chunk in reading:
            if chunk is not None:
                chunks.append(chunk)
            if time.monotonic() > deadline:
                break
    except IngestError:
        return Sampled()  # the first batch will meet it, too, and knows what to do about it
    finally:
        reading.close()
        reader.close()
    # In a fixed order, whichever broker answered first: the columns' order comes from it
    chunks.sort(key=lambda chunk: chunk.split)
    found = observe_chunks(source, chunks, rules.inference, Schemas())
    return replace(found, tables=_possible(found.tables, rules))


def observe_chunks(source: Source, chunks: Iterable[Chunk], inference: Inference, known: Schemas) -> Sampled:
    """Return what some records show of tables beside what is known; what cannot be taken is passed over."""
    out = Sampled()
    seen = out.tables
    wanted = source.wanted
    decoder = ChunkDecoder(source, MetadataColumns(source.extra) if source.extra else None)
    for chunk in chunks:
        messages = [m for m in chunk.messages if wanted is None or wanted(m.headers())]
        for decoded in decoder.decode(chunk.split, chunk.topic, messages):
            if type(decoded) is not tuple and type(decoded) is not list:
                continue
            parts: list[Change] = decoded if isinstance(decoded, list) else [decoded]
            for change in parts:
                table = change[0]
                source_table = known.sources.get(table)
                before = seen.get(table) or (None if source_table is None else source_table.schema)
                given = table in inference.initial and before is None and inference.static
                # A delete may show only some of a row
                if change[3] is None or given:
                    continue
                stored = known.number_types(table) if inference.numbers is Numbers.STORED else {}
                fixed = inference.static and source_table is not None
                try:
                    keys = () if source_table is None else source_table.key_columns
                    seen[table] = observe(change, inference, before, stored, fixed=fixed, key_columns=keys)
                    reasons = reasons_of(change, before, seen[table], inference)
                except RowError:
                    continue
                for name, value in reasons.items():
                    out.widening.setdefault((table, name), value)
    return out


def _possible(seen: Mapping[TableId, TableSchema], rules: SchemaRules) -> dict[TableId, TableSchema]:
    """Return those tables that can be taken: others may never be read, as old messages are looked at, too."""
    unshaped = replace(rules, shape=unchanged, unfit=all_fit)
    out = {}
    for table, schema in seen.items():
        if rules.inference.keyed and not schema.primary_key and not rules.rules.primary_key(table):
            continue  # its rows lack their keys
        try:
            unshaped.evolve(Schemas(), [(table, schema)])
        except ConfigError:
            continue
        out[table] = schema
    return out

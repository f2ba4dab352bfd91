"""Records of the source: dates that are no days (docs/spec/mysql.md#types, H3)."""

from __future__ import annotations

from typing import Any

import pytest

from ingest.encode.encode import EncoderCache
from ingest.model.change import Reject
from ingest.native.native import NativeEncoders
from ingest.schema.evolve import Schemas, SourceTable
from ingest.schema.infer import Inference
from ingest.sinks.topics.upsert_kafka import UpsertKafka
from ingest.sources.mysql import format as own
from ingest.sources.mysql.format import MySqlDecoder, MySqlRows, head_of, typed_columns
from ingest.sources.mysql.history import History, SchemaEntry
from ingest.sources.mysql.log_records import LogRecord
from ingest.sources.mysql.types import Column, Table

TABLE = Table(
    "d", "t", (Column("id", "date"), Column("d", "date"), Column("m", "datetime"), Column("z", "timestamp")),
    primary_key=("id",),
)  # fmt: skip
ROW = '{"id":"2020-01-31","d":%s,"m":%s,"z":%s}'
DAYS = ('"2020-02-29"', '"2020-01-31 12:13:14.5"', '"2020-01-31 12:13:14Z"')
ZEROS = ('"0000-00-00"', '"2020-00-15 00:00:00"', '"0000-00-00 00:00:00Z"')


def decoded(after: str, *, days_only: bool = False, before: str = "null") -> object:
    options = MySqlRows()
    options.schemas.history = History((SchemaEntry(1, 0, ("d", "t"), TABLE, read=True, booleans=False),))
    decoder = MySqlDecoder(options, days_only=days_only)
    record = f'{{"before":{before},"after":{after},"source":{{"db":"d","table":"t"}},"op":"u"}}'
    (found,) = decoder.decode([None], [head_of(1) + record.encode()])
    return found


def test_a_date_that_is_no_day_is_null_and_counted() -> None:
    found = decoded(ROW % ZEROS, before=ROW % ("null", ZEROS[1], "null"))
    assert isinstance(found, tuple)
    assert bytes(found[3]) == (ROW % ("null", "null", "null")).encode()
    assert bytes(found[2]) == (ROW % ("null", "null", "null")).encode()
    assert sorted(found[5].left_out) == ["d", "m", "z"]


def test_days_stay_as_they_are() -> None:
    found = decoded(ROW % DAYS)
    assert isinstance(found, tuple)
    assert bytes(found[3]) == (ROW % DAYS).encode()
    assert found[5].left_out == ()


@pytest.mark.parametrize(
    ("after", "days_only"),
    [(ROW % (ZEROS[0], DAYS[1], DAYS[2]), True), ((ROW % DAYS).replace("2020-01-31", "0000-00-00", 1), False)],
)
def test_in_a_key_and_by_option_it_is_a_reject(after: str, *, days_only: bool) -> None:
    found = decoded(after, days_only=days_only)
    assert isinstance(found, Reject)
    assert (found.code, found.table) == ("type-mismatch", ("d", "t"))
    assert "0000-00-00" in found.message


@pytest.mark.compiled
def test_the_columns_of_many_tables_are_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many come in turn: a log of 1,000 tables is as fast as one of 3."""
    options: Any = MySqlRows()
    count = 300
    names = [f"t{at}" for at in range(count)]
    entries = [
        SchemaEntry(at, 0, ("d", name), Table("d", name, (Column("id", "int"),), ("id",)), read=True, booleans=False)
        for at, name in enumerate(names)
    ]
    options.schemas.history = History(tuple(entries))
    sink = UpsertKafka.model_validate({"type": "upsert-kafka", "properties.*": {"bootstrap.servers": "h"}})
    cache = EncoderCache(sink.encoder, Inference(options.reading))
    known = {entry.table_id: entry.schema() for entry in entries}
    cache.renew(Schemas(1, {one: SourceTable(of, (one,), False) for one, of in known.items()}, known), None)
    compiled: list[SchemaEntry] = []

    def counted(entry: SchemaEntry) -> Any:
        compiled.append(entry)
        return typed_columns(entry)

    monkeypatch.setattr(own, "typed_columns", counted)
    body = b'{"before":null,"after":{"id":1},"source":{"db":"d","table":"%b"},"op":"c"}'
    records = [LogRecord(head_of(at) + body % name.encode(), at, 0) for at, name in enumerate(names)] * 3
    encoder, at = NativeEncoders(options, cache).of("binlog"), 0
    while at < len(records):
        batch, stop = encoder.encode(records, at)
        assert len(batch) == stop - at > 0
        at = stop
    assert compiled == entries

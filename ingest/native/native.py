"""The native implementation of decoding and encoding, where that was built: messages in, records of keyed rows out.

Decoding and encoding are two stages. In: messages of one form, which are decoded and encoded here, or changes that the
reference has decoded; and the encoders of their tables. Out: encoded records, as far as there is no doubt about a
message; the rest is for `decode` and `encode`, which are the reference. Many times as fast as they are.
`INGEST_NATIVE=off` in the workers' environment does without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from ingest import compiled
from ingest.encode.change_encoder import ChangeEncoder
from ingest.encode.coercer import Drift
from ingest.encode.transform_input import TransformInputEncoder
from ingest.encode.upsert_encoder import Destination, TableEncoder, UpsertEncoder
from ingest.formats.format import FormatOptions
from ingest.formats.template import ValueTemplate
from ingest.model import types
from ingest.model.change import NOT_SELECTED, Kind
from ingest.model.jsontext import MALFORMED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ingest.encode.compiled_transform import ResultMerger
    from ingest.encode.encode import EncoderCache
    from ingest.formats import Format
    from ingest.formats.metadata_columns import ExtraColumns
    from ingest.formats.typed import TypedColumn
    from ingest.model.table import TableId
    from ingest.native.contract import RowEncoderSpec
    from ingest.native.decoded import DecodedEncoder
    from ingest.native.message_schemas import RowCodec
    from ingest.native.native_encoder import NativeEncoder
    from ingest.native.row_encoder import RowEncoder
    from ingest.native.transform_rows import TransformRows

    MergeResults: TypeAlias = Callable[..., tuple[Any, int, int, int, dict[int, tuple[int, int]]]]

Target: TypeAlias = "tuple[Any, tuple[tuple[TableId, Kind], ...]]"
"""A destination, and the changes that are done when a record has gone there."""

if compiled.BUILT:
    from ingest.native import (
        decoded,
        extra_columns,
        merge,
        message_schemas,
        native_encoder,
        row_encoder,
        specs,
        transform_rows,
    )

BUILT: Final = compiled.USED
"""True if native code is there, and wanted. Only functions of this module ask: what they return decides for others."""
_MAX_TARGETS: Final = 20_000
"""Targets and their changes that are kept beside those of tables, of which each has seven."""


class NativeEncoders:
    """Encoders of messages, one for each topic, which decode them as well; and one of changes that were decoded."""

    def __init__(
        self,
        messages: Format,
        cache: EncoderCache,
        targets: TargetTable | None = None,
        extra: ExtraColumns | None = None,
        *,
        decodes: bool = True,
        only: frozenset[TableId] | None = None,
    ) -> None:
        """`targets`: where records go by, where rows go to expressions; `decodes`: whether `messages` has a `form`.

        `extra`: the columns that rows have beside those of their messages' values. `only`: the tables that are read;
        None if all are.
        """
        self._only = only
        self.decodes = decodes
        """True if messages are decoded here; False if only changes are encoded."""
        self._format = messages
        self._cache = cache
        self._targets = targets
        self._prefix = extra.value_prefix if extra else ""
        self._extra = extra_columns.RowExtender(specs.extra_columns_spec(extra)) if extra else None
        self._encoders: dict[str, NativeEncoder] = {}
        self._changes = decoded.DecodedEncoder(self._table)
        self._tables: dict[TableId, tuple[TableEncoder, RowEncoder | None]] = {}
        self._version = -1

    def of(self, topic: str) -> NativeEncoder:
        """Return the encoder of a topic's messages, with the schemas that the encoders of tables are of now."""
        assert self.decodes
        self._renew()
        encoder = self._encoders.get(topic)
        if encoder is None:
            finder = self._finder(topic)
            spec = specs.message_spec(self._format, topic)
            encoder = native_encoder.NativeEncoder(spec, finder, self._read_schema, self._extra)
            self._encoders[topic] = encoder
        return encoder

    def of_changes(self) -> DecodedEncoder:
        """Return the encoder of changes that the reference has decoded, with the same schemas."""
        self._renew()
        return self._changes

    def _renew(self) -> None:
        """Let the encoders ask for all tables again, if schemas have changed."""
        if self._version != self._cache.schemas.version:
            self._version = self._cache.schemas.version
            self._changes.forget()
            for encoder in self._encoders.values():
                encoder.forget()

    @staticmethod
    def settle() -> None:
        """Tell the encoders of tables how many changes were encoded since the last time."""
        native_encoder.settle()

    def _finder(self, topic: str) -> Callable[[bytes], RowEncoder | str | None]:
        """Return a function from a table id to the table's native encoder, or to the reason for skipping it."""
        form = self._format.form
        assert form is not None
        table_of = form.table_of

        def find(text: bytes) -> RowEncoder | str | None:
            table = table_of([part.decode() for part in text.split(b"\0")[:-1]])
            if isinstance(table, str):
                return table
            table = table or (topic,)
            return NOT_SELECTED if self._only is not None and table not in self._only else self._table(table)

        return find

    def _read_schema(self, text: bytes) -> RowCodec | None:
        """Return the codec of an inline schema's text; None where the reference has to read its messages."""
        assert self._format.inline_types is not None
        _, columns_of = self._format.inline_types
        try:
            declared = columns_of(text)
            as_string = self._format.reading.as_string
            columns = None if self._has_numbers_in_texts(declared) else specs.inline_spec(declared, as_string=as_string)
        except MALFORMED:
            return None
        return None if columns is None else message_schemas.RowCodec(columns)

    def _has_numbers_in_texts(self, columns: Mapping[str, TypedColumn]) -> bool:
        """Return whether the pipeline declares a column as a text that is a boolean or bits by its message.

        Its values are the database's numbers then, and native code would write others.
        """
        numbers = [name for name, column in columns.items() if column.number is not None]
        every = self._format.all_declared if numbers and isinstance(self._format, FormatOptions) else ()
        return any(types.is_text(given[name]) for given in every for name in numbers if name in given)

    def _table(self, table: TableId) -> RowEncoder | None:
        """Return a table's native encoder; None where the reference encodes its rows."""
        try:
            encoder = self._cache.compiled.get(table) or self._cache.find(table)
        except Drift:
            return None
        known = self._tables.get(table)
        if known is None or known[0] is not encoder:
            known = self._tables[table] = (encoder, self._make(table, encoder))
        return known[1]

    def _make(self, table: TableId, encoder: TableEncoder) -> RowEncoder | None:
        """Create the native encoder that matches a table's encoder; None where the reference encodes its rows."""
        spec = None if self._has_counts(table) else _spec(encoder)
        if spec is None:
            return None
        destination = _destination(encoder)
        if self._targets is not None and not isinstance(encoder, TransformInputEncoder):
            spec = msgspec.structs.replace(spec, targets=self._targets.of(table, destination))
        return row_encoder.RowEncoder(spec, encoder, destination)

    def _has_counts(self, table: TableId) -> bool:
        """Return whether a column that the pipeline declares as a number is a text by now.

        Times of messages are numbers there, and native code would make their texts of them.
        """
        declared = self._format.declared(table) if isinstance(self._format, FormatOptions) else {}
        known = self._cache.schemas.sources.get(table)
        if not declared or known is None:
            return False
        names = {
            column.name.removeprefix(self._prefix) for column in known.schema.columns if types.is_text(column.type)
        }
        return any(isinstance(declared.get(name), types.NUMBERS) for name in names)


class TargetTable:
    """Numbers of targets: where ready records go, and which changes are done then. The number travels with a record.

    A message of many rows has a target for as many changes, and another one for each number of them: where it is
    `full`, whoever has it starts over.
    """

    def __init__(self) -> None:
        """Begin with no targets."""
        self.known: list[Target] = []
        self._places: dict[Target, int] = {}
        self._changes = self._tables = 0

    @property
    def full(self) -> bool:
        """True if the targets are so many that they are dropped after the chunk."""
        return self._changes > _MAX_TARGETS + 7 * self._tables

    def place(self, destination: Destination, done: tuple[tuple[TableId, Kind], ...]) -> int:
        """Return the number of a target: a destination with these changes. A new target is added."""
        target = (destination, done)
        place = self._places.get(target)
        if place is None:
            place = self._places[target] = len(self.known)
            self.known.append(target)
            self._changes += 1 + len(done)
        return place

    def of(self, table: TableId, destination: Destination) -> tuple[int, int, int, int]:
        """Return the numbers of a table's inserts, updates and deletes, and of tombstones of old keys."""
        self._tables += 1
        insert, update, delete = (self.place(destination, ((table, kind),)) for kind in Kind)
        return insert, update, delete, self.place(destination, ())


def absence() -> str:
    """Return why this process has no native code; an empty text where it has some."""
    return "" if BUILT else compiled.ABSENT


def encoders_of(
    messages: Format,
    cache: EncoderCache,
    targets: TargetTable | None,
    extra: ExtraColumns,
    *,
    decodes: bool,
    only: frozenset[TableId] | None,
) -> NativeEncoders | None:
    """Return native encoders, with the parameters of their class; None where the reference does all."""
    return NativeEncoders(messages, cache, targets, extra, decodes=decodes, only=only) if BUILT else None


def transform_rows_of(kinds: bytes) -> TransformRows | None:
    """Return native rows for Spark whose slots are of these kinds; None where they are made by the reference."""
    return transform_rows.TransformRows(kinds) if BUILT else None


def results_merger() -> MergeResults | None:
    """Return the native function that merges rows with their results; None where the reference does it."""
    return merge.merge_results if BUILT else None


def writes(encoder: TableEncoder) -> bool:
    """Return whether the native code makes the records of a table."""
    return _spec(encoder) is not None


def reads_keys(extra: ExtraColumns) -> bool:
    """Return whether the native code reads the columns of keys, as far as their format goes."""
    return extra.key_format is None or (BUILT and specs.reads_keys(extra))


def _destination(encoder: TableEncoder) -> Destination:
    if isinstance(encoder, ChangeEncoder):
        assert encoder.template is not None
        return encoder.template.destination
    return encoder.destination if isinstance(encoder, UpsertEncoder) else None


def _spec(encoder: TableEncoder) -> RowEncoderSpec | None:
    """Return how the rows of a table are encoded; None where that is for the reference."""
    if not BUILT:
        return None
    if isinstance(encoder, TransformInputEncoder):
        return specs.transform_input_spec(encoder)
    if isinstance(encoder, ChangeEncoder):
        template = encoder.template
        if template is None or not isinstance(template.value, ValueTemplate) or not encoder.simple:
            return None
        records, spec = specs.template_spec(encoder, template), specs.table_spec(encoder)
        return None if records is None or spec is None else msgspec.structs.replace(spec, template=records)
    return specs.table_spec(encoder) if isinstance(encoder, UpsertEncoder) and encoder.simple else None


def compile_results(encoder: TableEncoder, merger: ResultMerger) -> RowEncoder | None:
    """Return the native encoder of a table's rows merged with Spark's results; None where the reference does it."""
    if not isinstance(encoder, (UpsertEncoder, ChangeEncoder)) or encoder.sink.primary_key != merger.transform.key:
        return None
    if isinstance(encoder, UpsertEncoder) and encoder.deletes_are_rows:
        return None
    spec = _spec(encoder)
    results = None if spec is None else specs.results_spec(merger)
    if spec is None or results is None:
        return None
    return row_encoder.RowEncoder(msgspec.structs.replace(spec, results=results), encoder, _destination(encoder))

"""The encoding of a source table's rows as keyed records: a sink table has the last state of each row, or all states.

In: the schemas of both tables, and changes. Out: a record under its key for a row, and a tombstone, or a row, for a row
that is gone. A row that needs no change is written as the very bytes in which it came. Rules: docs/spec/values.md,
docs/spec/keys.md, docs/spec/sinks.md#all-states-of-a-row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self, TypeAlias

from ingest.encode.coercer import OTHERS, RowCoercer, check_before, check_key
from ingest.model import temporal, types
from ingest.model.cache import count_up
from ingest.model.change import Change, InlineSchema, Kind, is_number, value_in_key
from ingest.model.jsontext import fields_of, key_image, key_text, object_of, parse_row
from ingest.model.reject import RowError
from ingest.model.types import TimeType
from ingest.model.values import is_time

if TYPE_CHECKING:
    import msgspec

    from ingest.model.schema import TableSchema
    from ingest.model.table import TableId
    from ingest.schema.evolve import SourceTable
    from ingest.schema.infer import Inference


class Coarse(Enum):
    """The times of a sink whose columns have microseconds, as far as an encoder is to see to it."""

    NONE = auto()
    """All times are written as they are."""
    KEYS = auto()
    """Times of keys: one that is finer is a reject, as it would become another row's key. The sink cuts all others."""
    ROWS = auto()
    """Those, and the times of rows, which are cut and counted."""


Destination: TypeAlias = Hashable
"""Where records of a sink go: a value of the sink's own class, by which the sink's writer knows a table or topic.

Drivers and tasks only compare it: equal ones are one place. A writer takes it as what its encoders have given.
"""


class Record(NamedTuple):
    """A record of a sink."""

    destination: Destination
    key: bytes | None
    value: bytes | msgspec.Raw | None
    """None: a tombstone."""


def bytes_of(records: Iterable[Record]) -> int:
    """Return the bytes of the keys and values of records."""
    return sum(len(record.key or b"") + len(record.value or b"") for record in records)


class PartialRow(bytes):
    """The JSON of a row's columns that came: a sink that writes parts leaves the other columns as they are."""

    old_key: bytes | None = None
    """The key of the row before the change, where that is another one: the other columns are those of its row."""


class TableEncoder(Protocol):
    """An encoder of the changes of one source table for one sink table."""

    table: TableId
    inserted: int
    updated: int
    deleted: int
    bytes_in: int
    """Bytes of the messages whose rows are the table's, of those that native code has decoded."""
    bytes_out: int
    """Bytes of the records that came of the table's rows."""

    unrepresentable: int
    """Changes that the sink has no way to say."""

    @property
    def withheld(self) -> dict[str, int]:
        """By column: values that did not get into the sink, because its table was not to have the column."""

    @property
    def cut(self) -> dict[str, int]:
        """By column: times that were taken without what is finer than a microsecond."""

    @property
    def unread(self) -> dict[str, int]:
        """By column: values of rows before a change that are not known, as they cannot be read."""

    @property
    def rounded(self) -> dict[str, int]:
        """By column: numbers that no binary number is, and that became the nearest one."""

    def upsert(self, change: Change, emit: Callable[[Record], None]) -> None:
        """Emit the records of an insert or update; raises Drift, KeyChanged or RowError, having emitted nothing."""

    def delete(self, change: Change, emit: Callable[[Record], None]) -> None:
        """Emit the records of a delete; raises as `upsert` does."""


class UpsertEncoder:
    """The encoder of one source table's rows for one sink table. It is made once per schema version and worker."""

    deletes_are_rows = False
    """True if a delete is no tombstone, but a row. Native code leaves such changes to the reference."""

    def __init__(
        self,
        table: TableId,
        source: SourceTable,
        sink: TableSchema,
        destination: Destination,
        inference: Inference,
        *,
        coarse: Coarse = Coarse.NONE,
        parts: bool = False,
        sequence: str | None = None,
    ) -> None:
        """Compare both schemas. `parts`: whether rows may lack columns that were not sent.

        `sequence`: the column that orders changes. A null there would make its row older than all others.
        """
        self.table = table
        self.source, self.sink, self.destination = source.schema, sink, destination
        self.key_from_message = source.key_from_message
        self.inserted = self.updated = self.deleted = self.unrepresentable = 0
        self.bytes_in = self.bytes_out = 0
        of_order = () if sequence is None else (sequence,)
        self._coercer = coercer = RowCoercer(table, source.schema, sink, inference, of_order)
        coercer.writes_parts = parts
        self.withheld, self.rounded = coercer.withheld, coercer.rounded
        self.numbers = coercer.numbers
        self.unread: dict[str, int] = {}
        self.standard = coercer.standard
        self.strings_in_keys = coercer.strings_in_keys
        self.bare_numbers = frozenset[str]() if coarse is not Coarse.NONE else source.schema.bare_numbers
        """Columns of the key whose texts are written as numbers, where messages declare that they are numbers."""
        self.declared = coercer.declared
        self._primary_key = sink.primary_key
        times = {} if coarse is Coarse.NONE else {c.name: c.type for c in sink.columns if is_time(c.type)}
        self._key_times = {name: times[name] for name in sink.primary_key if name in times}
        self._row_times = times if coarse is Coarse.ROWS else {}
        self._of_table = coarse is not Coarse.NONE
        """True if keys are those of a table's typed columns: a number, and the text of it, are one there."""
        texts = {c.name for c in sink.columns if types.is_text(c.type)} if coarse is not Coarse.NONE else set()
        self._times_in_texts = frozenset(
            c.name
            for c in source.schema.columns
            if isinstance(c.type, TimeType) and c.name in texts.intersection(sink.primary_key)
        )
        """Columns of the key that are a TIME, and a text in the sink's table: `10:00:00.0` is the row of `10:00:00`."""
        self.typed_key = frozenset(coercer.typed(sink.primary_key, of_table=coarse is not Coarse.NONE))
        """Columns of the key whose values have to be of their types: the pipeline or the sink's table says so."""
        self.coarse = frozenset({*self._key_times, *self._row_times})
        """Columns whose times may not be finer than a microsecond in what is written."""
        self.cut: dict[str, int] = {}
        """By column: times that were written without what is finer than a microsecond."""

    @property
    def simple(self) -> bool:
        """True if every column is the sink's and wide enough, and there is a key of such columns."""
        own = {column.name for column in self.source.columns}
        fits = not self._coercer.absent and not self._coercer.narrow
        known = bool(self._primary_key) and own.issuperset(self._primary_key)
        return fits and known and not self._times_in_texts  # native code knows no spellings of times in texts

    def upsert(self, change: Change, emit: Callable[[Record], None]) -> None:
        """Emit the records of an insert or update; raises Drift, KeyChanged or RowError, having emitted nothing."""
        _, kind, before, after, message_key, declared = change
        assert after is not None, "an insert or update has it"
        row = parse_row(after)
        written = self._coercer.row(row, declared)
        key = self._key_of(row, declared)
        cut = self._cut(written)
        if self.key_from_message and message_key != key:
            check_key(self._primary_key, message_key, declared)
        old = None
        unsent = frozenset[str]() if declared is None else declared.unsent
        if kind is Kind.UPDATE:
            old = None if before is None else self._key_before(before, row, message_key, declared)
            if old is not None and old != key and not unsent:
                emit(Record(self.destination, old, None))
            self.updated += 1
        else:
            self.inserted += 1
        self._coercer.count_last()
        for name in cut:
            self.cut[name] = self.cut.get(name, 0) + 1
        if unsent:
            part = PartialRow(self._filled(written, unsent))
            part.old_key = old if old != key else None
            emit(Record(self.destination, key, part))
            return
        # A row that needs nothing keeps its bytes: white space, and both of two members of one name
        whole = written == row and len(row) == len(self.sink.columns)
        emit(Record(self.destination, key, bytes(after) if whole else self._filled(written)))

    def delete(self, change: Change, emit: Callable[[Record], None]) -> None:
        """Emit the tombstone of a delete; raises as `upsert` does."""
        if not self._primary_key:
            raise RowError("no-key", "a delete names no row of a table without a primary key")
        message_key, declared = change.key, change.declared
        row: Mapping[str, bytes] = {} if change.before is None else parse_row(change.before)
        check_before(self._primary_key, row, declared)
        row, unread = self._coercer.with_record_key(row, self.typed_key, message_key)
        key = self._key_in(row, declared)
        image = None if key is not None or message_key is None else key_image(message_key, self._primary_key)
        if image is not None:
            row = {**row, **{n: v for n, v in parse_row(image).items() if row.get(n, b"null") == b"null"}}
            key = self._key_in(row, declared)
        if key is None:
            raise RowError("no-key", "a delete needs its key in the before image or in the message key")
        if self.key_from_message and message_key != key:
            check_key(self._primary_key, message_key, declared)
        self.deleted += 1
        self._count_unread(unread)
        if self._names_row(row, declared):
            emit(Record(self.destination, key, None))

    def _cut(self, row: dict[str, bytes]) -> list[str]:
        """Cut the times of a row to microseconds, and return the columns where that changed anything."""
        out = []
        for name in self._row_times:
            text, lost = temporal.coarse(row.get(name, b"").decode())
            if lost:
                row[name] = text.encode()
                out.append(name)
        return out

    def _filled(self, row: dict[str, bytes], unsent: Collection[str] = ()) -> bytes:
        """Return the text of a row: its own columns in their order, then those that it lacks, as null.

        `unsent`: columns whose values are not known, which stay out of it.
        """
        lacks = (c.name for c in self.sink.columns if c.name not in row and c.name not in unsent)
        return object_of(row | dict.fromkeys(lacks, b"null"))

    def _key_of(self, row: Mapping[str, bytes], declared: InlineSchema | None) -> bytes:
        """Return the key of a row's values as the message has them; raises RowError where one is missing."""
        parts = {}
        for name in self._primary_key:
            value = row.get(name, b"null")
            if value == b"null":
                raise RowError("null-key", f"primary key column {name!r} is null or missing")
            if name in self._key_times and temporal.coarse(value.decode())[1]:
                msg = f"key column {name!r} holds {value[:60].decode()}, finer than the microsecond that is written"
                raise RowError("type-mismatch", msg)
            if not self._of_table:
                value = value_in_key(declared, name, value)
            if name in self._times_in_texts and value[:1] == b'"':
                value = temporal.time_said(value[1:-1].decode()) or value
            parts[name] = key_text(
                value,
                as_string=self.strings_in_keys,
                is_number=is_number(declared, name),
                bare=name in self.bare_numbers,
            )
        return object_of(parts)

    def _key_in(self, image: Mapping[str, bytes], declared: InlineSchema | None) -> bytes | None:
        """Return the key in an image that may be partial; None if it lacks a key column."""
        if any(image.get(name, b"null") == b"null" for name in self._primary_key):
            return None
        return self._key_of(image, declared)

    def _names_row(self, image: Mapping[str, bytes], declared: InlineSchema | None) -> bool:
        """Return whether a delete of an image's key is written, which it has: a row of the sink's table may have it."""
        of_rows = (self._coercer.names_row(name, image[name], declared) for name in self._primary_key)
        return self.deletes_are_rows or all(of_rows)

    def _count_unread(self, names: Iterable[str]) -> None:
        for name in names:
            count_up(self.unread, name, 1, OTHERS)

    def _key_before(
        self, before: msgspec.Raw, row: dict[str, bytes], message_key: bytes | None, declared: InlineSchema | None
    ) -> bytes | None:
        """Return the key before an update, as far as its before image tells it; raises RowError. `row`: the row after.

        None where the before image does not tell it, or tells of no change of the key, or of one that no row has.
        """
        image, unread = self._coercer.with_record_key(parse_row(before), self.typed_key, message_key)
        self._count_unread(unread)
        if declared is None or not declared.overlay:
            check_before(self._primary_key, image, declared)
            key = self._key_in(image, declared)
        elif image.keys().isdisjoint(self._primary_key):
            return None
        else:
            image = {**row, **image}
            key = self._key_of(image, declared)
        return key if key is None or self._names_row(image, declared) else None


class AppendEncoder(UpsertEncoder):
    """The encoder of one source table's changes. A delete is the row before it, as far as a message has it."""

    deletes_are_rows = True

    def marking(self, deleted: str) -> Self:
        """Return this encoder, with the column that is true in the row of a delete."""
        self._mark = {deleted: b"true"}
        return self

    def upsert(self, change: Change, emit: Callable[[Record], None]) -> None:
        """Emit the row of an insert or update, behind that of a delete where the key changes."""
        super().upsert(change, lambda record: emit(self._row(record, change)))

    def delete(self, change: Change, emit: Callable[[Record], None]) -> None:
        """Emit the row of a delete; raises as `upsert` does."""
        super().delete(change, lambda record: emit(self._row(record, change)))

    def _row(self, record: Record, change: Change) -> Record:
        """Return a record as it is, and for a tombstone that of the row which is gone."""
        if record.value is not None:
            return record
        image = {} if change.before is None else self._coercer.last_row(change.before, change.declared)
        if record.key is not None and not image.keys() >= {*self._primary_key}:
            of_key = {name: bytes(value) for name, value in fields_of(record.key).items() if name not in image}
            self._coercer.count_rounded(of_key, change.declared)
        return record._replace(value=object_of({**image, **self._mark}))

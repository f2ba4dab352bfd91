"""Changes for sinks that show whole rows: before and after image column by column, in the order of the sink's table.

In: the schemas of a source and a sink table. Out: for each change what the sink makes of its images, by a template of
pieces, or by a format that has a schema for each table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Self

from ingest.encode.coercer import OTHERS, RowCoercer, check_before, check_key
from ingest.encode.upsert_encoder import Destination, Record
from ingest.formats.template import ColumnRef, Image, Segments, Value, fill
from ingest.model.cache import count_up
from ingest.model.change import Change, InlineSchema, Kind, is_number, value_in_key
from ingest.model.jsontext import key_image, key_text, parse_row
from ingest.model.reject import RowError
from ingest.model.spelling import says
from ingest.model.types import DataType, is_text
from ingest.model.values import coarse, has_times
from ingest.model.values import coarse as coarse_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import msgspec

    from ingest.encode.record_metadata import RecordMetadata
    from ingest.formats.written import Rounding
    from ingest.model.schema import TableSchema
    from ingest.model.table import TableId
    from ingest.schema.evolve import SourceTable
    from ingest.schema.infer import Inference

_NULL: Final = b"null"


class RowChange(NamedTuple):
    """A change as sinks see it: images in the sink's types, and keys, which know no types (`model/jsontext.py`)."""

    kind: Kind
    before: Image | None
    after: Image | None
    key: Image
    """The texts of the primary key's values, after the change or before a delete."""
    old_key: Image
    """Those before an update, as far as they are known."""

    def split(self) -> tuple[RowChange, ...]:
        """Return an update that changes the key as a delete and an insert; any other change alone."""
        whole = self.kind is Kind.UPDATE and self.before is not None and self.old_key.keys() == self.key.keys()
        if not whole or self.old_key == self.key:
            return (self,)
        return (
            RowChange(Kind.DELETE, self.before, None, self.old_key, {}),
            RowChange(Kind.INSERT, None, self.after, self.key, {}),
        )


class RecordTemplate(NamedTuple):
    """The form of the records of a sink table. A `ChangeEncoder` and native code both render by it."""

    destination: Destination
    key: Segments | TypedKey | None
    """The key; native code takes pieces only. None: records have no keys."""
    value: Value
    """The value; native code takes a `ValueTemplate` only."""
    moves: bool
    """True if an update that changes the key writes null under the old one."""
    splits: bool = False
    """True if an update that changes the key is rendered as a delete and an insert."""

    def render(self, change: RowChange) -> Iterator[Record]:
        """Yield the records for a change. Raise what the functions of formats with schemas raise."""
        value = self.value(change.kind, change.before, change.after)
        if self.key is None:
            if value is not None:
                yield Record(self.destination, None, value)
            return
        if isinstance(self.key, TypedKey):
            row = change.before if change.after is None else change.after
            key, old = self.key.of(row or {}, change.key), self.key.before(change) if self.moves else None
        else:
            key, old = fill(self.key, None, change.key), None
            if self.moves and all(cell.name in change.old_key for cell in self.key if isinstance(cell, ColumnRef)):
                old = fill(self.key, None, change.old_key)
        if old is not None and old != key:
            yield Record(self.destination, old, None)
        yield Record(self.destination, key, value)


class ChangeEncoder:
    """The encoder of one source table's rows, shown as whole rows of one sink table."""

    def __init__(
        self,
        table: TableId,
        source: SourceTable,
        sink: TableSchema,
        render: Callable[[RowChange], Iterable[Record]],
        inference: Inference,
        *,
        template: RecordTemplate | None = None,
        coarse: Callable[[DataType], bool] | None = None,
        key_columns: Iterable[str] = (),
    ) -> None:
        """`render`: the sink's records for a change, without what `with_metadata` adds; `template`: where it renders.

        `coarse`: whether that writes the times of a type in microseconds; None: it writes all values as they are.
        `key_columns`: the columns of records' keys, where these are not the primary key.
        """
        self.metadata: RecordMetadata | None = None
        """The headers and times of records that rows have columns of."""
        self.table = table
        self.source, self.sink, self.template = source.schema, sink, template
        self.inserted = self.updated = self.deleted = self.unrepresentable = 0
        self.bytes_in = self.bytes_out = 0
        self._primary_key = sink.primary_key
        self._more_of_key = tuple(name for name in key_columns if name not in sink.primary_key)
        """Columns of keys that are not of the primary key: their values may be null."""
        self._key_columns = (*sink.primary_key, *self._more_of_key)
        self._coercer = RowCoercer(table, source.schema, sink, inference, self._more_of_key)
        self._rounding: Callable[[], Rounding] | None = None
        self.withheld, self.rounded = self._coercer.withheld, self._coercer.rounded
        self.numbers = self._coercer.numbers
        self.strings_in_keys = self._coercer.strings_in_keys
        self.bare_numbers = source.schema.bare_numbers
        """Columns of the key whose texts are written as numbers, where messages declare that they are numbers."""
        self.declared = self._coercer.declared
        self._fine = {column.name: column.type for column in sink.columns if coarse is not None and coarse(column.type)}
        """Times that may be finer than what is written."""
        self.cut: dict[str, int] = {}
        """By column: values that were written without what is finer than a microsecond."""
        self.unread: dict[str, int] = {}
        """By column: values of rows before a change that are not known, as they cannot be read or written."""
        kinds = {column.name: column.type for column in sink.columns}
        self._by_type = None if coarse is None else kinds
        declared_key = {name: kinds[name] for name in self._key_columns if name in self.declared and name in kinds}
        self._key_types = declared_key if self._by_type is None else self._by_type
        """Types that values of the key have to be of."""
        self._columns = [column.name for column in sink.columns]
        self._render = render
        self._splits = False
        self.key_from_message = source.key_from_message

    def with_metadata(self, metadata: RecordMetadata | None) -> Self:
        """Return this encoder, whose records get the headers and times that `metadata` finds in their rows."""
        self.metadata = metadata
        return self

    def with_splits(self, splits: bool) -> Self:
        """Return this encoder, which renders an update that changes the key as a delete and an insert, if it splits."""
        self._splits = splits
        return self

    def with_rounding(self, rounding: Callable[[], Rounding] | None) -> Self:
        """Return this encoder, which counts the numbers that become others where they are written.

        `rounding` is asked once something was written. None: the types of the sink's columns say which do.
        """
        self._rounding, self._coercer.counts_numbers = rounding, rounding is None
        return self

    @property
    def standard(self) -> str:
        """The way in which timestamps are written."""
        return self._coercer.standard

    @property
    def simple(self) -> bool:
        """True if every column is the sink's and wide enough."""
        return not self._coercer.absent and not self._coercer.narrow

    def upsert(self, change: Change, emit: Callable[[Record], None]) -> None:
        """Emit an insert or update; raises Drift, KeyChanged or RowError, having emitted nothing."""
        _, kind, before, after, message_key, declared = change
        assert after is not None, "an insert or update has it"
        text = self._coercer.row(parse_row(after), declared)
        row = {name: text.get(name, b"null") for name in self._columns}
        key = self._key_in(after, declared)
        self._check(key, message_key, declared)
        old, old_key = None, {}
        if kind is Kind.UPDATE and before is not None:
            old, old_key = self._coercer.image(before), self._key_in(before, declared)
            if declared is not None and declared.overlay:
                old, old_key = {**row, **old}, {**key, **old_key}
            check_before(self._key_columns, old_key, declared)
            old, old_key = self._with_written_key(old, old_key, message_key, declared)
            old = self._writable(old)
        shown = RowChange(kind, old, row, key, old_key)
        parts = shown.split() if self._splits else (shown,)
        for record in [record for part in parts for record in self._records(part)]:  # all or none
            emit(record)
        self._count_numbers(row, old, declared, moved=bool(old_key) and old_key != key)
        for name, data_type in self._fine.items():
            if coarse_of(data_type, row[name].decode())[1]:
                self.cut[name] = self.cut.get(name, 0) + 1
        if kind is Kind.UPDATE:
            self.updated += 1
        else:
            self.inserted += 1

    def delete(self, change: Change, emit: Callable[[Record], None]) -> None:
        """Emit a delete; raises as `upsert` does."""
        before, message_key, declared = change.before, change.key, change.declared
        row, key = ({}, {}) if before is None else (self._coercer.image(before), self._key_in(before, declared))
        check_before(self._key_columns, key, declared)
        row, key = self._with_written_key(row, key, message_key, declared)
        image = None if message_key is None else key_image(message_key, self._columns)
        if image is not None:
            of_key = self._coercer.image(image)
            null = {n: of_key[n] for n in self._primary_key if row.get(n) == _NULL and n in of_key}
            row = {**of_key, **row, **null}
            key = {**self._key_in(image, declared), **key}
        if not row or (self._primary_key and not key):
            raise RowError("no-key", "a delete needs its row in the before image, or its key in the message key")
        self._check(key, message_key, declared)
        for name in self._more_of_key:
            if name not in key:
                raise RowError("no-key", f"a delete needs {name!r}, a column of the record's key, in its before image")
        row = self._writable(row)
        said = False
        for record in self._records(RowChange(Kind.DELETE, row, None, key, {})):
            emit(record)
            said = True
        for name in () if self.metadata is None else self.metadata.unread(row):
            count_up(self.unread, name, 1, OTHERS)
        if said:
            self.deleted += 1
            self._count_numbers(None, row, declared, moved=True)
        else:
            self.unrepresentable += 1

    def _records(self, change: RowChange) -> Iterable[Record]:
        records = self._render(change)
        # All are made before: of a row whose value and metadata are both wrong, the value is what a reject tells of
        return records if self.metadata is None else self.metadata.placed(change, [*records])

    def _count_numbers(
        self, row: Image | None, old: Image | None, declared: InlineSchema | None, *, moved: bool
    ) -> None:
        """Count the numbers that were rounded in the records of a change.

        `row`, `old`: the row after the change and the one before it. `moved`: a record has the key of the row before.
        """
        coercer, rounding = self._coercer, None if self._rounding is None else self._rounding()
        if row is not None:
            coercer.count_last()
        if rounding is None:
            if old is not None:
                coercer.count_rounded(old, declared)
            return
        if row is not None:
            coercer.count_written(row, declared, rounding.after, rounding.keys, counted_before=True)
        if old is not None:
            coercer.count_written(old, declared, rounding.before, rounding.keys if moved else {})

    def _writable(self, image: Image) -> Image:
        """Return a row before a change without what its columns' types do not have, where values are written by these.

        Columns of the key stay: without them it would be another row.
        """
        of = {} if self._by_type is None else self._by_type
        unfit = [
            name
            for name, text in image.items()
            if name in of and name not in self._key_columns and not self._coercer.is_of(name, of[name], text)
        ]
        for name in unfit:
            count_up(self.unread, name, 1, OTHERS)
        return {name: text for name, text in image.items() if name not in unfit}

    def _with_written_key(
        self, image: Image, key: Image, message_key: bytes | None, declared: InlineSchema | None
    ) -> tuple[Image, Image]:
        """Return a row before a change, and its key, with the record's key where the row's own cannot be written.

        Raises RowError where the record's key does not tell it.
        """
        of = self._key_types
        keys = ((name, image.get(name, _NULL)) for name in self._key_columns if name in of)
        wrong = [name for name, text in keys if text != _NULL and not says(of[name], text, self.standard)]
        if not wrong:
            return image, key
        of_key = None if message_key is None else key_image(message_key, self._columns)
        told, told_row = ({}, {}) if of_key is None else (self._key_in(of_key, declared), self._coercer.image(of_key))
        image, key = dict(image), dict(key)
        for name in wrong:
            if name not in told:
                what = f"column {name!r} holds {image[name][:60].decode('utf-8', 'backslashreplace')}"
                msg = f"the row before: {what}, which is not of its type, and the record's key does not tell it"
                raise RowError("type-mismatch", msg)
            image[name], key[name] = told_row[name], told[name]
            count_up(self.unread, name, 1, OTHERS)
        return image, key

    def _key_in(self, image: msgspec.Raw, declared: InlineSchema | None) -> Image:
        """Return the texts of the key's values, as far as an image has them. Raises RowError.

        Of a column of the primary key, null is none.
        """
        fields = parse_row(image) if self._key_columns else {}
        key = {
            name: key_text(
                value_in_key(declared, name, fields[name]),
                as_string=self.strings_in_keys,
                is_number=is_number(declared, name),
                bare=name in self.bare_numbers,
            )
            for name in self._key_columns
            if fields.get(name, _NULL) != _NULL
        }
        return key | {name: _NULL for name in self._more_of_key if fields.get(name) == _NULL}

    def _check(self, key: Image, message_key: bytes | None, declared: InlineSchema | None) -> None:
        """Check the key of a row; raises RowError if it lacks one, KeyChanged if the message tells another one."""
        for name in self._primary_key:
            if name not in key:
                raise RowError("null-key", f"primary key column {name!r} is null or missing")
        if self.key_from_message and self._primary_key:
            check_key(self._primary_key, message_key, declared)


class TypedKey:
    """The key of a table's rows, in a format with a schema: its values have the types of the sink's columns."""

    def __init__(self, schema: TableSchema, columns: Sequence[str], rows: Callable[[Image], bytes]) -> None:
        """`columns` are those of the key. `rows` makes the bytes of a row of them."""
        of = {column.name: column.type for column in schema.columns}
        self._names = {name: is_text(of[name]) for name in columns}
        self._times = [(name, of[name]) for name in columns if has_times(of[name])]
        self._rows = rows

    def of(self, row: Image, key: Image) -> bytes:
        """Return the bytes of a row's key. `key` has the key's texts: those count for columns of texts.

        A number in a column of texts is one text, however it was spelled. Raise as the format's function does, and
        RowError for a time that is finer than a microsecond: without its end it would be another row's key.
        """
        for name, data_type in self._times:
            if row[name] != _NULL and coarse(data_type, row[name].decode())[1]:
                msg = f"key column {name!r} holds {row[name][:60].decode()}, finer than the microsecond that is written"
                raise RowError("type-mismatch", msg)
        return self._rows({name: key[name] if text else row[name] for name, text in self._names.items()})

    def before(self, change: RowChange) -> bytes | None:
        """Return the bytes of the key before an update; None where it is not known."""
        row = change.before or {}
        if not all(name in change.old_key and name in row for name in self._names):
            return None
        return self.of(row, change.old_key)

"""Records whose keys or values are of a format that has a schema for each table.

In: a change, with its images in the sink's types. Out: the sink's records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from ingest.encode.change_encoder import records_of
from ingest.formats.template import ColumnRef, fill
from ingest.model.reject import RowError
from ingest.model.types import is_text
from ingest.model.values import coarse, has_times

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ingest.encode.change_encoder import RowChange
    from ingest.encode.record_metadata import RecordMetadata
    from ingest.encode.upsert_encoder import Destination, Record
    from ingest.formats.template import Image, Segments, Value
    from ingest.model.schema import TableSchema


_NULL: Final = b"null"


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


class TextKey:
    """The key of a table's rows, by a pattern of texts."""

    def __init__(self, segments: Segments) -> None:
        """Take the pattern."""
        self._segments = segments
        self._names = [cell.name for cell in segments if isinstance(cell, ColumnRef)]

    def of(self, _row: Image, key: Image) -> bytes:
        """Return the bytes of a row's key, of which `key` has the texts."""
        return fill(self._segments, None, key)

    def before(self, change: RowChange) -> bytes | None:
        """Return the bytes of the key before an update; None where it is not known."""
        known = all(name in change.old_key for name in self._names)
        return fill(self._segments, None, change.old_key) if known else None


class TypedRecords(NamedTuple):
    """The form of records of such formats."""

    destination: Destination
    key: TypedKey | TextKey | None
    value: Value
    moves: bool
    """True if an update that changes the key writes null under the old one."""
    metadata: RecordMetadata | None = None
    """Headers and times that rows have columns of."""

    def render(self, change: RowChange) -> Iterator[Record]:
        """Yield the records for a change. Raise what the functions of the formats raise."""
        records = self._made(change)
        return records if self.metadata is None else self.metadata.placed(change, records)

    def _made(self, change: RowChange) -> Iterator[Record]:
        value = self.value(change.kind, change.before, change.after)
        key = old = None
        if self.key is not None:
            row = change.before if change.after is None else change.after
            key = self.key.of(row or {}, change.key)
            old = self.key.before(change) if self.moves and change.after is not None else None
        return records_of(self.destination, value, key, old)

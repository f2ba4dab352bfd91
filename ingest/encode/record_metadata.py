"""The headers and the time of a sink's records, taken from columns of their rows.

In: a change with its images in the sink's types. Out: headers, and milliseconds since 1970. Rules:
docs/spec/sinks.md#headers-and-times.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import msgspec

from ingest.model import temporal, types
from ingest.model.reject import RowError
from ingest.model.types import BinaryType, MapType, TimestampNTZType, TimestampType

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from ingest.encode.change_encoder import RowChange
    from ingest.encode.upsert_encoder import Record
    from ingest.formats.template import Image
    from ingest.model.schema import TableSchema

    RecordHeaders: TypeAlias = tuple[tuple[str, bytes | None], ...]

HEADERS: Final = "headers"
TIMESTAMP: Final = "timestamp"
WRITABLE: Final = (HEADERS, TIMESTAMP)
"""The facts of a record that a column may say (`metadata.list` of a sink)."""
_NULL: Final = b"null"
_WRONG: Final = "bad-metadata"


class RecordDestination(NamedTuple):
    """The destination of one record alone: that of its table, with the record's own headers and time."""

    topic: str
    headers: RecordHeaders | None
    partition: int | bytes
    millis: int | None
    """Milliseconds since 1970; None: the time when it is written."""


class RecordMetadata:
    """The headers and times of the records of one sink table."""

    def __init__(self, names: Collection[str], schema: TableSchema) -> None:
        """`names` are among WRITABLE. Raise RowError for a column of another type than the record has."""
        of = {column.name: column.type for column in schema.columns if column.name in names}
        self._headers = of.get(HEADERS)
        self._has_time = TIMESTAMP in of
        kind = of.get(HEADERS)
        if kind is not None and not (isinstance(kind, MapType) and types.is_text(kind.key) and _is_header(kind)):
            msg = f"the column 'headers' is {types.name(kind)}; headers of records are a MAP<STRING, BYTES or STRING>"
            raise RowError(_WRONG, msg)
        self._as_bytes = isinstance(kind, MapType) and isinstance(kind.value, BinaryType)
        time = of.get(TIMESTAMP)
        if time is not None and not isinstance(time, (TimestampType, TimestampNTZType)):
            msg = f"the column 'timestamp' is {types.name(time)}; the time of a record is a TIMESTAMP or TIMESTAMP_LTZ"
            raise RowError(_WRONG, msg)

    def placed(self, change: RowChange, records: Iterable[Record]) -> Iterator[Record]:
        """Yield the records of a change with the headers and the time of its row. Raise RowError.

        The row is that after the change, or before a delete, of which a column that is wrong says nothing.
        """
        row = (change.before if change.after is None else change.after) or {}
        headers, millis, wrong = self._of(row)
        if wrong and change.after is not None:
            raise next(iter(wrong.values()))
        for record in records:
            place: Any = record.destination
            topic, of_table, partition = place
            together = (*(of_table or ()), *headers)
            yield record._replace(destination=RecordDestination(topic, together or None, partition, millis))

    def unread(self, row: Image) -> Iterable[str]:
        """Return the columns of a row before a delete that say no headers, or no time of a record."""
        return self._of(row)[2]

    def _of(self, row: Image) -> tuple[RecordHeaders, int | None, dict[str, RowError]]:
        """Return what a row says of its record, and by column why it says nothing."""
        wrong: dict[str, RowError] = {}
        headers: RecordHeaders = ()
        millis = None
        try:
            headers = self._headers_of(row.get(HEADERS, _NULL))
        except RowError as exc:
            wrong[HEADERS] = exc
        try:
            millis = self._millis_of(row.get(TIMESTAMP, _NULL))
        except RowError as exc:
            wrong[TIMESTAMP] = exc
        return headers, millis, wrong

    def _headers_of(self, text: bytes) -> RecordHeaders:
        if self._headers is None or text == _NULL:
            return ()
        try:
            found = msgspec.json.decode(text, type=dict[str, str | None])
            return tuple((name, None if value is None else self._bytes(value)) for name, value in found.items())
        except (msgspec.DecodeError, binascii.Error) as exc:
            raise RowError(_WRONG, f"the column 'headers' is no map of texts or bytes: {exc}") from exc

    def _bytes(self, value: str) -> bytes:
        return base64.b64decode(value, validate=True) if self._as_bytes else value.encode("utf-8", "surrogatepass")

    def _millis_of(self, text: bytes) -> int | None:
        if not self._has_time or text == _NULL:
            return None
        try:
            millis = temporal.micros(text) // 1000
        except ValueError as exc:
            raise RowError(_WRONG, f"the column 'timestamp' is no time: {exc}") from exc
        if millis <= 0:  # the client takes zero for the time when it writes
            raise RowError(
                _WRONG, f"the column 'timestamp' is {text.decode()}; the time of a record is after 1970 began"
            )
        return millis


def _is_header(kind: MapType) -> bool:
    return isinstance(kind.value, BinaryType) or types.is_text(kind.value)

"""The log while tables are in snapshot: which of its changes are written, and which are applied over a chunk's rows.

- `KeyOrder` compares keys as the server does. Numbers, times and bytes are ranked here; texts, UUIDs and addresses have
  an order of their own (collations, blanks at the end, MariaDB's UUIDs by their segments), so the server compares them,
  many at once.
- `passed` leaves out changes that a chunk has, or will have; each half of an update is judged by its own key.
- `merge` applies all changes between two points of the log over rows that were seen somewhere between them.

Rules: docs/spec/mysql.md#snapshot.
"""

from __future__ import annotations

import re
from base64 import b64decode
from dataclasses import dataclass
from decimal import Decimal
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from ingest.errors import ConfigError
from ingest.model.jsontext import object_of
from ingest.model.record import Record, WrappedRecord, offset_of
from ingest.sources.mysql.chunks import FLOATS, INTEGERS, NUMBERED, Bound, TableChunk, literal
from ingest.sources.mysql.query_values import is_selectable
from ingest.sources.mysql.types import BINARIES, FIXED, TEXTS, Column, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Part: TypeAlias = Any
    """A column of a key: what orders as the server does, or what the server is asked with (a literal)."""
    Ask: TypeAlias = Callable[[str], Sequence[object]]
    """Function that runs a SELECT of one row and returns its values. It raises what the connection raises."""
    Key: TypeAlias = tuple[Part, ...]
    Row: TypeAlias = dict[str, Any]
    Fields = dict[str, Any]
    """A row's columns, each with the JSON text of its value."""

_BY_SERVER: Final = TEXTS | set(FIXED)
_SINGLE: Final = Struct("<f")
_DIGITS: Final = re.compile(r"\d+").findall
ASKED: Final = 400
"""Comparisons in a statement, at most."""
_ASKED_BYTES: Final = 1 << 20
"""Bytes of a statement from which on no comparison is added; servers take 4 MiB, unless they are set otherwise."""


class KeyOrder:
    """Compares keys of rows, as records have them, with bounds, as the server gave them."""

    def __init__(self, key: Sequence[Column], ask: Ask) -> None:
        """`key`: the columns that the table is split by."""
        self._key = tuple(key)
        self._ask = ask

    def of_bound(self, bound: Bound) -> tuple[Part, ...]:
        """Return a bound as it is compared."""
        return tuple(_part_of_bound(column, text) for column, text in zip(self._key, bound, strict=True))

    def of_row(self, row: Mapping[str, Any], otherwise: Mapping[str, Any] | None = None) -> tuple[Part, ...]:
        """Return a row's key as it is compared.

        `row`: an image of a record, whose JSON numbers are int or Decimal; `otherwise`: the image before, which has
        the columns that a partial image lacks. Raise ConfigError where neither has one.
        """
        return tuple(_part_of_value(column, self._value(column, row, otherwise)) for column in self._key)

    @staticmethod
    def _value(column: Column, row: Mapping[str, Any], otherwise: Mapping[str, Any] | None) -> object:
        if column.name in row:
            return row[column.name]
        if otherwise is not None and column.name in otherwise:
            return otherwise[column.name]
        msg = f"a change in the log lacks the column {column.name}, by which its table is read in chunks"
        raise ConfigError(msg, "SET GLOBAL binlog_row_image = 'FULL', and begin the sessions that write again")

    def places(self, keys: Sequence[tuple[Part, ...]], bounds: Sequence[tuple[Part, ...]]) -> list[int]:
        """Return for each key how many bounds are below it. Bounds are in the server's order."""
        ranges: dict[tuple[Part, ...], list[int]] = {key: [0, len(bounds)] for key in keys}
        open_ = [key for key, (low, high) in ranges.items() if low < high]
        while open_:
            asked = []
            for key in open_:
                low, high = ranges[key]
                middle = (low + high) // 2
                answer = self._above(key, bounds[middle])
                if answer is None:
                    asked.append((key, middle))
                else:
                    _narrow(ranges[key], middle, above=answer)
            for (key, middle), above in zip(asked, self._answers(asked, bounds), strict=True):
                _narrow(ranges[key], middle, above=above)
            open_ = [key for key in open_ if ranges[key][0] < ranges[key][1]]
        return [ranges[key][0] for key in keys]

    def _above(self, key: tuple[Part, ...], bound: tuple[Part, ...]) -> bool | None:
        """Return whether a key is above a bound; None where the server has to say."""
        for column, ours, other in zip(self._key, key, bound, strict=True):
            if column.type in _BY_SERVER:
                return None
            if ours != other:
                return bool(ours > other)
        return False

    def _answers(self, asked: Sequence[tuple[tuple[Part, ...], int]], bounds: Sequence[tuple[Part, ...]]) -> list[bool]:
        answers: list[bool] = []
        parts: list[str] = []
        size = 0
        for key, middle in asked:
            parts.append(self._question(key, bounds[middle]))
            size += len(parts[-1])
            if len(parts) == ASKED or size > _ASKED_BYTES:
                answers += map(bool, self._ask("SELECT " + ", ".join(parts)))
                parts, size = [], 0
        if parts:
            answers += map(bool, self._ask("SELECT " + ", ".join(parts)))
        return answers

    def _question(self, key: tuple[Part, ...], bound: tuple[Part, ...]) -> str:
        """Return an expression that is true where a key is above a bound."""
        out = ""
        for column, ours, other in reversed(list(zip(self._key, key, bound, strict=True))):
            if column.type not in _BY_SERVER:
                # What is known here is not asked
                out = "1" if ours > other else out if ours == other and out else "0"
            else:
                out = f"({ours} > {other} OR ({ours} = {other} AND {out}))" if out else f"{ours} > {other}"
        return out


def _narrow(span: list[int], middle: int, *, above: bool) -> None:
    if above:
        span[0] = middle + 1
    else:
        span[1] = middle


def _part_of_bound(column: Column, text: str) -> Part:
    kind = column.type
    if kind in TEXTS:
        return _collated(column, literal(column, text))
    if kind in FIXED:
        return f"CAST({literal(column, text)} AS {kind})"
    if kind in BINARIES:
        return bytes.fromhex(text)
    if kind in INTEGERS or kind in NUMBERED or kind == "year":
        return int(text)
    if kind == "decimal":
        return Decimal(text)
    if kind in FLOATS:
        return _rounded(column, float(text))
    return _moment(kind, text)


def _part_of_value(column: Column, value: object) -> Part:
    kind = column.type
    if value is None:
        msg = f"the log has NULL in {column.name}, by which its table is read in chunks, and which is NOT NULL"
        raise ConfigError(msg, "choose another scan.incremental.snapshot.chunk.key-column")
    if kind in TEXTS:
        utf8 = str(value).encode("utf-8", "replace").hex()
        return _collated(column, f"CONVERT(_utf8mb4 X'{utf8}' USING {column.charset or 'utf8mb4'})")
    if kind in FIXED:
        return f"CAST({literal(column, str(value))} AS {kind})"
    if kind in BINARIES:
        return b64decode(str(value))
    if kind == "bit":
        return int(value) if isinstance(value, bool) else int.from_bytes(b64decode(str(value)), "big")
    if kind == "enum":
        return column.labels.index(str(value)) + 1 if value in column.labels else 0
    if kind == "set":
        labels = str(value).split(",") if value else []
        return sum(1 << column.labels.index(label) for label in labels)
    if kind in INTEGERS or kind == "year":
        return int(str(int(value))) if isinstance(value, bool) else int(str(value))
    if kind == "decimal":
        return Decimal(str(value))
    if kind in FLOATS:
        return _rounded(column, float(str(value)))
    return _moment(kind, str(value))


def _collated(column: Column, text: str) -> str:
    return f"{text} COLLATE {column.collation}" if column.collation else text


def _rounded(column: Column, value: float) -> float:
    """Return a number as its column holds it: the text of a FLOAT has fewer digits than its value as a DOUBLE."""
    return float(_SINGLE.unpack(_SINGLE.pack(value))[0]) if column.type == "float" else value


def _moment(kind: str, text: str) -> int:
    """Return a time as a whole number in the order of times."""
    whole, _, fraction = text.removesuffix("Z").partition(".")
    micros = int(fraction.ljust(6, "0")[:6])
    if kind != "time":
        # As the server keeps it: a day that is none, 2020-00-15, has its place as well
        return int("".join(_DIGITS(whole)).ljust(14, "0")) * 1_000_000 + micros
    hours, minutes, seconds = map(int, _DIGITS(whole))
    size = (hours * 3600 + minutes * 60 + seconds) * 1_000_000 + micros
    return -size if text.startswith("-") else size


_NEVER: Final = 1 << 63
"""Above every position."""
_HEAD: Final = 5
"""Bytes in front of a record's JSON: a zero, and the id of its schema."""
row_of = msgspec.json.Decoder(dict[str, Any] | None, float_hook=Decimal).decode
"""Function that returns an image's values; numbers with a fraction are Decimal."""


@dataclass(frozen=True, slots=True)
class Region:
    """Rows whose key is above the region before, and not above `upper`."""

    upper: Bound | None
    """None: up to the last row."""
    mark: int | None
    """The position of the log whose state the sink has of these rows: changes from there on are written. None: they
    will be read at a later state, so changes are left out."""


NULL: Final = msgspec.Raw(b"null")


class LoggedChange(msgspec.Struct, omit_defaults=True):
    """A record's JSON, or one change of several in a record."""

    before: msgspec.Raw
    """The JSON text of the row before; NULL where there was none."""
    after: msgspec.Raw
    source: msgspec.Raw
    op: str
    id: int | None = None

    def row(self, *, before: bool) -> dict[str, Any] | None:
        """Return an image's values, None where there is none."""
        row: dict[str, Any] | None = row_of(self.before if before else self.after)
        return row


_change_of = msgspec.json.Decoder(LoggedChange).decode
_changes_of = msgspec.json.Decoder(list[LoggedChange]).decode


class Passing:
    """One table in snapshot, of one entry of the history of schemas."""

    def __init__(self, key: Sequence[Column], regions: Sequence[Region], ask: Ask, columns: int = 0) -> None:
        """`key`: columns that the table is split by, none where it is one piece. `columns`: those of a whole image."""
        self._order = KeyOrder(key, ask)
        self._marks = [_NEVER if region.mark is None else region.mark for region in regions]
        self._bounds = [self._order.of_bound(region.upper) for region in regions[:-1] if region.upper is not None]
        self._columns = columns

    def of(self, changes: Sequence[tuple[int, LoggedChange]]) -> list[LoggedChange | None]:
        """Return for each change, given with its position, what of it is written."""
        if len(set(self._marks)) == 1:
            return [change if at >= self._marks[0] else None for at, change in changes]
        keys: list[Key] = []
        images = []
        for _, change in changes:
            before, after = change.row(before=True), change.row(before=False)
            images.append((before, after))
            keys += [] if before is None else [self._order.of_row(before)]
            keys += [] if after is None else [self._order.of_row(after, before)]
        places = iter(self._order.places(keys, self._bounds))
        return [
            self._half(
                change,
                before,
                after,
                before_passes=before is not None and at >= self._marks[next(places)],
                after_passes=after is not None and at >= self._marks[next(places)],
            )
            for (at, change), (before, after) in zip(changes, images, strict=True)
        ]

    def _half(
        self, change: LoggedChange, before: Row | None, after: Row | None, *, before_passes: bool, after_passes: bool
    ) -> LoggedChange | None:
        """Return what of a change is written."""
        if before is None or after is None:
            return change if before_passes or after_passes else None
        if before_passes and after_passes:
            return change
        if before_passes:  # the row has gone to keys that are read later
            return LoggedChange(change.before, NULL, change.source, "d", change.id)
        if not after_passes:
            return None
        if len(after) < self._columns:
            msg = "a row has moved from one chunk of its table to another, and the log has only some of its columns"
            raise ConfigError(msg, "SET GLOBAL binlog_row_image = 'FULL' until the snapshot is complete")
        return LoggedChange(NULL, change.after, change.source, "c", change.id)


@dataclass(slots=True)
class ChangedRecord(WrappedRecord):
    """A record of which a part is written."""

    record: Record
    text: bytes

    def value(self) -> bytes:
        """Return the part that is written."""
        return self.text


def passed(records: Sequence[Record], tables: Mapping[int, Passing]) -> Sequence[Record]:
    """Return the records of the log that are written, in order; `records` itself where all of them are.

    `tables`: the tables in snapshot, by the id of their schema. Raise ConfigError, and what `Ask` raises.
    """
    read = [changes_in(record) if _may_concern(record, tables) else [] for record in records]
    asked: dict[int, list[tuple[int, LoggedChange, tuple[int, int]]]] = {}
    for at, changes in enumerate(read):
        for index, (id_, change) in enumerate(changes):
            if id_ in tables:
                asked.setdefault(id_, []).append((offset_of(records[at]), change, (at, index)))
    differing: dict[tuple[int, int], LoggedChange | None] = {}
    for id_, of_table in asked.items():
        answers = tables[id_].of([(position, change) for position, change, _ in of_table])
        differing.update(
            (place, answer)
            for (_, change, place), answer in zip(of_table, answers, strict=True)
            if answer is not change
        )
    if not differing:
        return records
    touched = {at for at, _ in differing}
    out: list[Record] = []
    for at, record in enumerate(records):
        if at not in touched:
            out.append(record)
            continue
        whole = [differing.get((at, index), change) for index, (_, change) in enumerate(read[at])]
        left = [change for change in whole if change is not None]
        if left:
            value = record.value() or b""
            text = msgspec.json.encode(left if value[_HEAD : _HEAD + 1] == b"[" else left[0])
            out.append(ChangedRecord(record, value[:_HEAD] + text))
    return out


def _may_concern(record: Record, tables: Mapping[int, Passing]) -> bool:
    """Return whether a record may have changes of these tables, without reading them."""
    value = record.value() or b""
    return value[_HEAD : _HEAD + 1] == b"[" or int.from_bytes(value[1:_HEAD], "big") in tables


def changes_in(record: Record) -> list[tuple[int, LoggedChange]]:
    """Return the changes of a record, each with the id of its schema."""
    value = record.value() or b""
    id_, text = int.from_bytes(value[1:_HEAD], "big"), value[_HEAD:]
    if text.startswith(b"["):
        return [(id_ if change.id is None else change.id, change) for change in _changes_of(text)]
    return [(id_, _change_of(text))]


_fields = msgspec.json.Decoder(dict[str, msgspec.Raw] | None).decode
"""Function that returns an image's columns, None where there is none."""


def identity_of(table: Table) -> tuple[str, ...]:
    """Return the columns that tell a table's rows apart: the primary key, or a unique key without nulls."""
    nullable = {column.name.lower(): column.nullable for column in table.columns}
    own = {column.name.lower(): column.name for column in table.columns}
    for names in (table.primary_key, *table.unique_keys):
        if names and not any(nullable.get(name.lower(), True) for name in names):
            return tuple(own[name.lower()] for name in names)
    return ()


def merge(
    table: Table,
    key: Sequence[Column],
    chunk: TableChunk,
    rows: Sequence[bytes],
    changes: Sequence[LoggedChange],
    ask: Ask,
) -> list[bytes]:
    """Return a chunk's rows, the members of JSON objects, after all changes.

    A row that was changed has the bytes of its key in one of the changes, whichever state of it was read: so bytes are
    compared, and no collation. Whether a row lies in the chunk is asked of the key's order.
    """
    names = identity_of(table)
    touched: dict[tuple[bytes, ...], Fields | None] = {}
    images = [(_fields(change.before), _fields(change.after)) for change in changes]
    for before, after in images:
        for image in (before, None if after is None else {**(before or {}), **after}):
            if image is not None:
                touched[_identity(names, image)] = None
    out = []
    for row in rows:
        fields = _fields(b"{" + row + b"}") or {}
        identity = _identity(names, fields)
        if identity in touched:
            touched[identity] = fields
        else:
            out.append(row)
    for before, after in images:
        base: Fields = {}
        if before is not None:
            identity = _identity(names, before)
            base = {**before, **(touched[identity] or {})}
            touched[identity] = None
        if after is not None:
            identity = _identity(names, {**base, **after})
            # Of a partial image, the rest is in the row that was read, which may have its new key already
            touched[identity] = {**(touched[identity] or {}), **base, **after}
    left = [fields for fields in touched.values() if fields is not None]
    return out + [_members(table, fields) for fields in _within(key, chunk, left, ask)]


def _identity(names: Sequence[str], fields: Mapping[str, Any]) -> tuple[bytes, ...]:
    return tuple(bytes(fields[name]) for name in names)


def _members(table: Table, fields: Fields) -> bytes:
    """Return the members of a row's object, in the order of the table's columns. Raise ConfigError where some lack."""
    names = [column.name for column in table.columns if is_selectable(column)]
    missing = next((name for name in names if name not in fields), None)
    if missing is not None:
        msg = f"{table.database}.{table.name}: a row has moved between chunks, and the log has no value of {missing}"
        raise ConfigError(msg, "SET GLOBAL binlog_row_image = 'FULL' until the snapshot is complete")
    return object_of({name: fields[name] for name in names})[1:-1]


def _within(key: Sequence[Column], chunk: TableChunk, rows: Sequence[Fields], ask: Ask) -> list[Fields]:
    """Return the rows whose key lies in a chunk."""
    order = KeyOrder(key, ask)
    bounds = [order.of_bound(bound) for bound in (chunk.lower, chunk.upper) if bound is not None]
    keys = [order.of_row(row_of(msgspec.json.encode(fields))) for fields in rows]
    inside = int(chunk.lower is not None)
    return [fields for fields, place in zip(rows, order.places(keys, bounds), strict=True) if place == inside]

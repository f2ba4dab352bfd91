"""Which changes of the log are written while their table is in snapshot.

In: records of the log, and for each table in snapshot its regions: pieces of its key with what is known of their rows.
Out: the records without the changes that a chunk has, or will have. Each half of an update is judged by its own key.
Rules: docs/spec/mysql.md#snapshot.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from ingest.errors import ConfigError
from ingest.model.record import offset_of
from ingest.sources.mysql.key_order import KeyOrder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ingest.model.record import Headers, Record
    from ingest.sources.mysql.chunks import Bound
    from ingest.sources.mysql.key_order import Ask, Part
    from ingest.sources.mysql.types import Column

    Key: TypeAlias = tuple[Part, ...]
    Row: TypeAlias = dict[str, Any]

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
class ChangedRecord:
    """A record of which a part is written."""

    record: Record
    text: bytes

    def key(self) -> bytes | None:
        """Return the key's bytes."""
        return self.record.key()

    def value(self) -> bytes:
        """Return the part that is written."""
        return self.text

    def topic(self) -> str | None:
        """Return what stands for the topic."""
        return self.record.topic()

    def partition(self) -> int | None:
        """Return the partition."""
        return self.record.partition()

    def offset(self) -> int | None:
        """Return the record's position."""
        return self.record.offset()

    def timestamp(self) -> tuple[int, int]:
        """Return the record's time."""
        return self.record.timestamp()

    def headers(self) -> Headers | None:
        """Return names and values."""
        return self.record.headers()

    def leader_epoch(self) -> int | None:
        """Return what the record has."""
        return self.record.leader_epoch()


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

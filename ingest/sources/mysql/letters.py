"""Rejected rows as dead letters, and back: a row of a database has no message of its own, so its change becomes one.

A letter's value is Debezium's JSON; its headers have the columns of the table and the place in the log. What is read
back has the form of the source's records again. Rules: docs/spec/mysql.md#dead-letters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Protocol

import msgspec

from ingest.model.record import Headers, Record, Split, WrappedRecord, offset_of
from ingest.sources.mysql.format import HEAD, head_of
from ingest.sources.mysql.history import History, KnownSchemas, SchemaEntry
from ingest.sources.mysql.log_model import NumberedTransactions
from ingest.sources.mysql.state import LOG, MySqlAssignment
from ingest.sources.mysql.types import is_tinyint1

PREFIX: Final = "__ingest.mysql."
"""Begins the names of headers. Those of rejections are others, which a later rejection replaces."""
SCHEMA: Final = PREFIX + "schema"
"""The entries of the history of schemas by which the changes were decoded, as JSON."""
FILE: Final = PREFIX + "file"
POSITION: Final = PREFIX + "position"
GTID: Final = PREFIX + "gtid"
SERVER: Final = PREFIX + "server"
_BROKEN: Final = head_of(0)
"""The value of a letter that is none of a row: no change of any table."""
_Row = dict[str, msgspec.Raw] | None


@dataclass(frozen=True, slots=True)
class RowLetter:
    """A row as the record that a dead letter is of."""

    record: Record
    split: Split
    text: bytes
    columns: bytes
    place: tuple[str, int] | None
    """A file of the log and an offset in it; None where that is not known."""
    server: str
    gtid: str = ""
    """The transaction, as the server writes it; empty where it has none, and for rows of a chunk."""

    def key(self) -> None:
        """Return None: the key is in the row."""

    def value(self) -> bytes:
        """Return the change in Debezium's JSON; an array where the record has several changes."""
        return self.text

    def topic(self) -> str:
        """Return what stands for the topic."""
        return self.split[0]

    def partition(self) -> int:
        """Return what stands for the partition."""
        return self.split[1]

    def offset(self) -> int:
        """Return the position."""
        return offset_of(self.record)

    def timestamp(self) -> tuple[int, int]:
        """Return when the change was made."""
        return self.record.timestamp()

    def headers(self) -> Headers:
        """Return the columns and the place."""
        found: Headers = [(SCHEMA, self.columns), (SERVER, self.server.encode())]
        if self.place is not None:
            found += [(FILE, self.place[0].encode()), (POSITION, b"%d" % self.place[1])]
        return [*found, (GTID, self.gtid.encode())] if self.gtid else found

    def leader_epoch(self) -> None:
        """Return None: there is no such thing."""

    @property
    def where(self) -> str:
        """The place in the log, for people; empty where it is not known."""
        if self.place is None:
            return ""
        rows = "" if self.split == LOG else "rows as of "
        return f"{rows}{self.place[0]}:{self.place[1]}"


def as_letter(
    assigned: MySqlAssignment,
    history: History,
    split: Split,
    record: Record,
    place: tuple[str, int] | NumberedTransactions | None,
) -> RowLetter:
    """Return the record that a dead letter is of.

    `place`: of a row of a chunk, the place in the log that it is of; of a record of the log, its chunk's transactions.
    """
    gtid = ""
    if isinstance(place, NumberedTransactions):
        gtid, place = place.gtid(offset_of(record)), None
    value = record.value() or _BROKEN
    text, entries = value[HEAD:], {int.from_bytes(value[1:HEAD], "big")}
    if text[:1] == b"[":
        entries |= {one.id for one in msgspec.json.decode(text, type=list[_Part])}
    columns = msgspec.json.encode(
        [entry.to_json() for entry in map(history.entry, sorted(entries)) if entry is not None]
    )
    if split == LOG:
        at = offset_of(record)
        before = [(base, file) for file, base in assigned.bases.items() if base <= at]
        base, file = max(before, default=(0, ""))
        place = (file, at - base) if file else None
    server = "" if assigned.server is None else assigned.server.name
    return RowLetter(record, split, text, columns, place, server, gtid)


class _Part(msgspec.Struct):
    id: int


class LetterOfRow(Record, Protocol):
    """A dead letter, as the record that it was (`deadletter/letter.py`)."""

    @property
    def missing(self) -> str:
        """What of the record is not there any more."""

    @property
    def origin(self) -> Record:
        """The record as it stood when it was rejected."""


class LetterRows:
    """Letters as rows of the source: their schemas are entries of this process's history, under ids of their own."""

    def __init__(self, schemas: KnownSchemas, *, booleans: bool) -> None:
        """`booleans`: whether TINYINT(1) is a BOOLEAN for the pipeline as it is now."""
        self._schemas = schemas
        self._booleans = booleans
        self._known: dict[bytes, dict[int, SchemaEntry]] = {}
        """By the header: the entries, by the ids that they had."""

    as_letter = staticmethod(as_letter)

    def of(self, letter: LetterOfRow) -> LetterRow:
        """Return the row that a letter is of; one that cannot be read is a reject, `malformed`."""
        value = letter.value()
        try:
            return LetterRow(letter, None if value is None else self._value(letter, value))
        except (ValueError, TypeError, LookupError, msgspec.MsgspecError):
            return LetterRow(letter, _BROKEN)

    def _value(self, letter: LetterOfRow, text: bytes) -> bytes:
        entries = self._entries(dict(letter.headers() or ()).get(SCHEMA) or b"")
        if text[:1] != b"[":
            (before,) = entries
            return head_of(entries[before].id) + self._retyped(text, before, entries)
        parts = [
            b'{"id":%d,' % entries[one].id + self._retyped(bytes(part), one, entries)[1:]
            for part in msgspec.json.decode(text, type=list[msgspec.Raw])
            for one in (msgspec.json.decode(part, type=_Part).id,)
        ]
        return head_of(next(iter(entries.values())).id) + b"[" + b",".join(parts) + b"]"

    def _entries(self, header: bytes) -> dict[int, SchemaEntry]:
        entries = self._known.get(header)
        if entries is None:
            history, entries = self._schemas.history, {}
            of_letter = map(SchemaEntry.from_json, msgspec.json.decode(header, type=list[list[Any]]))
            for number, entry in enumerate(of_letter, len(history.entries) + 1):
                numbered = SchemaEntry(number, 0, entry.name, entry.table, read=True, booleans=self._booleans)
                entries[entry.id] = numbered
            self._schemas.history = history.with_entries(entries.values())
            self._known[header] = entries
        return entries

    def _retyped(self, change: bytes, of: int, entries: dict[int, SchemaEntry]) -> bytes:
        """Return a change with the texts that its TINYINT(1) have by now: `treat-tinyint1-as-boolean.enabled`."""
        table = entries[of].table
        tiny = {c.name for c in table.columns if is_tinyint1(c)} if table is not None else set()
        members = msgspec.json.decode(change, type=dict[str, msgspec.Raw])
        texts = {b"0": b"false", b"1": b"true"} if self._booleans else {b"false": b"0", b"true": b"1"}
        for image in ("before", "after") if tiny else ():
            row: _Row = msgspec.json.decode(members.get(image, b"null"), type=dict[str, msgspec.Raw] | None)
            if row is not None:
                new = {k: msgspec.Raw(texts.get(bytes(v), bytes(v))) if k in tiny else v for k, v in row.items()}
                members[image] = msgspec.Raw(msgspec.json.encode(new))
        members.pop("id", None)
        return msgspec.json.encode(members)


@dataclass(frozen=True, slots=True)
class LetterRow(WrappedRecord):
    """A letter's row, as a record of the source; only its position is the letter's."""

    record: LetterOfRow
    data: bytes | None

    def key(self) -> None:
        """Return None: the key is in the row."""

    def value(self) -> bytes | None:
        """Return the envelope, behind the id of its table's entry in the history of schemas."""
        return self.data

    def headers(self) -> Headers:
        """Return none, as rows have none."""
        return []

    @property
    def kept(self) -> LetterOfRow:
        """What a letter is of that is rejected again."""
        return self.record

    @property
    def missing(self) -> str:
        """What the letter lacks."""
        return self.record.missing

    @property
    def origin(self) -> Record:
        """The row as it stood when it was rejected."""
        return self.record.origin

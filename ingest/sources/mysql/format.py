"""The form of the source's records: Debezium's envelope behind the id of an entry of the history of schemas.

In: such records. Out: changes, with the types and the key of their entry. Values are the JSON of their types already
(docs/spec/mysql.md#types), so native code takes rows as the bytes that they are; this is its reference. A record of a
compressed event may be an array of changes, each with an id of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

import msgspec
from pydantic import PrivateAttr

from ingest.formats.debezium.options import DebeziumDecoder
from ingest.formats.form import Form
from ingest.formats.format import FormatCapabilities, FormatOptions
from ingest.formats.typed import Reads, Typed, TypedColumn
from ingest.model.change import TOMBSTONE, Change, Decoded, Reject
from ingest.model.jsontext import MALFORMED, fields_of, reason
from ingest.model.table import TableId
from ingest.model.types import TIMES, BooleanType, DataType, DateType, TimestampType, TimeType
from ingest.sources.mysql.history import KnownSchemas, SchemaEntry
from ingest.sources.mysql.row_decoder import PARTIAL
from ingest.sources.mysql.types import is_no_day

HEAD: Final = 5
"""Bytes in front of the envelope: a zero, or PARTIAL, and the id of the entry in four bytes."""
_MAX_KEPT: Final = 20_000
"""Schemas that a decoder keeps, with what the pipeline declares beside them."""


def head_of(entry: int) -> bytes:
    """Return the bytes in front of a record that has this entry's columns."""
    return b"\0" + entry.to_bytes(4, "big")


class MySqlRows(FormatOptions):
    """The form of records, which has no options."""

    name: ClassVar[str] = "mysql"
    capabilities: ClassVar[FormatCapabilities] = FormatCapabilities(says_types=True)
    ignore_parse_errors: ClassVar[bool] = False
    as_string: ClassVar[bool] = False
    unavailable_value: ClassVar[str] = "keep"
    """A column that an image lacks is not known: there is no placeholder that could stand for it."""

    _schemas: KnownSchemas = PrivateAttr(default_factory=KnownSchemas)

    @property
    def schemas(self) -> KnownSchemas:
        """The entries of the history that this process knows."""
        return self._schemas

    @property
    def form(self) -> Form:
        """Debezium's messages behind ids."""
        return Form("debezium", registered=True)

    @property
    def inline_types(self) -> tuple[str, Callable[[bytes], Mapping[str, TypedColumn]]]:
        """The types of columns by the head of a record."""

        def columns(head: bytes) -> Mapping[str, TypedColumn]:
            entry = self.schemas.entry(int.from_bytes(head[1:HEAD], "big"))
            return {} if entry is None else typed_columns(entry)

        return "schema", columns

    def decoder(self, _topic: str, *, keyed: bool = False, days_only: bool = False) -> MySqlDecoder:
        """Return a decoder for one split's records. `days_only`: a date that is no day is an error of its row."""
        return MySqlDecoder(self, days_only=days_only)


def typed_columns(entry: SchemaEntry, left_out: list[str] | None = None) -> dict[str, TypedColumn]:
    """Return the columns of a row with this entry.

    `left_out`: gets the name of each column whose value is a date that is no day, and null therefore; None: such a
    value is an error of its row, as it is in the key.
    """
    return {
        name: TypedColumn(
            kind,
            None
            if left_out is None or name in entry.key or not isinstance(kind, TIMES)
            else _days(name, kind, left_out),
            _reads(kind),
            is_number,
        )
        for name, (kind, is_number) in entry.types.items()
    }


def _reads(kind: DataType) -> tuple[Reads, int, int]:
    """Return the way in which native code reads values: what may not be of its type it looks at, and leaves.

    These are dates that are no days, a TIME beyond the day, and a TINYINT(1) that is no boolean.
    """
    if isinstance(kind, TIMES):
        if isinstance(kind, DateType):
            return (Reads.DATE_TEXT, 0, 0)
        return (Reads.MOMENT_TEXT, int(isinstance(kind, TimestampType)), 0)
    if isinstance(kind, TimeType):
        return (Reads.TIME_TEXT, 0, 0)
    return (Reads.BOOL if isinstance(kind, BooleanType) else Reads.ANY, 0, 0)


def _days(name: str, kind: DataType, left_out: list[str]) -> Callable[[bytes], bytes]:
    """Return the conversion of a column's dates: null for one that is no day."""

    def convert(text: bytes) -> bytes:
        if not is_no_day(kind, text):
            return text
        left_out.append(name)
        return b"null"

    return convert


class MySqlDecoder(DebeziumDecoder):
    """Decodes one split."""

    def __init__(self, options: MySqlRows, *, days_only: bool) -> None:
        chosen: Any = options
        super().__init__(chosen)
        self._schemas = options.schemas
        self._known: dict[tuple[frozenset[tuple[str, DataType]], bytes], Typed] = {}
        self._days_only = days_only
        self._left_out: list[str] = []
        """Columns of the current record whose dates are no days."""

    def decode(self, _keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> list[Decoded]:
        """One result per value, in order."""
        return [self._one(value) for value in values]

    def _one(self, value: bytes | None) -> Decoded:
        if value is None:
            return TOMBSTONE
        try:
            if value[HEAD : HEAD + 1] != b"[":
                entry = int.from_bytes(value[1:HEAD], "big")
                return self._change_of(entry, value[HEAD:], partial=value[:1] == PARTIAL)
            changes: list[Change] = []
            for one in msgspec.json.decode(value[HEAD:], type=list[msgspec.Raw]):
                entry = msgspec.json.decode(one, type=_Part).id
                found = self._change_of(entry, bytes(one), partial=True)
                if isinstance(found, Reject):
                    return found
                if isinstance(found, Change):
                    changes.append(found)
        except MALFORMED as exc:
            return Reject("malformed", f"not a record of this source: {reason(exc)}")
        return changes

    def _change_of(self, entry: int, change: bytes, *, partial: bool) -> Decoded:
        """Return a change; raises one of MALFORMED. `partial`: whether the row after it may lack columns."""
        self._left_out.clear()
        change_ = self._decode_one(None, _enveloped(entry, change))
        if not isinstance(change_, Change) or change_.declared is None:
            return change_
        unsent = self._unsent(entry, change_.after) if partial else frozenset()
        if not self._left_out and not unsent:
            return change_
        declared = replace(change_.declared, unsent=unsent, left_out=tuple(dict.fromkeys(self._left_out)))
        return change_._replace(declared=declared)

    def _unsent(self, entry: int, after: msgspec.Raw | None) -> frozenset[str]:
        """Return the columns of its table that the row after a change lacks; raises one of MALFORMED."""
        known = self._schemas.entry(entry)
        if known is None or after is None:
            return frozenset()
        return frozenset(known.types).difference(fields_of(after))

    def _inline_schema(self, schema: bytes, table: TableId, *, of_key: bool = False) -> Typed:
        """Return the columns of the entry with this id."""
        given = self._options.declared(table)
        place = frozenset(given.items()), schema
        known = self._known.get(place)
        if known is None:
            entry = self._schemas.entry(int(schema))
            known = (
                Typed({})
                if entry is None
                else Typed(typed_columns(entry, None if self._days_only else self._left_out), entry.key, given=given)
            )
            if len(self._known) >= _MAX_KEPT:
                self._known.clear()
            self._known[place] = known
        return known


class _Part(msgspec.Struct):
    """One change of a record that has several: an envelope with the id of its entry."""

    id: int


def _enveloped(entry: int, change: bytes) -> bytes:
    """Return a change as a message of Debezium's with its schema, for which the entry's id stands."""
    return b'{"schema":%d,"payload":%b}' % (entry, change)

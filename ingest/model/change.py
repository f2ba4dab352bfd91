"""The results of decoding one record: row-level changes, or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import msgspec

from ingest.model.reject import Failure
from ingest.model.table import TableId

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ingest.model.types import DataType


class Kind(StrEnum):
    """Kind of a change to a row. An update has the row before it and the row after it in one event."""

    INSERT = "+I"
    UPDATE = "+U"
    DELETE = "-D"


@dataclass(frozen=True, slots=True)
class InlineSchema:
    """Facts that a message declares about its rows, beside their values."""

    types: Mapping[str, DataType] = field(default_factory=dict)
    """Types of columns, as far as the message declares them.

    NULL stands for a DECIMAL whose size only the values show.
    """
    primary_key: tuple[str, ...] = ()
    """Names of the primary key's columns. Empty where the message does not declare them."""
    overlay: bool = False
    """True if a before image has only the changed columns. The other columns are as in the after image."""
    sparse: bool = False
    """True if the row after the change may lack columns that the table has. Their values are not known, so that the row
    is a reject then, `unavailable-value`."""
    unread: Mapping[str, str] = field(default_factory=dict)
    """Columns of the before image whose values cannot be read, each with the reason. The image lacks them: they are
    unknown, also with `overlay`."""
    numbers: frozenset[str] = frozenset()
    """Columns whose values are texts that each hold a number, which is what a key has of them."""
    unsent: frozenset[str] = frozenset()
    """Columns of the row after the change that the database did not send, as they did not change. The image lacks them:
    a sink that writes only the columns that came leaves them as they are, for all others the row is a reject,
    `unavailable-value`."""
    left_out: tuple[str, ...] = ()
    """Columns whose values no type has, so that the rows have null there: they are counted as withheld."""
    in_key: Mapping[str, bytes] = field(default_factory=dict)
    """Columns of the key of which an upsert topic's key has another text than its row, which says the same. It is the
    key's that counts in the keys of texts, as a delete has no other one."""

    def beside(self, unread: Mapping[str, str]) -> InlineSchema:
        """Return the same for a message with these columns in `unread`, and a before image that is no overlay."""
        return replace(self, overlay=False, unread=unread) if unread else self


def is_number(declared: InlineSchema | None, name: str) -> bool:
    """Return whether a message declares that texts of a column are numbers."""
    return declared is not None and name in declared.numbers


def value_in_key(declared: InlineSchema | None, name: str, value: bytes) -> bytes:
    """Return the value that a column of the key has in keys; `value`: the row's, which is no null."""
    return value if declared is None else declared.in_key.get(name, value)


class Change(NamedTuple):
    """One row-level change. Images are the JSON text of the row, not copied; None where the record has none."""

    table: TableId
    kind: Kind
    before: msgspec.Raw | None
    """It may be partial: the value of a missing column is unknown, and never null."""
    after: msgspec.Raw | None
    """An insert or update always has it."""
    key: bytes | None = None
    """The record's key, where the format declares the primary key by it."""
    declared: InlineSchema | None = None
    """What the message declares of its rows."""


class Skip(msgspec.Struct, gc=False):
    """A record that stands for no row, for example a tombstone, a truncate or a heartbeat.

    It is counted under `reason`.
    """

    reason: str


NOT_SELECTED: Final = "not-selected"
"""The reason why a replay, or a backfill, leaves records out that are not those which it was to read."""

TOMBSTONE: Final = Skip("tombstone")
"""A record without a value, in a format where this does not delete a row."""

LONE_TOMBSTONE: Final = Skip("lone-tombstone")
"""One that repeats no delete, in a format whose deletes are messages of their own, each with a tombstone behind it."""


class Reject(msgspec.Struct, gc=False):
    """Error in a record that does not follow its format. It becomes a reject."""

    code: str
    message: str
    table: TableId | None = None
    failure: Failure | None = None
    of_key: bool = False
    """True if the record's key cannot be read, and not its value."""


Decoded: TypeAlias = "Change | list[Change] | Skip | Reject"
"""Result of decoding one record.

A list has the rows of one message, which are written together or not at all.
"""

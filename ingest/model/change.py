"""What a format makes of one record: row-level changes, or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from ingest.model.reject import Failure  # noqa: TC001  (msgspec reads the annotations)
from ingest.model.table import TableId  # noqa: TC001  (msgspec reads the annotations)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ingest.model.data_type import DataType


class Kind(StrEnum):
    """What happened to a row; the update's before image travels in the same event."""

    INSERT = "+I"
    UPDATE = "+U"
    DELETE = "-D"


@dataclass(frozen=True, slots=True, eq=False)
class Declared:
    """What a message says about its rows beside their values. Made once per distinct saying, compared by identity."""

    types: Mapping[str, DataType] = field(default_factory=dict)
    """The types of columns, as far as the message tells them. NULL: a DECIMAL, of which its values tell the size."""
    primary_key: tuple[str, ...] = ()
    """The primary key's columns; empty where the message does not tell."""
    overlay: bool = False
    """A before image holds the changed columns only: what it lacks is as in the after image."""
    read_before: Callable[[msgspec.Raw], msgspec.Raw] | None = None
    """How such a before image is to be read, where its values are not yet the JSON of their types; raises RowError. It
    is looked into only where somebody needs it."""
    judged: bool = True
    """Whether each value was found to be of its type; not so where the pipeline declares other types than messages."""


Change: TypeAlias = "tuple[TableId, Kind, msgspec.Raw | None, msgspec.Raw | None, bytes | None, Declared | None]"
"""One row-level change: table, kind, before image, after image, key, what the message declares. A plain tuple, as there
are millions of them.

Images are the JSON text of the row, uncopied. A before image may be partial: what it lacks is unknown, never null.
An insert or update has an after image; `None` stands for an image that the record does not have. The key is the
record's, where it is the format's way to tell the primary key.
"""


class Skip(msgspec.Struct, gc=False):
    """A record that stands for no row, counted under `reason`: a tombstone, a truncate, a heartbeat."""

    reason: str


TOMBSTONE: Final = Skip("tombstone")
"""A record without a value, where that is no row's end."""


class Bad(msgspec.Struct, gc=False):
    """A record that is not what its format says; becomes a reject."""

    code: str
    message: str
    table: TableId | None = None
    failure: Failure | None = None


Decoded: TypeAlias = "Change | list[Change] | Skip | Bad"
"""What became of one record. A list: a message of several rows, which are taken together or not at all."""

"""What a format makes of one record: a row-level change, or the reason why there is none."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

import msgspec

from ingest.model.table import TableId  # noqa: TC001  (msgspec reads the annotations)


class Kind(StrEnum):
    """What happened to a row; the update's before image travels in the same event."""

    INSERT = "+I"
    UPDATE = "+U"
    DELETE = "-D"


Change: TypeAlias = "tuple[TableId, Kind, msgspec.Raw | None, msgspec.Raw | None]"
"""One row-level change: table, kind, before image, after image. A plain tuple, as there are millions of them.

Images are the JSON text of the row, uncopied. A before image may be partial: what it lacks is unknown, never null.
An insert or update has an after image; `None` stands for an image that the record does not have.
"""


class Skip(msgspec.Struct, gc=False):
    """A record that stands for no row, counted under `reason`: a tombstone, a truncate, a heartbeat."""

    reason: str


class Bad(msgspec.Struct, gc=False):
    """A record that is not what its format says; becomes a reject."""

    code: str
    message: str
    table: TableId | None = None

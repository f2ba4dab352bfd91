"""What a format makes of one record: a row-level change, or the reason why there is none."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from ingest.model.table import TableId  # noqa: TC001  (msgspec reads the annotations)


class Kind(StrEnum):
    """What happened to a row; the update's before image travels in the same event."""

    INSERT = "+I"
    UPDATE = "+U"
    DELETE = "-D"


class Change(msgspec.Struct, gc=False):
    """One row-level change. Images are the JSON text of the row, uncopied; `None` where the record has none.

    A before image may be partial: what it lacks is unknown, never null.
    """

    table: TableId
    kind: Kind
    before: msgspec.Raw | None
    after: msgspec.Raw | None


class Skip(msgspec.Struct, gc=False):
    """A record that stands for no row, counted under `reason`: a tombstone, a truncate, a heartbeat."""

    reason: str


class Bad(msgspec.Struct, gc=False):
    """A record that is not what its format says; becomes a reject."""

    code: str
    message: str
    table: TableId | None = None

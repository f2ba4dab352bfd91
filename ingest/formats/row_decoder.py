"""The decoder of formats whose values are rows: the topic is the table, and each value is an insert."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ingest.model.change import TOMBSTONE, Kind, Reject

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import msgspec

    from ingest.model.change import Decoded, InlineSchema
    from ingest.model.table import TableId

    ReadRow: TypeAlias = Callable[[bytes], tuple[msgspec.Raw, InlineSchema] | Reject]


class RowDecoder:
    """Decodes one split."""

    def __init__(self, read: ReadRow, topic: str, *, keyed: bool) -> None:
        """Take the topic for the table; `read` returns a row with what its message declares, or its reject."""
        self._table: TableId = (topic,)
        self._read = read
        self._null: Decoded = (self._table, Kind.DELETE, None, None, None, None) if keyed else TOMBSTONE

    def decode(self, _keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> list[Decoded]:
        """One result per value, in order. Raise what the function that reads does."""
        return [self._null if value is None else self._one(value) for value in values]

    def _one(self, value: bytes) -> Decoded:
        found = self._read(value)
        if isinstance(found, Reject):
            return found
        row, declared = found
        return (self._table, Kind.INSERT, None, row, None, declared)

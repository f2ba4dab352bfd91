"""The part that formats share whose values are rows: the topic is the table, and each value is an insert."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, TypeAlias

from ingest.component.options import Options
from ingest.model.change import TOMBSTONE, Change, Decoded, InlineSchema, Kind, Reject, Skip

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import msgspec

    from ingest.model.table import TableId

    ReadRow: TypeAlias = Callable[[bytes], tuple[msgspec.Raw, InlineSchema] | Reject]
    ReadValue: TypeAlias = Callable[[bytes], tuple[msgspec.Raw, InlineSchema | None] | Reject | Skip]


class RowDecoder:
    """Decodes one split."""

    def __init__(self, read: ReadValue, topic: str, *, keyed: bool) -> None:
        """`topic` is the table. `read` returns a row with what its message declares, or why there is none."""
        self._table: TableId = (topic,)
        self._read = read
        self._null: Decoded = Change(self._table, Kind.DELETE, None, None) if keyed else TOMBSTONE

    def decode(self, _keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> list[Decoded]:
        """One result per value, in order. Raise what the function that reads does."""
        return [self._null if value is None else self._one(value) for value in values]

    def _one(self, value: bytes) -> Decoded:
        found = self._read(value)
        if isinstance(found, (Reject, Skip)):
            return found
        row, declared = found
        return Change(self._table, Kind.INSERT, None, row, None, declared)


class RowFormat(Options, ABC):
    """The part of an options model that is alike in formats whose messages say the types of their columns."""

    def decoder(self, topic: str, *, keyed: bool = False) -> RowDecoder:
        """Return a decoder for one split's records; `keyed`: it reads their keys, too: a null value is a delete.

        It and the decoder raise as `reader_of` and its function do.
        """
        return RowDecoder(self.reader_of((topic,)), topic, keyed=keyed)

    @abstractmethod
    def reader_of(self, table: TableId) -> ReadRow:
        """Return a function that reads a table's keys or values: a row as JSON text with what it declares, or a reject.

        Where there is a schema registry, raise ConfigError; the function raises IngestError if that gives no answer.
        """

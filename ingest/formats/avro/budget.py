"""The bound of what a message may become: a record of nulls takes no bytes, and an enum's long symbol takes one.

In: the nodes of a schema, and the size of a message. Out: an error for a message with more in members of records, and
in long texts that it does not have itself, than its size allows. Rules: docs/spec/avro.md#schemas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ingest.formats.avro.primitives import AvroError
from ingest.formats.avro.schema import takes_bytes

if TYPE_CHECKING:
    from ingest.formats.avro.primitives import Read
    from ingest.formats.avro.schema import Node

BASE: Final = 16384
PER_BYTE: Final = 256
"""A message of so many bytes may have BASE and PER_BYTE times as many in its members and long texts."""
_MEMBER: Final = 16
_NULL: Final = 128
"""Weight of a member beside its name, and of one that takes no bytes: it is as much work, and nothing bounds it."""
_FREE: Final = 64
"""The length up to which a symbol, or the text of a decimal, counts nothing."""


class MemberBudget:
    """Count of the members and long texts that a message may still have."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        """Have nothing left before the first message."""
        self._left = 0

    def begin(self, size: int) -> None:
        """Begin a message of so many bytes."""
        self._left = BASE + PER_BYTE * size

    def counted(self, read: Read, weight: int) -> Read:
        """Return the function that reads a record, and before takes its members from the budget."""

        def read_counted(data: bytes, at: int) -> tuple[Any, int]:
            self._left -= weight
            if self._left < 0:
                msg = "records inside of it have far more members than it has bytes"
                raise AvroError(msg)
            return read(data, at)

        return read_counted

    def counted_text(self, read: Read) -> Read:
        """Return the function that reads a symbol, or a decimal as a text, and takes a long one from the budget."""

        def read_counted(data: bytes, at: int) -> tuple[Any, int]:
            text, at = read(data, at)
            if len(text) > _FREE:
                self._left -= len(text)
                if self._left < 0:
                    msg = "enums and decimals inside of it become far longer texts than it has bytes"
                    raise AvroError(msg)
            return text, at

        return read_counted


def has_long_symbol(node: Node) -> bool:
    """Return whether a symbol of an enum takes anything from a budget."""
    return any(len(symbol) > _FREE for symbol in node.symbols)


def weight(node: Node, known: dict[int, bool]) -> int:
    """Return what one record takes from a budget. `known`: see `takes_bytes`."""
    members = (len(one.name) + (_MEMBER if takes_bytes(one.node, known) else _NULL) for one in node.fields)
    return _MEMBER + sum(members)

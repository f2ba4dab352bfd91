"""The bound of what a message may become: a record of nulls takes no bytes, and its text has all of its names.

In: the records of a schema, and the size of a message. Out: an error for a message with more members in records than
its size allows. Rules: docs/spec/avro.md#schemas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ingest.avro.primitives import AvroError
from ingest.avro.schema import takes_bytes

if TYPE_CHECKING:
    from ingest.avro.primitives import Read
    from ingest.avro.schema import Node

BASE: Final = 4096
PER_BYTE: Final = 256
"""A message of so many bytes may have BASE and PER_BYTE times as many in the members of its records."""
_MEMBER: Final = 16
_NULL: Final = 128
"""What a member counts beside its name, and one that takes no bytes: it is as much work, and nothing bounds it."""


class MemberBudget:
    """What is left of the members that a message may have."""

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


def weight(node: Node, known: dict[int, bool]) -> int:
    """Return what one record takes from a budget. `known`: see `takes_bytes`."""
    members = (len(one.name) + (_MEMBER if takes_bytes(one.node, known) else _NULL) for one in node.fields)
    return _MEMBER + sum(members)

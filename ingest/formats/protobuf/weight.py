"""The memory that a message may take once it is parsed, from its bytes.

In: the descriptor of a message, and bytes. Out: the number of bytes that the messages inside of it take, or an error
where these are too many. google's library gives each message room for all fields of its type: an empty one of two bytes
may take kilobytes. Rules: docs/spec/protobuf.md#messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor

MAX_PARSED: Final = 256 << 20
"""Bytes that the messages inside of one message may take."""
_OF_MESSAGE: Final = 64
_OF_FIELD: Final = 16
_SKIPPED: Final = {1: 8, 5: 4}
"""Bytes of values of fixed sizes, by their wire types."""


class _Shape:
    """Facts about a message type that count here."""

    __slots__ = ("inner", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        """Bytes that one takes."""
        self.inner: dict[int, _Shape] = {}
        """Types of the messages inside of it, by the numbers of their fields."""


_NOTHING: Final = _Shape(0)


class Weight:
    """The weight of messages of one type."""

    def __init__(self, descriptor: Descriptor) -> None:
        """Look at the type and at all types inside of it."""
        shapes: dict[str, _Shape] = {}
        uses: list[tuple[_Shape, int, str]] = []
        waiting = [descriptor]
        while waiting:
            one = waiting.pop()
            if one.full_name in shapes:
                continue
            shape = shapes[one.full_name] = _Shape(_OF_MESSAGE + _OF_FIELD * len(one.fields))
            for field in one.fields:
                if field.message_type is not None:
                    waiting.append(field.message_type)
                    uses.append((shape, field.number, field.message_type.full_name))
        for shape, number, name in uses:
            shape.inner[number] = shapes[name]
        self._root = shapes[descriptor.full_name]
        self._largest = max((shapes[name].size for _, _, name in uses), default=0)

    def is_bearable(self, message: bytes) -> bool:
        """Return whether a message takes no more than MAX_PARSED, or is none that can be parsed."""
        if len(message) // 2 * self._largest <= MAX_PARSED:  # a message inside of it takes two bytes at least
            return True
        try:
            return self._weigh(message) <= MAX_PARSED
        except IndexError:
            return True

    def _weigh(self, message: bytes) -> int:
        """Return the bytes that the messages inside of a message take. Raise IndexError where it ends too early."""
        total = at = 0
        shape = self._root
        end = len(message)
        above: list[tuple[_Shape, int]] = []
        while total <= MAX_PARSED:
            while at >= end:
                if not above or at > end:
                    return total
                shape, end = above.pop()
            tag, at = _number(message, at)
            wire = tag & 7
            if wire == 4:  # a group ends
                if not above:
                    return total
                shape, end = above.pop()
            elif wire == 3:
                above.append((shape, end))
                shape = shape.inner.get(tag >> 3, _NOTHING)
                total += shape.size
            elif wire == 2:
                size, at = _number(message, at)
                inner = shape.inner.get(tag >> 3)
                if inner is None:
                    at += size
                else:
                    above.append((shape, end))
                    shape, end = inner, at + size
                    total += inner.size
            elif wire == 0:
                _, at = _number(message, at)
            elif wire in _SKIPPED:
                at += _SKIPPED[wire]
            else:
                return total
        return total


def _number(message: bytes, at: int) -> tuple[int, int]:
    """Return the number at a place, and the place after it. Raise IndexError."""
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise IndexError

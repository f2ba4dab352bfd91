"""Reading of Avro's binary encoding, value by value, within a budget.

A message may hold anything: readers raise AvroError or IndexError for bytes that are no such value, UnicodeDecodeError
for texts, and ValueError for values that their type does not have. They keep no more items than the message has bytes;
members of records and long texts, which a message need not hold itself, count against a budget by its size.
Rules: docs/spec/avro.md#messages, docs/spec/avro.md#schemas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ingest.formats.avro.schema import Node, takes_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Read: TypeAlias = Callable[[bytes, int], tuple[Any, int]]
    """Function that reads a value at a place of a message, and returns it with the place after it."""


class AvroError(Exception):
    """Error about a message whose bytes do not follow its schema."""


def read_null(_: bytes, at: int) -> tuple[None, int]:
    """Return None, which takes no bytes."""
    return None, at


def read_boolean(data: bytes, at: int) -> tuple[bool, int]:
    """Read a boolean, of one byte."""
    byte = data[at]
    if byte > 1:
        raise AvroError(f"a boolean is {byte}")
    return byte == 1, at + 1


def read_long(data: bytes, at: int) -> tuple[int, int]:
    """Read an integer of 64 bits: groups of seven bits, the lowest first, with the sign in the lowest bit."""
    byte = data[at]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at + 1
    value, shift = byte & 0x7F, 7
    while True:
        at += 1
        byte = data[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 63:
            raise AvroError("a number has more than 64 bits")
    if value >> 64:
        raise AvroError("a number has more than 64 bits")
    return (value >> 1) ^ -(value & 1), at + 1


def read_int(data: bytes, at: int) -> tuple[int, int]:
    """Read an integer of 32 bits."""
    byte = data[at]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at + 1
    value, at = read_long(data, at)
    if not -0x80000000 <= value <= 0x7FFFFFFF:
        raise AvroError("an int has more than 32 bits")
    return value, at


def read_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    """Read bytes, with their number in front."""
    size = data[at]
    if size < 0x80:
        size, at = (size >> 1) ^ -(size & 1), at + 1
    else:
        size, at = read_long(data, at)
    end = at + size
    piece = data[at:end]
    if len(piece) != size:
        raise IndexError
    return piece, end


def read_string(data: bytes, at: int) -> tuple[str, int]:
    """Read a text, as `read_bytes` does. Raise UnicodeDecodeError where it is not UTF-8."""
    piece, end = read_bytes(data, at)
    return piece.decode(), end


def read_fixed(size: int) -> Read:
    """Return a function that reads so many bytes."""

    def read(data: bytes, at: int) -> tuple[bytes, int]:
        end = at + size
        if end > len(data):
            raise IndexError
        return data[at:end], end

    return read


def read_enum(symbols: Sequence[str]) -> Read:
    """Return a function that reads one of the symbols."""

    def read(data: bytes, at: int) -> tuple[str, int]:
        number, at = read_long(data, at)
        if not 0 <= number < len(symbols):
            raise AvroError(f"an enum has no symbol {number}")
        return symbols[number], at

    return read


def read_union(branches: Sequence[Read]) -> Read:
    """Return a function that reads a value of one of the branches."""
    if len(branches) == 2 and read_null in branches:
        null = branches.index(read_null)
        return _read_nullable(branches[1 - null], 2 * null, 2 - 2 * null)

    def read(data: bytes, at: int) -> tuple[Any, int]:
        byte = data[at]
        if byte & 1 or byte >= 0x80:
            number, at = read_long(data, at)
        else:
            number, at = byte >> 1, at + 1
        if not 0 <= number < len(branches):
            raise AvroError(f"a union has no branch {number}")
        return branches[number](data, at)

    return read


def _read_nullable(value: Read, null: int, there: int) -> Read:
    """Return a function that reads null or a value, of which the first byte says which."""

    def read(data: bytes, at: int) -> tuple[Any, int]:
        byte = data[at]
        if byte == there:
            return value(data, at + 1)
        if byte != null:
            raise AvroError("a union has none of its branches")
        return None, at + 1

    return read


def read_count(data: bytes, at: int, so_far: int) -> tuple[int, int]:
    """Read how many items come next; each takes a byte, at least, so that a message has no more than its bytes."""
    count, at = read_long(data, at)
    if count < 0:  # the size of the items in bytes comes next, for readers that pass them over
        count = -count
        _, at = read_long(data, at)
    if so_far + count > len(data):
        raise IndexError
    return count, at


def read_array(item: Read) -> Read:
    """Return a function that reads items, each of which takes a byte, at least."""

    def read(data: bytes, at: int) -> tuple[list[Any], int]:
        out: list[Any] = []
        while True:
            count, at = read_count(data, at, len(out))
            if not count:
                return out, at
            for _ in range(count):
                value, at = item(data, at)
                out.append(value)

    return read


def read_map(item: Read) -> Read:
    """Return a function that reads a map from texts. The last one counts of values with one key."""

    def read(data: bytes, at: int) -> tuple[dict[str, Any], int]:
        out: dict[str, Any] = {}
        seen = 0
        while True:
            count, at = read_count(data, at, seen)
            seen += count
            if not count:
                return out, at
            for _ in range(count):
                key, at = read_string(data, at)
                out[key], at = item(data, at)

    return read


def read_record(fields: Sequence[tuple[str, Read]]) -> Read:
    """Return a function that reads a record."""

    def read(data: bytes, at: int) -> tuple[dict[str, Any], int]:
        out: dict[str, Any] = {}
        for name, field in fields:
            out[name], at = field(data, at)
        return out, at

    return read


def converted(read: Read, convert: Callable[[Any], Any]) -> Read:
    """Return a function that reads a value, and returns what another function makes of it."""

    def read_converted(data: bytes, at: int) -> tuple[Any, int]:
        value, at = read(data, at)
        return convert(value), at

    return read_converted


# -- what nobody asks for is passed over ------------------------------------------------------------------------------


def pass_number(data: bytes, at: int) -> tuple[None, int]:
    """Return the place after an integer."""
    while data[at] >= 0x80:
        at += 1
    return None, at + 1


def pass_bytes(data: bytes, at: int) -> tuple[None, int]:
    """Return the place after bytes, or after a text."""
    size, at = read_long(data, at)
    if not 0 <= size <= len(data) - at:
        raise IndexError
    return None, at + size


def read_some(fields: Sequence[tuple[str | None, Read]]) -> Read:
    """Return a function that reads those fields of a record that have a name here."""

    def read(data: bytes, at: int) -> tuple[dict[str, Any], int]:
        out: dict[str, Any] = {}
        for name, field in fields:
            value, at = field(data, at)
            if name is not None:
                out[name] = value
        return out, at

    return read


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
                raise AvroError("records inside of it have far more members than it has bytes")
            return read(data, at)

        return read_counted

    def counted_text(self, read: Read) -> Read:
        """Return the function that reads a symbol, or a decimal as a text, and takes a long one from the budget."""

        def read_counted(data: bytes, at: int) -> tuple[Any, int]:
            text, at = read(data, at)
            if len(text) > _FREE:
                self._left -= len(text)
                if self._left < 0:
                    raise AvroError("enums and decimals inside of it become far longer texts than it has bytes")
            return text, at

        return read_counted


def has_long_symbol(node: Node) -> bool:
    """Return whether a symbol of an enum takes anything from a budget."""
    return any(len(symbol) > _FREE for symbol in node.symbols)


def weight(node: Node, known: dict[int, bool]) -> int:
    """Return what one record takes from a budget. `known`: see `takes_bytes`."""
    members = (len(one.name) + (_MEMBER if takes_bytes(one.node, known) else _NULL) for one in node.fields)
    return _MEMBER + sum(members)

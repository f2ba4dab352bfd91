"""The message types of one schema of a registry: a message says which of them it is.

In: a schema's descriptor set, and messages with the indexes of their types in front. Out: rows with what they declare,
or rejects. Rules: docs/spec/protobuf.md#messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ingest.formats.protobuf.descriptors import DescriptorSet, SchemaError
from ingest.formats.protobuf.messages import RowSchema
from ingest.model.change import Reject

if TYPE_CHECKING:
    import msgspec

    from ingest.model.change import InlineSchema

_MAX_DEPTH: Final = 100
_MAX_INDEX: Final = 1 << 20


class MessageTypes:
    """The readers of the message types of a schema, each compiled when the first message of it comes."""

    def __init__(self, descriptor_set: bytes, *, read_defaults: bool, ignore_unknown: bool) -> None:
        """Read the set. Raise SchemaError where it cannot be used. The options are those of `RowSchema`."""
        self._set = DescriptorSet(descriptor_set)
        self._read_defaults, self._ignore_unknown = read_defaults, ignore_unknown
        self._known: dict[tuple[int, ...], RowSchema | Reject] = {}

    def decode(self, message: bytes, at: int, _given: object = None) -> tuple[msgspec.Raw, InlineSchema] | Reject:
        """Return the row of a message with what it declares, or its reject. At `at` the indexes of its type begin."""
        try:
            indexes, at = read_indexes(message, at)
        except (IndexError, ValueError):
            return Reject("malformed", "there is no list of a message type's indexes behind the id of its schema")
        known = self._known.get(indexes)
        if known is None:
            known = self._compiled(indexes)
        return known if isinstance(known, Reject) else known.decode(message[at:])

    def _compiled(self, indexes: tuple[int, ...]) -> RowSchema | Reject:
        found = self._set.at(indexes)
        if found is None:
            return Reject("malformed", f"its schema has no message type at {list(indexes)}")
        made: RowSchema | Reject
        try:
            made = RowSchema(found, read_defaults=self._read_defaults, ignore_unknown=self._ignore_unknown)
        except SchemaError as exc:
            made = Reject("bad-schema", f"the message type {found.full_name[:100]} cannot be used: {exc}")
        return self._known.setdefault(indexes, made)


def read_indexes(message: bytes, at: int) -> tuple[tuple[int, ...], int]:
    """Return the indexes of a message type, outermost first, and the place after them.

    They are their number and themselves, as signed numbers of Protocol Buffers; the first type is a zero alone. Raise
    IndexError where the message ends before, and ValueError where there are none.
    """
    if message[at] == 0:
        return (0,), at + 1
    count, at = _read_number(message, at)
    if not 0 < count <= _MAX_DEPTH:
        raise ValueError
    indexes = []
    for _ in range(count):
        index, at = _read_number(message, at)
        indexes.append(index)
    return tuple(indexes), at


def _read_number(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 28:
            raise ValueError
    number = (value >> 1) ^ -(value & 1)
    if not 0 <= number <= _MAX_INDEX:
        raise ValueError
    return number, at


def write_indexes(indexes: tuple[int, ...]) -> bytes:
    """Return the bytes that `read_indexes` reads."""
    if indexes == (0,):
        return b"\0"
    out = bytearray()
    for number in (len(indexes), *indexes):
        value = number << 1
        while value > 0x7F:
            out.append(value & 0x7F | 0x80)
            value >>= 7
        out.append(value)
    return bytes(out)

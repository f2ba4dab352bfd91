"""Descriptors of Protocol Buffers: the message types of a descriptor set.

In: the bytes of a `FileDescriptorSet`, as protoc writes it. Out: descriptors of messages. Each set has a pool of its
own: two schemas may say different things of one name. Rules: docs/spec/protobuf.md#schemas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.message import DecodeError

from ingest.model.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from google.protobuf.descriptor import Descriptor, FileDescriptor

_MAX_NAMED: Final = 10

AnyMessage: TypeAlias = Any
"""Message of any class: its fields are attributes."""


class SchemaError(ValueError):
    """Error about a schema of Protocol Buffers that cannot be used. Its text says why."""


class DescriptorSet:
    """The files of one descriptor set."""

    def __init__(self, content: bytes) -> None:
        """Read the set. Raise SchemaError where it is none, or where a file of it cannot be used."""
        try:
            files = descriptor_pb2.FileDescriptorSet.FromString(content).file
        except DecodeError as exc:
            msg = "it is no descriptor set; make it by protoc --descriptor_set_out=FILE --include_imports"
            raise SchemaError(msg) from exc
        if not files:
            msg = "the descriptor set has no files"
            raise SchemaError(msg)
        pool = descriptor_pool.DescriptorPool()
        self._files: list[FileDescriptor] = []
        for file in files:
            missing = [name for name in file.dependency if all(name != one.name for one in self._files)]
            if missing:
                msg = f"{_shown(file.name)} imports {_shown(missing[0])}, which is not in front of it in the set; "
                raise SchemaError(msg + "make the set by protoc --include_imports")
            try:
                pool.AddSerializedFile(file.SerializeToString())
                self._files.append(pool.FindFileByName(file.name))
            except (TypeError, KeyError, ValueError) as exc:
                msg = f"{_shown(file.name)} cannot be used: {one_line(str(exc))[:200]}"
                raise SchemaError(msg) from exc

    def message(self, name: str) -> Descriptor:
        """Return the message of this full name. Raise SchemaError where there is none."""
        found: list[str] = []
        for file in reversed(self._files):
            for one in _messages(file.message_types_by_name.values()):
                if one.full_name == name:
                    return one
                found.append(one.full_name)
        known = ", ".join(_shown(one) for one in found[:_MAX_NAMED]) + (", …" if len(found) > _MAX_NAMED else "")
        msg = f"there is no message {_shown(name)} (there are: {known or 'none'})"
        raise SchemaError(msg)

    def at(self, indexes: Sequence[int]) -> Descriptor | None:
        """Return the message at a place of the last file: the number of a message, then of one inside of it, and so on.

        Return None where there is none.
        """
        inside = list(self._files[-1].message_types_by_name.values())
        found: Descriptor | None = None
        for index in indexes:
            if not 0 <= index < len(inside):
                return None
            found = inside[index]
            inside = list(found.nested_types)
        return found


def _messages(found: Iterable[Descriptor]) -> Iterator[Descriptor]:
    """Yield messages and those inside of them."""
    for one in found:
        if not one.GetOptions().map_entry:
            yield one
            yield from _messages(one.nested_types)


def _shown(name: str) -> str:
    return one_line(name)[:100]

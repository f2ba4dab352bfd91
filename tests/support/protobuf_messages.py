"""Messages of Protocol Buffers for tests, from schemas and values that are texts."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from google.protobuf import message_factory, text_format

from ingest.formats.protobuf.schema import DescriptorSet, compile_schema

if TYPE_CHECKING:
    from collections.abc import Mapping


@cache
def _descriptors(schema: str, imports: tuple[tuple[str, str], ...]) -> DescriptorSet:
    return DescriptorSet(compile_schema(schema, dict(imports)))


def class_of(schema: str, name: str, imports: Mapping[str, str] | None = None) -> Any:
    """The class of a message."""
    return message_factory.GetMessageClass(_descriptors(schema, tuple((imports or {}).items())).message(name))


def message_of(schema: str, name: str, text: str, imports: Mapping[str, str] | None = None) -> bytes:
    """A message, from its text as `text_format` reads it."""
    message = class_of(schema, name, imports)()
    text_format.Parse(text, message)
    return bytes(message.SerializeToString(deterministic=True))

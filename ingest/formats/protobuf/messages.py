"""Whole messages of Protocol Buffers: rows, with what they declare; and the rejects of broken ones.

In: a message's descriptor, and messages of it as bytes. Out: rows as JSON text. google's library parses the bytes.
Rules: docs/spec/protobuf.md#messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from google.protobuf.message import DecodeError

from ingest.formats.protobuf.descriptors import SchemaError
from ingest.formats.protobuf.rows import MessageError, ReaderCompiler, ReadingState, UnknownField
from ingest.formats.protobuf.weight import MAX_PARSED, Weight
from ingest.model import types
from ingest.model.change import InlineSchema, Reject
from ingest.model.data_type import ArrayType, DateType, MapType, StructField, StructType, TimestampType, TimeType
from ingest.model.floats import NotANumber
from ingest.model.text import one_line

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor

    from ingest.model.data_type import DataType

_UNKNOWN: Final = "which the schema does not have; give a schema that has it, or ignore such fields (unknown-fields)"


class RowSchema:
    """The reader of a message type's rows, and what its messages declare."""

    def __init__(self, descriptor: Descriptor, *, read_defaults: bool = False, ignore_unknown: bool = False) -> None:
        """Compile a message type. Raise SchemaError.

        `read_defaults`: an absent field has its default value. `ignore_unknown`: a message may have fields that its
        type does not have.
        """
        try:
            self._compiler = ReaderCompiler(descriptor, read_defaults=read_defaults, ignore_unknown=ignore_unknown)
            self._reader = self._compiler.reader(descriptor)
        except RecursionError:
            msg = "its messages are nested too deep"
            raise SchemaError(msg) from None
        self._weight = Weight(descriptor)
        self.declared = InlineSchema(self._reader.types)
        """The types of columns, as messages declare them whose times are those of their types."""
        self._widened: dict[frozenset[str], InlineSchema] = {}

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(name for name, _, _ in self._reader.fields.values())

    def decode(self, message: bytes) -> tuple[msgspec.Raw, InlineSchema] | Reject:
        """Return the row of a message with what it declares, or the reject of one that is none of this type."""
        name = ""
        others = []
        if not self._weight.is_bearable(message):
            return Reject("malformed", f"its parts would take more than {MAX_PARSED >> 20} MiB of memory")
        self._compiler.state = state = ReadingState(len(message))
        try:
            parsed = self._reader.message_class.FromString(message)
            if self._compiler.required and not self._reader.message_class.IsInitialized(parsed):
                return Reject("malformed", "not a message of its schema: it lacks a required field")
            row = self._reader.absent.copy()
            for field, value in self._reader.list_fields(parsed):
                name, convert, _ = self._reader.fields[field]
                row[name] = convert(value)
                if state.other:
                    others.append(name)
                    state.other = False
            self._compiler.check_unknown(parsed)
            text = msgspec.Raw(msgspec.json.encode(row))
        except DecodeError as exc:
            return Reject("malformed", f"not a message of its schema: {one_line(str(exc))[:200]}")
        except (MessageError, RecursionError) as exc:
            why = "it is nested too deep" if isinstance(exc, RecursionError) else exc
            return Reject("malformed", f"not a message of its schema: {why}")
        except UnknownField as exc:
            return Reject("unknown-field", f"it has {exc}, {_UNKNOWN}")
        except NotANumber as exc:
            return Reject("not-a-number", f"column {name!r} holds {exc}")
        except ValueError as exc:
            data_type = types.name(self._reader.types.get(name, types.NULL))
            return Reject("type-mismatch", f"column {name!r} is declared {data_type} and holds {exc}")
        return text, self._declared(frozenset(others)) if others else self.declared

    def _declared(self, others: frozenset[str]) -> InlineSchema:
        """Return what a message declares whose columns of these names hold times that their types do not have."""
        found = self._widened.get(others)
        if found is None:
            made = {name: _as_text(one) if name in others else one for name, one in self.declared.types.items()}
            found = InlineSchema(made)
            if len(self._widened) < 1000:
                self._widened[others] = found
        return found


def _as_text(data_type: DataType) -> DataType:
    """Return a type with STRING for each time in it."""
    if isinstance(data_type, ArrayType):
        return ArrayType(_as_text(data_type.element))
    if isinstance(data_type, MapType):
        return MapType(data_type.key, _as_text(data_type.value))
    if isinstance(data_type, StructType):
        return StructType(tuple(StructField(one.name, _as_text(one.type)) for one in data_type.fields))
    return types.STRING if isinstance(data_type, (DateType, TimestampType, TimeType)) else data_type

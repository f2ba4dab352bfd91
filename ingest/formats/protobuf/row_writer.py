"""Messages out of rows: for one message type, the function that writes a row.

google's library writes the bytes. Rules: docs/spec/protobuf.md#writing.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from google.protobuf import descriptor_pb2, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import EncodeError

from ingest.formats.protobuf import well_known
from ingest.formats.protobuf.rows import is_choice
from ingest.formats.protobuf.scalars import key_text, scalar
from ingest.formats.protobuf.well_known import FILLED, inside
from ingest.formats.protobuf.well_known import rounding as any_rounding
from ingest.model import types
from ingest.model.jsontext import MALFORMED, fields_of
from ingest.model.numbers import Rounds, in_elements, in_fields, in_values, rounding_of
from ingest.model.reject import RowError
from ingest.model.types import ArrayType, DataType, MapType, StructType
from ingest.model.values import elements_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import msgspec

    from ingest.formats.protobuf.scalars import Make
    from ingest.formats.protobuf.schema import AnyMessage

    Put: TypeAlias = Callable[[Any, bytes], None]
    """Function that puts a JSON text into a message's field. It raises ValueError."""

_FLOATS: Final = {FieldDescriptor.TYPE_FLOAT: types.FLOAT, FieldDescriptor.TYPE_DOUBLE: types.DOUBLE}
_NULL: Final = b"null"
_SET_IN_PARENT: Final[Callable[[Any], None]] = descriptor_pb2.FileDescriptorSet.SetInParent
_WHICH: Final[Callable[[Any, str], str | None]] = descriptor_pb2.FileDescriptorSet.WhichOneof


class _FieldError(ValueError):
    """Error about the value of a field. `name` is the field, with the names of those that it is inside of."""

    def __init__(self, name: str, reason: Exception) -> None:
        self.name: str = f"{name}.{reason.name}" if isinstance(reason, _FieldError) else name
        super().__init__(str(reason))


class RowWriter:
    """Writer of rows as messages of one type."""

    def __init__(self, descriptor: Descriptor, columns: Mapping[str, DataType], null_text: str | None = None) -> None:
        """Compile a message type for rows with these columns. Raise RowError where it cannot take them.

        `null_text` stands for a null among the texts of an ARRAY or MAP; without it such a null cannot be said.
        """
        try:
            _check_fields(descriptor, columns)
            self._descriptor = descriptor
            self._class: Any = message_factory.GetMessageClass(descriptor)
            self._put = _Fields(descriptor, null_text, {})
        except RecursionError:
            raise RowError("unwritable-table", f"the message {descriptor.full_name} is nested too deep") from None

    @cached_property
    def rounds(self) -> Mapping[str, Rounds]:
        """What says of values of fields, as they were written, whether they became other numbers."""
        found = ((field.name, _rounding(field, {})) for field in self._descriptor.fields)
        return {name: rounds for name, rounds in found if rounds is not None}

    def write(self, row: Mapping[str, bytes]) -> bytes:
        """Return the bytes of a row. Raise RowError where a value is none that its field can have."""
        message = self._class()
        try:
            self._put.put(message, row)
            return bytes(self._class.SerializeToString(message, deterministic=True))
        except _FieldError as exc:
            raw = row.get(exc.name.partition(".")[0], _NULL)
            shown = raw[:60].decode("utf-8", "backslashreplace")
            msg = f"column {exc.name[:100]!r} holds {shown}, which its field cannot say: {exc}"
        except EncodeError as exc:
            msg = f"a field that a message must have is null: {exc}"
        except RecursionError:
            msg = "a row is nested too deep"
        raise RowError("type-mismatch", msg)


def _check_fields(descriptor: Descriptor, columns: Mapping[str, DataType], above: str = "") -> None:
    """Raise RowError unless a message has a field for each column, and a column for each field that it must have."""
    fields = descriptor.fields_by_name
    for name, data_type in columns.items():
        if name not in fields:
            msg = (
                f"the message {descriptor.full_name} has no field {name[:100]!r}; add it there, or leave the column out"
            )
            raise RowError("unwritable-table", msg)
        inner, innermost = fields[name].message_type, data_type
        while isinstance(innermost, (ArrayType, MapType)):
            innermost = innermost.element if isinstance(innermost, ArrayType) else innermost.value
        if inner is not None and inner.GetOptions().map_entry:
            inner = inner.fields_by_number[2].message_type
        if isinstance(innermost, StructType) and inner is not None and not well_known.is_known(inner):
            _check_fields(inner, {one.name: one.type for one in innermost.fields}, f"{above}{name}.")
    for field in descriptor.fields:
        if field.is_required and field.name not in columns:
            msg = f"the message {descriptor.full_name} must have {above}{field.name}, and no column has its name"
            raise RowError("unwritable-table", msg)


def _rounding(field: FieldDescriptor, known: dict[str, list[Rounds | None]]) -> Rounds | None:
    """Return what says of a field's values whether they become other numbers; None where none does.

    `known` has those of the messages that the field is inside of; a message may hold itself.
    """
    inner = field.message_type
    if inner is None:
        found = rounding_of(_FLOATS[field.type]) if field.type in _FLOATS else None
    elif inner.GetOptions().map_entry:
        return in_values(_rounding(inner.fields_by_number[2], known))
    elif well_known.is_known(inner):
        of_any = any_rounding(inner.full_name)
        found = of_any if inner.full_name in FILLED else _rounding(inner.fields[0], known)
    else:
        found = _rounding_of_message(inner, known)
    return in_elements(found) if field.is_repeated else found


def _rounding_of_message(inner: Descriptor, known: dict[str, list[Rounds | None]]) -> Rounds | None:
    of_it = known.get(inner.full_name)
    if of_it is None:
        of_it = known[inner.full_name] = []
        of_it.append(in_fields({field.name: _rounding(field, known) for field in inner.fields}))
        return of_it[0]
    found = of_it
    return found[0] if found else lambda raw, said: found[0] is not None and found[0](raw, said)


class _Fields:
    """Writer of the fields of one message type."""

    def __init__(self, descriptor: Descriptor, null_text: str | None, known: dict[str, _Fields]) -> None:
        """`known` has the writers of the types that are known; a message may hold itself."""
        known[descriptor.full_name] = self
        self._null_text, self._known = null_text, known
        self._fields = {field.name: (self._field(field), _choice_of(field)) for field in descriptor.fields}

    def put(self, message: AnyMessage, row: Mapping[str, bytes] | Mapping[str, msgspec.Raw]) -> None:
        """Put the values of a row into a message. Raise _FieldError."""
        for name, value in row.items():
            raw = bytes(value)
            if raw == _NULL:
                continue
            try:
                self._put_one(message, name, raw)
            except (ValueError, *MALFORMED) as exc:
                raise _FieldError(name, exc) from None

    def _put_one(self, message: AnyMessage, name: str, raw: bytes) -> None:
        found = self._fields.get(name)
        if found is None:
            raise ValueError("there is no such field")
        put, choice = found
        if choice is not None and (other := _WHICH(message, choice)) is not None:
            raise ValueError(f"a message has either this or {other}")
        put(message, raw)

    def _field(self, field: FieldDescriptor) -> Put:
        name, inner = field.name, field.message_type
        if inner is not None and inner.GetOptions().map_entry:
            return self._map(name, inner)
        if inner is not None:
            return self._message(name, inner, repeated=field.is_repeated)
        make = self._or_null(field)
        if field.is_repeated:
            return lambda message, raw: getattr(message, name).extend([make(bytes(one)) for one in _elements(raw)])
        return lambda message, raw: setattr(message, name, make(raw))

    def _or_null(self, field: FieldDescriptor) -> Make:
        """Return the function for values of a field, or of an ARRAY or MAP, where a null may have a text."""
        make, null_text = scalar(field), self._null_text
        if null_text is not None and field.type == FieldDescriptor.TYPE_STRING:
            return lambda raw: null_text if raw == _NULL else make(raw)
        return lambda raw: make(_not_null(raw))

    def _message(self, name: str, inner: Descriptor, *, repeated: bool) -> Put:
        fill = self._filled(inner)

        def put(message: AnyMessage, raw: bytes) -> None:
            found = getattr(message, name)
            _SET_IN_PARENT(found)
            fill(found, raw)

        def add(message: AnyMessage, raw: bytes) -> None:
            found = getattr(message, name)
            for one in _elements(raw):
                fill(found.add(), _not_null(bytes(one)))

        return add if repeated else put

    def _filled(self, inner: Descriptor) -> Put:
        """Return the function that fills a message from a JSON text."""
        if well_known.is_known(inner):
            found = FILLED.get(inner.full_name)
            if found is not None:
                return found
            make = scalar(inner.fields[0])
            return lambda message, raw: setattr(message, "value", make(raw))
        fields = self._known.get(inner.full_name) or _Fields(inner, self._null_text, self._known)
        return lambda message, raw: fields.put(message, _members(raw))

    def _map(self, name: str, entry: Descriptor) -> Put:
        key_field, value_field = entry.fields_by_number[1], entry.fields_by_number[2]
        make_key = scalar(key_field)
        if value_field.message_type is None:
            make = self._or_null(value_field)

            def put(message: AnyMessage, raw: bytes) -> None:
                found = getattr(message, name)
                for key, one in _members(raw).items():
                    found[make_key(key_text(key_field, key))] = make(bytes(one))

            return put
        fill = self._filled(value_field.message_type)

        def put_messages(message: AnyMessage, raw: bytes) -> None:
            found = getattr(message, name)
            for key, one in _members(raw).items():
                fill(found[make_key(key_text(key_field, key))], _not_null(bytes(one)))

        return put_messages


def _choice_of(field: FieldDescriptor) -> str | None:
    return field.containing_oneof.name if is_choice(field) and field.containing_oneof is not None else None


def _not_null(raw: bytes) -> bytes:
    """Return a value inside of an ARRAY or MAP. Raise ValueError for null, which Protocol Buffers do not have there."""
    if raw == _NULL:
        raise ValueError("a null inside of it")
    return raw


def _elements(raw: bytes) -> list[msgspec.Raw]:
    """Return the elements of an array, or of the one whose JSON a text holds. Raise ValueError, or one of MALFORMED."""
    return elements_of(inside(raw))


def _members(raw: bytes) -> Mapping[str, msgspec.Raw]:
    """Return the members of an object, or of the one whose JSON a text holds. Raise ValueError, or one of MALFORMED."""
    return fields_of(inside(raw))

"""Writing of values in Avro's binary encoding, by the schema of each.

In: the node of a schema, and the JSON text of a value as rows have it. Out: its bytes. A value that a schema does not
have, or not exactly, raises ValueError. Rules: docs/spec/avro.md#writing.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from functools import partial
from math import isfinite
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from ingest.avro.defaults import default_bytes, number_bytes
from ingest.avro.rows import Compiler
from ingest.avro.schema import LOGICAL, SchemaError
from ingest.model import temporal, types
from ingest.model.data_type import DecimalType, TimeType
from ingest.model.jsontext import MALFORMED, fields_of
from ingest.model.values import elements_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ingest.avro.schema import Field, Node

Write: TypeAlias = Callable[[bytes], bytes]
"""Function that returns the bytes of a value, given as JSON text. It raises ValueError."""

_NULL: Final = b"null"
_FLOAT = Struct("<f")
_DOUBLE = Struct("<d")
_is_decimal: Final = re.compile(rb"-?[0-9]{1,60}(?:\.[0-9]{1,60})?").fullmatch
_is_whole: Final = re.compile(rb"-?[0-9]{1,20}").fullmatch
_MILLIS: Final = frozenset({
    "time-millis", "timestamp-millis", "local-timestamp-millis", "io.debezium.time.Time", "io.debezium.time.Timestamp",
    "org.apache.kafka.connect.data.Time", "org.apache.kafka.connect.data.Timestamp",
})  # fmt: skip
"""Logical types that count milliseconds; others count microseconds."""


def _wrong(what: str) -> ValueError:
    return ValueError(what)


class FieldError(ValueError):
    """Error about the value of a record's field. `name` is the field, with the names of those that it is inside of."""

    def __init__(self, name: str, reason: ValueError) -> None:
        """Keep the field and the reason."""
        self.name = name
        if isinstance(reason, FieldError):
            self.name = f"{name}.{reason.name}"
        super().__init__(str(reason))


def write_boolean(raw: bytes) -> bytes:
    """Write `true` or `false`."""
    if raw not in {b"true", b"false"}:
        raise _wrong("no boolean")
    return b"\1" if raw == b"true" else b"\0"


def _whole(raw: bytes, low: int, high: int) -> int:
    if _is_whole(raw) is None or not low <= (value := int(raw)) <= high:
        raise _wrong("no such whole number")
    return value


def _write_whole(raw: bytes, low: int, high: int) -> bytes:
    return number_bytes(_whole(raw, low, high))


def _bounded(bits: int) -> Write:
    return partial(_write_whole, low=-(1 << (bits - 1)), high=(1 << (bits - 1)) - 1)


def _write_float(raw: bytes, form: Struct) -> bytes:
    """Write the number that is nearest to a decimal one."""
    if raw[:1] != b"-" and not raw[:1].isdigit():
        raise _wrong("no number")
    value = float(raw)
    try:
        packed = form.pack(value)
    except OverflowError:
        value = float("inf")
    if not isfinite(value):
        raise _wrong("a number that is too large")
    return packed


def write_bytes(raw: bytes) -> bytes:
    """Write the bytes of Base64, with their number in front."""
    piece = _plain_bytes(raw)
    return number_bytes(len(piece)) + piece


def _plain_bytes(raw: bytes) -> bytes:
    if raw[:1] != b'"':
        raise _wrong("no bytes in Base64")
    return base64.b64decode(raw[1:-1], validate=True)


def _text(raw: bytes) -> bytes:
    """Return the characters of a text in UTF-8; of another value its JSON, which is what a text column has of it."""
    if raw == _NULL:
        raise _wrong("null")
    if raw[:1] in {b"{", b"["}:
        return msgspec.json.format(raw, indent=-1)
    return _characters(raw) if raw[:1] == b'"' else raw


def _characters(raw: bytes) -> bytes:
    try:
        return msgspec.json.decode(raw, type=str).encode()
    except MALFORMED:
        raise _wrong("no text that UTF-8 has") from None


def write_string(raw: bytes) -> bytes:
    """Write a text in UTF-8, with the number of its bytes in front."""
    text = _text(raw)
    return number_bytes(len(text)) + text


def _unscaled(raw: bytes, precision: int, scale: int) -> int:
    if _is_decimal(raw) is None:
        raise _wrong("no plain number")
    whole, _, fraction = raw.partition(b".")
    if fraction[scale:].strip(b"0"):
        raise _wrong("more digits after the point")
    value = int(whole + fraction[:scale].ljust(scale, b"0"))
    if not -(10**precision) < value < 10**precision:
        raise _wrong("more digits")
    return value


def _write_decimal(raw: bytes, precision: int, scale: int) -> bytes:
    value = _unscaled(raw, precision, scale)
    size = (value + (value < 0)).bit_length() // 8 + 1
    return number_bytes(size) + value.to_bytes(size, "big", signed=True)


def _write_fixed_decimal(raw: bytes, precision: int, scale: int, size: int) -> bytes:
    try:
        return _unscaled(raw, precision, scale).to_bytes(size, "big", signed=True)
    except OverflowError:
        msg = "more digits"
        raise ValueError(msg) from None


def _write_fixed(raw: bytes, size: int) -> bytes:
    piece = _plain_bytes(raw)
    if len(piece) != size:
        msg = f"{len(piece)} bytes, and not {size}"
        raise ValueError(msg)
    return piece


def _write_uuid(raw: bytes) -> bytes:
    text = _text(raw).replace(b"-", b"")
    if len(text) != 32:
        raise _wrong("no UUID")
    return bytes.fromhex(text.decode())


def _write_enum(raw: bytes, symbols: Mapping[bytes, bytes]) -> bytes:
    found = symbols.get(_text(raw))
    if found is None:
        raise _wrong("none of its symbols")
    return found


def _write_date(raw: bytes) -> bytes:
    if not temporal.is_date(raw):
        raise _wrong("no date")
    return number_bytes(temporal.days(raw))


def _write_time(raw: bytes, unit: int) -> bytes:
    if not temporal.is_time(raw) and not temporal.is_fine_time(raw):
        raise _wrong("no time")
    return number_bytes(_counted(temporal.micros_of_day(raw), unit))


def _write_moment(raw: bytes, unit: int) -> bytes:
    if temporal.is_date(raw):
        return number_bytes(_counted(temporal.days(raw) * 86_400_000_000, unit))
    standard = temporal.ISO if raw[11:12] == b"T" else temporal.SQL
    zoned = raw[-2:] == b'Z"'
    if not temporal.is_timestamp(raw, standard, zoned=zoned) and not temporal.is_fine_timestamp(
        raw, standard, zoned=zoned
    ):
        raise _wrong("no timestamp")
    return number_bytes(_counted(temporal.micros(raw), unit))


def _counted(micros: int, unit: int) -> int:
    count, rest = divmod(micros, unit)
    if rest:
        raise _wrong("finer than a millisecond")
    return count


def _write_zoned(raw: bytes) -> bytes:
    if raw[-2:] != b'Z"':
        raise _wrong("no timestamp with a zone")
    return write_string(raw.replace(b" ", b"T", 1))


def _inside(raw: bytes) -> bytes:
    """Return the JSON of a nested value, also where a text holds it, as a STRING column does."""
    return _characters(raw) if raw[:1] == b'"' else raw


class WriterCompiler:
    """Compiler of functions that write. Each record is compiled once, also one that holds itself."""

    def __init__(self) -> None:
        """Know no record yet."""
        self._records: dict[int, list[Write]] = {}
        self._types = Compiler()

    def compile(self, node: Node) -> Write:
        """Return the function that writes a node's values; it raises ValueError. Raise SchemaError."""
        kind = node.kind
        if kind == "union":
            return self._union([self.compile(branch) for branch in node.branches], node)
        if kind in {"array", "map"}:
            (item,) = node.branches
            return partial(_write_array if kind == "array" else _write_map, item=self.compile(item))
        data_type, _ = self._types.compile(node)
        if kind == "record":
            if "connect.name" in node.properties and not types.is_text(data_type):
                raise _unwritable(node)
            return self._record(node)
        if kind == "enum":
            symbols = {symbol.encode(): number_bytes(at) for at, symbol in enumerate(node.symbols)}
            return partial(_write_enum, symbols=symbols)
        return _scalar(node, data_type)

    def _record(self, node: Node) -> Write:
        known = self._records.get(id(node))
        if known is None:
            known = self._records[id(node)] = []
            fields = [FieldWriter(one, self.compile(one.node)) for one in node.fields]
            known.append(partial(_write_record, fields=fields))
        return partial(_write_later, known=known)

    @staticmethod
    def _union(branches: Sequence[Write], node: Node) -> Write:
        nulls = [number_bytes(at) for at, branch in enumerate(node.branches) if branch.kind == "null"]
        others = [
            (number_bytes(at), write)
            for at, (branch, write) in enumerate(zip(node.branches, branches, strict=True))
            if branch.kind != "null"
        ]
        return partial(_write_union, null=nulls[0] if nulls else None, others=others)


def _scalar(node: Node, data_type: Any) -> Write:  # noqa: ANN401  (a column type)
    """Return the function that writes values of a node that holds no others. Raise SchemaError."""
    kind = node.kind
    if isinstance(data_type, DecimalType):
        if kind == "fixed":
            return partial(_write_fixed_decimal, precision=data_type.precision, scale=data_type.scale, size=node.size)
        return partial(_write_decimal, precision=data_type.precision, scale=data_type.scale)
    unit = 1000 if {node.properties.get(LOGICAL), node.properties.get("connect.name")} & _MILLIS else 1
    if data_type == types.DATE:
        return _write_date
    if isinstance(data_type, TimeType):
        return partial(_write_time, unit=unit)
    if data_type in {types.TIMESTAMP, types.TIMESTAMP_LTZ}:
        return _write_zoned if kind == "string" else partial(_write_moment, unit=unit)
    if kind == "fixed" and data_type == types.BYTES:
        return partial(_write_fixed, size=node.size)
    if kind == "fixed" and node.size == 16 and node.properties.get(LOGICAL) == "uuid":
        return _write_uuid
    if kind in {"bytes", "fixed"} and data_type != types.BYTES:
        raise _unwritable(node)
    if data_type in {types.TINYINT, types.SMALLINT}:
        return _bounded(8 if data_type == types.TINYINT else 16)
    return _PLAIN[kind]


def _unwritable(node: Node) -> SchemaError:
    name = node.properties.get("connect.name") or node.properties.get(LOGICAL)
    return SchemaError(f"values of the logical type {str(name)[:60]!r} are not written")


def _write_null(raw: bytes) -> bytes:
    if raw != _NULL:
        raise _wrong("not null")
    return b""


_PLAIN: Final[dict[str, Write]] = {
    "null": _write_null,
    "boolean": write_boolean,
    "int": _bounded(32),
    "long": _bounded(64),
    "float": partial(_write_float, form=_FLOAT),
    "double": partial(_write_float, form=_DOUBLE),
    "bytes": write_bytes,
    "string": write_string,
}


def _write_union(raw: bytes, null: bytes | None, others: Sequence[tuple[bytes, Write]]) -> bytes:
    """Write null, or a value as the first branch that has it."""
    if raw == _NULL:
        if null is None:
            raise _wrong("null")
        return null
    failed: ValueError | None = None
    for number, write in others:
        try:
            return number + write(raw)
        except ValueError as exc:
            failed = exc
    raise failed or _wrong("not null")


def _write_array(raw: bytes, item: Write) -> bytes:
    try:
        items = elements_of(_inside(raw))
    except MALFORMED:
        raise _wrong("no array") from None
    return number_bytes(len(items)) + b"".join([item(bytes(one)) for one in items]) + b"\0" if items else b"\0"


def _members(raw: bytes) -> dict[str, bytes]:
    try:
        return {name: bytes(value) for name, value in fields_of(_inside(raw)).items()}
    except MALFORMED:
        raise _wrong("no object") from None


def _write_map(raw: bytes, item: Write) -> bytes:
    members = _members(raw)
    if not members:
        return b"\0"
    out = [number_bytes(len(members))]
    for name, value in members.items():
        key = name.encode()
        out += (number_bytes(len(key)), key, item(value))
    return b"".join([*out, b"\0"])


class FieldWriter:
    """One field of a record: its name, the function that writes its values, and the bytes where there is no value."""

    __slots__ = ("absent", "name", "write")

    def __init__(self, field: Field, write: Write) -> None:
        """Make the bytes of a value that a row does not have: null, or else the field's default. Raise SchemaError."""
        self.name, self.write = field.name, write
        self.absent: bytes | None = None
        try:
            self.absent = write(_NULL)
        except ValueError:
            if field.has_default:
                self.absent = default_bytes(field.default, field.node)


def write_fields(row: Mapping[str, bytes], fields: Sequence[FieldWriter]) -> bytes:
    """Return the bytes of a record. A value that is missing is null, or else the default of its field.

    Raise FieldError.
    """
    out = []
    for field in fields:
        raw = row.get(field.name, _NULL)
        try:
            if raw == _NULL:
                if field.absent is None:
                    raise _wrong("null")
                out.append(field.absent)
            else:
                out.append(field.write(raw))
        except ValueError as exc:
            raise FieldError(field.name, exc) from None
    return b"".join(out)


def _write_record(raw: bytes, fields: Sequence[FieldWriter]) -> bytes:
    members = _members(raw)
    if len(members) > len(fields) or not members.keys() <= {field.name for field in fields}:
        raise _wrong("a member that its record does not have")
    return write_fields(members, fields)


def _write_later(raw: bytes, known: Sequence[Write]) -> bytes:
    """Write by the one function that the list holds by the time that a value comes."""
    return known[0](raw)

"""Writing of single values in Avro's binary encoding, by the type of each.

In: the node of a schema that holds no others, and the JSON text of a value as rows have it. Out: its bytes. A value
that a schema does not have, or not exactly, raises ValueError. Rules: docs/spec/avro.md#writing.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from functools import partial
from math import isfinite
from struct import Struct
from typing import Final, TypeAlias

import msgspec

from ingest.formats.avro.logical import counts_millis
from ingest.formats.avro.schema import LOGICAL, Node, SchemaError, number_bytes
from ingest.model import temporal, types
from ingest.model.jsontext import MALFORMED, Json
from ingest.model.types import DecimalType, TimeType

Write: TypeAlias = Callable[[bytes], bytes]
"""Function that returns the bytes of a value, given as JSON text. It raises ValueError."""

NULL: Final = b"null"
_FLOAT = Struct("<f")
_DOUBLE = Struct("<d")
_is_decimal: Final = re.compile(rb"-?[0-9]{1,60}(?:\.[0-9]{1,60})?").fullmatch
_is_whole: Final = re.compile(rb"-?[0-9]{1,20}").fullmatch


def wrong(what: str) -> ValueError:
    """Return the error about a value; `what` says what the value is."""
    return ValueError(what)


def write_boolean(raw: bytes) -> bytes:
    """Write `true` or `false`."""
    if raw not in {b"true", b"false"}:
        raise wrong("no boolean")
    return b"\1" if raw == b"true" else b"\0"


def _whole(raw: bytes, low: int, high: int) -> int:
    if _is_whole(raw) is None or not low <= (value := int(raw)) <= high:
        raise wrong("no such whole number")
    return value


def _write_whole(raw: bytes, low: int, high: int) -> bytes:
    return number_bytes(_whole(raw, low, high))


def _bounded(bits: int) -> Write:
    return partial(_write_whole, low=-(1 << (bits - 1)), high=(1 << (bits - 1)) - 1)


def _write_float(raw: bytes, form: Struct) -> bytes:
    """Write the number that is nearest to a decimal one."""
    if raw[:1] != b"-" and not raw[:1].isdigit():
        raise wrong("no number")
    value = float(raw)
    try:
        packed = form.pack(value)
    except OverflowError:
        value = float("inf")
    if not isfinite(value):
        raise wrong("a number that is too large")
    return packed


def write_bytes(raw: bytes) -> bytes:
    """Write the bytes of Base64, with their number in front."""
    piece = _plain_bytes(raw)
    return number_bytes(len(piece)) + piece


def _plain_bytes(raw: bytes) -> bytes:
    if raw[:1] != b'"':
        raise wrong("no bytes in Base64")
    return base64.b64decode(raw[1:-1], validate=True)


def _text(raw: bytes) -> bytes:
    """Return the characters of a text in UTF-8; of another value its JSON, which is what a text column has of it."""
    if raw == NULL:
        raise wrong("null")
    if raw[:1] in {b"{", b"["}:
        return msgspec.json.format(raw, indent=-1)
    return characters(raw) if raw[:1] == b'"' else raw


def characters(raw: bytes) -> bytes:
    """Return the characters of a JSON text in UTF-8; raises ValueError."""
    try:
        return msgspec.json.decode(raw, type=str).encode()
    except MALFORMED:
        raise wrong("no text that UTF-8 has") from None


def write_string(raw: bytes) -> bytes:
    """Write a text in UTF-8, with the number of its bytes in front."""
    text = _text(raw)
    return number_bytes(len(text)) + text


def _unscaled(raw: bytes, precision: int, scale: int) -> int:
    if _is_decimal(raw) is None:
        raise wrong("no plain number")
    whole, _, fraction = raw.partition(b".")
    if fraction[scale:].strip(b"0"):
        raise wrong("more digits after the point")
    value = int(whole + fraction[:scale].ljust(scale, b"0"))
    if not -(10**precision) < value < 10**precision:
        raise wrong("more digits")
    return value


def _write_decimal(raw: bytes, precision: int, scale: int) -> bytes:
    value = _unscaled(raw, precision, scale)
    size = (value + (value < 0)).bit_length() // 8 + 1
    return number_bytes(size) + value.to_bytes(size, "big", signed=True)


def _write_fixed_decimal(raw: bytes, precision: int, scale: int, size: int) -> bytes:
    try:
        return _unscaled(raw, precision, scale).to_bytes(size, "big", signed=True)
    except OverflowError:
        raise ValueError("more digits") from None


def _write_fixed(raw: bytes, size: int) -> bytes:
    piece = _plain_bytes(raw)
    if len(piece) != size:
        raise ValueError(f"{len(piece)} bytes, and not {size}")
    return piece


def _write_uuid(raw: bytes) -> bytes:
    text = _text(raw).replace(b"-", b"")
    if len(text) != 32:
        raise wrong("no UUID")
    return bytes.fromhex(text.decode())


def write_enum(raw: bytes, symbols: Mapping[bytes, bytes]) -> bytes:
    """Write one of the symbols, of which each has its bytes."""
    found = symbols.get(_text(raw))
    if found is None:
        raise wrong("none of its symbols")
    return found


def _write_date(raw: bytes) -> bytes:
    if not temporal.is_date(raw):
        raise wrong("no date")
    return number_bytes(temporal.days(raw))


def _write_time(raw: bytes, unit: int) -> bytes:
    if not temporal.is_time(raw) and not temporal.is_fine_time(raw):
        raise wrong("no time")
    return number_bytes(_counted(temporal.micros_of_day(raw), unit))


def _write_moment(raw: bytes, unit: int) -> bytes:
    if temporal.is_date(raw):
        return number_bytes(_counted(temporal.days(raw) * 86_400_000_000, unit))
    standard = temporal.ISO if raw[11:12] == b"T" else temporal.SQL
    zoned = raw[-2:] == b'Z"'
    if not temporal.is_timestamp(raw, standard, zoned=zoned) and not temporal.is_fine_timestamp(
        raw, standard, zoned=zoned
    ):
        raise wrong("no timestamp")
    return number_bytes(_counted(temporal.micros(raw), unit))


def _counted(micros: int, unit: int) -> int:
    count, rest = divmod(micros, unit)
    if rest:
        raise wrong("finer than a millisecond")
    return count


def _write_zoned(raw: bytes) -> bytes:
    if raw[-2:] != b'Z"':
        raise wrong("no timestamp with a zone")
    return write_string(raw.replace(b" ", b"T", 1))


def scalar(node: Node, data_type: Json) -> Write:
    """Return the function that writes values of a node that holds no others. Raise SchemaError."""
    kind = node.kind
    if isinstance(data_type, DecimalType):
        if kind == "fixed":
            return partial(_write_fixed_decimal, precision=data_type.precision, scale=data_type.scale, size=node.size)
        return partial(_write_decimal, precision=data_type.precision, scale=data_type.scale)
    unit = 1000 if counts_millis(node) else 1
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
        raise unwritable(node)
    if data_type in {types.TINYINT, types.SMALLINT}:
        return _bounded(8 if data_type == types.TINYINT else 16)
    return _PLAIN[kind]


def unwritable(node: Node) -> SchemaError:
    """Return the error about a logical type that is only read."""
    name = node.properties.get("connect.name") or node.properties.get(LOGICAL)
    return SchemaError(f"values of the logical type {str(name)[:60]!r} are not written")


def _write_null(raw: bytes) -> bytes:
    if raw != NULL:
        raise wrong("not null")
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

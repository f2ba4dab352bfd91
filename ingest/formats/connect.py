"""Kafka Connect's schemas in JSON: the types of a row's columns, with the logical types of Connect and Debezium.

In: the schema part of a message. Out: for each column of the row its type and how its values are read. Reference:
alibaba-kafka.txt, `debezium-json.schema-include`; decisions, "Sources".
"""

from __future__ import annotations

import base64
import binascii
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
from pyspark.sql.types import DecimalType, TimeType

from ingest.formats.typed import Column, plain, texts
from ingest.model import temporal, types

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.types import DataType


class Field(msgspec.Struct, gc=False):
    """One field of a Connect schema, or a whole one."""

    type: str | None = None
    name: str | None = None
    field: str | None = None
    parameters: dict[str, Any] | None = None
    fields: list[Field] | None = None


_schema = msgspec.json.Decoder(Field).decode

_PLAIN: Final[dict[str, DataType]] = {
    "int8": types.TINYINT, "int16": types.SMALLINT, "int32": types.INT, "int64": types.BIGINT,
    "float": types.FLOAT, "float32": types.FLOAT, "double": types.DOUBLE, "float64": types.DOUBLE,
    "boolean": types.BOOLEAN, "string": types.STRING, "bytes": types.BYTES,
}  # fmt: skip


def row_columns(schema: bytes) -> dict[str, Column]:
    """The columns of the `after` (or `before`) struct of an envelope's schema; raises one of MALFORMED."""
    envelope = _schema(schema)
    images = {field.field: field for field in envelope.fields or []}
    row = images.get("after") or images.get("before")
    if row is None:
        return {}
    return {field.field: _column(field) for field in row.fields or [] if field.field is not None and field.type}


def _column(field: Field) -> Column:
    logical = _LOGICAL.get(field.name or "")
    if logical is not None:
        column = logical(field)
        if column is not None:
            return column
    if field.type == "bytes":
        return Column(types.BYTES)
    found = _PLAIN.get(field.type or "")
    # Arrays, maps and structs are texts that hold their JSON
    return Column(types.STRING, None, texts(types.STRING)) if found is None else Column(found, None, plain(found))


# -- logical types ---------------------------------------------------------------------------------------------------


def _count(raw: bytes, text: Callable[[int], bytes]) -> bytes:
    return text(int(raw))


def _days(_: Field) -> Column:
    return Column(types.DATE, partial(_count, text=temporal.date_text))


def _time(micros: int, precision: int) -> Callable[[Field], Column]:
    column = Column(TimeType(precision), partial(_count, text=lambda n: temporal.time_text(n * micros)))
    return lambda _: column


def _timestamp(micros: int) -> Callable[[Field], Column]:
    column = Column(types.TIMESTAMP, partial(_count, text=lambda n: temporal.timestamp_text(n * micros)))
    return lambda _: column


def _zoned(_: Field) -> Column:
    return Column(types.TIMESTAMP_LTZ, lambda raw: temporal.zoned_text(_text(raw)))


def _text(raw: bytes) -> str:
    if raw[:1] != b'"':
        msg = "not a text"
        raise ValueError(msg)
    return msgspec.json.decode(raw, type=str)


def _unscaled(raw: bytes) -> int:
    try:
        return int.from_bytes(base64.b64decode(_text(raw), validate=True), "big", signed=True)
    except binascii.Error as exc:
        raise ValueError(str(exc)) from exc


def decimal_text(unscaled: int, scale: int) -> bytes:
    """A plain number with all its digits: 125 with scale 2 is `1.25`."""
    if scale <= 0:
        return b"%d" % (unscaled * 10 ** min(-scale, types.MAX_PRECISION))
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    return f"{'-' if unscaled < 0 else ''}{digits[:-scale]}.{digits[-scale:]}".encode()


def _decimal(field: Field) -> Column | None:
    parameters = field.parameters or {}
    try:
        scale = int(parameters.get("scale", 0))
        precision = int(parameters.get("connect.decimal.precision", types.MAX_PRECISION))
    except (TypeError, ValueError):
        return None
    exact = 0 <= scale <= precision <= types.MAX_PRECISION

    def convert(raw: bytes) -> bytes:
        number = raw if raw[:1] != b'"' else decimal_text(_unscaled(raw), scale)
        return number if exact else b'"' + number + b'"'

    return Column(DecimalType(precision, scale) if exact else types.STRING, convert)


class _Variable(msgspec.Struct):
    scale: int
    value: msgspec.Raw


_variable = msgspec.json.Decoder(_Variable).decode


def _variable_decimal(_: Field) -> Column:
    """Every value has a scale of its own, so no DECIMAL holds them all: a text with the exact number."""

    def convert(raw: bytes) -> bytes:
        found = _variable(raw)
        if abs(found.scale) > 1000:
            msg = "a scale past all reason"
            raise ValueError(msg)
        return b'"' + decimal_text(_unscaled(bytes(found.value)), found.scale) + b'"'

    return Column(types.STRING, convert)


_LOGICAL: Final[dict[str, Callable[[Field], Column | None]]] = {
    "io.debezium.time.Date": _days,
    "org.apache.kafka.connect.data.Date": _days,
    "io.debezium.time.Time": _time(1000, 3),
    "io.debezium.time.MicroTime": _time(1, 6),
    "org.apache.kafka.connect.data.Time": _time(1000, 3),
    "io.debezium.time.Timestamp": _timestamp(1000),
    "io.debezium.time.MicroTimestamp": _timestamp(1),
    "org.apache.kafka.connect.data.Timestamp": _timestamp(1000),
    "io.debezium.time.ZonedTimestamp": _zoned,
    "org.apache.kafka.connect.data.Decimal": _decimal,
    "io.debezium.data.VariableScaleDecimal": _variable_decimal,
}
"""What is not here is what its plain type says: NanoTimestamp stays BIGINT, Json, Enum and Uuid are STRING."""

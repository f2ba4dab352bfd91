"""Kafka Connect's schemas in JSON: the types of a row's columns, with the logical types of Connect and Debezium.

In: the schema part of a message. Out: for each column of the row its type and how its values are read; and the other
way round. Rules: docs/spec/debezium-json.md#declared-types.
"""

from __future__ import annotations

import base64
import binascii
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from ingest.formats.debezium.unavailable import is_placeholder
from ingest.formats.typed import Reads, TypedColumn, beside, reads_plain
from ingest.model import temporal, types, values
from ingest.model.jsontext import MALFORMED, fields_of, object_of
from ingest.model.reject import RowError
from ingest.model.table import TableId, show
from ingest.model.types import ArrayType, DataType, DecimalType, MapType, StructType, TimeType
from ingest.model.values import MAX_SCALE, decimal_text, elements_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ingest.formats.typed import Convert
    from ingest.model.schema import TableSchema


class ConnectField(msgspec.Struct, gc=False):
    """One field of a Connect schema, or a whole one."""

    type: str | None = None
    name: str | None = None
    field: str | None = None
    parameters: dict[str, Any] | None = None
    fields: list[ConnectField] | None = None
    items: ConnectField | None = None
    keys: ConnectField | None = None
    values: ConnectField | None = None


_schema = msgspec.json.Decoder(ConnectField).decode

_PLAIN: Final[dict[str, DataType]] = {
    "int8": types.TINYINT,
    "int16": types.SMALLINT,
    "int32": types.INT,
    "int64": types.BIGINT,
    "float": types.FLOAT,
    "float32": types.FLOAT,
    "double": types.DOUBLE,
    "float64": types.DOUBLE,
    "boolean": types.BOOLEAN,
    "string": types.STRING,
    "bytes": types.BYTES,
}


def row_columns(schema: bytes) -> dict[str, TypedColumn]:
    """Return the columns of the `after` (or `before`) struct of an envelope's schema; raises one of MALFORMED."""
    envelope = _schema(schema)
    images = {field.field: field for field in envelope.fields or []}
    row = images.get("after") or images.get("before")
    return {} if row is None else _columns_of(row)


def key_columns(schema: bytes) -> dict[str, TypedColumn]:
    """Return the columns of a message key, from its own schema; raises one of MALFORMED."""
    return _columns_of(_schema(schema))


def column_of(field: ConnectField) -> TypedColumn:
    """Return the type of a field's values, and how they are read."""
    return _column(field)


def _columns_of(struct: ConnectField) -> dict[str, TypedColumn]:
    return {field.field: _column(field) for field in struct.fields or [] if field.field is not None and field.type}


def _column(field: ConnectField) -> TypedColumn:
    logical = _LOGICAL.get(field.name or "")
    if logical is not None:
        column = logical(field)
        if column is not None:
            return column
    if field.type == "bytes":
        return TypedColumn(types.BYTES, reads=(Reads.BASE64, 0, 0))
    found = _PLAIN.get(field.type or "")
    # Arrays, maps and structs are texts that hold their JSON
    if found is None:
        if _inside(field) is None:
            return TypedColumn(types.STRING, reads=(Reads.ANY, 0, 0))
        within = partial(_converted_inside, field)
        return TypedColumn(types.STRING, within(types.NULL), within=within)
    return TypedColumn(found, reads=reads_plain(found))


# -- arrays, maps and structs ----------------------------------------------------------------------------------------


def _converted_inside(field: ConnectField, given: DataType) -> Convert | None:
    """Return the conversion of an array, a map or a struct of which the pipeline declares a type; NULL: it does not."""
    inside = _inside(field, given)
    return None if inside is None else partial(_within, of=inside)


def _inside(field: ConnectField, given: DataType = types.NULL) -> Convert | None:
    """Return a function that gives the values in an array, a map or a struct the JSON that they would have as columns.

    Where one is not what its schema says it stays as it came. None where all are in that JSON already. `given`: the
    type that the pipeline declares; NULL for none.
    """
    if field.type == "array" and field.items is not None:
        of = _value_within(field.items, given.element if isinstance(given, ArrayType) else types.NULL)
        return None if of is None else partial(_array_text, of=of)
    if field.type == "map" and field.values is not None:
        of = _value_within(field.values, given.value if isinstance(given, MapType) else types.NULL)
        # A map whose keys are no texts is an array of pairs
        key = None if field.keys is None or field.keys.type == "string" else _value_within(field.keys, types.NULL)
        return None if of is None and key is None else partial(_map_text, key=key, of=of)
    if field.type == "struct":
        types_of = {one.name: one.type for one in given.fields} if isinstance(given, StructType) else {}
        other = given.value if isinstance(given, MapType) else types.NULL
        named = [(one.field, one) for one in field.fields or [] if one.field is not None]
        fields = {name: _value_within(one, types_of.get(name, other)) for name, one in named}
        known = {name: of for name, of in fields.items() if of is not None}
        return partial(_struct_text, of=known) if known else None
    return None


def _value_within(field: ConnectField, given: DataType) -> Convert | None:
    return beside(_column(field), given).convert if field.type else None


def _within(raw: bytes, of: Convert | None) -> bytes:
    """Return a value of an array, a map or a struct in the JSON that a column of its type has.

    A value that is not of its declared type is returned unchanged.
    """
    if of is None or raw == b"null" or is_placeholder(raw):
        return raw
    try:
        return of(raw)
    except (ValueError, *MALFORMED):
        return raw


def _array_text(raw: bytes, of: Convert) -> bytes:
    return b"[" + b",".join(_within(bytes(one), of) for one in elements_of(raw)) + b"]"


def _map_text(raw: bytes, key: Convert | None, of: Convert | None) -> bytes:
    if raw[:1] == b"{":
        return object_of({name: _within(bytes(value), of) for name, value in fields_of(msgspec.Raw(raw)).items()})
    pairs = [_pair(bytes(one)) for one in elements_of(raw)]
    return b"[" + b",".join(b"[%b,%b]" % (_within(a, key), _within(b, of)) for a, b in pairs) + b"]"


def _pair(raw: bytes) -> tuple[bytes, bytes]:
    first, second = elements_of(raw)
    return bytes(first), bytes(second)


def _struct_text(raw: bytes, of: Mapping[str, Convert]) -> bytes:
    values_ = fields_of(msgspec.Raw(raw))
    return object_of({name: _within(bytes(value), of.get(name)) for name, value in values_.items()})


# -- logical types ---------------------------------------------------------------------------------------------------


def _count(raw: bytes, of: DataType, text: Callable[[int], bytes]) -> bytes:
    if not values.fits(of, raw):
        raise ValueError(f"no {types.name(of)}")
    return text(int(raw))


def _counted(
    data_type: DataType, text: Callable[[int], bytes], reads: tuple[Reads, int, int], of: DataType = types.BIGINT
) -> Callable[[ConnectField], TypedColumn]:
    """Return the logical type whose values are numbers of a type. `text` makes the JSON text of one."""
    column = TypedColumn(data_type, partial(_count, of=of, text=text), reads=reads)
    return lambda _: column


def _time(micros: int, precision: int) -> Callable[[ConnectField], TypedColumn]:
    return _counted(TimeType(precision), lambda n: temporal.time_text(n * micros), (Reads.TIME, micros, 0))


def _timestamp(micros: int) -> Callable[[ConnectField], TypedColumn]:
    return _counted(
        types.TIMESTAMP,
        lambda n: temporal.any_timestamp_text(n * micros, temporal.INFINITE_COUNTS),
        (Reads.MOMENT, micros, 0),
    )


_days: Final = _counted(
    types.DATE, lambda n: temporal.any_date_text(n, temporal.INFINITE_DAYS), (Reads.DAYS, 0, 0), types.INT
)


def _zoned(_: ConnectField) -> TypedColumn:
    return TypedColumn(types.TIMESTAMP_LTZ, lambda raw: temporal.zoned_text(_text(raw)), reads=(Reads.ZONED, 0, 0))


def _text(raw: bytes) -> str:
    if raw[:1] != b'"':
        raise ValueError("not a text")
    return msgspec.json.decode(raw, type=str)


def _unscaled(raw: bytes) -> int:
    try:
        return int.from_bytes(base64.b64decode(_text(raw), validate=True), "big", signed=True)
    except binascii.Error as exc:
        raise ValueError(str(exc)) from exc


def _decimal(field: ConnectField) -> TypedColumn | None:
    parameters = field.parameters or {}
    try:
        scale = int(parameters.get("scale", 0))
        precision = int(parameters.get("connect.decimal.precision", types.MAX_PRECISION))
    except (TypeError, ValueError):
        return None
    exact = scale >= 0 and max(scale, 1) <= precision <= types.MAX_PRECISION

    def convert(raw: bytes) -> bytes:
        number = raw if raw[:1] != b'"' else decimal_text(_unscaled(raw), scale)
        return number if exact else b'"' + number + b'"'

    if not exact:
        reads = (Reads.UNSCALED_TEXT, 0, scale) if abs(scale) <= MAX_SCALE else (Reads.OTHER, 0, 0)
        return TypedColumn(types.STRING, convert, reads, is_number=True)
    return TypedColumn(DecimalType(precision, scale), convert, reads=(Reads.UNSCALED, precision, scale))


class _Variable(msgspec.Struct):
    scale: int
    value: msgspec.Raw


_variable = msgspec.json.Decoder(_Variable).decode


def _variable_decimal(_: ConnectField) -> TypedColumn:
    """Return a column of texts with exact numbers: each value has a scale of its own, so no DECIMAL holds all."""

    def convert(raw: bytes) -> bytes:
        found = _variable(raw)
        return b'"' + decimal_text(_unscaled(bytes(found.value)), found.scale) + b'"'

    return TypedColumn(types.STRING, convert, (Reads.VARIABLE, 0, 0), is_number=True)


_LOGICAL: Final[dict[str, Callable[[ConnectField], TypedColumn | None]]] = {
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
"""Logical types by name. Any other one is what its plain type says: NanoTimestamp is BIGINT, Json is STRING."""


# -- writing ---------------------------------------------------------------------------------------------------------

Write: TypeAlias = "Callable[[bytes], bytes]"


def envelope_schema(table: TableId, schema: TableSchema) -> bytes:
    """Return the schema of a Debezium envelope for a table, as JSON text."""
    name = show(table)
    columns = []
    for column in schema.columns:
        of_type, _ = _written(column.type)
        columns.append({**of_type, "optional": column.nullable, "field": column.name})
    row = {"type": "struct", "fields": columns, "optional": True, "name": f"{name}.Value"}
    parts = {1: ("db", "table"), 2: ("db", "table"), 3: ("db", "schema", "table")}[len(table)]
    source = [{"type": "string", "optional": part != "table", "field": part} for part in parts]
    fields = [
        {**row, "field": "before"},
        {**row, "field": "after"},
        {"type": "string", "optional": False, "field": "op"},
        {"type": "struct", "fields": source, "optional": False, "name": f"{name}.Source", "field": "source"},
    ]
    return msgspec.json.encode({"type": "struct", "fields": fields, "optional": False, "name": f"{name}.Envelope"})


def payload_of(schema: TableSchema) -> Callable[[dict[str, bytes]], dict[str, bytes]]:
    """Return a function that makes an image with values as `envelope_schema` declares them; it raises RowError."""
    writes = {column.name: write for column in schema.columns if (write := _written(column.type)[1]) is not None}

    def payload(image: dict[str, bytes]) -> dict[str, bytes]:
        changed = {}
        for name, raw in image.items():
            if name in writes and raw != b"null":
                try:
                    changed[name] = writes[name](raw)
                except ValueError:
                    shown = raw[:60].decode("utf-8", "backslashreplace")
                    msg = f"column {name!r} of the row before holds {shown}, which is not of the type that it has now"
                    raise RowError("type-mismatch", msg) from None
        return {**image, **changed}

    return payload


def _unscale(raw: bytes, scale: int) -> bytes:
    whole, _, fraction = raw.partition(b".")
    if fraction[scale:].strip(b"0"):
        raise ValueError("it would lose a digit")
    unscaled = int(whole + fraction.ljust(scale, b"0")[:scale])
    size = (unscaled + (unscaled < 0)).bit_length() // 8 + 1
    return b'"' + base64.b64encode(unscaled.to_bytes(size, "big", signed=True)) + b'"'


def _nested(raw: bytes) -> bytes:
    return raw if raw[:1] == b'"' else msgspec.json.encode(raw.decode())


def _number(count: Callable[[bytes], int], unit: int = 1) -> Write:
    return lambda raw: b"%d" % (count(raw) // unit)


_SIMPLE: Final[dict[DataType, tuple[dict[str, Any], Write | None]]] = {
    types.TINYINT: ({"type": "int8"}, None),
    types.SMALLINT: ({"type": "int16"}, None),
    types.INT: ({"type": "int32"}, None),
    types.BIGINT: ({"type": "int64"}, None),
    types.FLOAT: ({"type": "float"}, None),
    types.DOUBLE: ({"type": "double"}, None),
    types.BOOLEAN: ({"type": "boolean"}, None),
    types.BYTES: ({"type": "bytes"}, None),
    types.DATE: ({"type": "int32", "name": "io.debezium.time.Date", "version": 1}, _number(temporal.days)),
    types.TIMESTAMP: (
        {"type": "int64", "name": "io.debezium.time.MicroTimestamp", "version": 1},
        _number(temporal.micros),
    ),
    types.TIMESTAMP_LTZ: (
        {"type": "string", "name": "io.debezium.time.ZonedTimestamp", "version": 1},
        lambda raw: raw.replace(b" ", b"T", 1),
    ),
}


def written(data_type: DataType) -> tuple[dict[str, Any], Write | None]:
    """Return how a type is declared, and how its values are written so; None: as they are."""
    return _written(data_type)


def _written(data_type: DataType) -> tuple[dict[str, Any], Write | None]:
    """Return how a type is declared, and how its values are written so."""
    found = _SIMPLE.get(data_type)
    if found is not None:
        return found
    if isinstance(data_type, DecimalType):
        parameters = {"scale": str(data_type.scale), "connect.decimal.precision": str(data_type.precision)}
        schema = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "version": 1}
        return {**schema, "parameters": parameters}, partial(_unscale, scale=data_type.scale)
    if isinstance(data_type, TimeType):
        if data_type.precision > 3:
            schema = {"type": "int64", "name": "io.debezium.time.MicroTime", "version": 1}
            return schema, _number(temporal.micros_of_day)
        schema = {"type": "int32", "name": "io.debezium.time.Time", "version": 1}
        return schema, _number(temporal.micros_of_day, 1000)
    return {"type": "string"}, _nested

"""The Avro schema of a table, as Flink derives it from the types of the table's columns.

In: columns with their types. Out: the schema as plain values of JSON. Rules: docs/spec/avro.md#writing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from ingest.model import types
from ingest.model.data_type import ArrayType, DecimalType, MapType, StructType, TimeType
from ingest.model.reject import RowError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ingest.model.data_type import DataType
    from ingest.model.jsontext import Json
    from ingest.model.schema import Column

FLINK: Final = ("org.apache.flink.avro.generated", "record")
"""Namespace and name of the records that Flink writes."""
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_PLAIN: Final[dict[DataType, Any]] = {
    types.NULL: "null",
    types.BOOLEAN: "boolean",
    types.TINYINT: "int",
    types.SMALLINT: "int",
    types.INT: "int",
    types.BIGINT: "long",
    types.FLOAT: "float",
    types.DOUBLE: "double",
    types.BYTES: "bytes",
    types.DATE: {"type": "int", "logicalType": "date"},
    types.TIMESTAMP: {"type": "long", "logicalType": "local-timestamp-micros"},
    types.TIMESTAMP_LTZ: {"type": "long", "logicalType": "timestamp-micros"},
}


def is_name(text: str) -> bool:
    """Return whether Avro allows a text as a name."""
    return _NAME.fullmatch(text) is not None


def record_of(columns: Iterable[Column], name: tuple[str, str]) -> dict[str, Any]:
    """Return the schema of a record with these columns. `name` is its namespace and its name.

    Raise RowError where Avro has no such name or type.
    """
    namespace, short = name
    fields = [_field(column.name, column.type, short, nullable=column.nullable) for column in columns]
    return {"type": "record", "name": short, "namespace": namespace, "fields": fields}


def _field(name: str, data_type: DataType, above: str, *, nullable: bool) -> dict[str, Any]:
    if not is_name(name):
        msg = f"column {name[:100]!r} has a name that Avro does not allow; rename it in a transform"
        raise RowError("unwritable-table", msg)
    schema = _schema(data_type, f"{above}_{name}")
    if not nullable:
        return {"name": name, "type": schema}
    return {"name": name, "type": _or_null(schema), "default": None}


def _or_null(schema: Json) -> Json:
    return schema if schema == "null" else ["null", schema]


def _schema(data_type: DataType, name: str) -> Json:
    """Return the schema of a type's values. `name` is that of the record, where they are records."""
    found = _PLAIN.get(data_type)
    if found is not None:
        return found
    if types.is_text(data_type):
        return "string"
    if isinstance(data_type, DecimalType):
        precision, scale = data_type.precision, data_type.scale
        return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}
    if isinstance(data_type, TimeType):
        if data_type.precision <= 3:
            return {"type": "int", "logicalType": "time-millis"}
        return {"type": "long", "logicalType": "time-micros"}
    if isinstance(data_type, ArrayType):
        return {"type": "array", "items": _or_null(_schema(data_type.element, name))}
    if isinstance(data_type, MapType):
        if not types.is_text(data_type.key):
            raise RowError(
                "unwritable-table", f"a map of Avro has texts as keys, and {types.name(data_type)} has others"
            )
        return {"type": "map", "values": _or_null(_schema(data_type.value, name))}
    assert isinstance(data_type, StructType), f"{data_type} is no type of a column"
    fields = [_field(one.name, one.type, name, nullable=True) for one in data_type.fields]
    return {"type": "record", "name": name, "fields": fields}

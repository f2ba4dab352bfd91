"""Rows of tables in JSON with a schema registry: the JSON Schema of a table, and its rows as this schema says.

In: the columns of a table, and its rows as JSON texts. Out: the bytes of keys and values. Schemas are as Connect's
converter writes them, which reads every type back. Rules: docs/spec/json.md#json-schema.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from ingest.formats.debezium.connect import written
from ingest.model.jsontext import object_of
from ingest.model.reject import RowError
from ingest.model.table import show
from ingest.model.types import ArrayType, BinaryType, DataType, DecimalType, MapType, NullType, StructType, is_text
from ingest.schema_registry.subjects import SchemaNumber, subject_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ingest.formats.json.confluent import JsonConfluent
    from ingest.formats.template import Image
    from ingest.formats.written import RowPlace
    from ingest.model.numbers import Rounds
    from ingest.model.schema import Column

_KINDS: Final = {
    "int8": "integer",
    "int16": "integer",
    "int32": "integer",
    "int64": "integer",
    "float": "number",
    "double": "number",
    "boolean": "boolean",
    "string": "string",
    "bytes": "string",
}
"""Types of JSON Schema for Connect's."""
_LONGER: Final = {"float": "float32", "double": "float64"}
"""Connect's names of types in JSON Schema, where others stand in its schemas in JSON."""
_UNSAID: Final = frozenset({"boolean", "string"})
"""Connect's types that a schema does not name beside JSON's own."""


class RegisteredJsonRows:
    """Function that makes the bytes of a table's rows, each behind the id of its schema."""

    def __init__(self, options: JsonConfluent, place: RowPlace, columns: Mapping[str, Column]) -> None:
        """Make the schema of the columns, by the names of their fields. Ask for nothing yet."""
        title = f"{show(place.table)}.{'Key' if place.part == 'key' else 'Value'}"
        text = msgspec.json.encode(schema_of(title, columns)).decode()
        self._number = SchemaNumber(
            options, subject_of(options, place.topic, place.part, title), "JSON", text, asks=place.asks
        )
        self._head = b""
        self._fields = [(name, column.name, _of(column.type)[1]) for name, column in columns.items()]

    def __call__(self, row: Image) -> bytes:
        """Return the bytes of a row. Raise RowError, or IngestError where the registry gives no id."""
        if not self._head:
            self.register()
        out = {}
        for name, column, write in self._fields:
            raw = row.get(column, b"null")
            try:
                out[name] = raw if write is None or raw == b"null" else write(raw)
            except ValueError:
                shown = raw[:60].decode("utf-8", "backslashreplace")
                msg = f"column {column!r} holds {shown}, which its schema cannot say"
                raise RowError("type-mismatch", msg) from None
        return self._head + object_of(out)

    @property
    def rounds(self) -> Mapping[str, Rounds]:
        """Nothing: numbers keep their texts."""
        return {}

    def register(self) -> None:
        """Register the schema. Raise IngestError."""
        self._head = b"\0" + self._number.get().to_bytes(4, "big")

    def unregistered(self) -> str | None:
        """Return the subject that `register` would register a schema for, if any. Raise IngestError."""
        return self._number.unregistered()


def schema_of(title: str, columns: Mapping[str, Column]) -> dict[str, Any]:
    """Return the JSON Schema of rows.

    It takes no other members: only then may a later version have one column more, by a registry's rules.
    """
    properties = _properties((name, _of(column.type)[0], column.nullable) for name, column in columns.items())
    head = {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "title": title}
    return {**head, "additionalProperties": False, "properties": properties}


def _properties(members: Iterable[tuple[str, dict[str, Any], bool]]) -> dict[str, Any]:
    return {
        name: {**(_or_null(schema) if nullable else schema), "connect.index": index}
        for index, (name, schema, nullable) in enumerate(members)
    }


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return schema if schema.get("type") == "null" else {"oneOf": [{"type": "null"}, schema]}


def _of(data_type: DataType) -> tuple[dict[str, Any], Any]:
    """Return the schema of a column's values, and the function that writes one; None where they stay as they are."""
    if isinstance(data_type, (ArrayType, MapType, StructType, NullType)):
        return _inside(data_type), None
    said, write = written(data_type)
    if isinstance(data_type, DecimalType):  # a number, which the converter reads as it does its bytes
        write = None
    return _schema(said, "number" if isinstance(data_type, DecimalType) else None), None if is_text(
        data_type
    ) else write


def _schema(said: Mapping[str, Any], kind: str | None = None) -> dict[str, Any]:
    """Return the JSON Schema for a type of Connect."""
    schema: dict[str, Any] = {"type": kind or _KINDS[said["type"]]}
    if "name" in said:
        schema |= {"title": said["name"], "connect.version": said["version"]}
    if "parameters" in said:
        schema["connect.parameters"] = said["parameters"]
    if said["type"] not in _UNSAID:
        schema["connect.type"] = _LONGER.get(said["type"], said["type"])
    return schema


def _inside(data_type: DataType) -> dict[str, Any]:
    """Return the schema of a value inside of a column, which has the text that it has in any JSON."""
    if isinstance(data_type, ArrayType):
        return {"type": "array", "items": _or_null(_inside(data_type.element))}
    if isinstance(data_type, MapType):
        of_values = _or_null(_inside(data_type.value))
        return {"type": "object", "connect.type": "map", "additionalProperties": of_values}
    if isinstance(data_type, StructType):
        members = ((field.name, _inside(field.type), True) for field in data_type.fields)
        return {"type": "object", "properties": _properties(members)}
    if isinstance(data_type, NullType):
        return {"type": "null"}
    said, write = written(data_type)
    if isinstance(data_type, DecimalType):
        return {"type": "number"}
    return {"type": "string"} if write is not None and not isinstance(data_type, BinaryType) else _schema(said)

"""Rows and changes of tables in Avro, with a schema derived from the table or one that the pipeline's file gives.

Rules: docs/spec/avro.md#writing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ingest.formats.avro.row_writer import RowWriter
from ingest.formats.avro.schema import SchemaError, parse
from ingest.formats.template import Image, object_or_null
from ingest.formats.written import Renamed, RowPlace
from ingest.model import types
from ingest.model.change import Kind
from ingest.model.reject import RowError
from ingest.model.schema import Column
from ingest.model.table import TableId, show
from ingest.model.types import ArrayType, DataType, DecimalType, MapType, StructField, StructType, TimeType
from ingest.schema_registry.subjects import SchemaNumber, by_topic, subject_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ingest.model.jsontext import Json
    from ingest.model.numbers import Rounds
    from ingest.schema_registry.options import RegistryOptions

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


_OPS: Final = {Kind.INSERT: b'"c"', Kind.UPDATE: b'"u"', Kind.DELETE: b'"d"'}
_SOURCE: Final = StructType(tuple(StructField(name, types.STRING) for name in ("db", "schema", "table")))
_PARTS: Final[dict[int, tuple[str, ...]]] = {1: ("table",), 2: ("db", "table"), 3: ("db", "schema", "table")}


class AvroRows:
    """Function that makes the bytes of a table's rows."""

    def __init__(self, text: str, columns: Mapping[str, Column], number: SchemaNumber | None = None) -> None:
        """Compile a schema's text. `number` is its id, which stands in front of each row. Raise RowError."""
        self._writer = RowWriter(text, columns)
        self._row = Renamed(columns)
        self._number = number
        self._head = b""

    def __call__(self, row: Image) -> bytes:
        """Return the bytes of a row. Raise RowError, or IngestError where the registry gives no id."""
        body = self._writer.write(self._row.of(row))
        if self._number is not None and not self._head:
            self.register()
        return self._head + body

    @property
    def rounds(self) -> Mapping[str, Rounds]:
        """What says of values whether they became other numbers, by column."""
        return self._row.back(self._writer.rounds)

    def rounds_inside(self, *names: str) -> Mapping[str, Rounds]:
        """Return the same of the members of these fields, which are records."""
        return self._writer.rounds_inside(names)

    def register(self) -> None:
        """Register the schema, where there is a registry. Raise IngestError."""
        if self._number is not None:
            self._head = b"\0" + self._number.get().to_bytes(4, "big")

    def unregistered(self) -> str | None:
        """Return the subject that `register` would register a schema for, if any. Raise IngestError."""
        return None if self._number is None else self._number.unregistered()


class AvroChanges:
    """Function that makes the values of a table's changes: Debezium's envelope."""

    def __init__(self, rows: AvroRows, table: TableId) -> None:
        """`rows` makes the bytes of envelopes, as if they were rows."""
        self._rows = rows
        self._source = msgspec.json.encode(dict(zip(_PARTS[len(table)], table, strict=True)))

    def __call__(self, kind: Kind, before: Image | None, after: Image | None) -> bytes:
        """Return the bytes of an envelope. Raise as `AvroRows` does."""
        images = (None if kind is Kind.INSERT else before, None if kind is Kind.DELETE else after)
        texts = [object_or_null(image) for image in images]
        return self._rows({"before": texts[0], "after": texts[1], "source": self._source, "op": _OPS[kind]})

    @property
    def rounds(self) -> Mapping[str, Rounds]:
        """What says of values of rows before and after changes whether they became other numbers, by column."""
        return self._rows.rounds_inside("before", "after")

    def register(self) -> None:
        """Register the envelope's schema. Raise IngestError."""
        self._rows.register()

    def unregistered(self) -> str | None:
        """Return the subject that `register` would register a schema for, if any. Raise IngestError."""
        return self._rows.unregistered()


def envelope_columns(columns: Mapping[str, Column]) -> dict[str, Column]:
    """Return the fields of Debezium's envelope around rows with these columns."""
    row = StructType(tuple(StructField(name, column.type) for name, column in columns.items()))
    fields = (
        Column("before", row),
        Column("after", row),
        Column("source", _SOURCE, nullable=False),
        Column("op", types.STRING, nullable=False),
    )
    return {field.name: field for field in fields}


def derived(columns: Mapping[str, Column], name: tuple[str, str] = FLINK) -> str:
    """Return the schema of a table's rows as JSON text. Raise RowError where Avro cannot say it."""
    fields = [Column(field, column.type, column.nullable) for field, column in columns.items()]
    return msgspec.json.encode(record_of(fields, name)).decode()


def registered_rows(options: RegistryOptions, place: RowPlace, columns: Mapping[str, Column], kind: str) -> AvroRows:
    """Return the function for rows whose schema is in a registry. `kind` is the record's name, as Debezium calls it.

    Raise RowError.
    """
    name = FLINK
    if not by_topic(options, place.part):
        name = (show(place.table), kind)
        if not all(map(is_name, place.table)):
            msg = f"the table {name[0][:100]!r} cannot give a record of Avro its name, nor its subject; route it"
            raise RowError("unwritable-table", msg)
    text = derived(columns, name) if options.schema_text is None else options.schema_text
    full = ".".join(name) if options.schema_text is None else full_name(options.schema_text)
    subject = subject_of(options, place.topic, place.part, full)
    return AvroRows(text, columns, SchemaNumber(options, subject, "AVRO", text, asks=place.asks))


def full_name(text: str) -> str:
    """Return the name of a schema's record with its namespace, or nothing where it is none."""
    try:
        return parse(text).name
    except SchemaError:
        return ""

"""Rows and changes of tables in Avro, with the schema of the table or one that the pipeline's file gives.

In: the columns of a table, and its rows as JSON texts. Out: the bytes of keys and values. Rules:
docs/spec/avro.md#writing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from ingest.formats.avro.derived import FLINK, is_name, record_of
from ingest.formats.avro.row_writer import RowWriter
from ingest.formats.avro.schema import SchemaError, parse
from ingest.formats.template import object_or_null
from ingest.formats.written import Renamed
from ingest.model import types
from ingest.model.change import Kind
from ingest.model.data_type import StructField, StructType
from ingest.model.reject import RowError
from ingest.model.schema import Column
from ingest.model.table import show
from ingest.schema_registry.subjects import SchemaNumber, by_topic, subject_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ingest.formats.template import Image
    from ingest.formats.written import RowPlace
    from ingest.model.numbers import Rounds
    from ingest.model.table import TableId
    from ingest.schema_registry.options import RegistryOptions

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

"""The registry of message formats. A format is an options model, registered here under its name.

Each format has one file, with reading and writing in it. Other packages add theirs under the entry point
`ingest.formats`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Protocol

from pydantic import AfterValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from ingest.component.plugins import Registry
from ingest.errors import ProgramMissing
from ingest.formats.format import Decoder as Decoder
from ingest.formats.format import FormatCapabilities, FormatOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ingest.component.options import Options
    from ingest.formats.form import Form
    from ingest.formats.template import Value
    from ingest.formats.typed import TypedColumn
    from ingest.model.schema import TableSchema
    from ingest.model.table import TableId
    from ingest.schema.type_hints import TypeHints


class Format(Protocol):
    """What a source asks of the format of its values: `FormatOptions` has much of it."""

    @property
    def name(self) -> str:
        """The name of the format, as in the option `value.format`."""

    @property
    def capabilities(self) -> FormatCapabilities:
        """What the format can do."""

    @property
    def ignore_parse_errors(self) -> bool:
        """True if records that cannot be parsed are skipped and counted, instead of rejected."""

    @property
    def reading(self) -> TypeHints:
        """The rules for values whose types no message declares."""

    @property
    def form(self) -> Form | None:
        """The form that most messages of this format have, if native code knows it, or None."""

    @property
    def inline_types(self) -> tuple[str, Callable[[bytes], Mapping[str, TypedColumn]]] | None:
        """As in `FormatOptions`."""

    def decoder(self, topic: str, *, keyed: bool = False) -> Decoder:
        """Return a decoder for the records of one split. With `keyed`, the records' keys give columns, too."""


FORMATS: Registry[FormatOptions] = Registry(
    "ingest.formats",
    "ingest.formats.format:FormatOptions",
    ("name", "ignore_parse_errors", "decoder"),
    {
        "debezium-json": "ingest.formats.debezium.options:DebeziumJson",
        "canal-json": "ingest.formats.canal.options:CanalJson",
        "maxwell-json": "ingest.formats.maxwell:MaxwellJson",
        "ogg-json": "ingest.formats.ogg:OggJson",
        "json": "ingest.formats.json.options:Json",
        "csv": "ingest.formats.csv.options:Csv",
        "raw": "ingest.formats.raw:Raw",
        "avro": "ingest.formats.avro.options:Avro",
        "avro-confluent": "ingest.formats.avro.options:AvroConfluent",
        "protobuf": "ingest.formats.protobuf.options:Protobuf",
        "protobuf-confluent": "ingest.formats.protobuf.options:ProtobufConfluent",
        "debezium-avro-confluent": "ingest.formats.debezium.avro_confluent:DebeziumAvroConfluent",
        "json-confluent": "ingest.formats.json.confluent:JsonConfluent",
        "debezium-json-confluent": "ingest.formats.debezium.confluent:DebeziumJsonConfluent",
    },
    lambda found: found.capabilities.methods(),
)
"""The formats that come with this package."""

OF_ROWS: Final = ("json", "csv", "raw", "avro", "avro-confluent", "protobuf", "protobuf-confluent", "json-confluent")
"""Our formats whose values are rows. Keys and the rows of upsert topics can be of these."""


def capabilities_of(name: str) -> FormatCapabilities:
    """Return what the format of this name can do: nothing where it is not installed."""
    found = FORMATS.find(name)
    return FormatCapabilities() if found is None else found.capabilities


def is_of_rows(name: str) -> bool:
    """Return whether the values of a format are rows. Imports none of ours."""
    return name in OF_ROWS or capabilities_of(name).rows


def options_of_keys(chosen: type[FormatOptions] | None, *, written: bool) -> type[Options] | None:
    """Return the class of the options that keys in a format take; None where they take none.

    `written`: a sink writes them.
    """
    if chosen is None:
        return None
    capabilities = chosen.capabilities
    if written:
        return chosen if capabilities.writes_keys else None
    return capabilities.key_options or (chosen if capabilities.reads_keys else None)


def _name(value: str) -> str:
    if FORMATS.find(value) is None:
        *most, last = (repr(name) for name in FORMATS.names())
        raise PydanticCustomError("literal_error", "no such format", {"expected": f"{', '.join(most)} or {last}"})
    return value


def _written(value: str) -> str:
    found = capabilities_of(_name(value))
    if not (found.writes_values or found.table_schemas):
        raise ValueError(f"{value!r} can be read, not written")
    return value


def _able(value: str, can: Callable[[FormatCapabilities], bool]) -> str:
    """Return the name of one of our formats of rows, or of one of another package that can do it."""

    def able(name: str) -> bool:
        return name not in FORMATS and can(capabilities_of(name))

    if value not in OF_ROWS and not able(value):
        *most, last = (repr(name) for name in (*OF_ROWS, *filter(able, FORMATS.names())))
        raise PydanticCustomError("literal_error", "no such format", {"expected": f"{', '.join(most)} or {last}"})
    return value


def _that_can(can: Callable[[FormatCapabilities], bool]) -> AfterValidator:
    return AfterValidator(lambda value: _able(value, can))


def _writes_upserts(value: str) -> str:
    name = _able(value, lambda found: found.rows)
    return name if name in OF_ROWS else _written(name)


_SCHEMA: Final = WithJsonSchema({"enum": list(FORMATS), "type": "string"})
FormatName = Annotated[str, AfterValidator(_name), _SCHEMA]
"""The name of a format of this or another package."""
WrittenFormatName = Annotated[str, AfterValidator(_written), _SCHEMA]
"""The name of a format that can also be written."""
_OURS_SCHEMA: Final = WithJsonSchema({"enum": list(OF_ROWS), "type": "string"})
ReadKeyFormatName = Annotated[str, _that_can(lambda found: found.reads_keys), _OURS_SCHEMA]
"""The name of a format of keys that a source reads."""
ReadUpsertFormatName = Annotated[str, _that_can(lambda found: found.rows), _OURS_SCHEMA]
"""The name of a format of the rows that an upsert topic holds."""
WrittenKeyFormatName = Annotated[str, _that_can(lambda found: found.writes_keys), _OURS_SCHEMA]
"""The name of a format of keys that a sink writes."""
WrittenUpsertFormatName = Annotated[str, AfterValidator(_writes_upserts), _OURS_SCHEMA]
"""The name of a format of the rows that a sink writes to an upsert topic."""


def value_of(
    name: str, table: TableId, schema: TableSchema, *, include_schema: bool = False, options: object = None
) -> Value:
    """Return the function that makes the values of a table's records in the named format, by its options if there are.

    Raise ProgramMissing where the format is not installed on the worker's machine.
    """
    found: Any = FORMATS.find(name) if options is None else None
    made: Any = options if found is None else found()
    if made is None:
        msg = f"the format {name!r} is not installed on the machine of this worker"
        raise ProgramMissing(msg, "install its package where the workers run")
    value: Value = made.value_of(table, schema, include_schema=include_schema)
    return value

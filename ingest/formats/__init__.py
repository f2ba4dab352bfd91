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

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ingest.component.options import AnyOptions, Options
    from ingest.formats.form import Form
    from ingest.formats.template import Value
    from ingest.formats.typed import TypedColumn
    from ingest.model.change import Decoded
    from ingest.model.schema import TableSchema
    from ingest.model.table import TableId
    from ingest.schema.type_hints import TypeHints


class Decoder(Protocol):
    """Object that turns the records of one chunk into changes. It keeps only what it learned about the topic."""

    def decode(self, keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> list[Decoded]:
        """Return one result for each record, in order. Raise nothing for the content of a record."""


class Format(Protocol):
    """Interface of a format's options model."""

    @property
    def name(self) -> str:
        """The name of the format, as in the option `value.format`."""

    @property
    def ignore_parse_errors(self) -> bool:
        """True if records that cannot be parsed are skipped and counted, instead of rejected."""

    @property
    def reading(self) -> TypeHints:
        """The rules for values whose types no message declares."""

    def value_of(self, table: TableId, schema: TableSchema, *, include_schema: bool = False) -> Value:
        """Return the function that makes the values of a table's records, where the format can be written."""

    @property
    def form(self) -> Form | None:
        """The form that most messages of this format have, if native code knows it, or None."""

    @property
    def inline_types(self) -> tuple[str, Callable[[bytes], Mapping[str, TypedColumn]]] | None:
        """The member in which messages declare their columns' types, and the function that reads it; or None.

        None means that messages of this form declare no types. A format without this attribute has None. The function
        raises one of MALFORMED.
        """

    def decoder(self, topic: str, *, keyed: bool = False) -> Decoder:
        """Return a decoder for the records of one split. With `keyed`, the records' keys give columns, too."""


FORMATS: Registry[Options] = Registry(
    "ingest.formats",
    "ingest.component.options:Options",
    ("name", "ignore_parse_errors", "reading", "form", "decoder"),
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
)
"""The formats that come with this package."""

OF_ROWS: Final = frozenset(
    {"json", "csv", "raw", "avro", "avro-confluent", "protobuf", "protobuf-confluent", "json-confluent"}
)
"""Formats whose values are rows. The fields of the keys are then the primary key, where the keys are read."""


def is_of_rows(name: str) -> bool:
    """Return whether the values of a format are rows: of ours, or of another package that says so."""
    return name in OF_ROWS or bool(getattr(FORMATS.find(name), "of_rows", False))


def splits_keys(name: str) -> bool:
    """Return whether an update that changes the key is written as a delete and an insert, as Debezium does."""
    return bool(getattr(FORMATS.find(name), "splits_keys", False))


def is_written_by_options(chosen: object) -> bool:
    """Return whether a sink that writes a format takes options of it."""
    return hasattr(chosen, "key_of") or has_schemas(chosen)


def options_of_keys(chosen: AnyOptions, *, written: bool) -> AnyOptions:
    """Return the class of the options that keys in a format take; None where they take none.

    `written`: a sink writes them.
    """
    if written:
        return chosen if hasattr(chosen, "row_writer") or hasattr(chosen, "key_of") else None
    own = chosen if hasattr(chosen, "reader") or hasattr(chosen, "reader_of") else None
    return getattr(chosen, "keys", own)


def has_schemas(chosen: object) -> bool:
    """Return whether a format is written with a schema for each table (`formats/written.py`)."""
    return hasattr(chosen, "row_writer") or hasattr(chosen, "change_writer")


def is_binary(chosen: object) -> bool:
    """Return whether numbers of a format may be binary ones, so that those of too many digits are rounded."""
    return (has_schemas(chosen) and not getattr(chosen, "keeps_digits", False)) or getattr(chosen, "name", "") == "raw"


def _name(value: str) -> str:
    if FORMATS.find(value) is None:
        *most, last = (repr(name) for name in FORMATS.names())
        raise PydanticCustomError("literal_error", "no such format", {"expected": f"{', '.join(most)} or {last}"})
    return value


def _written(value: str) -> str:
    found = FORMATS.find(_name(value))
    if not (hasattr(found, "value_of") or has_schemas(found)):
        msg = f"{value!r} can be read, not written"
        raise ValueError(msg)
    return value


def _able(value: str, *needed: str) -> str:
    """Return the name of one of our formats, or of one of another package that has what is needed.

    `needed`: names of attributes, of which one has to be there and be true.
    """

    def able(name: str) -> bool:
        return name not in FORMATS and any(getattr(FORMATS.find(name), attribute, False) for attribute in needed)

    if value not in _OURS and not able(value):
        *most, last = (repr(name) for name in (*_OURS, *filter(able, FORMATS.names())))
        raise PydanticCustomError("literal_error", "no such format", {"expected": f"{', '.join(most)} or {last}"})
    return value


def _reads_keys(value: str) -> str:
    return _able(value, "reader")


def _reads_upserts(value: str) -> str:
    return _able(value, "of_rows")


def _writes_keys(value: str) -> str:
    return _able(value, "key_of", "row_writer")


def _writes_upserts(value: str) -> str:
    found = _able(value, "of_rows")
    return found if found in _OURS else _written(found)


_OURS: Final = ("json", "csv", "raw", "avro", "avro-confluent", "protobuf", "protobuf-confluent", "json-confluent")
"""Our formats of keys, and of the rows of upsert topics."""
_SCHEMA: Final = WithJsonSchema({"enum": list(FORMATS), "type": "string"})
FormatName = Annotated[str, AfterValidator(_name), _SCHEMA]
"""The name of a format of this or another package."""
WrittenFormatName = Annotated[str, AfterValidator(_written), _SCHEMA]
"""The name of a format that can also be written."""
_OURS_SCHEMA: Final = WithJsonSchema({"enum": list(_OURS), "type": "string"})
ReadKeyFormatName = Annotated[str, AfterValidator(_reads_keys), _OURS_SCHEMA]
"""The name of a format of keys that a source reads."""
ReadUpsertFormatName = Annotated[str, AfterValidator(_reads_upserts), _OURS_SCHEMA]
"""The name of a format of the rows that an upsert topic holds."""
WrittenKeyFormatName = Annotated[str, AfterValidator(_writes_keys), _OURS_SCHEMA]
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

"""Rows of tables as messages of Protocol Buffers, of a type that is given or of one that is made for the table.

In: the columns of a table, and its rows as JSON texts. Out: the bytes of keys and values.
Rules: docs/spec/protobuf.md#writing.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from google.protobuf import descriptor_pb2

from ingest.errors import ConfigError
from ingest.formats.protobuf.descriptors import DescriptorSet, SchemaError
from ingest.formats.protobuf.generated import is_plain, schema_text
from ingest.formats.protobuf.message_types import write_indexes
from ingest.formats.protobuf.proto_text import compile_schema
from ingest.formats.protobuf.writing import RowWriter
from ingest.formats.written import Renamed
from ingest.model.reject import RowError
from ingest.model.table import show
from ingest.schema_registry.client import client_of
from ingest.schema_registry.options import NORMALIZES, REGISTERS
from ingest.schema_registry.subjects import lacking, subject_of, unregistered

if TYPE_CHECKING:
    from collections.abc import Mapping

    from google.protobuf.descriptor import Descriptor

    from ingest.formats.protobuf.confluent import ProtobufConfluent
    from ingest.formats.template import Image
    from ingest.formats.written import RowPlace
    from ingest.model.data_type import DataType
    from ingest.model.numbers import Rounds
    from ingest.model.schema import Column
    from ingest.model.table import TableId
    from ingest.schema_registry.client import Found, RegistryClient

_KIND: Final = "PROTOBUF"
_FIRST: Final = (0,)
_not_named: Final = re.compile(r"[^A-Za-z0-9_]").sub


class ProtobufRows:
    """Function that makes the bytes of a table's rows, as messages of a type that the pipeline's file gives."""

    def __init__(self, descriptor: Descriptor, columns: Mapping[str, Column], null_text: str | None) -> None:
        """Compile the message type for columns, by the names of their fields. Raise RowError."""
        self._columns = _types(columns)
        self._row = Renamed(columns)
        self._writer = RowWriter(descriptor, self._columns, null_text)

    def __call__(self, row: Image) -> bytes:
        """Return the bytes of a row, given as the JSON texts of its columns in the sink's table. Raise RowError."""
        return self._writer.write(self._row.of(row))

    @property
    def rounds(self) -> Mapping[str, Rounds]:
        """What says of values whether they became other numbers, by column."""
        return self._row.back(self._writer.rounds)

    def register(self) -> None:
        """Do nothing: there is no registry."""

    def unregistered(self) -> None:
        """Return None: there is no registry."""


class RegisteredRows:
    """Function that makes the bytes of a table's rows, each behind the id of its schema in a registry."""

    def __init__(self, options: ProtobufConfluent, place: RowPlace, columns: Mapping[str, Column]) -> None:
        """Ask for nothing yet. Raise RowError where the columns cannot be fields.

        Where the place asks no registry, because rows are written nowhere, their id is zero.
        """
        self._options, self._columns = options, _types(columns)
        self._row = Renamed(columns)
        name = message_name(place.table, place.part)
        self._text = schema_text(self._columns, name) if options.schema_text is None else options.schema_text
        if options.schema_text is not None:
            name = _first(self._text, ()).full_name
        self._subject = subject_of(options, place.topic, place.part, name)
        self._writer: RowWriter | None = None
        self._head = b""
        self._refusal: RowError | None = None
        if not place.asks:
            self._use(0, _first(self._text, ()))

    def __call__(self, row: Image) -> bytes:
        """Return the bytes of a row. Raise RowError, or IngestError where the registry gives no id."""
        if self._writer is None and self._refusal is None:
            self.register()
        if self._writer is None:
            assert self._refusal is not None, "a schema is taken or refused"
            raise self._refusal
        return self._head + self._writer.write(self._row.of(row))

    @property
    def rounds(self) -> Mapping[str, Rounds]:
        """What says of values whether they became other numbers, by column."""
        return {} if self._writer is None else self._row.back(self._writer.rounds)

    def register(self) -> None:
        """Find the schema for the rows in the registry, or register one. Raise IngestError.

        Where neither is possible, the rows are refused.
        """
        try:
            self._find()
        except RowError as exc:
            self._refusal = exc
        except RecursionError:
            msg = f"the newest schema of subject {self._subject!r} is nested too deep"
            self._refusal = RowError("unwritable-table", msg)

    def unregistered(self) -> str | None:
        """Return the subject that `register` would register a schema for, if any. Raise IngestError."""
        try:
            if self._taken(client_of(self._options.client())):
                return None
        except (RowError, RecursionError):
            return None
        normalize = self._options.switch(NORMALIZES, default=False)
        return unregistered(self._options, self._subject, _KIND, self._text, normalize=normalize)

    def _taken(self, client: RegistryClient) -> bool:
        """Return whether the subject's newest schema is taken. Raise RowError, or IngestError."""
        latest = client.latest(self._subject)
        return self._options.schema_text is None and latest is not None and self._take(*latest)

    def _find(self) -> None:
        client = client_of(self._options.client())
        if self._taken(client):
            return
        message = _first(self._text, ())
        normalize = self._options.switch(NORMALIZES, default=False)
        if self._options.switch(REGISTERS, default=True):
            self._use(client.register(self._subject, _KIND, self._text, normalize=normalize), message)
            return
        number = client.number_of(self._subject, _KIND, self._text, normalize=normalize)
        if number is None:
            raise lacking(self._subject, self._text)
        self._use(number, message)

    def _use(self, number: int, message: Descriptor) -> None:
        self._writer = RowWriter(message, self._columns, self._options.null_text)
        self._head = b"\0" + number.to_bytes(4, "big") + write_indexes(_FIRST)

    def _take(self, number: int, found: Found) -> bool:
        """Take a subject's newest schema, if it has a field for each column; else make the next one of it.

        Return whether it was taken. Raise RowError where it lacks fields and was written by somebody else.
        """
        if found.kind != _KIND:
            msg = f"subject {self._subject!r} has a schema of {found.kind[:20]}, and not of Protocol Buffers"
            raise ConfigError(msg, "choose another topic, or another subject by the format's option subject")
        message = _first(found.text, tuple(zip(found.names, found.references, strict=True)))
        if is_plain(message):
            text = schema_text(self._columns, message.name, message)
            same = schema_text({}, message.name, message)
            if text != same and _is_own(message, same):
                self._text = text
                return False
        self._use(number, message)
        return True


def _is_own(message: Descriptor, text: str) -> bool:
    """Return whether a message's file is the one of this text, which this module made, and so may make anew."""
    file, own = descriptor_pb2.FileDescriptorProto(), descriptor_pb2.FileDescriptorProto()
    message.file.CopyToProto(file)
    _first(text, ()).file.CopyToProto(own)
    file.name = own.name
    return bool(file == own)


@lru_cache(maxsize=64)
def _first(text: str, references: tuple[tuple[str, str], ...]) -> Descriptor:
    """Return the first message of a schema. Raise RowError where there is none."""
    try:
        found = DescriptorSet(compile_schema(text, dict(references))).at(_FIRST)
    except SchemaError as exc:
        msg = f"its schema of Protocol Buffers cannot be used: {exc}"
        raise RowError("unwritable-table", msg) from exc
    if found is None:
        msg = "its schema of Protocol Buffers has no message"
        raise RowError("unwritable-table", msg)
    return found


def _types(columns: Mapping[str, Column]) -> dict[str, DataType]:
    return {name: column.type for name, column in columns.items()}


def message_name(table: TableId, part: str) -> str:
    """Return the name of the message that is made for a table's keys or values. `part` is `key` or `value`."""
    text = _not_named("_", show(table))
    return f"{'Key' if part == 'key' else 'Row'}_{text}"

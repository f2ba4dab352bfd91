"""Raw: the whole value is one column; the topic is the table.

In: the values of records. Out: an insert for each, whose row has one column. In the other direction, the one column of
a row as bytes. Rules: docs/spec/raw.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, ClassVar, Final, Literal, TypeVar

import msgspec
from pydantic import AfterValidator, Field

from ingest.formats.format import FormatCapabilities, FormatOptions
from ingest.formats.positional import PositionalOptions
from ingest.formats.raw_values import READABLE, Codec, charset_of, codec_of
from ingest.formats.row_decoder import RowDecoder
from ingest.formats.template import ColumnRef, Image, Segments, Value
from ingest.model import types
from ingest.model.change import InlineSchema, Kind, Reject
from ingest.model.floats import NotANumber
from ingest.model.reject import RowError
from ingest.model.schema import TableSchema
from ingest.model.table import TableId, show
from ingest.model.types import DataType, FloatType

_NO_TYPES: Final = InlineSchema()
_Undeclared = TypeVar("_Undeclared", InlineSchema, None)


class Raw(PositionalOptions, FormatOptions):
    """Options of `value.format: raw`."""

    name: ClassVar[str] = "raw"
    capabilities: ClassVar[FormatCapabilities] = FormatCapabilities(
        rows=True, reads_keys=True, writes_values=True, writes_keys=True, binary_numbers=True, json=False
    )
    codes: ClassVar[Mapping[str, str]] = {
        "not-raw": "`raw` cannot write the row: several columns, a null, another type"
    }

    charset: Annotated[str, AfterValidator(charset_of)] = Field("utf-8", alias="raw.charset")
    """The charset of texts, as Java calls it: `UTF-8`, `ISO-8859-1`, `UTF-16`, `GBK` and others."""

    endianness: Literal["big-endian", "little-endian"] = Field("big-endian", alias="raw.endianness")
    """The order of the bytes of numbers."""

    column: str | None = Field(None, alias="raw.column", min_length=1)
    """The name of the column, of tables that `scan.value.initial-schemas.ddls` does not declare. Its type is STRING.
    Default: `value`, and for a key `key`."""

    ignore_parse_errors: bool = Field(False, alias="raw.ignore-parse-errors")
    """Skip and count values that cannot be read, without counting them as errors."""

    def unreadable(self, table: TableId, columns: Mapping[str, DataType]) -> str | None:
        """Return why values cannot have these columns of a table; None where they can."""
        if len(columns) != 1:
            names = ", ".join(columns)[:200]
            return f"{show(table)}: a raw key or value is one column, and these are {len(columns)}: {names}"
        (data_type,) = columns.values()
        if self._codec(data_type) is None:
            return f"{show(table)}: a raw key or value is no {types.name(data_type)} (possible: {READABLE})"
        return None

    @property
    def own_names(self) -> tuple[str, ...]:
        """The name of `raw.column`."""
        return () if self.column is None else (self.column,)

    def decoder(self, topic: str, *, keyed: bool = False) -> RowDecoder:
        """Return a decoder for one split's records; `keyed`: it reads their keys, too: a null value is a delete."""
        return RowDecoder(self._reader((topic,), "value", None), topic, keyed=keyed)

    def reader_of(self, table: TableId) -> Callable[[bytes], tuple[msgspec.Raw, InlineSchema] | Reject]:
        """Return a function that reads the keys of a table: a row as JSON text with what it declares, or a reject."""
        return self._reader(table, "key", _NO_TYPES)

    def _codec(self, data_type: DataType) -> Codec | None:
        return codec_of(data_type, self.charset, little=self.endianness == "little-endian")

    def _reader(
        self, table: TableId, default: str, undeclared: _Undeclared
    ) -> Callable[[bytes], tuple[msgspec.Raw, InlineSchema | _Undeclared] | Reject]:
        """Return a function that reads the values of a table: a row with what it declares, or a reject.

        A FLOAT is a binary number, of which the text has no more digits than tell it from others.
        """
        columns = self.columns_of(table) or {(*self.own_names, *self._named, default)[0]: types.STRING}
        ((name, data_type),) = columns.items()
        declared = InlineSchema({name: data_type}) if isinstance(data_type, FloatType) else undeclared
        codec = self._codec(data_type)
        assert codec is not None, "it was checked"
        begin, decode = b"{" + msgspec.json.encode(name) + b":", codec.read

        def read(value: bytes) -> tuple[msgspec.Raw, InlineSchema | _Undeclared] | Reject:
            try:
                return msgspec.Raw(begin + decode(value) + b"}"), declared
            except NotANumber as exc:
                return Reject("not-a-number", str(exc))
            except ValueError as exc:
                return Reject("malformed", str(exc))

        return read

    def value_of(self, table: TableId, schema: TableSchema, *, include_schema: bool = False) -> Value:
        """Return a function that makes the values of a table's records. Raise RowError for a table of other columns."""
        write = self.writer_of(table, {column.name: column.type for column in schema.columns})
        (name,) = (column.name for column in schema.columns)

        def made(kind: Kind, _before: Image | None, after: Image | None) -> bytes | None:
            return None if kind is Kind.DELETE else write((after or {}).get(name, b"null"))

        return made

    def key_of(self, table: TableId, columns: Mapping[str, DataType], _first: bytes | None) -> Segments:
        """Return the pattern of keys of the one column that there is, without the table's id. Raise RowError."""
        write = self.writer_of(table, columns)
        return tuple(ColumnRef(name, write=write) for name in columns)

    def writer_of(self, table: TableId, columns: Mapping[str, DataType]) -> Callable[[bytes], bytes]:
        """Return a function that makes bytes of the JSON text of the one column of these. Raise RowError.

        The function raises RowError, too.
        """
        why = self.unreadable(table, columns)
        if why is not None:
            raise RowError("not-raw", why)
        ((name, data_type),) = columns.items()
        codec = self._codec(data_type)
        assert codec is not None, "it was checked"
        encode = codec.write

        def write(text: bytes) -> bytes:
            if text == b"null":
                raise RowError("not-raw", f"column {name!r} is null, which no raw value says")
            try:
                return encode(text)
            except ValueError as exc:
                raise RowError("not-raw", f"column {name!r}: {exc}") from None

        return write

"""Plain JSON: each value is a row, an object; the topic, or fields of the row, say which table it is of.

In: the values of records. Out: an insert for each. The row stays the very bytes it came as, unless nested columns are
to be flattened. Rules: docs/spec/json.md.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, Literal, Self

import msgspec
from pydantic import AfterValidator, Field, PrivateAttr, ValidationInfo, field_validator, model_validator

from ingest.component.options import Options, is_written
from ingest.formats.form import Form
from ingest.formats.format import FormatCapabilities, FormatOptions
from ingest.formats.template import ColumnRef, Image, ImageRef, Segments, Value, ValueTemplate, json_cells
from ingest.model import temporal, types
from ingest.model.change import TOMBSTONE, Change, Decoded, Kind, Reject
from ingest.model.jsontext import MALFORMED, fields_of, object_of, reason
from ingest.model.table import MAX_PARTS, TableId
from ingest.model.types import ArrayType, DataType, MapType, StructType
from ingest.model.values import elements_of
from ingest.schema.ddl import parse_columns, remarks
from ingest.schema.type_hints import TypeHints

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ingest.formats import Decoder
    from ingest.model.schema import Column, TableSchema
    from ingest.model.text import TextError

_INSERT: Final = Kind.INSERT
_MAX_DEPTH: Final = 100


def _may_lack(value: bool) -> bool:
    if value:
        msg = "true is not possible: schemas are found from the messages, and a field that a row lacks is NULL"
        raise ValueError(msg)
    return value


_MayLack = Annotated[bool, AfterValidator(_may_lack)]


class JsonKeys(Options):
    """Options of `key.format: json`. Its types are found as those of the values."""

    name: ClassVar[str] = "json"

    ignore_parse_errors: bool = Field(False, alias="json.ignore-parse-errors")
    """Skip and count messages whose keys cannot be parsed, without counting them as errors."""

    fail_on_missing_field: _MayLack = Field(False, alias="json.fail-on-missing-field")
    """Only `false` is possible: a field that a key lacks is NULL."""


class TimestampOptions(Options):
    """The part that is alike in formats in JSON of which an option says the form of timestamps, for sinks as well."""

    _written: bool = PrivateAttr(default=False)
    """True if a sink writes the format."""

    @model_validator(mode="after")
    def _check_side(self, info: ValidationInfo) -> Self:
        self._written = is_written(info)
        return self

    @property
    def respells(self) -> bool:
        """True if a sink writes timestamps in the form that an option says, whatever form they came in."""
        return self._written and "standard" in self.model_fields_set

    def respelling(self, columns: Iterable[Column], value: Value) -> Value:
        """Return a function that makes values of images with timestamps in that form; `value` if there are none."""
        kinds = {one.name: one.type for one in columns if has_timestamps(one.type)} if self.respells else {}
        if not kinds:
            return value
        separator = _separator(getattr(self, "standard", temporal.SQL))

        def image(found: Image | None) -> Image | None:
            if found is None:
                return None
            return {n: respelled(raw, kinds[n], separator) if n in kinds else raw for n, raw in found.items()}

        return lambda kind, before, after: value(kind, image(before), image(after))


class Json(TimestampOptions, FormatOptions):
    """Options of `value.format: json`."""

    name: ClassVar[str] = "json"
    capabilities: ClassVar[FormatCapabilities] = FormatCapabilities(
        rows=True, writes_values=True, key_options=JsonKeys, sink_options=frozenset({"json.timestamp-format.standard"})
    )

    standard: Literal["SQL", "ISO-8601"] = Field("SQL", alias="json.timestamp-format.standard")
    """How timestamps are written: `SQL` is `2020-12-30 12:13:14.123`, `ISO-8601` is `2020-12-30T12:13:14.123`. Texts
    of that form are TIMESTAMP, others are STRING. A sink writes the values of TIMESTAMP columns so, and without the
    option as they came; keys keep their texts."""

    ignore_parse_errors: bool = Field(False, alias="json.ignore-parse-errors")
    """Skip and count messages that cannot be parsed, without counting them as errors."""

    fail_on_missing_field: _MayLack = Field(False, alias="json.fail-on-missing-field")
    """Only `false` is possible: a field that a row lacks is NULL."""

    as_string: bool = Field(False, alias="json.infer-schema.primitive-as-string")
    """Every column is a STRING."""

    flatten: bool = Field(False, alias="json.infer-schema.flatten-nested-columns.enable")
    """Objects within the row become columns of their own, `a.b`, as deep as they go. If not, a nested value is a
    STRING that holds its JSON text, as arrays are in any case."""

    table_fields: str | None = Field(None, alias="json.decode.parser-table-id.fields")
    """One to three fields of the row, separated by commas, whose values are the parts of the table's id. Default: the
    topic's name is the table."""

    fixed_types: str | None = Field(None, alias="json.infer-schema.fixed-types")
    """Columns with types that no value changes, in Flink SQL: `id BIGINT, name VARCHAR(10)`. A value that says
    none of its type is a reject. Needs `scan.max.pre.fetch.records: 0`."""

    def row_of(self, columns: Iterable[Column]) -> Segments:
        """Return the pattern of rows of these columns."""
        separator = _separator(self.standard) if self.respells else None
        cells = ((column.name, _cell(column, separator)) for column in columns)
        return json_cells(cells)

    @field_validator("table_fields")
    @classmethod
    def _check_fields(cls, value: str | None) -> str | None:
        if value is not None and not 1 <= len(_names(value)) <= MAX_PARTS:
            raise ValueError(f"name one to {MAX_PARTS} fields, separated by commas")
        return value

    @field_validator("fixed_types")
    @classmethod
    def _check_types(cls, value: str | None) -> str | None:
        if value is not None:
            parse_columns(value)
        return value

    def remarks(self) -> list[tuple[str, TextError]]:
        """Return types that are seldom meant."""
        if self.fixed_types is None:
            return []
        return [("json.infer-schema.fixed-types", remark) for remark in remarks(self.fixed_types, columns=True)]

    @property
    def reading(self) -> TypeHints:
        """The types and hints that inference goes by."""
        if self.fixed_types is None:
            return TypeHints(self.as_string, self.standard, not self.as_string)
        fixed = parse_columns(self.fixed_types)
        return TypeHints(self.as_string, self.standard, not self.as_string, fixed)

    @property
    def form(self) -> Form | None:
        """Values are the rows."""
        return Form("rows", self.flatten, tuple(_names(self.table_fields or "")))

    def for_keys(self) -> JsonKeys:
        """Return the options for keys that have no options of their own."""
        return JsonKeys.model_validate({"json.ignore-parse-errors": self.ignore_parse_errors})

    def decoder(self, topic: str, *, keyed: bool = False) -> Decoder:
        """Return a decoder for one split's records; `keyed`: it reads their keys, too: a null value is a delete."""
        return JsonDecoder(self, topic, keyed=keyed)

    def value_of(self, table: TableId, schema: TableSchema, *, include_schema: bool = False) -> Value:
        """Return a function that makes the values of a table's records."""
        if not self.respells:
            return _value
        row = self.row_of(schema.columns)
        return ValueTemplate(row, row, row, None)


def _names(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


class JsonDecoder:
    """Decodes the records of one split: a JSON object is a row to insert into its table."""

    def __init__(self, options: Json, topic: str, *, keyed: bool) -> None:
        """`topic` is the table where no fields say otherwise."""
        self._table: TableId = (topic,)
        self._flatten = options.flatten
        self._fields = _names(options.table_fields or "")
        self._null: Decoded = Change(self._table, Kind.DELETE, None, None)
        if self._fields or not keyed:
            self._null = TOMBSTONE
        raws = [(f"f{i}", msgspec.Raw, msgspec.field(name=f, default=None)) for i, f in enumerate(self._fields)]
        self._ids = msgspec.json.Decoder(msgspec.defstruct("Ids", raws)).decode if raws else None

    def decode(self, _keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> list[Decoded]:
        """One result per value, in order."""
        return [self._decode_one(value) for value in values]

    def _decode_one(self, value: bytes | None) -> Decoded:
        if value is None:
            return self._null
        text = value.strip(b" \t\r\n")
        if text[:1] != b"{":
            return Reject("malformed", "not a JSON object")
        try:
            if self._flatten:
                fields: dict[str, bytes] = {}
                clash = _flatten(text, "", fields, 0)
                if clash is not None:
                    return Reject("column-clash", f"column {clash[:100]!r} is there twice once the row is flattened")
                text = object_of(fields)
            table = self._table if self._ids is None else self._table_of(text)
        except MALFORMED as exc:
            return Reject("malformed", f"not a JSON object: {reason(exc)}")
        if table is None:
            return Reject("no-table", f"the fields {', '.join(self._fields)} do not all hold a part of a table's id")
        return Change(table, _INSERT, None, msgspec.Raw(text))

    def _table_of(self, text: bytes) -> TableId | None:
        assert self._ids is not None
        row = self._ids(text)
        parts = []
        for i in range(len(self._fields)):
            raw = bytes(getattr(row, f"f{i}") or b"null")
            part = msgspec.json.decode(raw, type=str) if raw[:1] == b'"' else raw.decode()
            if not part or raw == b"null" or raw[:1] in (b"{", b"["):
                return None
            parts.append(part)
        return tuple(parts)


def _flatten(text: bytes, prefix: str, into: dict[str, bytes], depth: int) -> str | None:
    """Put an object's columns in, those of objects within it as `a.b`; returns a name that is there twice."""
    if depth > _MAX_DEPTH:
        raise RecursionError
    for name, raw in fields_of(text).items():
        value = bytes(raw)
        column = prefix + name
        if value[:1] == b"{" and value[1:].lstrip(b" \t\r\n") != b"}":
            clash = _flatten(value, f"{column}.", into, depth + 1)
            if clash is not None:
                return clash
        elif column in into:
            return column
        else:
            into[column] = value
    return None


# -- writing ---------------------------------------------------------------------------------------------------------


def _separator(standard: str) -> bytes:
    return b" " if standard == temporal.SQL else b"T"


def _cell(column: Column, separator: bytes | None) -> ColumnRef:
    """Return the piece of a row that is a column; `separator`: what stands between the date and the time."""
    write = None
    if separator is not None and has_timestamps(column.type):
        write = partial(respelled, data_type=column.type, separator=separator)
    return ColumnRef(column.name, write=write)


def has_timestamps(data_type: DataType) -> bool:
    """Return whether values of a type are timestamps, or hold some."""
    if isinstance(data_type, ArrayType):
        return has_timestamps(data_type.element)
    if isinstance(data_type, MapType):
        return has_timestamps(data_type.value)
    if isinstance(data_type, StructType):
        return any(has_timestamps(field.type) for field in data_type.fields)
    return isinstance(data_type, _TIMESTAMPS)


def respelled(raw: bytes, data_type: DataType, separator: bytes) -> bytes:
    """Return the JSON text of a value in which a timestamp has this between its date and its time."""
    if isinstance(data_type, _TIMESTAMPS):
        return raw[:11] + separator + raw[12:] if raw[:1] == b'"' and raw[11:12] in _SEPARATORS else raw
    if raw[:1] == b"[" and isinstance(data_type, ArrayType):
        return b"[" + b",".join(respelled(bytes(one), data_type.element, separator) for one in elements_of(raw)) + b"]"
    if raw[:1] != b"{" or not isinstance(data_type, (MapType, StructType)):
        return raw
    kinds = {field.name: field.type for field in data_type.fields} if isinstance(data_type, StructType) else {}
    of = data_type.value if isinstance(data_type, MapType) else None
    made = {}
    for name, value in fields_of(msgspec.Raw(raw)).items():
        kind = kinds.get(name) if of is None else of
        made[name] = bytes(value) if kind is None else respelled(bytes(value), kind, separator)
    return object_of(made)


_TIMESTAMPS: Final = (type(types.TIMESTAMP), type(types.TIMESTAMP_LTZ))
_SEPARATORS: Final = (b" ", b"T")
_ROW: Final = (ImageRef.AFTER,)
_value: Final = ValueTemplate(_ROW, _ROW, _ROW, None)
"""The row after an insert or update; nothing, for a delete."""

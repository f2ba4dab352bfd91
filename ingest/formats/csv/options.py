"""CSV: each value is a row, without names; the topic is the table, whose columns the pipeline declares.

In: the values of records. Out: an insert for each, whose row is JSON text. In the other direction, rows as lines.
Rules: docs/spec/csv.md.
"""

from __future__ import annotations

import re
from functools import cached_property, partial
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, Self

import msgspec
from pydantic import AfterValidator, Field, model_validator

from ingest.component.options import OptionErrors
from ingest.errors import ConfigError
from ingest.formats.csv.dialect import BOM, CsvError, Dialect
from ingest.formats.csv.values import of_field
from ingest.formats.form import Form, Lines
from ingest.formats.format import FormatCapabilities, FormatOptions
from ingest.formats.positional import PositionalOptions
from ingest.formats.row_decoder import RowDecoder
from ingest.formats.template import ColumnRef, Segments, Value, ValueTemplate, csv_cells
from ingest.model.change import InlineSchema, Reject, Skip
from ingest.model.reject import RowError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ingest.formats.csv.values import Read
    from ingest.model.schema import TableSchema
    from ingest.model.table import TableId
    from ingest.model.types import DataType

_COMMENT: Final = Skip("comment")
_NO_TYPES: Final = InlineSchema()
_ESCAPES: Final = {r"\t": "\t", r"\n": "\n", r"\r": "\r", r"\b": "\b", r"\f": "\f", "\\\\": "\\"}
"""Characters as Java writes them."""
_UNICODE: Final = re.compile(r"\\u+([0-9a-fA-F]{4})").fullmatch
_MAX_SHOWN: Final = 100


def _character(text: str) -> str:
    if len(text) != 1 or text.isalnum() or text in "\r\n":
        raise ValueError("write one character, which is no letter, no digit and no end of a line")
    return text


def _java(text: str) -> str:
    """Return a character that may be written as in Java."""
    found = _UNICODE(text)
    return _character(_ESCAPES.get(text, text) if found is None else chr(int(found.group(1), 16)))


def _names(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")]


def _checked(text: str) -> str:
    _check_names(_names(text))
    return text


def _check_names(names: Sequence[str]) -> None:
    """Raise ValueError for names that are none, or not distinct."""
    seen: set[str] = set()
    for name in names:
        if not name or name in seen:
            raise ValueError(f"{name[:_MAX_SHOWN]!r} is there twice" if name else "a name is empty")
        seen.add(name)


Character = Annotated[str, AfterValidator(_character)]


class Csv(PositionalOptions, FormatOptions):
    """Options of `value.format: csv`."""

    name: ClassVar[str] = "csv"
    capabilities: ClassVar[FormatCapabilities] = FormatCapabilities(
        rows=True, reads_keys=True, writes_values=True, writes_keys=True, json=False
    )
    codes: ClassVar[Mapping[str, str]] = {
        "column-count": "a CSV row has more or fewer fields than its table has columns",
        "not-in-csv": "a text that CSV without quotes cannot say",
    }

    delimiter: Annotated[str, AfterValidator(_java)] = Field(",", alias="csv.field-delimiter")
    r"""The character between two fields. It may be written as in Java: `\t`, `\u0001`."""

    no_quote: bool = Field(False, alias="csv.disable-quote-character")
    """No character is a quote: those that are there belong to their fields."""

    quote: Character = Field('"', alias="csv.quote-character")
    """The character around fields; within a field it is doubled."""

    comments: bool = Field(False, alias="csv.allow-comments")
    """Lines that begin with `#` are no rows. A record of nothing else is counted, and stands for no row."""

    ignore_parse_errors: bool = Field(False, alias="csv.ignore-parse-errors")
    """Skip and count rows that cannot be parsed, without counting them as errors."""

    element_delimiter: str = Field(";", alias="csv.array-element-delimiter", min_length=1)
    """The text between the elements of an ARRAY, and between the fields of a ROW."""

    escape: Character | None = Field(None, alias="csv.escape-character")
    r"""The character that takes the meaning of the next one; `\n`, `\r`, `\t` and `\0` are then what they are in Java.
    Default: there is none."""

    null_literal: str = Field("", alias="csv.null-literal")
    """The text of a field that is null, and of an element of an ARRAY or a field of a ROW. Within quotes it is a text.
    Default: an empty field is null, and `""` is an empty text."""

    strict: bool = Field(True, alias="csv.fail-on-missing-columns")
    """A row with fewer fields than its table has columns is a reject. If not, the row lacks the last ones. Rows that
    were written before a column was added can be read then."""

    columns: Annotated[str, AfterValidator(_checked)] | None = Field(None, alias="csv.columns")
    """Names of the columns, separated by commas, of tables that `scan.value.initial-schemas.ddls` does not declare.
    Their type is STRING. Without names, columns are called `_c0`, `_c1` and so on."""

    header: bool = Field(False, alias="csv.header")
    """The first line of each file has the names of its columns, whose types are those of
    `scan.value.initial-schemas.ddls`, else STRING. For `type: file` only."""

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if self.no_quote and "quote" in self.model_fields_set:
            key = "csv.quote-character"
            raise OptionErrors((key, f"{key} is not possible with csv.disable-quote-character: true"))
        given = {"csv.quote-character": None if self.no_quote else self.quote, "csv.escape-character": self.escape}
        problems = [
            (key, f"{key}: {character!r} is the character of csv.field-delimiter")
            for key, character in given.items()
            if character == self.delimiter
        ]
        marks = (self.delimiter, self.escape, given["csv.quote-character"], self.null_literal[:1])
        if self.comments and "#" in marks:
            problems.append(("csv.allow-comments", "csv.allow-comments: '#' has another meaning in these options"))
        if self.dialect.has_marks(self.null_literal):
            problems.append(("csv.null-literal", "csv.null-literal: it has a character that has a meaning in CSV"))
        if problems:
            raise OptionErrors(*problems)
        return self

    @property
    def form(self) -> Form | None:
        """Rows of the usual dialect; None for comments, escapes, a null literal and rows without their last columns."""
        dialect = self.dialect
        marks = dialect.delimiter + (dialect.quote or "")
        if dialect.escape or dialect.null or dialect.comments or not self.strict or self.header or not marks.isascii():
            return None
        return Form("csv", lines=Lines(dialect.delimiter, dialect.quote, self._names_of))

    @cached_property
    def dialect(self) -> Dialect:
        """The characters that rows are written with. A quote that escapes itself is no escape character."""
        quote = None if self.no_quote else self.quote
        escape = None if self.escape == quote else self.escape
        return Dialect(self.delimiter, quote, escape, self.null_literal, self.comments)

    def _names_of(self, table: TableId) -> Mapping[str, DataType | None] | None:
        declared = self.columns_of(table)
        if declared is not None:
            return declared
        return dict.fromkeys(self.own_names or self._named) or None

    @property
    def own_names(self) -> tuple[str, ...]:
        """The names of `csv.columns`."""
        return () if self.columns is None else tuple(_names(self.columns))

    def decoder(self, topic: str, *, keyed: bool = False) -> RowDecoder:
        """Return a decoder for one split's records; `keyed`: it reads their keys, too: a null value is a delete."""
        return self._decoder(self._names_of((topic,)), topic, keyed=keyed)

    def _decoder(self, columns: Mapping[str, DataType | None] | None, topic: str, *, keyed: bool) -> RowDecoder:
        rows = CsvRows(self, columns, "_c")

        def read(value: bytes) -> tuple[msgspec.Raw, None] | Reject | Skip:
            row = rows.read(value)
            return (row, None) if isinstance(row, msgspec.Raw) else row or _COMMENT

        return RowDecoder(read, topic, keyed=keyed)

    def decoder_under(self, line: bytes, file: str, topic: str, *, keyed: bool = False) -> RowDecoder:
        """Return a decoder for the lines of a file, whose first one has the names. Raise ConfigError."""
        try:
            names = [name or "" for name in self.dialect.split(line.decode()) or ()]
            _check_names(names)
        except ValueError as exc:
            msg = f"the first line of {file} has no names of columns (csv.header): {exc}"
            raise ConfigError(msg, "correct the line, or declare the columns and leave out csv.header") from exc
        types = self.columns_of((topic,)) or {}
        return self._decoder({name: types.get(name) for name in names}, topic, keyed=keyed)

    def reader_of(self, table: TableId) -> Callable[[bytes], tuple[msgspec.Raw, InlineSchema] | Reject]:
        """Return a function that reads the keys of a table: a row as JSON text with what it declares, or a reject."""
        rows = CsvRows(self, self._names_of(table), "_k")

        def read(key: bytes) -> tuple[msgspec.Raw, InlineSchema] | Reject:
            found = rows.read(key)
            if found is None:
                return Reject("malformed", "it has a comment only")
            return found if isinstance(found, Reject) else (found, _NO_TYPES)

        return read

    def value_of(self, table: TableId, schema: TableSchema, *, include_schema: bool = False) -> Value:
        """Return a function that makes the values of a table's records."""
        row = self._line(column.name for column in schema.columns)
        return ValueTemplate(row, row, row, None)

    def key_of(self, _table: TableId, columns: Mapping[str, DataType], first: bytes | None) -> Segments:
        """Return the pattern of keys of these columns. `first` is the JSON text of the table's id, or None."""
        return self._line(columns, None if first is None else self._write(first))

    def _line(self, columns: Iterable[str], first: bytes | None = None) -> Segments:
        """Return the pattern of a line with these columns. `first` is the text of the line's first field."""
        usual = self.dialect.is_usual
        cells = (ColumnRef(name, csv=True) if usual else ColumnRef(name, write=self._write) for name in columns)
        return csv_cells(cells, first, self.dialect.delimiter.encode())

    def _write(self, value: bytes) -> bytes:
        """Return a value, given as JSON text, as a field. Raise RowError."""
        try:
            return self.dialect.write(value)
        except CsvError as exc:
            raise RowError("not-in-csv", str(exc)) from None


class CsvRows:
    """Rows of one table."""

    def __init__(self, options: Csv, columns: Mapping[str, DataType | None] | None, prefix: str) -> None:
        """`columns`: with their types, where those are declared. None: they are called by `prefix` and a number."""
        self._split = options.dialect.split
        self._delimiter, self._strict = options.delimiter, options.strict
        self._prefix = prefix
        self._names = None if columns is None else [*columns]
        types = enumerate((columns or {}).values())
        read_as = partial(of_field, delimiter=options.element_delimiter, null=options.null_literal)
        made = ((at, None if kind is None else read_as(kind)) for at, kind in types)
        self._reads: list[tuple[int, Read]] = [(at, read) for at, read in made if read is not None]
        """Places of columns whose values are no texts, with the functions that read them."""

    def read(self, message: bytes) -> msgspec.Raw | Reject | None:
        """Return a row as JSON text, or the reject of a message that is none; None for comments alone."""
        try:
            text = message.decode().removeprefix(BOM)
            fields = self._split(text)
        except UnicodeDecodeError:
            return Reject("malformed", "not CSV: invalid UTF-8")
        except CsvError as exc:
            return Reject("malformed", f"not CSV: {exc}")
        if fields is None:
            return None
        names = self._names
        if names is None:
            names = [f"{self._prefix}{at}" for at in range(len(fields))]
        elif len(fields) != len(names):
            # A row may end with a delimiter
            ends = len(fields) == len(names) + 1 and not fields[-1] and text.rstrip("\r\n").endswith(self._delimiter)
            if not ends and (self._strict or len(fields) > len(names)):
                return Reject("column-count", f"the row has {len(fields)} fields, and its table {len(names)} columns")
            fields = fields[: len(names)]
        values: list[object] = [*fields]
        for at, read in self._reads:
            if at < len(fields) and (content := fields[at]) is not None:
                values[at] = read(content)
        return msgspec.Raw(msgspec.json.encode(dict(zip(names, values, strict=False))))

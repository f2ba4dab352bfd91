"""Plain Avro: each value is a row, a record of the one schema that the pipeline's file gives.

In: the values of records. Out: an insert for each, whose row is JSON text, with the types that the schema says.
Rules: docs/spec/avro.md.
"""

from __future__ import annotations

from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Self

from pydantic import Field, PrivateAttr, ValidationInfo, model_validator

from ingest.component.options import OptionErrors, is_written
from ingest.formats.avro.given_schema import field_names
from ingest.formats.form import AvroMessages, Form
from ingest.formats.row_decoder import RowFormat
from ingest.model.text import reason_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ingest.formats.avro.messages import RowSchema
    from ingest.formats.avro.native.reader import AvroReader
    from ingest.formats.row_decoder import ReadRow
    from ingest.formats.written import RowBytes, RowPlace
    from ingest.model.schema import Column

_SCHEMA: Final = "avro.schema"
_FILE: Final = "avro.schema-file"


class Avro(RowFormat):
    """Options of `value.format: avro`."""

    name: ClassVar[str] = "avro"
    counts_times: ClassVar[bool] = True

    schema_text: str | None = Field(None, alias=_SCHEMA)
    """The schema of all messages, as JSON text. A source needs either this or `avro.schema-file`. A sink without them
    derives the schema of each table."""

    schema_file: str | None = Field(None, alias=_FILE)
    """A file with the schema of all messages. It is read where the command runs, at its start."""

    ignore_parse_errors: bool = Field(False, alias="avro.ignore-parse-errors")
    """Skip and count messages that cannot be parsed, without counting them as errors."""

    _text: str = PrivateAttr("")

    @model_validator(mode="after")
    def _check_schema(self, info: ValidationInfo) -> Self:
        if self.schema_text is None and self.schema_file is None and is_written(info):
            return self
        if (self.schema_text is None) == (self.schema_file is None):
            key = _SCHEMA if self.schema_text is None else _FILE
            raise OptionErrors((key, f"give either {_SCHEMA} or {_FILE}"))
        key, given = (_FILE, self.schema_file) if self.schema_text is None else (_SCHEMA, self.schema_text)
        if given is None or "${" in given:
            return self
        try:
            self._text = given if key == _SCHEMA else Path(given).read_text(encoding="utf-8")
            _row_schema(self._text)
        except OSError as exc:
            raise OptionErrors((key, f"{key}: the file cannot be read: {reason_of(exc)}")) from exc
        except (ValueError, RecursionError) as exc:
            raise OptionErrors((key, f"{key}: the schema cannot be used: {exc}")) from exc
        return self

    @property
    def own_names(self) -> tuple[str, ...]:
        """The names of the fields of the given schema's record."""
        return field_names(self._text)

    @property
    def form(self) -> Form:
        """Rows of one schema."""
        return Form("rows", avro=AvroMessages(0, self._native))

    def _native(self, _: bytes) -> AvroReader | None:
        """Return the native reader; None also where the pipeline declares numbers for times, which are texts there."""
        known = _row_schema(self._text)
        return None if any(map(known.counts, self.all_declared)) else known.native

    def reader(self) -> ReadRow:
        """Return a function that reads a key or a value: its row as JSON text with what it declares, or its reject."""
        return partial(_row_schema(self._text).decode, at=0)

    def row_writer(self, _place: RowPlace, columns: Mapping[str, Column]) -> RowBytes:
        """Return the function that makes a table's rows. Raise RowError."""
        from ingest.formats.avro.table_writer import AvroRows, derived  # noqa: PLC0415  (`check` needs no fastavro)

        return AvroRows(self._text or derived(columns), columns)


@lru_cache(maxsize=16)
def _row_schema(text: str) -> RowSchema:
    """Return the compiled schema of a text; raises SchemaError."""
    from ingest.formats.avro.messages import RowSchema  # noqa: PLC0415  (only this format needs it)
    from ingest.formats.avro.schema import parse  # noqa: PLC0415

    return RowSchema(parse(text))

"""JSON with a schema registry: each value is a row, a JSON object behind the id of its JSON Schema.

In: the values of records. Out: an insert for each, whose row is JSON text, with the types that its schema says.
Rules: docs/spec/json.md#json-schema.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final, Self

import msgspec
from pydantic import model_validator

from ingest.component.options import OptionErrors
from ingest.formats.form import Form
from ingest.formats.format import NOTHING_GIVEN, FormatCapabilities, FormatOptions
from ingest.formats.json.schema import Columns, JsonSchema, is_exact
from ingest.formats.json.table_writer import RegisteredJsonRows
from ingest.formats.registered import read_row, schemas_by_id
from ingest.formats.row_decoder import RowFormat
from ingest.formats.typed import Typed, TypedColumn
from ingest.model.change import InlineSchema, Reject
from ingest.model.jsontext import MALFORMED, check_text, fields_of, reason
from ingest.model.reject import Contradiction
from ingest.schema_registry.options import RegistryOptions, keys_behind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ingest.formats.row_decoder import ReadRow
    from ingest.formats.written import RowPlace
    from ingest.model.schema import Column
    from ingest.model.table import TableId
    from ingest.model.types import DataType
    from ingest.schema_registry.client import Found

KIND: Final = "JSON"
_MAX_KEPT: Final = 64
"""Sets of columns without a type that are kept for one schema."""


class JsonConfluent(RowFormat, FormatOptions, RegistryOptions):
    """Options of `value.format: json-confluent`."""

    name: ClassVar[str] = "json-confluent"
    capabilities: ClassVar[FormatCapabilities] = FormatCapabilities(
        rows=True, reads_keys=True, writes_keys=True, table_schemas="rows", says_types=True
    )
    model_config = keys_behind(name)

    @model_validator(mode="after")
    def _check_given(self) -> Self:
        refuse_schema(self)
        return self

    @property
    def form(self) -> Form:
        """Rows behind the ids of their schemas."""
        return Form("rows", registered=True)

    @property
    def inline_types(self) -> tuple[str, Callable[[bytes], Mapping[str, TypedColumn]]]:
        """The types of columns by the head of a message, as far as a worker has read one of its schema."""

        def columns(head: bytes) -> Mapping[str, TypedColumn]:
            known = schemas_by_id(self, KIND, JsonRows, JsonRows).known(head)
            return {} if known is None else known.columns

        return "schema", columns

    def reader_of(self, table: TableId) -> ReadRow:
        """Return a function that reads a key or a value of a table, as `RowFormat` says."""
        return partial(read_row, schemas_by_id(self, KIND, JsonRows, JsonRows), given=self.declared(table))

    def row_writer(self, place: RowPlace, columns: Mapping[str, Column]) -> RegisteredJsonRows:
        """Return the function that makes a table's rows, each behind the id of its schema. Raise RowError."""
        return RegisteredJsonRows(self, place, columns)


def refuse_schema(options: RegistryOptions) -> None:
    """Raise OptionErrors where options have a schema, which JSON has no use for."""
    if options.schema_text is not None:
        key = f"{options.name}.schema"
        why = (
            "a source's messages have the ids of their schemas, and a sink makes its schema of the table; leave it out"
        )
        raise OptionErrors((key, f"{key} is not possible: {why}"))


class JsonRows:
    """The reader of a schema's rows, and what their messages declare."""

    def __init__(self, found: Found) -> None:
        """Compile a schema of a registry. Raise ValueError for one that cannot be used."""
        schema = JsonSchema(found.text, dict(zip(found.names, found.references, strict=True)))
        self._columns: Columns = schema.rows()
        self.columns = self._columns.typed
        """The columns of which the schema says one type."""
        self._typed: dict[tuple[frozenset[str], frozenset[tuple[str, DataType]]], Typed] = {}

    def decode(
        self, message: bytes, at: int, given: Mapping[str, DataType] = NOTHING_GIVEN
    ) -> tuple[msgspec.Raw, InlineSchema] | Reject:
        """Return the row from a place to the end of a message, with what it declares; or the message's reject.

        `given`: the types that the pipeline declares for columns.
        """
        try:
            text = message[at:].strip(b" \t\r\n")
            check_text(text)
            fields = {name: bytes(value) for name, value in fields_of(msgspec.Raw(text)).items()}
            typed = self._of(fields, given)
            return typed.image(msgspec.Raw(text)), typed.declared
        except Contradiction as exc:
            return Reject("type-mismatch", str(exc))
        except MALFORMED as exc:
            return Reject("malformed", f"not a JSON object behind the id of its schema: {reason(exc)}")

    def _of(self, fields: Mapping[str, bytes], given: Mapping[str, DataType]) -> Typed:
        """Return what a row declares: nothing of a number that its schema allows and no type of ours holds."""
        columns = self._columns.typed
        wide = self._columns.wide.intersection(fields)
        without = frozenset(name for name in wide if not is_exact(columns[name], fields[name]))
        place = without, frozenset(given.items())
        known = self._typed.get(place)
        if known is None:
            if len(self._typed) >= _MAX_KEPT:
                self._typed.clear()
            left = {name: column for name, column in columns.items() if name not in without}
            known = self._typed[place] = Typed(left, given=given)
        return known

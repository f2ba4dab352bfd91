"""Sinks whose formats may have a schema for each table: what makes their keys and values, and who declares schemas.

In: the options of formats, and the schemas of tables. Out: functions that make the bytes of rows and changes; and
schemas in a registry, before the rows that need them. Rules: docs/spec/avro.md#subjects.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Self, TypeAlias, TypeVar

from pydantic import BaseModel, Field, PrivateAttr

from ingest.component.options import OPTIONS, AnyOptions, filled, holding
from ingest.formats.written import ChangeBytes, Rounding, RowBytes, RowPlace, Upserts
from ingest.model.numbers import Numbers, Rounds, rounding_of
from ingest.model.reject import RowError
from ingest.model.table import TableId, show
from ingest.sinks import SinkCoordinator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ingest.component.files import Files
    from ingest.model.schema import Column, TableSchema

    TypedWriters: TypeAlias = tuple[RowBytes | None, Upserts | ChangeBytes | None]
    """Functions that make the keys and the values of a table, where their formats have schemas."""


class WrittenPart(NamedTuple):
    """Keys or values of a table's records."""

    format: Any
    """The options of the format."""
    columns: Mapping[str, Column]
    """The columns of the table that are in them, by the names of their fields."""
    writer: RowBytes | Upserts | ChangeBytes | None
    """The function that makes them, where their format has schemas."""

    @property
    def is_row(self) -> bool:
        """True if a value is the row after a change."""
        return self.format is None or self.format.capabilities.table_schemas != "changes"

    @property
    def rounds(self) -> Mapping[str, Rounds]:
        """What says of values whether they became other numbers, by column: the writer, or else their types."""
        if self.writer is not None:
            return self.writer.rounds
        columns = self.columns.values() if self.format is not None and self.format.capabilities.binary_numbers else ()
        return {column.name: rounds for column in columns if (rounds := rounding_of(column.type)) is not None}


class TypedSinkOptions(BaseModel):
    """Options of sinks whose values may be of a format with schemas."""

    model_config = OPTIONS

    format: Any = Field(None, alias="*format", exclude=True)
    """Filled in from the options that start with the format's name."""

    _asks: bool = PrivateAttr(default=True)

    def with_format(self, chosen: AnyOptions) -> tuple[Self, list[tuple[str, str]]]:
        """Return these options with those of the values' format, and nothing that is wrong between them."""
        return self.model_copy(update={"format": chosen}), []

    def unregistered(self) -> Self:
        """Return these options for rows that are written nowhere: no schema registry is asked."""
        return holding(self, _asks=False)

    def topic_of(self, table: TableId) -> str:
        """Return the topic of a sink table, or what stands for it in subjects. Raise RowError where it can be none."""
        return show(table)

    def _place(self, part: str, table: TableId) -> RowPlace:
        return RowPlace(self.topic_of(table), part, table, self._asks)

    def with_files(self, files: Files) -> Self:
        """Return these options with what is in the files that their format names; raises IngestError."""
        return self if self.format is None else self.model_copy(update={"format": filled(self.format, files)})

    @property
    def numbers(self) -> Numbers:
        """What becomes of a number that no binary number is: formats of binary numbers round it."""
        of_values, *of_keys = (
            chosen is not None and chosen.capabilities.binary_numbers for chosen in self.chosen_formats
        )
        return Numbers.COUNTED if of_values else Numbers.IN_KEYS if any(of_keys) else Numbers.TEXTS

    @property
    def chosen_formats(self) -> tuple[Any, ...]:
        """The options of the formats of values and, where they have any, of keys."""
        return (self.format,)

    @property
    def declares(self) -> bool:
        """True if the format of keys or values has a schema for each table."""
        return any(chosen is not None and chosen.capabilities.table_schemas for chosen in self.chosen_formats)

    def typed_value(self, table: TableId, columns: Mapping[str, Column]) -> Upserts | ChangeBytes | None:
        """Return the function that makes values of a format with schemas; None for another format. Raise RowError."""
        schemas = None if self.format is None else self.format.capabilities.table_schemas
        if schemas is None:
            return None
        place = self._place("value", table)
        if schemas == "rows":
            return Upserts(self.format.row_writer(place, columns))
        written: ChangeBytes = self.format.change_writer(place, columns)
        return written

    def rounding(self, key: WrittenPart | None, value: WrittenPart) -> Callable[[], Rounding] | None:
        """Return what gives that which counts the numbers that are rounded, once a row was written.

        `key`: that of records, if they have any. Return None where all numbers keep their texts.
        """
        if self.numbers is Numbers.TEXTS:
            return None

        @cache
        def rounding_of_row() -> Rounding:
            after = value.rounds
            return Rounding({} if key is None else key.rounds, after, {} if value.is_row else after)

        return rounding_of_row

    def typed(self, _table: TableId, _schema: TableSchema) -> TypedWriters:
        """Return what makes keys and values of a sink table, where their formats have schemas. Raise RowError."""
        return None, None


T = TypeVar("T", bound=TypedSinkOptions)


class TypedSinkCoordinator(SinkCoordinator, Generic[T]):
    """The driver's side of such a sink, as far as schemas go."""

    def __init__(self, options: T, warn: Callable[[str], None]) -> None:
        self.schemas = self if options.declares else None
        self._options = options
        self._warn = warn
        self._keys: dict[TableId, list[str]] = {}
        """The columns of keys of formats with schemas, by table."""

    def declare(self, schemas: Mapping[TableId, TableSchema]) -> None:
        """Register the schemas of keys and values where their formats have them; warn where a key's schema changed.

        Raise IngestError, also where the registry refuses a schema.
        """
        for table, writers in self._writers(schemas):
            for writer in writers:
                if writer is not None:
                    writer.register()
            if writers[0] is not None:
                self._warn_of_key(table, schemas[table])

    def undeclared(self, schemas: Mapping[TableId, TableSchema]) -> set[str]:
        """Return the subjects that `declare` would register schemas for; raises what it would raise."""
        writers = (writer for _, of_table in self._writers(schemas) for writer in of_table if writer is not None)
        return {subject for subject in (writer.unregistered() for writer in writers) if subject is not None}

    def _writers(self, schemas: Mapping[TableId, TableSchema]) -> Iterator[tuple[TableId, TypedWriters]]:
        """Yield what makes keys and values of each table, where their formats have schemas."""
        for table, schema in schemas.items():
            try:
                yield table, self._options.typed(table, schema)
            except RowError:
                continue  # its rows are rejects, in the task

    def _warn_of_key(self, table: TableId, schema: TableSchema) -> None:
        key = [str(column) for column in schema.columns if column.name in schema.primary_key]
        before = self._keys.setdefault(table, key)
        if before != key:
            self._keys[table] = key
            self._warn(
                f"table {show(table)}: the schema of its keys changed from ({', '.join(before)}) to "
                f"({', '.join(key)}): rows that were written before are under other keys"
            )

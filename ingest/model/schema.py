"""The schema of a table, its merging with another schema, and the schema changes between two versions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

from ingest.model import types
from ingest.model.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ingest.model.table import TableId
    from ingest.model.types import DataType


MAX_NAME: Final = 1024
"""Number of characters that a column's name from messages may have at most."""


class TextNumbers(IntEnum):
    """What keys have for the numbers that messages declare in texts of a column. Rule: docs/spec/keys.md, K28, K30."""

    NONE = 0
    """No message has declared such numbers."""
    QUOTED = 1
    """Texts: the column never had a type of numbers."""
    BARE = 2
    """Numbers: the column had such a type until one of its numbers was too long."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column. Only columns of the primary key have `nullable` false."""

    name: str
    type: DataType
    nullable: bool = True
    large: bool = field(default=False, compare=False)
    """True if it is known to have had an integer beyond ±2^53, so that DOUBLE does not hold its values."""
    stored: DataType | None = field(default=None, compare=False)
    """Type by which the sink's table keeps numbers of the column, where that is another one; STRING: all digits."""
    text_numbers: TextNumbers = field(default=TextNumbers.NONE, compare=False)

    @property
    def number_type(self) -> DataType:
        """The type by which numbers of the column are kept."""
        return self.type if self.stored is None else self.stored

    def __reduce__(self) -> tuple[Any, ...]:
        """Return a few plain values for pickling. There may be hundreds of thousands of columns."""
        if self.large or self.stored is not None or self.text_numbers:
            stored = None if self.stored is None else types.name(self.stored)
            known = self.name, types.name(self.type), self.nullable, self.large, stored, int(self.text_numbers)
            return _new_column, known
        make = _column if len(self.name) <= _LONG else _new_column
        return make, (self.name, types.name(self.type), self.nullable)

    def __str__(self) -> str:
        """Return the column as DDL has it."""
        return f"{one_line(self.name)} {types.name(self.type)}{'' if self.nullable else ' NOT NULL'}"


def _new_column(
    name: str,
    type_name: str,
    nullable: bool,
    large: bool = False,  # noqa: FBT002  (the same)
    stored: str | None = None,
    text_numbers: int = 0,
) -> Column:
    stored_type = None if stored is None else types.parse(stored)
    return Column(name, types.parse(type_name), nullable, large, stored_type, TextNumbers(text_numbers))


def _merged_type(one: Column, other: Column) -> DataType:
    """Return the type that holds what either column held."""
    found = types.merge(one.type, other.type)
    large = (one.large and one.type == types.BIGINT) or (other.large and other.type == types.BIGINT)
    return types.STRING if large and found == types.DOUBLE else found


def _merged_numbers(one: Column, other: Column) -> TextNumbers:
    """Return what keys have for numbers in texts of a column that was both."""
    found = max(one.text_numbers, other.text_numbers)
    had_numbers = isinstance(one.type, types.NUMBERS) or isinstance(other.type, types.NUMBERS)
    return TextNumbers.BARE if had_numbers and found else found


_LONG: Final = 128
"""Length in characters of the longest name whose column is kept and shared. Longer names would fill the memory."""


@lru_cache(maxsize=100_000)
def _column(name: str, type_name: str, nullable: bool) -> Column:
    return _new_column(name, type_name, nullable)


class Misfit(str):
    """The reason why a sink's table does not take a column as it is wanted."""

    __slots__ = ("there",)
    there: DataType | None
    """The column's type there, whose values it takes; None: there is none of ours, and it takes no value."""

    def __new__(cls, why: str, there: DataType | None = None) -> Self:
        """Return the reason, with the type."""
        made = super().__new__(cls, why)
        made.there = there
        return made


NO_ORDER: Final = "which orders changes by it (sink.sequence-by): of texts, '10' comes before '9'"
"""The reason why a column that orders changes does not become one of texts."""


@dataclass(frozen=True, slots=True)
class TableSchema:
    """Columns in the order of their first appearance, and the primary key in its own order."""

    columns: tuple[Column, ...]
    primary_key: tuple[str, ...]

    def __reduce__(self) -> tuple[Any, ...]:
        """Return a few plain values for pickling."""
        return TableSchema, (self.columns, self.primary_key)

    @property
    def bare_numbers(self) -> frozenset[str]:
        """The columns whose texts are numbers in keys, where messages declare that they are numbers."""
        return frozenset(column.name for column in self.columns if column.text_numbers is TextNumbers.BARE)

    def merge(self, other: TableSchema) -> TableSchema:
        """Return this schema, widened so that the rows of the other schema fit.

        New columns come last; no column is removed.
        """
        incoming = {column.name: column for column in other.columns}
        key = self.primary_key or other.primary_key
        columns = []
        for column in self.columns:
            new = incoming.pop(column.name, None)
            if new is not None:
                nullable = (column.nullable or new.nullable) and not (column.name in key and not column.nullable)
                large = column.large or new.large
                numbers = _merged_numbers(column, new)
                columns.append(Column(column.name, _merged_type(column, new), nullable, large, column.stored, numbers))
            else:
                columns.append(column)
        columns += (replace(column, nullable=True) for column in incoming.values())
        return TableSchema(tuple(columns), key)

    def with_stored(self, found: Mapping[str, DataType]) -> TableSchema:
        """Return this schema with the types by which the sink's table keeps numbers of columns."""
        if all(column.stored == found.get(column.name) for column in self.columns):
            return self
        columns = (replace(column, stored=found.get(column.name)) for column in self.columns)
        return TableSchema(tuple(columns), self.primary_key)

    def to_json(self) -> dict[str, Any]:
        """Return plain values for JSON. Types are written by their Flink SQL names."""
        columns = [[c.name, types.name(c.type), c.nullable] for c in self.columns]
        bare = {"bare_numbers": sorted(self.bare_numbers)} if self.bare_numbers else {}
        return {"columns": columns, "key": [*self.primary_key], **bare}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> TableSchema:
        """Return the schema of a value that `to_json` made. Raise ValueError or KeyError for anything else."""
        columns = tuple(
            (_column if len(name) <= _LONG else _new_column)(name, text, bool(nullable))
            for name, text, nullable in value["columns"]
        )
        if bare := value.get("bare_numbers"):
            columns = tuple(replace(c, text_numbers=TextNumbers.BARE) if c.name in bare else c for c in columns)
        return cls(columns, tuple(value["key"]))


@dataclass(frozen=True, slots=True)
class TableComments:
    """What a source says in words of a table and its columns. A text may hold anything."""

    table: str | None
    """None: nothing, and nothing before. An empty text takes away what was said."""
    columns: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CreateTable:
    """Schema change: a table appeared for the first time."""

    table: TableId
    schema: TableSchema

    def __str__(self) -> str:
        """Return `CREATE TABLE (id BIGINT NOT NULL, …, PRIMARY KEY (id))`."""
        parts = [str(column) for column in self.schema.columns]
        if self.schema.primary_key:
            parts.append(f"PRIMARY KEY ({', '.join(map(one_line, self.schema.primary_key))})")
        return f"CREATE TABLE ({', '.join(parts)})"


@dataclass(frozen=True, slots=True)
class AddColumn:
    """Schema change: a table got a new last column, which is nullable."""

    table: TableId
    column: Column

    def __str__(self) -> str:
        """Return `ADD COLUMN note STRING`."""
        return f"ADD COLUMN {self.column}"


@dataclass(frozen=True, slots=True)
class AlterColumnType:
    """Schema change: a column's type became wider."""

    table: TableId
    name: str
    before: DataType
    after: DataType

    def __str__(self) -> str:
        """Return `ALTER COLUMN n INT -> BIGINT`."""
        return f"ALTER COLUMN {one_line(self.name)} {types.name(self.before)} -> {types.name(self.after)}"


StoredTypes: TypeAlias = "Mapping[TableId, Mapping[str, DataType]]"
"""By sink table and column: the type by which the table keeps numbers, where that is another one than rows have."""
SchemaChange: TypeAlias = CreateTable | AddColumn | AlterColumnType


def changes(table: TableId, before: TableSchema | None, after: TableSchema) -> Iterable[SchemaChange]:
    """Yield the schema changes from `before` to `after`, in the order in which a sink has to apply them."""
    if before is None:
        yield CreateTable(table, after)
        return
    known = {column.name: column for column in before.columns}
    for column in after.columns:
        old = known.get(column.name)
        if old is None:
            yield AddColumn(table, column)
        elif old.type != column.type:
            yield AlterColumnType(table, column.name, old.type, column.type)

"""Tables of a lake as rows need them: names, columns, and the types that a lake has; no library is needed for it."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar

from ingest.model import types
from ingest.model.reject import RowError
from ingest.model.schema import TableSchema
from ingest.model.table import PLAIN, TableId, TableLayout, show
from ingest.model.types import ArrayType, DataType, DecimalType, MapType, NullType, StructType, TimeType

if TYPE_CHECKING:
    from contextlib import AbstractContextManager


TableName = tuple[str, ...]
"""The name of a table in a lake, with its namespace."""


class LibraryTable(Protocol):
    """A table as the library of a lake has it."""

    def delete(self) -> object:
        """Delete all rows."""


TableT = TypeVar("TableT", bound=LibraryTable)
Table_co = TypeVar("Table_co", bound=LibraryTable, covariant=True)


class Warehouse(Protocol[Table_co]):
    """The place of a lake's tables. Methods raise what the library raises."""

    @property
    def is_new(self) -> bool:
        """True where nothing of the lake is there, so that to look a table up would make it."""

    def asking(self, what: str) -> AbstractContextManager[object]:
        """Return a block whose errors of the library are those of a run. `what`: what is done, for their messages."""

    def find(self, name: TableName) -> Table_co | None:
        """Return a table as it is now; None where it is not there."""

    def load(self, name: TableName) -> Table_co:
        """Return a table that is there, as it is now."""

    def close(self) -> None:
        """Release connections."""


@dataclass(frozen=True, slots=True)
class LakeColumn:
    """A column that rows have in a lake."""

    name: str
    type: DataType


def has_order(data_type: DataType) -> bool:
    """Return whether of two values of a type one is the larger one, as a lake has them."""
    if isinstance(data_type, DecimalType):
        return data_type.precision <= types.MAX_PRECISION
    return data_type not in {types.BOOLEAN, types.BYTES} and not isinstance(data_type, (ArrayType, MapType, StructType))


def stored_schema(schema: TableSchema, *, times: bool) -> TableSchema:
    """Return the schema that rows are encoded by: a type that a lake does not have is STRING there.

    `times`: whether it has times of a day. A column that had only nulls so far stays as it is: an encoder whose table
    lacks it would count its nulls as values that were withheld.
    """
    columns = tuple(replace(one, type=_stored(one.type, times=times)) for one in schema.columns)
    return TableSchema(columns, schema.primary_key)


def lake_columns(schema: TableSchema) -> tuple[LakeColumn, ...]:
    """Return the columns of a stored schema, without those that had only nulls so far."""
    return tuple(LakeColumn(one.name, one.type) for one in schema.columns if not isinstance(one.type, NullType))


def _stored(data_type: DataType, *, times: bool) -> DataType:
    if isinstance(data_type, (ArrayType, MapType, StructType)):
        return types.STRING
    if isinstance(data_type, DecimalType) and data_type.precision > types.MAX_PRECISION:
        return types.STRING
    return types.STRING if isinstance(data_type, TimeType) and not times else data_type


MAX_NAME: Final = 255
"""Bytes of a name: catalogs in databases have no more room."""
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_PLAIN: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")
_MAX_FOLDER: Final = 150


@dataclass(frozen=True, slots=True)
class LakeTable:
    """A table that rows go to."""

    namespace: tuple[str, ...]
    name: str
    columns: tuple[LakeColumn, ...]
    key: tuple[str, ...]
    deleted: str | None = None
    """The column that says of a row that it is deleted, one of `columns`; None where there is none."""
    sequence: str | None = None
    """The column that says which of two changes of a row is the newer one; None where the order of changes does."""
    unique: bool = True
    """True if it has one row for a key, and rows that come supersede others."""
    layout: TableLayout = PLAIN
    """How it is laid out where it has to be made."""

    @property
    def id(self) -> tuple[str, ...]:
        """The name with its namespace."""
        return *self.namespace, self.name

    @property
    def has_key(self) -> bool:
        """True if it has all columns of its key: one that had only nulls so far has no type."""
        return {one.name for one in self.columns}.issuperset(self.key)

    def __str__(self) -> str:
        """Return the name as messages show it."""
        return show(self.id)


def table_of(
    table: TableId, schema: TableSchema, namespace: str, *, times: bool, deleted: str | None = None
) -> LakeTable:
    """Return the table that rows go to. Raise RowError for names that it cannot have, and rows with that column.

    `namespace`: of tables whose id has one part. `times`: whether the lake has times of a day. `deleted`: see
    `LakeTable`.
    """
    spaces = table[:-1] or (namespace,)
    for space in spaces:
        _check_name("namespace", space)
        if "." in space:
            msg = f"a namespace with a dot in its name, {space[:100]!r}, is another one in a catalog"
            raise RowError("bad-name", msg)
    _check_name("table", table[-1])
    columns = lake_columns(stored_schema(schema, times=times))
    if deleted is not None:
        if any(one.name == deleted for one in schema.columns):
            msg = f"its rows have a column {deleted!r}, which says of a row that it is deleted (sink.delete-column)"
            raise RowError("column-clash", msg)
        columns = (*columns, LakeColumn(deleted, types.BOOLEAN))
    for one in columns:
        _check_name("column", one.name)
    return LakeTable(spaces, table[-1], columns, schema.primary_key, deleted)


class StatesToWrite(NamedTuple):
    """Which states of keys are written, and what becomes of deletes."""

    append: bool = False
    """All states are written, not only the last one of each key."""
    soft: bool = False
    """A delete is a row, or marks one."""
    ignore: bool = False
    """A delete is no state."""

    @property
    def all(self) -> bool:
        """True if it takes more than the last states to tell what is written."""
        return self.append or self.soft or self.ignore


LAST_STATES: Final = StatesToWrite()
"""The last state of each key is written, and a delete removes a row."""


def _check_name(what: str, name: str) -> None:
    if name.strip() and len(name.encode("utf-8", "surrogatepass")) <= MAX_NAME and not _CONTROL.search(name):
        return
    msg = f"a {what} cannot have the name {name[:100]!r}: write up to {MAX_NAME} bytes, no control characters"
    raise RowError("bad-name", msg)


def folder_of(names: tuple[str, ...]) -> str:
    """Return a path below a warehouse that stays there, whatever the names are: they come from messages."""
    return "/".join(map(_folder, names))


def _folder(name: str) -> str:
    if _PLAIN.fullmatch(name) and len(name) <= _MAX_FOLDER:
        return name
    safe = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:_MAX_FOLDER]
    return f"{safe}-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"

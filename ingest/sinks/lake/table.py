"""Tables of a lake, and the files that tasks write for them.

A task writes rows into files, which belong to no table yet. What it gives the driver are `AddedFile`s. The driver
stores them in the checkpoint and adds them to their tables.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ingest.model import types
from ingest.model.layout import PLAIN
from ingest.model.reject import RowError
from ingest.model.table import show
from ingest.sinks.lake.columns import LakeColumn, lake_columns, stored_schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingest.model.layout import TableLayout
    from ingest.model.schema import TableSchema
    from ingest.model.table import TableId

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


class PartitionValue(NamedTuple):
    """The value that all rows of a file have in a column, which the file does not have."""

    column: str
    type: str
    """The type's name, as the lake writes it."""
    text: str | None
    """The value, as the lake writes it; None for a null."""


class AddedFile(NamedTuple):
    """A file that a task has written."""

    table: tuple[str, ...]
    """The table's name, with its namespace."""
    key: tuple[str, ...]
    """Names of the columns by which a row supersedes others."""
    path: str
    rows: int
    gone: bool
    """True if the file has the keys of rows that are no more, and no rows."""
    cut: tuple[tuple[str, int], ...] = ()
    """By column: times that lost what is finer than a microsecond."""
    deleted: str | None = None
    """With `gone`: the column that becomes true in the rows of these keys, which stay; None where they are removed."""
    sequence: str | None = None
    """The column that says which of two rows is the newer one; None where the order of files does."""
    partition: tuple[PartitionValue, ...] = ()
    """The columns of its rows that the file does not have."""
    emptied: tuple[tuple[str, int], ...] = ()
    """By column: empty texts that are null in the table."""

    def to_json(self) -> list[Any]:
        """Return plain values, as a checkpoint stores them."""
        return [*self[:-2], [list(one) for one in self.partition], self.emptied]

    @classmethod
    def from_json(cls, value: list[Any]) -> AddedFile:
        """Return a file of plain values."""
        table, key, path, rows, gone, _, deleted, sequence, partition, _ = value
        values = tuple(PartitionValue(*one) for one in partition)
        return cls(tuple(table), tuple(key), path, rows, gone, (), deleted, sequence, values)


def digest_of(files: Sequence[AddedFile]) -> str:
    """Return what tells the files of a batch from those of another one: 64 hexadecimal digits."""
    return hashlib.sha256("\n".join(one.path for one in files).encode()).hexdigest()


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

"""The history of schemas: which columns each table had from which position of the log on.

The coordinator adds entries, tasks look them up: a row is decoded by the columns that were valid at its position, also
where its range is read again. Entries are never changed, so a checkpoint keeps each once.
Rules: docs/spec/mysql.md#schemas.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

import msgspec

from ingest.model.schema import Column as SchemaColumn
from ingest.model.schema import TableComments, TableSchema, TextNumbers
from ingest.model.table import TableId, table_in
from ingest.model.types import DataType, is_text
from ingest.sources.mysql import types
from ingest.sources.mysql.types import Table, TableName

_BEFORE: Final = re.compile(
    rb"\s+|/\*(?![!M]).*?\*/|--\s[^\n]*(?:\n|$)|#[^\n]*(?:\n|$)"
    rb"|SET\s+STATEMENT\s(?:[^'\"`]|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`)*?\sFOR(?=\s)",
    re.DOTALL | re.IGNORECASE,
)
"""What may stand before a statement's verb: blanks, comments, and settings of MariaDB for this one statement."""
_FIRST_WORD: Final = re.compile(rb"[A-Za-z]+|/\*")
_OF_SCHEMAS: Final = frozenset({b"CREATE", b"ALTER", b"DROP", b"RENAME", b"TRUNCATE", b"/*"})
"""First words of statements that may change tables; an executable comment may hold any."""
_OF_ROWS: Final = frozenset({b"INSERT", b"UPDATE", b"DELETE", b"REPLACE", b"LOAD", b"WITH", b"CALL", b"DO"})


class ColumnKind(NamedTuple):
    """The type that a column of MySQL has in the pipeline."""

    type: DataType
    is_number: bool
    """True if it is a text that holds a number: a DECIMAL of more digits than any type of numbers has."""


@dataclass(frozen=True)
class SchemaEntry:
    """The columns of a table from a position on."""

    id: int
    position: int
    """Of the statement: rows behind it have these columns."""
    name: TableName
    table: Table | None
    """None: there is no such table from there on, or it is not known."""
    read: bool
    """True if the pipeline reads it."""
    booleans: bool
    """True if TINYINT(1) is a BOOLEAN."""

    @cached_property
    def types(self) -> Mapping[str, ColumnKind]:
        """The types of the columns, by name."""
        columns = () if self.table is None else self.table.columns
        kinds = {one: types.data_type(one, tinyint1_as_boolean=self.booleans) for one in columns if not one.hidden}
        return {one.name: ColumnKind(kind, one.type == "decimal" and is_text(kind)) for one, kind in kinds.items()}

    @cached_property
    def columns_read(self) -> frozenset[str]:
        """The names of the columns that the sink has of it, in lower case."""
        return frozenset(name.lower() for name in self.types) if self.read else frozenset()

    @cached_property
    def key(self) -> tuple[str, ...]:
        """The primary key, else the first unique key whose columns are never null."""
        return () if self.table is None else key_of(self.table)

    @property
    def table_id(self) -> TableId:
        """The table's id."""
        return table_in(*self.name)

    def schema(self) -> TableSchema:
        """Return what the table is like for a sink."""
        columns = (
            SchemaColumn(
                name, kind, name not in self.key, text_numbers=TextNumbers.QUOTED if is_number else TextNumbers.NONE
            )
            for name, (kind, is_number) in self.types.items()
        )
        return TableSchema(tuple(columns), self.key)

    def to_json(self) -> list[Any]:
        """Return the entry as a JSON array."""
        table = None if self.table is None else _plain(self.table)
        return [self.id, self.position, [*self.name], table, self.read, self.booleans]

    @classmethod
    def from_json(cls, value: list[Any]) -> SchemaEntry:
        """Return the entry of what `to_json` returned. Raise ValueError or TypeError."""
        entry_id, position, (database, name), columns, read, booleans = value
        table = None if columns is None else msgspec.convert(columns, Table)
        return cls(entry_id, position, (database, name), table, read, booleans)


def _plain(value: Any) -> Any:
    """Return a dataclass as JSON has it, without fields that are as by default: there may be millions of columns."""
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    if not is_dataclass(value):
        return value
    given = ((one.name, getattr(value, one.name), _default(one)) for one in fields(value))
    return {name: _plain(found) for name, found, default in given if found != default}


def _default(one: Field[Any]) -> object:
    return one.default if one.default_factory is MISSING else one.default_factory()


def to_document(entries: Iterable[SchemaEntry]) -> dict[str, Any]:
    """Return entries as JSON has them. Kinds and lists of columns are there once: many tables share them."""
    kinds: dict[str, int] = {}
    shapes: dict[str, int] = {}
    plain = [entry.to_json() for entry in entries]
    for entry in plain:
        table = entry[3]
        if table is None:
            continue
        del table["database"], table["name"]
        columns: list[Any] = []
        for column in table.pop("columns", ()):
            columns += (column.pop("name"), kinds.setdefault(_text(column), len(kinds)))
        entry[3] = [shapes.setdefault(_text(columns), len(shapes)), table]
    return {
        "kinds": [*map(msgspec.json.decode, kinds)],
        "shapes": [*map(msgspec.json.decode, shapes)],
        "entries": plain,
    }


def from_document(value: Mapping[str, Any]) -> Iterator[SchemaEntry]:
    """Yield the entries of what `to_document` made. Raise ValueError, TypeError, LookupError."""
    for entry in value["entries"]:
        number, position, (database, name), packed, *rest = entry
        table = None
        if packed is not None:
            shape = value["shapes"][packed[0]]
            columns = [
                {"name": column, **value["kinds"][kind]} for column, kind in zip(shape[::2], shape[1::2], strict=True)
            ]
            table = {"database": database, "name": name, "columns": columns, **packed[1]}
        yield SchemaEntry.from_json([number, position, (database, name), table, *rest])


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()


def comments_of(history: History, entry: SchemaEntry) -> TableComments:
    """Return what a table says of itself and its columns; empty where an earlier definition said something."""
    tables = [one.table for one in history.of(entry.name) if one.table is not None]
    said = {column.name for table in tables for column in table.columns if column.comment}
    now = entry.table
    columns = () if now is None else now.columns
    texts = {one.name: one.comment for one in columns if not one.hidden and one.name in said}
    return TableComments(now.comment if now and any(table.comment for table in tables) else None, texts)


def key_of(table: Table) -> tuple[str, ...]:
    """Return the columns of the primary key, else of the first unique key whose columns are never null."""
    nullable = {column.name for column in table.columns if column.nullable}
    unique = (key for key in table.unique_keys if nullable.isdisjoint(key))
    return table.primary_key or next(unique, ())


@dataclass
class History:
    """All entries. It is what tasks get, and never changed: `with_entries` makes another one."""

    entries: tuple[SchemaEntry, ...] = ()
    answers: frozenset[int] = frozenset()
    """Positions of statements whose effect the entries have."""
    _by_name: dict[TableName, tuple[list[int], list[SchemaEntry]]] = field(default_factory=dict, repr=False)
    _by_id: dict[int, SchemaEntry] = field(default_factory=dict, repr=False)
    _children: dict[TableName, dict[TableName, None]] = field(default_factory=dict, repr=False)
    """For each table those that refer to it, at some position, by a foreign key that changes their rows."""

    def __post_init__(self) -> None:
        """Index the entries."""
        for entry in self.entries:
            positions, found = self._by_name.setdefault(entry.name, ([], []))
            at = bisect_right(positions, entry.position)
            positions.insert(at, entry.position)
            found.insert(at, entry)
            self._by_id[entry.id] = entry
            for key in () if entry.table is None else entry.table.cascades:
                self._children.setdefault(key.parent, {})[entry.name] = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what it is made of: a worker makes the indexes again."""
        return History, (self.entries, self.answers)

    def with_entries(self, entries: Iterable[SchemaEntry], answers: Iterable[int] = (), *, since: int = 0) -> History:
        """Return a history that has more entries and answers, without answers before a position."""
        return History((*self.entries, *entries), frozenset(at for at in (*self.answers, *answers) if at >= since))

    def since(self, position: int, shown: int) -> History:
        """Return the same without entries that nobody asks for where the log is read from a position on.

        A table keeps its columns of then, those of before that no later entry has (the sink has them), and that it was
        read. `shown`: the position from which on rows of tables that are read may be looked at.
        """
        kept: list[SchemaEntry] = []
        for positions, entries in self._by_name.values():
            read = any(entry.read for entry in entries)
            at = max(0, bisect_right(positions, shown if read else position) - 1)
            own = entries[at:]
            for entry in reversed(entries[:at]):
                if entry.read and not entry.columns_read <= frozenset().union(*(one.columns_read for one in own)):
                    own.append(entry)
            if read and not any(entry.read for entry in own):
                own.append(next(entry for entry in reversed(entries) if entry.read))
            if read or len(own) > 1 or own[0].table is not None:
                kept += own
        return History(tuple(sorted(kept, key=lambda entry: entry.id)), self.answers)

    def without(self, position: int) -> History:
        """Return the same without what statements from a position on have done."""
        gone = {at for at in self.answers if at >= position}
        return History(tuple(one for one in self.entries if one.position not in gone), self.answers - gone)

    def whole(self) -> History:
        """Return the same for whoever looks at a place that was read: each statement before it has its answer."""
        return _Answered(self.entries)

    def entry(self, number: int) -> SchemaEntry | None:
        """Return the entry with an id."""
        return self._by_id.get(number)

    def at(self, name: TableName, position: int) -> SchemaEntry | None:
        """Return the entry that a table has at a position; None where nothing is known of it there."""
        positions, found = self._by_name.get(name, ((), ()))
        index = bisect_right(positions, position)
        return found[index - 1] if index else None

    def children(self, name: TableName) -> Iterable[TableName]:
        """Return the tables whose rows may change with those of another one, by a foreign key, at some position."""
        return self._children.get(name, ())

    def of(self, name: TableName) -> Sequence[SchemaEntry]:
        """Return all entries of a table, in the order of their positions."""
        return self._by_name.get(name, ((), ()))[1]

    def was_read(self, name: TableName, position: int) -> bool:
        """Return whether a table was read at some time before a position."""
        return any(entry.read and entry.position < position for entry in self.of(name))

    def newest(self) -> Iterator[SchemaEntry]:
        """Yield the last entry of each table that there is."""
        for _, found in self._by_name.values():
            if found[-1].table is not None:
                yield found[-1]

    # -- What the reader of the log asks --------------------------------------------------------------------------

    def read(self, database: str, name: str, position: int) -> tuple[int, Table] | None:
        """Return the id and the columns that a table has at a position; None if it is not read."""
        entry = self.at((database, name), position)
        return None if entry is None or entry.table is None or not entry.read else (entry.id, entry.table)

    def answered(self, position: int) -> bool:
        """Return whether the entries have the effect of the statement at a position."""
        return position in self.answers

    def matters(self, statement: bytes, *, changes_rows: bool) -> bool:
        """Return whether a statement may touch tables: of those that change rows, whether it names one that is read."""
        if not changes_rows:
            return may_change_tables(statement)
        text = statement.decode("utf-8", "replace").lower()
        return any(entry.read and entry.name[1].lower() in text for entry in self.newest())


class _Answered(History):
    """A history that has the effect of each statement."""

    def answered(self, position: int) -> bool:
        """Return True."""
        return True


def bare(statement: bytes) -> bytes:
    """Return a statement from its verb on, without blanks and a semicolon at its end."""
    at = 0
    while (found := _BEFORE.match(statement, at)) is not None and found.end() > at:
        at = found.end()
    return statement[at:].rstrip().rstrip(b";").rstrip()


def changes_rows(statement: bytes) -> bool:
    """Return whether a statement, from its verb on, changes rows of tables."""
    found = _FIRST_WORD.match(statement)
    return found is not None and found[0].upper() in _OF_ROWS


def may_change_tables(statement: bytes) -> bool:
    """Return whether a statement may change tables, by its first word."""
    found = _FIRST_WORD.match(bare(statement))
    return found is not None and found[0].upper() in _OF_SCHEMAS


class KnownSchemas:
    """The history that this process has, for the decoders and the reader of a pipeline."""

    def __init__(self) -> None:
        self.history = History()

    def __reduce__(self) -> tuple[Any, ...]:
        """Return none of it: what a task needs comes with the task."""
        return KnownSchemas, ()

    def entry(self, number: int) -> SchemaEntry | None:
        """Return the entry with an id."""
        return self.history.entry(number)

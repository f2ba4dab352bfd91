"""CREATE TABLE: the table that it makes. What tables have in common with ALTER TABLE: keys, options, a draft."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from ingest.sources.mysql.definitions import Context, Definition, Reference, definition, references, table_name
from ingest.sources.mysql.tokens import NotUnderstood, WordCursor
from ingest.sources.mysql.types import (
    BINARIES,
    ROW_END,
    ROW_START,
    TEXTS,
    ForeignKey,
    Table,
    charset_name,
    charset_of,
    collation_name,
    is_hashed,
    row_hash,
    with_expressions,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ingest.sources.mysql.effects import StatementRun
    from ingest.sources.mysql.types import Column, TableName

KEY_WORDS: Final = frozenset(
    {"PRIMARY", "UNIQUE", "INDEX", "KEY", "FULLTEXT", "SPATIAL", "VECTOR", "CONSTRAINT", "FOREIGN", "CHECK", "PERIOD"}
)
"""What a part of a table begins with that is no column."""
_NONE: Final[Mapping[str, tuple[str, str]]] = MappingProxyType({})


@dataclass(slots=True)
class Index:
    """A key of a table. `unique` is true for the primary key, too, whose name is PRIMARY."""

    name: str
    columns: list[str]
    unique: bool
    expressions: int = 0
    """Parts that are expressions: each is a hidden column."""
    hashed: bool = False
    """True where MariaDB is asked to keep the key by a hash."""
    prefixes: dict[str, int] = field(default_factory=dict)
    """How many characters of a column are in the key, where the statement says it."""


@dataclass(slots=True)
class Draft:
    """A table definition that a CREATE or ALTER TABLE statement is editing."""

    table: Table
    columns: list[Column]
    indexes: list[Index] = field(default_factory=list)
    foreign: list[ForeignKey] = field(default_factory=list)
    row_end: str | None = None
    mariadb: bool = False

    @classmethod
    def of(cls, table: Table, *, mariadb: bool) -> Draft:
        """Return a draft that begins as a copy of an existing table."""
        indexes = [Index("PRIMARY", list(table.primary_key), unique=True)] if table.primary_key else []
        names = table.unique_names or ("",) * len(table.unique_keys)
        indexes += [Index(name, list(key), unique=True) for name, key in zip(names, table.unique_keys, strict=True)]
        indexes += [Index(name, [], unique=False) for name in table.other_indexes]
        expressions = [column.name.split("!")[2] for column in table.columns if column.name.startswith("!hidden!")]
        for index in indexes:
            index.expressions = expressions.count(index.name)
        hashes = sum(column.name.startswith("DB_ROW_HASH_") for column in table.columns if column.hidden)
        unique = [index for index in indexes if index.unique and index.name != "PRIMARY"]
        long = [index for index in unique if is_hashed(c for n in index.columns if (c := table.find(n)) is not None)]
        for index in [index for index in unique if index not in long][: max(hashes - len(long), 0)]:
            index.hashed = True
        columns = [column for column in table.columns if not column.hidden]
        return cls(table, columns, indexes, list(table.cascades), table.row_end, mariadb)

    def done(self) -> Table:
        """Return the finished table: the draft's columns, with its primary key, unique keys and hidden columns."""
        by_name = {column.name.lower(): column for column in self.columns}
        primary = next((index for index in self.indexes if index.name == "PRIMARY"), None)
        key = tuple(by_name[name.lower()].name for name in primary.columns) if primary else ()
        unique = [index for index in self.indexes if index.unique and index is not primary and not index.expressions]
        inside = {name.lower() for name in key}
        columns = [replace(c, nullable=False) if c.name.lower() in inside and c.nullable else c for c in self.columns]
        return replace(
            self.table,
            columns=self._with_hidden(
                tuple(columns), [[by_name[n.lower()] for n in index.columns] for index in unique]
            ),
            primary_key=key,
            unique_keys=tuple(tuple(by_name[name.lower()].name for name in index.columns) for index in unique),
            unique_names=tuple(index.name for index in unique),
            other_indexes=tuple(index.name for index in self.indexes if not index.unique or index.expressions),
            cascades=tuple(self.foreign),
            row_end=self.row_end,
        )

    def _with_hidden(self, columns: tuple[Column, ...], unique: list[list[Column]]) -> tuple[Column, ...]:
        """Return the columns followed by the hidden ones that the server adds."""
        if self.row_end == ROW_END.name and not self.has(ROW_END.name):
            columns = (*columns, ROW_START, ROW_END)
        if self.mariadb and self.table.engine.upper() != "MEMORY":
            asked = sum(index.hashed for index in self.indexes)
            columns = (*columns, *(row_hash(at + 1) for at in range(max(asked, sum(map(is_hashed, unique))))))
        return with_expressions(columns, [(i.name, i.expressions) for i in self.indexes if i.expressions])

    def find(self, name: str) -> int:
        """Return the place of a column. Raise NotUnderstood where there is none of this name."""
        wanted = name.lower()
        for at, column in enumerate(self.columns):
            if column.name.lower() == wanted:
                return at
        raise NotUnderstood(f"table {self.table.name!r} has no column {name!r}, as far as is known")

    def has(self, name: str) -> bool:
        """Return whether the draft has a column of this name."""
        wanted = name.lower()
        return any(column.name.lower() == wanted for column in self.columns)

    def index(self, name: str) -> Index | None:
        """Return the draft's index of this name; None without one."""
        wanted = name.lower()
        return next((index for index in self.indexes if index.name.lower() == wanted), None)

    def free_name(self, first: str) -> str:
        """Return the name of an index that has none: that of its first column, or with a number behind it."""
        taken = {index.name.lower() for index in self.indexes}
        if first.lower() not in taken and first.upper() != "PRIMARY":
            return first
        return next(name for at in range(2, 1 << 20) if (name := f"{first}_{at}").lower() not in taken)

    def add_index(self, index: Index, *, quiet: bool = False) -> None:
        """Add an index; one without a name gets an unused name."""
        if quiet and index.name and self.index(index.name) is not None:
            return
        for name in index.columns:
            column = self.columns[self.find(name)]
            prefix = index.prefixes.get(name.lower()) if column.type in TEXTS or column.type in BINARIES else None
            if prefix not in {None, column.length} and index.name != "PRIMARY":
                index.unique = False  # a prefix is unique among prefixes only
        index.name = index.name or self.free_name(index.columns[0] if index.columns else "functional_index")
        self.indexes.append(index)

    def drop_index(self, name: str) -> None:
        """Drop a key."""
        found = self.index(name)
        if found is not None:
            self.indexes.remove(found)


def create(cursor: WordCursor, session: StatementRun) -> None:
    """Apply CREATE TABLE; the cursor stands behind CREATE."""
    replaces = cursor.take("OR", "REPLACE")
    if cursor.take("TEMPORARY"):
        return  # it is seen by its session only, and hides a table of its name there
    cursor.expect("TABLE")
    quiet = cursor.take("IF", "NOT", "EXISTS")
    name = session.id(table_name(cursor))
    known = session.table(name) is not None
    if quiet and known:
        return
    if known and not replaces:
        raise NotUnderstood(f"table {name[1]!r} is there already, as far as is known")
    table: Table | None
    if cursor.take("LIKE"):
        table = _like(cursor, session, name)
    elif cursor.peek() == "(" and cursor.peek(1) == "LIKE":
        inside = cursor.brackets()
        inside.expect("LIKE")
        table = _like(inside, session, name)
    else:
        table = _table(cursor, session, name)
    if known:
        session.effect.dropped.append(name)
    session.effect.made.append(name)
    if table is None:
        session.ask(name)
    else:
        session.put(name, table)


def _like(cursor: WordCursor, session: StatementRun, name: TableName) -> Table | None:
    source = session.table(session.id(table_name(cursor)))
    cursor.done()
    return None if source is None else replace(source, database=name[0], name=name[1], cascades=())


def _table(cursor: WordCursor, session: StatementRun, name: TableName) -> Table | None:
    """Return the table that a CREATE TABLE defines; None where its columns come from a SELECT."""
    inside = None
    if cursor.peek() == "(" and cursor.peek(1) not in {"SELECT", "WITH", "(", "VALUES", "TABLE"}:
        inside = cursor.brackets()
    options = TableOptions.of(cursor, session.charset(name[0]))
    if options.select or inside is None:
        return None
    table = Table(
        name[0],
        name[1],
        (),
        charset=options.charset,
        collation=options.collation,
        engine=options.engine or "InnoDB",
        comment=options.comment or "",
    )
    draft = Draft(table, [], mariadb=session.server.mariadb)
    context = Context(session.server, session.sql_mode, options.charset, options.collation)
    keys: list[WordCursor] = []
    for part in inside.parts():
        if is_key(part):
            keys.append(part)
        else:
            column = part.name()
            new = definition(part, column, context)
            if draft.has(column):
                raise NotUnderstood(f"column {column!r} is there twice")
            draft.columns.append(new.column)
            keys_of_definition(draft, new, session)
    add_keys(keys, draft, session)
    if options.versioned and draft.row_end is None:
        draft.row_end = ROW_END.name
    elif not options.versioned:
        draft.row_end = None
    return draft.done()


def is_key(part: WordCursor) -> bool:
    """Return whether a part of a table's definition is a key or a check. A quoted name is always a column."""
    word = part.peek()
    if word == "PERIOD":
        return part.peek(1) == "FOR"
    if word == "VECTOR":
        return part.peek(1) in {"INDEX", "KEY"}
    return word in KEY_WORDS


def keys_of_definition(draft: Draft, new: Definition, session: StatementRun) -> None:
    """Add the keys that a column's definition asks for."""
    name = new.column.name
    if new.primary:
        draft.add_index(Index("PRIMARY", [name], unique=True))
    if new.unique:
        draft.add_index(Index("", [name], unique=True))
    if new.period == "end":
        draft.row_end = name
    if new.references is not None and session.server.has_inline_keys:
        add_foreign(draft, session, "", (name,), new.references)


def add_foreign(draft: Draft, session: StatementRun, name: str, columns: tuple[str, ...], found: Reference) -> None:
    """Add a foreign key through which changes of the parent table change this table's rows."""
    (database, parent), on_delete, on_update, referenced = found
    if not on_delete and not on_update:
        return
    begin = f"{draft.table.name}_ibfk_"
    taken = [int(n) for key in draft.foreign if (n := key.name.removeprefix(begin)) != key.name and n.isdigit()]
    called = name or f"{begin}{max(taken, default=0) + 1}"
    place = session.server.named(database if database is not None else draft.table.database)
    other = (place, session.server.named(parent))
    draft.foreign.append(ForeignKey(called, other, on_delete, on_update, columns, referenced))


def add_keys(parts: list[WordCursor], draft: Draft, session: StatementRun) -> None:
    """Apply keys, checks and foreign keys. A period of time is applied first, as keys may name it."""
    periods: dict[str, tuple[str, str]] = {}
    for part in parts:
        if part.take("PERIOD", "FOR"):
            period = part.name()
            start, end = (each.name() for each in part.brackets().parts())
            if period.upper() != "SYSTEM_TIME":
                periods[period.lower()] = (end, start)
                for at in (draft.find(start), draft.find(end)):
                    draft.columns[at] = replace(draft.columns[at], nullable=False)
    for part in parts:
        if part:
            _add_key(part, draft, session, periods)


def _add_key(part: WordCursor, draft: Draft, session: StatementRun, periods: dict[str, tuple[str, str]]) -> None:
    """Apply the definition of a key, a check or a foreign key. Raise NotUnderstood."""
    constraint = ""
    if part.take("CONSTRAINT") and part.peek() not in KEY_WORDS:
        constraint = part.name()
    if part.take("CHECK"):
        return
    if part.take("FOREIGN", "KEY"):
        part.take("IF", "NOT", "EXISTS")
        name = constraint if part.peek() == "(" else part.name()
        columns = tuple(each.name() for each in part.brackets().parts())
        part.expect("REFERENCES")
        add_foreign(draft, session, constraint or name, columns, references(part, session.server))
        return
    primary = part.take("PRIMARY", "KEY")
    unique = primary or part.take("UNIQUE")
    if not unique:
        part.take_any("FULLTEXT", "SPATIAL", "VECTOR")
    if not primary:
        part.take_any("INDEX", "KEY")
    quiet = part.take("IF", "NOT", "EXISTS")
    name = constraint if unique else ""
    if part.peek() not in {"(", "USING", "TYPE"} or (part.peek() == "TYPE" and part.peek(1) == "("):
        name = part.name()
    draft.add_index(index_of(part, "PRIMARY" if primary else name, unique=unique, periods=periods), quiet=quiet)


def index_of(part: WordCursor, name: str, *, unique: bool, periods: Mapping[str, tuple[str, str]] = _NONE) -> Index:
    """Return the key whose columns, or expressions, come next in brackets."""
    hashed = part.take("USING", "HASH")
    if part.take_any("USING", "TYPE"):
        part.next()
    columns: list[str] = []
    prefixes: dict[str, int] = {}
    expressions = 0
    for column in part.brackets().parts():
        if column.peek() == "(":
            expressions += 1
            continue
        called = column.name()
        if column.take("WITHOUT", "OVERLAPS"):  # the name of a period, which is no column
            unique = unique and called.lower() in periods
            columns += periods.get(called.lower(), ())
            continue
        columns.append(called)
        if column.peek() == "(":
            prefixes[called.lower()] = column.brackets().number()
    hashed = hashed or part.take("USING", "HASH")
    return Index(name, columns, unique, expressions, hashed and unique and name != "PRIMARY", prefixes)


@dataclass(slots=True)
class TableOptions:
    """The options that follow the columns in a CREATE TABLE."""

    charset: str | None
    collation: str | None = None
    engine: str | None = None
    comment: str | None = None
    versioned: bool = False
    select: bool = False

    @classmethod
    def of(cls, cursor: WordCursor, charset: str) -> TableOptions:
        """Parse the options that follow the columns. `charset`: the default character set."""
        options = cls(charset)
        named = False
        while cursor:
            if cursor.take("WITH", "SYSTEM", "VERSIONING"):
                options.versioned = True
            elif cursor.peek() in {"SELECT", "AS", "WITH", "VALUES"} or _selects(cursor):
                options.select = True
                cursor.rest()
            elif cursor.peek() == "(":
                cursor.brackets()
            elif cursor.take("CHARACTER", "SET") or cursor.take("CHARSET") or cursor.take("CHAR", "SET"):
                cursor.take("=")
                options.charset, named = charset_name(cursor.word()), True
                if options.charset == "default":
                    options.charset = charset
            elif cursor.take("COLLATE"):
                cursor.take("=")
                options.collation = collation_name(cursor.word())
                if not named:
                    options.charset = charset_of(options.collation, charset)
            elif cursor.take("ENGINE") or cursor.take("TYPE"):
                cursor.take("=")
                options.engine = cursor.word()
            elif cursor.take("COMMENT"):
                cursor.take("=")
                options.comment = cursor.text()
            else:
                cursor.next()
        return options


def _selects(cursor: WordCursor) -> bool:
    """Return whether a SELECT in brackets comes."""
    ahead = 0
    while cursor.peek(ahead) == "(":
        ahead += 1
    return ahead > 0 and cursor.peek(ahead) in {"SELECT", "WITH", "VALUES"}

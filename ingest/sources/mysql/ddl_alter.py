"""ALTER TABLE, CREATE INDEX and DROP INDEX: a table's columns and keys after it, and what became of its rows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from ingest.sources.mysql.ddl_create import Draft, add_keys, index_of, is_key, keys_of_definition
from ingest.sources.mysql.definitions import Context, Definition, default, definition, table_name, with_charset
from ingest.sources.mysql.effects import StatementRun, rename
from ingest.sources.mysql.tokens import STRICT, NotUnderstood, WordCursor
from ingest.sources.mysql.types import (
    BINARIES,
    ROW_END,
    TEXTS,
    changes_values,
    char_width,
    charset_name,
    charset_of,
    collation_name,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ingest.sources.mysql.types import Column, TableName

_NO_EFFECT: Final = frozenset({
    "FORCE", "ALGORITHM", "LOCK", "DISABLE", "ENABLE", "ORDER", "WITH", "WITHOUT", "SECONDARY_LOAD", "SECONDARY_UNLOAD",
})  # fmt: skip
_PARTITION_VERBS: Final = frozenset(
    {"REORGANIZE", "COALESCE", "REBUILD", "OPTIMIZE", "ANALYZE", "CHECK", "REPAIR", "REMOVE", "PARTITION", "UPGRADE"}
)
"""What may be done to partitions without a change of rows."""

_TABLE_OPTIONS: Final = frozenset({
    "ENGINE", "TYPE", "AUTO_INCREMENT", "AVG_ROW_LENGTH", "CHECKSUM", "TABLE_CHECKSUM", "COMMENT", "COMPRESSION",
    "CONNECTION", "DATA", "INDEX", "DELAY_KEY_WRITE", "ENCRYPTION", "INSERT_METHOD", "KEY_BLOCK_SIZE", "MAX_ROWS",
    "MIN_ROWS", "PACK_KEYS", "PASSWORD", "ROW_FORMAT", "START", "STATS_AUTO_RECALC", "STATS_PERSISTENT",
    "STATS_SAMPLE_PAGES", "TABLESPACE", "STORAGE", "TRANSACTIONAL", "UNION", "PAGE_CHECKSUM", "AUTOEXTEND_SIZE",
    "ENGINE_ATTRIBUTE", "SECONDARY_ENGINE", "SECONDARY_ENGINE_ATTRIBUTE", "NODEGROUP", "SEQUENCE", "DEFAULT",
    "CHARACTER", "CHARSET", "CHAR", "COLLATE",
})  # fmt: skip
"""Options that may stand without a sign. With one, any word is an option of one of MariaDB's engines."""


@dataclass(slots=True)
class _Added:
    """A column that a statement adds or defines again."""

    found: Definition
    old: str | None = None
    """The column's name before; None for a column that is new."""
    only_name: bool = False
    """True if all but the name stays, as the rest of the statement has it."""


@dataclass(slots=True)
class _Alteration:
    """All that one ALTER TABLE asks for; applied as a whole."""

    defined: list[_Added] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    dropped_keys: list[str] = field(default_factory=list)
    keys: list[WordCursor] = field(default_factory=list)
    renamed_keys: list[tuple[str, str]] = field(default_factory=list)
    changed: dict[str, Column] = field(default_factory=dict)
    renames: TableName | None = None
    convert: tuple[str | None, str | None] | None = None
    charset: str | None = None
    collation: str | None = None
    versioning: bool | None = None


def alter(cursor: WordCursor, session: StatementRun) -> None:
    """Apply ALTER TABLE; the cursor stands behind ALTER."""
    while cursor.take_any("ONLINE", "OFFLINE", "IGNORE"):
        pass
    cursor.expect("TABLE")
    cursor.take("IF", "EXISTS")
    name = session.id(table_name(cursor))
    if cursor.take("WAIT"):
        cursor.next()
    else:
        cursor.take("NOWAIT")
    table = session.table(name)
    if table is None:
        _unknown(cursor, session, name)
        return
    draft = Draft.of(table, mariadb=session.server.mariadb)
    alteration = _Alteration()
    cursor = cursor.until("PARTITION", "BY")
    at = cursor.at
    _options(cursor, draft, alteration, session, name)
    cursor.at = at
    collation = alteration.collation if alteration.charset else draft.table.collation
    context = Context(session.server, session.sql_mode, alteration.charset or table.charset, collation)
    ordered = False
    for part in cursor.parts():
        if ordered and part.is_order():
            continue
        ordered = ordered or part.peek() == "ORDER"
        of_partitions = part.peek(1) in {"PARTITION", "PARTITIONING"}
        _action(part, draft, alteration, context, session, name)
        if of_partitions and part.peek() != "ADD":  # names of further partitions follow, and no other action
            break
    _apply(draft, alteration, session, name, context)
    altered = draft.done()
    if altered != table:
        session.put(name, altered)
    if alteration.renames is not None and alteration.renames != name:
        rename(session, [(name, alteration.renames)])


def _unknown(cursor: WordCursor, session: StatementRun, name: TableName) -> None:
    """Apply to a table whose columns are not known what may be seen from outside: another name."""
    for part in cursor.parts():
        if part.take("RENAME") and part.peek() not in {"COLUMN", "INDEX", "KEY"}:
            part.take_any("TO", "AS", "=")
            rename(session, [(name, session.id(table_name(part)))])
            return
    session.ask(name)


def _options(cursor: WordCursor, draft: Draft, alteration: _Alteration, session: StatementRun, name: TableName) -> None:
    """Read the default character set, which holds for all columns of the statement, wherever it stands."""
    for part in cursor.parts():
        convert = part.take("CONVERT", "TO")
        if (
            not convert
            and part.peek() not in {"DEFAULT", "CHARACTER", "CHARSET", "CHAR", "COLLATE"}
            and not _is_option(part)
        ):
            continue
        named: str | None = None
        collation: str | None = None
        while part:
            if part.take("CHARACTER", "SET") or part.take("CHARSET") or part.take("CHAR", "SET"):
                part.take("=")
                named = charset_name(part.word())
                if named == "default":
                    named = session.charset(name[0])
            elif part.take("COLLATE"):
                part.take("=")
                collation = collation_name(part.word())
            else:
                part.next()
        if named is None and collation is not None:
            named = charset_of(collation, draft.table.charset)
        if named is not None:
            alteration.charset, alteration.collation = named, collation
            if convert:
                alteration.convert = (named, collation)


def _is_option(part: WordCursor) -> bool:
    """Return whether a part is an option of the table: a word, and a value with or without a sign."""
    return part.peek(1) == "=" or part.peek() in {"ENGINE", "COMMENT", "TYPE", "ROW_FORMAT"}


def _action(
    part: WordCursor, draft: Draft, alteration: _Alteration, context: Context, session: StatementRun, name: TableName
) -> None:
    """Read one of the actions that commas separate."""
    if not part:
        return
    if part.take("ADD"):
        _add(part, draft, alteration, context, session, name)
    elif part.take("DROP"):
        _drop(part, draft, alteration, session, name)
    elif part.take("MODIFY"):
        part.take("COLUMN")
        quiet = part.take("IF", "EXISTS")
        old = part.name()
        if not quiet or draft.has(old):
            alteration.defined.append(_Added(definition(part, old, context), old))
    elif part.take("CHANGE"):
        part.take("COLUMN")
        quiet = part.take("IF", "EXISTS")
        old = part.name()
        if not quiet or draft.has(old):
            alteration.defined.append(_Added(definition(part, part.name(), context), old))
    elif part.take("RENAME", "COLUMN"):
        quiet = part.take("IF", "EXISTS")
        old = part.name()
        part.expect("TO")
        new = part.name()
        if not quiet or draft.has(old):
            column = draft.columns[draft.find(old)]
            alteration.defined.append(_Added(Definition(replace(column, name=new)), old, only_name=True))
    elif part.take("RENAME"):
        if part.take_any("INDEX", "KEY"):
            part.take("IF", "EXISTS")
            old = part.name()
            part.expect("TO")
            alteration.renamed_keys.append((old, part.name()))
        else:
            part.take_any("TO", "AS", "=")
            alteration.renames = session.id(table_name(part))
    elif part.take("ALTER"):
        _alter_part(part, draft, alteration)
    elif part.take("CONVERT", "TO"):
        pass  # read before
    elif part.take("CONVERT", "PARTITION") or part.take("CONVERT", "TABLE"):
        _convert_partition(part, draft, session, name)
    elif part.take("TRUNCATE", "PARTITION"):
        session.mark(name, "TRUNCATE PARTITION", gone=True)
    elif part.take("EXCHANGE", "PARTITION"):
        part.name()
        part.expect("WITH", "TABLE")
        other = session.id(table_name(part))
        session.mark(name, "EXCHANGE PARTITION")
        session.mark(other, "EXCHANGE PARTITION")
    elif part.take_any("DISCARD", "IMPORT"):
        if "TABLESPACE" in {part.peek(ahead) for ahead in range(12)}:
            session.mark(name, "DISCARD or IMPORT TABLESPACE")
    elif part.peek() in _NO_EFFECT or part.peek() in _PARTITION_VERBS:
        part.rest()
    else:
        _table_option(part, draft)


def _alter_part(part: WordCursor, draft: Draft, alteration: _Alteration) -> None:
    """Read ALTER COLUMN, ALTER INDEX and ALTER CHECK."""
    if part.take_any("INDEX", "KEY", "CHECK", "CONSTRAINT"):
        return
    part.take("COLUMN")
    quiet = part.take("IF", "EXISTS")
    name = part.name()
    if quiet and not draft.has(name):
        return
    column = alteration.changed.get(name.lower()) or draft.columns[draft.find(name)]
    if part.take("SET", "DEFAULT"):
        column = replace(column, default=default(part))
    elif part.take("DROP", "DEFAULT"):
        column = replace(column, default=None)
    elif part.take("SET", "INVISIBLE"):
        column = replace(column, invisible=True)
    elif part.take("SET", "VISIBLE"):
        column = replace(column, invisible=False)
    part.done()
    alteration.changed[name.lower()] = column


def _add(
    part: WordCursor, draft: Draft, alteration: _Alteration, context: Context, session: StatementRun, name: TableName
) -> None:
    if part.take("PARTITION"):
        return
    if part.take("SYSTEM", "VERSIONING"):
        alteration.versioning = True
        return
    if is_key(part):
        alteration.keys.append(part)
        return
    part.take("COLUMN")
    quiet = part.take("IF", "NOT", "EXISTS")
    definitions = part.brackets().parts() if part.peek() == "(" else iter((part,))
    for each in definitions:
        if is_key(each):
            alteration.keys.append(each)
            continue
        column = each.name()
        new = definition(each, column, context)
        if quiet and draft.has(column):
            continue
        alteration.defined.append(_Added(new))
        why = _fills(new) or ("ADD COLUMN of a name that another one had" if draft.has(column) else None)
        if why is not None:
            session.mark(name, why, column)


def _fills(new: Definition) -> str | None:
    """Return what a new column has in rows that are there already; None where it is NULL in them."""
    column = new.column
    if column.generated:
        return "ADD COLUMN of a generated column"
    if new.auto_increment:
        return "ADD COLUMN with AUTO_INCREMENT"
    if column.default is not None:
        return "ADD COLUMN with a default"
    return None if column.nullable else "ADD COLUMN with NOT NULL"


def _drop(part: WordCursor, draft: Draft, alteration: _Alteration, session: StatementRun, name: TableName) -> None:
    if part.take("PARTITION"):
        session.mark(name, "DROP PARTITION", gone=True)
    elif part.take("SYSTEM", "VERSIONING"):
        alteration.versioning = False
    elif part.take("PRIMARY", "KEY"):
        alteration.dropped_keys.append("PRIMARY")
    elif part.take("FOREIGN", "KEY"):
        part.take("IF", "EXISTS")
        dropped = part.name().lower()
        draft.foreign = [key for key in draft.foreign if key.name.lower() != dropped]
    elif part.take_any("INDEX", "KEY"):
        part.take("IF", "EXISTS")
        alteration.dropped_keys.append(part.name())
    elif part.take("CONSTRAINT"):
        part.take("IF", "EXISTS")
        dropped = part.name()
        alteration.dropped_keys.append(dropped)
        draft.foreign = [key for key in draft.foreign if key.name.lower() != dropped.lower()]
    elif part.take("CHECK") or part.take("PERIOD", "FOR"):
        part.rest()
    else:
        part.take("COLUMN")
        quiet = part.take("IF", "EXISTS")
        column = part.name()
        part.take_any("RESTRICT", "CASCADE")
        part.done()
        if not quiet or draft.has(column):
            draft.find(column)
            alteration.dropped.append(column.lower())


def _convert_partition(part: WordCursor, draft: Draft, session: StatementRun, name: TableName) -> None:
    """Read MariaDB's CONVERT PARTITION p TO TABLE t, and CONVERT TABLE t TO PARTITION p."""
    first = table_name(part)
    part.expect("TO")
    if part.take("TABLE"):
        other = session.id(table_name(part))
        session.effect.made.append(other)
        session.put(other, replace(draft.table, database=other[0], name=other[1]))
        session.mark(other, "CONVERT PARTITION TO TABLE")
    else:
        other = session.id(first)
        session.put(other, None)
        session.effect.dropped.append(other)
    session.mark(name, "CONVERT of a partition")


def _table_option(part: WordCursor, draft: Draft) -> None:
    """Read options of the table; their values are of no account, but for some. Raise NotUnderstood."""
    if part.kind() != "word" or (part.peek(1) != "=" and part.peek() not in _TABLE_OPTIONS):
        raise NotUnderstood(f"what stands {part.place()} is no action of ALTER TABLE that is known")
    while part:
        if part.take("ENGINE"):
            part.take("=")
            draft.table = replace(draft.table, engine=part.word())
        elif part.take("COMMENT"):
            part.take("=")
            draft.table = replace(draft.table, comment=part.text())
        elif part.take("PARTITION", "BY"):
            part.rest()
        else:
            part.next()


def _apply(draft: Draft, alteration: _Alteration, session: StatementRun, name: TableName, context: Context) -> None:
    """Make the table of all actions, in the server's order."""
    strict = bool(session.sql_mode & STRICT)
    for dropped in alteration.dropped_keys:
        draft.drop_index(dropped)
    if alteration.convert is not None:
        _convert(draft, session, name, context)
    if alteration.convert is not None:  # also what the statement itself defines, whatever character set it names
        for each in alteration.defined:
            if each.found.column.charset is not None:
                each.found.column = with_charset(each.found.column, context.charset, context.collation, context)
    if alteration.charset is not None:
        draft.table = replace(draft.table, charset=alteration.charset, collation=alteration.collation)
    _columns(draft, alteration, session, name, strict=strict)
    for old, new in alteration.renamed_keys:
        index = draft.index(old)
        if index is not None:
            index.name = new
    for each in alteration.defined:
        keys_of_definition(draft, each.found, session)
    add_keys(alteration.keys, draft, session)
    if alteration.versioning and draft.row_end is None:
        draft.row_end = ROW_END.name
    elif alteration.versioning is False:
        draft.row_end = None


def _columns(draft: Draft, alteration: _Alteration, session: StatementRun, name: TableName, *, strict: bool) -> None:
    """Order the columns: those that stay or change as they were, then those that are new or have a place.

    Until its turn a column that moves stays where it was: MariaDB takes `MODIFY d … AFTER c, MODIFY c … FIRST`, which
    MySQL refuses; what both take they order alike.
    """
    by_old: dict[str, _Added] = {}
    for each in alteration.defined:
        if each.old is not None:
            draft.find(each.old)
            by_old[each.old.lower()] = each
    columns: list[Column] = []
    for column in draft.columns:
        key = column.name.lower()
        change = by_old.get(key)
        if key in alteration.dropped:
            continue
        if change is None:
            columns.append(alteration.changed.get(key, column))
            continue
        new = change.found
        if change.only_name:
            new.column = replace(alteration.changed.get(key, column), name=new.column.name)
        _mark_change(column, new.column, session, name, strict=strict)
        columns.append(new.column)
    for each in alteration.defined:
        new = each.found
        if each.old is not None and (new.first or new.after is not None):
            columns = [column for column in columns if column is not new.column]
        if new.first:
            columns.insert(0, new.column)
        elif new.after is not None:
            columns.insert(_place(columns, new.after) + 1, new.column)
        elif each.old is None:
            columns.append(new.column)
    names = [column.name.lower() for column in columns]
    if len(set(names)) < len(names):
        raise NotUnderstood("two columns would have one name, as far as is known")
    draft.columns = columns
    _keep_keys(draft, alteration.dropped, by_old)


def _place(columns: list[Column], after: str) -> int:
    wanted = after.lower()
    for at, column in enumerate(columns):
        if column.name.lower() == wanted:
            return at
    raise NotUnderstood(f"AFTER {after!r}, which is no column, as far as is known")


def _keep_keys(draft: Draft, dropped: Collection[str], by_old: Mapping[str, _Added]) -> None:
    """Rename the columns of keys as the statement does, and remove those that it drops.

    The servers look a key's column up by the name that each column had, or has where it is new, also where the
    statement drops it and adds another one of this name: `DROP a, ADD a …` leaves `a` in its keys. Of a text they keep
    as many bytes as the old column had, which may be not all: a unique key is none of the table's then, so that the
    server has to be asked. Raise NotUnderstood.
    """
    names: dict[str, str] = {}
    texts: set[str] = set()
    for column in draft.columns:
        old = next((old for old, each in by_old.items() if each.found.column is column), None)
        name = column.name.lower() if old is None else old
        names.setdefault(name, column.name)
        if old is None and name in dropped and column.type in TEXTS | BINARIES:
            texts.add(name)
    kept = []
    for index in draft.indexes:
        had = bool(index.columns)
        if index.unique and index.name != "PRIMARY" and any(c.lower() in texts for c in index.columns):
            msg = f"the key {index.name!r} has a column that is dropped, and a text of the same name that is added"
            raise NotUnderstood(msg)
        index.columns = [names[c.lower()] for c in index.columns if c.lower() in names]
        if index.columns or not had:
            kept.append(index)
    draft.indexes = kept
    draft.foreign = [replace(key, columns=tuple(names.get(c.lower(), c) for c in key.columns)) for key in draft.foreign]
    if draft.row_end is not None:
        draft.row_end = names.get(draft.row_end.lower(), draft.row_end)


def _mark_change(before: Column, after: Column, session: StatementRun, name: TableName, *, strict: bool) -> None:
    if before.name != after.name:
        session.mark(name, f"RENAME COLUMN {before.name} TO {after.name}", after.name)
    why = changes_values(before, after, strict=strict)
    if why is not None:
        session.mark(name, why, after.name)


def _convert(draft: Draft, session: StatementRun, name: TableName, context: Context) -> None:
    """Give all texts another character set. A text grows where its characters may need more bytes."""
    for at, column in enumerate(draft.columns):
        if (column.type not in TEXTS and column.type not in {"enum", "set"}) or column.charset is None:
            continue
        length = _TEXT_BYTES[column.type] if column.type.endswith("text") and context.charset != "binary" else None
        made = with_charset(column, context.charset, context.collation, context)
        if length is not None and char_width(context.charset) > char_width(column.charset):
            made = _grown(made, length // char_width(column.charset) * char_width(context.charset))
        draft.columns[at] = made
        why = changes_values(column, made, strict=bool(session.sql_mode & STRICT))
        if why is not None:
            session.mark(name, f"CONVERT TO CHARACTER SET {context.charset or ''}", column.name)


_TEXT_BYTES: Final = {"tinytext": 255, "text": 65535, "mediumtext": (1 << 24) - 1, "longtext": (1 << 32) - 1}


def _grown(column: Column, size: int) -> Column:
    """Return a text with the smallest type that has room for so many bytes."""
    return replace(column, type=next((kind for kind, most in _TEXT_BYTES.items() if most >= size), "longtext"))


def index(verb: str, cursor: WordCursor, session: StatementRun) -> None:
    """Apply CREATE INDEX and DROP INDEX; the cursor stands behind the verb."""
    replaces = cursor.take("OR", "REPLACE")
    cursor.take_any("ONLINE", "OFFLINE")
    unique = cursor.take("UNIQUE")
    cursor.take_any("FULLTEXT", "SPATIAL", "VECTOR")
    cursor.take_any("INDEX", "KEY")
    quiet = cursor.take("IF", "NOT", "EXISTS") or cursor.take("IF", "EXISTS")
    key = cursor.name()
    if cursor.take_any("USING", "TYPE"):
        cursor.next()
    cursor.expect("ON")
    name = session.id(table_name(cursor))
    table = session.table(name)
    if table is None:
        return
    draft = Draft.of(table, mariadb=session.server.mariadb)
    if verb == "DROP" or replaces:
        draft.drop_index(key)
    if verb == "CREATE":
        if cursor.take("WAIT"):
            cursor.next()
        draft.add_index(index_of(cursor, key, unique=unique), quiet=quiet)
    made = draft.done()
    if made != table:
        session.put(name, made)

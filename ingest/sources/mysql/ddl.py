"""The effect of a DDL statement on tables: their new columns, and the stored rows that change without row events.

In: the tables before a statement, the statement as the log has it. Out: an `Effect`. A statement is applied as a whole,
as the server does. Nothing is raised: what is not understood is a value, with the tables that it may touch.

What a table was after such a statement, a person can say: `ingest schema set` stores the answer as a document of the
source's state. Each answers one statement, in the order in which they were given. Rules: docs/spec/mysql.md#statements.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from ingest.errors import ConfigError
from ingest.model.table import show, table_in
from ingest.sources.mysql.binary_values import decode_text
from ingest.sources.mysql.ddl_alter import alter, index
from ingest.sources.mysql.ddl_create import create
from ingest.sources.mysql.definitions import table_name
from ingest.sources.mysql.effects import Effect, StatementRun, rename
from ingest.sources.mysql.tokens import NotUnderstood, ServerRules, WordCursor, words
from ingest.sources.mysql.types import Table, TableName, charset_name, charset_of

_WORD: Final = re.compile(r"[\w$]+")
_NOTHING: Final = frozenset({
    "ANALYZE", "BACKUP", "BEGIN", "BINLOG", "CACHE", "CHANGE", "CHECK", "CHECKSUM", "CLONE", "COMMIT", "DEALLOCATE",
    "DESC", "DESCRIBE", "DO", "END", "EXECUTE", "EXPLAIN", "FLUSH", "GET", "GRANT", "HANDLER", "HELP", "IMPORT",
    "INSTALL", "KILL", "LOCK", "OPTIMIZE", "PREPARE", "PURGE", "RELEASE", "REPAIR", "RESET", "RESIGNAL", "RESTART",
    "REVOKE", "ROLLBACK", "SAVEPOINT", "SELECT", "SET", "SHOW", "SHUTDOWN", "SIGNAL", "START", "STOP", "UNINSTALL",
    "UNLOCK", "USE", "VALUES", "XA",
})  # fmt: skip
"""Verbs of statements that change neither columns nor stored rows of tables."""
_DML: Final = frozenset({"INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "CALL", "WITH"})
_STORED: Final = frozenset({
    "USER", "ROLE", "VIEW", "TRIGGER", "PROCEDURE", "FUNCTION", "EVENT", "SERVER", "TABLESPACE", "LOGFILE", "RESOURCE",
    "SPATIAL", "PACKAGE", "INSTANCE", "SEQUENCE", "UNDO", "LIBRARY", "CATALOG", "PREPARE",
})  # fmt: skip
"""What CREATE, ALTER and DROP may name beside tables, databases and indexes. Bodies are only stored, and not read."""
_BEFORE_NOUN: Final = frozenset({
    "OR", "REPLACE", "DEFINER", "=", "@", "CURRENT_USER", "(", ")", "ALGORITHM", "UNDEFINED", "MERGE", "TEMPTABLE",
    "SQL", "SECURITY", "INVOKER", "AGGREGATE", "IF", "NOT", "EXISTS", "CURRENT_ROLE", "BODY", "UNDO", "ONLINE",
    "OFFLINE", "IGNORE", "TEMPORARY", "UNIQUE", "FULLTEXT", "%", "-", ".",
})  # fmt: skip


def apply(
    tables: Mapping[TableName, Table],
    statement: str,
    *,
    default_database: str = "",
    sql_mode: int = 0,
    server: ServerRules,
    databases: Mapping[str, str] | None = None,
) -> Effect:
    """Return the effect of a statement of the log.

    `tables`: all tables whose columns are known, also of those that are not read. `databases`: the default character
    set of each database; the server's where one is missing.
    """
    tokens = words(statement, sql_mode=sql_mode, server=server)
    session = StatementRun(tables, databases or {}, default_database, sql_mode, server)
    doubt = "a quote or a comment is not closed"
    if tokens.complete:
        try:
            _statement(WordCursor(tokens.tokens), session)
        except NotUnderstood as exc:
            doubt = str(exc)
        else:
            return session.effect
    return Effect(doubt=doubt, touches=_named(tables, statement))


def statement_text(statement: bytes, collation: int | None) -> str:
    """Return the text of a statement of the log. `collation`: the number of the client's, as its event has it."""
    from pymysql.charset import charset_by_id  # noqa: PLC0415  (`ingest schema set` needs no client)

    try:
        charset = "utf8mb4" if collation is None else str(vars(charset_by_id(collation))["name"])
    except KeyError:  # those that PyMySQL does not know are of MySQL 8 and MariaDB 11, and of Unicode
        charset = "utf8mb4"
    return decode_text(charset, statement)[0]


def may_change(table: TableName, statement: str, *, sql_mode: int, server: ServerRules) -> bool:
    """Return whether a statement may have changed a table's columns, where the columns before it are unknown."""
    found = words(statement, sql_mode=sql_mode, server=server)
    named = bool(_named([table], statement))
    if not found.complete:
        return named
    cursor = WordCursor(found.tokens)
    _pass_settings(cursor)
    verb = cursor.peek()
    if verb in _NOTHING or verb in _DML or verb in {"TRUNCATE", "("} or not cursor:
        return False
    if verb not in {"CREATE", "ALTER", "DROP"}:
        return named
    cursor.next()
    noun = _noun(cursor)
    if noun in {"DATABASE", "SCHEMA"}:
        return verb != "ALTER" and bool(_named([("", table[0])], statement))
    return named and noun not in _STORED and noun not in {"INDEX", "KEY"}


def _named(tables: Iterable[TableName], statement: str) -> frozenset[TableName]:
    """Return the tables whose names occur anywhere in a statement, texts and comments included, ignoring case."""
    folded = statement.lower()
    loose = folded.replace("``", "`").replace('""', '"')
    words_ = frozenset(_WORD.findall(folded))

    def is_named(name: str) -> bool:
        return name in words_ if _WORD.fullmatch(name) else name in folded or name in loose

    return frozenset(table for table in tables if is_named(table[1].lower()))


def _pass_settings(cursor: WordCursor) -> None:
    """Go behind MariaDB's `SET STATEMENT name = value, … FOR`, which stands before the statement that counts."""
    if cursor.peek() == "SET" and cursor.peek(1) == "STATEMENT":
        while cursor and cursor.peek() != "FOR":
            cursor.next()
        cursor.take("FOR")


def _statement(cursor: WordCursor, session: StatementRun) -> None:
    _pass_settings(cursor)
    if not cursor:
        return
    if cursor.peek() == "(" or cursor.kind() != "word":
        session.effect.is_dml = cursor.peek() == "("
        if not session.effect.is_dml:
            raise NotUnderstood(f"no statement begins with {cursor.word()[:40]!r}")
        return
    verb = cursor.next().upper
    if verb in _NOTHING:
        return
    if verb in _DML:
        session.effect.is_dml = True
    elif verb == "TRUNCATE":
        cursor.take("TABLE")
        _truncate(cursor, session)
    elif verb == "RENAME":
        _rename(cursor, session)
    elif verb in {"CREATE", "ALTER", "DROP"}:
        _definition(verb, cursor, session)
    else:
        raise NotUnderstood(f"the verb {verb[:40]!r} is not known")


def _definition(verb: str, cursor: WordCursor, session: StatementRun) -> None:
    """Apply CREATE, ALTER or DROP by the noun that follows."""
    noun = _noun(cursor)
    if noun in {"DATABASE", "SCHEMA"}:
        _database(verb, cursor, session)
    elif noun in {"TABLES", "TABLE"}:
        if verb == "DROP":
            _drop(cursor, session)
        elif verb == "CREATE":
            create(cursor, session)
        else:
            alter(cursor, session)
    elif noun in {"INDEX", "KEY"} and verb != "ALTER":
        index(verb, cursor, session)
    elif noun not in _STORED:
        raise NotUnderstood(f"{verb} of something that is not known, {cursor.place()}")


def _noun(cursor: WordCursor) -> str:
    """Return what a CREATE, ALTER or DROP is about, without going on for tables and indexes: their words are theirs."""
    for at in range(40):
        word = cursor.peek(at)
        if word in {"TABLE", "TABLES", "INDEX", "KEY", "DATABASE", "SCHEMA"} or word in _STORED:
            if word == "SPATIAL" and cursor.peek(at + 1) == "INDEX":
                return "INDEX"
            return word
        if word not in _BEFORE_NOUN and cursor.kind(at) not in {"name", "text"} and not _is_definer(cursor, at):
            break
    return ""


def _is_definer(cursor: WordCursor, at: int) -> bool:
    """Return whether a word is a part of `DEFINER = user@host`, which may be without quotes."""
    return any(cursor.peek(back) == "DEFINER" for back in range(max(0, at - 8), at)) and cursor.kind(at) == "word"


def _database(verb: str, cursor: WordCursor, session: StatementRun) -> None:
    """Apply CREATE, ALTER or DROP DATABASE."""
    replaces = "REPLACE" in (cursor.peek(0), cursor.peek(1))
    while not cursor.take_any("DATABASE", "SCHEMA"):
        cursor.next()
    quiet = cursor.take("IF", "NOT", "EXISTS") or cursor.take("IF", "EXISTS")
    starts = {"CHARACTER", "CHARSET", "DEFAULT", "COLLATE", "COMMENT", "READ", "UPGRADE", "ENCRYPTION"}
    unnamed = verb == "ALTER" and (not cursor or (cursor.peek() in starts and cursor.kind(1) != ""))
    name = session.server.named(session.default_database if unnamed else cursor.name())
    if verb == "DROP" or replaces:
        for table in [table for table in session.tables if table[0] == name]:
            session.put(table, None)
            session.effect.dropped.append(table)
        session.effect.databases[name] = None
        if verb == "DROP":
            return
    if verb == "CREATE" and quiet and name in session.databases:
        return
    charset = None
    while cursor:
        if cursor.take("CHARACTER", "SET") or cursor.take("CHARSET"):
            cursor.take("=")
            charset = charset_name(cursor.word())
        elif cursor.take("COLLATE"):
            cursor.take("=")
            charset = charset or charset_of(cursor.word(), session.charset(name))
        else:
            cursor.next()
    if charset == "default":
        charset = session.server.charset
    if verb == "CREATE":
        session.effect.databases[name] = charset or session.server.charset
    elif charset:
        session.effect.databases[name] = charset


def _truncate(cursor: WordCursor, session: StatementRun) -> None:
    session.effect.emptied.append(session.id(table_name(cursor)))
    _wait(cursor)
    cursor.done()


def _wait(cursor: WordCursor) -> None:
    """Pass over MariaDB's words for how long to wait for a lock."""
    if cursor.take("WAIT"):
        cursor.next()
    else:
        cursor.take("NOWAIT")


def _drop(cursor: WordCursor, session: StatementRun) -> None:
    if cursor.take("TEMPORARY"):
        return
    if not (cursor.take("TABLE") or cursor.take("TABLES")):
        raise NotUnderstood(f"no DROP that is known, {cursor.place()}")
    cursor.take("IF", "EXISTS")
    while True:
        table = session.id(table_name(cursor))
        if session.table(table) is not None or table in session.effect.unknown or table not in session.effect.tables:
            session.put(table, None)
            session.effect.dropped.append(table)
        if not cursor.take(","):
            break
    _wait(cursor)
    cursor.take_any("RESTRICT", "CASCADE")
    cursor.done()


def _rename(cursor: WordCursor, session: StatementRun) -> None:
    if not (cursor.take("TABLE") or cursor.take("TABLES")):
        if cursor.peek() == "USER":
            return
        raise NotUnderstood(f"no RENAME that is known, {cursor.place()}")
    cursor.take("IF", "EXISTS")
    pairs: list[tuple[TableName, TableName]] = []
    while True:
        before = session.id(table_name(cursor))
        _wait(cursor)
        cursor.expect("TO")
        pairs.append((before, session.id(table_name(cursor))))
        if not cursor.take(","):
            break
    cursor.done()
    rename(session, pairs)


_NAME: Final = re.compile(r"answer-([0-9]{1,9})")


def new_answer(table: str, statement: str, documents: Collection[str]) -> tuple[str, dict[str, Any]]:
    """Return an unused name for an answer, and the answer's document. Raise ConfigError.

    `table`: its id, as shop.orders. `statement`: CREATE TABLE, as SHOW CREATE TABLE prints it; its name counts for
    nothing.
    """
    _parsed(statement, ("", ""), ServerRules(), {})
    numbers = [int(found[1]) for name in documents if (found := _NAME.fullmatch(name)) is not None]
    return f"answer-{max(numbers, default=0) + 1}", {"table": table, "statement": statement}


def answer_to(
    table: TableName,
    documents: Mapping[str, Any],
    used: Collection[str],
    *,
    server: ServerRules,
    databases: Mapping[str, str],
) -> tuple[str, Table] | None:
    """Return the oldest unused answer about a table, with the answer's name; None where there is none.

    Raises ConfigError.
    """
    wanted = show(table_in(*table))
    names = [name for name in documents if _NAME.fullmatch(name) and name not in used]
    for name in sorted(names, key=lambda one: int(one.partition("-")[2])):
        if documents[name]["table"] == wanted:
            return name, _parsed(documents[name]["statement"], table, server, databases)
    return None


def _parsed(statement: str, table: TableName, server: ServerRules, databases: Mapping[str, str]) -> Table:
    """Return the table of a CREATE TABLE under a name. Raise ConfigError."""
    effect = apply({}, statement, default_database=table[0], server=server, databases=databases)
    parsed = next((found for found in effect.tables.values() if found is not None), None)
    if parsed is None or len(effect.made) != 1:
        why = effect.doubt or "it makes no table with columns of its own"
        msg = f"the statement is not understood: {why}"
        raise ConfigError(msg, "give CREATE TABLE with all columns, as SHOW CREATE TABLE prints it")
    return replace(parsed, database=table[0], name=table[1])

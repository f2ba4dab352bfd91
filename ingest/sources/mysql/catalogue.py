"""What information_schema of a server says of its tables, for MySQL 5.6 to 9 and MariaDB 10.5 and newer.

A table has hidden columns that no view of information_schema shows, and that rows of the log have: those of MariaDB's
versioned tables and of its unique keys by hash, and those of MySQL's indexes of expressions. They come last.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pymysql
from pymysql.constants import ER

from ingest.sources.mysql import ddl
from ingest.sources.mysql.chunks import quoted
from ingest.sources.mysql.definitions import column_type
from ingest.sources.mysql.tokens import ServerRules
from ingest.sources.mysql.types import (
    ROW_END,
    ROW_START,
    Column,
    ForeignKey,
    Table,
    charset_name,
    charset_of,
    collation_name,
    row_hash,
    with_expressions,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from ingest.sources.mysql.types import TableName

SYSTEM: Final = frozenset({"information_schema", "mysql", "performance_schema", "sys"})
"""Databases that hold no tables of users."""
_VERSION: Final = re.compile(r"(\d+)\.(\d+)\.(\d+)")
_LOOKS: Final = 3
"""Looks for a table that information_schema may lack for a moment."""
_AT_ONCE: Final = 500
"""Tables of one query. A query of all tables makes MySQL 5.6 open each of them."""
_ESCAPED: Final = re.compile(r"\\(.)|''", re.DOTALL)
_ESCAPES: Final = {"0": "\0", "n": "\n", "r": "\r"}
_ACTIONS: Final = frozenset({"CASCADE", "SET NULL", "SET DEFAULT"})


def server(connection: Any) -> ServerRules:
    """Return what of the server decides how it reads statements."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT VERSION(), @@lower_case_table_names, @@character_set_server")
        version, lower_case, charset = cursor.fetchone()
        cursor.execute(
            "SHOW VARIABLES WHERE Variable_name IN ('explicit_defaults_for_timestamp', 'innodb_native_foreign_keys')"
        )
        variables = dict(cursor.fetchall())
    text = version.removeprefix("5.5.5-")
    found = _VERSION.match(text)
    number = 0
    if found is not None:
        major, minor, patch = (int(part) for part in found.groups())
        number = major * 10000 + minor * 100 + patch
    return ServerRules(
        version=number,
        mariadb="mariadb" in version.lower(),
        lower_case=int(lower_case),
        charset=charset_name(charset),
        explicit_timestamp=variables.get("explicit_defaults_for_timestamp") == "ON",
        logs_cascades=variables.get("innodb_native_foreign_keys") == "OFF",
    )


def databases(connection: Any) -> dict[str, str]:
    """Return the default character set of each database."""
    rows = _rows(connection, "SELECT * FROM information_schema.SCHEMATA", ())
    return {row["SCHEMA_NAME"]: charset_name(row["DEFAULT_CHARACTER_SET_NAME"]) for row in rows}


def names(connection: Any) -> list[TableName]:
    """Return all tables of users: no views, no sequences. One that was dropped just now may be among them."""
    tables_found = {
        (row["TABLE_SCHEMA"], row["TABLE_NAME"])
        for _ in range(_LOOKS)  # one of them may lack a table that is altered (`_is_there`)
        for row in _rows(
            connection,
            "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES"
            " WHERE TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED')",
            (),
        )
    }
    return sorted((database, name) for database, name in tables_found if database.lower() not in SYSTEM)


def tables(connection: Any, wanted: Collection[TableName], about: ServerRules) -> dict[TableName, Table]:
    """Return these tables, as far as they are there; `about`: `server(connection)`."""
    if not about.mariadb and about.version >= 80030:  # generated primary keys are in row images, and hidden by this
        with connection.cursor() as cursor:
            cursor.execute("SET SESSION show_gipk_in_create_table_and_information_schema = ON")
    out: dict[TableName, Table] = {}
    for database, some in _by_database(wanted):
        left = some
        for _ in range(_LOOKS):
            out.update(_tables(connection, database, left, about))
            left = tuple(
                name for name in left if (database, name) not in out and _is_there(connection, (database, name))
            )
            if not left:
                break
    return out


def _by_database(wanted: Collection[TableName]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield databases with some of these tables, not more than one query is to be about."""
    by_database: dict[str, list[str]] = defaultdict(list)
    for database, name in wanted:
        by_database[database].append(name)
    for database, all_names in sorted(by_database.items()):
        for begin in range(0, len(all_names), _AT_ONCE):
            yield database, tuple(all_names[begin : begin + _AT_ONCE])


def settled(connection: Any, wanted: Collection[TableName], about: ServerRules) -> dict[TableName, Table] | None:
    """Return the same, once no statement is at work on one of them: a log has a statement before others see its work.

    None where that takes too long.
    """
    with connection.cursor() as cursor:
        for database, name in wanted:
            try:
                cursor.execute(f"SELECT 1 FROM {quoted(database)}.{quoted(name)} LIMIT 0")
            except pymysql.MySQLError as exc:
                if exc.args[0] == ER.LOCK_WAIT_TIMEOUT:
                    return None
                if not connection.open:
                    raise
                # There is no such table, or it may not be looked at: the catalogue says what there is
    return tables(connection, wanted, about)


def counts_of_rows(connection: Any, wanted: Collection[TableName]) -> dict[TableName, int]:
    """Return about how many rows tables have, as information_schema counts them; none for one that it does not know."""
    out: dict[TableName, int] = {}
    for database, some in _by_database(wanted):
        marks = ", ".join(["%s"] * len(some))
        query = (
            "SELECT TABLE_NAME, TABLE_ROWS FROM information_schema.TABLES "
            f"WHERE TABLE_SCHEMA = %s AND TABLE_NAME IN ({marks})"
        )
        for row in _rows(connection, query, (database, *some)):
            if row["TABLE_ROWS"] is not None:
                out[database, row["TABLE_NAME"]] = int(row["TABLE_ROWS"])
    return out


def unreadable(connection: Any, wanted: Collection[TableName]) -> list[TableName]:
    """Return those of the tables of which a user sees columns and may not read each of these."""
    out: set[TableName] = set()
    for database, some in _by_database(wanted):
        marks = ", ".join(["%s"] * len(some))
        query = (
            "SELECT DISTINCT TABLE_NAME FROM information_schema.COLUMNS "
            f"WHERE TABLE_SCHEMA = %s AND TABLE_NAME IN ({marks}) AND FIND_IN_SET('select', PRIVILEGES) = 0"
        )
        out |= {(database, row["TABLE_NAME"]) for row in _rows(connection, query, (database, *some))}
    return sorted(out)


def _rows(connection: Any, query: str, parameters: tuple[Any, ...]) -> Iterator[dict[str, Any]]:
    """Yield rows by the names of their columns, in capitals: servers differ in which columns there are."""
    with connection.cursor() as cursor:
        cursor.execute(query, parameters)
        heads = [column[0].upper() for column in cursor.description]
        for row in cursor.fetchall():
            yield dict(zip(heads, (v.decode() if isinstance(v, bytes) else v for v in row), strict=True))


def _tables(connection: Any, database: str, some: tuple[str, ...], about: ServerRules) -> dict[TableName, Table]:
    marks = ", ".join(["%s"] * len(some))
    chosen = f"WHERE TABLE_SCHEMA = %s AND TABLE_NAME IN ({marks})"
    parameters = (database, *some)

    def by_table(view: str, order: str, where: str = chosen) -> dict[str, list[dict[str, Any]]]:
        found: dict[str, list[dict[str, Any]]] = defaultdict(list)
        query = f"SELECT * FROM information_schema.{view} {where} ORDER BY {order}"
        for row in _rows(connection, query, parameters):
            found[row["TABLE_NAME"]].append(row)
        return found

    columns = by_table("COLUMNS", "TABLE_NAME, ORDINAL_POSITION")
    indexes = by_table("STATISTICS", "TABLE_NAME, NON_UNIQUE, INDEX_NAME, SEQ_IN_INDEX")
    referring = f"{chosen} AND REFERENCED_TABLE_NAME IS NOT NULL"
    used = by_table("KEY_COLUMN_USAGE", "TABLE_NAME, CONSTRAINT_NAME, ORDINAL_POSITION", referring)
    foreign = {} if about.logs_cascades else _foreign_keys(connection, database, used, about)
    out: dict[TableName, Table] = {}
    for name, rows in by_table("TABLES", "TABLE_NAME").items():
        row = rows[0]
        if row["TABLE_TYPE"] not in {"BASE TABLE", "SYSTEM VERSIONED"} or name not in columns:
            continue
        collation = row["TABLE_COLLATION"]
        table = Table(
            database,
            name,
            tuple(_column(each, about) for each in columns[name]),
            charset=charset_of(collation) if collation else None,
            collation=collation_name(collation) if collation else None,
            engine=row["ENGINE"] or "",
            comment=row["TABLE_COMMENT"] or "",
            cascades=foreign.get(name, ()),
        )
        if row["TABLE_TYPE"] == "SYSTEM VERSIONED":
            table = _versioned(table, columns[name])
        out[database, name] = _with_indexes(table, indexes.get(name, []))
    return out


def _is_there(connection: Any, table: TableName) -> bool:
    """Return whether there is a table, once no statement is at work on it. Raise the error where it cannot be opened.

    Information_schema lacks a table for a moment while MariaDB renames what an ALTER has copied, and for good where
    the server cannot open it.
    """
    with connection.cursor() as cursor:
        try:
            cursor.execute(f"SHOW COLUMNS FROM {'.'.join(map(quoted, table))}")
        except pymysql.MySQLError as exc:
            if exc.args[0] in {ER.NO_SUCH_TABLE, ER.BAD_DB_ERROR, ER.TABLEACCESS_DENIED_ERROR}:
                return False
            raise
    return True


def _column(row: dict[str, Any], about: ServerRules) -> Column:
    extra = row["EXTRA"].upper()
    charset = row["CHARACTER_SET_NAME"]
    column = column_type(
        row["COLUMN_NAME"],
        row["COLUMN_TYPE"],
        charset_name(charset) if charset else None,
        collation_name(row["COLLATION_NAME"]) if charset else None,
        about,
    )
    default = row["COLUMN_DEFAULT"]
    return replace(
        column,
        nullable=row["IS_NULLABLE"] == "YES",
        generated=bool(row.get("GENERATION_EXPRESSION")) or extra in {"VIRTUAL", "PERSISTENT"},
        invisible="INVISIBLE" in extra,
        srs_id=row.get("SRS_ID"),
        default=_literal(default) if about.mariadb and default is not None else default,
        comment=row["COLUMN_COMMENT"] or "",
    )


def _literal(default: str) -> str | None:
    """Return a default as statements are read: MariaDB prints a text with its quotes."""
    if default == "NULL":
        return None
    if len(default) < 2 or not default[0] == default[-1] == "'":
        return default
    return _ESCAPED.sub(lambda found: _ESCAPES.get(found[1] or "'", found[1] or "'"), default[1:-1])


def _foreign_keys(
    connection: Any, database: str, used: dict[str, list[dict[str, Any]]], about: ServerRules
) -> dict[str, tuple[ForeignKey, ...]]:
    """Return the foreign keys of tables by which changes of other tables change their rows.

    `used`: their columns. Only who may do more with a table than read it sees in information_schema of MariaDB what its
    foreign keys do; who may read it sees how it is made.
    """
    rules = (
        {
            (row["TABLE_NAME"], row["CONSTRAINT_NAME"]): (row["DELETE_RULE"], row["UPDATE_RULE"])
            for row in _rows(
                connection,
                "SELECT * FROM information_schema.REFERENTIAL_CONSTRAINTS WHERE CONSTRAINT_SCHEMA = %s",
                (database,),
            )
        }
        if used
        else {}
    )
    out: dict[str, tuple[ForeignKey, ...]] = {}
    for table, rows in used.items():
        if any((table, row["CONSTRAINT_NAME"]) not in rules for row in rows):
            out[table] = _as_made(connection, (database, table), about)
            continue
        keys: dict[str, ForeignKey] = {}
        for row in rows:
            name = row["CONSTRAINT_NAME"]
            on_delete, on_update = (rule if rule in _ACTIONS else "" for rule in rules[table, name])
            parent = (row["REFERENCED_TABLE_SCHEMA"], row["REFERENCED_TABLE_NAME"])
            key = keys.get(name, ForeignKey(name, parent, on_delete, on_update))
            columns, referenced = (*key.columns, row["COLUMN_NAME"]), (*key.referenced, row["REFERENCED_COLUMN_NAME"])
            keys[name] = replace(key, columns=columns, referenced=referenced)
        out[table] = tuple(key for key in keys.values() if key.on_delete or key.on_update)
    return out


def _as_made(connection: Any, name: TableName, about: ServerRules) -> tuple[ForeignKey, ...]:
    """Return the same of one table, from the statement that makes it."""
    with connection.cursor() as cursor:
        try:
            cursor.execute(f"SHOW CREATE TABLE {'.'.join(map(quoted, name))}")
        except pymysql.MySQLError as exc:
            if exc.args[0] in {ER.NO_SUCH_TABLE, ER.BAD_DB_ERROR}:
                return ()
            raise
        text = cursor.fetchone()[1]
    made = ddl.apply({}, text, default_database=name[0], sql_mode=0, server=about).tables.get(name)
    return () if made is None else made.cascades


def _versioned(table: Table, rows: list[dict[str, Any]]) -> Table:
    """Return a versioned table with the columns that tell how long each row was valid."""
    named = next((row["COLUMN_NAME"] for row in rows if row.get("GENERATION_EXPRESSION") == "ROW END"), None)
    if named is not None:
        return replace(table, row_end=named)
    return replace(table, columns=(*table.columns, ROW_START, ROW_END), row_end=ROW_END.name)


def _with_indexes(table: Table, rows: list[dict[str, Any]]) -> Table:
    by_index: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        if row["COLUMN_NAME"] is None or row["COLUMN_NAME"] != table.row_end:  # versioned tables have it in each key
            by_index[row["INDEX_NAME"]].append(row)
    unique: list[tuple[str, tuple[str, ...]]] = []
    others: list[str] = []
    expressions: list[tuple[str, int]] = []
    hashed = 0
    for name, parts in by_index.items():
        count = sum(1 for part in parts if part["COLUMN_NAME"] is None)
        if count:
            expressions.append((name, count))
        if name == "PRIMARY":
            table = replace(table, primary_key=tuple(part["COLUMN_NAME"] for part in parts))
        elif int(parts[0]["NON_UNIQUE"]) or count or any(part["SUB_PART"] is not None for part in parts):
            others.append(name)
        else:
            unique.append((name, tuple(part["COLUMN_NAME"] for part in parts)))
        hashed += parts[0]["INDEX_TYPE"] == "HASH" and not int(parts[0]["NON_UNIQUE"]) and table.engine != "MEMORY"
    hidden = tuple(row_hash(at + 1) for at in range(hashed))
    return replace(
        table,
        columns=with_expressions((*table.columns, *hidden), expressions),
        unique_keys=tuple(key for _, key in unique),
        unique_names=tuple(name for name, _ in unique),
        other_indexes=tuple(others),
    )

"""Statements that write rows: a staging table that takes the states of keys, and one statement for each table.

In: states of keys, as JSON. Out: rows in the table; of the states of a key only the last one counts, however its key is
spelled. Rules: docs/spec/postgres.md#delivery.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from psycopg import sql

from ingest.postgres.tables import listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ingest.postgres.connection import Connection
    from ingest.postgres.tables import SqlTable

_STAGING: Final = """
CREATE TEMPORARY TABLE IF NOT EXISTS ingest_rows (
  seq bigint GENERATED ALWAYS AS IDENTITY, key json NOT NULL, line json) ON COMMIT DELETE ROWS
"""
_COPY: Final = "COPY ingest_rows (key, line) FROM STDIN"
_ENDS: Final = bytes.maketrans(b"\n\r\t\x01\x02", b"   \n\t")
"""Of white space between values of JSON, and of what stands between lines and fields: JSON has no such bytes."""
_LAST: Final = """
  SELECT DISTINCT ON ({ones}) {made}, l.line FROM ingest_rows AS l, json_to_record(l.key) AS k({of_key}){which}
  ORDER BY {ones}, l.seq DESC
"""
_HARD: Final = """
WITH last AS ({last}),
gone AS (DELETE FROM {table} AS t USING last WHERE last.line IS NULL AND {same})
INSERT INTO {table} ({names}) SELECT {values} FROM last{rows} WHERE last.line IS NOT NULL{order}
ON CONFLICT ({key}) DO {then}
"""
_SOFT: Final = """
WITH last AS ({last}), held AS ({held}),
gone AS (
  UPDATE {table} AS t SET {flag} = true FROM last
  WHERE last.line IS NULL AND {same} AND NOT EXISTS (SELECT FROM held WHERE {both}))
INSERT INTO {table} ({names}) SELECT {values} FROM held JOIN last ON {both}{rows}{order}
ON CONFLICT ({key}) DO {then}
"""


class WrittenAndDeleted(bytes):
    """The JSON of a row that was written and deleted since the last commit, where deleted rows stay."""

    __slots__ = ()


class StagedRows:
    """Rows of one table, as a connection with a staging table writes them."""

    def __init__(self, table: SqlTable, kinds: Mapping[str, str]) -> None:
        """Make the statement. `kinds`: the types of the columns that are there."""
        self._statement = statement(table, kinds)

    def write(self, connection: Connection, rows: Mapping[bytes, bytes | None]) -> None:
        """Write the last states of keys, which come in the order of their changes. Raise psycopg.Error."""
        _stage(connection, rows)
        connection.execute(self._statement)


def make_staging(connection: Connection) -> None:
    """Make the staging table of a connection, if it is not there. Raise psycopg.Error."""
    connection.execute(_STAGING)


def _stage(connection: Connection, rows: Mapping[bytes, bytes | None]) -> None:
    """Copy the last states of a table's keys into the staging table."""
    connection.execute("TRUNCATE ingest_rows")
    lines = b"\x01".join(_lines(rows)).translate(_ENDS).replace(b"\\", b"\\\\").replace(b"\x03", b"\\N")
    with connection.cursor() as cursor, cursor.copy(_COPY) as copy:
        copy.write(lines + b"\n")


def _lines(rows: Mapping[bytes, bytes | None]) -> Iterator[bytes]:
    for key, row in rows.items():
        yield key + b"\x02" + (b"\x03" if row is None else row)
        if type(row) is WrittenAndDeleted:
            yield key + b"\x02\x03"


def statement(table: SqlTable, kinds: Mapping[str, str]) -> sql.Composed:
    """Return the statement that writes rows and deletes, those that a key had last, in the order of the keys.

    The columns of the key are taken from the key, in rows that are written, too: a delete finds them by it. Where the
    table has a column for it, rows that are gone stay, with `true` there; the last values that they had are written.
    """
    names = [one.name for one in table.columns]
    others = [name for name in names if name not in table.key]
    keys = [sql.Identifier(f"k{at}") for at in range(len(table.key))]
    soft = table.deleted is not None
    flag = [sql.Identifier(table.deleted)] if table.deleted is not None else []
    written = [*map(sql.Identifier, others), *flag]
    values = [*(sql.SQL("last.{}").format(key) for key in keys), *(_value("r", n, kinds[n]) for n in others)]
    taken = listed(sql.SQL("{0} = EXCLUDED.{0}").format(name) for name in written)
    lines = sql.SQL(", json_to_record({}.line) AS r({})").format(
        sql.SQL("held" if soft else "last"), _record(others, kinds)
    )  # fmt: skip
    states = {
        "ones": listed(_value("k", name, kinds[name]) for name in table.key),
        "made": listed(
            sql.SQL("{} AS {}").format(_value("k", name, kinds[name]), key)
            for name, key in zip(table.key, keys, strict=True)
        ),
        "of_key": _record(table.key, kinds),
    }
    return sql.SQL(_SOFT if soft else _HARD).format(
        last=sql.SQL(_LAST).format(which=sql.SQL(""), **states),
        held=sql.SQL(_LAST).format(which=sql.SQL(" WHERE l.line IS NOT NULL"), **states),
        table=table.place,
        flag=listed(flag),
        same=sql.SQL(" AND ").join(
            sql.SQL("t.{} = last.{}").format(sql.Identifier(name), key)
            for name, key in zip(table.key, keys, strict=True)
        ),
        both=sql.SQL(" AND ").join(sql.SQL("held.{0} = last.{0}").format(key) for key in keys),
        names=listed([*map(sql.Identifier, table.key), *written]),
        values=listed([*values, sql.SQL("last.line IS NULL")] if soft else values),
        rows=lines if others else sql.SQL(""),
        order=sql.SQL(" ORDER BY {}").format(listed(sql.SQL("last.{}").format(key) for key in keys)),
        key=listed(map(sql.Identifier, table.key)),
        then=sql.SQL("UPDATE SET {}").format(taken) if written else sql.SQL("NOTHING"),
    )


def _record(names: Iterable[str], kinds: Mapping[str, str]) -> sql.Composed:
    """Return columns of JSON with their types. Bytes are texts in it, with Base64."""
    return listed(sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(_read_as(kinds[name]))) for name in names)


def _read_as(kind: str) -> str:
    """Return the type that a value of JSON is read as. Bytes are texts in it, and so is JSON in keys."""
    return "text" if kind in {"bytea", "json", "jsonb"} else kind


def _value(alias: str, name: str, kind: str) -> sql.Composed:
    """Return the value of a column, from what it was read as."""
    made = sql.SQL("{}").format(sql.Identifier(alias, name))
    if kind == "bytea":
        return sql.SQL("decode({}, 'base64')").format(made)
    return sql.SQL("{}::{}").format(made, sql.SQL(kind)) if kind in {"json", "jsonb"} else made

"""Rows of which only some columns came: the others keep the values that the table has.

In: changes of a table in their order, and statements by which whole rows are written. Out: steps, each of states of
keys whose order does not count any more; and statements that set some columns of rows that are there. A row whose key
changed takes the rest along from its old key. Rules: docs/spec/postgres.md#delivery.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import psycopg
from psycopg import sql

from ingest.encode.upsert_encoder import PartialRow
from ingest.model.jsontext import fields_of, object_of
from ingest.sinks.postgres.statements import read, record_of
from ingest.sinks.postgres.tables import SqlTable, all_equal, excluded, listed, named, numbered, of_alias, renamed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ingest.sinks.postgres.all_states import State
    from ingest.sinks.postgres.connection import Connection

_GIVEN: Final = """(
  SELECT {made} FROM unnest($1::text[], $2::text[], $3::text[]) AS l (key, line, old)
  CROSS JOIN LATERAL json_to_record(l.key::json) AS k({key})
  CROSS JOIN LATERAL json_to_record(l.old::json) AS p({key}){values}
) AS one"""
_SET: Final = "UPDATE {table} AS t SET {taken} FROM {given} WHERE {same}"
_MOVE: Final = """
UPDATE {table} AS t SET {moved} FROM {given} WHERE {old}
AND NOT EXISTS (SELECT FROM {table} AS x WHERE {there} AND NOT ({itself}))
"""
_COPY: Final = """
INSERT INTO {table} AS t ({names}){overriding} SELECT {copied} FROM {given} JOIN {table} AS o ON {copy}
ON CONFLICT ({key_names}) DO UPDATE SET {overwritten}
"""
_GONE: Final = "DELETE FROM {table} AS t USING {given} WHERE {old} AND NOT ({same})"
_MARK: Final = "UPDATE {table} AS t SET {flag} = true FROM {given} WHERE {old} AND NOT ({same})"


class KeyMove(NamedTuple):
    """A row that gets another key, of which only some columns came."""

    key: bytes
    part: PartialRow


@dataclass(slots=True)
class KeyedChanges:
    """Changes of a table since the last commit, or since the last row that took columns along to another key."""

    move: KeyMove | None = None
    """Comes before all else."""
    states: dict[bytes, State] = field(default_factory=dict)
    """By key, its last state, or all of them."""
    parts: dict[bytes, PartialRow] = field(default_factory=dict)
    """By key, the columns of rows that are there: what came last of each. No state of these keys comes after them."""


def add_part(steps: list[KeyedChanges], key: bytes, part: PartialRow) -> None:
    """Add a part of a row to the last step; a key that changes begins another one."""
    if part.old_key is not None:
        steps.append(KeyedChanges(KeyMove(key, part)))
        return
    last = steps[-1]
    known = last.states.get(key)
    if type(known) is bytes:  # the order of rows is that of their last changes
        del last.states[key]
        last.states[key] = _over(known, part)
    else:
        before = last.parts.pop(key, None)
        last.parts[key] = part if before is None else PartialRow(_over(before, part))


def _over(row: bytes, part: PartialRow) -> bytes:
    """Return a row with the columns of a later partial row."""
    return object_of({name: bytes(value) for name, value in {**fields_of(row), **fields_of(part)}.items()})


class PartialRows:
    """Statements for the rows of one table, as a connection writes them."""

    def __init__(self, table: SqlTable, kinds: Mapping[str, str], deletes: str) -> None:
        """`kinds`: the types of the table's columns; `deletes`: what a delete does to a row (`sinks/sink.py`)."""
        self._table, self._kinds, self._deletes = table, kinds, deletes
        self._known: dict[tuple[str, ...], dict[str, sql.Composed]] = {}
        """Statements by the columns that came."""

    def write(self, connection: Connection, rows: Mapping[bytes, PartialRow]) -> int:
        """Update the columns of partial rows. Return how many rows the table does not have. Raise psycopg.Error."""
        by_columns: dict[tuple[str, ...], list[tuple[bytes, bytes]]] = {}
        for key, row in rows.items():
            by_columns.setdefault(self._columns(row), []).append((key, row))
        return sum(len(some) - self._run(connection, "set", columns, some) for columns, some in by_columns.items())

    def move(self, connection: Connection, change: KeyMove) -> int:
        """Change the key of a row. Return 1 where the table has no such row, else 0. Raise psycopg.Error.

        Where the table has a row of the new key already, which is newer than the log then, its columns are updated.
        """
        old = change.part.old_key
        assert old is not None, "the key changes"
        changes = [(change.key, change.part)]
        columns = self._columns(change.part)
        if self._deletes == "hard" and not self._table.overrides:
            if self._run(connection, "move", columns, changes, old):
                return 0
            self._run(connection, "gone", columns, changes, old)
            return 1 - self._run(connection, "set", columns, changes)
        copied = self._run(connection, "copy", columns, changes, old)
        if self._deletes != "ignore":
            self._run(connection, "mark" if self._table.deleted is not None else "gone", columns, changes, old)
        return 0 if copied else 1 - self._run(connection, "set", columns, changes)

    def _columns(self, row: PartialRow) -> tuple[str, ...]:
        came = fields_of(row)
        return tuple(name for name in self._table.non_key if name in came)

    def _run(
        self,
        connection: Connection,
        what: str,
        columns: tuple[str, ...],
        rows: Sequence[tuple[bytes, bytes]],
        old: bytes | None = None,
    ) -> int:
        """Return how many rows a statement has changed."""
        if columns not in self._known:
            self._known[columns] = self._statements(columns)
        keys = [key.decode() for key, _ in rows]
        lines = [row.decode() for _, row in rows]
        with psycopg.RawCursor(connection) as cursor:  # of values by number: names may have a percent sign
            cursor.execute(self._known[columns][what], [keys, lines, keys if old is None else [old.decode()]])
            return cursor.rowcount

    def _statements(self, columns: tuple[str, ...]) -> dict[str, sql.Composed]:
        table, kinds, flag = self._table, self._kinds, self._table.flag
        key, set_columns = named(table.key), named(columns)
        new, old, came = numbered("k", key), numbered("p", key), numbered("v", columns)
        one_new, one_old, one_came = (of_alias("one", names) for names in (new, old, came))
        values = [*read(kinds, "k", table.key), *read(kinds, "p", table.key), *read(kinds, "r", columns)]
        rows = sql.SQL(" CROSS JOIN LATERAL json_to_record(l.line::json) AS r({})").format(record_of(columns, kinds))
        given = sql.SQL(_GIVEN).format(
            made=renamed(values, [*new, *old, *came]),
            key=record_of(table.key, kinds),
            values=rows if columns else sql.SQL(""),
        )
        by_column = dict(zip(columns, one_came, strict=True))
        kept = (by_column.get(name, sql.Identifier("o", name)) for name in table.non_key)
        assigned = [*zip(set_columns, one_came, strict=True), *((column, sql.SQL("false")) for column in flag)]
        unchanged = _assigned(zip(key, of_alias("t", key), strict=True))
        parts: dict[str, Any] = {
            "table": table.place,
            "given": given,
            "flag": listed(flag),
            "overriding": table.overriding,
            "key_names": listed(key),
            "names": listed([*key, *named(table.non_key), *flag]),
            "taken": _assigned(assigned) if assigned else unchanged,
            "overwritten": excluded([*set_columns, *flag]) if assigned else unchanged,
            "moved": _assigned([*zip(key, one_new, strict=True), *assigned]),
            "copied": listed([*one_new, *kept, *(sql.SQL("false") for _ in flag)]),
            "same": all_equal(of_alias("t", key), one_new),
            "old": all_equal(of_alias("t", key), one_old),
            "copy": all_equal(of_alias("o", key), one_old),
            "there": all_equal(of_alias("x", key), one_new),
            "itself": all_equal(of_alias("x", key), one_old),
        }
        texts = {"set": _SET, "move": _MOVE, "copy": _COPY, "gone": _GONE, "mark": _MARK}
        return {what: sql.SQL(text).format(**parts) for what, text in texts.items()}


def _assigned(pairs: Iterable[tuple[sql.Composable, sql.Composable]]) -> sql.Composed:
    """Return the assignments of values to columns."""
    return listed(sql.SQL("{} = {}").format(column, value) for column, value in pairs)

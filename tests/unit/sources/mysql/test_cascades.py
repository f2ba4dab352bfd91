"""Which rows of other tables foreign keys change, by the rows of the tables that they refer to."""

from __future__ import annotations

from dataclasses import replace
from struct import pack
from typing import Any

import pytest
from mysql_events import Log, read_bytes, table
from mysql_log import Tables

from ingest.sources.mysql.cascades import (
    ANY,
    DELETED,
    changed_since,
    changed_tables,
    note_parents,
    referenced,
    unknown_parents,
)  # fmt: skip
from ingest.sources.mysql.ddl import apply
from ingest.sources.mysql.history import History, SchemaEntry
from ingest.sources.mysql.log_model import LogFiles, LogPlace, ServerIdentity
from ingest.sources.mysql.state import Piece, State, TableSnapshot
from ingest.sources.mysql.tokens import ServerRules
from ingest.sources.mysql.types import Column, ForeignKey, Table

NATIVE = [False, pytest.param(True, marks=pytest.mark.compiled)]
INT, TEXT = b"\3", b"\x0f"


def key(parent: str, on_delete: str = "", on_update: str = "", own: str = "p", of: str = "id") -> ForeignKey:
    return ForeignKey(f"to_{parent}", ("shop", parent), on_delete, on_update, (own,), (of,))


def history(*tables: Table, unread: str = "") -> History:
    return History(
        tuple(
            SchemaEntry(at, 10, (one.database, one.name), one, read=one.name not in unread, booleans=False)
            for at, one in enumerate(tables, 1)
        )
    )


def child(name: str, *keys: ForeignKey) -> Table:
    return replace(table(name, Column("id", "int"), Column("p", "int")), cascades=keys)


def test_deletes_and_updates_go_on_from_table_to_table() -> None:
    found = history(
        child("a", key("root", "CASCADE")), child("b", key("a", "CASCADE", "CASCADE")),
        child("c", key("b", "SET NULL")), child("d", key("c", "CASCADE", "CASCADE", of="p")),
        child("e", key("root", "", "CASCADE", of="code")),
        child("f", key("e", "CASCADE", "SET NULL", of="p")), child("self", key("self", "CASCADE")), unread="b",
    )  # fmt: skip

    def names(parent: str, column: str | None) -> list[str]:
        return sorted(name for _, name in changed_tables(found, ("shop", parent), column, 20))

    assert names("root", DELETED) == ["a", "c", "d"]  # b is not read; of c a column is set to NULL, to which d refers
    assert names("root", "ID") == []
    assert names("root", "code") == ["e", "f"]
    assert names("root", ANY) == ["e", "f"]
    assert names("a", "id") == []  # b follows, and to that column of b nobody refers
    assert names("self", DELETED) == ["self"]
    assert changed_tables(found, ("shop", "root"), DELETED, 5) == {}, "before there were these keys"
    why = changed_tables(found, ("shop", "root"), DELETED, 20)["shop", "c"]
    assert why == "DELETE in shop.b: its foreign key to_b says SET NULL"


def test_what_of_a_table_others_refer_to() -> None:
    parent = table("root", Column("id", "int"))
    found = history(parent, child("a", key("root", "CASCADE")), child("b", key("root", "", "CASCADE", of="ID")))
    assert referenced(found, ("shop", "root"), 20) == (True, frozenset({"id"}), parent)
    assert referenced(found, ("shop", "root"), 5) is None
    assert referenced(found, ("shop", "a"), 20) is None
    older = history(child("b", ForeignKey("k", ("shop", "root"), "", "CASCADE")))  # as older checkpoints have it
    assert referenced(older, ("shop", "root"), 20) == (False, frozenset({ANY}), None)
    assert unknown_parents(older) == {("shop", "root")}
    assert unknown_parents(found) == set()


def rows(first: bytes, second: bytes = b"") -> bytes:
    return b"".join(b"\0" + one for one in (first, second) if one)


def image(number: int, text: bytes) -> bytes:
    return pack("<i", number) + bytes([len(text)]) + text


@pytest.mark.parametrize("native", NATIVE)
@pytest.mark.parametrize("unread", [frozenset(), frozenset(["root"])])
def test_events_are_looked_at_in_their_heads_and_in_the_columns_that_count(
    native: bool, unread: frozenset[str]
) -> None:
    parent = table("root", Column("id", "int"), Column("code", "varchar", length=9, charset="utf8mb4"))
    tables = {
        ("shop", "root"): parent, ("shop", "c"): child("c", key("root", "CASCADE", "CASCADE", of="code")),
    }  # fmt: skip

    def noted(*events: Any) -> Any:
        log = Log()
        log.query(b"BEGIN")
        log.table_map(7, "root", INT + TEXT, pack("<H", 36))
        for kind, body, flags in events:
            log.rows(kind, 7, 2, body, flags=flags)
        log.xid()
        bound = log.offset
        _, reader = read_bytes(log.packets, bound, Tables(tables, unread=unread), native=native)
        return {name[2]: position for name, position in reader.maps.parents.items()}

    same, other = rows(image(1, b"a"), image(2, b"a")), rows(image(1, b"a"), image(1, b"A"))
    assert noted((31, same, 1), (30, rows(image(1, b"a")), 1)) == {}
    assert noted((31, other, 3), (32, rows(image(1, b"a")), 3)) == {}, "without checks of foreign keys"
    assert {*noted((31, same + other, 1))} == {"code"}
    assert {*noted((24, other, 0), (25, rows(image(1, b"a")), 0))} == {"code", DELETED}
    first, last = noted((32, rows(image(1, b"a")), 1)), noted(*[(32, rows(image(1, b"a")), 1)] * 3)
    assert first[DELETED] < last[DELETED]
    null = b"\0" + image(1, b"a") + b"\2" + pack("<i", 1)
    assert {*noted((31, null, 1))} == {"code"}


@pytest.mark.parametrize("native", NATIVE)
def test_any_update_counts_where_the_columns_are_not_known(native: bool) -> None:
    """A table that this user may not see, and one that is not as the history has it."""
    children = {("shop", "c"): child("c", key("root", "", "CASCADE"))}
    for more in ({}, {("shop", "root"): table("root", Column("id", "varchar"))}):
        log = Log()
        log.query(b"BEGIN")
        log.table_map(7, "root", INT, b"")
        log.rows(31, 7, 1, rows(pack("<i", 1), pack("<i", 1)))
        log.rows(32, 7, 1, rows(pack("<i", 1)))
        log.xid()
        tables = Tables({**children, **more}, unread=frozenset(["root"]))
        _, reader = read_bytes(log.packets, log.offset, tables, native=native)
        assert [*reader.maps.parents] == [("shop", "root", ANY)]


def test_rows_that_were_read_behind_the_event_have_it() -> None:
    found = history(child("c", key("root", "CASCADE")))
    state = State(LogFiles((ServerIdentity(1),)), LogPlace("f", 4, 0))
    note_parents(state, found, [("shop", "root", DELETED, 100)])
    assert [(one.name, one.position) for one in changed_since(state, found)] == [(("shop", "c"), 100)]
    state.snapshots = [TableSnapshot(("shop", "c"), [Piece(("5",)), Piece(None)], rest=False)]
    assert [*changed_since(state, found)] == [], "it is being read"
    state.snapshots[0].mark(("5",), 120, 1, 110)
    state.snapshots[0].mark(None, 130, 1, 99)
    assert [one.low for one in changed_since(state, found)] == [99], "the second chunk may lack it"
    state.snapshots = [TableSnapshot(("shop", "c"), [Piece(None)], rest=False)]
    state.snapshots[0].mark(None, 130, 1, 101)
    assert [*changed_since(state, found)] == []
    state.snapshots = []  # the log has passed the marks
    assert [*changed_since(State.from_json(state.to_json()), found)] == []
    note_parents(state, found, [("shop", "root", DELETED, 102)])
    assert [one.position for one in changed_since(state, found)] == [102]


def test_a_server_that_logs_them_has_no_such_keys() -> None:
    made = "CREATE TABLE d.c (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES r (id) ON DELETE CASCADE)"
    inline = "CREATE TABLE d.c (id INT PRIMARY KEY, p INT REFERENCES r (id) ON DELETE CASCADE)"

    def keys(statement: str, **server: Any) -> tuple[ForeignKey, ...]:
        found = apply({}, statement, server=ServerRules(**server)).tables["d", "c"]
        assert found is not None
        return found.cascades

    known = (ForeignKey("c_ibfk_1", ("d", "r"), "CASCADE", "", ("p",), ("id",)),)
    assert keys(made) == known
    assert keys(made, logs_cascades=True) == ()
    assert keys(inline) == ()
    assert keys(inline, version=90000) == keys(inline, version=101100, mariadb=True) == known


def test_keys_follow_the_tables_and_columns_that_they_are_of() -> None:
    tables = {("d", "c"): replace(child("c", key("r", "CASCADE")), database="d")}
    tables["d", "c"] = replace(tables["d", "c"], cascades=(replace(tables["d", "c"].cascades[0], parent=("d", "r")),))
    tables["d", "r"] = replace(table("r", Column("id", "int")), database="d")
    effect = apply(tables, "RENAME TABLE d.r TO e.s", server=ServerRules())
    moved = effect.tables["d", "c"]
    assert moved is not None
    assert moved.cascades[0].parent == ("e", "s")
    effect = apply(tables, "ALTER TABLE d.c CHANGE p q INT", server=ServerRules())
    renamed = effect.tables["d", "c"]
    assert renamed is not None
    assert renamed.cascades[0].columns == ("q",)

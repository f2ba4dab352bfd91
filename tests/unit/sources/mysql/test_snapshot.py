"""Chunks read on real servers: which state of the log their rows have, and what happens to tables meanwhile."""

from __future__ import annotations

import json
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import msgspec
import pymysql
import pytest
from mysql_tables import known_table, reader, table_now

from ingest.errors import ConfigError, Unavailable
from ingest.sources.mysql.chunks import TableChunk, next_bound, split_key
from ingest.sources.mysql.marks import SETTLED_S, Lock, LogPoint, Visibility, log_end
from ingest.sources.mysql.snapshot import ChunkReader, Reading, TableChanged, TableGone
from ingest.sources.mysql.snapshot_log import NULL, LoggedChange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from mysql_servers import MySql

    from ingest.sources.mysql.connection import Connection
    from ingest.sources.mysql.types import Table

SOURCE = msgspec.Raw(b'{"db":"snap","table":"moving"}')


def nothing(table: Table, low: LogPoint, high: LogPoint) -> Sequence[LoggedChange]:
    return ()


@pytest.fixture(params=["mariadb", "mysql5"])
def both(request: pytest.FixtureRequest) -> Iterator[MySql]:
    server: MySql = request.getfixturevalue(request.param)
    server.execute("CREATE DATABASE IF NOT EXISTS snap")
    yield server
    server.execute("DROP DATABASE IF EXISTS snap")


def known(connection: Connection, name: str) -> Table:
    return known_table(connection, "snap", name)


def rows_of(chunks: ChunkReader, reading: Reading) -> list[dict[str, Any]]:
    values = [record.value() for records in chunks.read(reading) for record in records]
    assert all(value is not None and value[:5] == b"\0" + reading.entry.to_bytes(4, "big") for value in values)
    changes = [json.loads(value[5:]) for value in values if value is not None]
    name = {"db": reading.table.database, "table": reading.table.name}
    assert all(c["before"] is None and c["op"] == "r" and c["source"] == name for c in changes)
    return [change["after"] for change in changes]


class Writer:
    """Changes a table in a thread, one transaction after the other, and keeps its states and changes."""

    def __init__(self, server: MySql, rows: int) -> None:
        server.execute(
            "CREATE TABLE snap.moving (k INT PRIMARY KEY, v INT)",
            *(f"INSERT INTO snap.moving VALUES ({k * 10}, 0)" for k in range(rows)),
        )
        self.connection = server.connect()
        file, _ = server.position()
        # An event of MariaDB's that no transaction writes, some time after a file was begun
        while server.kind.is_mariadb and not any(
            (row[2], row[5]) == ("Binlog_checkpoint", file) for row in server.execute(f"SHOW BINLOG EVENTS IN '{file}'")
        ):
            time.sleep(0.01)
        self.state = {k * 10: 0 for k in range(rows)}
        self.states = {LogPoint(*server.position()): dict(self.state)}
        self.changes: list[tuple[LogPoint, list[LoggedChange]]] = []
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.write)

    def image(self, key: int) -> msgspec.Raw:
        return msgspec.Raw(b'{"k":%d,"v":%d}' % (key, self.state[key]))

    def write(self) -> None:
        keys, at = sorted(self.state), 0
        with self.connection.cursor() as cursor:
            while not self.stopping.is_set():
                at += 1
                cursor.execute("BEGIN")
                changes = [self.change(cursor, keys, (at * 7 + i * 13) % len(keys), at) for i in range(3)]
                cursor.execute("COMMIT")
                cursor.execute("SHOW MASTER STATUS")
                row = cursor.fetchone()
                point = LogPoint(str(row[0]), int(row[1]))
                self.states[point] = dict(self.state)
                self.changes.append((point, changes))

    def change(self, cursor: Any, keys: list[int], place: int, at: int) -> LoggedChange:
        """LoggedChange a row's key, which may take it to another chunk, or delete a row, or write it again."""
        key = keys[place]
        if key in self.state and at % 5 == 0:
            cursor.execute(f"DELETE FROM snap.moving WHERE k = {key}")
            change = LoggedChange(self.image(key), NULL, SOURCE, "d")
            del self.state[key]
            return change
        if key not in self.state:
            cursor.execute(f"INSERT INTO snap.moving VALUES ({key}, {at})")
            self.state[key] = at
            return LoggedChange(NULL, self.image(key), SOURCE, "c")
        to = max(keys) + key % 1000 - at if at % 3 == 0 else key
        to = key if to in self.state else to
        cursor.execute(f"UPDATE snap.moving SET k = {to}, v = {at} WHERE k = {key}")
        before = self.image(key)
        del self.state[key]
        self.state[to] = at
        keys[place] = to
        return LoggedChange(before, self.image(to), SOURCE, "u")

    def between(self, _table: Table, low: LogPoint, high: LogPoint) -> Sequence[LoggedChange]:
        """The changes between two points. The writer may not have noted the last ones yet: it is waited for."""
        while high not in self.states:
            assert self.thread.is_alive()
        return [change for point, changes in list(self.changes) if low < point <= high for change in changes]

    def go_on(self) -> None:
        """Wait until there is another state."""
        count = len(self.states)
        while len(self.states) == count:
            assert self.thread.is_alive()
            time.sleep(0.001)

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stopping.set()
        self.thread.join(60)
        self.connection.close()


def test_rows_have_the_state_at_the_mark(both: MySql) -> None:
    """While rows are made, deleted, and moved between chunks, each chunk is exactly the table at its mark."""
    writer = Writer(both, 400)
    connection = reader(both)
    table = known(connection, "moving")
    key = split_key(table)
    chunks = ChunkReader(connection, table_now, writer.between)
    found = []
    with writer:
        for _ in range(4):
            lower = None
            while True:
                upper = next_bound(connection, table, key, lower, 60)
                chunk = TableChunk(lower, upper)
                rows = rows_of(chunks, Reading(table, 9, key, chunk))
                found.append((chunk, chunks.mark, rows))
                writer.go_on()
                if upper is None:
                    break
                lower = upper
    assert len(found) > 20
    assert len({mark for _, mark, _ in found}) > 10  # it was written meanwhile
    for chunk, mark, rows in found:
        low, high = (None if bound is None else int(bound[0]) for bound in (chunk.lower, chunk.upper))
        state = writer.states[mark]
        expected = {k: v for k, v in state.items() if (low is None or k > low) and (high is None or k <= high)}
        assert {row["k"]: row["v"] for row in rows} == expected
        assert len(rows) == len(expected)
    connection.close()


def test_tables_that_change_meanwhile(both: MySql) -> None:
    """A table that is dropped, or altered, between planning and reading is said, and no reason to stop."""
    both.execute(
        "CREATE TABLE snap.a (k INT PRIMARY KEY, v INT)", "INSERT INTO snap.a VALUES (1, 1)",
        "CREATE TABLE snap.b LIKE snap.a", "CREATE TABLE snap.c LIKE snap.a", "INSERT INTO snap.c VALUES (1, 5)",
    )  # fmt: skip
    connection = reader(both)
    tables = {name: known(connection, name) for name in "abc"}
    chunks = ChunkReader(connection, table_now, nothing)
    both.execute("ALTER TABLE snap.a ADD w INT FIRST", "DROP TABLE snap.b")
    with pytest.raises(TableChanged) as changed:
        rows_of(chunks, Reading(tables["a"], 1, split_key(tables["a"])))
    assert changed.value.now is not None
    assert [column.name for column in changed.value.now.columns] == ["w", "k", "v"]
    with pytest.raises(TableGone):
        rows_of(chunks, Reading(tables["b"], 2, split_key(tables["b"])))
    assert rows_of(chunks, Reading(tables["c"], 3, split_key(tables["c"]))) == [{"k": 1, "v": 5}]
    # Nothing of a chunk keeps a statement from changing the table
    both.execute("SET lock_wait_timeout = 1", "ALTER TABLE snap.c ADD w INT")
    connection.close()


class Meddling(ChunkReader):
    """Lets something happen after a snapshot was begun, before its first statement about the table."""

    meddle: list[Callable[[], object]]

    def _check(self, reading: Reading, mark: LogPoint) -> None:
        if self.meddle:
            self.meddle.pop()()
        super()._check(reading, mark)


def test_a_table_is_made_again_after_the_snapshot_began(both: MySql) -> None:
    """The chunk is read again at a later state: rows of a table that is younger than the snapshot are none of it."""
    both.execute("CREATE TABLE snap.d (k INT PRIMARY KEY, v INT)", "INSERT INTO snap.d VALUES (1, 1)")
    connection = reader(both)
    table = known(connection, "d")
    truncated = ["TRUNCATE snap.d", "INSERT INTO snap.d VALUES (7, 7)"]
    again = ["DROP TABLE snap.d", "CREATE TABLE snap.d (k INT PRIMARY KEY, v INT)", "INSERT INTO snap.d VALUES (8, 8)"]
    asked = []

    def between(table: Table, low: LogPoint, high: LogPoint) -> Sequence[LoggedChange]:
        asked.append((low, high))
        return [LoggedChange(NULL, msgspec.Raw(b'{"k":7,"v":7}'), SOURCE, "c")] if len(asked) == 1 else []

    found = []
    for statements in (truncated, again):
        chunks = Meddling(connection, table_now, between)
        chunks.meddle = [partial(both.execute, *statements)]
        before = log_end(connection)
        found.append([row["k"] for row in rows_of(chunks, Reading(table, 1, split_key(table)))])
        assert chunks.mark == log_end(connection)
        # MySQL 5.6 says nothing of the TRUNCATE, which is between the points that the log is asked for
        assert both.kind.is_mariadb or len(found) > 1 or asked == [(before, chunks.mark)]
    assert found == [[7], [8]]
    connection.close()


def test_without_a_key(both: MySql) -> None:
    """A table without a key is one piece, at a known position."""
    both.execute(
        "CREATE TABLE snap.e (v INT, w VARCHAR(5))", "INSERT INTO snap.e VALUES (1, 'a'), (1, 'a'), (NULL, NULL)"
    )
    connection = reader(both)
    table = known(connection, "e")
    assert split_key(table) == ()
    chunks = ChunkReader(connection, table_now, nothing)
    rows = rows_of(chunks, Reading(table, 1, ()))
    assert rows == [{"v": 1, "w": "a"}, {"v": 1, "w": "a"}, {"v": None, "w": None}]
    assert chunks.mark == log_end(connection)
    connection.close()


def test_without_a_key_while_it_is_written(mysql5: MySql) -> None:
    """MySQL is never quiet: a clear stop names the table, and what to do; a lock lets it be read."""
    mysql5.execute("CREATE DATABASE IF NOT EXISTS snap", "CREATE TABLE snap.f (v INT)", "INSERT INTO snap.f VALUES (1)")
    connection = reader(mysql5)
    table = known(connection, "f")
    busy = mysql5.connect()

    class Busy(Visibility):
        def _owned(self) -> set[str] | None:
            with busy.cursor() as cursor:
                cursor.execute("INSERT INTO snap.f VALUES (2)")
            return super()._owned()

    chunks = ChunkReader(connection, table_now, nothing, visibility=Busy(connection, sleep=lambda _: None))
    with pytest.raises(ConfigError, match=r"snap\.f has no primary key.*ADD PRIMARY KEY.*keyless: lock"):
        rows_of(chunks, Reading(table, 1, ()))
    locked = ChunkReader(connection, table_now, nothing, lock=Lock(lambda: reader(mysql5)))
    before = log_end(connection)
    assert len(rows_of(locked, Reading(table, 1, ()))) == 21
    assert locked.mark == before
    with busy.cursor() as cursor:
        cursor.execute("INSERT INTO snap.f VALUES (3)")  # it is not locked any more
    busy.close()
    connection.close()
    mysql5.execute("DROP DATABASE snap")


def test_without_a_key_and_without_transactions(mariadb: MySql) -> None:
    """Such a table shows rows that are written while it is read: that is noticed, or a lock is held until the end."""
    mariadb.execute(
        "CREATE DATABASE IF NOT EXISTS snap", "CREATE TABLE snap.h (v INT) ENGINE = MyISAM",
        "INSERT INTO snap.h VALUES (1)",
    )  # fmt: skip
    connection = reader(mariadb)
    table = known(connection, "h")
    quiet = Visibility(connection, sleep=lambda _: None)
    chunks = ChunkReader(connection, table_now, nothing, visibility=quiet)
    assert rows_of(chunks, Reading(table, 1, ())) == [{"v": 1}]
    assert chunks.mark == log_end(connection)
    written = chunks.read(Reading(table, 1, ()))
    assert len(next(written)) == 1
    mariadb.execute("INSERT INTO snap.h VALUES (2)")
    with pytest.raises(ConfigError, match=r"snap\.h has no primary key"):
        next(written)
    locked = ChunkReader(connection, table_now, nothing, visibility=quiet, lock=Lock(lambda: reader(mariadb)))
    held = locked.read(Reading(table, 1, ()))
    assert len(next(held)) == 2
    with pytest.raises(pymysql.OperationalError, match=r"(?i)lock wait timeout"):
        mariadb.execute("SET lock_wait_timeout = 1", "INSERT INTO snap.h VALUES (3)")
    assert list(held) == []
    mariadb.execute("INSERT INTO snap.h VALUES (3)", "DROP DATABASE snap")
    connection.close()


def test_low_mark_without_gtids() -> None:
    """Where nobody says what is visible, the low mark is a point that was the log's end some seconds ago."""
    now, points = [0.0], [LogPoint("b.1", 4)]

    class Quiet(Visibility):
        def _owned(self) -> set[str] | None:
            return None

        def end(self) -> LogPoint:
            return self._settled(points[-1])

    def sleep(seconds: float) -> None:
        now[0] += seconds
        points.append(LogPoint("b.1", 4 + int(now[0] * 10)))

    quiet = Quiet(None, clock=lambda: now[0], sleep=sleep)  # type: ignore[arg-type]
    assert quiet.end() == LogPoint("b.1", 4)
    assert now[0] == SETTLED_S  # only the first has to wait
    for _ in range(5):
        sleep(2.0)
        seen = now[0]
        assert quiet.end().offset <= 4 + (seen - SETTLED_S) * 10
        assert now[0] == seen


def test_low_mark_waits_for_what_is_being_committed() -> None:
    """A transaction that is logged and not visible yet holds the low mark back, for a minute at most."""
    owned = [{"u:5", "u:6"}, {"u:6", "u:7"}, {"u:7"}]
    now = [0.0]

    class Slow(Visibility):
        def _owned(self) -> set[str] | None:
            return owned.pop(0) if len(owned) > 1 else owned[0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    slow = Slow(None, clock=lambda: now[0], sleep=sleep)  # type: ignore[arg-type]
    slow._wait(slow._owned() or set())
    assert owned == [{"u:7"}]
    with pytest.raises(Unavailable, match="u:7"):
        slow._wait(slow._owned() or set())


def test_an_error_of_the_server_is_raised(mariadb: MySql) -> None:
    """What is wrong with the connection is no reason to take the table for dropped."""
    mariadb.execute("CREATE DATABASE IF NOT EXISTS snap", "CREATE TABLE snap.g (k INT PRIMARY KEY)")
    connection = reader(mariadb)
    table = known(connection, "g")
    chunks = ChunkReader(connection, table_now, nothing)
    with connection.cursor() as cursor:
        cursor.execute("SELECT connection_id()")
        (number,) = cursor.fetchone() or ()
    mariadb.execute(f"KILL {number}")
    with pytest.raises(pymysql.MySQLError):
        rows_of(chunks, Reading(table, 1, split_key(table)))
    mariadb.execute("DROP DATABASE snap")

"""Snapshot and log together, on real servers: the same text of each value, and the table's rows in the end."""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING, Any, Final

import orjson
import pytest
from mysql_log import Tables, place_of, read_log, reader_of
from mysql_servers import KINDS, running
from mysql_tables import known_table, reader, shrunk, table_now
from mysql_values import OF_MARIADB, TYPES

from ingest.sources.mysql import marks
from ingest.sources.mysql.chunks import TableChunk, next_bound, split_key
from ingest.sources.mysql.log_model import LogPlace
from ingest.sources.mysql.marks import log_end
from ingest.sources.mysql.snapshot import ChunkReader, Reading
from ingest.sources.mysql.snapshot_log import LoggedChange, Passing, Region, changes_in, passed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mysql_servers import Kind, MySql

    from ingest.model.record import Record
    from ingest.sources.mysql.chunks import Bound
    from ingest.sources.mysql.connection import Connection
    from ingest.sources.mysql.marks import LogPoint
    from ingest.sources.mysql.types import Table


@pytest.fixture(params=["mariadb", "mariadb11", "mysql5"])
def both(request: pytest.FixtureRequest) -> Iterator[MySql]:
    server: MySql = request.getfixturevalue(request.param)
    server.execute("CREATE DATABASE IF NOT EXISTS both_ways")
    yield server
    server.execute("DROP DATABASE both_ways")


def known(connection: Connection, name: str) -> Table:
    return known_table(connection, "both_ways", name)


def after(records: Sequence[Record]) -> list[bytes]:
    out = []
    for record in records:
        for _, change in changes_in(record):
            out.append(bytes(change.after))
    return out


def test_the_same_text_of_each_value(both: MySql) -> None:
    """Each type at its bounds: the log's row is the snapshot's, by native code and by the reference, byte by byte."""
    types = {**TYPES, **(OF_MARIADB if both.kind.is_mariadb else {})}
    rows = max(map(len, types.values()))
    columns = ", ".join(f"c{at} {name}" for at, name in enumerate(types))
    values = [
        ", ".join(given[row] if row < len(given) else "NULL" for given in types.values()) for row in range(rows)
    ]  # fmt: skip
    connection = reader(both)
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE both_ways.t (id INT PRIMARY KEY, {columns}) CHARACTER SET utf8mb4")
        start = place_of(both)
        cursor.execute("SET SESSION sql_mode = 'ALLOW_INVALID_DATES'")
        for at, row in enumerate(values):
            cursor.execute(f"INSERT INTO both_ways.t VALUES ({at}, {row})")
    table = known(connection, "t")
    logged = after(read_log(both, Tables({("both_ways", "t"): table}), start))
    assert len(logged) == rows
    for native in (False, True):
        chunks = ChunkReader(connection, table_now, lambda *_: (), native=native)
        found = after([record for records in chunks.read(Reading(table, 1, split_key(table))) for record in records])
        for of_log, of_snapshot in zip(logged, found, strict=True):
            wrong = {
                f"{name}: {values}": (orjson.dumps(of_log_value), orjson.dumps(other))
                for (name, values), of_log_value, other in zip(
                    types.items(), list(orjson.loads(of_log).values())[1:],
                    list(orjson.loads(of_snapshot).values())[1:], strict=True,
                )
                if of_log_value != other
            }  # fmt: skip
            assert wrong == {}
            assert of_log == of_snapshot
    connection.close()


LOADED: Final = {
    "numbers": ("k BIGINT NOT NULL", ["{0}", "{0} * 1000000007", "-{0}"]),
    "texts": (
        "k VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci NOT NULL", ["'k{0}'", "'K{0}'", "'ä{0} '"],
    ),
    "times": ("k TIME(3) NOT NULL", ["'{0}:00:00'", "'-{0}:00:00.5'"]),
    "two": (
        "k VARCHAR(9) CHARACTER SET latin1 NOT NULL, n DECIMAL(9,3) NOT NULL",
        ["'a', {0}.5", "'Z', -{0}", "'ö', {0}"],
    ),
}  # fmt: skip


class Load(threading.Thread):
    """Writes rows, changes and deletes them, and moves them to other keys, until it is stopped."""

    def __init__(self, server: MySql, keys: Sequence[str], names: str) -> None:
        super().__init__()
        self.connection, self.keys, self.names = server.connect(database="both_ways"), keys, names
        self.stopping = threading.Event()
        self.failure: BaseException | None = None
        self.random = random.Random(7)

    def run(self) -> None:
        try:
            at = 0
            with self.connection.cursor() as cursor:
                while not self.stopping.is_set():
                    at += 1
                    cursor.execute("BEGIN")
                    for _ in range(self.random.randint(1, 4)):
                        cursor.execute(self.statement(at))
                    cursor.execute("ROLLBACK" if at % 11 == 0 else "COMMIT")
        except BaseException as exc:  # noqa: BLE001  (shown by the test)
            self.failure = exc

    def key(self) -> str:
        return self.random.choice(self.keys).format(self.random.randint(1, 60))

    def statement(self, at: int) -> str:
        kind = self.random.random()
        if kind < 0.4:
            return f"REPLACE INTO load_ ({self.names}, v) VALUES ({self.key()}, {at})"
        where = " AND ".join(f"{n} = {v}" for n, v in zip(self.names.split(", "), self.key().split(", "), strict=True))
        if kind < 0.6:
            return f"DELETE FROM load_ WHERE {where}"
        if kind < 0.8:
            return f"UPDATE load_ SET v = {at} WHERE {where}"
        new = ", ".join(f"{n} = {v}" for n, v in zip(self.names.split(", "), self.key().split(", "), strict=True))
        return f"UPDATE IGNORE load_ SET {new}, v = {at} WHERE {where}"

    def stop(self) -> None:
        self.stopping.set()
        self.join(60)
        self.connection.close()
        assert self.failure is None, self.failure


class Sink:
    """Rows by the bytes of their key, as an upsert topic has them."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self.rows: dict[bytes, dict[str, Any]] = {}

    def write(self, records: Sequence[Record]) -> None:
        for record in records:
            for _, change in changes_in(record):
                self.change(change)

    def change(self, change: LoggedChange) -> None:
        before, now = change.row(before=True), change.row(before=False)
        if before is not None:
            self.rows.pop(self.key(before), None)
        if now is not None:
            self.rows[self.key(now)] = now

    def key(self, row: dict[str, Any]) -> bytes:
        return orjson.dumps([row[name] for name in self.names], default=str)


class Between:
    """Reads the changes between two points with a reader of its own."""

    def __init__(self, server: MySql, tables: Tables) -> None:
        self.server, self.tables = server, tables

    def __call__(self, _table: Table, low: LogPoint, high: LogPoint) -> list[LoggedChange]:
        assert low.file == high.file
        own = reader_of(self.server, self.tables)
        groups = [chunk for chunk in own.read(LogPlace(low.file, low.offset, 0), high.offset) if chunk is not None]
        own.close()
        # A range ends behind its bound where a transaction begins at it
        return [
            change for chunk in groups for record in chunk.messages if (record.offset() or 0) < high.offset
            for _, change in changes_in(record)
        ]  # fmt: skip


def bounds_of(connection: Connection, table: Table) -> list[Bound]:
    bounds: list[Bound] = []
    while (bound := next_bound(connection, table, split_key(table), bounds[-1] if bounds else None, 12)) is not None:
        bounds.append(bound)
    return bounds


class Batches:
    """A snapshot beside the log, batch by batch, as a coordinator and its tasks carry it out."""

    def __init__(self, server: MySql, table: Table, start: LogPlace) -> None:
        self.connection = reader(server)
        tables = Tables({(table.database, table.name): table})
        self.table, self.key = table, split_key(table)
        self.uppers = [*bounds_of(self.connection, table), None]
        self.marks: list[int | None] = [None] * len(self.uppers)
        self.chunks = ChunkReader(self.connection, table_now, Between(server, tables))
        self.log = reader_of(server, tables)
        self.file, self.position = start.file, start.position
        self.sink = Sink(table.primary_key)

    def ask(self, sql: str) -> Sequence[object]:
        with self.connection.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchone() or ()

    def batch(self, planned: Sequence[int]) -> None:
        """Read some chunks, and the log up to its end at planning; each change by what was known then."""
        stop = log_end(self.connection).offset
        regions = shrunk((Region(*pair) for pair in zip(self.uppers, self.marks, strict=True)), self.position)
        for number in planned:
            chunk = TableChunk(self.uppers[number - 1] if number else None, self.uppers[number])
            for records in self.chunks.read(Reading(self.table, 1, self.key, chunk)):
                self.sink.write(records)
            assert self.chunks.mark.offset >= stop
            self.marks[number] = self.chunks.mark.offset
        passing = Passing(self.key, regions, self.ask, len(self.table.columns))
        if stop > self.position:
            for group in self.log.read(LogPlace(self.file, self.position, 0), stop):
                if group is not None:
                    self.sink.write(passed(group.messages, {1: passing}))
        assert stop in (self.log.place.position, self.position)
        self.position = stop

    def close(self) -> None:
        self.log.close()
        self.connection.close()


@pytest.mark.parametrize("name", LOADED)
def test_load_while_the_snapshot_runs(both: MySql, name: str) -> None:
    """Chunks in any order beside the log, batch by batch: in the end each cell is the table's."""
    ddl, keys = LOADED[name]
    names = ", ".join(part.split()[0] for part in ddl.split(", "))
    both.execute(f"CREATE TABLE both_ways.load_ ({ddl}, v INT, PRIMARY KEY ({names}))")
    load = Load(both, keys, names)
    with load.connection.cursor() as cursor:
        for at in range(400):
            cursor.execute(load.statement(-at))
    connection = reader(both)
    table = known(connection, "load_")
    batches = Batches(both, table, place_of(both))
    count = len(batches.uppers)
    assert count > 4
    order = random.Random(3).sample(range(count), count)
    load.start()
    try:
        for at in range(0, count, 2):
            batches.batch(order[at : at + 2])
        batches.batch(())
    finally:
        load.stop()
    batches.batch(())
    batches.close()
    whole = Sink(table.primary_key)
    for records in ChunkReader(connection, table_now, lambda *_: ()).read(Reading(table, 1, batches.key)):
        whole.write(records)
    connection.close()
    assert len(whole.rows) > 10
    assert batches.sink.rows == whole.rows


@pytest.mark.parametrize("kind", KINDS, ids=lambda one: one.name)
def test_the_night_in_which_an_hour_comes_twice(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys are instants, whatever the zones of the server and of sessions are, and zones change while it is read."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    monkeypatch.setattr(marks, "SETTLED_S", 0.5)  # nothing is being committed
    with running(kind, default_time_zone="SYSTEM") as server:
        server.execute(
            "CREATE DATABASE both_ways",
            "CREATE TABLE both_ways.night (at TIMESTAMP(3) NOT NULL PRIMARY KEY, d DATETIME, n INT)",
        )
        start = place_of(server)
        begin = 1_603_576_800  # 2020-10-24 22:00 in UTC; three hours later clocks go back
        for at in range(36):
            zone = ("+00:00", "-11:00")[at % 2]
            row = f"FROM_UNIXTIME({begin + 600 * at}.25), '2020-10-25 02:30:00', {at}"
            server.execute(f"SET time_zone = '{zone}'", f"INSERT INTO both_ways.night VALUES ({row})")
        connection = reader(server)
        table = known(connection, "night")
        batches = Batches(server, table, start)
        count = len(batches.uppers)
        batches.batch([0])
        server.execute(
            "SET GLOBAL time_zone = '+05:00'",
            "SET time_zone = 'SYSTEM'",
            "UPDATE both_ways.night SET n = -1 WHERE n BETWEEN 15 AND 20",
            "SET time_zone = '+00:00'",
            "UPDATE both_ways.night SET at = FROM_UNIXTIME(1603587660) WHERE n = 0",
            "UPDATE both_ways.night SET at = FROM_UNIXTIME(1603576860) WHERE n = 30",
            "DELETE FROM both_ways.night WHERE n = 22",
        )
        batches.batch(range(1, count))
        batches.batch(())
        batches.close()
        connection.close()
        rows = server.execute(
            "SET time_zone = '+00:00'", "SELECT CAST(at AS CHAR), CAST(d AS CHAR), n FROM both_ways.night"
        )
    assert count > 2
    found = sorted((row["at"], row["d"], row["n"]) for row in batches.sink.rows.values())
    assert found == sorted((f"{at.rstrip('0').rstrip('.')}Z", d, n) for at, d, n in rows)
    assert len(found) == 35

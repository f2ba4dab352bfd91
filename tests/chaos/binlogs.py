# ruff: noqa: S608  (the statements are the storm's own)
"""Faults of runs from a MySQL server: tables under load while the snapshot runs, and processes, server and log suffer.

At the end the server is asked for its rows, and each cell in the sink is compared with it. Triggers note each change of
a row in the transaction that makes it: so the server itself says which changes a changelog has to have, in which order.
"""

from __future__ import annotations

import json
import random
import threading
import time
from contextlib import contextmanager, suppress
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import psutil
import pymysql
from confluent_kafka import Consumer, TopicPartition
from lake import Lake
from mysql_servers import MARIADB_10, MySql, running
from postgres import running as postgres
from psycopg.rows import dict_row
from rig import Rig
from storm import Report, Scale, broker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Rows = dict[str, dict[tuple[Any, ...], dict[str, Any]]]
    """The rows of each table, by their keys."""

KEYS = {"orders": ("id",), "names": ("k",), "pairs": ("a", "b")}
"""The key's columns of the tables; those that the load adds have `id`."""
_TABLES = (
    "CREATE TABLE orders (id INT PRIMARY KEY, n BIGINT NOT NULL, name VARCHAR(40), price DECIMAL(9,2), at DATETIME(3))",
    "CREATE TABLE names (k VARCHAR(20) COLLATE utf8mb4_general_ci PRIMARY KEY, n BIGINT, t VARCHAR(30) CHARSET latin1)",
    "CREATE TABLE pairs (a INT NOT NULL, b VARCHAR(8) NOT NULL, n BIGINT NOT NULL, PRIMARY KEY (b, a))",
    "INSERT INTO orders SELECT seq, seq, CONCAT('ö', seq), seq / 4, '2020-01-31 12:13:14.5' FROM seq_0_to_{rows}",
    "INSERT INTO names SELECT CONCAT(IF(seq % 2, 'K', 'k'), seq), seq, CONCAT('Å', seq) FROM seq_0_to_{rows}",
    "INSERT INTO pairs SELECT seq % 50, CONCAT('b', seq DIV 50), seq FROM seq_0_to_{rows}",
    "CREATE DATABASE truth",
    "CREATE TABLE truth.noted (at BIGINT AUTO_INCREMENT PRIMARY KEY, id INT, was BIGINT, n BIGINT)",
    "CREATE TRIGGER i AFTER INSERT ON orders FOR EACH ROW INSERT INTO truth.noted VALUES (NULL, NEW.id, NULL, NEW.n)",
    "CREATE TRIGGER d AFTER DELETE ON orders FOR EACH ROW INSERT INTO truth.noted VALUES (NULL, OLD.id, OLD.n, NULL)",
    """CREATE TRIGGER u AFTER UPDATE ON orders FOR EACH ROW
      IF OLD.id = NEW.id THEN INSERT INTO truth.noted VALUES (NULL, NEW.id, OLD.n, NEW.n);
      ELSE INSERT INTO truth.noted VALUES (NULL, OLD.id, OLD.n, NULL), (NULL, NEW.id, NULL, NEW.n); END IF""",
)


class SqlLoad(threading.Thread):
    """Changes rows at a rate until it is told to finish, whatever becomes of the server.

    `tables`: "" leaves the tables as they are, "alter" changes them and adds some, "empty" also truncates.
    """

    def __init__(self, server: MySql, *, keys: int, seed: int, every_s: float, tables: str) -> None:
        super().__init__(daemon=True)
        self.server, self.keys, self.every_s, self.tables = server, keys, every_s, tables
        self.sent = self.total = 0
        self.failed: list[str] = []
        self._chance = random.Random(seed)  # noqa: S311  (to be repeated)
        self._numbers = seed * 1_000_000
        self._columns: list[str] = []
        self._added = 0
        self._ended = threading.Event()

    def run(self) -> None:
        connection: pymysql.Connection[Any] | None = None
        while not self._ended.wait(self.every_s):
            try:
                if connection is None:
                    more: dict[str, Any] = {"autocommit": False, "connect_timeout": 2, "read_timeout": 20}
                    connection = self.server.connect(database="shop", **more)
                self._one(connection)
            except (pymysql.err.OperationalError, pymysql.err.InterfaceError) as exc:
                if exc.args and exc.args[0] in {1205, 1213}:  # a lock that took too long, a deadlock
                    connection.rollback()  # type: ignore[union-attr]
                    continue
                connection = None  # the server is gone
            except Exception as exc:  # noqa: BLE001  (the storm reports it)
                self.failed.append(repr(exc))
                return

    def _one(self, connection: pymysql.Connection[Any]) -> None:
        chance = self._chance
        with connection.cursor() as cursor:
            for _ in range(chance.choice((1, 1, 2, 5, 30))):
                with suppress(pymysql.err.IntegrityError):  # a key that is there: of the transaction, the rest stays
                    self._change(cursor)
            if chance.random() < 0.1:
                connection.rollback()
            else:
                connection.commit()
                self.sent = self.total = self.sent + 1
            if self.tables and chance.random() < 0.02:
                self._change_table(cursor)

    def _change(self, cursor: Any) -> None:
        """Insert, update, delete, or change the key of rows of any table."""
        chance, key = self._chance, self._chance.randrange(self.keys)
        self._numbers += 1
        number, kind = self._numbers, chance.randrange(10)
        more = "".join(f", {column} = {number}" for column in self._columns if chance.random() < 0.5)
        if kind < 3:
            name = chance.choice((None, "", "ü'\"\\", "日本", f"x{number}"))
            cursor.execute(
                f"INSERT INTO orders SET id = %s, n = %s, name = %s, price = %s, at = %s{more}"
                f" ON DUPLICATE KEY UPDATE n = VALUES(n), name = VALUES(name)",
                (key, number, name, Decimal(number) / 100, "1999-12-31 23:59:59.25"),
            )
        elif kind < 5:
            cursor.execute(
                f"UPDATE orders SET n = {number}{more} WHERE id BETWEEN {key} AND {key + chance.randrange(4)}"
            )
        elif kind == 5:
            cursor.execute(f"DELETE FROM orders WHERE id BETWEEN {key} AND {key + chance.randrange(3)}")
        elif kind == 6:
            cursor.execute(f"UPDATE orders SET id = {chance.randrange(self.keys)}, n = {number} WHERE id = {key}")
        elif kind == 7:
            case = chance.choice("kK")
            cursor.execute(f"REPLACE INTO names VALUES ('{case}{key}', {number}, 'é{number}')")
        elif kind == 8:
            cursor.execute(f"UPDATE names SET k = 'k{chance.randrange(self.keys)}', n = {number} WHERE k = 'k{key}'")
        else:
            cursor.execute(f"REPLACE INTO pairs VALUES ({key % 50}, 'b{key // 50}', {number})")
            cursor.execute(f"DELETE FROM pairs WHERE a = {(key + 7) % 50} AND b = 'b{key // 50}'")
            cursor.execute(f"UPDATE pairs SET a = a + 1, n = {number} WHERE a = 3 AND b = 'b{key // 70}'")

    def _change_table(self, cursor: Any) -> None:
        """Add or drop a column of `orders`, add a table, or empty one."""
        self._added += 1
        kind = self._chance.randrange(5 if self.tables == "empty" else 4)
        if kind < 2 and len(self._columns) < 4:
            name, place = f"c{self._added}", self._chance.choice(("", " FIRST", " AFTER id"))
            cursor.execute(f"ALTER TABLE orders ADD COLUMN {name} BIGINT{place}")
            self._columns.append(name)
        elif kind == 2 and self._columns:
            cursor.execute(f"ALTER TABLE orders DROP COLUMN {self._columns.pop(0)}")
        elif kind == 4:
            cursor.execute(f"TRUNCATE TABLE {self._chance.choice(('names', 'pairs', 'pairs'))}")
        elif self._added < 60:
            cursor.execute(f"CREATE TABLE later{self._added} (id INT PRIMARY KEY, n BIGINT, s VARCHAR(9))")
            cursor.execute(f"INSERT INTO later{self._added} SELECT seq, seq, 'ß' FROM seq_0_to_20")
            cursor.execute(f"UPDATE later{self._added} SET n = -1 WHERE id < 5")
            cursor.connection.commit()

    def finish(self) -> None:
        self._ended.set()
        self.join()


def rows_of_server(server: MySql) -> Rows:
    """The rows of each table, as the server has them."""
    connection = server.connect(database="shop")
    out: Rows = {}
    try:
        with connection.cursor(pymysql.cursors.DictCursor) as cursor:
            cursor.execute("SELECT table_name AS t FROM information_schema.tables WHERE table_schema = 'shop'")
            for table in [row["t"] for row in cursor.fetchall()]:
                cursor.execute(f"SELECT * FROM {table}")
                out[table] = {_key(table, row): {name: _cell(row[name]) for name in row} for row in cursor.fetchall()}
    finally:
        connection.close()
    return out


def _key(table: str, row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in KEYS.get(table, ("id",)))


def _cell(value: Any) -> Any:
    """A value in the form in which all readers give it."""
    if hasattr(value, "isoformat"):
        text = value.replace(tzinfo=None).isoformat(" ")
        return text.rstrip("0") if "." in text else text
    return value


def differences(mine: Rows, found: Rows) -> list[str]:
    """Cells of the server (`mine`) that a sink has not, and rows that only the sink has."""
    out = []
    for table in mine:
        rows, others = mine[table], found.get(table, {})
        for key in rows.keys() | others.keys():
            row, other = rows.get(key), others.get(key)
            if row is None or other is None:
                out.append(f"{table} {key}: the server has {row}, the sink {other}")
            else:
                out += [
                    f"{table} {key} {name}: the server has {value!r}, the sink {other.get(name)!r}"
                    for name, value in row.items() if other.get(name) != value
                ]  # fmt: skip
    return out


def records_of(bootstrap: str, topic: str) -> list[tuple[Any, Any]]:
    """Keys and values of a topic's committed records, in the order of each partition."""
    consumer = Consumer({
        "bootstrap.servers": bootstrap, "group.id": "chaos-reader", "enable.auto.commit": False, "log_level": 0,
        "isolation.level": "read_committed", "enable.partition.eof": True,
    })  # fmt: skip
    out, left = [], 0
    try:
        found = consumer.list_topics(topic, timeout=20).topics[topic]
        left = 0 if found.error else len(found.partitions)
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(left)])
        while left:
            for message in consumer.consume(5000, 0.3):
                if message.error() is not None:
                    left -= 1
                    continue
                key, value = message.key(), message.value()
                out.append((_loaded(key), _loaded(value)))
    finally:
        consumer.close()
    return out


def _loaded(text: Any) -> Any:
    return None if text is None else json.loads(text, parse_float=Decimal)


class SqlRig(Rig):
    """A pipeline from a server's database `shop`, whose tables are under load."""

    def __init__(
        self,
        folder: Path,
        bootstrap: str,
        server: MySql,
        scale: Scale,
        sink: str,
        *,
        route: bool = True,
        tables: str = "alter",
    ) -> None:
        super().__init__(folder, bootstrap, "exactly-once", total=0, seed=scale.seed, partitions=1)
        rows = max(1000, scale.changes)
        server.execute(*(statement.format(rows=rows - 1) for statement in _TABLES), database="shop")
        self.server = server
        source = server.source(tables=r"shop.\.*", **{"scan.incremental.snapshot.chunk.size": rows // 40})
        names = f"route:\n  - {{source-table: 'shop.\\.*', sink-table: {self.name}.<>, replace-symbol: <>}}\n"
        self.file.write_text(f"{source}{sink}{names if route else ''}pipeline:\n  name: {self.name}\n")
        self.loads = [
            SqlLoad(server, keys=rows + rows // 5, seed=scale.seed + i, every_s=0.03,
                    tables="" if i else tables)
            for i in range(2)
        ]  # fmt: skip

    def storm(self, kills: int, restarts: int) -> None:
        """Kill drivers and workers, and restart the server, in the middle of it all."""
        for load in self.loads:
            load.start()
        self.start()
        self._keeping = True
        self._keeper = threading.Thread(target=self._keep, daemon=True)
        self._keeper.start()
        for i in range(kills):
            self.until(lambda: bool(self.workers()), "there are workers")
            self.moment(4.0)
            process = self.process
            assert process is not None
            workers = self.workers()
            if i % 3 == 2 and workers:
                victim = self.chance.choice(sorted(workers, key=lambda p: p.pid))
                with suppress(psutil.Error):
                    victim.kill()
                    self.strike(f"killed worker {victim.pid}")
            else:
                process.kill()
                self.strike(f"killed driver {process.pid}")
                self.started_again(process)
            if i % 2:
                with suppress(pymysql.Error):
                    self.server.rotate()
            if i * restarts // kills != (i + 1) * restarts // kills:
                self.until(lambda: bool(self.workers()), "there are workers")
                self.moment(2.0)
                hard = i % 2 == 0
                (self.server.kill if hard else self.server.stop)()
                time.sleep(self.chance.choice((0.0, 1.0, 4.0)))
                self.server.start()
                self.strike(f"the server was {'killed' if hard else 'stopped'}, and came back")
        self.moment(5.0)
        for load in self.loads:
            load.finish()
            for text in load.failed:
                self.wrong(f"the load ended: {text}")
        self.report.sent = sum(load.sent for load in self.loads)
        self.stop()
        code = self.once()
        if code != 0:
            self.wrong(f"the last run ended with {code}")

    def judge(self, found: Callable[[list[str]], Rows]) -> Report:
        """Compare each cell; `found` gives the sink's rows of tables."""
        mine = rows_of_server(self.server)
        wrong = differences(mine, found([*mine]))
        for text in wrong[:20]:
            self.wrong(text)
        self.report.missing = len(wrong)
        self.report.notes.append(f"{sum(map(len, mine.values()))} rows of {len(mine)} tables were compared")
        self.report.seconds = time.monotonic() - self._began
        return self.report


@contextmanager
def sql_server() -> Iterator[MySql]:
    """A server that has all that it committed after a crash of its own, though not after one of the machine."""
    with running(MARIADB_10, innodb_flush_log_at_trx_commit=2) as server:
        yield server


def mysql_to_topics(folder: Path, guarantee: str, scale: Scale) -> Report:
    """MariaDB into upsert-kafka: drivers and workers killed, the server too, its log rotated, its tables changed."""
    with broker(folder) as bootstrap, sql_server() as server:
        sink = (
            f"sink:\n  type: upsert-kafka\n  properties.bootstrap.servers: {bootstrap}\n"
            f"  sink.delivery-guarantee: {guarantee}\n"
        )
        rig = SqlRig(folder, bootstrap, server, scale, sink)
        rig.storm(scale.moments, max(1, scale.moments // 4))

        def found(tables: list[str]) -> Rows:
            out: Rows = {}
            for table in tables:
                rows = out[table] = {}
                for key, value in records_of(bootstrap, f"{rig.name}.{table}"):
                    if value is None:
                        rows.pop(_key(table, key), None)
                    else:
                        rows[_key(table, key)] = value
            return out

        return rig.judge(found)


def mysql_to_postgres(folder: Path, _guarantee: str, scale: Scale) -> Report:
    """MariaDB into PostgreSQL: the same storm; PostgreSQL's own client gives the rows."""
    with broker(folder) as bootstrap, sql_server() as server, postgres() as database:
        database.ask("CREATE SCHEMA shop")
        rig = SqlRig(folder, bootstrap, server, scale, database.sink(), route=False)
        rig.storm(scale.moments, max(1, scale.moments // 4))

        def found(tables: list[str]) -> Rows:
            out: Rows = {}
            with database.connection() as connection, connection.cursor(row_factory=dict_row) as cursor:
                for table in tables:
                    rows = cursor.execute(f"SELECT * FROM shop.{table}").fetchall()
                    out[table] = {_key(table, row): {name: _cell(row[name]) for name in row} for row in rows}
            return out

        return rig.judge(found)


def mysql_to_iceberg(folder: Path, _guarantee: str, scale: Scale) -> Report:
    """MariaDB into Iceberg: the same storm; DuckDB gives the rows."""
    with broker(folder) as bootstrap, sql_server() as server:
        sink = f"sink:\n  type: iceberg\n  catalog.properties.warehouse: {folder / 'lake'}\n"
        rig = SqlRig(folder, bootstrap, server, scale, sink, route=False)
        rig.storm(scale.moments, max(1, scale.moments // 4))
        lake = Lake(folder / "lake")

        def found(tables: list[str]) -> Rows:
            out: Rows = {}
            for table in tables:
                names = [row[0] for row in lake.ask("DESCRIBE SELECT * FROM {}", "shop", table)]
                rows = [dict(zip(names, row, strict=True)) for row in lake.ask("SELECT * FROM {}", "shop", table)]
                out[table] = {_key(table, row): {name: _cell(row[name]) for name in row} for row in rows}
                if len(out[table]) != len(rows):
                    rig.wrong(f"{table} has {len(rows)} rows of {len(out[table])} keys")
            return out

        return rig.judge(found)


def mysql_to_changelog(folder: Path, guarantee: str, scale: Scale) -> Report:
    """MariaDB into a changelog: each committed change once, each key's in order, as the server noted them."""
    with broker(folder) as bootstrap, sql_server() as server:
        sink = (
            f"sink:\n  type: kafka\n  properties.bootstrap.servers: {bootstrap}\n  value.format: debezium-json\n"
            f"  sink.delivery-guarantee: {guarantee}\n"
        )
        rig = SqlRig(folder, bootstrap, server, scale, sink)
        rig.storm(scale.moments, max(1, scale.moments // 4))
        report = rig.judge(lambda tables: {
            table: _replayed(table, records_of(bootstrap, f"{rig.name}.{table}")) for table in tables
        })  # fmt: skip
        noted: dict[int, list[tuple[int | None, int | None]]] = {}
        for key, was, number in server.execute("SELECT id, was, n FROM truth.noted ORDER BY at"):
            noted.setdefault(key, []).append((was, number))
        for key, changes in _changes(records_of(bootstrap, f"{rig.name}.orders")).items():
            if not _is_end_of(changes, noted.get(key, [])):
                report.disorder += 1
                rig.wrong(f"orders {key}: the topic has {changes}, the server made {noted.get(key)}")
        return report


def _is_end_of(changes: list[tuple[int | None, int | None]], noted: list[tuple[int | None, int | None]]) -> bool:
    """Whether changes of a key are the last ones that the server noted, behind a row of the snapshot or not."""
    if changes == noted[len(noted) - len(changes) :]:
        return True
    snapshot, *rest = changes
    before = noted[: len(noted) - len(rest)]
    is_state = not before or before[-1][1] == snapshot[1]
    return snapshot[0] is None and is_state and rest == noted[len(before) :]


def _halves(value: Any) -> Iterator[tuple[Any, Any]]:
    """A change as (row before, row after); a change of the key is a deletion and an insertion."""
    before, after = value.get("before"), value.get("after")
    if before is not None and after is not None and before["id"] != after["id"]:
        yield before, None
        yield None, after
    else:
        yield before, after


def _changes(records: list[tuple[Any, Any]]) -> dict[int, list[tuple[int | None, int | None]]]:
    """The numbers before and after of each change of `orders`, by key."""
    out: dict[int, list[tuple[int | None, int | None]]] = {}
    for _, value in records:
        for before, after in _halves(value):
            numbers = (before and before["n"], after and after["n"])
            out.setdefault((before or after)["id"], []).append(numbers)
    return out


def _replayed(table: str, records: list[tuple[Any, Any]]) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The rows that a changelog ends with."""
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for _, value in records:
        if value.get("before") is not None:
            rows.pop(_key(table, value["before"]), None)
        if value.get("after") is not None:
            rows[_key(table, value["after"])] = value["after"]
    return rows

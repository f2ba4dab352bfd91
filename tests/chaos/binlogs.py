"""Faults of runs from a MySQL server: tables under load while the snapshot runs, and processes, server and log suffer.

At the end the server is asked for its rows, and each cell in the sink is compared with it. Triggers note each change of
a row in the transaction that makes it: so the server itself says which changes a changelog has to have, in which order.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from contextlib import contextmanager, suppress
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import psutil
import pymysql
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from delta_lake import DeltaLake
from lake import Lake
from mysql_servers import MARIADB_10, MySql, running
from postgres import running as postgres
from psycopg.rows import dict_row
from rig import PATIENCE_S, Rig
from sql_load import SqlLoad
from storm import Report, Scale, broker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Rows = dict[str, dict[tuple[Any, ...], dict[str, Any]]]
    """The rows of each table, by their keys."""

KEYS = {"orders": ("id",), "names": ("k",), "pairs": ("a", "b"), "loose": ("a", "b")}
"""What tells rows of the tables apart; those that the load adds have `id`."""
_TABLES = (
    "CREATE TABLE orders (id INT PRIMARY KEY, n BIGINT NOT NULL, name VARCHAR(40), price DECIMAL(9,2), at DATETIME(3))",
    "CREATE TABLE names (k VARCHAR(20) COLLATE utf8mb4_general_ci PRIMARY KEY, n BIGINT, t VARCHAR(30) CHARSET latin1)",
    "CREATE TABLE pairs (a INT NOT NULL, b VARCHAR(8) NOT NULL, n BIGINT NOT NULL, PRIMARY KEY (b, a))",
    "CREATE TABLE plain (id INT PRIMARY KEY, n BIGINT) ENGINE MyISAM",
    "CREATE TABLE moved (id INT PRIMARY KEY, n BIGINT, s VARCHAR(9))",
    "INSERT INTO orders SELECT seq, seq, CONCAT('ö', seq), seq / 4, '2020-01-31 12:13:14.5' FROM seq_0_to_{rows}",
    "INSERT INTO names SELECT CONCAT(IF(seq % 2, 'K', 'k'), seq), seq, CONCAT('Å', seq) FROM seq_0_to_{rows}",
    "INSERT INTO pairs SELECT seq % 50, CONCAT('b', seq DIV 50), seq FROM seq_0_to_{rows}",
    "INSERT INTO plain SELECT seq, seq FROM seq_0_to_999",
    "INSERT INTO moved SELECT seq, seq, 'a' FROM seq_0_to_999",
    "CREATE DATABASE truth",
    "CREATE TABLE truth.noted (at BIGINT AUTO_INCREMENT PRIMARY KEY, id INT, was BIGINT, n BIGINT)",
    "CREATE TRIGGER i AFTER INSERT ON orders FOR EACH ROW INSERT INTO truth.noted VALUES (NULL, NEW.id, NULL, NEW.n)",
    "CREATE TRIGGER d AFTER DELETE ON orders FOR EACH ROW INSERT INTO truth.noted VALUES (NULL, OLD.id, OLD.n, NULL)",
    """CREATE TRIGGER u AFTER UPDATE ON orders FOR EACH ROW
      IF OLD.id = NEW.id THEN INSERT INTO truth.noted VALUES (NULL, NEW.id, OLD.n, NEW.n);
      ELSE INSERT INTO truth.noted VALUES (NULL, OLD.id, OLD.n, NULL), (NULL, NEW.id, NULL, NEW.n); END IF""",
)
_WITHOUT_KEY = (
    "CREATE TABLE loose (a INT, b VARCHAR(8))",
    "INSERT INTO loose SELECT seq % 900, CONCAT('ß', seq % 7) FROM seq_0_to_1999",
)


def rows_of_server(server: MySql) -> Rows:
    """The rows of each table, as the server has them."""
    connection = server.connect(database="shop")
    out: Rows = {}
    try:
        with connection.cursor(pymysql.cursors.DictCursor) as cursor:
            cursor.execute(
                "SELECT table_name AS t FROM information_schema.tables WHERE table_schema = 'shop'"
                " AND table_type = 'BASE TABLE' AND table_name NOT LIKE '\\_%'"
            )
            for table in [row["t"] for row in cursor.fetchall()]:
                # Rows without a key that are the same can be counted only
                cursor.execute(f"SELECT {'*' if table != 'loose' else 'a, b, COUNT(*) AS copies'} FROM {table}"
                               f"{'' if table != 'loose' else ' GROUP BY a, b'}")  # fmt: skip
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
        if found.error is not None:
            raise KafkaException(found.error)
        left = len(found.partitions)
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(left)])
        while left:
            for message in consumer.consume(5000, 0.3):
                error = message.error()
                if error is not None:  # of the others, the client tries again what it can
                    left -= error.code() == KafkaError._PARTITION_EOF
                    assert error.code() == KafkaError._PARTITION_EOF or error.retriable(), error
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
        tables: str = "empty",
    ) -> None:
        super().__init__(folder, bootstrap, "exactly-once", total=0, seed=scale.seed, partitions=1)
        rows, loose = max(1000, scale.changes), tables == "alter"
        made = (*_TABLES, *(_WITHOUT_KEY if loose else ()))
        server.execute(*(statement.format(rows=rows - 1) for statement in made), database="shop")
        self.server = server
        self.calm = threading.Lock()
        more = {"scan.incremental.snapshot.chunk.size": rows // 40, "tables.exclude": r"shop._\.*"}
        source = server.source(tables=r"shop.\.*", **more)
        names = f"route:\n  - {{source-table: 'shop.\\.*', sink-table: {self.name}.<>, replace-symbol: <>}}\n"
        self.file.write_text(f"{source}{sink}{names if route else ''}pipeline:\n  name: {self.name}\n")
        self.loads = [
            SqlLoad(server, keys=rows + rows // 5, seed=scale.seed + i, every_s=0.03, tables="" if i else tables,
                    loose=loose, calm=self.calm)
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
                hard = i * restarts // kills % 2 == 0
                with self.calm:
                    (self.server.kill if hard else self.server.stop)()
                time.sleep(self.chance.choice((0.0, 1.0, 4.0)))
                self.server.start()
                self.strike(f"the server was {'killed' if hard else 'stopped'}, and came back")
        self.moment(5.0)
        for load in self.loads:
            load.finish()
            for text in load.failed:
                self.wrong(f"the load ended: {text}")
        self.report.sent = sum(load.changed for load in self.loads)
        self.report.notes.append(f"{sum(load.sent for load in self.loads)} transactions were committed")
        self.stop()
        code = self.once(PATIENCE_S * 5)  # it has all that the storm kept from being read
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
    return _to_lake(folder, scale, "iceberg")


def mysql_to_delta(folder: Path, _guarantee: str, scale: Scale) -> Report:
    """MariaDB into Delta: the same storm; DuckDB gives the rows."""
    return _to_lake(folder, scale, "delta")


def _to_lake(folder: Path, scale: Scale, kind: str) -> Report:
    with broker(folder) as bootstrap, sql_server() as server:
        option = "catalog.properties.warehouse" if kind == "iceberg" else "warehouse"
        sink = f"sink:\n  type: {kind}\n  {option}: {folder / 'lake'}\n  sink.commit-interval: 1 s\n"
        rig = SqlRig(folder, bootstrap, server, scale, sink, route=False)
        rig.storm(scale.moments, max(1, scale.moments // 4))
        lake = Lake(folder / "lake") if kind == "iceberg" else DeltaLake(folder / "lake")

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
        rig = SqlRig(folder, bootstrap, server, scale, sink, tables="alter")
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
    if table == "loose":
        copies: Counter[tuple[Any, ...]] = Counter()
        for _, value in records:
            copies.subtract([_key(table, value["before"])] if value.get("before") is not None else [])
            copies.update([_key(table, value["after"])] if value.get("after") is not None else [])
        return {(a, b): {"a": a, "b": b, "copies": count} for (a, b), count in copies.items() if count}
    for _, value in records:
        if value.get("before") is not None:
            rows.pop(_key(table, value["before"]), None)
        if value.get("after") is not None:
            rows[_key(table, value["after"])] = value["after"]
    return rows

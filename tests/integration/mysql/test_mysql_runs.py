"""Runs from a real server into other places, judged by what the server itself has."""

from __future__ import annotations

import json
import random
import threading
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

import pytest
from commands import called
from delta_lake import DeltaLake
from harness import EXACTLY, INGEST, Background, faulty, finish, finished, until
from lake import Lake
from mysql_pipeline import MySqlPipeline
from mysql_servers import MARIADB_10, running

if TYPE_CHECKING:
    from pathlib import Path

    from harness import Kafka, Result
    from mysql_servers import MySql
    from shared_java import SharedJava


def rows_of(kafka: Kafka, topic: str) -> dict[str, dict[str, Any]]:
    """The rows that a reader of an upsert topic ends with, by their keys."""
    out: dict[str, dict[str, Any]] = {}
    for record in kafka.read(topic):
        key = (record.key or b"").decode()
        if record.value is None:
            out.pop(key, None)
        else:
            out[key] = json.loads(record.value)
    return out


def test_rows_and_changes_of_tables_become_upserts(
    kafka: Kafka, mariadb: MySql, tmp_path: Path, shared_java: SharedJava
) -> None:
    pipeline = MySqlPipeline(tmp_path, mariadb, shared_java, "skeleton")
    pipeline.write(
        f"{{type: upsert-kafka, properties.bootstrap.servers: '{kafka.bootstrap}'}}",
        rf"route: [{{source-table: 'skeleton.\.*', sink-table: {kafka.name}.<>, replace-symbol: <>}}]",
        **{"scan.incremental.snapshot.chunk.size": 7},
    )
    pipeline.execute(
        "CREATE TABLE orders (id INT PRIMARY KEY, name VARCHAR(20) CHARACTER SET latin1, price DECIMAL(10,2))",
        "CREATE TABLE names (k VARCHAR(20) COLLATE utf8mb4_general_ci PRIMARY KEY, v INT)",
        "CREATE TABLE nothing (k BIGINT UNSIGNED PRIMARY KEY, d DATE)",
        "INSERT INTO orders VALUES (1, 'Åsa', 1.5), (2, 'b', NULL), (3, 'c', 3)",
        "INSERT INTO names SELECT CONCAT('k', seq), seq FROM seq_0_to_49",
    )
    first = pipeline.run()
    events = [json.loads(line) for line in first.err.splitlines() if line.startswith("{")]
    batches = [event for event in events if event["event"] == "batch done"]
    assert next(event for event in events if event["event"] == "run started")["snapshot_tables"] == 3
    assert (batches[-1]["log"], batches[-1]["lag_bytes"]) == ("{}:{}".format(*mariadb.position()), 0)
    assert not any("lag" in event for event in events), "nothing of a database is records"
    assert "; no backlog" in first.out
    assert rows_of(kafka, f"{kafka.name}.orders") == {
        '{"id":1}': {"id": 1, "name": "Åsa", "price": 1.50},
        '{"id":2}': {"id": 2, "name": "b", "price": None},
        '{"id":3}': {"id": 3, "name": "c", "price": 3.00},
    }
    assert {row["v"] for row in rows_of(kafka, f"{kafka.name}.names").values()} == {*range(50)}
    assert kafka.read(f"{kafka.name}.nothing") == [], "a table without rows has its topic"

    pipeline.execute(
        "UPDATE orders SET name = 'Ü', id = 9 WHERE id = 1",
        "DELETE FROM orders WHERE id = 2",
        "ALTER TABLE orders ADD COLUMN note TEXT, DROP COLUMN price",
        "INSERT INTO orders VALUES (4, 'd', 'new')",
        "CREATE TABLE later (id INT PRIMARY KEY, at TIMESTAMP(3) NULL)",
        "INSERT INTO later VALUES (1, FROM_UNIXTIME(0.5))",
        "UPDATE names SET v = v + 100 WHERE v < 3",
        "FLUSH BINARY LOGS",
        "DELETE FROM names WHERE v BETWEEN 10 AND 48",
    )
    pipeline.run()
    assert rows_of(kafka, f"{kafka.name}.orders") == {
        '{"id":9}': {"id": 9, "name": "Ü", "price": 1.50},
        '{"id":3}': {"id": 3, "name": "c", "price": 3.00},
        '{"id":4}': {"id": 4, "name": "d", "price": None, "note": "new"},
    }
    assert rows_of(kafka, f"{kafka.name}.later") == {'{"id":1}': {"id": 1, "at": "1970-01-01 00:00:00.5Z"}}
    left = sorted(row["v"] for row in rows_of(kafka, f"{kafka.name}.names").values())
    assert left == [*range(3, 10), 49, 100, 101, 102]


def test_rows_pass_transforms_and_statements_are_learnt_there_too(
    kafka: Kafka, mariadb: MySql, tmp_path: Path, shared_java: SharedJava
) -> None:
    """A chunk comes in several groups of rows; and what tasks meet in the log is learnt of their second half."""
    pipeline = MySqlPipeline(tmp_path, mariadb, shared_java, "computed")
    pipeline.write(
        f"{{type: upsert-kafka, properties.bootstrap.servers: '{kafka.bootstrap}'}}",
        rf"route: [{{source-table: 'computed.\.*', sink-table: {kafka.name}.<>, replace-symbol: <>}}]"
        "\n"
        r"transform: [{source-table: 'computed.\.*', projection: '\*, v * 2 AS twice', filter: 'v <> 13'}]",
        **{"scan.incremental.snapshot.chunk.size": 4000},
    )
    pipeline.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t SELECT seq, seq FROM seq_1_to_9000")
    pipeline.run()
    rows = {row["id"]: row["twice"] for row in rows_of(kafka, f"{kafka.name}.t").values()}
    assert rows == {i: 2 * i for i in range(1, 9001) if i != 13}
    pipeline.execute(
        "UPDATE t SET v = 1 WHERE id = 2", "DELETE FROM t WHERE id > 100", "ALTER TABLE t ADD COLUMN w INT FIRST",
        "INSERT INTO t VALUES (7, 9001, 5)",
    )  # fmt: skip
    pipeline.run()
    rows = {row["id"]: (row["twice"], row.get("w")) for row in rows_of(kafka, f"{kafka.name}.t").values()}
    assert rows == {**{i: (2 * i, None) for i in range(1, 101) if i != 13}, 2: (2, None), 9001: (10, 7)}


def test_a_table_is_read_again_beside_the_run_that_is_there(
    kafka: Kafka, mysql5: MySql, tmp_path: Path, shared_java: SharedJava
) -> None:
    """As after changes that no log has: rows that are gone are gone in the sink, and the run goes on."""
    pipeline = MySqlPipeline(tmp_path, mysql5, shared_java, "unlogged")
    pipeline.write(
        f"{{type: upsert-kafka, properties.bootstrap.servers: '{kafka.bootstrap}'}}",
        rf"route: [{{source-table: 'unlogged.\.*', sink-table: {kafka.name}.<>, replace-symbol: <>}}]",
        **{"scan.incremental.snapshot.chunk.size": 3},
    )
    pipeline.execute(
        "CREATE TABLE a (id INT PRIMARY KEY, v INT)", "CREATE TABLE b LIKE a",
        "INSERT INTO a VALUES (1, 1), (2, 2), (3, 3), (4, 4), (5, 5)", "INSERT INTO b VALUES (1, 1), (2, 2)",
    )  # fmt: skip

    def rows(table: str) -> dict[int, int]:
        return {row["id"]: row["v"] for row in rows_of(kafka, f"{kafka.name}.{table}").values()}

    def backfill(*tables: str) -> Result:
        chosen = [word for table in tables for word in ("--table", table)]
        command = [INGEST, "backfill", str(pipeline.file), *chosen, "--checkpoint", str(pipeline.checkpoint),
                   "--master", "local[2]"]  # fmt: skip
        return finished(command, shared_java, tmp_path)

    running = shared_java.beside(lambda env: Background(pipeline.command(), env, tmp_path))
    until(lambda: len(rows("a")) == 5, 60, running)
    pipeline.execute(
        "SET sql_log_bin = 0", "DELETE FROM a WHERE id < 3", "UPDATE a SET v = 40 WHERE id = 4",
        "INSERT INTO a VALUES (9, 9)", "DELETE FROM b WHERE id = 1", "SET sql_log_bin = 1", "UPDATE b SET v = 20",
        "UPDATE a SET v = 50 WHERE id = 5",
    )  # fmt: skip
    ran = backfill("unlogged.a")
    assert ran.code == 0, ran.err
    assert "unlogged.a: the active run reads all rows again" in ran.out
    wrong = backfill("unlogged.c")
    assert (wrong.code, "knows no source table 'unlogged.c'" in wrong.err) == (78, True), wrong.err
    until(lambda: rows("a") == {3: 3, 4: 40, 5: 50, 9: 9}, 60, running)
    assert rows("a") == dict(pipeline.execute("SELECT id, v FROM a"))
    running.terminate()
    stopped = finish(running)
    assert stopped.code == 0, stopped.err
    assert rows("b") == {1: 1, 2: 20}, "the other table has its changes, and nothing else"
    ran = backfill("unlogged.b")
    assert ran.code == 0, ran.err
    assert rows("b") == {2: 20}
    pipeline.execute("DELETE FROM a WHERE id = 9", "UPDATE a SET v = 30 WHERE id = 3")
    pipeline.run()
    assert rows("a") == {3: 30, 4: 40, 5: 50}


@pytest.mark.parametrize("lake", ["iceberg", "delta"])
def test_rows_and_changes_of_tables_become_tables_of_a_lake(
    mariadb: MySql, tmp_path: Path, shared_java: SharedJava, lake: str
) -> None:
    pipeline = MySqlPipeline(tmp_path, mariadb, shared_java, f"to_{lake}")
    place = "catalog.properties.warehouse" if lake == "iceberg" else "warehouse"
    found: Any = Lake(tmp_path / "lake") if lake == "iceberg" else DeltaLake(tmp_path / "lake")
    pipeline.write(f"{{type: {lake}, {place}: '{tmp_path / 'lake'}'}}")
    pipeline.execute(
        "CREATE TABLE orders (id INT PRIMARY KEY, name VARCHAR(20), price DECIMAL(10,2), big BIGINT UNSIGNED)",
        "INSERT INTO orders VALUES (1, 'a', 1.5, 18446744073709551615), (2, 'b', NULL, 0), (3, NULL, -3, 7)",
    )
    pipeline.run_here()
    pipeline.execute(
        "UPDATE orders SET name = 'x' WHERE id = 1",
        "DELETE FROM orders WHERE id = 2",
        "ALTER TABLE orders ADD COLUMN note TEXT AFTER id",
        "INSERT INTO orders VALUES (4, 'n', 'd', 0.01, 1)",
    )
    pipeline.run_here()
    rows = found.rows(pipeline.database, "orders", columns="id, name, price, big, note")
    assert [tuple(None if one is None else str(one) for one in row) for row in rows] == [
        ("1", "x", "1.50", "18446744073709551615", None), ("3", None, "-3.00", "7", None), ("4", "d", "0.01", "1", "n"),
    ]  # fmt: skip


DEATHS = [
    {"driver": "after-plan:1"}, {"driver": "before-done:2"}, {"worker": "before-commit:1"},
    {"worker": "after-commit:1"},
]  # fmt: skip


@pytest.mark.parametrize("death", DEATHS, ids=lambda one: ",".join(f"{k}-{v}" for k, v in one.items()))
def test_each_change_is_written_once_whatever_dies(
    kafka: Kafka, mariadb: MySql, tmp_path: Path, shared_java: SharedJava, death: dict[str, str]
) -> None:
    pipeline = MySqlPipeline(tmp_path, mariadb, shared_java, "once")
    pipeline.write(
        f"{{type: kafka, properties.bootstrap.servers: '{kafka.bootstrap}', topic: {kafka.name}, {EXACTLY.strip()}}}",
        "",
        **{"scan.incremental.snapshot.chunk.size": 30},
    )
    pipeline.execute("CREATE TABLE t (id INT PRIMARY KEY, n INT)", "INSERT INTO t SELECT seq, 0 FROM seq_1_to_100")
    kafka.create(kafka.name, partitions=2)
    faulty(pipeline, tmp_path / "first", **death)  # type: ignore[arg-type]  # it has what is asked of it
    pipeline.execute("UPDATE t SET n = n + 1 WHERE id <= 50", "DELETE FROM t WHERE id > 90")
    faulty(pipeline, tmp_path / "second", **death)  # type: ignore[arg-type]  # as above
    pipeline.execute("INSERT INTO t VALUES (101, 0)")
    pipeline.run()
    events: dict[int, list[str]] = {}
    for record in kafka.read(kafka.name):
        change = json.loads(record.value or b"")
        row = change["after"] or change["before"]
        events.setdefault(row["id"], []).append(change["op"] + str(row["n"]))
    whole = {id_: ["c0", "u1"] if id_ <= 50 else ["c0"] if id_ <= 90 or id_ > 100 else ["c0", "d0"]
             for id_ in range(1, 102)}  # fmt: skip
    if "driver-after-plan" in "".join(f"{k}-{v}" for k, v in death.items()):
        # The rows were read after the first changes
        whole = {id_: ["c1"] if id_ <= 50 else ["c0"] for id_ in [*range(1, 91), 101]}
    assert events == whole


def test_statements_that_change_rows_change_them_in_the_sink(
    kafka: Kafka, mariadb: MySql, tmp_path: Path, shared_java: SharedJava
) -> None:
    """TRUNCATE, a default of stored rows, gh-ost's swap, a name that is made again, and a date that is no day."""
    pipeline = MySqlPipeline(tmp_path, mariadb, shared_java, "changed")
    pipeline.write(
        f"{{type: upsert-kafka, properties.bootstrap.servers: '{kafka.bootstrap}'}}",
        rf"route: [{{source-table: 'changed.\.*', sink-table: {kafka.name}.<>, replace-symbol: <>}}]",
        **{"tables.exclude": r"changed._\.*"},
    )
    pipeline.execute(
        "CREATE TABLE emptied (id INT PRIMARY KEY, n INT)",
        "CREATE TABLE filled (id INT PRIMARY KEY)",
        "CREATE TABLE swapped (id INT PRIMARY KEY, n INT)",
        "CREATE TABLE made (id INT PRIMARY KEY, n INT)",
        "SET sql_mode = ''",
        "CREATE TABLE days (id INT PRIMARY KEY, d DATE NOT NULL)",
        "INSERT INTO emptied VALUES (1, 1), (2, 2)",
        "INSERT INTO filled VALUES (1), (2)",
        "INSERT INTO swapped VALUES (1, 1), (2, 2)",
        "INSERT INTO made VALUES (1, 1)",
        "INSERT INTO days VALUES (1, '0000-00-00'), (2, '2020-01-31')",
    )
    first = pipeline.run_here()
    assert "values of column 'd' are left out" in first.err
    pipeline.execute(
        "INSERT INTO emptied VALUES (3, 3)",
        "TRUNCATE TABLE emptied",
        "INSERT INTO emptied VALUES (2, 20)",
        "ALTER TABLE filled ADD COLUMN c VARCHAR(5) NOT NULL DEFAULT 'x'",
        "CREATE TABLE _swapped_gho LIKE swapped",
        "ALTER TABLE _swapped_gho MODIFY n VARCHAR(5)",
        "INSERT INTO _swapped_gho SELECT id, CONCAT('n', n) FROM swapped",
        "RENAME TABLE swapped TO _swapped_del, _swapped_gho TO swapped",
        "INSERT INTO swapped VALUES (3, 'n3')",
        "DROP TABLE made",
        "CREATE TABLE made (id INT PRIMARY KEY, n INT)",
        "INSERT INTO made VALUES (5, 5)",
        "SET sql_mode = ''",
        "INSERT INTO days VALUES (3, '0000-00-00')",
    )
    said = pipeline.run_here()
    found = {name: sorted(rows_of(kafka, f"{kafka.name}.{name}").items()) for name in
             ("emptied", "filled", "swapped", "made", "days")}  # fmt: skip
    assert found == {
        "emptied": [('{"id":2}', {"id": 2, "n": 20})],
        "filled": [(f'{{"id":{n}}}', {"id": n, "c": "x"}) for n in (1, 2)],
        "swapped": [(f'{{"id":{n}}}', {"id": n, "n": f"n{n}"}) for n in (1, 2, 3)],
        "made": [('{"id":5}', {"id": 5, "n": 5})],
        "days": [('{"id":1}', {"id": 1, "d": None}), ('{"id":2}', {"id": 2, "d": "2020-01-31"}),
                 ('{"id":3}', {"id": 3, "d": None})],
    }  # fmt: skip
    assert "changed.filled: ALTER TABLE: ADD COLUMN with a default (column c); the table is read again" in said.err


def test_a_run_ends_with_the_exit_code_of_what_its_server_does(tmp_path: Path, shared_java: SharedJava) -> None:
    """75 for what may pass, 78 for what somebody has to change, 1 for a log that is another one."""
    with running(MARIADB_10, max_connections=10) as server:
        pipeline = MySqlPipeline(tmp_path, server, shared_java, "ends")
        sink = f"{{type: delta, warehouse: '{tmp_path / 'lake'}'}}"
        pipeline.write(sink)
        pipeline.execute("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
        pipeline.run()
        pipeline.write(sink, password="an0ther-s3cret")  # noqa: S106  (of nobody)
        refused = pipeline.run(code=78)
        assert "error 1045" in refused.err
        assert "an0ther-s3cret" not in refused.err
        pipeline.write(sink)
        with ExitStack() as connections:
            for _ in range(10):
                connections.enter_context(closing(server.connect()))
            assert "Too many connections" in pipeline.run(code=75).err
        server.stop()
        assert "cannot log in" in pipeline.run(code=75).err
        server.start()
        server.reset_master()
        pipeline.execute("INSERT INTO t VALUES (2)")
        assert "data-loss" in pipeline.run(code=1).err


def test_rejected_rows_are_letters_of_their_change_and_are_replayed(
    kafka: Kafka, mariadb: MySql, tmp_path: Path, shared_java: SharedJava
) -> None:
    """One of a chunk, one of the log: both have no message of their own."""
    pipeline = MySqlPipeline(tmp_path, mariadb, shared_java, "letters")
    rest = (
        rf"route: [{{source-table: 'letters.\.*', sink-table: {kafka.name}.<>, replace-symbol: <>}}]"
        f"\npipeline: {{dirty-data.collector: {{type: kafka, topic: {kafka.name}.dead}}}}"
    )
    sink, key = f"{{type: upsert-kafka, properties.bootstrap.servers: '{kafka.bootstrap}'}}", "zeroDateTimeBehavior"
    tolerant = {"ingestion.ignore-errors": "true"}
    pipeline.write(sink, rest, **tolerant, **{f"jdbc.properties.{key}": "EXCEPTION"})
    pipeline.execute(
        "SET sql_mode = ''", "CREATE TABLE days (id INT PRIMARY KEY, d DATE)",
        "INSERT INTO days VALUES (1, '2020-01-31'), (2, '0000-00-00')",
    )  # fmt: skip
    pipeline.run_here()
    file, before = mariadb.position()
    pipeline.execute("SET sql_mode = ''", "INSERT INTO days VALUES (3, '0000-00-00'), (4, NULL)")
    said = pipeline.run_here()
    assert f"({file}:" in said.err, "a reject says its place in the log"
    topic = f"{kafka.name}.days"
    assert {row["id"] for row in rows_of(kafka, topic).values()} == {1, 4}
    dead = kafka.read(f"{kafka.name}.dead")  # each in a partition by chance
    chunk, change = sorted(dead, key=lambda letter: json.loads(letter.value or b"")["after"]["id"])
    for letter, number, op in ((chunk, 2, "r"), (change, 3, "c")):
        found = json.loads(letter.value or b"")
        assert (letter.key, found["op"], found["after"]) == (None, op, {"id": number, "d": "0000-00-00"})
        headers = {name: (value or b"").decode() for name, value in letter.headers}
        assert headers["__ingest.errors.table"] == "letters.days"
        assert headers["__ingest.mysql.file"] == file
        position = int(headers["__ingest.mysql.position"])
        assert (position > before) == (op == "c"), "rows are as of a place before the change"
        gtid = headers.get("__ingest.mysql.gtid")
        assert gtid == (mariadb.execute("SELECT @@GLOBAL.gtid_binlog_pos")[0][0] if op == "c" else None)
        assert '"days"' in headers["__ingest.mysql.schema"]
    looked = called("tap", str(pipeline.file), "--checkpoint", str(pipeline.checkpoint), "--at", f"{file}:{position}",
                    "--format", "json")  # fmt: skip
    (shown,) = json.loads(looked.out)
    assert (json.loads(shown["value"])["after"]["id"], shown["place"]) == (3, f"{file}:{position}")
    assert [one["code"] for one in shown["rejects"]] == ["type-mismatch"]
    pipeline.write(sink, rest, **tolerant)
    command = [INGEST, "replay", str(pipeline.file), "--checkpoint", str(pipeline.checkpoint), "--master", "local[2]"]
    ran = finished(command, shared_java, tmp_path)
    assert ran.code == 0, ran.err
    assert {row["id"]: row["d"] for row in rows_of(kafka, topic).values()} == {
        1: "2020-01-31", 2: None, 3: None, 4: None,
    }  # fmt: skip
    assert len(kafka.read(f"{kafka.name}.dead")) == 2
    pipeline.execute("DELETE FROM days WHERE id = 2")
    pipeline.run_here()
    assert {row["id"] for row in rows_of(kafka, topic).values()} == {1, 3, 4}


class Load(threading.Thread):
    """Transactions on tables with keys of several kinds, until it is stopped."""

    def __init__(self, server: MySql, database: str) -> None:
        super().__init__()
        self.connection = server.connect(database=database)
        self.stopping = threading.Event()
        self.failure: BaseException | None = None
        self.count = 0

    def run(self) -> None:
        chance = random.Random(5)
        try:
            with self.connection.cursor() as cursor:
                while not self.stopping.is_set():
                    self.count += 1
                    cursor.execute("BEGIN")
                    for _ in range(chance.randint(1, 6)):
                        cursor.execute(self.statement(chance))
                    cursor.execute("COMMIT")
        except BaseException as exc:  # noqa: BLE001  (shown by the test)
            self.failure = exc

    def statement(self, chance: random.Random) -> str:
        k, other, v = chance.randint(1, 3000), chance.randint(1, 3000), self.count
        return chance.choice([
            f"REPLACE INTO numbers VALUES ({k}, {v})",
            f"DELETE FROM numbers WHERE k = {k}",
            f"UPDATE IGNORE numbers SET k = {other}, v = {v} WHERE k = {k}",
            f"REPLACE INTO texts VALUES ('{'Kk'[v % 2]}{k}', {k}.5, {v})",
            f"UPDATE IGNORE texts SET k = 'ä{other}', v = {v} WHERE k = 'k{k}'",
            f"DELETE FROM texts WHERE k = 'ä{k}'",
        ])  # fmt: skip

    def stop(self) -> None:
        self.stopping.set()
        self.join(60)
        self.connection.close()
        assert self.failure is None, self.failure


def test_load_while_rows_are_read(kafka: Kafka, mysql5: MySql, tmp_path: Path, shared_java: SharedJava) -> None:
    """MySQL does not say a snapshot's position: chunks are merged with the log, and keys go from one to another."""
    pipeline = MySqlPipeline(tmp_path, mysql5, shared_java, "under_load")
    pipeline.write(
        f"{{type: upsert-kafka, properties.bootstrap.servers: '{kafka.bootstrap}'}}",
        rf"route: [{{source-table: 'under_load.\.*', sink-table: {kafka.name}.<>, replace-symbol: <>}}]",
        **{"scan.incremental.snapshot.chunk.size": 97},
    )
    pipeline.execute(
        "CREATE TABLE numbers (k BIGINT PRIMARY KEY, v INT)",
        "CREATE TABLE texts (k VARCHAR(20) COLLATE utf8mb4_unicode_ci, n DECIMAL(9,1), v INT, PRIMARY KEY (k, n))",
    )
    mysql5.execute(
        *(f"INSERT INTO under_load.numbers VALUES ({k}, 0)" for k in range(1, 3000, 2)),
        *(f"INSERT INTO under_load.texts VALUES ('k{k}', {k}.5, 0)" for k in range(1, 3000, 2)),
    )
    load = Load(mysql5, "under_load")
    load.start()
    try:
        pipeline.run()
        while_read = load.count
    finally:
        load.stop()
    assert while_read > 100
    pipeline.run()
    numbers = {row["k"]: row["v"] for row in rows_of(kafka, f"{kafka.name}.numbers").values()}
    texts = {(row["k"], row["n"]): row["v"] for row in rows_of(kafka, f"{kafka.name}.texts").values()}
    assert numbers == dict(pipeline.execute("SELECT k, v FROM numbers"))
    assert texts == {(k, float(n)): v for k, n, v in pipeline.execute("SELECT k, n, v FROM texts")}

"""Transactions that are given on in pieces, between which a sink commits, and of which a worker dies.

Each change of them is there once, in order. In short, pieces are some kilobytes; a whole one has 64 MiB of rows.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest
from harness import EXACTLY, faulty
from mysql_in_process import InProcessPipeline, dying
from mysql_pipeline import MySqlPipeline
from postgres import running

from ingest.sinks.postgres.writer import PostgresWriter
from ingest.sinks.topics.transactions import TransactionalWriter
from ingest.sources.mysql import log_reader
from ingest.task import pipeline as task_pipeline

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness import Kafka
    from mysql_servers import MySql
    from postgres import Database
    from shared_java import SharedJava

TABLE: Final = "CREATE TABLE t (id INT PRIMARY KEY, n INT, pad VARCHAR(255))"


@pytest.fixture(scope="module")
def postgres() -> Iterator[Database]:
    with running() as database:
        yield database


@pytest.fixture
def _pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records of one transaction are given on after 8 KB, and committed."""
    monkeypatch.setattr(log_reader, "CHUNK_BYTES", 2000)
    monkeypatch.setattr(log_reader, "OPEN_BYTES", 8000)
    monkeypatch.setattr(task_pipeline, "COMMIT_S", 0.0)


def transaction(rows: int, pad: int) -> list[str]:
    """One transaction that inserts rows, changes half of them, and deletes every third one of these."""
    return [
        "BEGIN", f"INSERT INTO t SELECT seq, 0, REPEAT('x', {pad}) FROM seq_1_to_{rows}",
        f"UPDATE t SET n = n + 1 WHERE id <= {rows // 2}",
        f"DELETE FROM t WHERE id <= {rows // 2} AND id % 3 = 0", "COMMIT",
    ]  # fmt: skip


def changes_of(rows: int) -> dict[int, list[str]]:
    """The changes of each row, in their order."""
    return {
        k: ["c0"] if k > rows // 2 else ["c0", "u1"] if k % 3 else ["c0", "u1", "d1"] for k in range(1, rows + 1)
    }  # fmt: skip


def events(kafka: Kafka) -> dict[int, list[str]]:
    """What a topic has of each row."""
    out: dict[int, list[str]] = {}
    for record in kafka.read(kafka.name):
        change = json.loads(record.value or b"")
        row = change["after"] or change["before"]
        out.setdefault(row["id"], []).append(f"{change['op']}{row['n']}")
    return out


@pytest.mark.usefixtures("_pieces")
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_run_that_dies_within_a_transaction_has_each_change_once(
    mariadb: MySql, kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    sink: dict[str, Any] = {
        "type": "kafka", "properties.bootstrap.servers": kafka.bootstrap, "topic": kafka.name,
        "value.format": "debezium-json", "sink.delivery-guarantee": "exactly-once",
        "sink.transactional-id-prefix": kafka.name,
    }  # fmt: skip
    pipeline = InProcessPipeline(tmp_path, mariadb, f"large_{when}", sink)
    kafka.create(kafka.name, partitions=2)
    pipeline.execute(TABLE)
    pipeline.run()
    pipeline.execute(*transaction(600, 40), "INSERT INTO t VALUES (1000, 0, '')")
    with dying(monkeypatch, (TransactionalWriter, "commit", 3, when)):
        pipeline.run()
    assert 0 < len(events(kafka)) < 600, "a part of it is committed"
    pipeline.run()
    assert events(kafka) == {**changes_of(600), 1000: ["c0"]}


@pytest.mark.usefixtures("_pieces")
def test_a_run_that_dies_within_a_transaction_leaves_the_rows_of_the_server(
    mariadb: MySql, postgres: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = {
        "type": "postgres", "endpoint": f"127.0.0.1:{postgres.port}", "dbname": "postgres", "username": "ingest",
        "password": "of-the-tests",
    }  # fmt: skip
    pipeline = InProcessPipeline(tmp_path, mariadb, "large_rows", sink)
    pipeline.execute(TABLE)
    pipeline.run()
    pipeline.execute(*transaction(600, 40), "INSERT INTO t VALUES (1000, 0, '')")
    with dying(monkeypatch, (PostgresWriter, "commit", 3, "after")):
        pipeline.run()
    assert 0 < len(postgres.rows("large_rows.t")) < 600, "a part of it is committed"
    pipeline.run()
    assert postgres.rows("large_rows.t", "id, n, pad") == pipeline.execute("SELECT id, n, pad FROM t ORDER BY id")


ROWS: Final = 130_000
"""Of 250 bytes and more each: with those before the updates and deletes, 64 MiB of rows."""


@pytest.mark.parametrize("point", ["before-commit:1", "after-commit:1"])
def test_a_transaction_of_64_mib_is_there_once_though_its_worker_is_killed(
    mariadb: MySql, kafka: Kafka, tmp_path: Path, shared_java: SharedJava, point: str
) -> None:
    pipeline = MySqlPipeline(tmp_path, mariadb, shared_java, "large_once")
    pipeline.write(
        f"{{type: kafka, properties.bootstrap.servers: '{kafka.bootstrap}', topic: {kafka.name}, {EXACTLY.strip()}}}"
    )
    pipeline.execute(TABLE)
    kafka.create(kafka.name, partitions=2)
    small = max_memory(pipeline.run())
    before = mariadb.position()[1]
    pipeline.execute(*transaction(ROWS, 250))
    assert mariadb.position()[1] - before > 64 << 20
    ran = faulty(pipeline, tmp_path / "fault", worker=point)  # type: ignore[arg-type]  # it has what is asked of it
    assert ran.code == 0, ran.err
    assert (tmp_path / "fault" / "struck").exists()
    assert events(kafka) == changes_of(ROWS)
    assert max_memory(ran) - small < 140, "pieces of 16 MiB are held; the whole takes 165"


def test_a_transaction_of_64_mib_leaves_the_rows_of_the_server_though_its_worker_is_killed(
    mariadb: MySql, postgres: Database, tmp_path: Path, shared_java: SharedJava
) -> None:
    pipeline = MySqlPipeline(tmp_path, mariadb, shared_java, "large_into")
    pipeline.write(
        f"{{type: postgres, endpoint: '127.0.0.1:{postgres.port}', dbname: postgres, username: ingest, "
        f"password: of-the-tests}}"
    )
    pipeline.execute(TABLE)
    pipeline.run()
    pipeline.execute(*transaction(ROWS, 250))
    ran = faulty(pipeline, tmp_path / "fault", worker="before-commit:1")  # type: ignore[arg-type]  # as above
    assert ran.code == 0, ran.err
    assert (tmp_path / "fault" / "struck").exists()
    assert postgres.rows("large_into.t", "id, n, pad") == pipeline.execute("SELECT id, n, pad FROM t ORDER BY id")


def max_memory(ran: Any) -> int:
    """The memory that a worker had at most, in MiB."""
    return max(int(event["worker_rss_mib"]) for event in ran.events if event["event"] == "batch done")

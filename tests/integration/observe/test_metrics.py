"""Metrics and health of real runs, as Prometheus, a push gateway and probes get them."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import psycopg
import pytest
from brokers import broker
from harness import INGEST, Background, Kafka, debezium, finish, free_port, message, until
from postgres import running
from postgres_shop import Shop
from prometheus import RULES, get, prometheus, push_gateway, shortened
from prometheus_client.parser import text_string_to_metric_families

from ingest.model.standing import Standing, TableProgress
from ingest.observe.events import Pending
from ingest.observe.metrics import Metrics
from ingest.observe.observers import Health
from ingest.observe.serving import Exposition, MetricsServer, registry_of
from ingest.sandbox.broker import down

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from harness import Pipeline
    from shared_java import SharedJava

DASHBOARD = json.loads((RULES.parent / "dashboard.json").read_text())
QUERIES = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
OF_DATABASES = {
    text for text in QUERIES if any(name in text for name in ("pending_bytes", "_log_", "_snapshot_", "_marked"))
}
"""Queries that only a run has an answer to which reads a database."""
ALERTS_OF_DATABASES = {"IngestLogBehind", "IngestTableMarked"}
IGNORE = "  ingestion.ignore-errors: true\n"


def dirty(pipeline: Pipeline) -> tuple[int, int]:
    """Send changes of two tables, two records that are none, and a tombstone; returns the records and their bytes."""
    changes = [message("c", None, {"id": n, "v": n}, table="orders" if n % 4 else "users") for n in range(1000)]
    changes += [message("u", {"id": 1, "v": 1}, {"id": 1, "v": 2}), message("d", {"id": 2, "v": 2}, None)]
    sent: list[tuple[bytes | None, bytes | None]] = [*changes, (b"k", b"{"), (b"k", b"{"), (b'{"id":2}', None)]
    pipeline.kafka.send(pipeline.topic, *sent)
    return len(sent), sum(len(key or b"") + len(value or b"") for key, value in sent)


def port_of(said: str) -> int:
    """The port that a run says it listens on; 0 where it has said none yet."""
    for line in said.splitlines():
        if line.startswith("{") and (event := json.loads(line))["event"] == "metrics":
            return int(event["port"])
    return 0


def values(text: str) -> dict[tuple[str, frozenset[str]], float]:
    """Samples by name and the values of labels, without those that a gateway adds."""
    return {
        (
            sample.name,
            frozenset(value for name, value in sample.labels.items() if name not in {"job", "instance"}),
        ): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_prometheus_has_every_number_of_a_run_and_every_query_of_the_dashboard(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    often = "  properties.statistics.interval.ms: 50\n"
    pipeline.write(IGNORE + often, often)
    count, size = dirty(pipeline)
    run = pipeline.start("--metrics", "0")

    def port() -> int:
        return port_of(run.said())

    until(lambda: port() > 0, 60, run)
    try:
        with prometheus(tmp_path, port()) as server:
            until(lambda: get(f"http://127.0.0.1:{port()}/readyz")[0] == 200, 90, run)
            until(lambda: server.query("ingest_records_in_total") == {("pipe",): count}, 90, run)
            assert get(f"http://127.0.0.1:{port()}/livez") == (200, "ok\n")
            expected = {
                "ingest_bytes_in_total": {("pipe",): size},
                "ingest_records_out_total": {("pipe",): 1002},
                "ingest_rejects_total": {("malformed", "pipe", "decode"): 2},
                "ingest_skipped_records_total": {("pipe", "tombstone"): 1},
                "sum by (topic) (ingest_pending_records)": {(pipeline.topic,): 0},
                "sum by (topic) (ingest_offset)": {(pipeline.topic,): count},
                'sum by (table) (ingest_table_changes_total{change="insert"})': {
                    ("shop.orders",): 750,
                    ("shop.users",): 250,
                },
                'sum by (change) (ingest_table_changes_total{change!="insert"})': {
                    ("delete",): 1,
                    ("update",): 1,
                    ("reject",): 0,
                },
            }
            assert {query: server.query(query) for query in expected} == expected
            out = sum(
                len(r.key or b"") + len(r.value or b"")
                for t in ("orders", "users")
                for r in pipeline.kafka.read(pipeline.out(t))
            )
            assert server.query("ingest_bytes_out_total") == {("pipe",): out}
            assert server.query('sum(ingest_table_bytes_total{direction="out"})') == {(): out}
            of_rows = server.query('sum(ingest_table_bytes_total{direction="in"})')[()]
            assert 0.9 * size < of_rows < size, "two messages are broken, one is a tombstone"
            (lag,) = server.query("ingest_emit_event_time_lag_seconds").values()
            assert 0 < lag < 120
            (memory,) = server.query("ingest_worker_memory_bytes").values()
            assert 20 << 20 < memory < 2 << 30
            pipeline.kafka.send(pipeline.topic, message("c", None, {"id": 7000, "v": 1}))
            until(lambda: server.query("ingest_records_in_total") == {("pipe",): count + 1}, 60, run)
            trips = "ingest_client_round_trip_seconds"
            until(lambda: {client for client, _ in server.query(trips)} >= {"consumer", "producer"}, 30, run)
            assert all(0 <= seconds < 60 for seconds in server.query(trips).values())
            for text in (one for one in QUERIES if one not in OF_DATABASES):
                query = text.replace("$__rate_interval", "1m").replace("$pipeline", ".*").replace("$job", ".*")
                assert "$" not in query
                assert server.query(query), text
            rules = server.ask("rules")["groups"][0]["rules"]
            assert {rule["health"] for rule in rules} == {"ok"}, rules
            assert server.firing() == {"IngestRejects"}
    finally:
        run.terminate()
    ended = finish(run)
    assert ended.code == 0, ended.err


def test_a_run_that_is_over_leaves_its_numbers_in_a_file_and_at_a_push_gateway(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    file = tmp_path / "ingest.prom"
    with push_gateway(tmp_path) as url:
        pipeline.write(IGNORE, rest=f"pipeline: {{metrics.file: {file}, metrics.push-url: '{url}'}}\n")
        count, _ = dirty(pipeline)
        ended = pipeline.run()
        assert ended.code == 0, ended.err
        pushed = values(get(f"{url}/metrics")[1])
    written = values(file.read_text())
    of_all = frozenset({"pipe"})
    assert written["ingest_records_in_total", of_all] == count
    assert written["ingest_exit_code", of_all] == written["ingest_ready", of_all] == 0
    counters = {
        name: value for name, value in written.items() if name[0].startswith("ingest_") and name[0].endswith("_total")
    }
    assert len(counters) > 10
    assert {name: pushed[name] for name in counters} == counters


def pending(text: str) -> float:
    """Records that wait, as a run's metrics say."""
    return sum(value for (name, _), value in values(text).items() if name == "ingest_pending_records")


def soon(condition: Callable[[], bool]) -> None:
    """Wait for something that needs no run."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_each_alert_fires_for_its_fault_and_a_lost_database_is_visible(tmp_path: Path, shared_java: SharedJava) -> None:
    port, fired = free_port(), set[str]()

    def row(number: int) -> None:
        shop.add("c", None, {"id": number, "v": 1})

    def begin(url: str) -> Background:
        command = [INGEST, "run", str(shop.file), "--checkpoint", str(tmp_path / "c")]
        watched = ["--metrics", str(port), "--metrics-push", url]
        return shared_java.beside(lambda env: Background([*command, *watched], env, tmp_path))

    def asked(path: str) -> tuple[int, str]:
        return get(f"http://127.0.0.1:{port}{path}")

    def written() -> int:
        with suppress(psycopg.Error):  # the table is not there yet, or the server is not
            return len(shop.rows())
        return 0

    def fires(*names: str) -> bool:
        firing = server.firing()
        fired.update(firing & {*names})
        return firing >= {*names}

    with (
        running() as database,
        push_gateway(tmp_path) as url,
        prometheus(tmp_path, port, int(url.rpartition(":")[2]), rules=shortened(tmp_path)) as server,
    ):
        shop = Shop(tmp_path, database, shared_java)
        shop.write(IGNORE)
        row(1)
        run = begin(url)
        until(lambda: asked("/readyz") == (200, "ok\n") and written() == 1, 90, run)

        database.stop()
        until(lambda: asked("/readyz")[0] == 503, 60, run)
        assert asked("/readyz")[1].startswith("the sink does not answer: cannot connect at the database 127.0.0.1:")
        for number in range(2, 12):
            row(number)
            until(lambda number=number: pending(asked("/metrics")[1]) == number - 1, 30, run)  # type: ignore[misc]
        until(lambda: fires("IngestSideAway", "IngestNotReady", "IngestStuck", "IngestBehind"), 60, run)
        assert asked("/livez") == (200, "ok\n")
        (waits,) = [line for line in run.said().splitlines() if '"event": "waiting"' in line]
        assert '"side": "sink"' in waits

        database.start()
        until(lambda: asked("/readyz") == (200, "ok\n") and written() == 11, 60, run)
        assert '"event": "answers again"' in run.said()
        with shop.lines.open("a") as file:
            file.write("{\n")
        until(lambda: fires("IngestRejects"), 60, run)

        run.kill()
        run.wait(60)
        soon(lambda: fires("IngestDown", "IngestVanished"))

        run = begin(url)
        until(lambda: asked("/readyz") == (200, "ok\n") and fires("IngestRestarts"), 90, run)
        database.ask(f"DROP TABLE shop.{shop.table}")
        row(12)
        ended = finish(run)
        assert ended.code == 78, ended.err
        soon(lambda: fires("IngestFailed", "IngestCommitsFail"))
        rules = {rule["name"] for group in server.ask("rules")["groups"] for rule in group["rules"]}
    assert fired == rules - ALERTS_OF_DATABASES, "each rule has fired"


def test_a_database_that_is_behind_and_a_marked_table_are_visible(tmp_path: Path) -> None:
    port, health = free_port(), Health(60)
    metrics = Metrics("pipe", 10, health)
    listening = MetricsServer("127.0.0.1", port, Exposition(registry_of(metrics)), health)
    tables = {"shop.t": TableProgress(40, 100, 4, 10)}
    standing = Standing("log.000002", 99, 1000, lag_s=3.0, tables=tables, seconds_left=6.0, marked={"shop.t": "ALTER"})
    try:
        with prometheus(tmp_path, port, rules=shortened(tmp_path)) as server:

            def fires() -> bool:
                nonlocal standing
                standing = replace(standing, lag_bytes=standing.lag_bytes + 1000)
                metrics(Pending({}, standing))
                return server.firing() >= ALERTS_OF_DATABASES

            soon(fires)
            assert len(OF_DATABASES) == 5
            for text in OF_DATABASES:
                query = text.replace("$__rate_interval", "1m").replace("$pipeline", ".*")
                assert server.query(query), text
            assert server.query("ingest_log_offset") == {("log.000002", "pipe"): 99}
            assert server.query('ingest_snapshot_rows{state="left"}') == {("pipe", "left", "shop.t"): 60}
            metrics(Pending({}, Standing("log.000002", 99, 0)))
            soon(lambda: not server.firing() & ALERTS_OF_DATABASES)
    finally:
        listening.close()


def test_a_lost_broker_of_the_sink_is_visible_and_waited_for(tmp_path: Path, shared_java: SharedJava) -> None:
    port, lines, file = free_port(), tmp_path / "in.jsonl", tmp_path / "pipe.yaml"
    folder, address = tmp_path / "broker", free_port()
    sink = f"sink:\n  type: upsert-kafka\n  properties.bootstrap.servers: 127.0.0.1:{address}\n"
    key = "transform:\n  - {source-table: shop.orders, primary-keys: id}\n"
    file.write_text(f"source:\n  type: file\n  path: {lines}\n  scan.max.pre.fetch.records: 0\n{sink}{key}")

    def row(number: int) -> None:
        with lines.open("ab") as out:
            out.write(debezium("c", None, {"id": number}) + b"\n")

    def asked(path: str) -> tuple[int, str]:
        return get(f"http://127.0.0.1:{port}{path}")

    def written() -> set[int]:
        return Kafka(f"127.0.0.1:{address}").ids("shop.orders")

    row(0)
    broker(folder, address)
    command = [INGEST, "run", str(file), "--checkpoint", str(tmp_path / "c"), "--metrics", str(port)]
    with prometheus(tmp_path, port, rules=shortened(tmp_path)) as server:
        run = shared_java.beside(lambda env: Background(command, env, tmp_path))
        try:
            until(lambda: asked("/readyz") == (200, "ok\n") and pending(asked("/metrics")[1]) == 0, 90, run)
            assert written() == {0}
            down(folder)
            until(lambda: asked("/readyz")[0] == 503, 60, run)
            assert asked("/readyz")[1].startswith("the sink does not answer: ")
            for number in range(1, 4):
                row(number)
            until(lambda: pending(asked("/metrics")[1]) == 3, 30, run)
            until(lambda: {"IngestSideAway", "IngestNotReady"} <= server.firing(), 60, run)
            assert asked("/livez") == (200, "ok\n")
            broker(folder, address)
            until(lambda: asked("/readyz") == (200, "ok\n") and pending(asked("/metrics")[1]) == 0, 90, run)
            assert written() == {0, 1, 2, 3}
        finally:
            run.terminate()
            ended = finish(run)
            down(folder)
    assert ended.code == 0, ended.err


def test_a_port_that_is_taken_ends_the_run_before_java_starts(pipeline: Pipeline, kafka: Kafka) -> None:
    taken = kafka.bootstrap.rpartition(":")[2]
    ended = pipeline.run("--metrics", taken)
    assert ended.code == 78
    assert f"port {taken} of 0.0.0.0 cannot be had for metrics" in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.parametrize("url", ["file:///etc/passwd", "gateway", "http://"])
def test_a_push_gateway_has_a_url(pipeline: Pipeline, url: str) -> None:
    ended = pipeline.run("--metrics-push", url)
    assert ended.code == 2
    assert "a push gateway is at a URL" in ended.err

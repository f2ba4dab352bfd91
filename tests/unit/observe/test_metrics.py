"""Metrics of a run: what they say, under which names, and that nothing in a message makes them many or wrong."""

from __future__ import annotations

import math
import os
import re
from typing import TYPE_CHECKING, Any

import pytest
from counted import counting, done, measured, started
from harness import time_with
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from ingest.observe import metrics as module
from ingest.observe.events import (
    BatchDone,
    ClientStatistics,
    Pending,
    RunEnded,
    SchemaChanged,
    SideAnswers,
    TopicGrown,
    Warned,
)
from ingest.observe.metrics import BUCKETS, OTHERS, WINDOW_S, Flow, Metrics, Times
from ingest.observe.serving import Exposition, MetricsFile, registry_of
from ingest.task.task import TableCounters

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from prometheus_client.core import Metric

LABELS = (
    "stage", "code", "topic", "partition", "table", "change", "direction", "reason", "outcome", "le", "version",
    "client", "side", "file", "state",
)  # fmt: skip
REFERENCE = {
    "numRecordsIn", "numRecordsInPerSecond", "numBytesIn", "numBytesInPerSecond", "currentEmitEventTimeLag",
    "currentFetchEventTimeLag", "sourceIdleTime", "pendingRecords", "numRecordsOut", "numRecordsOutPerSecond",
    "numBytesOut", "numBytesOutPerSecond", "currentSendTime", "currentOffset", "committedOffset", "commitsSucceeded",
    "commitsFailed",
}  # fmt: skip
"""The metrics of alibaba-kafka.txt and alibaba-upsert-kafka.txt."""


def samples(metrics: Metrics) -> dict[tuple[str, tuple[str, ...]], float]:
    """What Prometheus reads: by name and the values of labels, without the pipeline's."""
    out: dict[tuple[str, tuple[str, ...]], float] = {}
    for family in text_string_to_metric_families(Exposition(registry_of(metrics))().decode()):
        for sample in family.samples:
            if sample.name.startswith("ingest_"):
                labels = dict(sample.labels)
                assert labels.pop("pipeline") == "p"
                values = tuple(labels[name] for name in LABELS if name in labels)
                assert len(values) == len(labels)
                assert (sample.name, values) not in out, "twice"
                out[sample.name, values] = sample.value
    return out


NUMBERS = st.one_of(
    st.integers(-(10**20), 10**20), st.floats(), st.sampled_from([0, 999_999, 1_000_000, -1_000_000, 0.1, math.inf])
)


class Some(Collector):
    """Families of one kind each."""

    def __init__(self, found: dict[str, float]) -> None:
        self._found = found

    def collect(self) -> Iterator[Metric]:
        for kind in (GaugeMetricFamily, CounterMetricFamily):
            family = kind(f"x_{kind.__name__}", "Text with \\\\ and\\na line.", labels=("pipeline", "a"))
            for text, number in self._found.items():
                family.add_metric(("p", text), number)
            yield family
        times = HistogramMetricFamily("h", "Times.", labels=("pipeline",))
        times.add_metric(("p",), [("1.0", 2.0), ("+Inf", 3.0)], 4.5)
        yield times
        yield GaugeMetricFamily("n", "Without labels.", value=2)


@given(st.dictionaries(st.text(), NUMBERS, max_size=5))
def test_the_text_is_that_of_the_library(found: dict[str, float]) -> None:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Some(found))
    text = Exposition(registry)
    assert text() == text() == generate_latest(registry)


def test_every_metric_of_the_reference_is_named_in_a_help_text() -> None:
    text = Exposition(registry_of(counting()))().decode()
    helps = " ".join(re.findall(r"^# HELP ingest_\S+ (.*)$", text, re.MULTILINE))
    assert {name for name in REFERENCE if re.search(rf"\b{name}\b", helps)} == REFERENCE


def test_a_batch_is_counted() -> None:
    metrics = counting()
    for event in (started(t=13), measured(), done(), measured(failed=True, commit_s=0.2), done(7.0), Warned("w")):
        metrics(event)
    metrics(SchemaChanged("shop.orders", "a new column"))
    found = samples(metrics)
    totals = {
        name: found[f"ingest_{name}_total", ()] for name in ("records_in", "bytes_in", "records_out", "bytes_out")
    }
    assert totals == {"records_in": 20, "bytes_in": 2000, "records_out": 16, "bytes_out": 1280}
    changes = {
        c: found["ingest_table_changes_total", ("shop.orders", c)] for c in ("insert", "update", "delete", "reject")
    }
    assert changes == {"insert": 10, "update": 4, "delete": 2, "reject": 4}
    sizes = {way: found["ingest_table_bytes_total", ("shop.orders", way)] for way in ("in", "out")}
    assert sizes == {"in": 1800, "out": 1280}
    assert found["ingest_rejects_total", ("decode", "malformed")] == 4
    assert found["ingest_skipped_records_total", ("tombstone",)] == 1
    assert found["ingest_pending_records", ("t", "0")] == 3
    assert found["ingest_offset", ("t", "0")] == 10
    assert found["ingest_fetch_event_time_lag_seconds", ()] == 1.5
    assert found["ingest_emit_event_time_lag_seconds", ()] == 2.5
    assert found["ingest_send_seconds", ()] == 0.25
    assert found["ingest_commits_total", ("succeeded",)] == found["ingest_commits_total", ("failed",)] == 1
    assert found["ingest_batch_seconds_bucket", ("0.5",)] == 1
    assert found["ingest_batch_seconds_bucket", ("10.0",)] == found["ingest_batch_seconds_count", ()] == 2
    assert found["ingest_commit_seconds_sum", ()] == 0.2
    assert found["ingest_worker_memory_bytes", ()] == 2 << 20
    assert found["ingest_schema_changes_total", ("shop.orders",)] == 1
    assert found["ingest_warnings_total", ()] == 1


def test_partitions_that_topics_have_got_are_shown_by_topic() -> None:
    metrics = counting(max_tables=2)
    for event in (TopicGrown("a", 2), TopicGrown("b", 1), TopicGrown("c", 4), TopicGrown("d", 8), TopicGrown("a", 3)):
        metrics(event)
    found = samples(metrics)
    assert [found["ingest_sink_unused_partitions", (topic,)] for topic in ("a", "b", OTHERS)] == [3, 1, 12]


def test_rates_are_of_the_last_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(module, "time", time_with(time=lambda: now))
    metrics = counting()
    now = 1010.0
    metrics(measured(records_in=100))
    assert samples(metrics)["ingest_records_in_per_second", ()] == pytest.approx(10)
    now = 1100.0
    metrics(measured(records_in=60))
    found = samples(metrics)
    assert found["ingest_records_in_per_second", ()] == pytest.approx(1)
    assert found["ingest_source_idle_seconds", ()] == 0
    now = 1170.0
    found = samples(metrics)
    assert found["ingest_records_in_per_second", ()] == 0
    assert found["ingest_source_idle_seconds", ()] == 70


def test_a_run_that_is_over_has_no_rates() -> None:
    metrics = counting()
    metrics(measured(records_in=100))
    assert samples(metrics)["ingest_records_in_per_second", ()] > 0
    metrics(RunEnded("p", exit_code=75))
    assert {n: v for (n, _), v in samples(metrics).items() if n.endswith("_per_second") and v} == {}


def test_batches_that_nobody_asks_about_take_no_memory() -> None:
    flow = Flow()
    for second in range(1000):
        flow.add(1, float(second))
    assert len(flow._recent) <= WINDOW_S + 1
    assert flow.per_second(999.0, 0.0) == pytest.approx(1, abs=0.1)


def test_what_waits_is_known_before_the_first_batch() -> None:
    metrics = counting()
    assert ("ingest_pending_records", ("t", "0")) not in samples(metrics)
    metrics(started(t=13))
    assert samples(metrics)["ingest_pending_records", ("t", "0")] == 13


def test_labels_are_bounded_and_nothing_is_left_out_of_sums() -> None:
    metrics = counting(max_tables=3)
    metrics(measured(
        tables={f"t{n}": TableCounters(inserted=1) for n in range(50)},
        table_bytes={f"t{n}": (1, 2) for n in range(50)},
        rejects={("decode", f"c{n}"): 1 for n in range(1000)},
        skipped={f"r{n}": 1 for n in range(1000)},
        positions={("t", n): n for n in range(20_000)},
        waiting={("t", n): 1 for n in range(20_000)},
    ))  # fmt: skip
    for number in range(50):
        metrics(SchemaChanged(f"t{number}", "new"))
    found = samples(metrics)
    by_name: dict[str, list[tuple[tuple[str, ...], float]]] = {}
    for (name, labels), value in found.items():
        by_name.setdefault(name, []).append((labels, value))
    assert len(by_name["ingest_table_changes_total"]) == 4 * 4
    for name, most, total in (
        ("ingest_table_changes_total", 16, 50), ("ingest_table_bytes_total", 8, 150),
        ("ingest_rejects_total", module.MAX_REASONS + 1, 1000),
        ("ingest_skipped_records_total", module.MAX_REASONS + 1, 1000),
        ("ingest_pending_records", module.MAX_SPLITS + 1, 20_000), ("ingest_schema_changes_total", 4, 50),
    ):  # fmt: skip
        assert len(by_name[name]) == most, name
        assert sum(value for _, value in by_name[name]) == total, name
        assert any(OTHERS in labels for labels, _ in by_name[name]), name
    assert len(by_name["ingest_offset"]) == module.MAX_SPLITS


@given(st.dictionaries(st.text(max_size=20), st.integers(0, 9), max_size=8), st.sampled_from(["", "a", "shop"]))
def test_hostile_names_are_labels_and_nothing_else(tables: dict[str, int], secret: str) -> None:
    """`clean` makes two names one: their numbers are added up, or Prometheus would refuse all of them."""
    metrics = counting(clean=lambda text: text.replace(secret, "***") if secret else text)
    encodable = {name.encode("utf-8", "replace").decode(): n for name, n in tables.items()}
    metrics(measured(tables={name: TableCounters(inserted=n) for name, n in encodable.items()}))
    found = {
        labels[0]: n
        for (name, labels), n in samples(metrics).items()
        if name == "ingest_table_changes_total" and labels[1] == "insert"
    }
    assert sum(found.values()) == sum(encodable.values())
    assert not secret or all(secret not in name for name in found)


def test_a_run_is_ready_while_it_runs_and_its_source_answers() -> None:
    metrics = counting()
    health = metrics._health

    def ready_after(event: Any) -> float:
        health(event)
        metrics(event)
        return samples(metrics)["ingest_ready", ()]

    assert samples(metrics)["ingest_ready", ()] == 0
    assert ready_after(started()) == 1
    assert ready_after(SideAnswers("source", answers=False)) == 0
    assert ready_after(SideAnswers("source", answers=True)) == 1
    assert ("ingest_exit_code", ()) not in samples(metrics)
    assert ready_after(RunEnded("p", exit_code=75)) == 0
    assert samples(metrics)["ingest_exit_code", ()] == 75


def test_records_that_wait_are_counted_between_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 5000.0
    monkeypatch.setattr(module, "time", time_with(time=lambda: now))
    metrics = counting()

    def waiting_and_stalled() -> tuple[float, float]:
        found = samples(metrics)
        waiting = sum(n for (name, _), n in found.items() if name == "ingest_pending_records")
        return waiting, found["ingest_stalled_seconds", ()]

    metrics(Pending({("t", 0): 0}))
    now += 3600
    assert waiting_and_stalled() == (0, 0)
    metrics(Pending({("t", 0): 5, ("t", 1): 2}))
    now += 30
    metrics(Pending({("t", 0): 6, ("t", 1): 2}))
    assert waiting_and_stalled() == (8, 30), "since records wait, not since the last batch"
    metrics(BatchDone(1, 4, 1.0, 4, 0, 0.1, 1, None))
    now += 10
    assert waiting_and_stalled() == (8, 10)
    metrics(Pending({("t", 0): 0}))
    assert waiting_and_stalled() == (0, 0)


def test_tables_past_the_limit_are_counted() -> None:
    metrics = counting(max_tables=3)
    for _ in range(2):
        metrics(measured(tables={f"shop.t{n}": TableCounters(inserted=1) for n in range(25)}, table_bytes={}))
    found = samples(metrics)
    assert found["ingest_tables", ()] == 25
    assert sum(1 for name, labels in found if name == "ingest_table_changes_total" and labels[1] == "insert") == 4


def test_each_side_has_a_number_of_its_own() -> None:
    metrics = counting()
    metrics._health(SideAnswers("sink", answers=False, why="away"))
    found = samples(metrics)
    assert (found["ingest_side_answers", ("source",)], found["ingest_side_answers", ("sink",)]) == (1, 0)


@given(st.lists(st.floats(0, 1e4)))
def test_buckets_count_what_is_at_most_as_long(times: list[float]) -> None:
    histogram = Times()
    for seconds in times:
        histogram.add(seconds)
    bounds = [*BUCKETS, math.inf]
    expected = [sum(seconds <= bound for seconds in times) for bound in bounds]
    assert [count for _, count in histogram.buckets()] == expected


def umask() -> int:
    """The umask of this process."""
    os.umask(now := os.umask(0))
    return now


def test_a_file_of_metrics_is_whole_and_its_failure_is_told_once(tmp_path: Path) -> None:
    told: list[Any] = []
    metrics = counting()
    metrics(measured())
    file = MetricsFile(tmp_path / "ingest.prom", Exposition(registry_of(metrics)), told.append)
    file(RunEnded("p"))
    assert 'ingest_records_in_total{pipeline="p"} 10.0' in (tmp_path / "ingest.prom").read_text()
    (written,) = tmp_path.iterdir()
    assert written.name == "ingest.prom"
    assert written.stat().st_mode & 0o044 == 0o044 & ~umask(), "a node exporter reads it, which is another user"
    lost = MetricsFile(tmp_path / "no" / "ingest.prom", Exposition(registry_of(metrics)), told.append)
    lost(RunEnded("p"))
    lost(RunEnded("p"))
    (warning,) = told
    assert "metrics cannot be written" in warning.text


STATISTICS = b"""{"msg_cnt": 5, "brokers": {
    "a:1/bootstrap": {"nodeid": -1, "rtt": {"avg": 9000000}},
    "a:1/1": {"nodeid": 1, "rtt": {"avg": 1500}, "throttle": {"avg": 250}, "txretries": 2,
              "req_timeouts": 1, "txerrs": 4},
    "a:2/2": {"nodeid": 2, "rtt": {"avg": 2500}, "rxerrs": 3}, "x": 5},
  "topics": {"t": {"partitions": {"0": {"fetchq_cnt": 7}, "-1": {}}}}}"""


def test_statistics_of_clients_are_the_newest_of_each_kind() -> None:
    metrics = counting()
    metrics(ClientStatistics("producer", STATISTICS))
    for broken in (b"{", b"[]", b'{"brokers": 1, "topics": {"t": 1}, "msg_cnt": "x"}'):
        metrics(ClientStatistics("consumer", broken))
    for number in range(100):
        metrics(ClientStatistics(f"of nobody {number}", b"{}"))
    found = {name: value for (name, labels), value in samples(metrics).items() if labels == ("producer",)}
    assert found == {
        "ingest_client_queued_records": 12, "ingest_client_round_trip_seconds": 0.0025,
        "ingest_client_throttled_seconds": 0.25, "ingest_client_retries": 3, "ingest_client_errors": 7,
    }  # fmt: skip
    kinds = {labels for name, labels in samples(metrics) if name == "ingest_client_errors"}
    assert len(kinds) == 20
    assert samples(metrics)["ingest_client_queued_records", ("consumer",)] == 0

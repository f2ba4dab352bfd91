"""`ingest top`: which metrics a target means, what is shown of them, and rates between two looks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import typer
from commands import called
from counted import measured

from ingest.cli.top import _size, _tables, place_of
from ingest.errors import ConfigError, Unavailable
from ingest.observe.events import BatchDone, RunStarted
from ingest.observe.exposition import Exposition
from ingest.observe.health import Health
from ingest.observe.metrics import Metrics, TableCounts
from ingest.observe.scrape import Scrape, read, scrapes
from ingest.observe.serving import MetricsServer, registry_of

if TYPE_CHECKING:
    from pathlib import Path

    from ingest.observe.events import Event


def events() -> list[Event]:
    return [
        RunStarted("p", 1, "c", 1, False, 5, True),
        measured(
            tables={"shop.orders": TableCounts(5, 2, 1, 2), "shop.users": TableCounts(1)},
            waiting={("t", 0): 3, ("t", 1): 4}, fetch_lag_s=0.5, emit_lag_s=1.5, send_s=0.1, failed=False,
        ),
        BatchDone(1, 10, 1.0, 7, 2, 0.5, 2048, None),
    ]  # fmt: skip


@pytest.fixture
def counted() -> tuple[Metrics, Health]:
    health = Health(60)
    metrics = Metrics("p", 100, health)
    for event in events():
        health(event)
        metrics(event)
    return metrics, health


def test_what_a_run_says_is_read_back(counted: tuple[Metrics, Health]) -> None:
    metrics, health = counted
    server = MetricsServer("127.0.0.1", 0, Exposition(registry_of(metrics)), health)
    try:
        (found,) = read(f"http://127.0.0.1:{server.port}/metrics").items()
    finally:
        server.close()
    name, scrape = found
    look = scrape.look(name, None)
    assert (look.pipeline, look.pending, look.rejects, look.commits) == ("p", 7, 2, {"succeeded": 1, "failed": 0})
    assert look.numbers["ready"] == 1
    assert look.numbers["fetch_event_time_lag_seconds"] == 0.5
    assert look.numbers["worker_memory_bytes"] == 2048 << 10
    assert [(one.table, [*one.counts.values()], one.rate, one.bytes_in, one.bytes_out) for one in look.tables] == [
        ("shop.orders", [5, 2, 1, 2], None, 900, 640), ("shop.users", [1, 0, 0, 0], None, 0, 0),
    ]  # fmt: skip


def test_a_narrow_terminal_has_names_of_tables_rather_than_their_bytes(counted: tuple[Metrics, Health]) -> None:
    (scrape,) = scrapes(Exposition(registry_of(counted[0]))().decode(), "here").values()
    look = scrape.look("p", None)
    headings = [[str(column.header) for column in _tables(look, 9, wide=wide).columns] for wide in (False, True)]
    assert headings[1] == [*headings[0], "bytes in", "bytes out"]
    assert [_size(count) for count in (1023, 1 << 10, 3 << 30, 5 << 40)] == ["1023 B", "1.0 KiB", "3.0 GiB", "5.0 TiB"]


def test_rates_are_those_between_two_looks_of_one_run() -> None:
    before = Scrape(10.0, {"start_time_seconds": 1.0}, tables={"a": {"insert": 5}, "b": {"insert": 50}})
    tables = {"a": {"insert": 25}, "b": {"insert": 52}, "c": {"insert": 1}}
    now = Scrape(12.0, {"start_time_seconds": 1.0}, tables=tables)
    assert [(one.table, one.rate) for one in now.look("p", before).tables] == [("a", 10.0), ("b", 1.0), ("c", 0.5)]
    another = Scrape(12.0, {"start_time_seconds": 2.0}, tables=tables)
    assert {one.rate for one in another.look("p", before).tables} == {None}


def test_targets(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    text = "source: {type: file, path: x}\nsink: {type: print}\n"
    file.write_text(f"{text}pipeline: {{metrics.port: 9400}}\n")
    written = tmp_path / "m.prom"
    written.touch()
    targets = ("h:9", ":9", "http://h:9", "https://h/x/m?a=b", str(file), str(written))
    assert [place_of(target, {}) for target in targets] == [
        "http://h:9/metrics", "http://localhost:9/metrics", "http://h:9/metrics", "https://h/x/m?a=b",
        "http://localhost:9400/metrics", str(written),
    ]  # fmt: skip
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"no pipeline\.metrics\.port"):
        place_of(str(file), {})
    with pytest.raises(typer.BadParameter):
        place_of("nothing", {})


def test_what_is_no_metrics_is_said() -> None:
    for text in ("", "up 1\n", "<html>\n", "ingest_commits_total 1\n"):
        with pytest.raises(Unavailable):
            scrapes(text, "there")
    with pytest.raises(Unavailable, match="does not answer"):
        read("http://127.0.0.1:1/metrics")
    with pytest.raises(Unavailable, match="cannot be read"):
        read("none.prom")


def test_the_command_looks_once(tmp_path: Path, counted: tuple[Metrics, Health]) -> None:
    path = tmp_path / "m.prom"
    path.write_bytes(Exposition(registry_of(counted[0]))())
    done = called("top", str(path), "--once", "-n", "1")
    assert done.code == 0, done.err
    assert "p  ready  1 batch" in done.out
    assert "waiting 7" in done.out
    assert "shop.orders" in done.out
    assert "and 1 more" in done.out
    done = called("top", str(path), "127.0.0.1:1", "--once", "--format", "json")
    assert done.code == 75
    assert [look["pipeline"] for look in json.loads(done.out)] == ["p"]
    assert "does not answer" in done.err

"""`ingest top`: which metrics a target means, what is shown of them, and rates between two looks."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING

import pytest
import typer
from commands import called
from counted import measured
from terminals import ESCAPE, on_terminal, plain

from ingest.cli.top import FIRST_OUT, HEADINGS, place_of, shown
from ingest.errors import ConfigError, Unavailable
from ingest.model.text import size
from ingest.observe.events import BatchDone, RunStarted
from ingest.observe.metrics import Metrics
from ingest.observe.observers import Health
from ingest.observe.scrape import Look, Scrape, Watcher, read, scrapes
from ingest.observe.serving import Exposition, MetricsServer, registry_of
from ingest.task.task import TableCounters

if TYPE_CHECKING:
    from pathlib import Path

    from ingest.observe.events import Event


def events() -> list[Event]:
    return [
        RunStarted("p", 1, "c", 1, False, 5, True),
        measured(
            tables={"shop.orders": TableCounters(10, 5, 2, 1, 2), "shop.users": TableCounters(1, 1)},
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


def test_a_terminal_of_any_width_has_whole_names_and_numbers() -> None:
    tables = {"shop.orders": {"insert": 12_345_678, "update": 2}, f"shop.{'x' * 60}": {"insert": 1, "reject": 33}}
    scrape = Scrape(1.0, {"ready": 1.0, "start_time_seconds": time.time()}, pending=123_456, tables=tables)
    look = scrape.look("a-pipeline-with-a-name", None)
    left_out = []
    for width in range(140, 21, -1):
        lines = [str(line) for line in shown([look], [], 9, width)]
        text = "\n".join(lines)
        here = {heading for heading in HEADINGS if heading not in text}
        assert here == set(FIRST_OUT[: len(here)])
        left_out.append(len(here))
        assert all(len(line) <= width for line in lines if line != f"shop.{'x' * 60}"), lines
        for whole in (*tables, "a-pipeline-with-a-name", "backlog 123,456"):
            assert whole in text
        for heading, number in (("inserted", "12,345,678"), ("rejected", "33")):
            assert (heading in here) != (number in text)
    assert left_out == sorted(left_out)
    assert {0, 2} < set(left_out), "all at 140, and fewer step by step"
    assert [size(count) for count in (1023, 1 << 10, 3 << 30, 5 << 40)] == ["1023 B", "1.0 KiB", "3.0 GiB", "5.0 TiB"]


def test_a_low_terminal_has_the_summaries_of_all_pipelines() -> None:
    scrape = Scrape(1.0, {"ready": 1.0}, tables={f"t{i}": {"insert": 1} for i in range(40)})
    looks = [scrape.look(name, None) for name in ("a", "b", "c")]
    for height in (12, 24, 40):
        lines = [str(line) for line in shown(looks, [], 15, 80, height)]
        assert len(lines) < max(height, 16)
        assert [line[0] for line in lines if "ready" in line] == ["a", "b", "c"]
    assert "and 32 more" in lines


def watched(*scrapes_: Scrape) -> Look:
    watcher = Watcher()
    return [watcher.look("here", "p", scrape) for scrape in scrapes_][-1]


def at(second: float, pending: float, read: float = 0, table: int = 0, began: float = 1.0, **numbers: float) -> Scrape:
    known = {"start_time_seconds": began, "records_in_total": read, "records_in_per_second": 999.0, **numbers}
    return Scrape(second, known, pending, tables={"a": {"insert": table}})


def test_rates_are_those_of_the_last_seconds_of_one_run() -> None:
    first, second = at(10, 500, 1000, 5), at(12, 500, 1400, 25)
    look = watched(first, second)
    assert (look.rates["records_in"], look.tables[0].rate) == (200, 10)
    look = watched(first)
    assert (look.rates["records_in"], look.tables[0].rate) == (999, None), "the run's own rate, of a minute"
    look = watched(first, second, at(13, 0, 50, 7, began=2.0))
    assert (look.rates["records_in"], look.tables[0].rate) == (999, None), "another run"
    busy = [at(10 + 2 * i, 500, 1000 * (i // 15), batch_seconds_sum=60, batch_seconds_count=2) for i in range(45)]
    assert all(watched(*busy[:n]).rates["records_in"] > 0 for n in range(20, 45)), "batches of 30 s, looks each 2 s"


def test_rates_fall_to_zero_when_a_run_is_idle_or_over(tmp_path: Path) -> None:
    idle = [at(10 + i, 0, 1000 if i else 0, 5 if i else 0) for i in range(12)]
    assert watched(*idle[:2]).rates["records_in"] == 1000
    look = watched(*idle)
    assert (look.rates["records_in"], look.tables[0].rate) == (0, 0)
    for gone in ({"exit_code": 0.0}, {"source_idle_seconds": 11.0}):
        assert watched(at(1, 0, 0, 0, 1.0, **gone)).rates["records_in"] == 0
    assert watched(at(1, 5, source_idle_seconds=11)).rates["records_in"] == 999, "a long batch"
    file = tmp_path / "m.prom"
    file.write_text('ingest_ready{pipeline="p"} 1\ningest_records_in_per_second{pipeline="p"} 50\n')
    (look,) = Watcher().looks(str(file))
    assert (look.rates["records_in"], look.silent_s) == (50, None)
    os.utime(file, (time.time() - 300, time.time() - 300))
    (look,) = Watcher().looks(str(file))
    assert look.rates["records_in"] == 0
    assert "its file was last written 5 min ago" in str(shown([look], [], 1, None)[0])


def test_the_time_left_of_a_backlog_is_said_while_it_goes_down() -> None:
    def said(*scrapes_: Scrape) -> str:
        return "\n".join(str(line) for line in shown([watched(*scrapes_)], [], 1, None))

    down = [at(10 + i, 100_000 - 1000 * i, 2000 * i) for i in range(11)]
    assert "backlog 90,000, about 1 min left" in said(*down)
    assert "left" not in said(down[0])
    assert "left" not in said(*(at(10 + i, 1000 * i, 10 * i) for i in range(5))), "it grows"
    assert "left" not in said(at(10, 900, 0), at(12, 800, 2000)), "what comes between two batches is no backlog"
    assert "left" not in said(*down, at(22, 89_000, 30_000, exit_code=75)), "nobody reads it any more"


def test_what_does_not_answer_is_said() -> None:
    (scrape,) = scrapes(
        'ingest_ready{pipeline="p"} 0\ningest_side_answers{pipeline="p",side="source"} 1\n'
        'ingest_side_answers{pipeline="p",side="sink"} 0\n', "here"
    ).values()  # fmt: skip
    assert "not ready: the sink does not answer" in str(shown([scrape.look("p")], [], 1, None)[0])


def test_q_ends_it_and_gives_the_terminal_back(tmp_path: Path, counted: tuple[Metrics, Health]) -> None:
    path = tmp_path / "m.prom"
    path.write_bytes(Exposition(registry_of(counted[0]))())
    for key in (b"q", b"xQ"):
        code, said = on_terminal("top", str(path), "--interval", "0.2", press=("q: quit", key), columns=100, rows=20)
        assert code == 0
        assert {"\x1b[?1049l", "\x1b[?25h"} <= {found[0] for found in ESCAPE.finditer(said[-20:])}
        screen = plain(said)
        assert "p  ready  1 batch" in screen
        assert "\x1b[32mready" in said
    code, said = on_terminal("top", str(path), "--once", env={"NO_COLOR": "1"})
    assert "\x1b[3" not in said
    assert "shop.orders" in said


def test_targets(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    text = "source: {type: file, path: x}\nsink: {type: print}\n"
    file.write_text(f"{text}pipeline: {{metrics.port: 9400}}\n")
    written = tmp_path / "m.prom"
    written.touch()
    targets = ("9", "9464", "h:9", ":9", "http://h:9", "https://h/x/m?a=b", str(file), str(written))
    assert [place_of(target, {}) for target in targets] == [
        "http://localhost:9/metrics", "http://localhost:9464/metrics",
        "http://h:9/metrics", "http://localhost:9/metrics", "http://h:9/metrics", "https://h/x/m?a=b",
        "http://localhost:9400/metrics", str(written),
    ]  # fmt: skip
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"no pipeline\.metrics\.port"):
        place_of(str(file), {})
    for wrong in ("nothing", "0", "65536", "h:99999", "٣"):
        with pytest.raises(typer.BadParameter):
            place_of(wrong, {})


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
    assert "backlog 7" in done.out
    assert "shop.orders" in done.out
    assert "and 1 more" in done.out
    done = called("top", str(path), "127.0.0.1:1", "--once", "--format", "json")
    assert done.code == 75
    assert [look["pipeline"] for look in json.loads(done.out)] == ["p"]
    assert "does not answer" in done.err

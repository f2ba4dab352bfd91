"""Where the reading of a database stands, as whoever looks gets it: each number with its unit, none called records."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from commands import called
from counted import counting, measured
from prometheus_client.parser import text_string_to_metric_families

from ingest.checkpoint.checkpoint import Checkpoint, Progress
from ingest.checkpoint.run_status import RunEnd, note_end, note_start, note_waiting, status
from ingest.checkpoint.storage import LocalStorage
from ingest.cli.log import Log, LogFormat, LogOptions
from ingest.cli.progress import Terminal
from ingest.cli.status import lines
from ingest.cli.top import shown
from ingest.model.standing import Standing, TableProgress
from ingest.observe.events import BatchDone, Pending, RunEnded, RunStarted
from ingest.observe.metrics import OTHERS
from ingest.observe.report import RunFacts, RunReport
from ingest.observe.scrape import Watcher, scrapes
from ingest.observe.serving import Exposition, registry_of
from ingest.sources.mysql.log_model import KnownFile, LogFiles, LogPlace, ServerIdentity
from ingest.sources.mysql.state import LOG, Piece, State, TableSnapshot

if TYPE_CHECKING:
    from pathlib import Path

TABLES = {"shop.orders": TableProgress(40, 100, 4, 10), "shop.users": TableProgress(0, 7, 0, 1)}
MIDDLE = Standing(
    "log.000002", 1234, 5_000_000, 1_795_000_000, 12.0, TABLES, 3, 1_000, 90.0, {"shop.items": "ALTER TABLE"}
)
CAUGHT_UP = Standing("log.000002", 9999, 0, 1_795_000_000)


def started(standing: Standing) -> RunStarted:
    return RunStarted("shop", 1, "c", 9, False, None, True, standing=standing)


def done(standing: Standing) -> BatchDone:
    return BatchDone(1, 10, 1.0, None, 0, 0.1, 1, None, standing)


def test_metrics_of_a_database() -> None:
    metrics = counting(max_tables=1)
    metrics(started(MIDDLE))
    metrics(measured(positions={}, waiting={}, standing=MIDDLE))
    text = Exposition(registry_of(metrics))().decode()
    found = {
        (
            sample.name.removeprefix("ingest_"),
            tuple(v for k, v in sample.labels.items() if k != "pipeline"),
        ): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    own = re.compile("pending|log_|offset|snapshot|table_mark")
    assert {name: value for name, value in found.items() if own.match(name[0])} == {
        ("pending_bytes", ()): 5_000_000, ("log_lag_seconds", ()): 12, ("log_offset", ("log.000002",)): 1234,
        ("snapshot_tables", ("done",)): 3, ("snapshot_tables", ("left",)): 2,
        ("snapshot_rows", ("done", "shop.orders")): 40, ("snapshot_rows", ("left", "shop.orders")): 60,
        ("snapshot_rows", ("done", OTHERS)): 0, ("snapshot_rows", ("left", OTHERS)): 7,
        ("snapshot_chunks", ("done", "shop.orders")): 4, ("snapshot_chunks", ("left", "shop.orders")): 6,
        ("snapshot_chunks", ("done", OTHERS)): 0, ("snapshot_chunks", ("left", OTHERS)): 1,
        ("snapshot_left_seconds", ()): 90, ("table_marked", ("shop.items",)): 1,
    }  # fmt: skip
    since = metrics._waiting_since
    metrics(Pending({}, CAUGHT_UP))
    assert (since is None, metrics._waiting_since) == (False, None), "a run that gets nothing done is stalled"
    (look,) = (Watcher().look("here", name, scrape) for name, scrape in scrapes(text, "here").items())
    top = "\n".join(str(line) for line in shown([look], [], 3, None))
    for part in (
        "log 4.8 MiB behind, 12 s", "at log.000002:1234",
        "snapshot of 2 tables: 40 of about 107 rows, about 1 min left",
        "marked: shop.items, whose rows may differ",
    ):  # fmt: skip
        assert part in top
    assert "backlog" not in top


@pytest.mark.parametrize("form", [LogFormat.JSON, LogFormat.TEXT])
def test_the_log_of_a_run(form: LogFormat, capsys: pytest.CaptureFixture[str]) -> None:
    out = io.StringIO()
    log = Log(frozenset(), out, LogOptions(form, verbose=True))
    for event in (started(MIDDLE), done(MIDDLE), Pending({}, CAUGHT_UP)):
        log(event)
    log(RunEnded("shop", stopped="drained", standing=replace(CAUGHT_UP, lag_bytes=2_048, lag_s=3.0)))
    first, batch, pending, ended = out.getvalue().splitlines()
    for line in (first, batch):
        fields = {
            "log": "log.000002:1234", "lag_bytes": 5_000_000, "lag_s": 12.0, "snapshot_tables": 2,
            "snapshot_rows_read": 1_040, "snapshot_rows_left": 67, "snapshot_left_s": 90,
        }  # fmt: skip
        if form is LogFormat.JSON:
            assert fields.items() <= json.loads(line).items()
            assert "lag" not in json.loads(line)
        else:
            assert all(f" {name}={value}" in line for name, value in fields.items())
    assert "records" not in pending
    assert "2048" in ended
    assert capsys.readouterr().out.endswith("ended: source drained; 2.0 KiB of the log, 3 s behind since then\n")


def test_the_live_line(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    show = Terminal(frozenset(), once=False)
    monkeypatch.setattr(show._live, "update", lambda text: said.append(str(text)))
    monkeypatch.setattr(show._console, "print", lambda text: said.append(str(text)))
    show(started(MIDDLE))
    what = "4.8 MiB of the log, 12 s behind; about 67 rows of 2 tables, about 1 min left"
    assert said == [f"shop starts at log.000002:1234; to read: {what}", "first batch …"]
    show(done(MIDDLE))
    assert said[-1].endswith(f"/s  {what}")
    show(Pending({}, CAUGHT_UP))
    assert said[-1].endswith("/s  waiting for records")
    monkeypatch.undo()
    show.close()


def test_the_page_about_a_run(tmp_path: Path) -> None:
    report = RunReport(tmp_path / "r.html", RunFacts("shop", "0", {}), lambda _: None)
    report(started(MIDDLE))
    report(measured(standing=MIDDLE))
    report(done(replace(MIDDLE, lag_bytes=400)))
    report.write()
    text = (tmp_path / "r.html").read_text()
    for part in (
        "<b>400 B</b>log backlog", "<b>12.0 s</b>log lag", "<b>67</b>snapshot rows left (estimate)",
        "snapshot time left (estimate)", "changes read", "average throughput (changes/s)",
        "<figcaption>Log backlog (bytes)<", "<figcaption>Snapshot rows left (estimate)<",
        "ingest backfill FILE --table shop.items",
        '<td>shop.orders</td><td class="n">40</td><td class="n">100</td>',
    ):  # fmt: skip
        assert part in text
    assert "Backlog" not in text
    assert "records read" not in text
    assert "records/s" not in text


def test_status_says_it_from_the_checkpoint_alone(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    checkpoint = Checkpoint(storage)
    checkpoint.bind({"source": {"type": "mysql"}})
    checkpoint.begin({})
    note_start(checkpoint, "run")
    state = State(
        LogFiles((ServerIdentity(1),), (KnownFile("log.000001", 0, 500), KnownFile("log.000002", 500, 900))),
        LogPlace("log.000002", 100, 500), read_time=1_795_000_000, marked={"shop.items": "ALTER TABLE"},
        tables_done=2, rows_done=50,
        snapshots=[TableSnapshot(("shop", "orders"), [Piece(("9",), 600), Piece(("19",))], rows=100, rows_read=10,
                                 chunk_rows=10, chunks=1)],
    )  # fmt: skip
    checkpoint.done(Progress(1, {LOG: 600}, source_state=state.to_json()), {}, None, MIDDLE.lag())
    found = status(checkpoint)
    assert (found["waiting"], found["lag"]["bytes"], found["position"]) == (
        None, 5_000_000, {"file": "log.000002", "offset": 100},
    )  # fmt: skip
    assert found["snapshot"]["tables"] == {"shop.orders": {"read": 10, "rows": 100, "chunks_read": 1, "chunks": 10}}
    text = [*lines(found | {"pipeline": "shop"}, 1_795_000_060)]
    for part in (
        "  log:        read up to log.000002:100; what was read last was logged 1 min ago",
        "  snapshot:   60 of about 150 rows read; 2 of 3 tables done",
        "  marked:     shop.items, whose rows may differ: ALTER TABLE (ingest backfill FILE --table shop.items)",
    ):
        assert part in text
    assert text[2].startswith(
        "  backlog:    4.8 MiB of the log, 12 s behind; about 67 rows of 2 tables, about 1 min left, after"
    )
    shown = called("checkpoint", "show", str(tmp_path)).out
    for part in (
        "the log is read up to log.000002:100\n",
        "table shop.orders is being read: 10 of about 100 rows, 1 of about 10 chunks\n", "table shop.items is marked, ",
    ):  # fmt: skip
        assert part in shown
    assert "snapshot" not in shown, "splits mean nothing to people"
    options = called("checkpoint", "export", str(tmp_path), "--format", "offsets").out
    assert options.splitlines()[1:] == [
        "scan.startup.specific-offset.file: log.000002", "scan.startup.specific-offset.pos: 100",
    ]  # fmt: skip
    refused = called("checkpoint", "reset", str(tmp_path), "--to", "latest", "--dry-run")
    assert (refused.code, "cannot be set" in refused.err) == (78, True)
    note_waiting(checkpoint, None, CAUGHT_UP.lag())
    assert "  backlog:    nothing, counted " in "\n".join(lines(status(checkpoint) | {"pipeline": "shop"}, 2e9))
    note_end(checkpoint, RunEnd(2_000_000_000_000, 0, "", "", None, replace(CAUGHT_UP, lag_bytes=5).lag()))
    assert "5 B of the log, when the run ended" in "\n".join(lines(status(checkpoint) | {"pipeline": "shop"}, 2e9))
    storage.close()


def test_rows_of_a_table_are_estimated_until_they_are_read() -> None:
    table = TableSnapshot(("shop", "t"), rows=95)
    assert table.progress == TableProgress(0, 95, 0, 1), "not cut yet"
    table.chunk_rows, table.pieces = 10, [Piece(("9",)), Piece(("19",))]
    assert table.progress == TableProgress(0, 95, 0, 10)
    table.mark(("9",), 100, 10)
    assert table.progress == TableProgress(10, 95, 1, 10)
    table.rows = 5
    assert table.progress == TableProgress(10, 21, 1, 3), "one chunk is cut, and something is behind it"
    table.rest = False
    table.rows = 1000
    assert table.progress == TableProgress(10, 20, 1, 2), "no more than the chunks that are left have room for"
    table.mark(("19",), 100, 7)
    table.mark(("19",), 120, 7)
    assert table.progress == TableProgress(17, 17, 2, 2)

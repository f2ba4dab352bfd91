"""The report of a run: what it shows, that it is bounded, and that nothing of a message is more than text in it."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from counted import measured
from hypothesis import given
from hypothesis import strategies as st

from ingest.observe import report as module
from ingest.observe.events import (
    BatchDone,
    Event,
    Pending,
    RejectEvent,
    RunEnded,
    RunStarted,
    SchemaChanged,
    SideAnswers,
    Stopping,
    TableSummary,
    Warned,
)
from ingest.observe.report import DatedChange, RunFacts, RunReport
from ingest.observe.report_page import HEIGHT, WIDTH, Axes, between_labels, nice, short, span
from ingest.task.task import TableCounters

if TYPE_CHECKING:
    from pathlib import Path

EVIL = "<script>alert(1)</script>\"'&"


class Reader(HTMLParser):
    """Tags and texts of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        assert not [name for name, _ in attrs if name.startswith("on") or name in {"src", "href"}]
        if tag not in {"meta", "line", "polyline", "polygon", "rect"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self.open:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == []
    return reader


def done(number: int, records: int = 10) -> BatchDone:
    return BatchDone(number, records, 1.0, 7, 1, 0.5, 1000, None)


def test_a_page_shows_the_run_and_nothing_in_it_is_markup(tmp_path: Path) -> None:
    said: list[Event] = []
    facts = RunFacts(EVIL, "0.1.0", {"source.topic": EVIL, "sink.password": "hidden"})
    report = RunReport(tmp_path / "r.html", facts, said.append, lambda text: text.replace("hunter2", "********"))
    report(RunStarted(EVIL, 3, EVIL, 1, True, 20, False, (EVIL,)))
    report(SchemaChanged(EVIL, f"ADD COLUMN {EVIL} STRING"))
    report(RejectEvent(EVIL, f"{EVIL} hunter2", "decode", EVIL))
    report(Warned(EVIL))
    report(measured(rejects={("decode", EVIL): 4}))
    report(done(1))
    report(RunEnded(EVIL, 1, 10, 2.5, 4, {EVIL: TableSummary(10, 9, 0, 0, 1, 1)}, exit_code=65, stopped=EVIL))
    text = (tmp_path / "r.html").read_text()
    found = read(text)
    assert "script" not in found.tags
    assert "hunter2" not in text
    assert said == []
    for shown in ("Failed with exit code 65", "run 3", "Rejected records", "Warnings", "Options", "source.topic"):
        assert shown in found.text
    assert found.text.count(EVIL) >= 9
    assert "default-src 'none'" in text


def test_the_history_is_that_of_the_checkpoint_where_it_can_be_read(tmp_path: Path) -> None:
    report = RunReport(tmp_path / "r.html", RunFacts("p", "0", {}), lambda _: None)
    report(SchemaChanged("t", "ADD COLUMN now INT"))
    report.write()
    assert "ADD COLUMN now INT" in (tmp_path / "r.html").read_text()
    report.write([DatedChange(0.0, "t", "CREATE TABLE (then INT)")])
    text = (tmp_path / "r.html").read_text()
    assert "ADD COLUMN now INT" not in text
    assert "CREATE TABLE (then INT)" in text
    assert "1970-01-01 00:00:00 UTC" in text


def test_what_is_kept_has_limits(tmp_path: Path) -> None:
    facts = RunFacts("p", "0", {})
    report = RunReport(tmp_path / "r.html", facts, lambda _: None)
    for number in range(5_000):
        report(Warned("w"))
        report(RejectEvent("t", "x", "decode", f"c{number}"))
        report(RejectEvent("t", "x", "decode", "c0"))
        report(SchemaChanged(f"t{number}", "x"))
        report(measured(rejects={("decode", f"c{number}"): 1}, tables={f"t{number}": TableCounters(1)}))
        report(done(number))
        report(Pending({("t", 0): number}))
    assert len(facts.points) <= module.MAX_POINTS
    assert sum(point.records for point in facts.points) == 50_000
    assert all(left.ended <= right.began for left, right in zip(facts.points, facts.points[1:], strict=False))
    assert len(facts.backlog) <= module.MAX_POINTS
    assert max(records for _, records in facts.backlog) == 4_999, "the highest of neighbours is kept"
    assert len(facts.tables) == module.MAX_TABLES + 1
    assert sum(table.read for table in facts.tables.values()) == 5_000
    assert len(facts.samples) == len(facts.rejects) == module.MAX_CODES
    assert len(facts.samples["decode", "c0"]) == module.MAX_SAMPLES
    assert (len(facts.warnings), len(facts.changes)) == (module.MAX_WARNINGS, module.MAX_CHANGES)


def test_only_what_is_close_together_becomes_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wall = Wall(monkeypatch)
    facts = RunFacts("p", "0", {})
    report = RunReport(tmp_path / "r.html", facts, lambda _: None)
    report(RunStarted("p", 1, "c", 1, False, 5_000, True))
    monkeypatch.setattr(report, "write", lambda: None)
    for number in range(500):
        wall.now += 1
        report(BatchDone(number, 10, 1.0, 5_000 - 10 * number, 0, 0.5, 1000, None))
    for number in range(5_000):
        wall.now += 60
        report(BatchDone(number, 10, 1.0, number % 2, 0, 0.5, 1000, None))
    assert max(len(facts.points), len(facts.backlog)) <= module.MAX_POINTS
    assert sum(point.records for point in facts.points) == 55_000
    pixel = (wall.now - facts.since) / WIDTH
    assert max(point.ended - point.began for point in facts.points) <= 5 * pixel
    assert [at for at, records in facts.backlog if records > 1][-1] - facts.since <= 505 + 3 * pixel


class Wall:
    """The time of the report, which a test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_790_000_000.0
        monkeypatch.setattr(module, "time", SimpleNamespace(time=lambda: self.now, monotonic=lambda: self.now))


def figure(page: str, title: str) -> str:
    (found,) = re.findall(rf"<figure><figcaption>{re.escape(title)}</figcaption>.*?</figure>", page, re.DOTALL)
    return str(found)


def times(figure: str) -> list[str]:
    return re.findall(rf'y="{HEIGHT - 6}" text-anchor="\w+">([^<]*)<', figure)


def test_a_page_is_written_at_the_start_and_while_no_batch_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wall, file = Wall(monkeypatch), tmp_path / "r.html"
    report = RunReport(file, RunFacts("p", "0", {}), lambda _: None)
    wall.now += 5
    report(RunStarted("p", 1, "c", 1, False, 20, True))
    shown = read(file.read_text()).text
    assert "started 2026-09-21 14:13:20 UTC" in shown, "when it began to connect"
    assert "Running. Written 2026-09-21 14:13:25 UTC" in shown
    assert file.stat().st_mode & 0o777 == 0o600, "it has parts of messages"
    report(measured(tables={"shop.orders": TableCounters(10, 9, 0, 0, 1)}))
    report(measured(tables={"shop.orders": TableCounters(10, 4, 3, 3, 0), "<b>": TableCounters(1, 1)}))
    report(SideAnswers("sink", answers=False, why="refused", away_s=29.0))
    wall.now += 31
    report(SideAnswers("sink", answers=False, why="no answer", away_s=60.0))
    report(Pending({("t", 0): 1_234}))
    text = file.read_text()
    found = read(text)
    assert "The sink has not answered for 1 min 0 s: no answer" in found.text
    row = re.search(r"<tr><td>shop.orders</td>(.*?)</tr>", text)
    assert row is not None
    assert re.findall(r">(\d+)<", row[1]) == ["20", "13", "3", "3", "1"]
    wall.now += 31
    report(SideAnswers("sink", answers=True))
    text = file.read_text()
    assert "has not answered" not in text
    assert "<b>1,234</b>backlog (records)" in text, "what waits now, though no batch completed"
    before = file.read_text()
    wall.now += 31
    report(Stopping("SIGTERM", now=False))
    assert file.read_text() == before, "that event comes in a signal handler"


def test_sparse_batches_are_bars_and_the_backlog_is_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wall, file = Wall(monkeypatch), tmp_path / "r.html"
    report = RunReport(file, RunFacts("p", "0", {}), lambda _: None)
    report(RunStarted("p", 1, "c", 1, False, 600, True))
    for minute in (10, 20):
        wall.now += 600
        report(measured(emit_lag_s=2.5))
        report(BatchDone(minute, 600, 60.0, 1_200 if minute == 10 else 0, 2, 0.5, 1000, None))
    wall.now += 2_400  # nothing comes any more
    report(RunEnded("p", 2, 1_200, 3_600.0, 4, {"t": TableSummary(1_200)}, stopped="signal", left={"t": 30}))
    text = file.read_text()
    titles = ["Throughput (records/s)", "Backlog (records)", "Event-time lag (s)", "Rejected records per batch"]
    assert re.findall("<figcaption>([^<]*)<", text) == titles
    for title in titles:
        assert times(figure(text, title)) == ["0", "10 min", "20 min", "30 min", "40 min", "50 min", "1 h"]
    left, right = 62.0, WIDTH - 14.0

    def at(minute: float) -> float:
        return round(left + (right - left) * minute / 60, 1)

    for title in (titles[0], *titles[2:]):
        bars = re.findall(r'<rect class="bar" x="([\d.]+)" width="([\d.]+)"', figure(text, title))
        ends = [(float(x), round(float(x) + float(width), 1)) for x, width in bars]
        assert ends == [(at(9), at(10)), (at(19), at(20))], "no line over minutes in which nothing happened"
    heights = re.findall(r'<rect class="bar".*? height="([\d.]+)"', figure(text, titles[0]))
    assert heights == [f"{HEIGHT - 12 - 24:.1f}"] * 2, "600 records in 60 s: 10/s, the top of the axis"
    (steps,) = re.findall(r'polyline class="curve" points="([^"]*)"', figure(text, titles[1]))
    xs = [float(point.split(",")[0]) for point in steps.split(" ")]
    ys = [float(point.split(",")[1]) for point in steps.split(" ")]
    assert xs == [at(0), at(10), at(10), at(20), at(20), at(60), at(60), at(60)]
    assert ys[::2] == ys[1::2], "each value holds until the next one"
    assert "<b>30</b>backlog (records)" in text
    assert "<b>1 h 0 min</b>duration" in text


def test_a_page_that_cannot_be_written_is_said_once(tmp_path: Path) -> None:
    said: list[Event] = []
    report = RunReport(tmp_path / "none" / "r.html", RunFacts("p", "0", {}), said.append)
    report.write()
    report.write()
    assert len(said) == 1
    assert "the report cannot be written" in str(said[0])


@given(
    st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1e15)), min_size=1, max_size=20).map(sorted),
    st.floats(0, 1e6),
    st.floats(0, 1e6),
    st.booleans(),
)
def test_a_chart_has_all_values_within_it(
    points: list[tuple[float, float]], before: float, after: float, whole: bool
) -> None:
    axes = Axes(points[0][0] - before, points[-1][0] + after, whole)
    steps = axes.steps("x", points)
    read(steps)
    (path,) = re.findall(r'polyline class="curve" points="([^"]*)"', steps)
    places = [tuple(map(float, place.split(","))) for place in path.split(" ")]
    assert len(places) == 2 * len(points)
    assert all(62 <= x <= 626.1 and 11.9 <= y <= 166.1 for x, y in places)
    bars = axes.bars("x", [(max(axes.since, at - 1), at, value) for at, value in points])
    read(bars)
    found = re.findall(r'rect class="bar" x="([\d.]+)" width="([\d.]+)" y="([\d.]+)" height="([\d.]+)"', bars)
    assert len(found) == len(points)
    for x, width, y, height in (map(float, bar) for bar in found):
        assert 62 <= x <= x + width <= 628.1
        assert width >= 2, "it can be seen"
        assert 11.9 <= y <= y + height <= 166.2


@given(st.floats(0, 1e8))
def test_an_axis_of_time_has_few_labels_of_whole_units(seconds: float) -> None:
    step = between_labels(max(1.0, seconds))
    assert 0 <= seconds / step <= 7
    assert seconds < 14 * 86_400 * 7 or step % 86_400 == 0
    assert seconds < 120 or step % 60 == 0, "whole minutes"
    assert seconds < 2 or seconds / step >= 1, "and labels there are"


def test_numbers_of_charts_are_short() -> None:
    assert [nice(step) for step in (0.03, 1, 1.1, 4, 7, 1200)] == pytest.approx([0.05, 1, 2, 5, 10, 2000])
    assert [short(value) for value in (0, 12, 1500, 2_500_000, 3e9)] == ["0", "12", "1.5 k", "2.5 M", "3 G"]
    shown = ["0", "45 s", "10 min", "1 h", "1 h 30 min", "36 h", "3 d"]
    assert [span(seconds) for seconds in (0, 45, 600, 3_600, 5_400, 129_600, 259_200)] == shown


def test_counts_have_no_halves_on_their_axis() -> None:
    assert ">0.5<" not in Axes(0, 10).steps("x", [(0, 1.0)])
    assert ">0.5<" in Axes(0, 10, whole=False).steps("x", [(0, 1.0)])

"""The report of a run: what it shows, that it is bounded, and that nothing of a message is more than text in it."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest
from counted import measured
from hypothesis import given
from hypothesis import strategies as st

from ingest.observe import report as module
from ingest.observe.chart import chart, nice, short, span
from ingest.observe.events import (
    BatchDone,
    Event,
    RejectEvent,
    RunEnded,
    RunStarted,
    SchemaChanged,
    TableSummary,
    Warned,
)
from ingest.observe.report import DatedChange, RunFacts, RunReport

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
        if tag not in {"meta", "line", "polyline", "polygon", "circle"}:
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
        report(measured(rejects={("decode", f"c{number}"): 1}))
        report(done(number))
    assert len(facts.points) <= module.MAX_POINTS
    assert sum(point.records for point in facts.points) == 50_000
    assert all(left.ended == right.began for left, right in zip(facts.points, facts.points[1:], strict=False))
    assert len(facts.samples) == len(facts.rejects) == module.MAX_CODES
    assert len(facts.samples["decode", "c0"]) == module.MAX_SAMPLES
    assert (len(facts.warnings), len(facts.changes)) == (module.MAX_WARNINGS, module.MAX_CHANGES)


def test_a_page_is_written_while_the_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WRITTEN_S", -1.0)
    report = RunReport(tmp_path / "r.html", RunFacts("p", "0", {}), lambda _: None)
    report(done(1))
    assert "The run goes on" in (tmp_path / "r.html").read_text()
    assert (tmp_path / "r.html").stat().st_mode & 0o777 == 0o600, "it has parts of messages"


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
)
def test_a_chart_has_all_points_within_it(points: list[tuple[float, float]], before: float) -> None:
    since = points[0][0] - before
    drawn = chart("x", since, points)
    read(drawn)
    (path,) = re.findall(r'polyline class="curve" points="([^"]*)"', drawn)
    places = [tuple(map(float, place.split(","))) for place in path.split(" ")]
    assert len(places) == len(points)
    assert all(62 <= x <= 626.1 and 11.9 <= y <= 166.1 for x, y in places)


def test_numbers_of_charts_are_short() -> None:
    assert [nice(step) for step in (0.03, 1, 1.1, 4, 7, 1200)] == pytest.approx([0.05, 1, 2, 5, 10, 2000])
    assert [short(value) for value in (0, 12, 1500, 2_500_000, 3e9)] == ["0", "12", "1.5 k", "2.5 M", "3 G"]
    assert [span(seconds) for seconds in (4.5, 600, 7200)] == ["4.5 s", "10 min", "2 h"]

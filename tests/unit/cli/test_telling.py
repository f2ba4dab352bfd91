"""What a run shows on a terminal and in its log, and what a signal does to it."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from commands import called
from counted import measured
from driverparts import Hands

from ingest.cli import summary
from ingest.cli.log import MAX_KINDS, Log, LogFormat, LogOptions, Repeats
from ingest.cli.progress import Terminal, observer_for
from ingest.cli.summary import print_summary, table_lines
from ingest.errors import INTERRUPTED
from ingest.model.commit import ClientReport, reports
from ingest.observe.events import (
    Alive,
    BatchDone,
    ClientLogged,
    Event,
    OptionChanged,
    Pending,
    Printed,
    RejectEvent,
    RunEnded,
    RunStarted,
    SideAnswers,
    Stopping,
    TableSummary,
    Warned,
    client_events,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


def started(lag: int) -> RunStarted:
    return RunStarted("shop", 1, "c", 2, resumed=False, lag=lag, native=True)


def batch(lag: int) -> BatchDone:
    return BatchDone(1, 10, 1.0, lag, 0, 0.1, 1, None)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Terminal, list[str]]]:
    """A terminal, and what it has shown so far: its live line, and what scrolled by."""
    shown: list[str] = []
    made = Terminal(frozenset(), once=False)
    monkeypatch.setattr(made._live, "update", lambda text: shown.append(str(text)))
    monkeypatch.setattr(made._console, "print", lambda text: shown.append(str(text)))
    yield made, shown
    monkeypatch.undo()
    made.close()


def test_an_idle_run_says_that_it_waits(terminal: tuple[Terminal, list[str]]) -> None:
    show, shown = terminal
    show(started(lag=0))
    assert shown[-1] == "waiting for records …"
    show(started(lag=5))
    assert shown[-1] == "first batch …"
    show(batch(lag=0))
    assert shown[-1].endswith("backlog 0  waiting for records")
    show(batch(lag=7))
    assert shown[-1].endswith("backlog 7")
    show(Stopping("SIGINT", now=False))
    assert shown[-1] == "finishing the batch in progress; a second signal ends at once"


def test_rates_fall_to_zero_and_the_time_left_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    hands, shown = Hands(), list[str]()
    show = Terminal(frozenset(), once=False, now=hands.clock.now)
    monkeypatch.setattr(show._live, "update", lambda text: shown.append(str(text)))
    show(started(lag=100_000))
    show(Alive())
    assert shown[-1] == "first batch …", "there is no rate yet"
    for lag in (90_000, 80_000):
        hands.move(5)
        show(BatchDone(1, 10_000, 5.0, lag, 0, 0.1, 1, None))
    assert shown[-1] == "20,000 records  2,000/s  backlog 80,000  about 40 s left"
    hands.move(5)
    show(Pending({("t", 0): 150_000}))
    assert shown[-1].endswith("backlog 150,000"), "more comes than is read"
    hands.move(5)
    show(BatchDone(1, 150_000, 1.0, 0, 0, 0.1, 1, None))
    assert shown[-1] == "170,000 records  15,000/s  backlog 0  waiting for records"
    for _ in range(10):
        hands.move(1)
        show(Alive())
    assert shown[-1] == "170,000 records  0/s  backlog 0  waiting for records"
    show(SideAnswers("source", answers=False, why="refused", away_s=2))
    show(Alive())
    assert shown[-1] == "waiting for the source for 2 s"
    show.close()


def test_a_drain_says_when_it_ends_also_without_a_backlog_of_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    hands, shown = Hands(), list[str]()
    show = Terminal(frozenset(), once=True, now=hands.clock.now)
    monkeypatch.setattr(show._live, "update", lambda text: shown.append(str(text)))
    show(started(lag=1000))
    hands.move(1)
    show(BatchDone(1, 900, 1.0, 100, 0, 0.1, 1, None))
    show(Pending({("t", 0): 5000}))
    assert shown[-1] == "900 records  900/s  backlog 100  about 0 s left", "what comes after the start is not read"
    show.close()


def test_a_summary_fits_a_narrow_terminal_and_cuts_nothing() -> None:
    rows = [summary.HEADINGS, ("shop.a_table_with_a_long_name", "1,234,567", "1,234,567", "0", "0", "12", "3")]
    for width in (200, 90, 60, 34, 20, 10):
        lines = [str(line) for line in table_lines(rows, width, summary.FIRST_OUT)]
        text = "".join(lines)
        assert rows[1][0] in text
        shown = [heading for heading in summary.HEADINGS if heading in lines[0].split("  ")[0:] or heading in lines[0]]
        for heading, number in zip(summary.HEADINGS, rows[1], strict=True):
            assert (heading in shown) <= (number in text)
        assert all(len(line) <= width or line == rows[1][0] for line in lines), lines
    assert "schema changes" in str(next(iter(table_lines(rows, None, summary.FIRST_OUT))))


def logged(event: Event) -> dict[str, Any]:
    stream = io.StringIO()
    Log(frozenset({"hunter2"}), stream)(event)
    found: dict[str, Any] = json.loads(stream.getvalue())
    return found


def test_a_side_that_is_away_is_logged_and_shown(terminal: tuple[Terminal, list[str]]) -> None:
    show, shown = terminal
    away = SideAnswers("sink", answers=False, why="refused by hunter2", away_s=61.2, news=True)
    assert logged(away).items() >= {
        "event": "waiting", "level": "warning", "side": "sink", "away_s": 61, "why": "refused by ********",
    }.items()  # fmt: skip
    show(away)
    assert shown[-2:] == ["waiting for the sink for 61 s", "the sink does not answer: refused by hunter2"]
    show(SideAnswers("sink", answers=False, why="refused", away_s=63.2))
    assert shown[-1] == "waiting for the sink for 63 s", "the line lives, and nothing scrolls by"
    back = SideAnswers("sink", answers=True, away_s=70, news=True)
    assert logged(back).items() >= {"event": "answers again", "level": "info", "side": "sink", "away_s": 70}.items()
    show(back)
    assert shown[-1] == "the sink answers again, after 70 s"
    stream, count = io.StringIO(), len(shown)
    show(SideAnswers("sink", answers=True))
    Log(frozenset(), stream)(SideAnswers("sink", answers=True))
    assert (stream.getvalue(), len(shown)) == ("", count), "no news"


def test_lines_that_a_client_repeats_are_counted() -> None:
    hands, stream = Hands(), io.StringIO()
    log = Log(frozenset(), stream)
    log._repeats = Repeats(hands.clock.now)
    for second in range(100):
        for facility in ("FAIL", "ERROR"):
            log(ClientLogged("producer", 3, facility, f"{facility} {second}"))
        hands.move(1)
    log(RunEnded("p"))
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    told = [(line["facility"], line.get("text"), line.get("more")) for line in lines if line["event"] == "kafka client"]
    assert told == [
        ("FAIL", "FAIL 0", None), ("ERROR", "ERROR 0", None), ("FAIL", "FAIL 60", 59), ("ERROR", "ERROR 60", 59),
        ("ERROR", None, 39), ("FAIL", None, 39),
    ]  # fmt: skip


def test_kinds_of_lines_have_a_limit() -> None:
    repeats = Repeats(Hands().clock.now)
    for number in range(2 * MAX_KINDS):
        assert repeats.more("producer", 3, f"F{number}") == 0
    assert len(repeats._kinds) == MAX_KINDS


def test_what_a_client_tells_of_itself_is_logged_and_not_shown(terminal: tuple[Terminal, list[str]]) -> None:
    class Reader:
        def report(self) -> ClientReport:
            return ClientReport("consumer", ((3, "FAIL", "of hunter2"), (4, "SLOW", "still")), 2, b'{"age":1}')

    class Quiet:
        def report(self) -> None:
            return None

    show, shown = terminal
    before = [*shown]
    events = [*client_events(reports(Reader(), Quiet(), None))]
    for event in events:
        show(event)
    assert shown == before
    told = [
        (line["level"], line.get("facility"), line.get("text"), line.get("statistics")) for line in map(logged, events)
    ]
    assert told == [
        ("error", "FAIL", "of ********", None), ("warning", "SLOW", "still", None),
        ("warning", "LOST", "2 lines before these were not kept", None), ("info", None, None, {"age": 1}),
    ]  # fmt: skip


def test_the_log_says_how_a_run_ended() -> None:
    good = logged(RunEnded("shop", 2, 30, 1.5, stopped="drained", left={"a": 0}))
    assert (good["level"], good["exit_code"], good["left"], good["records"]) == ("info", 0, 0, 30)
    bad = logged(RunEnded("shop", 1, 3, 1.5, 1, stopped="no hunter2", exit_code=65, left={"a": 4, "b": 5}))
    assert (bad["level"], bad["exit_code"], bad["left"], bad["rejected"]) == ("error", 65, 9, 1)
    assert "hunter2" not in bad["stopped"]
    assert logged(RunEnded("shop", stopped="x", exit_code=78))["left"] is None
    told = logged(Stopping("SIGTERM", now=False))
    assert (told["event"], told["signal"], told["level"]) == ("stopping", "SIGTERM", "warning")


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (RunEnded("p", stopped="drained", left={}), "ended: source drained; no backlog"),
        (RunEnded("p", stopped="drained", left={"t": 3}),
         "ended: source drained; 3 records since then (3 of t)"),
        (RunEnded("p", stopped="signal", left={"a": 1, "b": 2000}),
         "ended: stopped by a signal; backlog of 2,001 records (2,000 of b, 1 of a)"),
        (RunEnded("p", stopped="why", exit_code=75, left={"evil\x1b": 2}),
         "ended: failed with exit code 75; backlog of 2 records (2 of evil\\x1b)"),
        (RunEnded("p", stopped="why", exit_code=78), "ended: failed with exit code 78"),
        (RunEnded("p", stopped="signal", left={f"t{i:02}": 1 for i in range(12)}),
         "ended: stopped by a signal; backlog of 12 records ("
         + ", ".join(f"1 of t{i:02}" for i in range(summary.MAX_TOPICS)) + ", and of 2 more)"),
    ],
)  # fmt: skip
def test_the_summary_says_why_it_ended_and_what_is_left(
    event: RunEnded, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    event.tables = {"t": TableSummary(1, 1)}
    print_summary(event, frozenset())
    assert said in capsys.readouterr().out.splitlines()


RUN = """
import sys, time
from ingest.cli.log import Log
from ingest.driver.context import StopSignal
from ingest.observe.events import Stopping
observer = Log(frozenset())
stop = StopSignal(lambda name, now: observer(Stopping(name, now)))
with stop.installed():
    print("ready", flush=True)
    while not stop.asked or "busy" in sys.argv:
        time.sleep(0.01)
print("finished", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_finishes_what_is_in_hand_and_a_second_one_ends_at_once(number: int) -> None:
    def run(*arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", RUN, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        os.kill(process.pid, number)
        return process

    once = run()
    out, err = once.communicate(timeout=20)
    assert (once.returncode, out) == (0, "finished\n")
    assert "finishing the batch in progress; a second signal ends at once" in err

    busy = run("busy")
    assert busy.stderr is not None
    assert "finishing the batch" in busy.stderr.readline(), "it is said at once"
    os.kill(busy.pid, number)
    out, err = busy.communicate(timeout=20)
    assert (busy.returncode, out) == (INTERRUPTED, "")
    assert "ended at once" in err


def written(options: LogOptions, *events: Event) -> list[str]:
    stream = io.StringIO()
    log = Log(frozenset({"hunter2"}), stream, options)
    log.configured({"sink.type": "print", "source.topic": "a b"})
    for event in events:
        log(event)
    return stream.getvalue().splitlines()


EVENTS: list[Event] = [
    started(lag=5), OptionChanged("sink.topic", None, "x"), measured(fetch_lag_s=None), batch(lag=7),
    Pending({("t", 0): 4}), Warned("odd =\x1b text of hunter2"),
    *([ClientLogged("producer", 3, "FAIL", "refused")] * 2),
]  # fmt: skip


def test_a_log_of_text_is_for_people() -> None:
    lines = written(LogOptions(LogFormat.TEXT), *EVENTS, RunEnded("shop", stopped="drained", left={}))
    assert all(re.match(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ (info|warning|error)  *[a-z]", line) for line in lines), (
        lines
    )
    assert [line[21:].strip() for line in lines] == [
        "info    run started pipeline=shop run=1 checkpoint=c splits=2 resumed=no lag=5 native=yes",
        "info    option changed option=sink.topic now=x",
        "info    batch done batch=1 records=10 seconds=1.0 lag=7 rejected=0 cpu_s=0.1 worker_rss_mib=0",
        "warning odd =\\x1b text of ********",
        "error   kafka client client=producer facility=FAIL text=refused",
        "error   kafka client client=producer facility=FAIL more=1",
        "info    run ended pipeline=shop stopped=drained exit_code=0 batches=0 records=0 seconds=0.0 rejected=0 left=0",
    ]


def test_quiet_leaves_all_but_errors_out(capsys: pytest.CaptureFixture[str]) -> None:
    for form in LogFormat:
        quiet = LogOptions(form, quiet=True)
        ended = RunEnded("shop", stopped="drained", left={}, tables={"t": TableSummary(1, 1)})
        lines = written(quiet, *EVENTS[:6], RejectEvent("t", "bad", "decode", "malformed"), ended)
        assert lines == []
        assert capsys.readouterr().out == "", "also no summary"
        (line,) = written(quiet, RunEnded("shop", stopped="no broker", exit_code=75, code="unavailable"))
        assert "no broker" in line
        written(quiet, Printed("out", ("a row",)))
        assert capsys.readouterr().out == "a row\n", "what a sink prints is what the run is for"


def test_verbose_adds_options_numbers_of_batches_and_all_lines_of_clients() -> None:
    usual = [json.loads(line)["event"] for line in written(LogOptions(), *EVENTS)]
    lines = [json.loads(line) for line in written(LogOptions(verbose=True), *EVENTS)]
    more = [line for line in lines if line["level"] == "debug"]
    assert [line["event"] for line in lines if line["level"] != "debug"] == [*usual, "kafka client"]
    assert [line["event"] for line in more] == ["options", "batch measured", "backlog"]
    assert more[0]["options"] == {"sink.type": "print", "source.topic": "a b"}
    assert more[1].items() >= {"records_in": 10, "rejects": {"decode/malformed": 2}}.items()
    assert more[2]["records"] == 4


def test_a_terminal_shows_details_with_verbose(monkeypatch: pytest.MonkeyPatch) -> None:
    for verbose in (False, True):
        shown: list[str] = []
        show = Terminal(frozenset(), once=False, verbose=verbose)
        monkeypatch.setattr(show._console, "print", lambda text, shown=shown: shown.append(str(text)))
        show.configured({"sink.type": "print"})
        for event in (*EVENTS, *([RejectEvent("t", "bad", "decode", "malformed")] * 60)):
            show(event)
        show.close()
        assert ("sink.type: print" in shown) == verbose
        assert shown.count("producer: FAIL: refused") == (2 if verbose else 0)
        assert sum(line.startswith("batch measured: records_in=10") for line in shown) == verbose
        assert shown.count("rejected: bad") == (60 if verbose else 50)
        assert "changed since the last run: sink.topic: not set -> x" in shown


def test_which_form_a_run_has(monkeypatch: pytest.MonkeyPatch) -> None:
    def kind(options: LogOptions) -> str:
        found = observer_for(frozenset(), options, once=True)
        found.close()
        return "live" if isinstance(found, Terminal) else str(found._options.form)

    text, json_ = LogOptions(LogFormat.TEXT), LogOptions(LogFormat.JSON)
    assert [kind(options) for options in (LogOptions(), text, json_)] == ["json", "text", "json"]
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert [kind(options) for options in (LogOptions(), text, json_, LogOptions(quiet=True))] == [
        "live", "live", "json", "text",
    ]  # fmt: skip


@pytest.mark.parametrize("command", [["run", "p.yaml"], ["replay", "p.yaml"], ["backfill", "p.yaml", "--table", "t"]])
def test_quiet_and_verbose_exclude_each_other(command: list[str]) -> None:
    done = called(*command, "-q", "-v")
    assert (done.code, "not both" in done.err) == (2, True)

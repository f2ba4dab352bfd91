"""What a run shows: a live line on a terminal, otherwise one structured log line per event; always a summary.

Progress and logs go to standard error, the closing summary to standard output.
"""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, TextIO

import structlog
from rich.console import Console
from rich.live import Live
from rich.text import Text

from ingest.cli.layout import table_lines
from ingest.cli.table import counted, length
from ingest.config.masking import mask, masked
from ingest.model.text import one_line
from ingest.observe.events import (
    Alive,
    BatchDone,
    BatchMeasured,
    ClientLogged,
    ClientStatistics,
    DirtyRecord,
    Event,
    OptionChanged,
    Pending,
    Printed,
    RejectEvent,
    RunEnded,
    RunStarted,
    SchemaChanged,
    Serving,
    SideAnswers,
    Stopping,
    TopicGrown,
    Warned,
)
from ingest.observe.pace import Pace, is_backlog, window_s

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from collections.abc import Set as AbstractSet

REPEATED_S: Final = 60.0
"""The time between two lines of one kind of a Kafka client, in seconds."""
MAX_KINDS: Final = 200
"""Kinds of such lines that are counted."""
STOPPING: Final = "finishing the batch; again to end now"
ENDED_NOW: Final = "ended at once: what was under way is done again by the next run\n"
WARNING: Final = 4
"""Syslog's level of a warning; errors are below it."""
WAITING: Final = "waiting for records"
MAX_TOPICS: Final = 10
"""Topics of which a summary says how much is left."""
MAX_LINES = 50
"""Warnings about single records that a terminal gets to see."""


HEADINGS: Final[tuple[str, ...]] = ("table", "in", "inserted", "updated", "deleted", "rejected", "schema changes")
FIRST_OUT: Final = ("schema changes", "updated", "inserted", "deleted", "rejected", "in")
"""The columns that a narrow terminal does not have, the first of them first."""


def observer_for(secrets: AbstractSet[str], *, once: bool) -> Terminal | Log:
    """The right one for where standard error goes."""
    hidden = frozenset(secrets)
    return Terminal(hidden, once=once) if sys.stderr.isatty() else Log(hidden)


class Repeats:
    """Lines of Kafka clients, of which one a minute is written of each kind: librdkafka repeats them while it tries."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        """Have seen none yet."""
        self._now = now
        self._kinds: dict[tuple[str, int, str], tuple[float, int]] = {}
        """By client, level and facility: when a line was written, and the lines that were not since."""

    def more(self, client: str, level: int, facility: str) -> int | None:
        """Return how many lines of a kind were not written before this one; None where it is not written, either."""
        kind, now = (client, level, facility), self._now()
        written, count = self._kinds.get(kind, (now - REPEATED_S, 0))
        if now - written < REPEATED_S:
            self._kinds[kind] = written, count + 1
            return None
        if kind in self._kinds or len(self._kinds) < MAX_KINDS:
            self._kinds[kind] = now, 0
        return count

    def rest(self) -> Iterator[tuple[str, int, str, int]]:
        """Yield client, level, facility and number of lines that were not written and not counted yet."""
        kinds, self._kinds = self._kinds, {}
        for kind, (_, count) in sorted(kinds.items()):
            if count:
                yield *kind, count


class Log:
    """One JSON line per event."""

    def __init__(self, secrets: frozenset[str], stream: TextIO | None = None) -> None:
        """Write to standard error, or to `stream`."""
        self._secrets = secrets
        self._repeats = Repeats()
        self._log = structlog.wrap_logger(
            structlog.PrintLogger(stream or sys.stderr),
            processors=[
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
                self._mask,
                structlog.processors.JSONRenderer(),
            ],
        )

    def _mask(self, _logger: object, _method: str, event: Any) -> Any:  # noqa: ANN401  (structlog's signature)
        return masked(event, self._secrets)

    def __call__(self, event: Event) -> None:
        """Write the event."""
        match event:
            case RunStarted():
                self._log.info(
                    "run started", pipeline=event.pipeline, run=event.run, checkpoint=event.checkpoint,
                    splits=event.splits, resumed=event.resumed, lag=event.lag, native=event.native,
                    **({"in_python": [*event.in_python]} if event.in_python else {}),
                )  # fmt: skip
            case OptionChanged():
                self._log.info("option changed", option=event.option, before=event.before, now=event.now)
            case BatchDone():
                self._log.info(
                    "batch done", batch=event.batch, records=event.records, seconds=round(event.seconds, 3),
                    lag=event.lag, rejected=event.rejected, cpu_s=round(event.cpu_s, 3),
                    worker_rss_mib=event.worker_rss_kib >> 10, first_ack=event.first_ack,
                )  # fmt: skip
            case Serving():
                self._log.info("metrics", host=event.host, port=event.port)
            case SchemaChanged():
                self._log.info("schema changed", table=event.table, change=event.change, why=event.why)
            case RejectEvent():
                self._log.warning("record rejected", table=event.table, reason=event.text)
            case DirtyRecord():
                self._log.warning("dirty data", **asdict(event))
            case Printed():
                print_lines(event, self._secrets)
            case Warned():
                self._log.warning(event.text)
            case ClientLogged() | ClientStatistics() | SideAnswers():
                self._beside(event)
            case Stopping():
                self._stopping(event)
            case BatchMeasured() | Pending() | TopicGrown() | Alive():
                pass  # for whoever counts
            case RunEnded():
                self._ended(event)

    def _ended(self, event: RunEnded) -> None:
        for client, level, facility, count in self._repeats.rest():
            self._client_line(level, client=client, facility=facility, more=count)
        log = self._log.error if event.exit_code else self._log.info
        log(
            "run ended", pipeline=event.pipeline, stopped=event.stopped, exit_code=event.exit_code,
            code=event.code, batches=event.batches, records=event.records, seconds=round(event.seconds, 3),
            rejected=event.rejected, left=None if event.left is None else sum(event.left.values()),
        )  # fmt: skip
        print_summary(event, self._secrets)

    def _beside(self, event: ClientLogged | ClientStatistics | SideAnswers) -> None:
        if isinstance(event, SideAnswers):
            if event.news:
                self._side(event)
            return
        if isinstance(event, ClientStatistics):
            self._log.info("kafka client", client=event.client, statistics=json.loads(event.json))
            return
        more = self._repeats.more(event.client, event.level, event.facility)
        if more is not None:
            told = {"more": more} if more else {}
            self._client_line(event.level, client=event.client, facility=event.facility, text=event.text, **told)

    def _client_line(self, level: int, **fields: object) -> None:
        """Write a line of a client; `more`: lines of its kind since the one before that were not written."""
        log = self._log.error if level < WARNING else self._log.warning
        log("kafka client", **fields)

    def _side(self, event: SideAnswers) -> None:
        if event.answers:
            self._log.info("answers again", side=event.side, away_s=round(event.away_s))
        else:
            self._log.warning("waiting", side=event.side, away_s=round(event.away_s), why=event.why)

    def _stopping(self, event: Stopping) -> None:
        if event.now:
            end_now()
        else:
            self._log.warning("stopping", signal=event.signal, then=STOPPING)

    def close(self) -> None:
        """Nothing to put back."""


class Terminal:
    """A live line with records, rate, lag and the time left; what is worth reading scrolls by above it."""

    def __init__(self, secrets: frozenset[str], *, once: bool, now: Callable[[], float] = time.monotonic) -> None:
        """Start showing."""
        self._secrets = secrets
        self._once = once
        self._console = Console(stderr=True, highlight=False)
        self._live = Live(Text("starting Spark …"), console=self._console, transient=True, refresh_per_second=4)
        self._live.start()
        self._now = now
        self._records = 0
        self._waiting = 0
        self._batch_s: float | None = None
        """How long the last batch took; None before the first one has ended."""
        self._pace = Pace()
        self._away: set[str] = set()
        """Sides that do not answer."""
        self._shown = 0

    def __call__(self, event: Event) -> None:
        """Show the event."""
        match event:
            case RunStarted():
                how = "goes on" if event.resumed else "starts"
                partitions, records = counted(event.splits, "partition"), counted(event.lag, "record")
                self._say(f"{event.pipeline} {how} with {partitions}, {records} waiting")
                self._note_numbers(event.lag)
                self._live.update(Text("first batch …" if event.lag else f"{WAITING} …"))
            case BatchDone():
                self._records += event.records
                self._batch_s = event.seconds
                self._note_numbers(event.lag)
                self._live.update(Text(self._line()))
            case Pending() | Alive():
                self._pass_time(event)
            case RejectEvent():
                self._shown += 1
                if self._shown <= MAX_LINES:
                    self._say(f"rejected: {event.text}", "yellow")
            case DirtyRecord():
                where = f"{event.topic}[{event.partition}] at offset {event.offset}"
                self._say(f"dirty data: {where}: {event.stage}/{event.code}: {event.message}: {event.value}", "yellow")
            case Printed():
                self._live.stop()
                print_lines(event, self._secrets)
                self._live.start()
            case Warned() | Serving() | OptionChanged() | SchemaChanged():
                self._say(*said(event))
            case Stopping():
                self._stopping(event)
            case SideAnswers():
                self._side(event)
            case ClientLogged() | ClientStatistics() | BatchMeasured() | TopicGrown():
                pass  # what librdkafka cannot deal with itself is an error of the run; the others are to be counted
            case RunEnded():
                self._live.stop()
                print_summary(event, self._secrets)

    def _note_numbers(self, waiting: int) -> None:
        self._waiting = waiting
        self._pace.note(self._now(), {"records": self._records, "waiting": waiting}, self._batch_s or 0.0)

    def _pass_time(self, event: Pending | Alive) -> None:
        """Let the rate fall while nothing comes; a run of `--once` has its end, behind which more may wait."""
        if isinstance(event, Pending) and not self._once:
            self._note_numbers(sum(event.waiting.values()))
        else:
            self._note_numbers(self._waiting)
        if self._batch_s is not None and not self._away:
            self._live.update(Text(self._line()))

    def _line(self) -> str:
        rate = self._pace.per_second("records", window_s(self._waiting, self._batch_s or 0.0)) or 0.0
        parts = [counted(self._records, "record"), f"{rate:,.0f}/s", f"backlog {self._waiting:,}"]
        left = self._pace.left_s("waiting")
        if self._waiting and left is not None and (self._once or is_backlog(self._waiting, rate)):
            parts.append(f"about {length(left)} left")
        if not self._once and not self._waiting:
            parts.append(WAITING)
        return "  ".join(parts)

    def _side(self, event: SideAnswers) -> None:
        (self._away.discard if event.answers else self._away.add)(event.side)
        if not event.answers:
            self._live.update(Text(f"waiting for the {event.side} for {event.away_s:,.0f} s"))
            if event.news:
                self._say(f"the {event.side} does not answer: {event.why}", "yellow")
        elif event.news:
            self._live.update(Text("batch …"))
            self._say(f"back again: the {event.side} answers, after {event.away_s:,.0f} s")

    def _stopping(self, event: Stopping) -> None:
        if event.now:
            end_now("\x1b[?25h\n")  # with its cursor back
        else:
            self._say(STOPPING, "yellow")

    def _say(self, text: str, style: str = "") -> None:
        self._console.print(Text(mask(text, self._secrets), style=style))

    def close(self) -> None:
        """Give the terminal back."""
        self._live.stop()


def said(event: Warned | Serving | OptionChanged | SchemaChanged) -> tuple[str, str]:
    """Return what people read of an event, and its style."""
    match event:
        case Warned():
            return f"warning: {event.text}", "yellow"
        case Serving():
            return f"metrics, /livez and /readyz are at port {event.port} of {event.host}", ""
        case SchemaChanged():
            return str(event), ""
    before, now = ("not set" if value is None else value for value in (event.before, event.now))
    return f"changed since the last run: {event.option}: {before} -> {now}", ""


def end_now(before: str = "") -> None:
    """Say that the run ends here, in a signal handler: past all buffers, which somebody may be writing to."""
    with suppress(OSError):
        os.write(2, f"{before}{ENDED_NOW}".encode())


def print_lines(event: Printed, secrets: frozenset[str]) -> None:
    """The sink's lines, each as it is."""
    stream = sys.stdout if event.stream == "out" else sys.stderr
    stream.write("".join(f"{mask(line, secrets)}\n" for line in event.lines))
    stream.flush()


def print_summary(event: RunEnded, secrets: frozenset[str]) -> None:
    """A table's line each, on standard output."""
    console = Console(highlight=False)
    rows = [HEADINGS]
    for name, line in sorted(event.tables.items()):
        numbers = (line.read, line.inserted, line.updated, line.deleted, line.rejected, line.schema_changes)
        rows.append((one_line(mask(name, secrets)), *(f"{number:,}" for number in numbers)))
    if event.tables:
        for text in table_lines(rows, console.width if sys.stdout.isatty() else None, FIRST_OUT):
            console.print(text, soft_wrap=True)
    skipped = ", ".join(f"{count:,} {reason}" for reason, count in sorted(event.skipped.items()))
    console.print(
        f"{event.pipeline}: {counted(event.records, 'record')} in {counted(event.batches, 'batch')}, "
        f"{event.seconds:.1f} s"
        f"{f', {event.rejected:,} rejected' if event.rejected else ''}{f'; skipped: {skipped}' if skipped else ''}",
        soft_wrap=True,
    )
    console.print(Text(mask(_ending(event), secrets)), soft_wrap=True)
    for what, counts in (
        ("values left out of the sink", event.withheld), ("fractions cut to microseconds", event.cut),
        ("unknown values of rows before a change", event.unread), ("numbers rounded", event.rounded),
    ):  # fmt: skip
        if counts:
            parts = ", ".join(f"{count:,} of {name}" for name, count in sorted(counts.items())[:MAX_LINES])
            console.print(Text(mask(f"{what}: {parts}", secrets)), soft_wrap=True)


def _ending(event: RunEnded) -> str:
    """Why a run ended, and what it has left."""
    why = {"drained": "all that was there is read", "signal": "stopped by a signal"}.get(event.stopped)
    if event.exit_code:
        why = f"failed with exit code {event.exit_code}"
    if event.left is None:
        return f"ended: {why}"
    total = sum(event.left.values())
    if not total:
        return f"ended: {why}; nothing is left"
    most = sorted(event.left.items(), key=lambda item: (-item[1], item[0]))
    topics = ", ".join(f"{number:,} of {one_line(topic)}" for topic, number in most[:MAX_TOPICS])
    more = f", and of {len(most) - MAX_TOPICS} more" if len(most) > MAX_TOPICS else ""
    came = "came meanwhile" if event.stopped == "drained" else "is left" if total == 1 else "are left"
    return f"ended: {why}; {counted(total, 'record')} {came} ({topics}{more})"

"""What a run shows: a live line on a terminal, otherwise a log with a line for each event; then a summary.

Progress and logs go to standard error, the closing summary to standard output.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Final

from rich.console import Console
from rich.live import Live
from rich.text import Text

from ingest.cli.log import STOPPING, USUAL, Log, LogFormat, LogOptions, end_now, fields_text, measured_fields
from ingest.cli.screen import counted, lag_text, length
from ingest.cli.summary import print_lines, print_summary
from ingest.config.redaction import mask
from ingest.model.standing import Standing
from ingest.observe import events
from ingest.observe.pace import Pace, is_backlog, window_s

WAITING: Final = "waiting for records"
MAX_LINES: Final = 50
"""Warnings about single records that a terminal gets to see, without --verbose."""


def observer_for(
    secrets: AbstractSet[str], options: LogOptions = USUAL, *, once: bool, live: bool = True
) -> Terminal | Log:
    """Return what shows a run: a live line on a terminal, unless the command line wants a log there, too.

    Without `live` a terminal has no such line: a command that prints while it works would print into it.
    """
    hidden, on_terminal = frozenset(secrets), sys.stderr.isatty()
    if on_terminal and not options.quiet and options.form is not LogFormat.JSON:
        return Terminal(hidden, once=once, verbose=options.verbose, live=live)
    form = options.form or (LogFormat.TEXT if on_terminal else LogFormat.JSON)
    return Log(hidden, options=replace(options, form=form))


class Terminal:
    """A live line with records, rate, lag and the time left; what is worth reading scrolls by above it."""

    def __init__(
        self,
        secrets: frozenset[str],
        *,
        once: bool,
        verbose: bool = False,
        live: bool = True,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start showing; the line only if it is to be `live`."""
        self._secrets = secrets
        self._once = once
        self._verbose = verbose
        self._console = Console(stderr=True, highlight=False)
        self._live = Live(Text("starting Spark …"), console=self._console, transient=True, refresh_per_second=4)
        if live:
            self._live.start()
        self._now = now
        self._records = 0
        self._waiting = 0
        """Records, or bytes of a database's log."""
        self._standing: Standing | None = None
        self._batch_s: float | None = None
        """How long the last batch took; None before the first one has ended."""
        self._pace = Pace()
        self._away: set[str] = set()
        """Sides that do not answer."""
        self._shown = 0

    def __call__(self, event: events.Event) -> None:
        """Show the event."""
        match event:
            case events.RunStarted():
                self._started(event)
            case events.BatchDone():
                self._records += event.records
                self._batch_s = event.seconds
                self._note_numbers(event.lag, event.standing)
                self._live.update(Text(self._line()))
            case events.Pending() | events.Alive():
                self._pass_time(event)
            case events.RejectEvent():
                self._shown += 1
                if self._shown <= MAX_LINES or self._verbose:
                    self._say(f"rejected: {event.text}", "yellow")
            case events.DirtyRecord():
                where = f"{event.topic}[{event.partition}] at offset {event.offset}"
                self._say(f"dirty data: {where}: {event.stage}/{event.code}: {event.message}: {event.value}", "yellow")
            case events.Printed():
                self._live.stop()
                print_lines(event, self._secrets)
                self._live.start()
            case events.Warned() | events.Serving() | events.OptionChanged() | events.SchemaChanged():
                self._say(*said(event))
            case events.Stopping():
                self._stopping(event)
            case events.SideAnswers():
                self._side(event)
            case events.ClientLogged() | events.BatchMeasured():
                self._detail(event)
            case events.ClientStatistics() | events.TopicGrown():
                pass  # these are to be counted
            case events.RunEnded():
                self._live.stop()
                print_summary(event, self._secrets)

    def _started(self, event: events.RunStarted) -> None:
        how, standing = "resumes" if event.resumed else "starts", event.standing
        if standing is None:
            waits = bool(event.lag)
            partitions, records = counted(event.splits, "partition"), counted(event.lag or 0, "record")
            self._say(f"{event.pipeline} {how} with {partitions}, a backlog of {records}")
        else:
            waits = standing.waits
            self._say(
                f"{event.pipeline} {how} at {standing.file}:{standing.offset}; to read: {lag_text(standing.lag())}"
            )
        self._note_numbers(event.lag, standing)
        self._live.update(Text("first batch …" if waits else f"{WAITING} …"))

    def configured(self, options: Mapping[str, str]) -> None:
        """Show the options in effect, with --verbose."""
        if self._verbose:
            for name, value in options.items():
                self._say(f"{name}: {value}", "dim")

    def _detail(self, event: events.ClientLogged | events.BatchMeasured) -> None:
        """Show what only --verbose shows; what librdkafka cannot deal with itself is an error of the run."""
        if not self._verbose:
            return
        if isinstance(event, events.ClientLogged):
            self._say(f"{event.client}: {event.facility}: {event.text}", "dim")
        else:
            self._say(f"batch measured:{fields_text(measured_fields(event))}", "dim")

    def _note_numbers(self, records: int | None, standing: Standing | None) -> None:
        """Keep the backlog: records, or bytes of a database's log."""
        waiting = (records or 0) if standing is None else standing.lag_bytes
        self._waiting, self._standing = waiting, standing
        self._pace.note(self._now(), {"records": self._records, "waiting": waiting}, self._batch_s or 0.0)

    def _pass_time(self, event: events.Pending | events.Alive) -> None:
        """Let the rate fall while nothing comes; a run of `--once` has its end, behind which more may wait."""
        if isinstance(event, events.Pending) and not self._once:
            self._note_numbers(event.records, event.standing)
        else:
            self._note_numbers(self._waiting, self._standing)
        if self._batch_s is not None and not self._away:
            self._live.update(Text(self._line()))

    def _line(self) -> str:
        rate = self._pace.per_second("records", window_s(self._waiting, self._batch_s or 0.0)) or 0.0
        standing = self._standing
        parts = [counted(self._records, "record"), f"{rate:,.0f}/s"]
        if standing is not None:
            parts += [lag_text(standing.lag())] if standing.waits else [] if self._once else [WAITING]
            return "  ".join(parts)
        parts.append(f"backlog {self._waiting:,}")
        left = self._pace.left_s("waiting")
        if self._waiting and left is not None and (self._once or is_backlog(self._waiting, rate)):
            parts.append(f"about {length(left)} left")
        if not self._once and not self._waiting:
            parts.append(WAITING)
        return "  ".join(parts)

    def _side(self, event: events.SideAnswers) -> None:
        (self._away.discard if event.answers else self._away.add)(event.side)
        if not event.answers:
            self._live.update(Text(f"waiting for the {event.side} for {event.away_s:,.0f} s"))
            if event.news:
                self._say(f"the {event.side} does not answer: {event.why}", "yellow")
        elif event.news:
            self._live.update(Text("batch …"))
            self._say(f"the {event.side} answers again, after {event.away_s:,.0f} s")

    def _stopping(self, event: events.Stopping) -> None:
        if event.now:
            end_now("\x1b[?25h\n")  # with its cursor back
        else:
            self._say(STOPPING, "yellow")

    def _say(self, text: str, style: str = "") -> None:
        self._console.print(Text(mask(text, self._secrets), style=style))

    def close(self) -> None:
        """Give the terminal back."""
        self._live.stop()


def said(event: events.Warned | events.Serving | events.OptionChanged | events.SchemaChanged) -> tuple[str, str]:
    """Return what people read of an event, and its style."""
    match event:
        case events.Warned():
            return f"warning: {event.text}", "yellow"
        case events.Serving():
            return f"serving /metrics, /livez and /readyz on port {event.port} of {event.host}", ""
        case events.SchemaChanged():
            return str(event), ""
    return f"changed since the last run: {event}", ""

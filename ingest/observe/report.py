"""A report of a run: an observer that keeps what its page shows, and writes the page.

In: events of the run. Out: one HTML file, whose text `report_page.py` makes. All that is kept has a limit:
names of tables, codes and changes come from messages.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ingest.model.standing import Standing
from ingest.model.text import one_line
from ingest.observe import events
from ingest.observe.observers import AtomicFile
from ingest.observe.report_page import page

MAX_POINTS: Final = 600
"""Points of a chart; when there are more, neighbours that are a few pixels apart become one."""
MAX_TABLES: Final = 1_000
"""Tables that are counted while the run goes on; others are counted together."""
OTHERS: Final = "(other tables)"
MAX_SAMPLES: Final = 5
"""Samples of each code of rejects: the first ones."""
MAX_CODES: Final = 200
"""Codes of rejects that have samples."""
MAX_CHANGES: Final = 2_000
"""Schema changes that are kept: the last ones."""
MAX_WARNINGS: Final = 200
"""Warnings that are kept: the first ones."""
WRITTEN_S: Final = 30.0
"""The time between two writings of the page while the run goes on, in seconds."""


@dataclass(slots=True)
class Point:
    """Batches that ended between two moments."""

    began: float
    """When the first began, in seconds since 1970, or when the one before it ended, whichever was later."""
    ended: float
    records: int
    rejected: int
    event_lag_s: float | None
    """How old the newest record was when what came of it was acknowledged."""

    def then(self, other: Point) -> Point:
        """Return this point and the next one as one."""
        return Point(
            self.began,
            other.ended,
            self.records + other.records,
            self.rejected + other.rejected,
            other.event_lag_s if self.event_lag_s is None else max(self.event_lag_s, other.event_lag_s or 0.0),
        )


@dataclass(frozen=True, slots=True)
class DatedChange:
    """A change of a table's schema."""

    at: float | None
    """When it was stored, in seconds since 1970; None where nobody knows."""
    table: str
    text: str


@dataclass(slots=True)
class RunFacts:
    """All that the page shows."""

    pipeline: str
    version: str
    options: Mapping[str, str]
    """The options of the pipeline, without secrets."""
    started: events.RunStarted | None = None
    since: float = 0.0
    """When the run began, before anything was connected, in seconds since 1970."""
    until: float = 0.0
    """When the run ended, or the page was written."""
    points: list[Point] = field(default_factory=list)
    backlog: list[tuple[float, int]] = field(default_factory=list)
    """When, in seconds since 1970, so many records began to wait at the source, or bytes of a database's log."""
    unread: list[tuple[float, int]] = field(default_factory=list)
    """When about so many rows of a database's tables were to be read as they are there."""
    standing: Standing | None = None
    """Where the reading of a database stands."""
    tables: dict[str, events.TableSummary] = field(default_factory=dict)
    """Counters of tables so far, but for schema changes, which are known by tables of the sink."""
    away: dict[str, events.SideAnswers] = field(default_factory=dict)
    """The source or the sink, while it does not answer."""
    changes: deque[DatedChange] = field(default_factory=lambda: deque(maxlen=MAX_CHANGES))
    """Schema changes of this run."""
    kept: list[DatedChange] | None = None
    """All schema changes that the checkpoint knows; None where it was not asked."""
    rejects: dict[tuple[str, str], int] = field(default_factory=dict)
    samples: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    ended: events.RunEnded | None = None


class RunReport:
    """An observer that writes a page about the run: when it starts, now and then, and when it ends."""

    def __init__(self, path: Path, facts: RunFacts, tell: events.Observer, clean: Callable[[str], str] = str) -> None:
        """`tell` hears where the page cannot be written, once. `clean` removes secrets from texts."""
        self._file = AtomicFile(path, "the report", tell, private=True)
        self._facts = facts
        self._clean = clean
        self._written = time.monotonic()
        self._event_lag_s: float | None = None
        facts.since = time.time()

    def __call__(self, event: events.Event) -> None:
        """Keep what the event says."""
        if isinstance(event, events.Stopping):
            return  # this event comes in a signal handler
        facts = self._facts
        match event:
            case events.RunStarted():
                facts.started = event
                self._waits(event.lag, event.standing)
                self.write()
            case events.RunEnded():
                self._waits(None if event.left is None else sum(event.left.values()), event.standing)
                self.write(ended=event)
            case events.BatchMeasured() | events.BatchDone() | events.Pending() | events.SideAnswers():
                self._keep_numbers(event)
            case _:
                self._keep_texts(event)
        if facts.ended is None and time.monotonic() - self._written > WRITTEN_S:
            self.write()  # also while no batch ends: that is when somebody looks

    def _keep_numbers(
        self, event: events.BatchMeasured | events.BatchDone | events.Pending | events.SideAnswers
    ) -> None:
        facts = self._facts
        match event:
            case events.BatchMeasured():
                self._event_lag_s = event.emit_lag_s
                for code, count in event.rejects.items():
                    if code in facts.rejects or len(facts.rejects) < MAX_CODES:
                        facts.rejects[code] = facts.rejects.get(code, 0) + count
                self._count(event)
            case events.BatchDone():
                self._add(event)
            case events.Pending():
                self._waits(event.records, event.standing)
            case events.SideAnswers():
                facts.away.pop(event.side, None)
                if not event.answers:
                    facts.away[event.side] = event

    def _keep_texts(self, event: events.Event) -> None:
        facts = self._facts
        match event:
            case events.SchemaChanged():
                facts.changes.append(DatedChange(time.time(), event.table, event.change))
            case events.RejectEvent():
                self._sample(event.stage, event.code, event.text)
            case events.DirtyRecord():
                where = f"{event.topic}[{event.partition}] at offset {event.offset}"
                self._sample(event.stage, event.code, f"{where}: {event.message}; record: {event.value}")
            case events.Warned():
                if len(facts.warnings) < MAX_WARNINGS:
                    facts.warnings.append(event.text)
            case _:
                pass

    def write(self, kept: list[DatedChange] | None = None, ended: events.RunEnded | None = None) -> None:
        """Write the page again. `kept`: all schema changes that the checkpoint knows. `ended`: the run is over."""
        facts = self._facts
        if kept is not None:
            facts.kept = kept
        if facts.ended is None:
            facts.until, facts.ended = time.time(), ended
        self._written = time.monotonic()
        self._file.write(page(facts, self._clean).encode("utf-8", "backslashreplace"))

    def _add(self, event: events.BatchDone) -> None:
        points, now = self._facts.points, time.time()
        before = points[-1].ended if points else self._facts.since
        began = min(max(before, now - event.seconds), now)
        points.append(Point(began, now, event.records, event.rejected, self._event_lag_s))
        self._waits(event.lag, event.standing)
        if len(points) > MAX_POINTS:
            width = 4 * (now - self._facts.since) / MAX_POINTS
            fewer = points[:1]
            for point in points[1:]:
                if point.ended - fewer[-1].began <= width:
                    fewer[-1] = fewer[-1].then(point)
                else:
                    fewer.append(point)
            self._facts.points = fewer

    def _waits(self, records: int | None, standing: Standing | None) -> None:
        """Keep the backlog from now on."""
        facts = self._facts
        if standing is None:
            if records is not None:
                facts.backlog = _with_step(facts.backlog, records)
            return
        facts.standing = standing
        facts.backlog = _with_step(facts.backlog, standing.lag_bytes)
        facts.unread = _with_step(facts.unread, standing.rows_left)

    def _count(self, event: events.BatchMeasured) -> None:
        tables = self._facts.tables
        for name, counts in event.tables.items():
            known = name if name in tables or len(tables) < MAX_TABLES else OTHERS
            line = tables.setdefault(known, events.TableSummary())
            line.read += counts.read
            line.inserted += counts.inserted
            line.updated += counts.updated
            line.deleted += counts.deleted
            line.rejected += counts.rejected

    def _sample(self, stage: str, code: str, text: str) -> None:
        samples = self._facts.samples
        if (stage, code) in samples or len(samples) < MAX_CODES:
            texts = samples.setdefault((stage, code), [])
            if len(texts) < MAX_SAMPLES:
                texts.append(one_line(text))


def _with_step(steps: list[tuple[float, int]], value: int) -> list[tuple[float, int]]:
    """Return the steps with a value from now on; where there are many, neighbours become one."""
    if steps and steps[-1][1] == value:
        return steps
    steps.append((time.time(), value))
    if len(steps) <= MAX_POINTS:
        return steps
    width = 2 * (steps[-1][0] - steps[0][0]) / MAX_POINTS
    fewer = steps[:1]
    for at, waiting in steps[1:]:
        first, most = fewer[-1]
        if at - first <= width:
            fewer[-1] = first, max(most, waiting)
        else:
            fewer.append((at, waiting))
    return fewer

"""A report of a run: an observer that keeps what its page shows, and writes the page.

In: events of the run. Out: one HTML file, whose text `report_page.py` makes. All that is kept has a limit:
names of tables, codes and changes come from messages.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ingest.model.text import one_line
from ingest.observe.events import (
    BatchDone,
    BatchMeasured,
    DirtyRecord,
    RejectEvent,
    RunEnded,
    RunStarted,
    SchemaChanged,
    Warned,
)
from ingest.observe.report_page import page
from ingest.observe.whole_file import WholeFile

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from ingest.observe.events import Event, Observer

MAX_POINTS: Final = 600
"""Points of a chart; when there are more, neighbours become one."""
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
    """When it began, in seconds since 1970: when the point before it ended."""
    ended: float
    records: int
    rejected: int
    lag: int
    """Records that were waiting at its end."""
    emit_lag_s: float | None
    """How old the newest record was when what came of it was acknowledged."""

    def then(self, other: Point) -> Point:
        """Return this point and the next one as one."""
        return Point(
            self.began, other.ended, self.records + other.records, self.rejected + other.rejected, other.lag,
            other.emit_lag_s if self.emit_lag_s is None else max(self.emit_lag_s, other.emit_lag_s or 0.0),
        )  # fmt: skip


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
    started: RunStarted | None = None
    since: float = 0.0
    points: list[Point] = field(default_factory=list)
    changes: deque[DatedChange] = field(default_factory=lambda: deque(maxlen=MAX_CHANGES))
    """Schema changes of this run."""
    kept: list[DatedChange] | None = None
    """All schema changes that the checkpoint knows; None where it was not asked."""
    rejects: dict[tuple[str, str], int] = field(default_factory=dict)
    samples: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    ended: RunEnded | None = None


class RunReport:
    """An observer that writes a page about the run: now and then, and when it ends."""

    def __init__(self, path: Path, facts: RunFacts, tell: Observer, clean: Callable[[str], str] = str) -> None:
        """Write nothing yet.

        `tell` hears where the page cannot be written, once. `clean` removes secrets from texts.
        """
        self._file = WholeFile(path, "the report", tell, private=True)
        self._facts = facts
        self._clean = clean
        self._written = time.monotonic()
        self._emit_lag_s: float | None = None
        facts.since = time.time()

    def __call__(self, event: Event) -> None:
        """Keep what the event says."""
        facts = self._facts
        match event:
            case RunStarted():
                facts.started, facts.since = event, time.time()
            case BatchMeasured():
                self._emit_lag_s = event.emit_lag_s
                for code, count in event.rejects.items():
                    if code in facts.rejects or len(facts.rejects) < MAX_CODES:
                        facts.rejects[code] = facts.rejects.get(code, 0) + count
            case BatchDone():
                self._add(event)
            case SchemaChanged():
                facts.changes.append(DatedChange(time.time(), event.table, event.change))
            case RejectEvent():
                self._sample(event.stage, event.code, event.text)
            case DirtyRecord():
                where = f"{event.topic}[{event.partition}] at offset {event.offset}"
                self._sample(event.stage, event.code, f"{where}: {event.message}; record: {event.value}")
            case Warned():
                if len(facts.warnings) < MAX_WARNINGS:
                    facts.warnings.append(event.text)
            case RunEnded():
                facts.ended = event
                self.write()
            case _:
                pass

    def write(self, kept: list[DatedChange] | None = None) -> None:
        """Write the page anew. `kept`: all schema changes that the checkpoint knows."""
        if kept is not None:
            self._facts.kept = kept
        self._written = time.monotonic()
        self._file.write(page(self._facts, self._clean).encode("utf-8", "backslashreplace"))

    def _add(self, event: BatchDone) -> None:
        points, now = self._facts.points, time.time()
        began = points[-1].ended if points else self._facts.since
        points.append(Point(began, now, event.records, event.rejected, event.lag, self._emit_lag_s))
        if len(points) > MAX_POINTS:
            self._facts.points = [
                left.then(right) for left, right in zip(points[::2], points[1::2], strict=False)
            ] + points[len(points) & ~1 :]
        if time.monotonic() - self._written > WRITTEN_S:
            self.write()

    def _sample(self, stage: str, code: str, text: str) -> None:
        samples = self._facts.samples
        if (stage, code) in samples or len(samples) < MAX_CODES:
            found = samples.setdefault((stage, code), [])
            if len(found) < MAX_SAMPLES:
                found.append(one_line(text))

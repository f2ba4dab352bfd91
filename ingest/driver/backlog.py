"""The backlog: position and end of each split, what is between them, and notes of that for `ingest status`.

It is in records for topics and files. For a database it is in bytes of the log and rows of tables: its `Standing`.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from ingest.checkpoint.run_status import note_waiting
from ingest.errors import IngestError
from ingest.observe.events import Event, Observer, Pending
from ingest.observe.pace import KEPT_S, Pace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ingest.checkpoint.checkpoint import Checkpoint, Progress
    from ingest.model.record import Split
    from ingest.model.standing import Standing

COUNT_S: Final = 30.0
"""The time between two notes of the backlog, in seconds."""


class Backlog:
    """The records between the positions reached and the ends of the splits."""

    def __init__(
        self,
        progress: Progress,
        ends: Mapping[Split, int],
        *,
        drain: bool,
        fixed: Callable[[Mapping[Split, int]], Mapping[Split, int]] = dict,
        needed: Callable[[], Mapping[Split, int]] = dict,
        standing: Callable[[Mapping[Split, int], Mapping[Split, int]], Standing | None] = lambda *_: None,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Begin with the ends that were just seen; `drain`: these are where the run ends (`--once`).

        `fixed`: returns those of some ends that stay so then; the run follows the others to wherever they are.
        `needed`: returns how far some splits are read at least, even past the end of the run.
        `standing`: returns where the reading of a database stands at some positions, with some ends; None where
        positions count records. `now`: the time in seconds since 1970.
        """
        self._needed = needed
        self._standing = standing
        self._times = _LogTimes(now)
        self.progress = progress
        self.targets: Mapping[Split, int] = fixed(ends) if drain else {}
        """The ends of the run, by split, with `--once`; empty otherwise."""
        self._follows = drain and len(self.targets) < len(ends)
        self._seen = ends
        self._asked: Mapping[Split, int] = {}
        """The ends that were seen last by who looks between two batches, beside the driver."""

    @property
    def positions(self) -> dict[Split, int]:
        """The next position to read of each split."""
        return self.progress.positions

    @property
    def ends(self) -> Mapping[Split, int]:
        """The end of each split, as far as the last look says, or where the run is to end."""
        if self._follows:
            ends = {**self._seen, **self.targets}
            return {**ends, **{split: max(ends[split], at) for split, at in self._needed().items() if split in ends}}
        return self.targets or self._seen

    def see(self, ends: Mapping[Split, int]) -> None:
        """Take the ends that the source has now."""
        self._seen = ends if self._follows else self.targets or ends
        self._times.see()

    def look_past_targets(self, ends: Mapping[Split, int]) -> None:
        """Take the ends that the source has now, whatever the run was to drain: the run is over."""
        self._seen, self.targets, self._follows = ends, {}, False
        self._times.see()

    def some(self) -> bool:
        """Return whether there is a backlog."""
        return any(end > self.positions[split] for split, end in self.ends.items())

    def waiting(self, seen: Mapping[Split, int] | None = None) -> dict[Split, int]:
        """Return the backlog of each split in records, as far as positions tell; none of a database.

        `seen`: where another thread than the driver's has just seen splits end. Until the driver looks, a batch may
        take minutes: what has come meanwhile waits, too.
        """
        positions, ends = dict(self.positions), self._known_ends(seen)
        if self._standing(positions, ends) is not None:
            return {}
        return {split: max(0, end - positions.get(split, 0)) for split, end in ends.items()}

    def standing(self, seen: Mapping[Split, int] | None = None) -> Standing | None:
        """Return where the reading of a database stands; None where the source has records. `seen`: as above."""
        standing = self._standing(dict(self.positions), self._known_ends(seen))
        return None if standing is None else self._times.of(standing, just_seen=seen is not None)

    def _known_ends(self, asked: Mapping[Split, int] | None) -> Mapping[Split, int]:
        """Return the ends that either look has seen, the driver's and that of another thread; ends never shrink."""
        if asked is not None:
            self._asked = asked
        if self._follows or self.targets:
            return self.ends
        return {split: max(end, self._asked.get(split, end)) for split, end in self._seen.items()}

    def lag(self) -> int | None:
        """Return the backlog of all splits in records; None of a database."""
        return None if self.standing() is not None else sum(self.waiting().values())

    def by_topic(self) -> dict[str, int]:
        """Return the backlog of each topic that has one, in records."""
        left: dict[str, int] = {}
        for (topic, _), number in self.waiting().items():
            left[topic] = left.get(topic, 0) + number
        return {topic: number for topic, number in sorted(left.items()) if number}


class _LogTimes:
    """The lag of a database's log, and the time left for the rows of its tables."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._seen_at = now()
        """When the ends were seen."""
        self._caught_up = 0.0
        """When the end of the log was seen that is reached."""
        self._pace = Pace()
        """Rows of tables that were read."""

    def see(self) -> None:
        """Note that the ends were seen now."""
        self._seen_at = self._now()

    def of(self, standing: Standing, *, just_seen: bool) -> Standing:
        """Return a standing with its times. `just_seen`: its ends were seen now, not at the driver's last look."""
        now = self._now()
        self._pace.note(now, {"rows": standing.rows_read})
        rate = self._pace.per_second("rows", KEPT_S) or 0.0
        left = standing.rows_left / rate if rate > 0 and standing.tables else None
        if not standing.lag_bytes:
            self._caught_up = now if just_seen else self._seen_at
        # What is left was logged after the last event that was read, and after the log was last read to its end
        since = max(self._caught_up, standing.read_time)
        return standing.with_times(max(0.0, now - since) if since and standing.lag_bytes else 0.0, left)


class WaitingNotes:
    """An observer that tells another one, and notes the backlog in a local checkpoint, for `ingest status`.

    On other file systems it leaves nothing: it is called by the thread that watches whether both sides answer, which
    must not wait for a third one.
    """

    def __init__(self, checkpoint: Checkpoint, tell: Observer, now: Callable[[], float] = time.monotonic) -> None:
        self._checkpoint = checkpoint
        self._tell = tell
        self._now = now
        self._noted = now() if checkpoint.storage.lock is not None else float("inf")

    def __call__(self, event: Event) -> None:
        """Pass the event on, and note the backlog now and then."""
        self._tell(event)
        if isinstance(event, Pending) and self._now() - self._noted >= COUNT_S:
            self._noted = self._now()
            with suppress(IngestError):  # it is for people: how the run goes on is what counts
                note_waiting(self._checkpoint, event.records, None if event.standing is None else event.standing.lag())

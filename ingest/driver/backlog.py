"""The backlog: position and end of each split, and so how much waits to be read; and notes of that for people."""

from __future__ import annotations

import time
from contextlib import suppress
from math import ceil
from typing import TYPE_CHECKING, Final

from ingest.checkpoint.lives import note_waiting
from ingest.errors import IngestError
from ingest.observe.events import Pending

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ingest.checkpoint.checkpoint import Checkpoint, Progress
    from ingest.kafka.admin import Split
    from ingest.observe.events import Event, Observer

COUNT_S: Final = 30.0
"""The time between two notes of how many records wait, in seconds."""


class Backlog:
    """The records between the positions reached and the ends of the splits."""

    def __init__(
        self,
        progress: Progress,
        ends: Mapping[Split, int],
        *,
        drain: bool,
        fixed: Callable[[Mapping[Split, int]], Mapping[Split, int]] = dict,
        weights: Callable[[Mapping[Split, int]], Mapping[Split, float] | None] = lambda _ends: None,
        needed: Callable[[], Mapping[Split, int]] = dict,
    ) -> None:
        """Begin with the ends that were just seen; `drain`: these are where the run ends (`--once`).

        `fixed`: returns those of some ends that stay so then; the run follows the others to wherever they are.
        `weights`: returns how many records a position of each split stands for, None where positions count records.
        `needed`: returns how far some splits are read at least, wherever the run was to end.
        """
        self._needed = needed
        self._weights = weights
        self.progress = progress
        self.targets: Mapping[Split, int] = fixed(ends) if drain else {}
        """The ends of the run, by split, with `--once`; empty otherwise."""
        self._follows = drain and len(self.targets) < len(ends)
        self._seen = ends

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

    def look_past_targets(self, ends: Mapping[Split, int]) -> None:
        """Take the ends that the source has now, whatever the run was to drain: the run is over."""
        self._seen, self.targets, self._follows = ends, {}, False

    def some(self) -> bool:
        """Tell whether any record waits."""
        return any(end > self.positions[split] for split, end in self.ends.items())

    def waiting(self, seen: Mapping[Split, int] | None = None) -> dict[Split, int]:
        """Return how many records of each split wait to be read, as far as positions tell.

        It is an estimate where positions count something else.

        `seen`: where splits end now, in place of the last look. It may be called in another thread than the driver's.
        """
        positions = dict(self.positions)
        ends = self.ends if seen is None or self._follows else self.targets or seen
        left = {split: max(0, end - positions.get(split, 0)) for split, end in ends.items()}
        weights = self._weights(ends)
        return left if weights is None else {split: ceil(count * weights[split]) for split, count in left.items()}

    def lag(self) -> int:
        """Return how many records wait in all splits."""
        return sum(self.waiting().values())

    def by_topic(self) -> dict[str, int]:
        """Return how many records wait in each topic that has any."""
        left: dict[str, int] = {}
        for (topic, _), number in self.waiting().items():
            left[topic] = left.get(topic, 0) + number
        return {topic: number for topic, number in sorted(left.items()) if number}


class WaitingNotes:
    """An observer that tells another one, and leaves in a local checkpoint how many records wait, for `ingest status`.

    On other file systems it leaves nothing: it is called by the thread that watches whether both sides answer, which
    must not wait for a third one.
    """

    def __init__(self, checkpoint: Checkpoint, tell: Observer, now: Callable[[], float] = time.monotonic) -> None:
        """Have noted nothing yet."""
        self._checkpoint = checkpoint
        self._tell = tell
        self._now = now
        self._noted = now() if checkpoint.storage.lock is not None else float("inf")

    def __call__(self, event: Event) -> None:
        """Tell the event, and note the records that wait now and then."""
        self._tell(event)
        if isinstance(event, Pending) and self._now() - self._noted >= COUNT_S:
            self._noted = self._now()
            with suppress(IngestError):  # it is for people: how the run goes on is what counts
                note_waiting(self._checkpoint, sum(event.waiting.values()))

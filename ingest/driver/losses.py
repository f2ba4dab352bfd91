"""Records that should be read and are not there any more: confirmed, and passed over where the options say so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ingest.errors import DataLoss
from ingest.model.record import is_another

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ingest.driver.availability import Retries
    from ingest.driver.backlog import Backlog
    from ingest.errors import IngestError
    from ingest.model.record import Split
    from ingest.sources import SourceCoordinator

CHECK_S: Final = 30.0
"""The time between two looks whether what is to be read next is still there, in seconds. Tasks notice it, too."""
UNEXPLAINED: Final = 3
"""Losses in a row that a look at the cluster does not confirm, before the run ends with them."""
RETRY_S: Final = 1.0
"""The time to wait after a loss that is not confirmed, in seconds."""


class Losses:
    """The lost data of one run."""

    def __init__(self, source: SourceCoordinator, backlog: Backlog, retries: Retries) -> None:
        """Have seen nothing yet."""
        self._source = source
        self._backlog = backlog
        self._retries = retries
        self._clock = retries.clock
        self._unexplained = 0
        self._checked = 0.0

    def survive(self, failure: IngestError) -> None:
        """Go on after lost records where `scan.on-data-loss` says so; raises the failure otherwise."""
        if not isinstance(failure, DataLoss):
            raise failure
        if self.recheck():
            self._unexplained = 0
            return
        # A client may know of a topic's end, or of a new one of its name, a moment before others do
        self._unexplained += 1
        if self._unexplained > UNEXPLAINED:
            raise failure
        self._clock.sleep(RETRY_S)

    def doubtful(self) -> bool:
        """Tell whether to see if what is read next is still there: now and then, and where a split got shorter."""
        late = self._clock.now() - self._checked > CHECK_S
        positions = self._backlog.positions
        return late or any(end < positions[split] for split, end in self._backlog.ends.items())

    def recheck(self) -> bool:
        """Check whether what is to be read next is there, and go by what is; returns whether anything has changed.

        Raises DataLoss where `scan.on-data-loss` does not say how to go on.
        """
        backlog = self._backlog
        before, ids = backlog.positions, dict(self._source.ids)
        now = self._retries.until_answered(lambda: self._source.check(before))
        self._checked = self._clock.now()
        other = {
            split: at
            for split, at in now.items()
            if is_another(ids.get(split[0], ""), self._source.ids.get(split[0], ""))
        }
        backlog.progress.positions = now
        if backlog.targets:
            backlog.targets = self._targets(backlog.targets, now, other)
        return now != before or bool(other)

    def _targets(
        self, targets: Mapping[Split, int], now: Mapping[Split, int], other: Mapping[Split, int]
    ) -> dict[Split, int]:
        """Return where to end now: splits that are gone have no end, and those of another topic end where it does."""
        kept = {split: end for split, end in targets.items() if split in now and split not in other}
        return {**kept, **(self._source.ends(other) if other else {})}

    def explained(self) -> None:
        """Note that the run got on: what was lost before has no part in what may come."""
        self._unexplained = 0

    def suspect(self) -> None:
        """Look again before the next batch."""
        self._checked = 0.0

"""The splits of the source, as they grow: which there are, and where each ends now."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from ingest.errors import DataLoss, IngestError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ingest.driver.availability import Retries
    from ingest.driver.backlog import Backlog
    from ingest.driver.losses import Losses
    from ingest.model.standing import Standing
    from ingest.sources import SourceCoordinator


class SplitWatch:
    """The splits of the source, as they grow."""

    def __init__(
        self, source: SourceCoordinator, backlog: Backlog, losses: Losses, retries: Retries,
        asked: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        """Look at nothing yet. `asked` takes what other commands have asked the run to read."""
        self._source = source
        self._backlog = backlog
        self._losses = losses
        self._retries = retries
        self._asked = asked
        self._away = False
        """True if the broker did not answer when the run was told to stop."""

    def look(self) -> bool:
        """Take in new splits, and where all of them end now; returns whether that is known.

        It is not where data was lost and the run goes on. Raises IngestError.
        """
        backlog = self._backlog
        self._asked()
        try:
            new = self._retries.until_answered(lambda: self._source.discover(backlog.positions))
            backlog.positions.update(new)
            backlog.see(self._retries.until_answered(lambda: self._source.ends(backlog.positions)))
        except DataLoss as exc:
            self._losses.survive(exc)
            return False
        return True

    def confirm(self) -> bool:
        """Tell whether what is read next is still there, as far as there is reason to doubt it. Raises IngestError."""
        return not (self._losses.doubtful() and self._losses.recheck())

    def finished(self) -> bool:
        """Tell whether a bounded source was read to its end."""
        return self._source.finished(self._backlog.positions)

    def keep(self) -> None:
        """Show the positions again, now and then, while nothing happens."""
        self._source.keep(self._backlog.positions)

    def show(self) -> None:
        """Show the positions to whoever watches the consumer group."""
        self._source.commit(self._backlog.positions)

    @property
    def waiting(self) -> int | None:
        """The records that wait to be read, as far as the last look says; None of a database."""
        return self._backlog.lag()

    @property
    def standing(self) -> Standing | None:
        """Where the reading of a database stands."""
        return self._backlog.standing()

    def give_up(self) -> None:
        """Ask no more: the broker is away, and the run over."""
        self._away = True

    def look_past_targets(self) -> None:
        """Look where the splits end when the run is over: what is left, and what came meanwhile.

        Where the source does not answer, what was left at the last look counts.
        """
        if not self._away:
            with suppress(IngestError):
                self._backlog.look_past_targets(self._source.ends(self._backlog.positions))

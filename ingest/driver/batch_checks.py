"""Decides after each batch whether the run goes on: rejected records, lost data, and batches without progress.

Records that should be read and are not there any more are confirmed, and passed over where `scan.on-data-loss` says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ingest.driver.availability import GIVE_UP_S, RETRY_S, Retries
from ingest.errors import DataLoss, DirtyData, IngestError, InternalError, Unavailable
from ingest.formats.appearance import REGISTERED, guessed
from ingest.model.record import Split, is_another
from ingest.task.rejects import MAX_KEPT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ingest.checkpoint.checkpoint import Progress
    from ingest.driver.backlog import Backlog
    from ingest.driver.context import RunContext
    from ingest.driver.ledger import Merged
    from ingest.model.reject import RejectedRecord
    from ingest.sources import SourceCoordinator
    from ingest.task.task import TaskResult


class BatchChecks:
    """The checks after a batch, once its progress is stored."""

    def __init__(self, context: RunContext, backlog: Backlog, errors: ErrorBudget, data_loss: DataLossCheck) -> None:
        self._context = context
        self._backlog = backlog
        self._errors = errors
        self._data_loss = data_loss
        self._stalled = 0.0
        """The time since which batches make no progress; zero where they do."""

    def passed(self, merged: Merged, results: Sequence[TaskResult], *, evolved: bool) -> bool:
        """Return whether a batch did what it was planned for; raises IngestError where the run has to end.

        A batch that met lost data did not, and the run goes on where `scan.on-data-loss` says so.
        """
        self._errors.check(results)
        if merged.failure is not None:
            self._data_loss.tolerate(merged.failure)
            return False
        self._see_progress(merged, results, evolved=evolved)
        return True

    def _see_progress(self, merged: Merged, results: Sequence[TaskResult], *, evolved: bool) -> None:
        """Check that the run makes progress: without it, a broker is away, or there is a bug in ingest."""
        positions = self._backlog.positions
        # where the sink has refused records, the next batch makes progress, or fails
        to_go_back = any(result.progress.refused_before or result.progress.waited for result in results)
        if evolved or merged.learnt or to_go_back or any(positions[split] != at for split, at in merged.before.items()):
            self._stalled = 0.0
            self._data_loss.explained()
            return
        stuck = [split for result in results if result.progress.drifted for split in result.progress.positions]
        if stuck:
            places = ", ".join(f"{topic}[{p}] at offset {positions[topic, p]}" for topic, p in stuck[:5])
            msg = f"a batch came to nothing: a schema takes a row and yet does not; at one of {places}"
            raise InternalError(msg, "please report this with the message")
        self._stalled = self._stalled or self._context.clock.now()
        self._data_loss.suspect()
        if self._context.clock.now() - self._stalled > GIVE_UP_S:
            msg = f"nothing could be read for {GIVE_UP_S:.0f} s though there are records"
            raise Unavailable(msg, "see whether every partition of the source has a leader")
        self._context.warn_once("there are records, but none could be read; trying on")


class ErrorBudget:
    """The number of rejects that is tolerated."""

    def __init__(
        self, context: RunContext, progress: Progress, tolerated: int, none_taken: Callable[[], bool] = lambda: False
    ) -> None:
        """`tolerated`: how many rejects there may be. `none_taken`: whether no record became a row yet."""
        self._none_taken = none_taken
        self._options = context.pipeline.source
        self._progress = progress
        self._tolerated = tolerated

    def left(self) -> int:
        """Return how many more rejects there may be."""
        return max(0, self._tolerated - self._progress.errors)

    def check(self, results: Sequence[TaskResult]) -> None:
        """Raise DirtyData where a batch stopped at a reject, or there are more rejects than tolerated."""
        if any(result.progress.stopped_by_reject for result in results) or self._progress.errors > self._tolerated:
            raise self._too_dirty([reject for result in results for reject in result.progress.rejects])

    def _too_dirty(self, rejects: Sequence[RejectedRecord]) -> DirtyData:
        options = self._options
        first = f": {rejects[-1]}" if rejects else ""
        looks = self._appearance(rejects) if self._none_taken() else ""
        if not options.ignore_errors:
            hint = "correct it at its source, or count such records and go on with ingestion.ignore-errors: true"
            return DirtyData(f"a record was rejected{first}", looks or hint)
        limit = f"ingestion.error-tolerance.max-count: {options.max_errors}"
        hint = "nothing is lost: with a larger max-count the run goes on where it stopped"
        return DirtyData(f"more records were rejected than tolerated ({limit}), the last one{first}", looks or hint)

    def _appearance(self, rejects: Sequence[RejectedRecord]) -> str:
        """Return what to do where no record could be taken, by what they look like; empty where that tells nothing."""
        values = [reject.value for reject in rejects if reject.value is not None and len(reject.value) < MAX_KEPT]
        formats = guessed(values)
        looks = next(iter(formats), None)
        wanted = self._options.format.name
        if looks is None or looks in {wanted, "raw"} or (looks == REGISTERED and wanted.endswith("-confluent")):
            return "no record has become a row yet: ingest tap shows them one by one" if len(rejects) > 1 else ""
        if looks == REGISTERED:
            return (
                f"they look like messages with a schema in a registry, not like {wanted}: set value.format to "
                "avro-confluent, debezium-avro-confluent or protobuf-confluent"
            )
        return f"they look like {looks}, not like {wanted}: set value.format: {looks}"


CHECK_S: Final = 30.0
"""The time between two looks whether what is to be read next is still there, in seconds. Tasks notice it, too."""
UNEXPLAINED: Final = 3
"""DataLossCheck in a row that a look at the cluster does not confirm, before the run ends with them."""


class DataLossCheck:
    """The lost data of one run."""

    def __init__(self, source: SourceCoordinator, backlog: Backlog, retries: Retries) -> None:
        self._source = source
        self._backlog = backlog
        self._retries = retries
        self._clock = retries.clock
        self._unexplained = 0
        self._checked = 0.0

    def tolerate(self, failure: IngestError) -> None:
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
        """Return whether to check that the next records still exist: now and then, and where a split got shorter."""
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
        """Note that the run made progress: earlier losses do not count any more."""
        self._unexplained = 0

    def suspect(self) -> None:
        """Check again before the next batch."""
        self._checked = 0.0

"""The rejects that a pipeline tolerates, over all of its runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingest.errors import DirtyData
from ingest.formats.appearance import REGISTERED, guessed
from ingest.task.rejects import MAX_KEPT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ingest.checkpoint.checkpoint import Progress
    from ingest.driver.context import RunContext
    from ingest.model.reject import RejectedRecord
    from ingest.task.result import TaskResult


class ErrorBudget:
    """So many rejects, and no more."""

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

"""Rejects of a task: how many it may pass, and what is done with each: dead letters, counters, the first ones whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ingest.model.cache import MAX_COUNTED
from ingest.model.record import kept_of, offset_of
from ingest.model.reject import Failure, RejectedRecord
from ingest.task.counters import add_counts, counters_for

if TYPE_CHECKING:
    from ingest.deadletter.letter import DeadLetters
    from ingest.model.change import Reject
    from ingest.model.record import Record, Split
    from ingest.model.reject import IgnoredErrors
    from ingest.task.counters import Counters
    from ingest.task.task import Assigned, Setup, TaskResult

MAX_REJECTS: Final = 100
"""Rejects that a result holds in full; all are counted."""
MAX_LOGGED: Final = 10_000
"""Rejects after which a task ends where each of them is to be logged."""
MAX_KEPT: Final = 4096
"""Bytes of a reject's key and value, and characters of its message, that a result holds: more than an error shows."""


class RecordReject(NamedTuple):
    """A record that is rejected in a stage, and why."""

    record: Record
    stage: str
    reason: Reject
    passed: bool
    """True if the task goes on after it. If not, it is the last one, and the record will be read again."""


class RejectLimit:
    """The number of rejects that a task may pass."""

    def __init__(self, tolerated: int, counters: Counters, ignored: IgnoredErrors) -> None:
        """`ignored`: errors that do not count."""
        self.ignored = ignored
        self._tolerated = tolerated
        self._counters = counters

    @property
    def left(self) -> int:
        """The number of rejects that may still pass."""
        return self._tolerated - self._counters.rejected

    def counts(self, stage: str, reject: Reject) -> bool:
        """Return whether a reject of this stage counts."""
        return not self.ignored.covers(stage, of_key=reject.of_key)

    def allows(self, stage: str, reject: Reject, before: int = 0) -> bool:
        """Return whether a reject of this stage may pass, after so many that count and are not in the result yet."""
        return self.left > before or not self.counts(stage, reject)


class Rejects:
    """The way of rejects out of a task. A reject that does not pass does not count: it would count in every new run."""

    def __init__(
        self,
        setup: Setup,
        limit: RejectLimit,
        letters: DeadLetters | None,
        known_tables: int,
        result: TaskResult,
        assigned: Assigned | None = None,
    ) -> None:
        """`letters`: None if workers do not send rejects anywhere; `known_tables`: those that have a schema."""
        self._limit = limit
        self._letters = letters
        self._rows = setup.source.row_letters
        self._assigned = assigned
        self.place: Any = None
        """What the current chunk says of its place."""
        self._logged = setup.collector is not None and setup.collector.type == "logger"
        self._max_tables = MAX_COUNTED + known_tables
        self._sent: set[tuple[Split, int]] = set()
        """Records whose letters were sent since the last commit: they are not sent again where a task goes back."""
        self._counters, self._progress = result.counters, result.progress

    @property
    def full(self) -> bool:
        """True if the task has to end, because its result has no room for more rejects that are to be logged."""
        return self._logged and len(self._progress.rejects) >= MAX_LOGGED

    def committed(self) -> None:
        """Forget which letters were sent: their records do not come again."""
        self._sent.clear()

    def went_back(self) -> None:
        """Forget which letters were sent, where they were given up with what the sink got since the last commit."""
        if self._letters is not None and self._letters.shared:
            self._sent.clear()

    def add(self, split: Split, reject: RecordReject) -> None:
        """Send a reject to the dead letters, count it, and keep it if there is room. Raises IngestError."""
        message, stage, reason, passed = self._kept(split, reject.record), *reject[1:]
        counters, rejects = self._counters, self._progress.rejects
        add_counts(counters.reject_codes, {(stage, reason.code): 1})
        if passed and self._letters is not None and (split, offset_of(message)) not in self._sent:
            self._letters.add(message, stage, reason)
            self._sent.add((split, offset_of(message)))
        if not self._limit.counts(stage, reason):
            counters.skip("parse-error", 1)
        elif passed:
            counters.rejected += 1
        if reason.table is not None:
            counters_for(counters.tables, reason.table, self._max_tables).rejected += 1
        if len(rejects) < (MAX_LOGGED if self._logged else MAX_REJECTS):
            rejects.append(
                RejectedRecord(
                    split[0], split[1], offset_of(message), stage, reason.code, reason.message[:MAX_KEPT], reason.table,
                    head_of(message.key()), head_of(message.value()), getattr(message, "where", ""), passed,
                    small(reason.failure),
                )
            )  # fmt: skip
        if not passed:
            self._progress.stopped_by_reject = True

    def _kept(self, split: Split, record: Record) -> Record:
        """Return the record that a dead letter is of."""
        if self._rows is None or self._assigned is None:
            return kept_of(record)
        return self._rows.as_letter(self._assigned.own, self._assigned.shared.value, split, record, self.place)


def small(failure: Failure | None) -> Failure | None:
    """Return what an expression failed on, or None if that is large: then nobody is told why."""
    values = () if failure is None else failure.values.values()
    return failure if sum(len(value) for value in values if isinstance(value, (str, bytes))) <= MAX_KEPT else None


def head_of(data: bytes | None) -> bytes | None:
    """Return the beginning of a key or value."""
    return None if data is None else data[:MAX_KEPT]

"""Rejects of a task: how many it may pass, and what is done with each: dead letters, counters, the first ones whole.

Where it is the sink that refuses records, the task goes over them again, so that only the messages at fault become
rejects:

    ordinary    native; a commit every few seconds
    apart       native, a commit for each chunk: shows which chunk the records are in
    watched     by the reference, which knows the records of each message: only in that chunk

A refusal leads from one mode to the next one, beginning where the last commit was. At the end of what it is for, each
mode leads back to the one before. A message whose record may be taken once other tasks have committed waits for that:
the task commits what is before it, and ends. Rules: docs/spec/dirty-data.md#rows-that-the-sink-refuses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ingest.model.cache import MAX_COUNTED
from ingest.model.record import Record, Split, kept_of, offset_of
from ingest.model.reject import Failure, IgnoredErrors, LeftForLater, RejectedRecord, RowError
from ingest.task.task import Assigned, Counters, Setup, TaskResult, add_counts, counters_for

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ingest.deadletter.letter import DeadLetters
    from ingest.encode.upsert_encoder import Record as Written
    from ingest.model.change import Reject
    from ingest.model.commit import RefusedRow, RowsRefused
    from ingest.model.schema import TableSchema
    from ingest.model.table import TableId

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


class RefusedRecords:
    """The records that the sink has refused since the last commit."""

    def __init__(self, *, waits: bool = False) -> None:
        """Know of none. `waits`: whether those are to wait that may pass once other tasks have committed."""
        self._reasons: dict[tuple[Any, bytes | None, bytes | None], RefusedRow] = {}
        self._put_off = False
        self._waits = waits
        self.waiting = False
        """True if a message waits: the task ends there."""

    def add(self, exc: RowsRefused) -> None:
        """Add the records of an error. Raise it where it tells nothing new, as trying again would not end."""
        before = len(self._reasons)
        self._reasons.update({row[:3]: row for row in exc.rows})
        self.waiting = False
        if len(self._reasons) == before:
            if exc.rows or self._put_off:
                raise exc
            self._put_off = True

    def __bool__(self) -> bool:
        """Return whether any are known."""
        return bool(self._reasons)

    def reason(self, records: Sequence[Written]) -> str | None:
        """Return why the first one of a message's records is refused; None if none is.

        Raise LeftForLater for a message that waits.
        """
        for record in records:
            value = None if record.value is None else bytes(record.value)
            found = self._reasons.get((record.destination, record.key, value))
            if found is not None:
                if found.may_pass and self._waits:
                    self.waiting = True
                    raise LeftForLater
                return found.reason
        return None

    def check(self, records: Sequence[Written]) -> None:
        """Raise RowError if one of a message's records is refused, LeftForLater if it waits."""
        why = self.reason(records) if self._reasons else None
        if why is not None:
            raise RowError("refused", why)


@dataclass(frozen=True, slots=True)
class Stopped:
    """What a task that goes back keeps of how it had ended."""

    observed: dict[TableId, TableSchema]
    widening: dict[tuple[TableId, str], bytes]
    rejects: list[RejectedRecord]
    """Those that it stopped at."""
    drifted: bool
    waited: bool

    @classmethod
    def of(cls, result: TaskResult) -> Stopped:
        """Return that of a task."""
        progress = result.progress
        at_fault = [reject for reject in progress.rejects if not reject.passed]
        return cls(progress.observed, progress.widening, at_fault, progress.drifted, progress.waited)

    def put_back(self, result: TaskResult) -> None:
        """Let the task end so."""
        progress = result.progress
        progress.observed, progress.widening = progress.observed | self.observed, progress.widening | self.widening
        progress.drifted, progress.waited = progress.drifted or self.drifted, progress.waited or self.waited
        for reject in self.rejects:
            progress.rejects.append(reject)
            progress.stopped_by_reject = True
            add_counts(result.counters.reject_codes, {(reject.stage, reject.code): 1})


class RefusalMode:
    """The mode in which a task goes over its records, and up to where."""

    def __init__(self, ends: Mapping[Split, int], *, waits: bool = False) -> None:
        """Begin with the ordinary mode. `ends`: where the task ends; `waits`: see `RefusedRecords`."""
        self._ends, self._waits = ends, waits
        self._apart: Mapping[Split, int] | None = None
        self._watched: Mapping[Split, int] | None = None
        self.refused = self._none_refused()

    def _none_refused(self) -> RefusedRecords:
        return RefusedRecords(waits=self._waits)

    @property
    def ends(self) -> Mapping[Split, int]:
        """The positions where the mode ends."""
        return self._watched or self._apart or self._ends

    @property
    def apart(self) -> bool:
        """True if each chunk is committed by itself."""
        return self._apart is not None

    @property
    def watched(self) -> bool:
        """True if messages are encoded by the reference, without those whose records are refused."""
        return self._watched is not None

    def refuse(self, exc: RowsRefused, reached: Mapping[Split, int]) -> None:
        """Choose the mode after a refusal. Raise its error if it tells nothing new.

        `reached`: the positions behind all that has been written, from which the task goes back to its last commit.
        """
        if self._apart is None:
            self._apart = dict(reached)
            return
        self.refused.add(exc)
        if self.refused and self._watched is None:
            self._watched = dict(reached)

    def cut(self, reached: Mapping[Split, int]) -> None:
        """Let all modes end at these positions at the latest."""
        self._ends = reached
        self._apart = None if self._apart is None else reached
        self._watched = None if self._watched is None else reached

    def committed(self) -> None:
        """Forget records that were refused before a commit: they are rejects."""
        if self._watched is None:
            self.refused = self._none_refused()

    def end(self) -> None:
        """Go back to the mode before, at the end of one."""
        if self._watched is not None:
            self._watched, self.refused = None, self._none_refused()
        else:
            self._apart = None

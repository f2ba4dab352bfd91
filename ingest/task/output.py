"""What a task writes and what it says of that: progress, counts, rejects.

The half of a task that has the sink's writer. What a writer commits is progress; an attempt that comes after one that
failed goes on where that one committed last.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext

from ingest.encode.conform import OTHERS
from ingest.encode.rows import RowPlan
from ingest.encode.transform import FeedPlan
from ingest.errors import CommitOutcomeUnknown as Unsettled
from ingest.errors import Fenced as Superseded
from ingest.errors import IngestError
from ingest.model.cache import MAX_COUNTED, count_up
from ingest.model.portion import Portion
from ingest.model.reject import Failure, Reject
from ingest.task import worker
from ingest.task.assignment import add_counts
from ingest.task.tally import Counts, Tally, counts_for

if TYPE_CHECKING:
    from ingest.deadletter.letter import DeadLetters
    from ingest.encode.plan import Plan
    from ingest.kafka.admin import Split
    from ingest.model.change import Bad
    from ingest.model.record import Record
    from ingest.sinks import Writer
    from ingest.task.assignment import Outcome, Task
    from ingest.task.changelog import Changelog

UNSAID: Final = "delete-without-key"
"""Why deletes are skipped that the sink's format has no way to say."""
FILTERED: Final = "filter"
"""Why changes are skipped that a transform's filter does not let pass."""
MAX_REJECTS: Final = 100
"""Rejects that an outcome holds in full; all are counted."""
MAX_LOGGED: Final = 10_000
"""Rejects after which a task ends where each of them is to be logged."""
MAX_KEPT: Final = 4096
"""Bytes of a reject's key and value, and characters of its message, that an outcome holds: more than an error shows."""


class Output:
    """One shard's way out."""

    changelog: Changelog | None = None

    def __init__(self, task: Task, outcome: Outcome) -> None:
        """Bring the worker's state to the task's version of the schemas."""
        self.task = task
        self.outcome = outcome
        self.setup = task.setup.value
        self.state = worker.state(self.setup, task.base, task.base_version, task.deltas)
        self.plans = self.state.plans
        self.ignore_decode = self.setup.source.format.ignore_parse_errors
        self.writer, self.letters = self.open()
        self.logged = self.setup.collector is not None and self.setup.collector.type == "logger"
        self.lost_before = self.writer.failures
        self.written: dict[Split, int] = dict(outcome.positions)
        self.ended = False

    def open(self) -> tuple[Writer, DeadLetters | None]:
        """Where records and rejects go."""
        return self.state.writer(), self.state.letters()

    def resume(self) -> bool:
        """Go on where an earlier attempt ended, if the sink knows that; whether nothing is left to do."""
        task, outcome = self.task, self.outcome
        outcome.worker = self.state.token
        context = TaskContext.get()
        first = context is None or context.attemptNumber() == 0
        starts = dict(self.written)
        kept = first and task.last == self.state.token
        portion = Portion(self.setup.scope, self.setup.run, task.batch, task.planned, task.shard, starts, kept)
        try:
            resumed = self.writer.begin(portion)
        except (Unsettled, Superseded):
            raise
        except IngestError as exc:
            if first:
                raise
            # How far an earlier attempt came is not known: that must not look as if it had not begun
            raise Unsettled(exc.message, exc.hint) from exc
        if resumed is None:
            return False
        tally = Tally.read_from(resumed.tally)
        outcome.read, outcome.rejected, outcome.counts = tally.read, tally.rejected, tally.tables
        outcome.positions.update(resumed.positions)
        self.written.update(resumed.positions)
        return resumed.final

    def tally(self) -> bytes:
        """What was counted so far."""
        self.count_all()
        return Tally(self.outcome.read, self.outcome.rejected, self.outcome.counts).text()

    def count_all(self) -> None:
        """Move all plans' counters into the outcome."""
        if self.state.lanes is not None:
            self.state.lanes.settle()
        for plan in self.plans.compiled.values():
            self.count(plan)

    def count(self, plan: Plan) -> None:
        """Move a plan's counters into the outcome."""
        if plan.inserted or plan.updated or plan.deleted:
            counts = self.outcome.counts.setdefault(plan.table, Counts())
            counts.inserted += plan.inserted
            counts.updated += plan.updated
            counts.deleted += plan.deleted
            plan.inserted = plan.updated = plan.deleted = 0
        if plan.unsaid:
            self.skip(UNSAID, plan.unsaid)
            plan.unsaid = 0
        if isinstance(plan, (FeedPlan, RowPlan)):
            add_counts(self.outcome.cut, {(plan.table, column): count for column, count in plan.cut.items()})
            plan.cut.clear()
        withheld = plan.withheld
        for column, number in withheld.items():
            count_up(self.outcome.withheld, (plan.table, column), number, (plan.table, OTHERS))
        withheld.clear()

    def commit(self, *, final: bool = False) -> None:
        """Make what was written durable; only then is it progress."""
        positions = dict(self.written)
        if self.letters is not None:
            self.letters.commit()
        self.writer.commit(positions, self.tally, final=final)
        if self.changelog is not None:
            self.changelog.commit(positions)
        self.outcome.delivered += self.writer.delivered()
        if self.outcome.first_ack is None and self.outcome.read:
            self.outcome.first_ack = time.time()
        self.outcome.positions = positions

    def skip(self, reason: str, count: int) -> None:
        """Count records that stand for no row."""
        if count:
            self.outcome.skipped[reason] = self.outcome.skipped.get(reason, 0) + count

    def reject(self, split: Split, message: Record, stage: str, bad: Bad, *, passed: bool = True) -> None:
        """Count a reject, send it to the dead letters if it is passed, and keep the first ones whole."""
        if passed and self.letters is not None:
            self.letters.add(message, stage, bad)
        if stage == "decode" and self.ignore_decode:
            self.skip("parse-error", 1)
        else:
            self.outcome.rejected += 1
        if bad.table is not None:
            known = self.state.schemas.sources
            counts_for(self.outcome.counts, bad.table, MAX_COUNTED + len(known)).rejected += 1
        if len(self.outcome.rejects) < (MAX_LOGGED if self.logged else MAX_REJECTS):
            self.outcome.rejects.append(
                Reject(
                    split[0], split[1], offset_of(message), stage, bad.code, bad.message[:MAX_KEPT], bad.table,
                    _start(message.key()), _start(message.value()), passed=passed, failure=_small(bad.failure),
                )
            )  # fmt: skip

    def stop_at_reject(self) -> None:
        """End before the last reject: it is not passed, so it does not count, or every new run would count it again."""
        self.outcome.rejected -= 1
        self.outcome.stopped_by_reject = self.ended = True


def _small(failure: Failure | None) -> Failure | None:
    """What an expression failed on, unless that is large: then nobody is told why."""
    values = () if failure is None else failure.values.values()
    return failure if sum(len(value) for value in values if isinstance(value, (str, bytes))) <= MAX_KEPT else None


def _start(data: bytes | None) -> bytes | None:
    return None if data is None else data[:MAX_KEPT]


def offset_of(record: Record) -> int:
    """A record's offset; only error events have none."""
    offset: int = record.offset()  # type: ignore[assignment]
    return offset

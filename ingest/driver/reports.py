"""Tells the observer of a run's progress: its start, each batch, each reject, its counters in the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ingest.formats import is_of_rows
from ingest.model.change import LONE_TOMBSTONE, TOMBSTONE
from ingest.model.commit import NO_ROW, OLDER
from ingest.model.reject import RejectedRecord, head
from ingest.model.table import show
from ingest.observe.events import BatchDone, BatchMeasured, DirtyRecord, RejectEvent, RunStarted, client_events
from ingest.task import native_support
from ingest.task.task import FILTERED, UNREPRESENTABLE, Counters, TaskResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ingest.checkpoint.checkpoint import Batch
    from ingest.driver.context import RunContext
    from ingest.driver.ledger import RunCounters
    from ingest.driver.startup import Start
    from ingest.model.record import Split
    from ingest.model.standing import Standing

_EXPECTED: Final = frozenset({"tombstone", "parse-error", "header-filter", "not-included", "not-selected", FILTERED})
"""Reasons why records are skipped without a warning: the pipeline asks for it."""


_LONE: Final = (
    "tombstones without the delete before them are skipped and counted (lone-tombstone): they name no table, so rows "
    "that were written before they were deleted stay. A compacted topic (cleanup.policy) keeps nothing else of a "
    "delete; let it keep its records longer than a run stands still"
)
_NO_ROW: Final = (
    "updates are left out and counted (no-row-for-its-columns): the log has only some columns of these rows "
    "(binlog_row_image), and the table has no row with the others. Rows that are being read come whole; otherwise "
    "`ingest verify` finds them, and `ingest backfill` reads the table again"
)
FIRST: Final = 5
"""Rejects of each code that are told where a topic of dead letters has all of them."""
MAX_CODES: Final = 200


class Reports:
    """Events that are told of one run."""

    def __init__(
        self,
        context: RunContext,
        start: Start,
        counters: RunCounters,
        on_reject: Callable[[RejectedRecord], None],
        ask_workers: Callable[[], list[list[str]]],
    ) -> None:
        """`on_reject` gets each reject that a task gave in full.

        `ask_workers` returns what some workers say of why records pass through Python in them.
        """
        self._context = context
        self._start = start
        self._counters = counters
        self._on_reject = on_reject
        self._ask_workers = ask_workers

    def run_started(self) -> None:
        """Ask workers why records pass through Python in them, and tell that everything is connected."""
        start = self._start
        why = dict.fromkeys(reason for reasons in self._ask_workers() for reason in reasons)
        several = [show(table) for table, source in start.schemas.schemas.sources.items() if len(source.targets) > 1]
        if several:
            why[f"rows that go to several sink tables ({len(several)} tables, {several[0]} the first)"] = None
        checkpoint, backlog = start.checkpoint, start.backlog
        for text in native_support.warnings(why):
            self._context.warn_once(text)
        self._context.observer(
            RunStarted(
                self._context.name,
                checkpoint.run,
                checkpoint.where,
                len(backlog.positions),
                start.resumed,
                backlog.lag(),
                not why,
                tuple(why),
                backlog.waiting(),
                backlog.standing(),
            )
        )

    def batch_done(self, batch: Batch, results: Sequence[TaskResult], seconds: float) -> None:
        """Tell of a batch whose progress is stored; `seconds`: how long it took."""
        for event in client_events(report for result in results for report in result.telemetry.reports):
            self._context.observer(event)
        self._warn_of_what_is_left_out()
        for reject in (reject for result in results for reject in result.progress.rejects):
            self._on_reject(reject)
        backlog = self._start.backlog
        waiting, standing = backlog.waiting(), backlog.standing()
        self._context.observer(self._measured(results, waiting, standing))
        telemetry = [result.telemetry for result in results]
        acks = [task.first_ack for task in telemetry if task.first_ack is not None]
        self._context.observer(
            BatchDone(
                batch=batch.number,
                records=sum(result.counters.read for result in results),
                seconds=seconds,
                lag=sum(waiting.values()) if standing is None else None,
                rejected=sum(result.counters.rejected + result.progress.stopped_by_reject for result in results),
                cpu_s=sum(task.cpu_s for task in telemetry),
                worker_rss_kib=max(task.rss_kib for task in telemetry),
                first_ack=min(acks, default=None),
                standing=standing,
            )
        )

    def _measured(
        self, results: Sequence[TaskResult], waiting: Mapping[Split, int], standing: Standing | None
    ) -> BatchMeasured:
        """Return the numbers of a batch. `waiting`: the backlog of each split in records."""
        counters = Counters()
        sizes_of: dict[str, list[int]] = {}
        for result in results:
            counters.add(result.counters, self._counters.most_tables)
            for table, sizes in result.telemetry.table_bytes.items():
                total = sizes_of.setdefault(show(table), [0, 0])  # two tables may be shown alike
                total[0] += sizes[0]
                total[1] += sizes[1]
        telemetry = [result.telemetry for result in results]
        return BatchMeasured(
            records_in=counters.read,
            bytes_in=sum(task.bytes_in for task in telemetry),
            records_out=sum(task.records_out for task in telemetry),
            bytes_out=sum(task.bytes_out for task in telemetry),
            tables=counters.by_name(),
            table_bytes=sizes_of,
            rejects=counters.reject_codes,
            skipped=dict(self._counters.total.skipped),
            positions=dict(self._start.backlog.positions) if standing is None else {},
            waiting=waiting,
            fetch_lag_s=_newest(task.fetch_lag_s for task in telemetry),
            emit_lag_s=_newest(task.emit_lag_s for task in telemetry),
            send_s=max(task.send_s for task in telemetry),
            commit_s=self._counters.commit_s,
            failed=any(result.progress.failure is not None for result in results),
            standing=standing,
        )

    def _warn_of_tombstones(self) -> None:
        source = self._context.pipeline.source
        if not source.format.capabilities.repeats_deletes:
            unkeyed = is_of_rows(source.format.name) and not source.extra.key
            why = "key.format reads them as deletes" if unkeyed else "they name no table"
            self._context.warn_once(f"records without a value are skipped and counted (tombstone): {why}")

    def run_ended(self) -> None:
        """Fill in the closing summary."""
        backlog = self._start.backlog
        standing = backlog.standing()
        self._counters.summarise(backlog.by_topic() if standing is None else None, standing)

    def _warn_of_what_is_left_out(self) -> None:
        warn, counters = self._context.warn_once, self._counters.total
        for reason in sorted(counters.skipped):
            if reason == UNREPRESENTABLE:
                warn("deletes are left out and counted: the sink's format cannot say them without key.format")
            elif reason == OLDER:
                warn("changes that are older than the row that is there are left out and counted (sink.sequence-by)")
            elif reason == NO_ROW:
                warn(_NO_ROW)
            elif reason == LONE_TOMBSTONE.reason:
                warn(_LONE)
            elif reason == TOMBSTONE.reason:
                self._warn_of_tombstones()
            elif reason not in _EXPECTED:
                warn(f"messages that are no rows are skipped and counted: {reason}")
        for table, column in sorted(counters.withheld):
            warn(f"table {show(table)}: values of column {column!r} are left out of the sink, and counted")
        for table, column in sorted(counters.cut):
            why = "is cut where the sink, expressions or Debezium's types need it, and counted"
            warn(f"table {show(table)}: what is finer than a microsecond in column {column!r} {why}")
        for table, column in sorted(counters.unread):
            why = "cannot be read: they are unknown, as if the message did not tell them, and counted"
            warn(f"table {show(table)}: values of column {column!r} in rows before a change {why}")
        for table, column in sorted(counters.rounded):
            warn(
                f"table {show(table)}: numbers in column {column!r} that no FLOAT or DOUBLE is are rounded, and "
                "counted (to keep all digits, declare it DECIMAL or STRING: scan.value.initial-schemas.ddls)"
            )


def _newest(lags: Iterable[float | None]) -> float | None:
    """Return the smallest lag, which is that of the newest record."""
    return min((lag for lag in lags if lag is not None), default=None)


def tell_rejects(context: RunContext) -> Callable[[RejectedRecord], None]:
    """Return what tells the observer of rejects: in full where a log collects them, in one line else.

    Where a topic has them, the first of each code are told, without their records.
    """
    collector = context.pipeline.pipeline.collector
    logged = collector is not None and collector.type == "logger"
    topic = None if collector is None else collector.topic
    shown_counts: dict[tuple[str, str], int] = {}

    def tell(reject: RejectedRecord) -> None:
        table = show(reject.table) if reject.table else ""
        code = reject.stage, reject.code
        if logged:
            context.observer(_dirty(reject, table))
        elif topic is None or not reject.passed:
            context.observer(RejectEvent(table, str(reject), *code))
        elif (count := shown_counts.get(code, 0) + 1) <= FIRST and (count > 1 or len(shown_counts) < MAX_CODES):
            shown_counts[code] = count
            more = f"; more of this code are in topic {topic} only" if count == FIRST else ""
            context.observer(RejectEvent(table, reject.without_record + more, *code))

    return tell


def _dirty(reject: RejectedRecord, table: str) -> DirtyRecord:
    return DirtyRecord(
        reject.topic,
        reject.partition,
        reject.offset,
        reject.stage,
        reject.code,
        reject.message,
        table,
        head(reject.key),
        head(reject.value),
        passed=reject.passed,
    )

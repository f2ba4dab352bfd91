"""The comparison of a pipeline's sink with its source, table by table, also while the pipeline runs.

    look      where the pipeline is: the sink has all up to there
    read      the sink
    look      what the pipeline had planned when the sink was read: the sink has nothing behind that
    expect    what the source says up to the first place, and between both
    compare   a key that the sink has in no state of that range differs

A pipeline that is running may have been about to write what was not there. So each key whose last state was not there
is compared once more, when the pipeline has passed the second place, and only what differs again is a difference.
Rules: docs/spec/verify.md.
"""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ingest.checkpoint.checkpoint import Checkpoint
from ingest.checkpoint.hadoop_storage import HadoopStorage
from ingest.checkpoint.inspect import opened
from ingest.checkpoint.run_status import status
from ingest.driver.context import Settings, with_files
from ingest.driver.replacement import chosen_tables
from ingest.driver.sink_tables import remedy
from ingest.errors import CheckpointError, ConfigError
from ingest.model.table import TableId, show
from ingest.paths import is_remote
from ingest.testing.sample_run import session_on_demand
from ingest.verify.comparison import ComparedSides, Comparison, Key, Spool, UnequalKey
from ingest.verify.expected import ExpectedRows, Readings, SnapshotRows, unread
from ingest.verify.lakes import DeltaReader, IcebergReader
from ingest.verify.records import FilesReader, TopicsReader
from ingest.verify.rows import Counts, SinkReader, SinkTable, TableVerdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from ingest.component.options import AnyOptions
    from ingest.config.pipeline import Pipeline
    from ingest.encode.upsert_encoder import Destination
    from ingest.model.record import Split
    from ingest.model.schema import TableSchema
    from ingest.observe.events import RunEnded
    from ingest.schema.evolve import Schemas
    from ingest.spark.session import Session
    from ingest.verify.expected import Receiver

MOST_TWICE: Final = 1_000_000
"""Keys that are compared once more, at most."""
_POLL_S: Final = 1.0
_CUT: Final = "cut to microseconds"


class PipelinePositions(NamedTuple):
    """Where a pipeline is, as its checkpoint says."""

    reached: dict[Split, int]
    """Positions that the sink has passed."""
    planned: dict[Split, int]
    """Positions that it has not: the ends of the batch in work."""
    running: bool


@dataclass(slots=True)
class Verdict:
    """The result of a comparison."""

    pipeline: str
    tables: list[TableVerdict] = field(default_factory=list)
    changed: dict[str, int] = field(default_factory=dict)
    """By reason: values that the sink stores otherwise than the source has them, as its columns do: no differences."""
    rejected: int = 0
    """Records of the source that become no rows."""
    warnings: list[str] = field(default_factory=list)

    @property
    def equal(self) -> bool:
        """True if nothing differs."""
        return all(table.equal for table in self.tables)


class Verification:
    """A comparison of some tables of a pipeline."""

    def __init__(
        self,
        pipeline: Pipeline,
        settings: Settings,
        *,
        limit: int = 20,
        wait_s: float = 300.0,
        tell: Callable[[str], None] = lambda _: None,
        session: Callable[[], Session] | None = None,
    ) -> None:
        """`limit`: differences of a table that are shown. `wait_s`: the longest time to wait for a pipeline that runs.

        `tell` gets warnings about files. `session` returns a Spark that is there; None: one is started if need be.
        """
        self._resources = ExitStack()
        self._session = session or session_on_demand(settings, self._resources)
        self._pipeline = with_files(pipeline, settings.conf, tell)
        self._settings = settings
        self._limit = limit
        self._wait_s = wait_s
        self._report = Verdict(pipeline.pipeline.name)
        self._reader = reader_of(self._pipeline, self._resources)
        self._sources: dict[TableId, list[TableId]] = {}
        """By sink table, the source tables whose rows go there."""
        self._numbers: dict[TableId, int] = {}
        self._compared: list[SinkTable] = []

    def run(self, names: Sequence[str] = ()) -> Verdict:
        """Compare the sink tables of these source tables, or all. Raise IngestError."""
        with self._resources:
            place, schemas = self._look()
            self._sources = _chosen(names, schemas, self._settings.checkpoint)
            targets = self._look_up(schemas)
            if targets:
                with tempfile.TemporaryDirectory(prefix="ingest-verify-") as folder:
                    if self._pipeline.source.type == "mysql":
                        self._compare_database(targets, Path(folder))
                    else:
                        self._compare(place, targets, Path(folder))
        if self._reader.cut:
            self._report.changed[_CUT] = self._report.changed.get(_CUT, 0) + self._reader.cut
        for target, (count, why) in self._reader.unreadable.items():
            verdict = self._report.tables[self._numbers[target]]
            verdict.unreadable = count
            verdict.notes.append(f"records that cannot be read back: {count:,}; the first: {why}")
        for table in self._report.tables:
            if table.counts.extra or table.counts.duplicate:
                table.repair += "; rows that only the sink has stay: delete them there"
        return self._report

    def _look(self) -> tuple[PipelinePositions, Schemas]:
        """Return where the pipeline is, and the schemas of its tables. Raise IngestError."""
        where = self._settings.checkpoint
        with self._opened(where) as checkpoint:
            progress, unfinished = checkpoint.progress()
            schemas = checkpoint.schemas(self._pipeline.rules)
            now = status(checkpoint)
        reached = dict(progress.positions)
        planned = dict(reached)
        if unfinished is not None:
            for split, (start, end) in unfinished.ranges.items():
                planned[split] = max(end, planned.get(split, end))
                reached.setdefault(split, start)
        if not reached:
            msg = f"the checkpoint {where} has no position yet: nothing is written that could be verified"
            raise CheckpointError(msg, "let the pipeline run first; or give its --checkpoint, if it has another one")
        running = now["state"] == "running"
        if running and now["command"] in {"backfill", "replay"}:
            self._warn(
                f"a {now['command']} is going on: until it is over, rows of the sink may be older than the source's"
            )
        left = unread(progress.source_state)
        if left:
            msg = f"rows that were there at the start are not all read yet, of {', '.join(left[:5])}"
            raise ConfigError(msg, "verify when ingest status says that the snapshot is over")
        return PipelinePositions(reached, planned, running), schemas

    @contextmanager
    def _opened(self, where: str) -> Iterator[Checkpoint]:
        """Yield the checkpoint to look at; a remote one by the Spark that is there. Raise IngestError."""
        if not is_remote(where):
            with opened(where, self._settings.conf, write=False) as checkpoint:
                yield checkpoint
            return
        checkpoint = Checkpoint(HadoopStorage(where, *self._session().hadoop, make=False))
        if not checkpoint.exists:
            msg = f"there is no checkpoint at {where}"
            raise CheckpointError(msg, "let the pipeline run first; or give its --checkpoint, if it has another one")
        yield checkpoint

    def _look_up(self, schemas: Schemas) -> list[TableId]:
        """Look up the sink's tables; returns those that can be compared. Raise IngestError."""
        self._numbers = {target: number for number, target in enumerate(self._sources)}
        tables = self._reader.tables({target: schemas.sinks[target] for target in self._sources})
        source: AnyOptions = self._pipeline.source
        forgets = source.type == "mysql" or source.capabilities.upserts
        for target, sources in self._sources.items():
            table = replace(tables[target], rules=replace(tables[target].rules, forgets=forgets))
            self._compared.append(table)
            self._report.tables.append(
                TableVerdict(
                    show(target),
                    [show(source) for source in sources],
                    table.place,
                    missing_columns=list(table.missing),
                    absent=table.absent,
                    skipped=table.skipped,
                    notes=[*table.notes, *_notes(table)],
                    repair=remedy(self._pipeline, sources),
                )
            )
        return [target for target, table in tables.items() if not table.skipped]

    def _compare(self, place: PipelinePositions, targets: Sequence[TableId], folder: Path) -> None:
        """Compare tables of the sink with the topics or files of the source. Raise IngestError.

        While the pipeline runs, keys that differ are compared again once it has passed the records read here.
        """
        sources = {source for target in targets for source in self._sources[target]}
        expected = ExpectedRows(self._readings(), sources)

        def read_on(starts: Mapping[Split, int] | None, ends: Mapping[Split, int], take: Receiver) -> None:
            if starts is None or any(at > starts.get(split, -1) for split, at in ends.items()):
                self._count(expected.read(starts, ends, take))

        sink = self._read_sink(targets, Spool(folder, "sink"))
        later = self._look()[0]
        before, since = Spool(folder, "before"), Spool(folder, "since")
        read_on(None, place.reached, self._taking(before))
        read_on(place.reached, later.planned, self._taking(since))
        self._note_incomplete(expected.incomplete)
        self._judge(
            ComparedSides(before, since, sink),
            folder,
            later.planned,
            lambda take: read_on(later.planned, self._look()[0].planned, take),
            running=later.running,
        )

    def _compare_database(self, targets: Sequence[TableId], folder: Path) -> None:
        """Compare tables of the sink with those of a database. Raise IngestError.

        While the pipeline runs, keys that differ are compared again, as in `_compare`.
        """
        expected = SnapshotRows(self._readings(), {source for target in targets for source in self._sources[target]})
        before, since = Spool(folder, "before"), Spool(folder, "since")
        for _ in range(2):  # the second one takes the log to behind the position of each chunk
            self._count(expected.read(self._taking(before)))
        behind: set[Key] = set()
        if not self._wait(expected.positions):
            self._count(expected.changes(self._collecting(behind)))
        self._drop_columns(expected.schemas)
        sink = self._read_sink(targets, Spool(folder, "sink"))
        running = self._look()[0].running

        def read_on(take: Receiver) -> None:
            self._count(expected.read(take))

        read_on(self._taking(since))
        self._judge(ComparedSides(before, since, sink), folder, expected.positions, read_on, behind, running=running)

    def _readings(self) -> Readings:
        return Readings(self._pipeline, self._settings, self._reader.sink, self._warn, self._session)

    def _judge(
        self,
        sides: ComparedSides,
        folder: Path,
        planned: Mapping[Split, int],
        read_on: Callable[[Receiver], None],
        behind: AbstractSet[Key] = frozenset(),
        *,
        running: bool,
    ) -> None:
        """Add what differs to the report; while the pipeline runs, only what still does when it has passed `planned`.

        `read_on` reads what the source says behind `sides`. `behind`: keys of which nobody knows what the sink should
        have, as the pipeline has not read their changes yet.
        """
        counts = [table.counts for table in self._report.tables]
        base = Spool(folder, "base")
        keys: set[Key] = set()
        for unequal in Comparison(self._compared, counts, states=self._reader.states).compare(sides):
            key = unequal.table, unequal.key
            if key in behind:
                counts[unequal.table].behind += 1
            elif running and len(keys) < MOST_TWICE:
                keys.add(key)
                self._report.tables[unequal.table].twice += 1
                for split, cells in unequal.states:
                    base.add(unequal.table, split, unequal.key, cells)
            else:
                self._add(unequal)
        if not keys:
            return
        passed = self._wait(planned)
        sink = self._read_sink_again(keys, folder)
        since = Spool(folder, "since-again")
        read_on(self._taking(since, keys))
        counts = [Counts() for _ in self._compared]
        for unequal in Comparison(self._compared, counts, states=self._reader.states).compare(
            ComparedSides(base, since, sink)
        ):
            self._add(unequal)
        if not passed:
            self._warn(
                f"the pipeline has not passed what it had planned within {self._wait_s:.0f} s (--wait): rows of that "
                "batch may be shown as differences; see ingest status"
            )

    def _read_sink_again(self, keys: AbstractSet[Key], folder: Path) -> Spool:
        """Read the keys that are compared once more."""
        numbers = {number for number, _ in keys}
        targets = [target for target, number in self._numbers.items() if number in numbers]
        schemas = self._look()[1]
        for target, table in self._reader.tables({target: schemas.sinks[target] for target in targets}).items():
            before = self._compared[self._numbers[target]]
            self._compared[self._numbers[target]] = replace(table, rules=before.rules, dropped=before.dropped)
        return self._read_sink(targets, Spool(folder, "sink-again"), keys)

    def _read_sink(self, targets: Sequence[TableId], spool: Spool, only: AbstractSet[Key] | None = None) -> Spool:
        for target, rows in self._reader.rows(targets):
            number = self._numbers[target]
            for key, cells in rows:
                if only is None or (number, key) in only:
                    spool.add(number, 0, key, cells)
        return spool

    def _taking(self, spool: Spool, only: AbstractSet[Key] | None = None) -> Receiver:
        """Return what puts expected rows into a spool."""

        def take(split: int, destination: Destination, records: list[tuple[bytes, bytes | None]]) -> None:
            target = self._reader.target(destination)
            number = None if target is None else self._numbers.get(target)
            if target is None or number is None:
                return
            for key, cells in self._reader.expected(target, destination, records):
                if only is None or (number, key) in only:
                    spool.add(number, split, key, cells)

        return take

    def _collecting(self, keys: set[Key]) -> Receiver:
        """Return what collects the keys of expected rows."""

        def take(_: int, destination: Destination, records: list[tuple[bytes, bytes | None]]) -> None:
            target = self._reader.target(destination)
            if target is not None:
                rows = self._reader.expected(target, destination, records)
                keys.update((self._numbers[target], key) for key, _ in rows)

        return take

    def _count(self, summary: RunEnded) -> None:
        changed = self._report.changed
        for reason, counts in ((_CUT, summary.cut), ("rounded", summary.rounded)):
            if counts:
                changed[reason] = changed.get(reason, 0) + sum(counts.values())
        self._report.rejected += summary.rejected

    def _drop_columns(self, schemas: Mapping[TableId, TableSchema]) -> None:
        """Leave columns out that no source of a table has any longer: the sink keeps what it had of them."""
        stored = self._look()[1].sources
        for target, sources in self._sources.items():
            lost = [
                {column.name for column in stored[source].schema.columns}
                - {column.name for column in schemas[source].columns}
                for source in sources
                if source in schemas
            ]
            names = tuple(sorted(set.intersection(*lost))) if lost else ()
            if names:
                number = self._numbers[target]
                self._compared[number] = replace(self._compared[number], dropped=names)
                self._report.tables[number].notes.append(
                    f"columns that the source has no longer are not compared: {', '.join(names)}"
                )

    def _note_incomplete(self, splits: Sequence[str]) -> None:
        """Let rows of unknown keys be no differences where the source has forgotten some."""
        if not splits:
            return
        for number, table in enumerate(self._compared):
            self._compared[number] = replace(table, rules=replace(table.rules, extra_known=False, forgets=True))
            self._report.tables[number].notes.append(
                f"the source does not have all of its records any more ({', '.join(splits[:5])}): rows that it does "
                "not know are not verified"
            )

    def _add(self, unequal: UnequalKey) -> None:
        report = self._report.tables[unequal.table]
        if unequal.difference is None:
            report.counts.behind += 1
            return
        kind = unequal.difference.kind
        setattr(report.counts, kind, getattr(report.counts, kind) + 1)
        if len(report.differences) < self._limit:
            report.differences.append(unequal.difference)

    def _wait(self, planned: Mapping[Split, int]) -> bool:
        """Wait until a pipeline has passed positions, or does not run any more; returns whether it has."""
        end = time.monotonic() + self._wait_s
        while True:
            place = self._look()[0]
            if all(place.reached.get(split, 0) >= at for split, at in planned.items()):
                return True
            if not place.running or time.monotonic() > end:
                return False
            time.sleep(_POLL_S)

    def _warn(self, text: str) -> None:
        if text not in self._report.warnings:
            self._report.warnings.append(text)


def reader_of(pipeline: Pipeline, resources: ExitStack) -> SinkReader[Any]:
    """Return what reads a pipeline's sink back. Raise ConfigError for one that cannot be.

    `resources`: where its connections are closed.
    """
    sink: AnyOptions = pipeline.sink
    match sink.type:
        case "postgres" | "hologres":
            from ingest.verify.databases import DatabaseReader  # noqa: PLC0415  (each sink has its own libraries)

            return DatabaseReader(sink, pipeline.pipeline.name, resources)
        case "iceberg" | "delta":
            return DeltaReader(sink) if sink.type == "delta" else IcebergReader(sink, resources)
        case "kafka" | "upsert-kafka":
            return TopicsReader(sink, pipeline.pipeline.name, resources)
        case "file":
            return FilesReader(sink)
    msg = f"a sink of the type {sink.type} cannot be read back, so that nothing of it can be compared"
    raise ConfigError(msg, "ingest verify reads upsert-kafka, kafka, iceberg, delta, postgres, hologres and file")


def _notes(table: SinkTable) -> list[str]:
    """Return what of a table is not verified, by its rules."""
    if table.rules.all_states:
        return ["each state of a row is compared, but not their order"]
    if table.rules.ends:
        return ["only the current row of each key is compared, and not when it began"]
    return []


def _chosen(names: Sequence[str], schemas: Schemas, where: str) -> dict[TableId, list[TableId]]:
    """Return, by sink table, the source tables of these names, and all others whose rows go there, too.

    Raise ConfigError for a name that the checkpoint does not know.
    """
    wanted = chosen_tables(names, schemas.sources, where) or schemas.sources
    targets = sorted({target for table in wanted for target in schemas.sources[table].targets})
    return {
        target: [table for table, source in sorted(schemas.sources.items()) if target in source.targets]
        for target in targets
        if target in schemas.sinks
    }

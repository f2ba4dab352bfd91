"""A task and the two halves of one come to the same result, where no expression changes anything."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from inmemory import pipeline

from ingest.encode.compiled_transform import CompiledTransforms
from ingest.errors import CommitOutcomeUnknown, IngestError, Unavailable, kinds_of_errors
from ingest.model import types
from ingest.model.commit import CommitScope, RefusedRow, ResumePoint, RowsRefused
from ingest.model.record import Chunk, bytes_in
from ingest.model.schema import Column, TableSchema
from ingest.native import native
from ingest.schema.evolve import Schemas, SourceTable
from ingest.sinks.sink import PlainWriter
from ingest.sources import Reader
from ingest.task.pipeline import run_task
from ingest.task.task import Counters, Setup, TableCounters, Task
from ingest.testing.in_memory import MemoryRecord, in_memory
from ingest.transform.rows import TRANSFORM
from ingest.transform.spill import SpillStore
from ingest.transform.stages import run_read_stage, run_write_stage

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
    from pathlib import Path

    from ingest.task.task import TaskResult

SPLIT = ("topic", 0)
T = ("d", "t")
SCHEMA = TableSchema((Column("id", types.BIGINT, nullable=False), Column("n", types.BIGINT)), ("id",))
RUNS = count(1)
"""A worker keeps what it has of a run, so that each case is a run of its own."""


def debezium(row: str, op: str = "c", table: str = "t") -> tuple[bytes | None, bytes | None]:
    images = f'"before":{row},"after":null' if op == "d" else f'"before":null,"after":{row}'
    return b'{"id":1}', f'{{{images},"source":{{"db":"d","table":"{table}"}},"op":"{op}"}}'.encode()


FITS = [debezium(f'{{"id":{i},"n":{i}}}', op) for i, op in enumerate("ccudcu")]
REJECT = debezium('{"id":null,"n":1}')
TOMBSTONE = (b'{"id":1}', None)
BROKEN = (None, b"{")
NO_ROW = (None, b'{"op":"t","source":{"db":"d","table":"t"}}')
DRIFT = debezium('{"id":1,"n":1,"new":true}')
NEWS = debezium('{"id":1}', table="u")


class Broadcast:
    """What a worker sees of a broadcast."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Writer(PlainWriter):
    """A sink's writer that keeps what is committed, and knows what an earlier attempt has committed."""

    def __init__(self, resumed: ResumePoint | None, refused: Exception | None, bad: frozenset[int]) -> None:
        self.bad = bad
        """Rows, by their `n`, that it refuses as the last states of their keys."""
        self.refuses_in_write = self.tells_nothing = self.may_pass = False
        self.closed = 0
        self.committed: list[Any] = []
        self.finals: list[tuple[dict[Any, int], Counters, bool]] = []
        self._queued: list[Any] = []
        self._resumed, self._refused = resumed, refused

    def begin(self, _scope: CommitScope) -> ResumePoint | None:
        return self._resumed

    def write(self, records: Sequence[Any]) -> None:
        if self._refused is not None:
            raise self._refused
        queued = [(to, key, None if value is None else bytes(value)) for to, key, value in records]
        if self.refuses_in_write:
            self._refuse(queued)
        self._queued += queued

    def _refuse(self, records: list[Any]) -> None:
        rows = [
            RefusedRow(*record, "bad", may_pass=self.may_pass)
            for record in {key: (to, key, value) for to, key, value in records}.values()
            if record[2] is not None and json.loads(record[2])["n"] in self.bad
        ]  # fmt: skip
        if rows:
            raise RowsRefused("rows were refused", "", [] if self.tells_nothing else rows)

    def commit(self, positions: Any, metadata: bytes, *, final: bool) -> None:
        self._refuse(self._queued)
        self.committed += [(to.topic, key, value) for to, key, value in self._queued]
        self._queued = []
        self.finals.append((dict(positions), Counters.read_from(metadata)[0], final))

    def abort(self) -> None:
        self._queued = []
        if self._refused is not None:
            raise Unavailable("it cannot be given up either")

    def close(self) -> None:
        self.closed += 1
        raise Unavailable("nor closed")


class Sink:
    """A pipeline's sink with another writer."""

    def __init__(self, options: Any, writer: Writer) -> None:
        self.capabilities, self.encoder = options.capabilities, options.encoder
        self._writer = writer

    def writer(self, _pipeline: str, _run: int) -> Writer:
        return self._writer


class Case:
    """A task on given messages."""

    def __init__(
        self,
        messages: Sequence[tuple[bytes | None, bytes | None]],
        tolerated: int = 100,
        resumed: ResumePoint | None = None,
        refused: Exception | None = None,
        source: dict[str, Any] | None = None,
        bad: frozenset[int] = frozenset(),
    ) -> None:
        made = pipeline(source=source or {})
        records = [
            MemoryRecord(i, "topic", *message, position=i, sent=[("n", b"%d" % (i % 3))])
            for i, message in enumerate(messages)
        ]
        self.first, self.given = resumed is None, records
        self.writer = Writer(resumed, refused, bad)
        given: Any = in_memory(made.source, {SPLIT: records})
        sink: Any = Sink(made.sink, self.writer)
        setup: Any = Broadcast(Setup("c", next(RUNS), "p", given, sink, None, made.source.inference(10), 3, made.rules))
        known = Schemas(1, {T: SourceTable(SCHEMA, (T,), key_from_message=True)}, {T: SCHEMA})
        base: Any = Broadcast(known)
        ranges = {SPLIT: (0, len(records))}
        self.task = Task(1, 1, 0, ranges, {"topic": "id"}, tolerated, 60.0, "", setup, base, 1, ())


def returned(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Give back what expressions would that have no results."""
    for batch in batches:
        transforms = batch.column(TRANSFORM)
        yield pa.RecordBatch.from_arrays(
            [transforms, pa.array([0] * len(transforms), pa.int64())], [TRANSFORM, "_failed0"]
        )


def in_halves(case: Case, folder: Path) -> TaskResult:
    transforms = CompiledTransforms({}, (), ())
    batches = [*returned(run_read_stage(case.task, transforms, SpillStore(folder)))]
    result = run_write_stage(case.task, transforms, SpillStore(folder), batches)
    assert not folder.exists()
    return result


def said(result: TaskResult) -> tuple[Any, ...]:
    return result.shard, result.progress, result.counters, result.telemetry.reports


ALL = [*FITS, TOMBSTONE, REJECT, NO_ROW, BROKEN, *FITS]
FOUR = Counters(4, 0, {T: TableCounters(0, 2, 1, 1, 0)})
"""The counters after four of them."""
CASES: dict[str, Callable[[], Case]] = {
    "rows": lambda: Case(FITS),
    "nothing": lambda: Case([]),
    "all kinds": lambda: Case(ALL),
    "a reject too many": lambda: Case(ALL, 1),
    "the first reject": lambda: Case(ALL, 0),
    "a drift": lambda: Case([*ALL, DRIFT, *FITS, NEWS, *FITS]),
    "a drift at once": lambda: Case([NEWS, *FITS]),
    "tables past the cap": lambda: Case(
        [*FITS, *[debezium('{"id":1}', table=f"t{i}") for i in range(5)], *FITS],
    ),
    "headers": lambda: Case(ALL, source={"scan.header-filter": "n:1"}),
    "headers and a reject": lambda: Case([*ALL, *ALL], 2, source={"scan.header-filter": "!n:1"}),
    "headers and a drift": lambda: Case([*ALL, DRIFT, DRIFT, DRIFT, *ALL], source={"scan.header-filter": "!n:0"}),
    "no headers": lambda: Case(ALL, source={"scan.header-filter": "n:9"}),
    "metadata": lambda: Case([*ALL, *FITS], source={"metadata.list": "offset"}),
    "resumed": lambda: Case(ALL, resumed=ResumePoint({SPLIT: 4}, FOUR.text(), final=False)),
    "resumed behind a reject": lambda: Case(
        ALL, 1, resumed=ResumePoint({SPLIT: 8}, Counters(8, 1).text(), final=False)
    ),
    "over": lambda: Case([*ALL, DRIFT], resumed=ResumePoint({SPLIT: 9}, Counters(9, 1).text(), final=True)),
}  # fmt: skip
BOTH = [pytest.param(True, marks=pytest.mark.compiled), False]


@pytest.mark.parametrize("built", BOTH)
@pytest.mark.parametrize("name", CASES)
def test_both_compositions_do_the_same(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, built: bool
) -> None:
    monkeypatch.setattr(native, "BUILT", built)
    whole, parts = CASES[name](), CASES[name]()
    expected, found = run_task(whole.task), in_halves(parts, tmp_path / "attempt")
    assert expected.progress.failure is None
    assert said(found) == said(expected)
    assert found.telemetry.records_out == expected.telemetry.records_out
    if whole.first:  # the first half does not know what an earlier attempt has done
        assert found.telemetry.bytes_in == expected.telemetry.bytes_in
        assert found.telemetry.table_bytes == expected.telemetry.table_bytes
    assert parts.writer.committed == whole.writer.committed
    assert parts.writer.finals == whole.writer.finals


def test_what_is_committed_is_what_was_read() -> None:
    case = Case(ALL, 1)
    result = run_task(case.task)
    assert (
        result.progress.positions,
        result.counters.read,
        result.counters.rejected,
        result.progress.stopped_by_reject,
    ) == ({SPLIT: 9}, 9, 1, True)
    assert [reject.offset for reject in result.progress.rejects] == [7, 9]
    assert [reject.passed for reject in result.progress.rejects] == [True, False]
    assert result.counters.skipped == {"lone-tombstone": 1, "truncate": 1}
    assert result.counters.tables == {T: TableCounters(0, 3, 2, 1, 1)}
    assert len(case.writer.committed) == 6
    assert result.counters.reject_codes == {("decode", "malformed"): 1, ("conform", "null-key"): 1}
    traffic = result.telemetry
    assert traffic.bytes_in == sum(len(r.key() or b"") + len(r.value() or b"") for r in case.given)
    assert traffic.records_out == 6
    assert traffic.bytes_out == sum(len(k or b"") + len(v or b"") for _, k, v in case.writer.committed)
    assert traffic.table_bytes == {T: [sum(map(bytes_in, [*case.given[:6], case.given[7]])), traffic.bytes_out]}
    ((positions, counted, final),) = case.writer.finals
    assert (positions, counted.read, counted.rejected, final) == ({SPLIT: 9}, 9, 1, True)


def test_what_an_earlier_attempt_has_written_is_not_written_again(tmp_path: Path) -> None:
    case = Case(FITS, resumed=ResumePoint({SPLIT: 4}, FOUR.text(), final=False))
    result = in_halves(case, tmp_path / "attempt")
    assert [key for _, key, _ in case.writer.committed] == [b'{"id":4}', b'{"id":5}']
    assert (result.counters.read, result.counters.tables) == (6, {T: TableCounters(0, 3, 2, 1, 0)})


def test_a_task_that_is_over_writes_and_observes_nothing(tmp_path: Path) -> None:
    resumed = ResumePoint({SPLIT: 3}, Counters(3, 0).text(), final=True)
    for halves in (True, False):
        case = Case([*FITS, DRIFT], resumed=resumed)
        result = in_halves(case, tmp_path / "attempt") if halves else run_task(case.task)
        assert (case.writer.committed, case.writer.finals) == ([], [])
        assert (result.progress.positions, result.progress.observed, result.progress.drifted, result.counters.read) == (
            {SPLIT: 3},
            {},
            False,
            3,
        )


def test_an_error_is_a_value_and_nothing_is_committed_then(tmp_path: Path) -> None:
    for halves in (True, False):
        case = Case(FITS, refused=Unavailable("the broker is gone"))
        result = in_halves(case, tmp_path / "attempt") if halves else run_task(case.task)
        assert str(result.progress.failure) == "the broker is gone", "and not what came of giving up"
        assert case.writer.closed == 1, "a worker keeps no connection that may be in any state"
        assert by_tables(result) == result.telemetry.bytes_out > 0
        assert (case.writer.finals, result.progress.positions) == ([], {SPLIT: 0})


def test_only_what_spark_shall_try_again_is_raised(tmp_path: Path) -> None:
    with pytest.raises(CommitOutcomeUnknown):
        run_task(Case(FITS, refused=CommitOutcomeUnknown("who knows")).task)
    with pytest.raises(CommitOutcomeUnknown):
        in_halves(Case(FITS, refused=CommitOutcomeUnknown("who knows")), tmp_path / "attempt")
    assert not (tmp_path / "attempt").exists()


def test_the_second_half_tells_what_the_first_one_failed_on(tmp_path: Path) -> None:
    case = Case(FITS)
    lost = replace(case.task, ranges={("elsewhere", 0): (0, 5)})
    case.task = lost
    result = in_halves(case, tmp_path / "attempt")
    assert "a task failed: KeyError" in str(result.progress.failure)
    assert case.writer.finals == []


def by_tables(result: TaskResult) -> int:
    """Bytes of records, as they are counted by table."""
    return sum(made for _, made in result.telemetry.table_bytes.values())


@pytest.mark.parametrize("built", BOTH)
def test_messages_that_are_rejected_at_a_drift_count_for_their_table(
    monkeypatch: pytest.MonkeyPatch, *, built: bool
) -> None:
    monkeypatch.setattr(native, "BUILT", built)
    case = Case([*FITS, debezium(f'{{"id":1,"{"n" * 3000}":1}}'), REJECT, *FITS])
    result = run_task(case.task)
    assert result.counters.reject_codes == {("conform", "name-too-long"): 1, ("conform", "null-key"): 1}
    assert result.telemetry.table_bytes == {T: [result.telemetry.bytes_in, result.telemetry.bytes_out]}


STATES = [debezium(f'{{"id":{i % 3},"n":{i}}}', "c" if i < 3 else "u") for i in range(9)]


def gone_over(case: Case, folder: Path, *, halves: bool) -> TaskResult:
    """The result of a task, and of the next one where the first one ends at what was refused."""
    if not halves:
        return run_task(case.task)
    first = in_halves(case, folder)
    if not first.progress.refused_before:
        return first
    assert (first.progress.failure, first.counters.read, first.progress.rejects) == (None, 0, [])
    assert (first.progress.positions, first.progress.refused_before) == (
        {SPLIT: 0},
        {SPLIT: case.task.ranges[SPLIT][1]},
    )
    case.task = replace(case.task, apart=first.progress.refused_before)
    return in_halves(case, folder)


@pytest.mark.parametrize("built", BOTH)
@pytest.mark.parametrize("in_write", [False, True])
@pytest.mark.parametrize("halves", [False, True])
def test_messages_of_refused_records_become_rejects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, halves: bool, in_write: bool, built: bool
) -> None:
    monkeypatch.setattr(native, "BUILT", built)
    case = Case([*STATES, REJECT, NO_ROW], bad=frozenset({2, 5, 7, 8}))
    case.writer.refuses_in_write = in_write
    result = gone_over(case, tmp_path / "attempt", halves=halves)
    assert result.progress.failure is None
    assert [(one.offset, one.stage, one.code, one.message) for one in result.progress.rejects[:-1]] == [
        (at, "write", "refused", "bad") for at in (2, 5, 7, 8)
    ]
    assert (result.counters.read, result.counters.rejected, result.counters.skipped) == (11, 5, {"truncate": 1})
    assert result.counters.tables == {T: TableCounters(0, 2, 3, 0, 5)}
    assert [json.loads(value)["n"] for _, _, value in case.writer.committed] == [0, 1, 3, 4, 6]
    assert result.progress.positions == {SPLIT: 11}
    assert by_tables(result) == result.telemetry.bytes_out, "also what was refused, and sent again"


@pytest.mark.parametrize("halves", [False, True])
def test_a_refused_record_too_many_stops_the_task(tmp_path: Path, *, halves: bool) -> None:
    case = Case(STATES, 1, bad=frozenset({6, 7, 8}))
    result = gone_over(case, tmp_path / "attempt", halves=halves)
    assert (result.progress.failure, result.progress.stopped_by_reject, result.counters.rejected) == (None, True, 1)
    assert [(one.offset, one.passed) for one in result.progress.rejects] == [(6, True), (7, False)]
    assert (result.progress.positions, result.counters.read) == ({SPLIT: 7}, 7)
    assert [json.loads(value)["n"] for _, _, value in case.writer.committed] == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("halves", [False, True])
def test_a_writer_that_never_tells_what_it_refuses_fails_the_task(tmp_path: Path, *, halves: bool) -> None:
    case = Case(STATES, bad=frozenset({8}))
    case.writer.tells_nothing = True
    result = gone_over(case, tmp_path / "attempt", halves=halves)
    assert str(result.progress.failure) == "rows were refused"
    assert result.progress.positions == {SPLIT: 0}


@pytest.mark.parametrize("halves", [False, True])
def test_a_record_that_may_pass_waits_for_the_other_tasks_of_a_batch(tmp_path: Path, *, halves: bool) -> None:
    case = Case(STATES, bad=frozenset({6}))
    case.writer.may_pass, case.task = True, replace(case.task, waits=True)
    waiting = gone_over(case, tmp_path / "attempt", halves=halves)
    assert (waiting.progress.failure, waiting.progress.waited, waiting.counters.rejected, waiting.progress.rejects) == (
        None,
        True,
        0,
        [],
    )
    assert (waiting.progress.positions, waiting.counters.read) == ({SPLIT: 6}, 6)
    assert [json.loads(value)["n"] for _, _, value in case.writer.committed] == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(("waits", "may_pass"), [(False, True), (True, False)])
def test_a_record_that_does_not_wait_is_a_reject(*, waits: bool, may_pass: bool) -> None:
    case = Case(STATES, bad=frozenset({6}))
    case.writer.may_pass, case.task = may_pass, replace(case.task, waits=waits)
    result = run_task(case.task)
    assert (result.progress.waited, result.counters.rejected, result.progress.positions) == (
        False,
        1,
        {SPLIT: len(STATES)},
    )


def test_a_drift_behind_a_refused_record_stops_the_task_there() -> None:
    case = Case([*STATES, DRIFT, *STATES], bad=frozenset({8}))
    result = run_task(case.task)
    assert (result.progress.positions, result.progress.drifted, result.counters.rejected) == ({SPLIT: 9}, True, 1)
    assert [*result.progress.observed] == [T]


class OddError(IngestError):
    """An error of another package, which is not made of its two texts."""

    def __init__(self, place: str, *, row: int) -> None:
        super().__init__(f"{place} refuses row {row}", "ask there")


KINDS = [kind for kind in kinds_of_errors().values() if not issubclass(kind, (CommitOutcomeUnknown, RowsRefused))]


@pytest.mark.parametrize("halves", [False, True])
def test_every_error_of_a_sink_reaches_the_driver_with_its_own_text(tmp_path: Path, *, halves: bool) -> None:
    given = [kind("it cannot be", "do that") for kind in KINDS if kind.__module__ == IngestError.__module__]
    for error in (*given, OddError("it", row=7)):
        case = Case(FITS, refused=error)
        result = in_halves(case, tmp_path / "attempt") if halves else run_task(case.task)
        found = pickle.loads(pickle.dumps(result)).progress.failure  # noqa: S301  (our own)
        assert isinstance(found, IngestError)
        assert found.message.startswith(error.message)
        assert (found.hint or "do that", found.exit_code) == (error.hint, error.exit_code)
        assert type(found) is (IngestError if isinstance(error, OddError) else type(error))


class Grouped(Reader):
    """A reader of chunks that have one position each, as those of a snapshot: `groups` of messages come together."""

    def __init__(self, chunks: Sequence[Sequence[Sequence[tuple[bytes | None, bytes | None]]]]) -> None:
        self.chunks, self.at = chunks, 0

    def read(self, ranges: Mapping[Any, tuple[int, int]]) -> Generator[Any]:
        self.at, end = ranges[SPLIT]
        for position in range(self.at, end):
            for index, group in enumerate(self.chunks[position]):
                more = index + 1 < len(self.chunks[position])
                records = [MemoryRecord(position, "topic", *one, position=position) for one in group]
                yield Chunk(SPLIT, "topic", records, more=more)
            self.at = position + 1

    def position(self, _split: Any) -> int:
        return self.at

    def first(self, _split: Any) -> int:
        return 0

    def close(self) -> None:
        self.at = -1


def grouped(chunks: Any, tolerated: int = 100, bad: frozenset[int] = frozenset()) -> Case:
    case = Case([], tolerated, bad=bad)
    given: Any = case.task.setup.value.source
    source: Any = replace(given, readers=lambda: Grouped(chunks))
    setup: Any = Broadcast(replace(case.task.setup.value, source=source))
    case.task = replace(case.task, setup=setup, ranges={SPLIT: (0, len(chunks))})
    return case


WHOLE = [FITS[:2], FITS[2:4]]
LAST = [debezium('{"id":9,"n":9}')]


@pytest.mark.parametrize("built", BOTH)
@pytest.mark.parametrize(
    ("inside", "tolerated", "drifts"),
    [([FITS[:2], [DRIFT]], 9, True), ([FITS[:2], [*LAST, DRIFT, *FITS]], 9, True), ([[*LAST, DRIFT]], 9, True),
     ([FITS[:2], [*LAST, REJECT]], 0, False)],
)  # fmt: skip
def test_a_chunk_of_which_a_part_was_written_is_given_up_where_a_task_ends(
    inside: Any, tolerated: int, drifts: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, built: bool
) -> None:
    """It is read again as a whole: what was written of it would be there twice."""
    monkeypatch.setattr(native, "BUILT", built)
    case = grouped([WHOLE, inside, [LAST]], tolerated)
    result = run_task(case.task)
    assert result.progress.failure is None
    assert (result.progress.positions, len(case.writer.committed), result.counters.read) == ({SPLIT: 1}, 4, 4)
    assert (result.progress.drifted, result.progress.stopped_by_reject, T in result.progress.observed) == (
        drifts,
        not drifts,
        drifts,
    )
    assert [reject.passed for reject in result.progress.rejects] == ([] if drifts else [False])
    assert [(positions, final) for positions, _, final in case.writer.finals] == [({SPLIT: 1}, True)]
    halves = grouped([WHOLE, inside, [LAST]], tolerated)
    result = in_halves(halves, tmp_path / "attempt")
    # Two halves of a task end at their last commit, if a group of the chunk has gone through both
    committed, reached = (0, 0) if len(inside) > 1 else (4, 1)
    assert (result.progress.failure, len(halves.writer.committed), result.progress.positions) == (
        None,
        committed,
        {SPLIT: reached},
    )
    assert (result.progress.drifted, result.progress.stopped_by_reject, T in result.progress.observed) == (
        drifts,
        not drifts,
        drifts,
    )


@pytest.mark.parametrize("in_write", [False, True])
def test_a_record_of_a_chunk_that_the_sink_refuses_becomes_a_reject(*, in_write: bool) -> None:
    case = grouped([WHOLE, [FITS[4:], LAST], [LAST]], bad=frozenset({4}))
    case.writer.refuses_in_write = in_write
    result = run_task(case.task)
    assert (result.progress.failure, result.progress.positions) == (None, {SPLIT: 3})
    assert [(one.offset, one.code) for one in result.progress.rejects] == [(1, "refused")]
    assert len(case.writer.committed) == 7

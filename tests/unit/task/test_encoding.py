"""Parts of a chunk: in order, by whoever takes them, up to a drift or a reject too many."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from inmemory import pipeline

from ingest.encode.upsert_encoder import Record
from ingest.errors import ConfigError
from ingest.model import types
from ingest.model.record import offset_of
from ingest.model.reject import IgnoredErrors
from ingest.model.schema import Column, TableSchema
from ingest.schema.evolve import Schemas, SourceTable
from ingest.task.encoding import ChunkDecoder, ChunkEncoder, EncodedPart
from ingest.task.read_half import LookAhead, ReadChunk, SchemaObserver
from ingest.task.rejects import RejectLimit
from ingest.task.task import Setup, TaskProgress, TaskResult
from ingest.task.worker import WorkerState
from ingest.testing.in_memory import MemoryRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingest.model.change import Decoded


SPLIT = ("topic", 0)
T = ("d", "t")
SCHEMA = TableSchema((Column("id", types.BIGINT, nullable=False), Column("n", types.BIGINT)), ("id",))


def debezium(row: str, table: str = "t", key: bytes = b'{"id":1}') -> tuple[bytes, bytes]:
    return key, f'{{"before":null,"after":{row},"source":{{"db":"d","table":"{table}"}},"op":"c"}}'.encode()


def fits(number: int) -> tuple[bytes, bytes]:
    return debezium(f'{{"id":{number},"n":1}}')


REJECT = debezium('{"id":null,"n":1}')
BROKEN: tuple[bytes | None, bytes] = (None, b"{")
DRIFT = debezium('{"id":1,"n":1,"new":1}')


class Case:
    """A chunk and the encoder of a task, with what it says of itself."""

    def __init__(
        self, messages: Sequence[tuple[bytes | None, bytes | None]], tolerated: int = 100, native: Any = None
    ) -> None:
        made = pipeline()
        setup = Setup("c", 1, "p", made.source, made.sink, None, made.source.inference(10), 3, made.rules)
        self.state = WorkerState(setup)
        known = Schemas(1, {T: SourceTable(SCHEMA, (T,), key_from_message=True)}, {T: SCHEMA})
        self.state.records.cache.renew(known, None)
        records = [MemoryRecord(i, "topic", *message, position=10 + i) for i, message in enumerate(messages)]
        self.chunk = ReadChunk(SPLIT, "topic", records, 10 + len(records))
        self.result = TaskResult(0, TaskProgress({SPLIT: 10}))
        limit = RejectLimit(tolerated, self.result.counters, IgnoredErrors())
        self.ahead = LookAhead(SchemaObserver(setup, known, self.result.progress), limit, 1000, self.result.progress)
        decoder = ChunkDecoder(made.source, None)
        self.encoder = ChunkEncoder(native, decoder, None, self.state.records.cache, self.ahead, limit, marked=False)

    def parts(self) -> list[EncodedPart]:
        """Return all parts, each of which is accounted for before the next one is asked for."""
        found = []
        for part in self.encoder.parts(self.chunk):
            found.append(part)
            self.result.counters.rejected += sum(reject.passed for reject in part.rejects)
        return found


class Every:
    """A native stage that takes messages in pieces of given lengths, and leaves one after each of them."""

    decodes = True

    def __init__(self, lengths: Sequence[int]) -> None:
        self._lengths = [*lengths]

    def encode_changes(self, chunk: ReadChunk, first: int, _changes: list[Decoded], at: int) -> EncodedPart:
        return EncodedPart(chunk.messages, first + at, first + at, chunk.position(first + at))

    def encode_messages(self, chunk: ReadChunk, start: int) -> EncodedPart:
        stop = min(start + (self._lengths.pop(0) if self._lengths else 1 << 30), len(chunk.messages))
        records = [Record("native", None, b"%d" % offset_of(message)) for message in chunk.messages[start:stop]]
        return EncodedPart(chunk.messages, start, stop, chunk.position(stop), records)


class EveryChange(Every):
    """The same for changes that the reference has decoded: this stage decodes no messages."""

    decodes = False

    def encode_changes(self, chunk: ReadChunk, first: int, changes: list[Decoded], at: int) -> EncodedPart:
        assert len(changes) == len(chunk.messages) - first, "what is decoded is decoded at once"
        return self.encode_messages(chunk, first + at)


def shown(parts: Sequence[EncodedPart]) -> list[tuple[int, int, int, bool]]:
    """Return the parts that have messages."""
    return [(p.start, p.stop, p.position, any(r[0] == "native" for r in p.records)) for p in parts if p.stop > p.start]


def test_a_chunk_is_one_part_where_all_is_well() -> None:
    case = Case([fits(i) for i in range(3)])
    (part,) = case.parts()
    assert (part.start, part.stop, part.position) == (0, 3, 13)
    assert [key for _, key, _ in part.records] == [b'{"id":%d}' % i for i in range(3)]
    assert (part.rejects, part.skipped) == ([], {})


def test_a_chunk_without_wanted_records_moves_its_split_all_the_same() -> None:
    case = Case([])
    case.chunk.end = 50
    (part,) = case.parts()
    assert (part.start, part.stop, part.position, [*part.records]) == (0, 0, 50, [])


def test_native_code_goes_on_after_what_it_leaves_and_the_reference_takes_more_each_time() -> None:
    case = Case([fits(i) for i in range(20)], native=Every([3, 0, 0, 0]))
    assert shown(case.parts()) == [
        (0, 3, 13, True), (3, 4, 14, False), (4, 6, 16, False), (6, 8, 18, False), (8, 10, 20, False),
        (10, 12, 22, False), (12, 16, 26, False), (16, 18, 28, False), (18, 20, 30, True),
    ]  # fmt: skip


def test_native_code_encodes_what_the_reference_decodes() -> None:
    case = Case([fits(i) for i in range(20)], native=EveryChange([3, 0, 0, 1]))
    assert shown(case.parts()) == [
        (0, 3, 13, True), (3, 4, 14, False), (4, 6, 16, False), (6, 10, 20, False), (10, 11, 21, True),
        (11, 19, 29, False), (19, 20, 30, True),
    ]  # fmt: skip


def test_rejects_and_drifts_end_where_they_do_whoever_encodes() -> None:
    messages = [fits(0), REJECT, BROKEN, fits(1), DRIFT, fits(2), debezium('{"id":1}', "u")]
    for native in (None, EveryChange([1, 0, 0, 0]), EveryChange([0, 0, 0]), Every([1, 0, 0, 0]), Every([0, 0, 0])):
        case = Case(messages, native=native)
        parts = case.parts()
        assert (parts[-1].stop, parts[-1].position) == (4, 14)
        assert [(offset_of(r.record), r.reason.code) for p in parts for r in p.rejects] == [
            (11, "null-key"), (12, "malformed"),
        ]  # fmt: skip
        assert [c.name for c in case.result.progress.observed[T].columns] == ["id", "n", "new"]
        assert ("d", "u") in case.result.progress.observed


def test_native_code_goes_on_by_itself_where_a_part_is_full() -> None:
    class Full(Every):
        def encode_messages(self, chunk: ReadChunk, start: int) -> EncodedPart:
            part = super().encode_messages(chunk, start)
            part.full = part.stop < len(chunk.messages)
            return part

    case = Case([fits(i) for i in range(9)], native=Full([3, 4]))
    assert shown(case.parts()) == [(0, 3, 13, True), (3, 7, 17, True), (7, 9, 19, True)]


def test_a_reject_too_many_is_where_it_stops() -> None:
    case = Case([fits(0), REJECT, BROKEN, fits(1), REJECT, fits(2)], tolerated=2)
    (part,) = case.parts()
    assert (part.stop, part.position) == (4, 14)
    assert [(offset_of(r.record), r.stage, r.reason.code, r.passed) for r in part.rejects] == [
        (11, "conform", "null-key", True), (12, "decode", "malformed", True), (14, "conform", "null-key", False),
    ]  # fmt: skip
    assert len(part.records) == 2


def test_rejects_of_earlier_parts_count() -> None:
    case = Case([REJECT, fits(0), REJECT, fits(1)], tolerated=1, native=Every([0, 0]))
    parts = case.parts()
    assert [reject.passed for part in parts for reject in part.rejects] == [True, False]
    assert parts[-1].position == 12


def test_a_split_stops_at_a_drift_and_looks_ahead() -> None:
    case = Case([fits(0), DRIFT, fits(1), debezium('{"id":1}', "u"), DRIFT])
    (part,) = case.parts()
    assert (part.stop, part.position, len(part.records)) == (1, 11, 1)
    assert case.ahead.stopped == {SPLIT}
    assert case.result.progress.drifted
    assert {table: [c.name for c in schema.columns] for table, schema in case.result.progress.observed.items()} == {
        T: ["id", "n", "new"], ("d", "u"): ["id"],
    }  # fmt: skip
    assert case.parts() == [], "a split that has stopped is only looked at"


def test_looking_ahead_sees_what_native_code_would_have_taken() -> None:
    case = Case([DRIFT, *[fits(i) for i in range(5)], debezium('{"id":1}', "u")], native=Every([0]))
    assert {part.position for part in case.parts()} == {10}
    assert set(case.result.progress.observed) == {T, ("d", "u")}


@pytest.mark.parametrize("tolerated", [0, 5])
def test_a_drift_that_no_schema_takes_is_a_reject(tolerated: int) -> None:
    many = debezium("{" + ",".join(f'"c{i}":1' for i in range(20)) + "}")
    case = Case([fits(0), many, fits(1)], tolerated)
    parts = case.parts()
    reject = next(reject for part in parts for reject in part.rejects)
    assert (reject.reason.code, reject.passed) == ("too-many-columns", tolerated > 0)
    assert parts[-1].position == (13 if tolerated else 11)
    assert (case.ahead.stopped, case.result.progress.observed, case.result.progress.drifted) == (set(), {}, False)


def test_another_primary_key_ends_the_run() -> None:
    case = Case([fits(0), debezium('{"id":1,"n":1}', key=b'{"n":1}')])
    with pytest.raises(ConfigError, match=r"topic\[0\] at offset 11: the primary key of table d.t changed"):
        case.parts()

"""Parts of a chunk become one manifest and one batch of rows, with every record accounted for."""

from __future__ import annotations

import os
import resource
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
from inmemory import pipeline

from ingest.encode.compiled_transform import CompiledTransforms
from ingest.encode.upsert_encoder import Record
from ingest.errors import InternalError, Unavailable
from ingest.model.change import TOMBSTONE, Change, Kind, Reject, Skip
from ingest.model.reject import IgnoredErrors
from ingest.task.encoding import EncodedPart
from ingest.task.read_half import ReadChunk
from ingest.task.rejects import RecordReject, RejectLimit
from ingest.task.task import Setup, TaskProgress, TaskResult
from ingest.task.worker import RecordEncoders
from ingest.testing.in_memory import MemoryRecord
from ingest.transform.rows import MARK, READY, ReferenceRows, RetainedRows, ReturnedRows, layout
from ingest.transform.spill import ChunkManifest, Spilled, SpillStage, SpillStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SPLIT = ("topic", 0)


def change(table: str) -> Any:
    return Change((table,), Kind.INSERT, None, None)


Made: TypeAlias = tuple[SpillStage, SpillStore, TaskResult, dict[Any, int]]


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Made]:
    """The stage, the store that the second one reads, the result, and the positions."""
    options = pipeline()
    setup = Setup("c", 1, "p", options.source, options.sink, None, options.source.inference(10), 10, options.rules)
    transforms = CompiledTransforms({}, ("s0",), ())
    result, positions = TaskResult(0, TaskProgress({SPLIT: 10})), {SPLIT: 10}
    written, read = SpillStore(tmp_path), SpillStore(tmp_path)
    stage = SpillStage(
        transforms, ReferenceRows(layout(transforms)), written, RecordEncoders(setup),
        RejectLimit(1, result.counters, IgnoredErrors()), "left-out", positions, result,
    )  # fmt: skip
    yield stage, read, result, positions
    written.let_go()
    read.let_go()


def test_a_chunk_is_left_to_the_second_stage_as_a_whole(made: Made) -> None:
    stage, store, result, positions = made
    records = [MemoryRecord(i, "topic", b"k", None if i == 5 else b"v", position=10 + i) for i in range(8)]
    chunk = ReadChunk(SPLIT, "topic", records[:6], 18, records[6:])
    manifest = stage.begin(SPLIT)
    bad = Reject("null-key", "no key", ("a",))
    made_of: list[Any] = [(0, 0, b"{}", ("x",)), Record("there", b"k1", b"{}"), Record("there", b"k2", None)]
    reference = EncodedPart(
        records, 0, 4, 14, made_of,
        rejects=[RecordReject(records[2], "conform", bad, passed=True)], skipped={"why": 1},
        changes=[change("a"), [change("b"), change("b")], bad, Skip("why")], marks=[0, 1, 3, 3],
    )  # fmt: skip
    stage.add(manifest, reference)
    tombstone = TOMBSTONE.reason
    stage.add(manifest, EncodedPart(records, 4, 6, 16, [], skipped={tombstone: 1}, skips=[(5, tombstone)]))
    stage.add(manifest, EncodedPart(records, 6, 6, 18))
    stage.leave_out(manifest, chunk)
    batch = stage.flush(manifest)
    assert positions == {SPLIT: 18}
    spilled = store.take()
    found = spilled.content
    assert isinstance(found, ChunkManifest)
    assert (found.split, found.end, found.known) == (SPLIT, 18, 0)
    assert sorted(at for r in found.offsets for at in r) == [*range(10, 18)], "every record is accounted for once"
    assert found.skipped == [(13, "why"), (15, "tombstone"), (16, "left-out"), (17, "left-out")]
    assert [(r.offset(), r.stage, r.reason) for r in found.rejects] == [(12, "conform", bad)]
    insert = (("b",), Kind.INSERT)
    assert found.targets == [("there", ()), ("there", (insert, insert))], "a message is done with its last record"
    rows = RetainedRows(spilled.rows)
    assert [*zip(rows.transforms, rows.targets, rows.offsets, strict=True)] == [
        (0, -1, 10),
        (READY, 0, 11),
        (READY, 1, 11),
    ]
    assert batch.to_pydict() == {"_transform": [0, MARK], "s0": ["x", None]}
    assert (spilled.sent, spilled.padding, result.counters.rejected) == (1, 1, 1)


def test_a_second_chunk_tells_of_new_targets_only(made: Made) -> None:
    stage, store, _, _ = made
    records = [MemoryRecord(i, "topic", b"k", b"v", position=10 + i) for i in range(2)]
    for i, to in enumerate(["there", "there", "elsewhere"]):
        manifest = stage.begin(SPLIT)
        stage.add(
            manifest, EncodedPart(records, 0, 1, 11 + i, [Record(to, b"k", b"v")], changes=[change("b")], marks=[0])
        )
        stage.flush(manifest)
    chunks: list[Any] = [store.take().content for _ in range(3)]
    assert [(chunk.known, [to for to, _ in chunk.targets]) for chunk in chunks] == [
        (0, ["there"]), (1, []), (1, ["elsewhere"]),
    ]  # fmt: skip


def with_rows(rows: Any) -> Spilled:
    return Spilled(TaskResult(0, TaskProgress({})), rows, sent=0, padding=1)


def test_what_comes_behind_a_chunk_that_the_disk_did_not_take_is_read(tmp_path: Path) -> None:
    written, read = SpillStore(tmp_path), SpillStore(tmp_path)
    written.put(with_rows(b"1"))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, hard))
    try:
        with pytest.raises(Unavailable, match="cannot wait"):
            written.put(with_rows(b"2" * 9000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    written.put(with_rows(b"3"))
    assert [read.take(), read.take()] == [with_rows(b"1"), with_rows(b"3")]
    written.let_go()
    read.let_go()


def test_a_half_chunk_that_was_there_while_another_one_was_read_is_forgotten(tmp_path: Path) -> None:
    written, read = SpillStore(tmp_path), SpillStore(tmp_path)
    written.put(with_rows(b"1"))
    file = tmp_path / "1"
    size = file.stat().st_size
    with file.open("ab") as half:
        half.write(b"half" * 100)
    assert read.take() == with_rows(b"1")
    os.truncate(file, size)
    written.put(with_rows(b"2"))
    assert read.take() == with_rows(b"2")
    written.let_go()
    read.let_go()


def test_a_reject_too_many_ends_the_first_stage(made: Made) -> None:
    stage, _, result, _ = made
    record = MemoryRecord(0, "topic", b"k", b"v", position=10)
    reject = RecordReject(record, "conform", Reject("null-key", ""), passed=False)
    stage.add(stage.begin(SPLIT), EncodedPart([record], 0, 0, 10, rejects=[reject]))
    assert (result.progress.stopped_by_reject, result.counters.rejected) == (True, 0)


def test_rows_come_back_in_pieces_of_whatever_size() -> None:
    import pyarrow as pa

    rows = pa.RecordBatch.from_pydict({"n": [*range(10)]})
    returned = ReturnedRows([rows.slice(0, 1), rows.slice(1, 0), rows.slice(1, 6), rows.slice(7)])
    assert [returned.take(count).to_pydict()["n"] for count in (3, 4, 1)] == [[0, 1, 2], [3, 4, 5, 6], [7]]
    assert returned.wait()
    with pytest.raises(InternalError, match="rows did not come back"):
        returned.take(3)
    assert not returned.wait()

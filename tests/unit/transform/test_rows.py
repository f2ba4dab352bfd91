"""What goes from the first stage of a task to the second one beside Spark."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from ingest.encode.compiled_transform import CompiledTransforms
from ingest.errors import InternalError, Unavailable
from ingest.model.reject import RowError
from ingest.transform import spill
from ingest.transform.rows import BATCH_ROWS, MARK, READY, ReferenceRows, Results, RetainedRows, Rows, layout, rows_of
from ingest.transform.spill import WAITING, ChunkManifest, FlushPadding, Spilled, SpillStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

KINDS = [ReferenceRows, pytest.param(rows_of, marks=pytest.mark.compiled)]
SLOTS = ("s0", "l0", "d0", "b0")
META: list[tuple[Any, ...]] = [
    (3, -1, 10, 0, b'{"id":1}', None), (READY, 0, 11, 0, None, b"key"), (READY, 1, 12, 0, b"{}", None),
    (4, -1, 13, 1, b"", None),
]  # fmt: skip
VALUES: list[tuple[Any, ...]] = [("x\u00e9", -(1 << 63), 1.5, True), (), (), (None, None, None, None)]


def manifest(end: int) -> ChunkManifest:
    return ChunkManifest(("t", 0), end, [range(end)], 0, [], [], [(1, "tombstone")])


def filled(kind: Callable[[pa.Schema], Rows]) -> Rows:
    rows = kind(layout(CompiledTransforms({}, SLOTS, ())))
    for meta, values in zip(META, VALUES, strict=True):
        rows.add(meta, values)
    return rows


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_have_a_transform_go_and_all_stay(kind: Callable[[pa.Schema], Rows]) -> None:
    rows = filled(kind)
    assert rows.size() == (2, 10)
    rows.mark(MARK, 2)
    stayed, batch = rows.take()
    kept = RetainedRows(stayed)
    assert [*zip(kept.transforms, kept.targets, kept.offsets, kept.events, strict=True)] == [meta[:4] for meta in META]
    assert [(kept.texts[i], kept.keys[i]) for i in range(kept.size)] == [meta[4:] for meta in META]
    nothing = dict.fromkeys(SLOTS)
    assert batch.to_pylist() == [
        {"_transform": 3, **dict(zip(SLOTS, VALUES[0], strict=True))}, {"_transform": 4, **nothing},
        {"_transform": MARK, **nothing}, {"_transform": MARK, **nothing},
    ]  # fmt: skip
    stayed, batch = rows.take()
    assert (RetainedRows(stayed).size, batch.num_rows, rows.size()) == (0, 0, (0, 0))


def back(*values: bytes) -> pa.RecordBatch:
    """What comes back, with texts that may be none."""
    ends = [len(b"".join(values[:i])) for i in range(len(values) + 1)]
    buffers = pa.py_buffer(array("i", ends).tobytes()), pa.py_buffer(b"".join(values))
    texts = pa.StringArray.from_buffers(len(values), *buffers)
    numbers, masks = pa.array(range(len(values)), pa.int32()), pa.array([0] * len(values), pa.int64())
    return pa.RecordBatch.from_arrays([numbers, masks, texts], ["_transform", "_failed0", "s0"])


def test_a_result_that_is_no_text_is_an_error_of_its_row() -> None:
    good, bad = b"good", b"\xff"
    results = Results(back(*[good] * 70, bad, good), ("s0",), has_errors=False)
    for _ in range(2):  # one by one, then all at once
        assert [results.row(i)[2] for i in (*range(70), 71)] == [["good"]] * 71
        with pytest.raises(RowError, match="not UTF-8"):
            results.row(70)


NUMBERS, MARKS, TEXTS = pa.array([0], pa.int32()), pa.array([0], pa.int64()), pa.array(["x"])


@pytest.mark.parametrize(
    "columns",
    [
        [NUMBERS, MARKS], [NUMBERS, MARKS, TEXTS, TEXTS], [MARKS, MARKS, TEXTS], [NUMBERS, NUMBERS, TEXTS],
        [NUMBERS, MARKS, MARKS], [NUMBERS, MARKS, pa.array([b"x"])],
        [NUMBERS, MARKS, pa.array(["x"], pa.large_string())],
        [NUMBERS, MARKS, pa.nulls(1)], [pa.array([None], pa.int32()), MARKS, TEXTS],
        [NUMBERS, pa.array([None], pa.int64()), TEXTS], [],
    ],
)  # fmt: skip
def test_results_that_no_plan_gives_are_an_error(columns: list[pa.Array]) -> None:
    batch = pa.RecordBatch.from_arrays(columns, [f"c{i}" for i in range(len(columns))])
    with pytest.raises(InternalError, match="came back from Spark"):
        Results(batch, ("s0",), has_errors=False)


def test_results_that_a_plan_gives_are_taken() -> None:
    columns = [NUMBERS, MARKS, TEXTS, pa.array([1.5]), pa.array([None], pa.int64()), pa.array([True]), TEXTS]
    batch = pa.RecordBatch.from_arrays(columns, [f"c{i}" for i in range(len(columns))])
    assert Results(batch, ("s0", "d0", "l0", "b0"), has_errors=True).row(0) == (0, 0, ["x", 1.5, None, True])


def test_files_are_found_in_their_order_and_are_gone_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spill, "FILE_BYTES", 1)  # each chunk fills a file
    folder = tmp_path / "attempt"
    first, second = SpillStore(folder), SpillStore(folder)
    stayed, _ = filled(ReferenceRows).take()
    for i in range(3):
        first.put(Spilled(manifest(i), stayed, 2, 1))
    assert [second.take().content for _ in range(2)] == [manifest(0), manifest(1)]
    assert [path.name for path in folder.iterdir()] == ["3"]
    second.clear()
    assert not [*folder.iterdir()]
    first.put(Spilled(manifest(9), stayed, 2, 1))
    second.close()
    assert not folder.exists()


def test_a_file_has_chunks_until_it_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "attempt"
    first, second = SpillStore(folder), SpillStore(folder)
    stayed, _ = filled(ReferenceRows).take()
    first.put(Spilled(manifest(0), stayed, 2, 1))
    monkeypatch.setattr(spill, "FILE_BYTES", 2 * (folder / "1").stat().st_size + 1)
    assert second.take().content == manifest(0), "a chunk is there as soon as it is written"
    for i in range(1, 5):
        first.put(Spilled(manifest(i), stayed, 2, 1))
    assert sorted(path.name for path in folder.iterdir()) == ["1", "2"]
    assert [second.take().content for _ in range(2)] == [manifest(1), manifest(2)]
    assert [path.name for path in folder.iterdir()] == ["2"], "a file that was read is gone"
    first.let_go()
    assert [second.take().content for _ in range(2)] == [manifest(3), manifest(4)]
    second.close()
    assert not folder.exists()


def test_a_full_disk_is_an_error_that_says_where(tmp_path: Path) -> None:
    folder = tmp_path / "attempt"
    store = SpillStore(folder)
    (folder / "1").symlink_to("/dev/full")
    with pytest.raises(Unavailable, match="attempt: No space left on device"):
        store.put(Spilled(manifest(0), (0, []), 0, 1))
    store.let_go()


def test_what_waits_for_long_is_handed_on_by_rows_that_say_nothing() -> None:
    padding = FlushPadding()
    assert [padding.after(1, WAITING // 4) for _ in range(4)] == [1, 1, 1, 1]
    marks = padding.after(1, WAITING // 4)
    assert marks == BATCH_ROWS - 4 * 2 - 1  # then Spark has a whole batch
    assert padding.after(1, WAITING // 4) == 1
    # Where many rows go, nothing waits for long
    assert {FlushPadding().after(BATCH_ROWS // 2, WAITING // 2) for _ in range(10)} == {1}
    padding = FlushPadding()
    assert {padding.after(BATCH_ROWS - 1, WAITING - 1) for _ in range(10)} == {1}

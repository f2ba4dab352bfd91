"""What goes from the first stage of a task to the second one beside Spark."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from ingest.encode.transform import Programs
from ingest.errors import InternalError, Unavailable
from ingest.model.reject import RowError
from ingest.task.feed import WAITING, Pace
from ingest.transform.handover import Handover, Left
from ingest.transform.rows import BATCH_ROWS, MARK, READY, Kept, Results, Rows, RowsInC, layout

if TYPE_CHECKING:
    from pathlib import Path

KINDS = [Rows, pytest.param(RowsInC, marks=pytest.mark.compiled)]
SLOTS = ("s0", "l0", "d0", "b0")
META: list[tuple[Any, ...]] = [
    (3, -1, 10, 0, b'{"id":1}', None), (READY, 0, 11, 0, None, b"key"), (READY, 1, 12, 0, b"{}", None),
    (4, -1, 13, 1, b"", None),
]  # fmt: skip
VALUES: list[tuple[Any, ...]] = [("x\u00e9", -(1 << 63), 1.5, True), (), (), (None, None, None, None)]


def filled(kind: type[Rows]) -> Rows:
    rows = kind(layout(Programs({}, SLOTS, ())))
    for meta, values in zip(META, VALUES, strict=True):
        rows.add(meta, values)
    return rows


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_have_a_program_go_and_all_stay(kind: type[Rows]) -> None:
    rows = filled(kind)
    assert rows.size() == (2, 10)
    rows.mark(MARK, 2)
    stayed, batch = rows.take()
    kept = Kept(stayed)
    assert [*zip(kept.programs, kept.heads, kept.offsets, kept.whats, strict=True)] == [meta[:4] for meta in META]
    assert [(kept.texts[i], kept.keys[i]) for i in range(kept.size)] == [meta[4:] for meta in META]
    nothing = dict.fromkeys(SLOTS)
    assert batch.to_pylist() == [
        {"_program": 3, **dict(zip(SLOTS, VALUES[0], strict=True))}, {"_program": 4, **nothing},
        {"_program": MARK, **nothing}, {"_program": MARK, **nothing},
    ]  # fmt: skip
    stayed, batch = rows.take()
    assert (Kept(stayed).size, batch.num_rows, rows.size()) == (0, 0, (0, 0))


def back(*values: bytes) -> pa.RecordBatch:
    """What comes back, with texts that may be none."""
    ends = [len(b"".join(values[:i])) for i in range(len(values) + 1)]
    buffers = pa.py_buffer(array("i", ends).tobytes()), pa.py_buffer(b"".join(values))
    texts = pa.StringArray.from_buffers(len(values), *buffers)
    numbers, masks = pa.array(range(len(values)), pa.int32()), pa.array([0] * len(values), pa.int64())
    return pa.RecordBatch.from_arrays([numbers, masks, texts], ["_program", "_failed0", "s0"])


def test_a_result_that_is_no_text_is_an_error_of_its_row() -> None:
    good, bad = b"good", b"\xff"
    results = Results(back(*[good] * 70, bad, good), ("s0",), told=False)
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
        Results(batch, ("s0",), told=False)


def test_results_that_a_plan_gives_are_taken() -> None:
    columns = [NUMBERS, MARKS, TEXTS, pa.array([1.5]), pa.array([None], pa.int64()), pa.array([True]), TEXTS]
    batch = pa.RecordBatch.from_arrays(columns, [f"c{i}" for i in range(len(columns))])
    assert Results(batch, ("s0", "d0", "l0", "b0"), told=True).row(0) == (0, 0, ["x", 1.5, None, True])


def test_files_are_found_in_their_order_and_are_gone_then(tmp_path: Path) -> None:
    folder = tmp_path / "attempt"
    first, second = Handover(folder), Handover(folder)
    stayed, _ = filled(Rows).take()
    for i in range(3):
        first.leave(Left(f"chunk {i}", stayed, 2, 1))
    assert [str(second.find().said) for _ in range(2)] == ["chunk 0", "chunk 1"]
    assert [path.name for path in folder.iterdir()] == ["3"]
    second.pass_over()
    assert not [*folder.iterdir()]
    first.leave(Left("late", stayed, 2, 1))
    second.close()
    assert not folder.exists()


def test_a_full_disk_is_an_error_that_says_where(tmp_path: Path) -> None:
    folder = tmp_path / "attempt"
    handover = Handover(folder)
    (folder / "1").symlink_to("/dev/full")
    with pytest.raises(Unavailable, match="attempt: No space left on device"):
        handover.leave(Left("chunk", (0, []), 0, 1))


def test_what_waits_for_long_is_handed_on_by_rows_that_say_nothing() -> None:
    pace = Pace()
    assert [pace.marks(1, WAITING // 4) for _ in range(4)] == [1, 1, 1, 1]
    marks = pace.marks(1, WAITING // 4)
    assert marks == BATCH_ROWS - 4 * 2 - 1  # then Spark has a whole batch
    assert pace.marks(1, WAITING // 4) == 1
    # Where many rows go, nothing waits for long
    assert {Pace().marks(BATCH_ROWS // 2, WAITING // 2) for _ in range(10)} == {1}
    pace = Pace()
    assert {pace.marks(BATCH_ROWS - 1, WAITING - 1) for _ in range(10)} == {1}

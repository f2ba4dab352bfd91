"""A comparison beside a pipeline that is running, or that was killed in the middle of a batch."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest
from verified import FilePipeline, found

from ingest.errors import CheckpointError
from ingest.verify import verification
from ingest.verify.records import FilesReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ingest.verify.verification import Verdict


@pytest.fixture
def pipeline(tmp_path: Path) -> FilePipeline:
    """A pipeline that has written five rows."""
    made = FilePipeline(tmp_path, {"type": "file", "path": str(tmp_path / "out"), "value.format": "debezium-json"})
    for i in range(1, 6):
        made.change("c", None, {"id": i, "n": 0})
    made.run()
    return made


def _update(pipeline: FilePipeline, key: int, n: int) -> None:
    pipeline.change("u", {"id": key, "n": n - 1}, {"id": key, "n": n})


def _meanwhile(monkeypatch: pytest.MonkeyPatch, *steps: Callable[[], None]) -> None:
    """Do a step behind each reading of the sink, of a pipeline that says that it runs."""
    left, rows = list(steps), FilesReader.rows

    def read(self: FilesReader, tables: Any) -> Iterator[Any]:
        there = list(rows(self, tables))
        if left:
            left.pop(0)()
        return iter(there)

    monkeypatch.setattr(FilesReader, "rows", read)
    monkeypatch.setattr(verification, "status", lambda _: {"state": "running", "command": "run"})


def _again(report: Verdict) -> int:
    (table,) = report.tables
    return table.twice


def test_what_is_written_while_the_sink_is_read_is_compared_once_more(
    pipeline: FilePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change() -> None:
        _update(pipeline, 1, 1)
        pipeline.change("d", {"id": 2, "n": 0}, None)
        pipeline.change("c", None, {"id": 6, "n": 0})
        pipeline.run()

    _meanwhile(monkeypatch, change)
    report = pipeline.verify()
    assert report.equal, report
    assert _again(report) == 3


def test_a_row_that_changes_at_each_look_is_no_difference(
    pipeline: FilePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change() -> None:
        for _ in range(2):
            change.n += 1  # type: ignore[attr-defined]  # a counter of its own
            _update(pipeline, 1, change.n)  # type: ignore[attr-defined]
        pipeline.run()

    change.n = 0  # type: ignore[attr-defined]
    _meanwhile(monkeypatch, change, change)
    report = pipeline.verify()
    assert report.equal, report
    assert report.tables[0].counts.behind == 1


def test_an_update_that_never_comes_is_found_beside_a_running_pipeline(
    pipeline: FilePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = next((pipeline.folder / "out").iterdir()).parent

    def lose() -> None:
        _update(pipeline, 1, 1)
        _update(pipeline, 3, 1)
        pipeline.run()
        for file in out.iterdir():
            lines = [line for line in file.read_text().splitlines() if '"after":{"id":3,"n":1}' not in line]
            file.write_text("".join(f"{line}\n" for line in lines))

    _meanwhile(monkeypatch, lose)
    report = pipeline.verify()
    assert found(report) == {"other": 1}
    assert dict(report.tables[0].differences[0].key) == {"id": "3"}
    assert report.tables[0].differences[0].cells == (("n", "1", "0"),)


@pytest.mark.parametrize("written", [True, False])
def test_a_batch_that_is_not_finished_may_be_written_or_not(written: bool, pipeline: FilePipeline) -> None:
    before = pipeline.folder / "before"
    shutil.copytree(pipeline.folder / "out", before)
    for key in (1, 2):
        _update(pipeline, key, 1)
    pipeline.run()
    done = sorted((pipeline.checkpoint / "batches").glob("*.done"))
    done[-1].unlink()  # as a run leaves it that was killed
    if not written:
        shutil.rmtree(pipeline.folder / "out")
        shutil.copytree(before, pipeline.folder / "out")
    report = pipeline.verify()
    assert report.equal, report
    assert report.tables[0].counts.behind == (0 if written else 2)


def test_a_pipeline_without_positions_has_nothing_to_verify(tmp_path: Path) -> None:
    made = FilePipeline(tmp_path, {"type": "file", "path": str(tmp_path / "out"), "value.format": "debezium-json"})
    with pytest.raises(CheckpointError, match="there is no checkpoint at"):
        made.verify()

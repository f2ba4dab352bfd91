"""What others take out of the tables of a lake, and what an older checkpoint has put there: it is said once."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest
from any_lake import lake_of, place_of
from commands import called
from lake_runs import LakePipeline
from lake_sink import LakeSink, lake_schema

from ingest.model.table import show

if TYPE_CHECKING:
    from pathlib import Path

    from any_lake import AnyLakeSink
    from shared_java import SharedJava

    from ingest.model.table import TableId

TABLE = ("shop", "t")
SCHEMA = lake_schema("id BIGINT", "n INT")
APPEND = {"sink.write-mode": "append", "sink.delete-strategy": "ignore"}


def row(key: int, n: int = 0) -> tuple[str, str]:
    return f'{{"id":{key}}}', f'{{"id":{key},"n":{n}}}'


def remedy(table: TableId | None) -> str:
    return f"read {show(table or ('?',))} again"


@pytest.fixture
def sink(kind: str, tmp_path: Path) -> AnyLakeSink:
    found = lake_of(kind, tmp_path / "lake")
    found.side.resume("checkpoint", [], remedy)
    found.side.declare({TABLE: SCHEMA})
    return found


def state(sink: AnyLakeSink, name: str = "t") -> Any:
    """What `put_back` takes."""
    table: Any = sink.lake.table("shop", name)
    return table.current_snapshot().snapshot_id if isinstance(sink, LakeSink) else table.version()


def put_back(sink: AnyLakeSink, to: Any, name: str = "t") -> None:
    """Roll the table back, or restore a version of it, as others do."""
    table: Any = sink.lake.table("shop", name)
    if isinstance(sink, LakeSink):
        table.manage_snapshots().set_current_snapshot(snapshot_id=to).commit()
    else:
        table.restore(to)


def remove(sink: AnyLakeSink) -> None:
    if isinstance(sink, LakeSink):
        sink.lake.catalog.drop_table(TABLE)
    else:
        shutil.rmtree(sink.lake.folder / "shop" / "t")


def next_run(sink: AnyLakeSink) -> list[str]:
    """A run that begins: the warnings of its start."""
    marks, before = sink.side.marks(), len(sink.warnings)
    sink.side = sink.driver()
    sink.side.resume("checkpoint", marks, remedy)
    sink.side.declare({TABLE: SCHEMA})
    return sink.warnings[before:]


def write(sink: AnyLakeSink, *keys: int) -> Any:
    sink.write(TABLE, SCHEMA, *(row(key) for key in keys))
    return state(sink)


def files(sink: AnyLakeSink, key: int) -> list[Any]:
    """The files of a batch with one row."""
    return sink.files(TABLE, SCHEMA, (row(key),))


def test_rows_that_were_taken_away_between_two_runs_are_said_once(sink: AnyLakeSink) -> None:
    first = write(sink, 1)
    write(sink, 2)
    write(sink, 3)
    assert next_run(sink) == []
    put_back(sink, first)
    (said,) = next_run(sink)
    assert said.startswith("table shop.t: somebody has r")
    assert said.endswith(
        "rows of batches 2 to 3, which this pipeline has written, are not in it any more (said once); read shop.t again"
    )
    assert next_run(sink) == []
    kept = write(sink, 4)
    write(sink, 5)
    assert next_run(sink) == []
    put_back(sink, kept)
    (said,) = next_run(sink)
    assert "rows of batch 5, which" in said


def test_rows_that_are_taken_away_while_a_run_goes_on_are_said_once(sink: AnyLakeSink) -> None:
    first = write(sink, 1)
    write(sink, 2)
    put_back(sink, first)
    write(sink, 3)
    assert [one.partition(": rows of ")[2][:7] for one in sink.warnings] == ["batch 2"]
    write(sink, 4)
    assert next_run(sink) == []
    assert len(sink.warnings) == 1


def test_a_batch_of_which_a_run_did_not_know_the_end_is_said_as_well(sink: AnyLakeSink) -> None:
    """It died before it stored that the batch is in the table."""
    first = write(sink, 1)
    known = sink.side.marks()
    found = files(sink, 2)
    sink.side.add("checkpoint", 2, found)
    put_back(sink, first)
    sink.side = sink.driver()
    sink.side.resume("checkpoint", known, remedy)
    sink.side.add("checkpoint", 2, found)
    assert [one.partition(": rows of ")[2][:8] for one in sink.warnings] == ["batch 2,"]
    assert next_run(sink) == []


def test_rows_that_are_taken_away_while_upkeep_is_done_are_said_once(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = lake_of(kind, tmp_path / "lake", **{"sink.compaction.commit.interval": 2})
    sink.side.resume("checkpoint", [], remedy)
    sink.side.declare({TABLE: SCHEMA})
    first = write(sink, 1)
    compact = type(sink.side)._compact

    def compacted_and_put_back(side: Any, name: Any) -> str:
        why = compact(side, name)
        put_back(sink, first)
        return why

    monkeypatch.setattr(type(sink.side), "_compact", compacted_and_put_back)
    write(sink, 2)
    monkeypatch.undo()
    write(sink, 3)
    assert next_run(sink) == []
    assert [one.partition(": rows of ")[2][:8] for one in sink.warnings] == ["batch 2,"]


def test_a_table_that_was_put_back_as_it_was_has_lost_nothing(sink: AnyLakeSink) -> None:
    first = write(sink, 1)
    second = write(sink, 2)
    put_back(sink, first)
    put_back(sink, second)
    assert next_run(sink) == []


def test_rows_of_a_replay_that_were_taken_away_are_said(sink: AnyLakeSink) -> None:
    first = write(sink, 1)
    known = sink.side.marks()
    sink.side.add("checkpoint.replays-1", 1, files(sink, 2))
    put_back(sink, first)
    sink.side = sink.driver()
    sink.side.resume("checkpoint", known, remedy)
    sink.side.declare({TABLE: SCHEMA})
    assert "rows of a replay or a backfill, which" in sink.warnings[0]


def test_another_table_in_the_place_of_one_lacks_all_batches(sink: AnyLakeSink) -> None:
    write(sink, 1)
    write(sink, 2)
    marks = sink.side.marks()
    remove(sink)
    sink.driver().declare({TABLE: SCHEMA})  # somebody else's, with the same columns
    sink.side = sink.driver()
    sink.side.resume("checkpoint", marks, remedy)
    sink.side.declare({TABLE: SCHEMA})
    assert "rows of batches 1 to 2, which" in sink.warnings[-1]
    assert len(sink.warnings) == 1
    assert next_run(sink) == []


def test_a_table_that_the_run_makes_anew_is_said_elsewhere(sink: AnyLakeSink) -> None:
    write(sink, 1)
    marks = sink.side.marks()
    remove(sink)
    sink.side = sink.driver()
    sink.side.resume("checkpoint", marks, remedy)
    sink.side.declare({TABLE: SCHEMA})
    assert next_run(sink) == []
    assert sink.warnings == []


# -- an older checkpoint -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_progress_of_an_older_checkpoint_is_said_before_rows_are_written(kind: str, mode: str, tmp_path: Path) -> None:
    sink = lake_of(kind, tmp_path / "lake", **(APPEND if mode == "append" else {}))
    sink.side.resume("checkpoint", [], remedy)
    sink.side.declare({TABLE: SCHEMA})
    write(sink, 1)
    assert sink.warnings == []
    sink.side = sink.driver()
    sink.side.resume("another", [], remedy)
    assert sink.side.undeclared({TABLE: SCHEMA}) == set()
    sink.side.declare({TABLE: SCHEMA})
    (said,) = sink.warnings
    assert said.startswith("older progress of this pipeline was found at the sink (")
    assert "table shop.t)" in said
    assert ("such rows are there twice" in said) is (mode == "append")
    sink.side.add("another", 1, files(sink, 1))
    sink.side = sink.driver()
    sink.side.resume("another", [], remedy)
    sink.side.declare({TABLE: SCHEMA})
    assert len(sink.warnings) == 1


def test_another_pipeline_that_writes_to_the_table_is_no_older_progress(sink: AnyLakeSink) -> None:
    write(sink, 1)
    other = sink.options.coordinator("q", sink.warnings.append)
    other.connect()
    other.resume("another", [], remedy)
    other.declare({TABLE: SCHEMA})
    assert sink.warnings == []


# -- whole runs --------------------------------------------------------------------------------------------------------


def test_a_run_and_a_plan_say_what_was_taken_away_and_a_backfill_brings_it(
    kind: str, tmp_path: Path, shared_java: SharedJava, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sink = lake_of(kind, tmp_path / "lake")
    shop = LakePipeline(tmp_path, shared_java, sink.lake, place_of(kind, tmp_path / "lake"))
    states = []
    for key in (1, 2):
        shop.add("c", None, {"id": key, "n": 0})
        assert shop.run().code == 0
        states.append(state(sink, "orders"))
    put_back(sink, states[0], "orders")
    planned = called("plan", str(shop.file), "--checkpoint", str(tmp_path / "c"))
    assert "table shop.orders: somebody has r" in planned.out
    ran, again = shop.run(), shop.run()
    (said,) = [line for line in ran.err.splitlines() if "somebody has r" in line]
    assert "rows of batch 3, which this pipeline has written, are not in it any more (said once)" in said
    assert said.split("; ")[-1].startswith(f"ingest backfill {shop.file} --table shop.orders reads them again")
    assert "somebody has r" not in again.err
    done = shop.backfill("shop.orders")
    assert done.code == 0, done.err
    assert shop.rows(columns="id, n") == [(1, 0), (2, 0)]


def test_a_table_that_the_source_empties_loses_its_rows_and_goes_on(sink: AnyLakeSink) -> None:
    """What this pipeline took away itself is nothing that anybody is told of; a crash may repeat it."""
    sink.write(TABLE, SCHEMA, row(1), row(2))
    sink.write(TABLE, SCHEMA, row(1, 5))
    assert sink.side.empty(TABLE)
    assert sink.side.empty(TABLE)
    assert sink.lake.rows("shop", "t") == []
    sink.write(TABLE, SCHEMA, row(2, 7))
    again = sink.driver()
    again.resume("checkpoint", sink.side.marks(), remedy)
    again.declare({TABLE: SCHEMA})
    assert [tuple(one) for one in sink.lake.rows("shop", "t")] == [(2, 7)]
    assert sink.warnings == []
    assert sink.side.empty(("shop", "never-made"))


def test_a_table_of_all_states_is_never_emptied(kind: str, tmp_path: Path) -> None:
    """Nor is one whose deleted rows stay."""
    for more in (APPEND, {"sink.delete-strategy": "soft"}):
        found = lake_of(kind, tmp_path / "kept", **more)
        assert found.side.rows is None or not found.side.rows.empty(TABLE)

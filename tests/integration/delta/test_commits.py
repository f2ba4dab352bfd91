"""Versions of Delta tables: other writers that are faster, batches that come twice, files that stay as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError
from lake_sink import lake_schema

from ingest.errors import Unavailable
from ingest.sinks.delta import upkeep

if TYPE_CHECKING:
    from collections.abc import Callable

    from delta_lake import DeltaSinkSide

TABLE = ("shop", "t")
SCHEMA = lake_schema("id INT", "n INT")


def rows(*numbers: int, n: int = 0) -> tuple[tuple[str, str], ...]:
    return tuple((f'{{"id":{one}}}', f'{{"id":{one},"n":{n}}}') for one in numbers)


def other_writer(sink: DeltaSinkSide, *numbers: int, n: int) -> None:
    schema = pa.schema([pa.field("id", pa.int32(), nullable=False), pa.field("n", pa.int32())])
    made = pa.table([pa.array(numbers, pa.int32()), pa.array([n] * len(numbers), pa.int32())], schema=schema)
    write_deltalake(sink.lake.warehouse.path(TABLE), made, mode="append")


def before(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, act: Callable[[int], None]) -> None:
    """Do something before each call, which gets the call's number."""
    wrapped, calls = getattr(owner, name), iter(range(1000))

    def method(*given: Any, **more: Any) -> Any:
        act(next(calls))
        return wrapped(*given, **more)

    monkeypatch.setattr(owner, name, method)


def test_another_writer_that_is_faster_loses_nothing(sink: DeltaSinkSide, monkeypatch: pytest.MonkeyPatch) -> None:
    """It adds a row of a key that the batch brings, after positions were found: these are found again."""
    sink.side.declare({TABLE: SCHEMA})
    sink.write(TABLE, SCHEMA, *rows(1, 2, 3))
    before(
        monkeypatch, DeltaTable, "create_write_transaction",
        lambda call: other_writer(sink, 7 + call, 2, n=5) if call < 3 else None,
    )  # fmt: skip
    sink.write(TABLE, SCHEMA, *rows(2, 9, n=1))
    assert sink.lake.rows(*TABLE) == [(1, 0), (2, 1), (3, 0), (7, 5), (8, 5), (9, 1)]
    on_disk = {path.name for path in sink.lake.folder.rglob("*.parquet")}
    ours = {name for name in on_disk if name.endswith(("-rows.parquet", "-keys.parquet"))}
    assert len(ours & set(sink.lake.active(*TABLE))) == 2
    assert len(ours) == 3, "the file that was there, the batch's, and the one with the rows that remain"


def test_a_writer_that_is_always_faster_ends_the_run(sink: DeltaSinkSide, monkeypatch: pytest.MonkeyPatch) -> None:
    sink.side.declare({TABLE: SCHEMA})
    monkeypatch.setattr("ingest.sinks.lake.files._PAUSE_S", 0)
    before(monkeypatch, DeltaTable, "create_write_transaction", lambda call: other_writer(sink, 100 + call, n=5))
    found = sink.files(TABLE, SCHEMA, rows(1))
    with pytest.raises(Unavailable):
        sink.side.add("checkpoint", 1, found)
    monkeypatch.undo()
    sink.side.add("checkpoint", 1, found)
    assert len(sink.lake.rows(*TABLE)) == 9


def test_a_batch_counts_once(sink: DeltaSinkSide) -> None:
    sink.side.declare({TABLE: SCHEMA})
    first, second = sink.files(TABLE, SCHEMA, rows(1, n=1)), sink.files(TABLE, SCHEMA, rows(1, n=2))
    for batch, files in ((1, first), (1, first), (2, second), (2, second)):
        sink.driver().add("checkpoint", batch, files)
    assert sink.lake.rows(*TABLE) == [(1, 2)]
    assert sink.lake.table(*TABLE).transaction_version("checkpoint") == 2
    sink.side.add("another", 1, sink.files(TABLE, SCHEMA, rows(5)))
    assert sink.lake.rows(*TABLE) == [(1, 2), (5, 0)]


def test_a_commit_whose_end_was_not_seen_counts_once(sink: DeltaSinkSide, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of the version that is there stay."""
    sink.side.declare({TABLE: SCHEMA})
    sink.write(TABLE, SCHEMA, *rows(1, 2, 3))
    wrapped = DeltaTable.create_write_transaction

    def lost(*given: Any, **more: Any) -> None:
        wrapped(*given, **more)
        raise CommitFailedError

    monkeypatch.setattr(DeltaTable, "create_write_transaction", lost)
    sink.write(TABLE, SCHEMA, *rows(2, n=1))
    assert sink.lake.rows(*TABLE) == [(1, 0), (2, 1), (3, 0)]


def test_deletes_alone_are_noted(sink: DeltaSinkSide) -> None:
    sink.side.declare({TABLE: SCHEMA})
    sink.write(TABLE, SCHEMA, ('{"id":1}', None))
    assert sink.lake.table(*TABLE).transaction_version("checkpoint") == 1
    assert sink.lake.rows(*TABLE) == []


def test_files_without_keys_of_a_batch_stay_as_they_are(sink: DeltaSinkSide) -> None:
    sink.side.declare({TABLE: SCHEMA})
    for start in range(0, 50, 10):
        sink.write(TABLE, SCHEMA, *rows(*range(start, start + 10)))
    files = set(sink.lake.active(*TABLE))
    assert len(files) == 5
    sink.write(TABLE, SCHEMA, *rows(12, 70, n=1))
    assert len(files & set(sink.lake.active(*TABLE))) == 4
    assert len(sink.lake.rows(*TABLE)) == 51


def test_a_table_that_is_written_anew_keeps_what_another_writer_added(
    sink: DeltaSinkSide, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink.side.declare({TABLE: SCHEMA})
    sink.write(TABLE, SCHEMA, *rows(1))
    before(monkeypatch, upkeep, "write_deltalake", lambda _: other_writer(sink, 7, n=5))
    with pytest.raises(Unavailable):
        sink.side.declare({TABLE: lake_schema("id INT", "n STRING")})
    monkeypatch.undo()
    sink.side.declare({TABLE: lake_schema("id INT", "n STRING")})
    assert sink.lake.rows(*TABLE) == [(1, "0"), (7, "5")]
    assert sink.lake.table(*TABLE).transaction_version("checkpoint") == 1


def test_many_rows_become_few_files(sink: DeltaSinkSide, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also such files of rows that remain as have more than one group."""
    monkeypatch.setattr("ingest.sinks.delta.files._GROUP_BYTES", 1000)
    sink.side.declare({TABLE: SCHEMA})
    for start in range(10):
        sink.write(TABLE, SCHEMA, *rows(*range(start, 1000, 10)))
    sink.write(TABLE, SCHEMA, *rows(*range(10), n=1))
    assert sink.lake.rows(*TABLE) == [(n, int(n < 10)) for n in range(1000)]
    assert len(sink.lake.active(*TABLE)) == 3
    sink.side.declare({TABLE: lake_schema("id INT", "n STRING")})
    assert sink.lake.rows(*TABLE) == [(n, str(int(n < 10))) for n in range(1000)]


def test_transactions_of_others_are_theirs(sink: DeltaSinkSide) -> None:
    sink.side.declare({TABLE: SCHEMA})
    made = pa.table({"id": pa.array([4], pa.int32()), "n": pa.array([1], pa.int32())})
    theirs = CommitProperties(app_transactions=[Transaction("theirs", 99)])
    write_deltalake(sink.lake.warehouse.path(TABLE), made, mode="append", commit_properties=theirs)
    sink.write(TABLE, SCHEMA, *rows(1))
    assert sink.lake.rows(*TABLE) == [(1, 0), (4, 1)]

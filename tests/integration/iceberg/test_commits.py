"""Commits of batches to tables of a lake: once each, whatever other writers and the catalog do in between."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from lake_sink import LakeSink, lake_schema
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitStateUnknownException

from ingest.errors import CheckpointError, ConfigError, SchemaChangeRefused, Unavailable
from ingest.sinks.iceberg.history import NOTE
from ingest.sinks.lake.superseded import superseded_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.table import Table

TABLE = ("shop", "t")
SCHEMA = lake_schema("id BIGINT", "n INT")


def row(key: int, n: int) -> tuple[str, str]:
    return f'{{"id":{key}}}', f'{{"id":{key},"n":{n}}}'


@pytest.fixture
def filled(sink: LakeSink) -> LakeSink:
    sink.side.declare({TABLE: SCHEMA})
    sink.write(TABLE, SCHEMA, *(row(key, 0) for key in range(1000)))
    return sink


def test_a_batch_that_is_there_is_not_added_again(filled: LakeSink) -> None:
    files = filled.files(TABLE, SCHEMA, (row(1, 1), row(5000, 1), ('{"id":2}', None)))
    for _ in range(3):
        filled.side.add("checkpoint", 2, files)
    assert filled.lake.ask("SELECT count(*), sum(n) FROM {}", *TABLE) == [(1000, 2)]
    assert filled.lake.table(*TABLE).properties[f"{NOTE}checkpoint"].startswith("2.")
    filled.side.add("other", 1, filled.files(TABLE, SCHEMA, (row(6000, 1),)))
    assert filled.lake.ask("SELECT count(*) FROM {}", *TABLE) == [(1001,)], "another checkpoint has its own count"


def test_a_text_beside_the_surrogates_is_committed(sink: LakeSink) -> None:
    """The upper bound of a text that is cut has its last character's successor, and U+D7FF has none of its own."""
    schema = lake_schema("id BIGINT", "n STRING")
    sink.side.declare({TABLE: schema})
    text = "a" * 15 + "\ud7ffz"
    sink.write(TABLE, schema, ('{"id":1}', f'{{"id":1,"n":"{text}"}}'))
    assert sink.lake.ask(f"SELECT id FROM {{}} WHERE n = '{text}'", *TABLE) == [(1,)]


@pytest.mark.parametrize("batch", [1, 2])
def test_an_old_copy_of_a_checkpoint_is_refused(filled: LakeSink, batch: int) -> None:
    filled.side.add("checkpoint", 2, filled.files(TABLE, SCHEMA, (row(1, 1),)))
    with pytest.raises(CheckpointError, match="the sink holds batch 2"):
        filled.side.add("checkpoint", batch, filled.files(TABLE, SCHEMA, (row(6000, 1),)))
    assert filled.lake.ask("SELECT count(*), sum(n) FROM {}", *TABLE) == [(1000, 1)]


def test_files_of_one_batch_supersede_each_other_in_their_order(filled: LakeSink) -> None:
    files = [
        *filled.files(TABLE, SCHEMA, (row(1, 1), row(2, 1), row(3, 1))),
        *filled.files(TABLE, SCHEMA, (('{"id":1}', None), row(2, 2))),
        *filled.files(TABLE, SCHEMA, (row(1, 3), ('{"id":3}', None), ('{"id":5000}', None))),
        *filled.files(TABLE, SCHEMA, (row(5000, 4),)),
    ]
    filled.side.add("checkpoint", 2, files)
    found = filled.lake.ask("SELECT id, n FROM {} WHERE n > 0 ORDER BY id", *TABLE)
    assert found == [(1, 3), (2, 2), (5000, 4)]
    assert filled.lake.ask("SELECT count(*) FROM {} WHERE id = 3", *TABLE) == [(0,)]
    assert filled.lake.ask("SELECT count(*), count(DISTINCT id) FROM {}", *TABLE) == [(1000, 1000)]


def test_only_the_keys_of_a_batch_that_are_deletes(filled: LakeSink) -> None:
    filled.write(TABLE, SCHEMA, *((f'{{"id":{key}}}', None) for key in range(990)))
    assert filled.lake.ask("SELECT count(*) FROM {}", *TABLE) == [(10,)]
    filled.write(TABLE, SCHEMA, ('{"id":77777}', None))
    assert filled.lake.ask("SELECT count(*) FROM {}", *TABLE) == [(10,)]


def between(monkeypatch: pytest.MonkeyPatch, times: int, act: Callable[[], object]) -> None:
    """Do something between the search for positions and the commit, this many times."""
    left = iter(range(times))

    def look(*arguments: Any) -> Any:
        rows: Any = superseded_rows(*arguments)
        if next(left, None) is not None:
            act()
        return rows

    monkeypatch.setattr("ingest.sinks.iceberg.superseded.superseded_rows", look)


def test_another_writer_in_between_is_seen(filled: LakeSink, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that it added, and files that it wrote anew, have the positions that they have then."""

    def rewrite() -> None:
        table = filled.lake.table(*TABLE)
        rows = table.scan().to_arrow().sort_by([("id", "descending")])
        table.overwrite(pa.concat_tables([rows, pa.table({"id": [7000], "n": [9]}, schema=rows.schema)]))

    between(monkeypatch, 1, rewrite)
    filled.write(TABLE, SCHEMA, row(1, 1), ('{"id":2}', None), row(7000, 1))
    found = filled.lake.ask("SELECT id, n FROM {} WHERE n > 0 OR id < 3 ORDER BY id", *TABLE)
    assert found == [(0, 0), (1, 1), (7000, 1)]
    assert filled.lake.ask("SELECT count(*), count(DISTINCT id) FROM {}", *TABLE) == [(1000, 1000)]
    table = filled.lake.table(*TABLE)
    known = {one.removeprefix("file://") for one in table.inspect.all_files()["file_path"].to_pylist()}
    there = {str(path) for path in filled.lake.folder.rglob("*.parquet")}
    assert there <= known, "a commit that failed leaves no files"


def test_a_writer_that_is_always_faster_ends_the_run_to_be_tried_again(
    filled: LakeSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingest.sinks.lake.files._PAUSE_S", 0.0)
    files = filled.files(TABLE, SCHEMA, (row(1, 1),))
    rows = pa.table({"id": pa.array([0], pa.int64()), "n": pa.array([0], pa.int32())}, schema=pa.schema([
        pa.field("id", pa.int64(), nullable=False), pa.field("n", pa.int32()),
    ]))  # fmt: skip
    between(monkeypatch, 100, lambda: filled.lake.table(*TABLE).append(rows))
    with pytest.raises(Unavailable, match="another writer"):
        filled.side.add("checkpoint", 2, files)
    monkeypatch.undo()
    filled.side.add("checkpoint", 2, files)
    assert filled.lake.ask("SELECT n FROM {} WHERE id = 1", *TABLE) == [(1,)]


@pytest.mark.parametrize("landed", [True, False])
def test_a_commit_whose_answer_is_lost_counts_once(
    filled: LakeSink, monkeypatch: pytest.MonkeyPatch, landed: bool
) -> None:
    done, left = SqlCatalog.commit_table, iter(range(2))

    def lose(self: SqlCatalog, *arguments: Any) -> Any:
        first = next(left, None) == 0
        if landed or not first:
            answer = done(self, *arguments)
        if first:
            msg = "the connection ended"
            raise CommitStateUnknownException(msg)
        return answer

    monkeypatch.setattr(SqlCatalog, "commit_table", lose)
    filled.write(TABLE, SCHEMA, row(1, 1), row(5000, 1))
    assert filled.lake.ask("SELECT count(*), sum(n) FROM {}", *TABLE) == [(1001, 2)]


def test_a_table_that_is_gone_stops_the_run_and_says_what_to_do(filled: LakeSink) -> None:
    files = filled.files(TABLE, SCHEMA, (row(1, 1),))
    filled.lake.catalog.drop_table(TABLE)
    with pytest.raises(ConfigError) as gone:
        filled.side.add("checkpoint", 2, files)
    assert "shop.t" in gone.value.message
    assert "--checkpoint" in gone.value.hint


def test_a_table_that_is_gone_is_known_to_be(filled: LakeSink) -> None:
    assert filled.side.vanished([TABLE, ("shop", "other"), ("t",)]) == {"table shop.other", "table default.t"}
    (filled.lake.folder / "catalog.db").unlink()
    assert filled.driver().vanished([TABLE]) == {"table shop.t"}


@pytest.mark.parametrize("change", ["drop", "rename"])
def test_a_column_that_is_changed_while_files_wait(filled: LakeSink, change: str) -> None:
    files = filled.files(TABLE, SCHEMA, (row(1, 1), row(5000, 1)))
    with filled.lake.table(*TABLE).update_schema() as update:
        if change == "drop":
            update.delete_column("n")
        else:
            update.rename_column("n", "m")
    filled.side.add("checkpoint", 2, files)
    assert filled.lake.ask("SELECT count(*) FROM {}", *TABLE) == [(1001,)]


@pytest.mark.parametrize(("name", "value"), [
    ("write.metadata.metrics.default", "bogus"), ("write.parquet.compression-codec", "foo"),
    ("write.parquet.compression-level", "x"),
])  # fmt: skip
def test_properties_that_mean_nothing_stop_the_run(filled: LakeSink, name: str, value: str) -> None:
    with filled.lake.table(*TABLE).transaction() as transaction:
        transaction.set_properties({name: value})
    with pytest.raises(ConfigError) as refused:
        filled.write(TABLE, SCHEMA, row(1, 1))
    assert "shop.t" in refused.value.message


def test_a_column_that_another_pipeline_made_anew_while_files_wait(filled: LakeSink) -> None:
    files = filled.files(TABLE, SCHEMA, (row(1, 1),))
    filled.driver().declare({TABLE: lake_schema("id BIGINT", "n STRING")})
    with pytest.raises(ConfigError, match="--drop-batch"):
        filled.side.add("checkpoint", 2, files)
    assert filled.lake.ask("SELECT n FROM {} WHERE id = 1", *TABLE) == [("0",)]


def test_a_key_that_is_gone_is_not_made_again(filled: LakeSink) -> None:
    with filled.lake.table(*TABLE).update_schema(allow_incompatible_changes=True) as update:
        update.set_identifier_fields()
        update.delete_column("id")
    with pytest.raises(SchemaChangeRefused, match="of the key is gone"):
        filled.side.declare({TABLE: SCHEMA})


def snapshots(table: Table) -> list[str]:
    return [str(one.summary.operation.value) for one in table.metadata.snapshots if one.summary]


def test_each_batch_is_one_snapshot(filled: LakeSink) -> None:
    filled.write(TABLE, SCHEMA, row(5000, 1))
    filled.write(TABLE, SCHEMA, row(5000, 2), ('{"id":1}', None))
    table = filled.lake.table(*TABLE)
    assert snapshots(table) == ["append", "append", "overwrite"]
    newest = table.current_snapshot()
    assert newest is not None
    assert newest.summary is not None
    assert newest.summary["total-position-deletes"] == "2"
    assert newest.summary["total-records"] == "1002"
    (hint,) = filled.lake.folder.rglob("version-hint.text")
    assert hint.read_text() in table.metadata_location

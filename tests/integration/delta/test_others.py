"""What others do to Delta tables while a pipeline runs: rows of earlier batches are never lost in silence."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from delta_lake import other_rows
from deltalake import DeltaTable, write_deltalake
from deltalake.transaction import AddAction
from lake_sink import lake_schema
from lake_values import VALUES

from ingest.errors import CheckpointError, ConfigError, SchemaChangeRefused

if TYPE_CHECKING:
    from delta_lake import DeltaSinkSide

TABLE = ("shop", "t")
SCHEMA = lake_schema("id BIGINT", "n INT")


def row(key: int, n: int) -> tuple[str, str]:
    return f'{{"id":{key}}}', f'{{"id":{key},"n":{n}}}'


@pytest.fixture
def filled(sink: DeltaSinkSide) -> DeltaSinkSide:
    sink.side.declare({TABLE: SCHEMA})
    sink.write(TABLE, SCHEMA, *(row(key, 0) for key in range(100)))
    return sink


def overwrite(sink: DeltaSinkSide, rows: pa.Table) -> None:
    """Replace the rows and the columns of the table."""
    write_deltalake(sink.lake.warehouse.path(TABLE), rows, mode="overwrite", schema_mode="overwrite")


# -- checkpoints -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [1, 2])
def test_an_old_copy_of_a_checkpoint_is_refused(filled: DeltaSinkSide, batch: int) -> None:
    filled.side.add("checkpoint", 2, filled.files(TABLE, SCHEMA, (row(1, 1),)))
    with pytest.raises(CheckpointError, match="the sink holds batch 2"):
        filled.side.add("checkpoint", batch, filled.files(TABLE, SCHEMA, (row(6000, 1),)))
    assert filled.lake.ask("SELECT count(*), sum(n) FROM {}", *TABLE) == [(100, 1)]


def test_notes_of_batches_outlive_what_others_do(filled: DeltaSinkSide) -> None:
    """Checkpoints of the log, restored versions, vacuums and the table's own compaction."""
    files = filled.files(TABLE, SCHEMA, (row(1, 1),))
    filled.side.add("checkpoint", 2, files)
    table = filled.lake.table(*TABLE)
    table.optimize.compact()
    table.create_checkpoint()
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    table.restore(table.version() - 1)
    filled.driver().add("checkpoint", 2, files)
    assert filled.lake.ask("SELECT count(*), sum(n) FROM {}", *TABLE) == [(100, 1)]


# -- tables that are gone ----------------------------------------------------------------------------------------------


def test_a_table_that_is_gone_is_known_to_be(filled: DeltaSinkSide) -> None:
    assert filled.side.vanished([TABLE, ("shop", "other"), ("t",)]) == {"table shop.other", "table default.t"}
    shutil.rmtree(filled.lake.folder)
    assert filled.driver().vanished([TABLE]) == {"table shop.t"}
    assert not filled.lake.folder.exists()


def test_a_table_that_is_gone_stops_the_run_and_says_what_to_do(filled: DeltaSinkSide) -> None:
    files = filled.files(TABLE, SCHEMA, (row(1, 1),))
    shutil.rmtree(filled.lake.folder / "shop" / "t" / "_delta_log")
    with pytest.raises(ConfigError) as gone:
        filled.side.add("checkpoint", 2, files)
    assert "shop.t" in gone.value.message
    assert "--checkpoint" in gone.value.hint
    with pytest.raises(ConfigError, match="it is gone"):
        filled.side.declare({TABLE: lake_schema("id BIGINT", "n INT", "more INT")})


def test_a_table_that_another_pipeline_made_anew_stops_the_run(filled: DeltaSinkSide) -> None:
    files = filled.files(TABLE, SCHEMA, (row(1, 1),))
    shutil.rmtree(filled.lake.folder / "shop" / "t" / "_delta_log")
    filled.driver().declare({TABLE: SCHEMA})
    with pytest.raises(ConfigError, match="created it again"):
        filled.side.add("checkpoint", 2, files)


def test_versions_that_are_taken_away_stop_the_run(filled: DeltaSinkSide) -> None:
    filled.write(TABLE, SCHEMA, row(1, 1))
    files = filled.files(TABLE, SCHEMA, (row(2, 1),))
    max((filled.lake.folder / "shop" / "t" / "_delta_log").glob("*.json")).unlink()
    with pytest.raises(ConfigError, match="at version 1, and was at 2"):
        filled.side.add("checkpoint", 3, files)


def test_a_table_that_somebody_restores_is_said_to_be(filled: DeltaSinkSide) -> None:
    filled.write(TABLE, SCHEMA, row(500, 1))
    table = filled.lake.table(*TABLE)
    table.restore(table.version() - 1)
    for number in range(2):
        filled.write(TABLE, SCHEMA, row(1, 5 + number))
    (warning,) = filled.warnings
    assert "table shop.t: somebody has restored an earlier version" in warning
    assert filled.lake.ask("SELECT count(*), sum(n) FROM {}", *TABLE) == [(100, 6)]


# -- files of a batch that wait ----------------------------------------------------------------------------------------


def test_a_type_that_another_writer_made_wider_in_the_meantime(filled: DeltaSinkSide) -> None:
    found = filled.files(TABLE, SCHEMA, (row(1, 1), ('{"id":2}', None), row(500, 1)))
    filled.driver().declare({TABLE: lake_schema("id STRING", "n DOUBLE")})
    filled.side.add("checkpoint", 2, found)
    assert filled.lake.ask("SELECT count(*), sum(n) FROM {}", *TABLE) == [(100, 2.0)]
    assert filled.lake.ask("SELECT n FROM {} WHERE id = '500'", *TABLE) == [(1.0,)]


@pytest.mark.parametrize("kind", [pa.int16(), pa.bool_(), pa.date32(), pa.list_(pa.int32())])
def test_a_column_that_was_made_anew_as_another_one_in_the_meantime(filled: DeltaSinkSide, kind: pa.DataType) -> None:
    files = filled.files(TABLE, SCHEMA, (row(1, 1),))
    overwrite(filled, pa.table({"id": pa.array([7], pa.int64()), "n": pa.array([None], kind)}))
    with pytest.raises(ConfigError, match="'n' was created again") as refused:
        filled.side.add("checkpoint", 2, files)
    assert "--drop-batch" in refused.value.hint


def test_a_column_that_is_gone_in_the_meantime(filled: DeltaSinkSide) -> None:
    """Its values do not come back when a column of the same name does."""
    files = filled.files(TABLE, SCHEMA, (row(1, 1), row(500, 1)))
    overwrite(filled, pa.table({"id": pa.array([7], pa.int64())}))
    filled.side.add("checkpoint", 2, files)
    assert filled.lake.rows(*TABLE) == [(1,), (7,), (500,)]
    filled.side.declare({TABLE: lake_schema("id BIGINT", "n STRING")})
    assert filled.lake.rows(*TABLE) == [(1, None), (7, None), (500, None)]


def test_a_key_that_is_gone_is_not_made_again(filled: DeltaSinkSide) -> None:
    files = filled.files(TABLE, SCHEMA, (row(1, 1),))
    overwrite(filled, pa.table({"n": pa.array([7], pa.int32())}))
    with pytest.raises(SchemaChangeRefused, match="of the key is gone"):
        filled.side.declare({TABLE: SCHEMA})
    with pytest.raises(SchemaChangeRefused, match="of the key is gone"):
        filled.side.add("checkpoint", 2, files)


@pytest.mark.parametrize(("property_", "value"), [
    ("delta.appendOnly", "true"), ("delta.enableChangeDataFeed", "true"),
    ("delta.setTransactionRetentionDuration", "interval 1 days"),
])  # fmt: skip
def test_a_table_that_somebody_changes_beyond_what_is_written_here(
    filled: DeltaSinkSide, property_: str, value: str
) -> None:
    found = filled.files(TABLE, SCHEMA, (row(1, 1),))
    filled.lake.table(*TABLE).alter.set_table_properties({property_: value})
    with pytest.raises(SchemaChangeRefused, match="property delta"):
        filled.side.add("checkpoint", 2, found)


def test_a_column_that_becomes_required_in_the_meantime(filled: DeltaSinkSide) -> None:
    files = filled.files(TABLE, SCHEMA, (row(1, 1),))
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("x", pa.int32(), nullable=False)])
    overwrite(filled, pa.table([pa.array([1], pa.int64()), pa.array([1], pa.int32())], schema=schema))
    with pytest.raises(SchemaChangeRefused, match="'x' is required"):
        filled.side.add("checkpoint", 2, files)


def test_files_of_a_batch_that_somebody_removed(filled: DeltaSinkSide) -> None:
    files = filled.files(TABLE, SCHEMA, (row(1, 1),))
    filled.lake.table(*TABLE).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True)
    with pytest.raises(ConfigError, match="of a batch is gone") as refused:
        filled.side.add("checkpoint", 2, files)
    assert "--drop-batch" in refused.value.hint


def restore(sink: DeltaSinkSide) -> None:
    sink.lake.table(*TABLE).restore(1)


def delete(sink: DeltaSinkSide) -> None:
    sink.lake.table(*TABLE).delete("id < 50")


def merge(sink: DeltaSinkSide) -> None:
    table = sink.lake.table(*TABLE)
    source = other_rows((1, 7), (3, 7), (300, 7))
    merged = table.merge(source, "t.id = s.id", source_alias="s", target_alias="t")
    merged.when_matched_update_all().when_not_matched_insert_all().execute()


def compact(sink: DeltaSinkSide) -> None:
    sink.lake.table(*TABLE).optimize.compact()


def replace(sink: DeltaSinkSide) -> None:
    overwrite(sink, other_rows((1, 8), (400, 8)))


@pytest.mark.parametrize("act", [restore, delete, merge, compact, replace])
def test_another_writer_in_between_is_seen(filled: DeltaSinkSide, act: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows that the batch supersedes are found again in what the other one has left."""
    filled.write(TABLE, SCHEMA, row(1, 1), row(2, 1))
    wrapped, calls = DeltaTable.create_write_transaction, iter(range(9))

    def late(*given: Any, **more: Any) -> Any:
        if not next(calls):
            act(filled)
        return wrapped(*given, **more)

    files = filled.files(TABLE, SCHEMA, (row(1, 9), ('{"id":2}', None), row(500, 9)))
    monkeypatch.setattr(DeltaTable, "create_write_transaction", late)
    filled.side.add("checkpoint", 3, files)
    monkeypatch.undo()
    expected = {
        restore: [0] * 98 + [9, 9], delete: [0] * 50 + [9, 9], merge: [0] * 97 + [7, 7, 9, 9],
        compact: [0] * 98 + [9, 9], replace: [8, 9, 9],
    }  # fmt: skip
    assert sorted(n for _, n in filled.lake.rows(*TABLE)) == expected[act]
    assert [found for found in filled.lake.rows(*TABLE) if found[0] in {1, 2, 500}] == [(1, 9), (500, 9)]


@pytest.mark.parametrize("first", ["BYTES", "STRING", "DATE", "DECIMAL(5,2)", "TIMESTAMP", "INT", "DOUBLE", "BOOLEAN"])
def test_rows_in_files_of_another_writer_are_written_anew(sink: DeltaSinkSide, first: str) -> None:
    """The library's own writer has views of texts and bytes, which are types of their own."""
    narrow, wide = lake_schema("id STRING", f"c {first}"), lake_schema("id STRING", "c STRING", "d INT")
    text = VALUES[first][0]
    sink.side.declare({TABLE: narrow})
    keys = ("a", "b", "e", "z")
    sink.write(TABLE, narrow, *((f'{{"id":"{key}"}}', f'{{"id":"{key}","c":{text}}}') for key in keys))
    before = sink.lake.ask("SELECT c FROM {} LIMIT 1", *TABLE)
    sink.lake.table(*TABLE).delete("id = 'z'")
    sink.write(TABLE, narrow, ('{"id":"a"}', '{"id":"a"}'), ('{"id":"e"}', None))
    assert sink.lake.rows(*TABLE) == [("a", None), ("b", before[0][0])]
    sink.lake.table(*TABLE).delete("id = 'x' OR id = 'a'")
    sink.side.declare({TABLE: wide})
    sink.write(TABLE, wide, ('{"id":"q"}', '{"id":"q","c":"1","d":2}'))
    (_, found, _), more = sink.lake.rows(*TABLE)
    said = found if first in {"BYTES", "STRING", "DATE"} or "TIME" in first else json.loads(found)
    assert said == json.loads(text)
    assert more == ("q", "1", 2)


def test_rows_are_found_by_times_that_spark_wrote(sink: DeltaSinkSide) -> None:
    """They have the old type of 96 bits, and no ends in the statistics."""
    schema = lake_schema("id TIMESTAMP", "at TIMESTAMP", "n INT")
    sink.side.declare({TABLE: schema})
    times = pa.array([0, 253_402_300_799_000_000, -1], pa.timestamp("us"))
    path = sink.lake.folder / "shop" / "t" / "spark.parquet"
    pq.write_table(
        pa.table({"id": times, "at": times, "n": pa.array([0, 0, 0], pa.int32())}), path,
        use_deprecated_int96_timestamps=True, store_schema=False,
    )  # fmt: skip
    table = sink.lake.table(*TABLE)
    added = AddAction(path.name, path.stat().st_size, {}, 0, data_change=True, stats='{"numRecords":3}')
    table.create_write_transaction([added], "append", table.schema())
    sink.write(TABLE, schema, ('{"id":"1970-01-01 00:00:00"}', '{"id":"1970-01-01 00:00:00","n":1}'))
    sink.write(TABLE, schema, ('{"id":"9999-12-31 23:59:59"}', '{"id":"9999-12-31 23:59:59","n":1}'))
    assert [(n, at is None) for n, at in sink.lake.rows(*TABLE, columns='n, "at"')] == [
        (0, False),
        (1, True),
        (1, True),
    ]

"""Tables with partitions: each transform, rows that move between them, upkeep, and partitions that change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest
from lake_sink import SPLIT, LakeSink, lake_schema
from moving_rows import KEYS, SCHEMA, TABLE, Moving, lay_out
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import UUIDType

from ingest.encode.upsert_encoder import Record
from ingest.errors import ConfigError, SchemaChangeRefused
from ingest.model.commit import CommitScope, RowsRefused
from ingest.model.table import TableLayout, partition_keys

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.table import Table as IcebergTable


def made(folder: Path, keys: str, **more: Any) -> LakeSink:
    sink = LakeSink(folder, **more)
    lay_out(sink, keys)
    return sink


class Table(Moving):
    """A table whose rows move between its partitions."""

    sink: LakeSink

    @property
    def table(self) -> IcebergTable:
        return self.sink.lake.table(*TABLE)

    def check(self) -> None:
        wanted = self.expected()
        assert self.sink.lake.ask("SELECT id, region, kind, ok FROM {} ORDER BY id", *TABLE) == wanted
        rows = self.table.scan().to_arrow().sort_by("id").to_pylist()
        assert [(one["id"], one["region"], one["kind"], one["ok"]) for one in rows] == wanted


@pytest.mark.parametrize(
    "keys",
    [
        "region", "ok", "kind", "day", "at", "seen", "price", "raw", "time", "id", "size",
        "year(at)", "month(day)", "day(seen)", "hour(at)",
        "bucket(4, id)", "bucket(3, region), day(at)", "bucket(5, price)", "bucket(2, raw)", "bucket(2, time)",
        "truncate(1, region)", "truncate(10, kind)", "truncate(1, price)", "truncate(1, raw)",
        "region, year(day), ok",
    ],
)  # fmt: skip
def test_rows_move_between_partitions(tmp_path: Path, keys: str) -> None:
    moving = Table(made(tmp_path, keys, **{"sink.compaction.commit.interval": 4}))
    moving.change(9)
    moving.check()
    spec = moving.table.spec()
    assert len(spec.fields) == len(partition_keys(keys))
    places = {repr(task.file.partition) for task in moving.table.scan().plan_files()}
    assert len(places) > 1
    assert moving.sink.warnings == []


def test_a_search_in_one_partition_reads_its_files_only(tmp_path: Path) -> None:
    moving = Table(made(tmp_path, "region"))
    moving.change(5)
    files = [*moving.table.scan().plan_files()]
    some = [*moving.table.scan(row_filter="region = 'eu'").plan_files()]
    assert 0 < len(some) < len(files)
    assert {task.file.partition[0] for task in some} == {"eu"}
    wanted = sum(row["region"] == "eu" for row in moving.rows.values())
    assert moving.sink.lake.ask("SELECT count(*) FROM {} WHERE region = 'eu'", *TABLE) == [(wanted,)]


def test_a_compacted_table_has_a_file_for_each_partition(tmp_path: Path) -> None:
    moving = Table(made(tmp_path, "region", **{"sink.compaction.commit.interval": 10}))
    moving.change(10)
    moving.check()
    regions = {row["region"] for row in moving.rows.values()}
    assert len([*moving.table.scan().plan_files()]) == len(regions)
    before = {task.file.file_path for task in moving.table.scan().plan_files()}
    rows = ((f'{{"id":{key}}}', f'{{"id":{key},"region":"new"}}') for key in range(KEYS, KEYS + 10))
    for one in rows:
        moving.sink.write(TABLE, SCHEMA, one)
    after = {task.file.file_path for task in moving.table.scan().plan_files()}
    assert len(after - before) == 1, "files that are alone in their partitions stay"
    assert before < after


def test_partitions_that_its_owner_changes(tmp_path: Path) -> None:
    moving = Table(made(tmp_path, "region", **{"sink.compaction.commit.interval": 6}))
    moving.change(3)
    with moving.table.update_spec() as spec:
        spec.remove_field("region")
        spec.add_field("id", BucketTransform(4), "id_bucket")
    moving.sink.side.declare({TABLE: SCHEMA})
    moving.change(2)
    moving.check()
    with moving.table.update_spec() as spec:
        spec.remove_field("id_bucket")
    moving.change(5)
    moving.check()


def test_partitions_that_change_between_batches_of_one_task(tmp_path: Path) -> None:
    """A worker keeps its writer for a whole run."""
    sink = made(tmp_path, "region")
    writer = sink.options.writer("p", 1)
    to: Any = sink.options.table_for(TABLE, SCHEMA)
    for batch in (1, 2):
        writer.begin(CommitScope("checkpoint", 1, 1, batch, 0, {SPLIT: 0}, kept=False))
        writer.write(
            [Record(to, b'{"id":%d}' % n, b'{"id":%d,"region":"eu","kind":%d}' % (n, n % 3)) for n in range(9)]
        )
        writer.commit({SPLIT: 9}, b"", final=True)
        sink.side.add("checkpoint", batch, orjson.loads(orjson.dumps(sink.side.additions(writer.delivered()))))
        with sink.lake.table(*TABLE).update_spec() as spec:
            spec.add_identity("kind" if batch == 1 else "ok")
    writer.close()
    assert sink.lake.ask("SELECT count(*) FROM {}", *TABLE) == [(9,)]


def test_partitions_that_come_while_files_wait(tmp_path: Path) -> None:
    sink = made(tmp_path, "region")
    one = ('{"id":1}', '{"id":1,"region":"eu","kind":1}')
    files = sink.files(TABLE, SCHEMA, (one, ('{"id":2}', '{"id":2,"region":"eu","kind":2}')))
    with sink.lake.table(*TABLE).update_spec() as spec:
        spec.add_identity("kind")
    with pytest.raises(ConfigError, match="partitions were changed since rows were written"):
        sink.side.add("checkpoint", 1, files)
    with sink.lake.table(*TABLE).update_spec() as spec:
        spec.remove_field("kind")
    sink.side.add("checkpoint", 1, files)
    assert sink.lake.ask("SELECT id FROM {} ORDER BY id", *TABLE) == [(1,), (2,)]


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ("nothing", "rows have no column 'nothing' so far"),
        ("day(region)", "cannot be made of a column that is string"),
        ("bucket(4, ok)", "cannot be made of a column that is boolean"),
        ("hour(day)", "cannot be made of a column that is date"),
    ],
)
def test_partitions_that_a_table_cannot_have(tmp_path: Path, keys: str, why: str) -> None:
    with pytest.raises(SchemaChangeRefused) as raised:
        made(tmp_path, keys)
    assert why in raised.value.message


def test_a_column_that_makes_partitions_stays_what_it_is(tmp_path: Path) -> None:
    sink = made(tmp_path, "bucket(4, kind)")
    sink.write(TABLE, SCHEMA, ('{"id":1}', '{"id":1,"kind":1}'))
    sink.side.declare({TABLE: lake_schema("id BIGINT", "kind BIGINT")})
    wider = lake_schema("id BIGINT", "kind BIGINT")
    sink.write(TABLE, wider, ('{"id":2}', f'{{"id":2,"kind":{2**40}}}'), ('{"id":1}', None))
    assert sink.lake.ask("SELECT id, kind FROM {}", *TABLE) == [(2, 2**40)]
    with pytest.raises(SchemaChangeRefused, match="makes partitions, so that it cannot become of another type"):
        sink.side.declare({TABLE: lake_schema("id BIGINT", "kind STRING")})
    sink.side.declare({TABLE: lake_schema("id BIGINT", "price STRING")})
    sink.write(TABLE, lake_schema("id BIGINT", "price STRING"), ('{"id":3}', '{"id":3,"price":"a"}'))
    assert sink.lake.ask("SELECT id, kind, price FROM {} ORDER BY id", *TABLE) == [(2, 2**40, None), (3, None, "a")]


def test_too_many_partitions_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingest.sinks.lake.files.MOST_FILES", 3)
    sink = made(tmp_path, "id")
    rows = [(f'{{"id":{key}}}', f'{{"id":{key}}}') for key in range(4)]
    with pytest.raises(ConfigError, match="4 rows are in 4 partitions"):
        sink.write(TABLE, SCHEMA, *rows)
    sink.write(TABLE, SCHEMA, *rows[:3])
    assert sink.lake.ask("SELECT count(*) FROM {}", *TABLE) == [(3,)]


def test_options_of_a_table_and_what_plan_shows(tmp_path: Path) -> None:
    sink = LakeSink(tmp_path)
    layout = TableLayout(
        partition_keys("region, bucket(4, id)"), (("write.parquet.compression-level", "3"), ("a", "'"))
    )
    sink.side.arrange({TABLE: layout})
    (text,) = sink.side.undeclared({TABLE: lake_schema("id BIGINT", "region STRING")})
    assert text == (
        'CREATE TABLE "shop"."t" ("id" BIGINT, "region" STRING, PRIMARY KEY ("id")) PARTITIONED BY ("region", '
        "bucket(4, \"id\")) TBLPROPERTIES ('write.parquet.compression-level' = '3', 'a' = '''')"
    )
    sink.side.declare({TABLE: SCHEMA})
    properties = sink.lake.table(*TABLE).properties
    assert (properties["write.parquet.compression-level"], properties["a"]) == ("3", "'")
    options = sink.options
    assert options.check_layout(TableLayout(options=(("write.py-location-provider.impl", "os.x"),))) != []
    assert options.check_layout(TableLayout(options=(("ingest.x", "1"),))) != []
    assert options.check_layout(TableLayout(options=(("format-version", "3"),))) != []
    assert options.check_layout(layout) == []


def test_what_a_table_cannot_take_is_told_by_its_columns(tmp_path: Path) -> None:
    sink = made(tmp_path, "bucket(4, kind)")
    assert sink.side.unfit(TABLE, SCHEMA) == {}
    assert sink.side.unfit(("shop", "new"), SCHEMA) == {}
    with sink.lake.table(*TABLE).update_schema() as update:
        update.add_column("more", UUIDType())
    found = sink.side.unfit(TABLE, lake_schema("id BIGINT", "kind STRING", "more STRING", "other INT"))
    assert {name: why.partition(",")[0] for name, why in found.items()} == {
        "kind": "its column 'kind' makes partitions", "more": "its column 'more' is uuid",
    }  # fmt: skip
    kinds = {column.name: column.type for column in SCHEMA.columns}
    assert {name: why.there for name, why in found.items()} == {"kind": kinds["kind"], "more": None}


@pytest.mark.parametrize("native", [True, False])
def test_a_decimal_that_no_partition_can_have_is_a_reject(
    tmp_path: Path, native: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """-99 is cut to -100, which is no DECIMAL(2,0), so that no manifest could have it."""
    monkeypatch.setattr("ingest.sinks.lake.rows.BUILT", native)
    sink, schema = LakeSink(tmp_path), lake_schema("id BIGINT", "c DECIMAL(2,0)")
    sink.side.arrange({TABLE: TableLayout(partition_keys("truncate(10, c)"), ())})
    sink.side.declare({TABLE: schema})
    good = [(f'{{"id":{key}}}', f'{{"id":{key},"c":{text}}}') for key, text in enumerate(["-90", "99", "null"])]
    with pytest.raises(RowsRefused, match="column 'c' makes partitions, and -99 less its rest by 10") as caught:
        sink.write(TABLE, schema, *good, ('{"id":9}', '{"id":9,"c":-99}'))
    assert [one.key for one in caught.value.rows] == [b'{"id":9}']
    sink.write(TABLE, schema, *good, ('{"id":9}', None))
    assert sink.lake.ask("SELECT id, c::INT FROM {} ORDER BY id", *TABLE) == [(0, -90), (1, 99), (2, None)]

"""Partitions of Delta tables that others make, that change, and that cannot be."""

from __future__ import annotations

import json
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from delta_lake import DeltaSinkSide
from deltalake import write_deltalake
from lake_sink import lake_schema
from lake_values import VALUES
from moving_rows import SCHEMA, TABLE, TEXTS, lay_out, partitioned

from ingest.errors import ConfigError, SchemaChangeRefused
from ingest.model.table import TableLayout, partition_keys

if TYPE_CHECKING:
    from pathlib import Path


def made(folder: Path, keys: str) -> DeltaSinkSide:
    sink = DeltaSinkSide(folder)
    lay_out(sink, keys)
    return sink


# -- tables of others --------------------------------------------------------------------------------------------------


def test_a_table_of_others_keeps_its_partitions(tmp_path: Path) -> None:
    """The library has folders for values, with escapes."""
    sink = DeltaSinkSide(tmp_path, **{"sink.compaction.commit.interval": 4})
    (tmp_path / "shop").mkdir()
    texts = [one for one in TEXTS if len(one) < 100]
    rows = pa.table(
        {"id": pa.array(range(len(texts)), pa.int64()), "region": texts, "n": pa.array([0] * len(texts), pa.int32())}
    )
    write_deltalake(sink.lake.warehouse.path(TABLE), rows, partition_by=["region"])
    schema = lake_schema("id BIGINT", "n INT", "more STRING")
    sink.side.arrange({TABLE: TableLayout(partition_keys("n"))})
    sink.side.declare({TABLE: schema})
    for n in range(1, 5):
        sink.write(TABLE, schema, *((f'{{"id":{n * 2}}}', f'{{"id":{n * 2},"n":{n}}}') for n in range(n, 6)))
    sink.write(TABLE, schema, ('{"id":1}', None), ('{"id":77}', '{"id":77,"n":7,"more":"x"}'))
    wanted: list[tuple[Any, ...]] = [(at, text, 0, None) for at, text in enumerate(texts)]
    for n in range(1, 6):
        wanted[n * 2] = (n * 2, None, n, None)
    wanted = [*wanted[:1], *wanted[2:], (77, None, 7, "x")]
    assert sink.lake.rows(*TABLE, columns="id, region, n, more") == wanted
    assert sink.lake.by_library(*TABLE, columns="id, region, n, more") == wanted
    assert sink.lake.table(*TABLE).metadata().partition_columns == ["region"]


def test_a_file_whose_name_is_spelt_otherwise_in_the_log_stops_the_run(tmp_path: Path) -> None:
    """The library would remove another one, and its rows would be there twice."""
    sink = made(tmp_path, "region")
    sink.write(TABLE, SCHEMA, ('{"id":1}', '{"id":1,"region":"eu"}'))
    (log,) = [path for path in (tmp_path / "shop" / "t" / "_delta_log").glob("*.json") if "add" in path.read_text()]
    (name,) = sink.lake.active(*TABLE)
    for odd in ("r=\u00e9", "r=a+b", "../t", "r=a%41b", "/r"):
        log.write_text(log.read_text().replace(f'"path":"{name}"', f'"path":"{odd}/{name}"'))
        with pytest.raises(ConfigError, match="does not rewrite"):
            sink.driver().add("checkpoint", 2, sink.files(TABLE, SCHEMA, (('{"id":1}', '{"id":1,"region":"us"}'),)))
        log.write_text(log.read_text().replace(f'"path":"{odd}/{name}"', f'"path":"{name}"'))
    sink.driver().add("checkpoint", 2, sink.files(TABLE, SCHEMA, (('{"id":1}', '{"id":1,"region":"us"}'),)))
    assert sink.lake.ask("SELECT id, region FROM {}", *TABLE) == [(1, "us")]


@pytest.mark.parametrize("before", ["", "region", "n", "region, n"])
@pytest.mark.parametrize("after", [["region"], ["n"], ["n", "region"]])
def test_partitions_that_change_while_files_wait(tmp_path: Path, before: str, after: list[str]) -> None:
    sink = DeltaSinkSide(tmp_path)
    schema = partitioned(sink, before, "id BIGINT", "region STRING", "n INT")

    def row(key: int, region: str, n: int) -> tuple[str, str]:
        return f'{{"id":{key}}}', json.dumps({"id": key, "region": region, "n": n})

    sink.write(TABLE, schema, row(1, "eu", 1), row(2, "us", 2))
    files = sink.files(
        TABLE, schema, (row(1, "us", 3), row(3, "eu", 3), ('{"id":2}', None)), (row(3, "eu", 4), row(4, "eu", 3))
    )
    fields = [pa.field("id", pa.int64(), nullable=False), pa.field("region", pa.string()), pa.field("n", pa.int32())]
    rows = pa.table(
        [pa.array([1, 2, 5]), pa.array(["eu", "us", "us"]), pa.array([1, 2, 5], pa.int32())], schema=pa.schema(fields)
    )
    write_deltalake(
        sink.lake.warehouse.path(TABLE), rows, mode="overwrite", schema_mode="overwrite", partition_by=after
    )
    assert sink.lake.table(*TABLE).metadata().partition_columns == after
    sink.side.add("checkpoint", 2, files)
    wanted = [(1, "us", 3), (3, "eu", 4), (4, "eu", 3), (5, "us", 5)]
    assert sink.lake.rows(*TABLE) == sink.lake.by_library(*TABLE) == wanted


# -- changes -----------------------------------------------------------------------------------------------------------


def test_types_of_a_table_with_partitions_become_wider(tmp_path: Path) -> None:
    sink = DeltaSinkSide(tmp_path)
    schema = partitioned(sink, "price, n", "id INT", "price DECIMAL(5,2)", "n INT", "day DATE", "x INT")
    rows: list[dict[str, Any]] = [
        {"id": 1, "price": "-0.05", "n": -7, "day": "2024-02-29", "x": 1}, {"id": 2, "price": None, "n": None, "x": 2},
        {"id": 3, "price": "-4.56", "n": 5, "day": "1960-01-01", "x": 3},
    ]  # fmt: skip
    sink.write(TABLE, schema, *((f'{{"id":{row["id"]}}}', json.dumps(row)) for row in rows))
    files = sink.files(TABLE, schema, (('{"id":4}', '{"id":4,"price":"-1.10","n":3}'), ('{"id":1}', '{"id":1,"n":9}')))
    wide = lake_schema("id INT", "price DECIMAL(9,2)", "n STRING", "day TIMESTAMP", "x STRING", "late TIMESTAMP")
    (first, *_) = sorted(sink.side.undeclared({TABLE: wide}))
    assert first.startswith('ALTER TABLE "shop"."t"')
    for _ in range(2):
        sink.side.declare({TABLE: wide})
        assert sink.side.undeclared({TABLE: wide}) == set()
    sink.side.add("checkpoint", 2, files)
    found = sink.lake.rows(*TABLE)
    assert found == [
        (1, None, "9", None, None, None), (2, None, None, None, "2", None),
        (3, Decimal("-4.56"), "5", datetime.fromisoformat("1960-01-01"), "3", None),
        (4, Decimal("-1.10"), "3", None, None, None),
    ]  # fmt: skip
    assert sink.lake.by_library(*TABLE) == found
    table = sink.lake.table(*TABLE)
    table.create_checkpoint()
    assert sink.lake.rows(*TABLE) == sink.lake.by_library(*TABLE) == found
    assert table.metadata().partition_columns == ["price", "n"]
    assert table.transaction_version("checkpoint") == 2
    assert table.metadata().configuration["delta.checkpointInterval"] == "20"
    sink.batch += 1
    sink.write(TABLE, wide, ('{"id":3}', '{"id":3,"n":"\u00e9","late":"2024-01-01 00:00:00"}'))
    assert sink.lake.rows(*TABLE, columns="id, n")[2] == (3, "\u00e9")


@pytest.mark.parametrize(("narrow", "wide"), [
    (narrow, wide)
    for narrow, wides in {
        "INT": ["BIGINT", "DOUBLE", "DECIMAL(12,2)", "STRING"], "BIGINT": ["DECIMAL(20,0)", "STRING"],
        "FLOAT": ["DOUBLE"],
        "DECIMAL(5,2)": ["DECIMAL(9,2)", "DECIMAL(9,4)", "STRING"], "BOOLEAN": ["STRING"],
        "DATE": ["TIMESTAMP", "STRING"], "TIMESTAMP": ["TIMESTAMP_LTZ", "STRING"], "DOUBLE": ["STRING"],
    }.items()
    for wide in wides
])  # fmt: skip
def test_a_column_that_makes_partitions_becomes_wider_or_the_run_stops(tmp_path: Path, narrow: str, wide: str) -> None:
    """Readers want texts of the new type of all that the log has, also of files that are gone."""
    sink = DeltaSinkSide(tmp_path)
    schema = partitioned(sink, "c", "id INT", f"c {narrow}")
    rows = [(f'{{"id":{n}}}', f'{{"id":{n},"c":{text}}}') for n, text in enumerate(VALUES[narrow])]
    sink.write(TABLE, schema, *rows)
    before = sink.lake.rows(*TABLE)
    wider = lake_schema("id INT", f"c {wide}")
    scale = {"DECIMAL(9,4)", "DECIMAL(12,2)", "DECIMAL(20,0)"}
    if wide in scale or "TIMESTAMP" in wide:
        with pytest.raises(SchemaChangeRefused, match="makes partitions, so that it cannot become"):
            sink.side.declare({TABLE: wider})
        assert sink.lake.rows(*TABLE) == before
        return
    sink.side.declare({TABLE: wider})
    found = sink.lake.rows(*TABLE)
    assert found == sink.lake.by_library(*TABLE)
    plain = DeltaSinkSide(tmp_path / "plain")
    plain.side.declare({TABLE: schema})
    plain.write(TABLE, schema, *rows)
    plain.side.declare({TABLE: wider})
    assert found == plain.lake.rows(*TABLE)


@pytest.mark.parametrize(("keys", "why"), [
    ("nothing", "rows have no column 'nothing' so far"), ("raw", "can be made of a column that is binary"),
    ("id, n, raw", "can be made of a column that is binary"), ("n, id", "has all of its columns (n, id)"),
])  # fmt: skip
def test_partitions_that_a_table_cannot_have(tmp_path: Path, keys: str, why: str) -> None:
    sink = DeltaSinkSide(tmp_path)
    columns = ("id INT", "n INT", "raw BYTES") if "raw" in keys else ("id INT", "n INT")
    with pytest.raises(SchemaChangeRefused) as raised:
        partitioned(sink, keys, *columns)
    assert why in raised.value.message
    assert sink.side.vanished([TABLE]) == {"table shop.t"}


def test_too_many_partitions_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingest.sinks.lake.files.MOST_FILES", 3)
    sink = made(tmp_path, "id")
    rows = [(f'{{"id":{key}}}', f'{{"id":{key}}}') for key in range(4)]
    with pytest.raises(ConfigError, match="4 rows are in 4 partitions") as refused:
        sink.write(TABLE, SCHEMA, *rows)
    assert "other partition-keys" in refused.value.hint
    sink.write(TABLE, SCHEMA, *rows[:3])
    assert sink.lake.ask("SELECT count(*) FROM {}", *TABLE) == [(3,)]


def test_layouts_that_no_table_can_have(tmp_path: Path) -> None:
    sink = DeltaSinkSide(tmp_path)
    options = sink.options

    def why(keys: str = "", *properties: tuple[str, str]) -> list[str]:
        return [text for _, text in options.check_layout(TableLayout(partition_keys(keys), properties))]

    assert why("region, n", ("delta.logRetentionDuration", "interval 30 days"), ("owner", "me")) == []
    (text,) = why("region, day(at)")
    assert text.startswith("day(at) is made of a column, and Delta has partitions by the values of columns only")
    assert len(why("bucket(4, id), truncate(2, s)")) == 2
    for name in ("delta.appendOnly", "delta.enableChangeDataFeed", "delta.columnMapping.mode", "ingest-compacted"):
        (text,) = why("", (name, "true"))
        assert "is no property that this tool heeds" in text
    (text,) = why("", ("delta.targetFileSize", "big"))
    assert text == "delta.targetFileSize cannot be 'big': write a number"
    layout = TableLayout(partition_keys("region"), (("delta.logRetentionDuration", "interval 30 days"), ("a", "'")))
    sink.side.arrange({TABLE: layout})
    (text,) = sink.side.undeclared({TABLE: lake_schema("id BIGINT", "region STRING")})
    assert text == (
        'CREATE TABLE "shop"."t" ("id" BIGINT, "region" STRING, PRIMARY KEY ("id")) PARTITIONED BY ("region") '
        "TBLPROPERTIES ('delta.logRetentionDuration' = 'interval 30 days', 'a' = '''')"
    )
    sink.side.declare({TABLE: lake_schema("id BIGINT", "region STRING")})
    found = sink.lake.table(*TABLE).metadata().configuration
    assert (found["delta.logRetentionDuration"], found["a"]) == ("interval 30 days", "'")

"""Delta tables with partitions: rows that move between them, values of all kinds, and partitions that others make."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from delta_lake import DeltaSinkSide
from deltalake import DeltaTable, write_deltalake
from lake_sink import lake_schema
from lake_values import VALUES
from moving_rows import KEYS, SCHEMA, TABLE, TEXTS, Moving, lay_out, partitioned

from ingest.model import types
from ingest.model.commit import RowsRefused
from ingest.model.schema import Column, TableSchema
from ingest.model.table import TableLayout, partition_keys
from ingest.sinks.delta.superseded import candidates
from ingest.sinks.delta.tables import text_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def made(folder: Path, keys: str, **more: Any) -> DeltaSinkSide:
    sink = DeltaSinkSide(folder, **more)
    lay_out(sink, keys)
    return sink


def added(sink: DeltaSinkSide) -> Iterator[dict[str, Any]]:
    """What the log says of files that were added."""
    log = sink.lake.folder / "shop" / "t" / "_delta_log"
    for path in sorted(log.glob("*.json")):
        yield from (one["add"] for one in map(json.loads, path.read_text().splitlines()) if "add" in one)


class Table(Moving):
    """A table whose rows move between its partitions."""

    sink: DeltaSinkSide

    def __init__(self, sink: DeltaSinkSide, keys: str) -> None:
        super().__init__(sink, empty=None if "region" in keys else "")

    def check(self) -> None:
        wanted = self.expected()
        assert self.sink.lake.ask("SELECT id, region, kind, ok FROM {} ORDER BY id", *TABLE) == wanted
        assert self.sink.lake.by_library(*TABLE, columns="id, region, kind, ok") == wanted
        for column in ("price", "at", "day", "size"):
            read = self.sink.lake.ask(f'SELECT id, CAST("{column}" AS STRING) FROM {{}}', *TABLE)
            given = {key: row[column] for key, row in self.rows.items()}
            assert {key: text is None for key, text in read} == {key: value is None for key, value in given.items()}


@pytest.mark.parametrize("keys", [
    "region", "ok", "kind", "day", "at", "seen", "price", "time", "id", "size", "region, day, ok", "price, region, at",
])  # fmt: skip
def test_rows_move_between_partitions(tmp_path: Path, keys: str) -> None:
    table = Table(made(tmp_path, keys, **{"sink.compaction.commit.interval": 4}), keys)
    table.change(5)
    table.sink.lake.table(*TABLE).create_checkpoint()
    table.change(6)
    table.check()
    names = keys.split(", ")
    assert table.sink.lake.table(*TABLE).metadata().partition_columns == names
    for one in added(table.sink):
        assert sorted(one["partitionValues"]) == sorted(names)
        assert "/" not in one["path"]
        path = tmp_path / "shop" / "t" / one["path"]
        assert not {*names} & set(pq.read_schema(path).names), "files lack the columns of partitions"
    told = [text for text in table.sink.warnings if "makes partitions and is a DECIMAL" in text]
    assert len(told) == ("price" in names)
    others = [text for text in table.sink.warnings if text not in told]
    assert len(others) == ("region" in names)
    assert all("empty texts are null there" in text for text in others)


@pytest.mark.parametrize("strategy", ["soft", "ignore", "append"])
def test_rows_of_other_strategies_move_too(tmp_path: Path, strategy: str) -> None:
    more = {"sink.write-mode": "append"} if strategy == "append" else {"sink.delete-strategy": strategy}
    sink = made(tmp_path, "region", **more, **{"sink.compaction.commit.interval": 3})
    rows = [(1, "eu"), (2, "us"), (1, "us"), (2, None), (3, None), (3, "eu")]
    for key, region in rows:
        sink.write(TABLE, SCHEMA, (f'{{"id":{key}}}', json.dumps({"id": key, "region": region})))
    sink.write(TABLE, SCHEMA, *((f'{{"id":{key}}}', None) for key in (1, 9)))
    columns = "id, region" if strategy == "ignore" else "id, region, _deleted"
    found = sorted(sink.lake.ask(f"SELECT {columns} FROM {{}}", *TABLE), key=repr)
    last: list[tuple[Any, ...]] = [(1, "us"), (2, None), (3, "eu")]
    if strategy == "soft":
        last = [(*one, one[0] == 1) for one in last]
    if strategy == "append":
        last = sorted([*((*one, False) for one in rows), (1, None, True), (9, None, True)], key=repr)
    assert found == last
    assert sorted(sink.lake.by_library(*TABLE, columns=columns), key=repr) == last


# -- values ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "value", "text"), [
    (pa.string(), "a/b", "a/b"), (pa.string(), "", None), (pa.string(), None, None), (pa.int32(), -7, "-7"),
    (pa.int64(), -(2**63), "-9223372036854775808"), (pa.int8(), 0, "0"), (pa.bool_(), False, "false"),
    (pa.date32(), date(1, 1, 1), "0001-01-01"), (pa.date32(), date(9999, 12, 31), "9999-12-31"),
    (pa.decimal128(9, 2), Decimal("-0.05"), "-0.05"), (pa.decimal128(9, 2), Decimal("1.00"), "1.00"),
    (pa.decimal128(38, 18), Decimal("0E-18"), "0.000000000000000000"),
    (pa.decimal128(38, 0), Decimal(10**37), "1" + "0" * 37),
    (pa.timestamp("us"), datetime.fromisoformat("2024-02-29 23:59:59.000001"), "2024-02-29 23:59:59.000001"),
    (pa.timestamp("us"), datetime.fromisoformat("0001-01-01"), "0001-01-01 00:00:00.000000"),
    (pa.timestamp("us", tz="UTC"), datetime(1969, 12, 31, 23, tzinfo=UTC), "1969-12-31T23:00:00.000000Z"),
    (pa.float64(), float("nan"), "NaN"), (pa.float64(), float("-inf"), "-Infinity"), (pa.float64(), -0.0, "-0.0"),
    (pa.float32(), 0.5, "0.5"), (pa.float64(), 1e300, "1e+300"),
])  # fmt: skip
def test_texts_of_values_are_those_of_the_protocol(kind: pa.DataType, value: Any, text: str | None) -> None:
    assert text_of(pa.scalar(value, kind)) == text


@pytest.mark.parametrize("kind", [one for one in VALUES if one != "BYTES"])
def test_values_of_each_type_make_partitions_and_come_back(tmp_path: Path, kind: str) -> None:
    """Each value is what it is in a column that makes no partitions, and rows are found again by it."""
    sink = DeltaSinkSide(tmp_path)
    columns = (
        Column("k", types.parse(kind), nullable=False),
        Column("same", types.parse(kind)),
        Column("n", types.INT),
    )
    schema = TableSchema(columns, ("k",))
    sink.side.arrange({TABLE: TableLayout(partition_keys("k"))})
    sink.side.declare({TABLE: schema})
    texts = [text for text in VALUES[kind] if text != '""']
    for number in range(3):
        rows = [(f'{{"k":{text}}}', f'{{"k":{text},"same":{text},"n":{number}}}') for text in texts]
        sink.write(TABLE, schema, *rows)
        if number:
            sink.lake.table(*TABLE).create_checkpoint()
    found = sink.lake.ask("SELECT k, same, n FROM {}", *TABLE)
    assert [n for _, _, n in found] == [2] * len(texts)
    for value, same, _ in found:
        assert repr(value) == repr(same), kind
    sink.write(TABLE, schema, *((f'{{"k":{text}}}', None) for text in texts[1:]))
    assert len(sink.lake.rows(*TABLE)) == 1


def test_hostile_texts_are_values_and_no_paths(tmp_path: Path) -> None:
    sink = DeltaSinkSide(tmp_path / "lake", **{"sink.compaction.commit.interval": 3})
    schema = partitioned(sink, "region", "id INT", "region STRING", "n INT")
    for n in range(5):
        rows = enumerate(TEXTS[n:] + TEXTS[:n])
        texts = [(f'{{"id":{at}}}', json.dumps({"id": at, "region": text, "n": n})) for at, text in rows]
        sink.write(TABLE, schema, *texts)
    wanted = [(at, text, 4) for at, text in enumerate(TEXTS[4:] + TEXTS[:4])]
    assert sink.lake.rows(*TABLE) == wanted
    assert sink.lake.by_library(*TABLE) == wanted
    assert sink.lake.table(*TABLE).to_pyarrow_table().num_rows == len(TEXTS)
    outside = [path for path in tmp_path.rglob("*.parquet") if path.parent != tmp_path / "lake" / "shop" / "t"]
    assert outside == []
    sink.lake.table(*TABLE).vacuum(0, dry_run=False, full=True, enforce_retention_duration=False)
    assert sink.lake.rows(*TABLE) == wanted


def test_an_empty_text_is_null_and_that_is_said_once(tmp_path: Path) -> None:
    sink = DeltaSinkSide(tmp_path)
    schema = partitioned(sink, "region", "id INT", "region STRING")
    for _ in range(2):
        sink.write(
            TABLE, schema, *((f'{{"id":{n}}}', f'{{"id":{n},"region":{text}}}') for n, text in ((1, '""'), (2, "null")))
        )
    assert sink.lake.rows(*TABLE) == sink.lake.by_library(*TABLE) == [(1, None), (2, None)]
    assert sink.warnings == [
        "table shop.t: 1 empty texts are null there, as the column makes partitions (column region; said once)"
    ]
    assert len(sink.lake.active(*TABLE)) == 1


@pytest.mark.parametrize("native", [True, False])
def test_an_empty_text_in_a_key_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, native: bool) -> None:
    if not native:
        monkeypatch.setattr("ingest.sinks.lake.rows.BUILT", False)
    sink = DeltaSinkSide(tmp_path)
    columns = (
        Column("id", types.INT, nullable=False),
        Column("region", types.STRING, nullable=False),
        Column("s", types.STRING),
    )
    schema = TableSchema(columns, ("id", "region"))
    sink.side.arrange({TABLE: TableLayout(partition_keys("region"))})
    sink.side.declare({TABLE: schema})
    good, bad = '{"id":1,"region":"eu"}', '{"id":2,"region":""}'
    with pytest.raises(RowsRefused, match="'region' of the key makes partitions") as refused:
        sink.write(TABLE, schema, (good, '{"id":1,"region":"eu","s":""}'), (bad, bad), (bad.replace("2", "3"), None))
    assert [(row.key, row.value) for row in refused.value.rows] == [
        (bad.encode(), bad.encode()), (bad.replace("2", "3").encode(), None),
    ]  # fmt: skip
    sink.write(TABLE, schema, (good, '{"id":1,"region":"eu","s":""}'))
    sink.write(TABLE, schema, (good, '{"id":1,"region":"eu","s":"x"}'))
    assert sink.lake.rows(*TABLE) == [(1, "eu", "x")]


# -- files -------------------------------------------------------------------------------------------------------------


def test_a_search_by_a_key_that_makes_partitions_opens_files_of_these_only(tmp_path: Path) -> None:
    sink = made(tmp_path, "id")
    sink.write(TABLE, SCHEMA, *((f'{{"id":{n}}}', f'{{"id":{n},"kind":0}}') for n in range(20)))
    table = sink.lake.table(*TABLE)
    (found,) = candidates(table, pa.table({"k0": pa.array([7, 99], pa.int64())}), ["id"])
    assert found.known["id"].as_py() == 7
    before = set(sink.lake.active(*TABLE))
    sink.write(TABLE, SCHEMA, ('{"id":7}', '{"id":7,"kind":1}'), ('{"id":8}', None))
    after = set(sink.lake.active(*TABLE))
    assert (len(before - after), len(after - before)) == (2, 1)


def test_a_compacted_table_has_a_file_for_each_partition(tmp_path: Path) -> None:
    table = Table(made(tmp_path, "region", **{"sink.compaction.commit.interval": 10}), "region")
    table.change(10)
    table.check()
    values = {row["region"] or None for row in table.rows.values()}
    assert len(table.sink.lake.active(*TABLE)) == len(values)
    before = set(table.sink.lake.active(*TABLE))
    for key in range(KEYS, KEYS + 9):  # the compaction was a version, too
        table.sink.write(TABLE, SCHEMA, (f'{{"id":{key}}}', f'{{"id":{key},"region":"new"}}'))
    after = set(table.sink.lake.active(*TABLE))
    assert before < after, "files that are alone in their partitions stay"
    assert len(after - before) == 1
    changes = [one["dataChange"] for one in added(table.sink) if one["path"] in after]
    assert changes == [False] * len(after)


def test_a_file_of_the_size_that_the_table_says_stays(tmp_path: Path) -> None:
    sink = DeltaSinkSide(tmp_path, **{"sink.compaction.commit.interval": 2})
    schema = lake_schema("id INT", "region STRING")
    layout = TableLayout(partition_keys("region"), (("delta.targetFileSize", "1"), ("owner", "me")))
    sink.side.arrange({TABLE: layout})
    sink.side.declare({TABLE: schema})
    for n in range(4):
        sink.write(TABLE, schema, (f'{{"id":{n}}}', f'{{"id":{n},"region":"eu"}}'))
    assert len(sink.lake.active(*TABLE)) == 4
    assert sink.lake.table(*TABLE).metadata().configuration["owner"] == "me"


def test_rows_of_nothing_but_partitions(tmp_path: Path) -> None:
    """A file without columns would not say how many rows it has."""
    sink = DeltaSinkSide(tmp_path)
    wide = partitioned(sink, "id, region", "id INT", "region STRING", "n INT")
    narrow = lake_schema("id INT", "region STRING")
    sink.side.declare({TABLE: narrow})
    sink.write(TABLE, narrow, *((f'{{"id":{n}}}', f'{{"id":{n},"region":"eu"}}') for n in range(3)))
    sink.write(TABLE, wide, ('{"id":1}', '{"id":1,"region":"us","n":5}'))
    assert sink.lake.rows(*TABLE) == sink.lake.by_library(*TABLE) == [(0, "eu", None), (1, "us", 5), (2, "eu", None)]


def test_a_batch_counts_once_and_after_another_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = DeltaSinkSide(tmp_path)
    schema = partitioned(sink, "region", "id INT", "region STRING")

    def row(key: int, region: str) -> tuple[str, str]:
        return f'{{"id":{key}}}', f'{{"id":{key},"region":"{region}"}}'

    sink.write(TABLE, schema, row(1, "eu"), row(2, "eu"))
    files = sink.files(TABLE, schema, (row(1, "us"), row(3, "us")), (row(2, "us"), row(3, "eu")))
    wrapped, calls = DeltaTable.create_write_transaction, iter(range(9))

    def late(*given: Any, **more: Any) -> Any:
        if not next(calls):
            other = pa.table({"id": pa.array([3], pa.int32()), "region": ["asia"]}, pa.schema([
                pa.field("id", pa.int32(), nullable=False), pa.field("region", pa.string()),
            ]))  # fmt: skip
            write_deltalake(sink.lake.warehouse.path(TABLE), other, mode="append")
        return wrapped(*given, **more)

    monkeypatch.setattr(DeltaTable, "create_write_transaction", late)
    for _ in range(3):
        sink.driver().add("checkpoint", 2, files)
    assert sink.lake.rows(*TABLE) == sink.lake.by_library(*TABLE) == [(1, "us"), (2, "us"), (3, "eu")]
    assert next(calls) == 2, "one that was late, and one that was not"

"""Which states of keys a table has: the last ones, those of deleted rows, or all."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest
from any_lake import lake_of
from lake_sink import LakeSink, lake_schema
from pydantic import ValidationError

from ingest.errors import SchemaChangeRefused
from ingest.model import types
from ingest.model.schema import Column, TableSchema
from ingest.model.table import TableLayout, partition_keys
from ingest.sinks.delta.options import DeltaSink
from ingest.sinks.iceberg.options import IcebergSink

if TYPE_CHECKING:
    from pathlib import Path

    from any_lake import AnyLakeSink

TABLE = ("shop", "t")
SCHEMA = lake_schema("id BIGINT", "n INT", "text STRING")


@pytest.fixture(params=["native", "reference"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read rows by native code, and by the reference."""
    if request.param == "reference":
        monkeypatch.setattr("ingest.sinks.lake.rows.BUILT", False)


def row(key: int, n: int) -> tuple[str, str]:
    return f'{{"id":{key}}}', f'{{"id":{key},"n":{n},"text":"row {key}"}}'


def gone(key: int) -> tuple[str, None]:
    return f'{{"id":{key}}}', None


def made(kind: str, folder: Path, **more: Any) -> AnyLakeSink:
    sink = lake_of(kind, folder, **more)
    sink.side.declare({TABLE: SCHEMA})
    return sink


def rows_of(sink: AnyLakeSink, columns: str = "id, n, text, _deleted") -> list[tuple[Any, ...]]:
    return sink.lake.ask(f"SELECT {columns} FROM {{}} ORDER BY id", *TABLE)


def test_a_deleted_row_stays_with_its_last_values(tmp_path: Path, kind: str) -> None:
    sink = made(kind, tmp_path, **{"sink.delete-strategy": "soft"})
    sink.write(TABLE, SCHEMA, row(1, 1), row(2, 1), row(3, 1))
    sink.write(TABLE, SCHEMA, gone(1), row(2, 2), gone(2), gone(9), row(4, 1), gone(4), row(4, 2))
    assert rows_of(sink) == [
        (1, 1, "row 1", True), (2, 2, "row 2", True), (3, 1, "row 3", False), (4, 2, "row 4", False),
    ]  # fmt: skip
    sink.write(TABLE, SCHEMA, row(1, 5), gone(2), gone(3))
    assert rows_of(sink) == [
        (1, 5, "row 1", False), (2, 2, "row 2", True), (3, 1, "row 3", True), (4, 2, "row 4", False),
    ]  # fmt: skip


def test_of_the_files_of_a_batch_the_newest_row_stays(tmp_path: Path, kind: str) -> None:
    sink = made(kind, tmp_path, **{"sink.delete-strategy": "soft"})
    sink.write(TABLE, SCHEMA, row(1, 1), row(2, 1), row(3, 1))
    sink.write_flushes(
        TABLE, SCHEMA, (row(1, 2), row(2, 2), gone(3)), (gone(1), row(2, 3)), (gone(2), row(3, 9)),
    )  # fmt: skip
    assert rows_of(sink) == [(1, 2, "row 1", True), (2, 3, "row 2", True), (3, 9, "row 3", False)]
    assert sink.lake.ask("SELECT count(*) FROM {}", *TABLE) == [(3,)]


@pytest.mark.parametrize("more", [{}, {"sink.sequence-by": "n"}])
def test_a_deleted_row_moves_to_the_partition_of_deleted_ones(tmp_path: Path, kind: str, more: dict[str, str]) -> None:
    sink = lake_of(kind, tmp_path, **{"sink.delete-strategy": "soft", **more})
    sink.side.arrange({TABLE: TableLayout(partition_keys("_deleted"))})
    sink.side.declare({TABLE: SCHEMA})
    sink.write(TABLE, SCHEMA, row(1, 1), row(2, 1), row(3, 1))
    sink.write_flushes(TABLE, SCHEMA, (gone(1), row(4, 1), row(5, 1)), (gone(4), row(6, 1), gone(6)))
    assert rows_of(sink, "id, _deleted") == [(1, True), (2, False), (3, False), (4, True), (5, False), (6, True)]
    sink.write(TABLE, SCHEMA, row(1, 2), gone(2))
    assert rows_of(sink, "id, n, _deleted")[:3] == [(1, 2, False), (2, 1, True), (3, 1, False)]


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize("strategy", ["hard", "soft", "ignore"])
def test_batches_of_random_changes(tmp_path: Path, kind: str, strategy: str) -> None:
    sink = made(kind, tmp_path, **{"sink.delete-strategy": strategy, "sink.compaction.commit.interval": 5})
    pick = random.Random(strategy)
    wanted: dict[int, tuple[int, bool]] = {}
    for batch in range(14):
        changes: list[tuple[str, str | None]] = []
        for number in range(pick.randrange(30)):
            key, n = pick.randrange(12), batch * 100 + number
            if pick.random() < 0.4:
                changes.append(gone(key))
                if key in wanted and strategy == "soft":
                    wanted[key] = (wanted[key][0], True)
                elif strategy == "hard":
                    wanted.pop(key, None)
            else:
                changes.append(row(key, n))
                wanted[key] = (n, False)
        sink.write(TABLE, SCHEMA, *changes)
    found = rows_of(sink, "id, n" + (", _deleted" if strategy == "soft" else ""))
    assert found == [
        (key, n, deleted) if strategy == "soft" else (key, n) for key, (n, deleted) in sorted(wanted.items())
    ]  # fmt: skip


def test_rows_of_a_key_of_two_columns_stay(tmp_path: Path, kind: str) -> None:
    sink = lake_of(kind, tmp_path, **{"sink.delete-strategy": "soft"})
    columns = (Column("a", types.STRING, nullable=False), Column("b", types.INT, nullable=False))
    schema = TableSchema((*columns, Column("n", types.INT)), ("a", "b"))
    sink.side.declare({TABLE: schema})
    keys = [f'{{"a":"{a}","b":{b}}}' for a in "xyz" for b in range(20)]
    sink.write(TABLE, schema, *((key, f'{key[:-1]},"n":{at}}}') for at, key in enumerate(keys)))
    sink.write(TABLE, schema, *((key, None) for key in keys[::-3]), (keys[0], f'{keys[0][:-1]},"n":99}}'))
    found = sink.lake.ask("SELECT a, b, n, _deleted FROM {} ORDER BY a, b", *TABLE)
    gone = set(range(60)[::-3])
    assert found == [
        ("xyz"[at // 20], at % 20, at or 99, at in gone and at > 0) for at in range(60)
    ]  # fmt: skip


def test_of_rows_that_a_table_has_twice_one_stays(tmp_path: Path, kind: str) -> None:
    sink = made(kind, tmp_path, **{"sink.write-mode": "append"})
    sink.write(TABLE, SCHEMA, row(1, 1), row(2, 1), row(1, 2), row(2, 2), row(1, 3))
    later = lake_of(kind, tmp_path, **{"sink.delete-strategy": "soft"})
    later.batch = 1
    later.write(TABLE, SCHEMA, gone(1), row(2, 3))
    assert rows_of(later) == [(1, 3, "row 1", True), (2, 3, "row 2", False)]


@pytest.mark.usefixtures("reader")
def test_a_table_that_has_all_states(tmp_path: Path, kind: str) -> None:
    sink = made(kind, tmp_path, **{"sink.write-mode": "append"})
    sink.write(TABLE, SCHEMA, row(1, 1), row(1, 2), gone(1), gone(7))
    sink.write(TABLE, SCHEMA, row(1, 3), (row(1, 4)[0], '{"text":"a\\u00e9","n":4}'), row(2, 1), row(1, 5))
    found = sink.lake.ask("SELECT id, n, _deleted FROM {} ORDER BY id, n NULLS LAST", *TABLE)
    assert found == [
        (1, 1, False), (1, 2, False), (1, 3, False), (1, 4, False), (1, 5, False), (1, None, True),
        (2, 1, False), (7, None, True),
    ]  # fmt: skip
    if isinstance(sink, LakeSink):
        assert sink.lake.table(*TABLE).metadata.schema().identifier_field_ids == []
        assert {one.summary.operation.value for one in sink.lake.table(*TABLE).metadata.snapshots if one.summary} == {
            "append"
        }


def test_all_states_but_deletes(tmp_path: Path, kind: str) -> None:
    sink = made(kind, tmp_path, **{"sink.write-mode": "append", "sink.delete-strategy": "ignore"})
    sink.write(TABLE, SCHEMA, row(1, 1), row(1, 2), gone(1), gone(7))
    sink.write(TABLE, SCHEMA, gone(1))
    assert rows_of(sink, "id, n, text") == [(1, 1, "row 1"), (1, 2, "row 1")]


@pytest.mark.usefixtures("reader")
def test_a_table_without_a_key(tmp_path: Path, kind: str) -> None:
    sink = lake_of(kind, tmp_path, **{"sink.write-mode": "append", "sink.delete-strategy": "ignore"})
    schema = lake_schema("n INT", key="")
    keyless = type(schema)(schema.columns, ())
    sink.side.declare({TABLE: keyless})
    sink.write(TABLE, keyless, *(("{}", json.dumps({"n": n})) for n in (1, 1, 2)))
    assert sink.lake.ask("SELECT n FROM {} ORDER BY n", *TABLE) == [(1,), (1,), (2,)]


def test_a_table_that_is_there_gets_the_column(tmp_path: Path, kind: str) -> None:
    sink = made(kind, tmp_path)
    sink.write(TABLE, SCHEMA, row(1, 1), row(2, 1))
    later = lake_of(kind, tmp_path, **{"sink.delete-strategy": "soft", "sink.delete-column": "is_gone"})
    later.batch = 1
    later.side.declare({TABLE: SCHEMA})
    later.write(TABLE, SCHEMA, gone(1), row(3, 1))
    assert rows_of(later, "id, n, is_gone") == [(1, 1, True), (2, 1, None), (3, 1, False)]
    other = lake_of(kind, tmp_path, **{"sink.delete-strategy": "soft", "sink.delete-column": "text"})
    with pytest.raises(SchemaChangeRefused, match="says of no row that it is deleted"):
        other.side.declare({TABLE: lake_schema("id BIGINT", "n INT")})


@pytest.mark.parametrize("sink", [IcebergSink, DeltaSink])
def test_options_that_do_not_go_together(sink: type[IcebergSink | DeltaSink]) -> None:
    place = {"type": "iceberg", "catalog.properties.warehouse": "lake"}
    options = {
        **(place if sink is IcebergSink else {"type": "delta", "warehouse": "lake"}),
        "sink.write-mode": "append",
    }
    for more in ({"sink.delete-strategy": "hard"}, {"sink.delete-strategy": "ignore", "sink.delete-column": "d"}):
        with pytest.raises(ValidationError):
            sink.model_validate({**options, **more})
    assert sink.model_validate({**options, "sink.delete-column": "d"}).deleted == "d"

"""A column that says which of two changes is the newer one, in Delta tables that others change, too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from delta_lake import DeltaSinkSide
from deltalake import DeltaTable, write_deltalake
from lake_sink import lake_schema
from ordered_rows import TABLE

from ingest.errors import ConfigError, SchemaChangeRefused
from ingest.model.table import TableLayout, partition_keys

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = lake_schema("id BIGINT", "v BIGINT", "n INT")
OPTIONS = {"sink.sequence-by": "v", "sink.delete-strategy": "soft"}


def row(key: int, version: int, n: int) -> tuple[str, str]:
    return f'{{"id":{key}}}', f'{{"id":{key},"v":{version},"n":{n}}}'


def of_others(*rows: tuple[int, int, int], v: pa.DataType | None = None) -> pa.Table:
    fields = [
        pa.field("id", pa.int64(), nullable=False), pa.field("v", v or pa.int64()), pa.field("n", pa.int32()),
        pa.field("_deleted", pa.bool_()),
    ]  # fmt: skip
    columns = [*zip(*rows, strict=True), [False] * len(rows)]
    return pa.table(
        [pa.array(one).cast(f.type) for one, f in zip(columns, fields, strict=True)], schema=pa.schema(fields)
    )


@pytest.fixture(params=["", "v", "id"])
def ordered(request: pytest.FixtureRequest, tmp_path: Path) -> DeltaSinkSide:
    """A sink with a table, without partitions and with those by a column."""
    sink = DeltaSinkSide(tmp_path, **OPTIONS)
    sink.side.arrange({TABLE: TableLayout(partition_keys(request.param))})
    sink.side.declare({TABLE: SCHEMA})
    sink.write(TABLE, SCHEMA, row(1, 5, 0), row(2, 5, 0), row(3, 5, 0))
    return sink


def rows_of(sink: DeltaSinkSide) -> list[tuple[Any, ...]]:
    return sink.lake.rows(*TABLE, columns="id, v, n, _deleted")


def test_files_of_rows_that_stay_are_not_written_anew(ordered: DeltaSinkSide) -> None:
    before = set(ordered.lake.active(*TABLE))
    found = ordered.write_flushes(TABLE, SCHEMA, (row(1, 4, 1), row(2, 3, 1)), (row(2, 4, 2), row(9, 1, 1)))
    assert found == {"older-than-its-row": 3}
    assert before < set(ordered.lake.active(*TABLE))
    assert rows_of(ordered) == [(1, 5, 0, False), (2, 5, 0, False), (3, 5, 0, False), (9, 1, 1, False)]


def test_a_newer_row_of_another_writer_in_between_stays(
    ordered: DeltaSinkSide, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left out is counted by the commit that succeeds, once."""
    files = ordered.files(TABLE, SCHEMA, (row(1, 6, 1), row(2, 6, 1), ('{"id":3}', None)))
    wrapped, calls = DeltaTable.create_write_transaction, iter(range(9))

    def late(*given: Any, **more: Any) -> Any:
        if not next(calls):
            write_deltalake(ordered.lake.warehouse.path(TABLE), of_others((1, 7, 9), (3, 6, 9)), mode="append")
        return wrapped(*given, **more)

    monkeypatch.setattr(DeltaTable, "create_write_transaction", late)
    assert ordered.side.add("checkpoint", 2, files) == {"older-than-its-row": 1}
    assert ordered.driver().add("checkpoint", 2, files) == {}
    assert rows_of(ordered) == [(1, 7, 9, False), (2, 6, 1, False), (3, 6, 9, True)]


def test_a_column_that_is_gone_stops_the_run(tmp_path: Path) -> None:
    sink = DeltaSinkSide(tmp_path, **OPTIONS)
    sink.side.declare({TABLE: SCHEMA})
    sink.write(TABLE, SCHEMA, row(1, 5, 0))
    files = sink.files(TABLE, SCHEMA, (row(1, 6, 1),))
    rows = of_others((1, 5, 0), (2, 5, 0)).drop_columns(["v"])
    write_deltalake(sink.lake.warehouse.path(TABLE), rows, mode="overwrite", schema_mode="overwrite")
    with pytest.raises(SchemaChangeRefused, match="'v', which says which change is newer, is gone"):
        sink.side.add("checkpoint", 2, files)
    with pytest.raises(ConfigError, match="removed or renamed its column 'v': run again"):
        sink.files(TABLE, SCHEMA, (row(1, 6, 1),))
    sink.side.declare({TABLE: SCHEMA})
    sink.side.add("checkpoint", 2, files)
    assert rows_of(sink) == [(1, 6, 1, False), (2, None, 0, False)]


def test_a_column_of_deletes_that_is_gone_stops_the_run(tmp_path: Path) -> None:
    sink = DeltaSinkSide(tmp_path, **{"sink.delete-strategy": "soft"})
    sink.side.declare({TABLE: SCHEMA})
    rows = of_others((1, 5, 0)).drop_columns(["_deleted"])
    write_deltalake(sink.lake.warehouse.path(TABLE), rows, mode="overwrite", schema_mode="overwrite")
    with pytest.raises(ConfigError, match="removed or renamed its column '_deleted': run again"):
        sink.files(TABLE, SCHEMA, (row(1, 6, 1),))


def test_it_is_the_column_that_is_there_which_compares(tmp_path: Path) -> None:
    """Texts are compared as texts, also where rows have numbers."""
    sink = DeltaSinkSide(tmp_path, **OPTIONS)
    (tmp_path / "shop").mkdir()
    write_deltalake(sink.lake.warehouse.path(TABLE), of_others((1, 9, 0), (2, 10, 0), v=pa.string()))
    sink.side.declare({TABLE: SCHEMA})
    assert sink.write_flushes(TABLE, SCHEMA, (row(1, 10, 1), row(2, 9, 1))) == {"older-than-its-row": 1}
    assert rows_of(sink) == [(1, "9", 0, False), (2, "9", 1, False)]


def test_files_that_wait_while_the_column_becomes_wider(tmp_path: Path) -> None:
    sink = DeltaSinkSide(tmp_path, **OPTIONS)
    sink.side.declare({TABLE: SCHEMA})
    sink.write(TABLE, SCHEMA, row(1, 5, 0), row(2, 5, 0))
    files = sink.files(TABLE, SCHEMA, (row(1, 4, 1), row(2, 6, 1), ('{"id":1}', None)))
    sink.side.declare({TABLE: lake_schema("id BIGINT", "v DOUBLE", "n INT")})
    assert sink.side.add("checkpoint", 2, files) == {"older-than-its-row": 1}
    assert rows_of(sink) == [(1, 5.0, 0, True), (2, 6.0, 1, False)]

"""Changes that come out of order: a column says which of two is the newer one."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from any_lake import KINDS as LAKES
from any_lake import lake_of, place_of
from lake_sink import lake_schema
from ordered_rows import KINDS, TABLE, Ordered
from pydantic import ValidationError

from ingest.encode.upsert_encoder import Record
from ingest.errors import SchemaChangeRefused
from ingest.sinks.delta.options import DeltaSink
from ingest.sinks.iceberg.options import IcebergSink


@pytest.fixture(params=LAKES)
def lake(request: pytest.FixtureRequest) -> str:
    """The kind of the lake."""
    return str(request.param)


@pytest.mark.parametrize(("lake", "keys"), [
    ("iceberg", ""), ("iceberg", "bucket(3, id)"), ("iceberg", "n"), ("delta", ""), ("delta", "id"), ("delta", "n"),
    ("delta", "v"),
])  # fmt: skip
@pytest.mark.parametrize("strategy", ["soft", "ignore"])
def test_batches_of_random_versions(tmp_path: Path, lake: str, strategy: str, keys: str) -> None:
    table = Ordered(lake, tmp_path, strategy, keys=keys, every=4)
    pick = random.Random(f"{strategy}{keys}")
    number = 0
    for _ in range(12):
        files: list[list[tuple[str, str | None]]] = []
        for _ in range(pick.randrange(1, 4)):
            changes: list[tuple[str, str | None]] = []
            for _ in range(pick.randrange(12)):
                number += 1
                key, version = pick.randrange(8), pick.choice([None, *range(30)])
                changes.append(
                    table.gone(key)
                    if pick.random() < 0.25
                    else table.row(key, version, number % 3 if keys == "n" else number)
                )
            files.append(changes)
        table.write(*files)
        table.check()


@pytest.mark.parametrize("kind", [*KINDS])
def test_versions_of_each_type(tmp_path: Path, lake: str, kind: str) -> None:
    table = Ordered(lake, tmp_path, "soft", kind)
    table.write([table.row(1, 5, 1), table.row(2, 5, 1), table.row(3, None, 1)])
    table.write([table.row(1, 4, 2), table.row(2, 5, 2), table.row(3, 0, 2)])
    table.check()
    assert table.rows == {1: (5, 1, False), 2: (5, 2, False), 3: (0, 2, False)}
    assert table.told == table.older == 1


def test_an_older_change_does_not_bring_a_deleted_row_back(tmp_path: Path, lake: str) -> None:
    table = Ordered(lake, tmp_path, "soft")
    table.write([table.row(1, 5, 1), table.row(2, 5, 1), table.row(3, 5, 1)])
    table.write([table.gone(1), table.row(1, 4, 2), table.gone(2), table.row(2, 6, 2)], [table.gone(3)])
    table.check()
    assert table.rows == {1: (5, 1, True), 2: (6, 2, False), 3: (5, 1, True)}
    table.write([table.row(1, 3, 9)], [table.row(3, 5, 3)])
    table.check()
    assert table.rows[1] == (5, 1, True)
    assert table.rows[3] == (5, 3, False)


def test_what_is_left_out_within_a_file_is_counted_by_the_task(tmp_path: Path, lake: str) -> None:
    table = Ordered(lake, tmp_path, "soft")
    writer = table.sink.options.writer("p", 1)
    to: Any = table.sink.options.table_for(TABLE, table.schema)
    rows = [table.row(1, 5, 1), table.row(1, 4, 2), table.row(1, 6, 3), table.row(1, 5, 4)]
    writer.write([Record(to, key.encode(), text.encode()) for key, text in rows])
    writer.commit({("t", 0): 4}, b"", final=True)
    assert writer.left_out() == {"older-than-its-row": 2}
    assert writer.left_out() == {}
    writer.close()


def test_a_table_without_the_column_has_the_usual_order(tmp_path: Path, lake: str) -> None:
    sink = lake_of(lake, tmp_path, **{"sink.sequence-by": "v", "sink.delete-strategy": "ignore"})
    schema = lake_schema("id BIGINT", "n INT")
    sink.side.declare({TABLE: schema})
    sink.side.declare({TABLE: schema})
    sink.write(TABLE, schema, ('{"id":1}', '{"id":1,"n":2}'), ('{"id":1}', '{"id":1,"n":1}'))
    assert sink.lake.ask("SELECT n FROM {}", *TABLE) == [(1,)]
    (warning,) = sink.warnings
    assert "has no column 'v' (sink.sequence-by)" in warning
    later = lake_schema("id BIGINT", "n INT", "v INT")
    sink.side.declare({TABLE: later})
    sink.write(TABLE, later, ('{"id":1}', '{"id":1,"n":5,"v":3}'))
    sink.write(TABLE, later, ('{"id":1}', '{"id":1,"n":6,"v":2}'))
    assert sink.lake.ask("SELECT n FROM {}", *TABLE) == [(5,)]


def test_columns_and_options_of_no_order(tmp_path: Path, lake: str) -> None:
    sink = lake_of(lake, tmp_path, **{"sink.sequence-by": "v", "sink.delete-strategy": "ignore"})
    for kind in ("BOOLEAN", "BYTES", "ARRAY<INT>", "MAP<STRING, INT>", "ROW<a INT>", "DECIMAL(50,2)"):
        with pytest.raises(SchemaChangeRefused, match="by which no change is newer"):
            sink.side.declare({TABLE: lake_schema("id BIGINT", f"v {kind}")})
    place = place_of(lake, Path("x"))
    options: type[Any] = IcebergSink if lake == "iceberg" else DeltaSink
    for more in ({}, {"sink.delete-strategy": "hard"}, {"sink.write-mode": "append"}):
        with pytest.raises(ValidationError):
            options.model_validate({**place, "sink.sequence-by": "v", **more})
    assert options.model_validate({**place, "sink.sequence-by": "v", "sink.delete-strategy": "soft"}).sequence_by == "v"


def test_of_rows_that_a_key_has_several_times_the_newest_is_marked(tmp_path: Path, lake: str) -> None:
    appending = lake_of(lake, tmp_path, **{"sink.write-mode": "append"})
    schema = lake_schema("id BIGINT", "v BIGINT", "n INT")
    appending.side.declare({TABLE: schema})
    appending.write(TABLE, schema, *(('{"id":1}', f'{{"id":1,"v":{v},"n":{v}}}') for v in (1, 3, 2)))
    table = Ordered(lake, tmp_path, "soft")
    table.sink.batch = 1
    table.write([table.gone(1)])
    assert table.sink.lake.ask("SELECT n, _deleted FROM {}", *TABLE) == [(3, True)]

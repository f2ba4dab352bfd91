"""Changes that come out of order: a column says which of two is the newer one."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest
from lake_sink import LakeSink, lake_schema
from pydantic import ValidationError

from ingest.errors import ConfigError, SchemaChangeRefused
from ingest.model.layout import TableLayout, partition_keys
from ingest.sinks.iceberg import IcebergSink

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TABLE = ("shop", "t")
KINDS: dict[str, Callable[[int], object]] = {
    "BIGINT": lambda n: n,
    "STRING": lambda n: f"{n:04}",
    "DECIMAL(9,2)": lambda n: f"{n}.50",
    "TIMESTAMP": lambda n: f"2024-01-01 00:{n:02}:00",
    "DOUBLE": lambda n: n / 4,
}


class Ordered:
    """A table, and what a fold of its changes has made of each key: version, value, whether it is deleted."""

    def __init__(self, folder: Path, strategy: str, kind: str = "BIGINT", keys: str = "", every: int = 50) -> None:
        options = {"sink.sequence-by": "v", "sink.delete-strategy": strategy}
        self.sink = LakeSink(folder, **options, **{"sink.compaction.commit.interval": every})
        self.schema = lake_schema("id BIGINT", f"v {kind}", "n INT")
        self.sink.side.arrange({TABLE: TableLayout(partition_keys(keys))})
        self.sink.side.declare({TABLE: self.schema})
        self.soft, self._spelt = strategy == "soft", KINDS[kind]
        self.rows: dict[int, tuple[int, int, bool]] = {}
        self.older = self.told = 0

    def row(self, key: int, version: int | None, n: int) -> tuple[str, str]:
        """A change, which is folded into what should be there."""
        known = self.rows.get(key)
        if known is None or (-1 if version is None else version) >= known[0]:
            self.rows[key] = (-1 if version is None else version, n, False)
        else:
            self.older += 1
        value = None if version is None else self._spelt(version)
        return f'{{"id":{key}}}', json.dumps({"id": key, "v": value, "n": n})

    def gone(self, key: int) -> tuple[str, None]:
        if key in self.rows and self.soft:
            self.rows[key] = (*self.rows[key][:2], True)
        return f'{{"id":{key}}}', None

    def write(self, *files: list[tuple[str, str | None]]) -> None:
        """Write a batch of some files, one after the other."""
        self.sink.batch += 1
        added = [one for some in files for one in self.sink.files(TABLE, self.schema, *some)]
        self.told += sum(self.sink.side.add("checkpoint", self.sink.batch, added).values())

    def check(self) -> None:
        flag = ", coalesce(_deleted, false)" if self.soft else ", false"
        found = self.sink.lake.ask(f"SELECT id, n{flag} FROM {{}} ORDER BY id", *TABLE)  # noqa: S608
        assert found == [(key, n, deleted) for key, (_, n, deleted) in sorted(self.rows.items())]
        assert self.sink.lake.table(*TABLE).scan().to_arrow().num_rows == len(self.rows)


@pytest.mark.parametrize("keys", ["", "bucket(3, id)", "n"])
@pytest.mark.parametrize("strategy", ["soft", "ignore"])
def test_batches_of_random_versions(tmp_path: Path, strategy: str, keys: str) -> None:
    table = Ordered(tmp_path, strategy, keys=keys, every=4)
    pick = random.Random(f"{strategy}{keys}")  # noqa: S311
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
def test_versions_of_each_type(tmp_path: Path, kind: str) -> None:
    table = Ordered(tmp_path, "soft", kind)
    table.write([table.row(1, 5, 1), table.row(2, 5, 1), table.row(3, None, 1)])
    table.write([table.row(1, 4, 2), table.row(2, 5, 2), table.row(3, 0, 2)])
    table.check()
    assert table.rows == {1: (5, 1, False), 2: (5, 2, False), 3: (0, 2, False)}
    assert table.told == table.older == 1


def test_an_older_change_does_not_bring_a_deleted_row_back(tmp_path: Path) -> None:
    table = Ordered(tmp_path, "soft")
    table.write([table.row(1, 5, 1), table.row(2, 5, 1), table.row(3, 5, 1)])
    table.write([table.gone(1), table.row(1, 4, 2), table.gone(2), table.row(2, 6, 2)], [table.gone(3)])
    table.check()
    assert table.rows == {1: (5, 1, True), 2: (6, 2, False), 3: (5, 1, True)}
    table.write([table.row(1, 3, 9)], [table.row(3, 5, 3)])
    table.check()
    assert table.rows[1] == (5, 1, True)
    assert table.rows[3] == (5, 3, False)


def test_what_is_left_out_within_a_file_is_counted_by_the_task(tmp_path: Path) -> None:
    table = Ordered(tmp_path, "soft")
    writer = table.sink.options.writer("p", 1)
    to: Any = table.sink.options.table_for(TABLE, table.schema)
    rows = [table.row(1, 5, 1), table.row(1, 4, 2), table.row(1, 6, 3), table.row(1, 5, 4)]
    writer.write([(to, key.encode(), text.encode()) for key, text in rows])
    writer.commit({("t", 0): 4}, b"", final=True)
    assert writer.left_out() == {"older-than-its-row": 2}
    assert writer.left_out() == {}
    writer.close()


def test_a_table_without_the_column_has_the_usual_order(tmp_path: Path) -> None:
    sink = LakeSink(tmp_path, **{"sink.sequence-by": "v", "sink.delete-strategy": "ignore"})
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


def test_columns_and_options_of_no_order(tmp_path: Path) -> None:
    sink = LakeSink(tmp_path, **{"sink.sequence-by": "v", "sink.delete-strategy": "ignore"})
    for kind in ("BOOLEAN", "BYTES", "ARRAY<INT>", "MAP<STRING, INT>", "ROW<a INT>", "DECIMAL(50,2)"):
        with pytest.raises(SchemaChangeRefused, match="by which no change is newer"):
            sink.side.declare({TABLE: lake_schema("id BIGINT", f"v {kind}")})
    options = {"type": "iceberg", "catalog.properties.warehouse": "lake", "sink.sequence-by": "v"}
    for more in ({}, {"sink.delete-strategy": "hard"}, {"sink.write-mode": "append"}):
        with pytest.raises(ValidationError):
            IcebergSink.model_validate({**options, **more})


def test_a_column_that_was_renamed_says_nothing_any_more(tmp_path: Path) -> None:
    table = Ordered(tmp_path, "soft")
    table.write([table.row(1, 5, 1), table.row(2, 5, 1)])
    with table.sink.lake.table(*TABLE).update_schema() as update:
        update.rename_column("v", "was_v")
    with pytest.raises(ConfigError, match="somebody has removed or renamed its column 'v': run again"):
        table.write([table.gone(1)])
    table.sink.side.declare({TABLE: table.schema})
    table.rows = {1: (-1, 1, True), 2: (-1, 1, False)}
    table.sink.batch -= 1
    table.write([table.gone(1), table.row(2, 3, 2)])
    table.check()


def test_of_rows_that_a_key_has_several_times_the_newest_is_marked(tmp_path: Path) -> None:
    appending = LakeSink(tmp_path, **{"sink.write-mode": "append"})
    schema = lake_schema("id BIGINT", "v BIGINT", "n INT")
    appending.side.declare({TABLE: schema})
    appending.write(TABLE, schema, *(('{"id":1}', f'{{"id":1,"v":{v},"n":{v}}}') for v in (1, 3, 2)))
    table = Ordered(tmp_path, "soft")
    table.sink.batch = 1
    table.write([table.gone(1)])
    assert table.sink.lake.ask("SELECT n, _deleted FROM {}", *TABLE) == [(3, True)]

"""Changes that come out of order, and the rows that a lake's table should have of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from any_lake import lake_of
from lake_sink import lake_schema

from ingest.model.table import TableLayout, partition_keys

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

    def __init__(
        self, lake: str, folder: Path, strategy: str, kind: str = "BIGINT", keys: str = "", every: int = 50
    ) -> None:
        """`keys`: of partitions; `every`: versions between two compactions."""
        options = {"sink.sequence-by": "v", "sink.delete-strategy": strategy}
        self.sink = lake_of(lake, folder, **options, **{"sink.compaction.commit.interval": every})
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
        self.told += sum(self.sink.write_flushes(TABLE, self.schema, *map(tuple, files)).values())

    def check(self) -> None:
        flag = ", coalesce(_deleted, false)" if self.soft else ", false"
        found = self.sink.lake.ask(f"SELECT id, n{flag} FROM {{}} ORDER BY id", *TABLE)
        assert found == [(key, n, deleted) for key, (_, n, deleted) in sorted(self.rows.items())]

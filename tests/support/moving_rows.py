"""Rows that move between the partitions of a lake's table, and what the table should have."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

from lake_sink import lake_schema

from ingest.model.table import TableLayout, partition_keys

if TYPE_CHECKING:
    from any_lake import AnyLakeSink

    from ingest.model.schema import TableSchema

TABLE = ("shop", "t")
SCHEMA = lake_schema(
    "id BIGINT", "region STRING", "at TIMESTAMP", "day DATE", "price DECIMAL(9,2)", "kind INT", "ok BOOLEAN",
    "seen TIMESTAMP_LTZ", "raw BYTES", "time TIME(6)", "size DOUBLE",
)  # fmt: skip
KEYS = 60
TEXTS = [
    "../../x", "/etc/x", "a/b=%2F%41", "new\nline\x01", "\u00e9\u4e2d\U0001f600", ".", "..", " ", "q'\"\\`{}*?#",
    "x" * 5000, "__HIVE_DEFAULT_PARTITION__", "null", "NULL",
]  # fmt: skip
"""Values of partitions that are no names of folders."""


def lay_out(sink: AnyLakeSink, keys: str) -> None:
    """Make the table with partitions."""
    sink.side.arrange({TABLE: TableLayout(partition_keys(keys))})
    sink.side.declare({TABLE: SCHEMA})


def partitioned(sink: AnyLakeSink, keys: str, *columns: str, key: str = "id") -> TableSchema:
    """Make the table with partitions and other columns; return its schema."""
    schema = lake_schema(*columns, key=key)
    sink.side.arrange({TABLE: TableLayout(partition_keys(keys))})
    sink.side.declare({TABLE: schema})
    return schema


class Moving:
    """Random changes of rows, and the rows that there should be after them."""

    def __init__(self, sink: AnyLakeSink, empty: str | None = "") -> None:
        """`empty`: what an empty text is in the table, in the column `region`."""
        self.sink, self._empty = sink, empty
        self.rows: dict[int, dict[str, Any]] = {}
        self._random = random.Random(3)

    def change(self, batches: int) -> None:
        for _ in range(batches):
            texts = []
            for key in self._random.sample(range(KEYS), 12):
                row = None if self._random.random() < 0.2 else self._row(key)
                texts.append((f'{{"id":{key}}}', None if row is None else json.dumps(row)))
                self.rows.pop(key, None)
                if row is not None:
                    self.rows[key] = row
            self.sink.write(TABLE, SCHEMA, *texts)

    def _row(self, key: int) -> dict[str, Any]:
        pick = self._random
        return {
            "id": key,
            "region": pick.choice(["eu", "us", "", "a/b=%2F", "../../x", "\n\u00e9 %41", None]),
            "at": pick.choice(["2024-02-29 23:59:59.999999", "1969-12-31 23:00:00", None]),
            "day": pick.choice(["2024-02-29", "1960-01-01", None]),
            "price": pick.choice(["1.25", "-4.56", "-0.05", None]),
            "kind": pick.choice([1, -7, 2**31 - 1, None]),
            "ok": pick.choice([True, False, None]),
            "seen": pick.choice(["2024-02-29 23:59:59.5Z", "1969-12-31 23:00:00Z", None]),
            "raw": pick.choice(["AP8=", "", None]),
            "time": pick.choice(["12:13:14.5", "00:00:00", None]),
            "size": pick.choice([0.1, -0.0, 0.0, 1e300, None]),
        }

    def expected(self) -> list[tuple[Any, ...]]:
        """Rows of the columns `id`, `region`, `kind` and `ok`, in the order of their keys."""
        found = sorted(self.rows.items())
        return [
            (key, self._empty if row["region"] == "" else row["region"], row["kind"], row["ok"]) for key, row in found
        ]

"""Pipelines from a file to tables of a lake."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Protocol

from commands import ran_here
from harness import INGEST, Background, finished

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from harness import Result
    from shared_java import SharedJava

MOMENTS = [
    "after-plan:1", "before-decide:1", "after-decide:1", "before-add:2", "after-add:1", "after-add:2",
    "before-done:2", "before-store:1", "after-store:1",
]  # fmt: skip
"""Points of a run at which a driver dies."""


class AnyLake(Protocol):
    """A warehouse, as another engine reads it."""

    def rows(self, *name: str, columns: str = "*") -> list[tuple[Any, ...]]:
        """The rows in the order of their keys."""


def change(op: str, before: Any, after: Any, table: str) -> str:
    """A change as Debezium tells it, under its key."""
    row = before if after is None else after
    value = {"op": op, "before": before, "after": after, "source": {"db": "shop", "table": table}}
    return json.dumps({"key": {"id": row["id"]}, "value": value}) + "\n"


class LakePipeline:
    """A pipeline from a file to tables of a lake."""

    def __init__(self, folder: Path, java: SharedJava, lake: AnyLake, sink: Mapping[str, str]) -> None:
        """`sink`: its options."""
        self._folder, self._java, self.lake = folder, java, lake
        self.lines = folder / "in.jsonl"
        self.file = folder / "pipeline.yaml"
        self.file.write_text(
            f"pipeline: {{name: p}}\nsource:\n  type: file\n  path: {self.lines}\n  file.envelope: true\n"
            "  value.format: debezium-json\n  scan.max.pre.fetch.records: 0\n"
            "sink:\n" + "".join(f"  {name}: {json.dumps(value)}\n" for name, value in sink.items())
        )

    def add(self, op: str, before: Any, after: Any, table: str = "orders") -> None:
        with self.lines.open("a") as file:
            file.write(change(op, before, after, table))

    def backfill(self, table: str) -> Result:
        """Read a table once more."""
        command = [INGEST, "backfill", str(self.file), "--table", table, "--checkpoint", str(self._folder / "c")]
        return finished(command, self._java, self._folder, cwd=self._folder)

    def run(self) -> Result:
        """Run to the end, in this process."""
        return ran_here(str(self.file), "--checkpoint", str(self._folder / "c"))

    def run_on_spark(self, *more: str, fault: str = "") -> Result:
        """Run to the end as a job of Spark, whose driver may die."""
        command = [INGEST, "run", str(self.file), "--once", "--checkpoint", str(self._folder / "c"), *more]
        return finished(command, self._java, self._folder, fault=fault)

    def begin(self) -> Background:
        """Run in the background, without an end."""
        command = [INGEST, "run", str(self.file), "--checkpoint", str(self._folder / "c")]
        return self._java.beside(lambda env: Background(command, env, self._folder))

    def rows(self, table: str = "orders", columns: str = "*") -> list[tuple[Any, ...]]:
        return self.lake.rows("shop", table, columns=columns)

    def grow(self) -> None:
        """Rows that come while tables grow."""
        self.add("c", None, {"id": 1, "name": "Ada", "n": 1})
        self.add("c", None, {"id": 2, "name": "Grace \\ \n", "n": 2})
        self.add("u", {"id": 2}, {"id": 3, "name": "Grace", "n": 3})
        first = self.run()
        assert first.code == 0, first.err
        assert self.rows() == [(1, "Ada", 1), (3, "Grace", 3)]
        self.add("c", None, {"id": 4, "name": None, "n": 4.5, "more": {"a": [1]}})
        self.add("d", {"id": 1, "name": "Ada", "n": 1}, None)
        self.add("c", None, {"id": 30_000_000_000, "name": 5, "n": "text"})
        second = self.run()
        assert second.code == 0, second.err
        assert self.rows() == [
            (3, "Grace", "3", None), (4, None, "4.5", '{"a":[1]}'), (30_000_000_000, "5", "text", None),
        ]  # fmt: skip
        assert self.run().code == 0
        assert len(self.rows()) == 3

    def die_and_go_on(self, fault: str) -> None:
        """A driver that dies loses nothing and doubles nothing."""
        for number in range(500):
            more = {"late": 1} if number >= 250 else {}
            self.add("c", None, {"id": number % 100, "n": number, **more}, "orders")
            self.add("c", None, {"id": number, "n": number}, "items")
            if number % 10 == 9:
                self.add("d", {"id": number - 1, "n": number - 1}, None, "items")
        died = self.run_on_spark(fault=fault)
        assert died.code == -9, died.err
        ran = self.run()
        assert ran.code == 0, ran.err
        assert self.rows(columns="id, n, late") == [(key, 400 + key, 1) for key in range(100)]
        assert self.rows("items") == [(number, number) for number in range(500) if number % 10 != 8]
        assert self.run().code == 0
        assert len(self.rows()) == 100

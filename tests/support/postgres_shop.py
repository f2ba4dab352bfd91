"""A pipeline from a file of changes into a real PostgreSQL."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from commands import ran_here
from examples import own_name
from harness import INGEST, Background, finished

if TYPE_CHECKING:
    from pathlib import Path

    from harness import Result
    from postgres import Database
    from shared_java import SharedJava


def change(op: str, before: Any, after: Any, table: str) -> str:
    """A change as Debezium tells it, under its key."""
    row = before if after is None else after
    value = {"op": op, "before": before, "after": after, "source": {"db": "shop", "table": table}}
    return json.dumps({"key": {"id": row["id"]}, "value": value}) + "\n"


class Shop:
    """A pipeline from a file to the database."""

    def __init__(self, folder: Path, postgres: Database, java: SharedJava) -> None:
        self.folder, self.java = folder, java
        self.table = own_name("t")
        self.postgres = postgres
        self.lines = folder / "in.jsonl"
        self.file = folder / "pipeline.yaml"
        self.write()

    def write(self, source: str = "", rest: str = "", **sink: Any) -> None:
        """Write the pipeline file; each part is more lines of its section."""
        self.file.write_text(
            f"source:\n  type: file\n  path: {self.lines}\n  file.envelope: true\n  value.format: debezium-json\n"
            f"  scan.max.pre.fetch.records: 0\n{source}{self.postgres.sink(**sink)}"
            f"pipeline:\n  name: {self.table}\n{rest}"
        )

    def add(self, op: str, before: Any, after: Any) -> None:
        with self.lines.open("a") as file:
            file.write(change(op, before, after, self.table))

    def run(self) -> Result:
        """Run to the end, in this process."""
        return ran_here(str(self.file), "--checkpoint", str(self.folder / "c"))

    def run_on_spark(self, *more: str, fault: str = "") -> Result:
        """Run to the end as a job of Spark, whose driver may die."""
        command = [INGEST, "run", str(self.file), "--once", "--checkpoint", str(self.folder / "c"), *more]
        return finished(command, self.java, self.folder, fault=fault)

    def begin(self, *more: str) -> Background:
        """Run in the background, without an end."""
        command = [INGEST, "run", str(self.file), "--checkpoint", str(self.folder / "c"), *more]
        return self.java.beside(lambda env: Background(command, env, self.folder))

    def rows(self, columns: str = "*") -> list[tuple[Any, ...]]:
        return self.postgres.rows(f"shop.{self.table}", columns)

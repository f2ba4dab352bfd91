"""Pipelines from a MySQL server, each from a database of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from commands import run_here
from harness import INGEST, finished

if TYPE_CHECKING:
    from pathlib import Path

    from harness import Result
    from mysql_servers import MySql
    from shared_java import SharedJava


class MySqlPipeline:
    """A pipeline from a database of a test's own."""

    def __init__(self, folder: Path, server: MySql, java: SharedJava, database: str) -> None:
        self.folder, self.server, self.java, self.database = folder, server, java, database
        self.file, self.checkpoint = folder / "p.yaml", folder / "c"
        server.execute(f"DROP DATABASE IF EXISTS {database}", f"CREATE DATABASE {database}")

    def write(self, sink: str, rest: str = "", **source: Any) -> None:
        options = {"tables": rf"{self.database}.\.*", **source}
        self.file.write_text(self.server.source(**options) + f"sink: {sink}\n{rest}")

    def command(self, *more: str) -> list[str]:
        return [INGEST, "run", str(self.file), "--checkpoint", str(self.checkpoint), "--master", "local[2]", *more]

    def run(self, *more: str, code: int = 0) -> Result:
        ran = finished(self.command("--once", *more), self.java, self.folder)
        assert ran.code == code, ran.err
        return ran

    def run_here(self, code: int = 0) -> Result:
        """Run to the end in this process."""
        ran = run_here(self)
        assert ran.code == code, ran.err
        return ran

    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        return self.server.execute(*statements, database=self.database)

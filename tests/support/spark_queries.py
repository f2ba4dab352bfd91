"""Spark SQL as a reader of lakes: a Spark of another version than the one that is installed, in one process.

The runtimes of Iceberg and Delta are made for one version of Spark, and neither is there for the one that pyspark
brings. So all jars come from Maven Central as the broker's do; `spark-jars.lock` pins them.
"""

from __future__ import annotations

import json
import subprocess
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ingest.paths import java
from ingest.sandbox import jars

if TYPE_CHECKING:
    from collections.abc import Iterator

    from any_lake import AnyLakeSink

_LOCK: Final = Path(__file__).with_name("spark-jars.lock")
_CODE: Final = Path(__file__).with_name("SparkQueries.java")
_OPENED: Final = (
    "java.lang", "java.lang.invoke", "java.net", "java.nio", "java.util", "java.util.concurrent", "sun.nio.ch",
    "sun.security.action", "sun.util.calendar",
)  # fmt: skip
"""Packages of Java that Spark looks into."""
_SETTINGS: Final = {
    "spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "1", "spark.sql.session.timeZone": "UTC",
    "spark.sql.jsonGenerator.ignoreNullFields": "false", "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.extensions": (
        "io.delta.sql.DeltaSparkSessionExtension,"
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
    ),
}  # fmt: skip


class SparkQueries:
    """The process."""

    def __init__(self, folder: Path) -> None:
        """`folder`: for what Spark writes."""
        found = jars.pinned(jars.pins(_LOCK.read_text(encoding="utf-8")), "spark-for-tests", "the jars of Spark")
        self._log = folder / "spark.log"
        self.lakes = {"iceberg": folder / "iceberg", "delta": folder / "delta"}
        """Warehouses that queries can read, by the sink. Iceberg's is the catalog `default`, as it is in pyiceberg: the
        name is in the catalog's keys."""
        catalog = {
            "": "org.apache.iceberg.spark.SparkCatalog", ".type": "jdbc", ".warehouse": self.lakes["iceberg"].as_uri(),
            ".uri": f"jdbc:sqlite:{self.lakes['iceberg'] / 'catalog.db'}", ".cache-enabled": "false",
        }  # fmt: skip
        command = [
            java(), "-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
            *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
            "-cp", f"{found}/*", str(_CODE), *(f"{name}={value}" for name, value in _SETTINGS.items()),
            *(f"spark.sql.catalog.default{name}={value}" for name, value in catalog.items()),
            f"spark.sql.warehouse.dir={folder}", f"spark.local.dir={folder}",
        ]  # fmt: skip
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, cwd=folder
            )

    def close(self) -> None:
        """End it."""
        self._process.communicate(timeout=60)

    def ask(self, query: str) -> list[dict[str, Any]]:
        """Return the rows that Spark answers, as its JSON has them."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(" ".join(query.split()) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"Spark has ended: {self._log.read_text()[-3000:]}"
        answer = json.loads(line)
        assert isinstance(answer, list), answer
        return answer

    def table(self, sink: AnyLakeSink, *name: str) -> str:
        """Return what a table of a sink is in queries: by the catalog for Iceberg, by its folder for Delta."""
        assert sink.lake.folder in self.lakes.values(), "Spark knows no other warehouse"
        if sink.options.type == "delta":
            return f"delta.`{sink.lake.folder.joinpath(*name)}`"
        return ".".join(["default", *(f"`{part}`" for part in name)])


def running(folder: Path) -> Iterator[SparkQueries]:
    """Yield the process, and end it then."""
    with closing(SparkQueries(folder)) as process:
        yield process

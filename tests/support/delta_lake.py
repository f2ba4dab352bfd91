"""Delta tables as another engine reads them: DuckDB, of which nothing is our own; and the sink without a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import duckdb_extension_delta
import orjson
import pyarrow as pa
from deltalake import QueryBuilder
from lake_sink import SPLIT

from ingest.encode.upsert_encoder import Record
from ingest.model.commit import CommitScope
from ingest.sinks.delta.options import DeltaSink
from ingest.sinks.delta.warehouse import DeltaWarehouse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from deltalake import DeltaTable

    from ingest.model.schema import TableSchema
    from ingest.sinks.delta.coordinator import DeltaCoordinator


def other_rows(*rows: tuple[int, int]) -> pa.Table:
    """Rows of a table with the columns `id BIGINT` and `n INT`, as another writer has them."""
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("n", pa.int32())])
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), schema, strict=True)],
        schema=schema,
    )


class DeltaLake:
    """A warehouse in a directory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.warehouse = DeltaWarehouse(str(folder), {})
        self._duck: duckdb.DuckDBPyConnection | None = None

    def table(self, *name: str) -> DeltaTable:
        return self.warehouse.load(name)

    def types(self, *name: str) -> dict[str, str]:
        """The types of columns, as Delta names them."""
        return {one.name: getattr(one.type, "type", "nested") for one in self.table(*name).schema().fields}

    def active(self, *name: str) -> list[str]:
        """Paths of the files that the table has now."""
        return list(map(str, pa.table(self.table(*name).get_add_actions()).column("path").to_pylist()))

    def ask(self, query: str, *name: str) -> list[tuple[Any, ...]]:
        """What DuckDB answers; `{}` in the query is the table."""
        if self._duck is None:
            self._duck = duckdb.connect(config={"allow_unsigned_extensions": "true"})
            (extension,) = Path(str(duckdb_extension_delta.__file__)).parent.rglob("*.duckdb_extension")
            self._duck.execute(f"LOAD '{extension}'")
            self._duck.execute("SET TimeZone = 'UTC'")
        place = self.warehouse.path(name).replace("'", "''")
        return self._duck.execute(query.format(f"delta_scan('{place}')")).fetchall()

    def by_library(self, *name: str, columns: str = "*") -> list[tuple[Any, ...]]:
        """The rows in the order of their keys, as the library's own engine reads them."""
        session = QueryBuilder().register("t", self.table(*name))
        found = session.execute(f"SELECT {columns} FROM t ORDER BY 1")
        return [tuple(row.values()) for row in pa.table(found).to_pylist()]

    def rows(self, *name: str, columns: str = "*") -> list[tuple[Any, ...]]:
        """The rows in the order of their keys."""
        return self.ask(f"SELECT {columns} FROM {{}} ORDER BY 1", *name)


class DeltaSinkSide:
    """The sink, and what it has written."""

    def __init__(self, folder: Path | str, **more: Any) -> None:
        """`folder`: of the tables; the URL of one is for what fails."""
        self.options = DeltaSink.model_validate({"type": "delta", "warehouse": str(folder), **more})
        self.lake = DeltaLake(Path(folder))
        self.warnings: list[str] = []
        self.side = self.driver()
        self.batch = 0

    def driver(self) -> DeltaCoordinator:
        """A driver's side of its own."""
        found = self.options.coordinator("p", self.warnings.append)
        found.connect()
        return found

    def files(
        self, table: tuple[str, ...], schema: TableSchema, *flushes: tuple[tuple[str, str | None], ...]
    ) -> list[Any]:
        """Write rows into files, as a task does, a file for each flush; returns what the driver adds to tables."""
        writer = self.options.writer("p", 1)
        writer.begin(CommitScope("checkpoint", 1, 1, 1, 0, {SPLIT: 0}, kept=False))
        to: Any = self.options.table_for(table, schema)
        for rows in flushes:
            writer.write([Record(to, key.encode(), None if row is None else row.encode()) for key, row in rows])
            writer.commit({SPLIT: len(rows)}, b"", final=True)
        additions = self.side.additions(writer.delivered())
        return [] if additions is None else orjson.loads(orjson.dumps(additions))

    def write(self, table: tuple[str, ...], schema: TableSchema, *rows: tuple[str, str | None]) -> None:
        """Write a batch of rows."""
        self.write_flushes(table, schema, rows)

    def write_flushes(
        self, table: tuple[str, ...], schema: TableSchema, *flushes: tuple[tuple[str, str | None], ...]
    ) -> Mapping[str, int]:
        """Write a batch of rows, of which each flush has files of its own; returns what was left out."""
        self.batch += 1
        return self.side.add("checkpoint", self.batch, self.files(table, schema, *flushes))

"""Delta tables as another engine reads them: DuckDB, of which nothing is our own; and the sink without a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import duckdb_extension_delta
import pyarrow as pa
from deltalake import QueryBuilder
from lake_sink import LakeSide

from ingest.sinks.delta.options import DeltaSink
from ingest.sinks.delta.warehouse import DeltaWarehouse

if TYPE_CHECKING:
    from deltalake import DeltaTable


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


class DeltaSinkSide(LakeSide[DeltaSink, DeltaLake]):
    """The sink, and what it has written."""

    def __init__(self, folder: Path | str, **more: Any) -> None:
        """`folder`: of the tables; the URL of one is for what fails."""
        options = DeltaSink.model_validate({"type": "delta", "warehouse": str(folder), **more})
        super().__init__(options, DeltaLake(Path(folder)))

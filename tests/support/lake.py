"""Tables of a lake as another engine reads them: DuckDB, of which nothing is our own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import duckdb_extension_avro
import duckdb_extension_iceberg
from pyiceberg.catalog import load_catalog

from ingest.sinks.iceberg.warehouse import with_defaults

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table


def duck() -> duckdb.DuckDBPyConnection:
    """A session of DuckDB that reads Iceberg."""
    session = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for module in (duckdb_extension_avro, duckdb_extension_iceberg):
        (extension,) = Path(str(module.__file__)).parent.rglob("*.duckdb_extension")
        session.execute(f"LOAD '{extension}'")
    session.execute("SET TimeZone = 'UTC'")
    return session


class Lake:
    """A warehouse in a directory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._duck: duckdb.DuckDBPyConnection | None = None

    @property
    def catalog(self) -> Catalog:
        return load_catalog("default", **with_defaults({"warehouse": str(self.folder)}))

    def table(self, *name: str) -> Table:
        return self.catalog.load_table(name)

    def ask(self, query: str, *name: str) -> list[tuple[Any, ...]]:
        """What DuckDB answers; `{}` in the query is the table, which is read by its folder."""
        self._duck = self._duck or duck()
        place = self.table(*name).location().replace("'", "''")
        return self._duck.execute(query.format(f"iceberg_scan('{place}')")).fetchall()

    def rows(self, *name: str, columns: str = "*") -> list[tuple[Any, ...]]:
        """The rows in the order of their keys."""
        return self.ask(f"SELECT {columns} FROM {{}} ORDER BY 1", *name)

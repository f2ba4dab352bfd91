"""The sink `iceberg` on a warehouse in a directory, without a run: a driver's side and tasks of one checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
from lake import Lake

from ingest.encode.upsert_encoder import Record
from ingest.errors import IngestError
from ingest.model import types
from ingest.model.commit import CommitScope
from ingest.model.schema import Column, TableSchema
from ingest.sinks.iceberg.options import IcebergSink

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ingest.sinks.iceberg.coordinator import IcebergCoordinator

SPLIT = ("t", 0)


def lake_schema(*columns: str, key: str = "id") -> TableSchema:
    """A table of columns, each with its type after a space."""
    made = [one.partition(" ") for one in columns]
    return TableSchema(tuple(Column(name, types.parse(kind), nullable=name != key) for name, _, kind in made), (key,))


class LakeSink:
    """The sink, and what it has written."""

    def __init__(self, folder: Path, **more: Any) -> None:
        given = {"type": "iceberg", "catalog.properties.warehouse": str(folder), **more}
        self.options = IcebergSink.model_validate(given)
        self.lake = Lake(folder)
        self.warnings: list[str] = []
        self.side = self.driver()
        self.batch = 0

    def driver(self) -> IcebergCoordinator:
        """A driver's side of its own."""
        found = self.options.coordinator("p", self.warnings.append)
        try:
            found.connect()
        except IngestError:
            found.close()
            raise
        return found

    def files(self, table: tuple[str, ...], schema: TableSchema, *rows: tuple[str, str | None]) -> list[Any]:
        """Write rows into files, as a task does; returns what the driver adds to tables."""
        writer = self.options.writer("p", 1)
        writer.begin(CommitScope("checkpoint", 1, 1, 1, 0, {SPLIT: 0}, kept=False))
        to: Any = self.options.table_for(table, schema)
        writer.write([Record(to, key.encode(), None if row is None else row.encode()) for key, row in rows])
        writer.commit({SPLIT: len(rows)}, b"", final=True)
        additions = self.side.additions(writer.delivered())
        writer.close()
        return [] if additions is None else orjson.loads(orjson.dumps(additions))

    def write(self, table: tuple[str, ...], schema: TableSchema, *rows: tuple[str, str | None]) -> None:
        """Write a batch of rows."""
        self.write_flushes(table, schema, rows)

    def write_flushes(
        self, table: tuple[str, ...], schema: TableSchema, *flushes: tuple[tuple[str, str | None], ...]
    ) -> Mapping[str, int]:
        """Write a batch of rows, of which each flush has files of its own; returns what was left out."""
        self.batch += 1
        files = [one for rows in flushes for one in self.files(table, schema, *rows)]
        return self.side.add("checkpoint", self.batch, files)

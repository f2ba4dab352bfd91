"""The sinks of lakes without a run, a driver's side and tasks of one checkpoint; and that of Iceberg in a directory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

import orjson
from lake import Lake

from ingest.encode.upsert_encoder import Record
from ingest.errors import IngestError
from ingest.model import types
from ingest.model.commit import CommitScope
from ingest.model.schema import Column, TableSchema
from ingest.sinks.delta.options import DeltaSink
from ingest.sinks.iceberg.options import IcebergSink

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ingest.sinks.lake.coordinator import LakeCoordinator

SPLIT = ("t", 0)
LakeT = TypeVar("LakeT")
OptionsT = TypeVar("OptionsT", IcebergSink, DeltaSink)


def lake_schema(*columns: str, key: str = "id") -> TableSchema:
    """A table of columns, each with its type after a space."""
    made = [one.partition(" ") for one in columns]
    return TableSchema(tuple(Column(name, types.parse(kind), nullable=name != key) for name, _, kind in made), (key,))


class LakeSide(Generic[OptionsT, LakeT]):
    """The sink, and what it has written."""

    def __init__(self, options: OptionsT, lake: LakeT) -> None:
        self.options: OptionsT = options
        self.lake = lake
        self.warnings: list[str] = []
        self.side = self.driver()
        self.batch = 0

    def driver(self) -> LakeCoordinator[Any]:
        """A driver's side of its own."""
        side: LakeCoordinator[Any] = self.options.coordinator("p", self.warnings.append)
        try:
            side.connect()
        except IngestError:
            side.close()
            raise
        return side

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
        return self.side.add("checkpoint", self.batch, self.files(table, schema, *flushes))


class LakeSink(LakeSide[IcebergSink, Lake]):
    """The sink `iceberg`, and what it has written."""

    def __init__(self, folder: Path, **more: Any) -> None:
        options = {"type": "iceberg", "catalog.properties.warehouse": str(folder), **more}
        super().__init__(IcebergSink.model_validate(options), Lake(folder))

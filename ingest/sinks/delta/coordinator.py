"""The driver's side of the sink `delta`: it makes and widens tables, and adds the files of batches to them.

Rules: docs/spec/delta.md.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError

from ingest.errors import SchemaChangeRefused
from ingest.model.table import show
from ingest.model.types import DecimalType
from ingest.sinks.delta.commit import add_files, has_older_progress
from ingest.sinks.delta.history import SeenTables, taken_away
from ingest.sinks.delta.tables import PROPERTIES, changes, existing_columns, has_beyond, partition_columns, schema_of
from ingest.sinks.delta.upkeep import ALONE, change, compact, vacuum
from ingest.sinks.delta.writer import DeltaFiles
from ingest.sinks.lake.changes import Changes, ExistingColumn, LakeChangeError
from ingest.sinks.lake.coordinator import LakeCoordinator, check_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from ingest.model.schema import TableComments
    from ingest.sinks.delta.options import DeltaSink
    from ingest.sinks.delta.warehouse import DeltaWarehouse
    from ingest.sinks.lake.files import AddedFile, Committed, Mark, TakenAway
    from ingest.sinks.lake.table import LakeTable, TableName


class DeltaCoordinator(LakeCoordinator[DeltaTable]):
    """The driver's side. Raises IngestError only."""

    kind = "delta"
    _options: DeltaSink
    _warehouse: DeltaWarehouse

    def __init__(self, options: DeltaSink, pipeline: str, warn: Callable[[str], None]) -> None:
        super().__init__(options, pipeline, warn)
        self._seen = SeenTables()

    def connect(self) -> str:
        """Return the warehouse's name; raises Unavailable where its storage does not answer. Makes nothing."""
        folder = self._warehouse.folder
        if folder is not None and not _has_writable_table(folder):
            check_folder(folder, "warehouse")
        if self._warehouse.is_new:
            return self._warehouse.name
        with self._warehouse.asking("look for tables"):
            self._warehouse.find(("default", "ingest"))
        return self._warehouse.name

    def _has_rows(self, existing: DeltaTable) -> bool:
        return len(pa.table(existing.get_add_actions())) > 0

    def _find(self, name: TableName) -> DeltaTable | None:
        existing = self._warehouse.find(name)
        if existing is None:
            self._seen.missing(name)
            return None
        return self._seen.checked(name, existing)

    def _load(self, name: TableName) -> DeltaTable:
        return self._compare(name, self._seen.checked(name, self._warehouse.load(name)))

    def _changed(self, name: TableName, existing: DeltaTable) -> None:
        self._seen.checked(name, existing)

    def _make(self, wanted: LakeTable) -> DeltaTable:
        partitions, properties = partition_columns(wanted), {**PROPERTIES, **dict(wanted.layout.options)}
        try:
            table = DeltaTable.create(
                self._warehouse.path(wanted.id),
                schema_of(wanted),
                name=wanted.name,
                partition_by=partitions,
                configuration=properties,
                storage_options=self._warehouse.options,
                raise_if_key_not_exists=False,
            )
        except DeltaError:
            other = self._warehouse.find(wanted.id)
            if other is None:
                raise
            table = other
        if risky := [
            one.name for one in wanted.columns if one.name in partitions and isinstance(one.type, DecimalType)
        ]:
            self._warn(
                f"table {wanted}: its column {risky[0]} makes partitions and is a DECIMAL: let no deltalake write to it"
                " or compact it, which has wrong texts for negative ones, and nobody could read the table then"
            )
        return table

    def _mark(self, name: TableName, _there: DeltaTable, batch: int) -> Mark:
        return self._seen.mark(name, batch)

    def _taken_away(self, name: TableName, existing: DeltaTable, mark: Mark) -> TakenAway | None:
        return taken_away(existing, mark, self._checkpoint, lambda version: self._warehouse.load_version(name, version))

    def _older_progress(self, existing: DeltaTable) -> str | None:
        return "" if has_older_progress(existing, self._checkpoint, self._pipeline) else None

    def _changes(self, wanted: LakeTable, existing: DeltaTable) -> Changes:
        return changes(wanted, existing)

    def _columns(self, existing: DeltaTable) -> Mapping[str, ExistingColumn]:
        return existing_columns(existing)

    def _has_beyond(self, existing: DeltaTable, name: str) -> bool:
        return has_beyond(existing, name)

    def _apply(self, existing: DeltaTable, wanted: LakeTable, found: Changes) -> None:
        change(existing, self._warehouse.files(wanted.id), found, wanted.key)

    def _comment(self, existing: DeltaTable, comments: TableComments) -> None:
        known = {one.name: one.metadata.get("comment", "") for one in existing.schema().fields}
        for name, text in comments.columns.items():
            if known[name] != text:
                existing.alter.set_column_metadata(name, {"comment": text}, commit_properties=ALONE)
        if comments.table is not None and (existing.metadata().description or "") != comments.table:
            existing.alter.set_table_description(comments.table, commit_properties=ALONE)

    def _commit(self, name: TableName, files: list[AddedFile], scope: str, batch: int) -> Committed:
        interval = self._options.compaction_interval if self._options.compaction else None
        try:
            place = self._warehouse.files(name)
            done = add_files(lambda: self._load(name), place, files, scope, batch, interval, self._pipeline)
        except LakeChangeError as exc:
            msg = f"the table {show(name)} cannot take rows any more: {exc}"
            raise SchemaChangeRefused(msg, "change it there; nothing is lost") from None
        self._seen.committed(name, done.state)
        return done

    def _compact(self, name: TableName) -> str:
        with suppress(CommitFailedError):  # another writer was faster: the next time
            compact(self._warehouse.load(name), self._warehouse.files(name))
        vacuum(self._warehouse.load(name))
        return ""

    def _files(self) -> DeltaFiles:
        return DeltaFiles(self._warehouse)

    def _read(self, name: TableName, columns: Sequence[str]) -> pa.Table:
        return self._load(name).to_pyarrow_dataset().to_table(columns=list(columns))


def _has_writable_table(folder: Path) -> bool:
    """Return whether a directory has a table that can be written to: then nobody needs to make one there."""
    logs = (log for pattern in ("*/*/_delta_log", "*/_delta_log") for log in folder.glob(pattern))
    return any(os.access(log, os.W_OK | os.X_OK) for log in logs)

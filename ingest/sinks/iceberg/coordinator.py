"""The driver's side of the sink `iceberg`: it makes and widens tables, and adds the files of batches to them.

Rules: docs/spec/iceberg.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyiceberg.exceptions import NoSuchNamespaceError, TableAlreadyExistsError
from pyiceberg.table import Table

from ingest.errors import ConfigError
from ingest.model.text import one_line
from ingest.sinks.iceberg.commit import add_files
from ingest.sinks.iceberg.files import has_beyond
from ingest.sinks.iceberg.history import mark_of, older_progress, taken_away
from ingest.sinks.iceberg.tables import PROPERTIES, changes, existing_columns, iceberg_type, schema_of, spec_of
from ingest.sinks.iceberg.upkeep import compact, expire, is_due, rewrite
from ingest.sinks.iceberg.writer import IcebergFiles
from ingest.sinks.lake.coordinator import LakeCoordinator, check_folder
from ingest.sinks.lake.table import LakeTable, TableName, folder_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from ingest.model.schema import TableComments
    from ingest.sinks.iceberg.options import IcebergSink
    from ingest.sinks.iceberg.warehouse import IcebergWarehouse
    from ingest.sinks.lake.changes import Changes, ExistingColumn
    from ingest.sinks.lake.files import AddedFile, Committed, Mark, TakenAway


class IcebergCoordinator(LakeCoordinator[Table]):
    """The driver's side. Raises IngestError only."""

    kind = "iceberg"
    _options: IcebergSink
    _warehouse: IcebergWarehouse

    def connect(self) -> str:
        """Return the warehouse's name; raises Unavailable where the catalog does not answer. Makes nothing."""
        folder = self._warehouse.own
        if folder is not None:  # also of a catalog that is there: each commit writes to it
            check_folder(folder, "catalog.properties.warehouse")
            if self._warehouse.is_new:
                return str(folder)
        with self._warehouse.asking("list namespaces") as catalog:
            try:
                catalog.list_namespaces()
            except NoSuchNamespaceError as exc:  # of a catalog with several warehouses
                msg = f"the catalog has no warehouse {self._warehouse.name}: {one_line(str(exc))[:500]}"
                raise ConfigError(msg, "see catalog.properties.warehouse") from exc
            return self._warehouse.name if folder is None else str(folder)

    def _has_rows(self, existing: Table) -> bool:
        return existing.scan().count() > 0

    def _make(self, wanted: LakeTable) -> Table | None:
        catalog = self._warehouse.catalog
        for parts in range(1, len(wanted.namespace) + 1):
            catalog.create_namespace_if_not_exists(wanted.namespace[:parts])
        warehouse = catalog.properties.get("warehouse", "")
        # A catalog in a database leaves it to us where tables are, and its library makes paths of names as they are
        own = type(catalog).__name__ == "SqlCatalog" and warehouse
        location = f"{warehouse.rstrip('/')}/{folder_of(wanted.id)}" if own else None
        try:
            schema, properties = schema_of(wanted), {**PROPERTIES, **dict(wanted.layout.options)}
            return catalog.create_table(wanted.id, schema, location, spec_of(wanted, schema), properties=properties)
        except TableAlreadyExistsError:
            return None

    def _changed(self, _name: TableName, existing: Table) -> None:
        self._warehouse.hint(existing)

    def _mark(self, _name: TableName, existing: Table, batch: int) -> Mark:
        return mark_of(existing.metadata, batch)

    def _taken_away(self, _name: TableName, existing: Table, mark: Mark) -> TakenAway | None:
        return taken_away(existing.metadata, mark, self._checkpoint)

    def _older_progress(self, existing: Table) -> str | None:
        return older_progress(existing.metadata, self._checkpoint, self._pipeline)

    def _changes(self, wanted: LakeTable, existing: Table) -> Changes:
        return changes(wanted, existing.metadata)

    def _columns(self, existing: Table) -> Mapping[str, ExistingColumn]:
        return existing_columns(existing.metadata)

    def _has_beyond(self, existing: Table, name: str) -> bool:
        return has_beyond(existing, name)

    def _apply(self, existing: Table, wanted: LakeTable, change: Changes) -> None:
        if change.rewritten:
            rewrite(existing, change, wanted.key)
        else:
            with existing.update_schema() as update:
                for name, kind in change.added.items():
                    update.add_column((name,), iceberg_type(kind))
                for name, kind in change.widened.items():
                    update.update_column((name,), iceberg_type(kind))

    def _comment(self, existing: Table, comments: TableComments) -> None:
        known = {one.name: one.doc or "" for one in existing.schema().fields}
        changed = {name: text for name, text in comments.columns.items() if known[name] != text}
        if changed:
            with existing.update_schema() as update:
                for name, text in changed.items():
                    update.update_column((name,), doc=text)
        if comments.table is not None and existing.properties.get("comment", "") != comments.table:
            with existing.transaction() as transaction:
                transaction.set_properties({"comment": comments.table})

    def add(self, scope: str, batch: int, additions: list[Any]) -> Mapping[str, int]:
        """Commit a batch's files to their tables, where that is not done yet. Raise IngestError."""
        with self._warehouse.asking("open the catalog"):
            return super().add(scope, batch, additions)

    def _commit(self, name: TableName, files: list[AddedFile], scope: str, batch: int) -> Committed:
        done = add_files(lambda: self._load(name), files, scope, batch, self._pipeline)
        self._warehouse.hint(done.state)
        return done._replace(due=self._options.compaction and is_due(done.state, self._options.compaction_interval))

    def _compact(self, name: TableName) -> str:
        compact(self._warehouse.load(name))
        expired = expire(self._warehouse.load(name))
        return "" if expired else "it has branches or tags, so its old snapshots are not removed"

    def _files(self) -> IcebergFiles:
        return IcebergFiles(self._warehouse)

    def _read(self, name: TableName, columns: Sequence[str]) -> pa.Table:
        return self._warehouse.load(name).scan(selected_fields=tuple(columns)).to_arrow()

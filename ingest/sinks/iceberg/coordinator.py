"""The driver's side of the sink `iceberg`: it makes and widens tables, and adds the files of batches to them.

Rules: docs/spec/iceberg.md.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.table import Table

from ingest.errors import ConfigError, IngestError
from ingest.model.probe import ConnectProbe
from ingest.model.table import show
from ingest.model.text import one_line
from ingest.sinks.iceberg.commit import add_files
from ingest.sinks.iceberg.files import IcebergFiles
from ingest.sinks.iceberg.line import mark_of, older_progress, taken_away
from ingest.sinks.iceberg.partitions import spec_of
from ingest.sinks.iceberg.reading import has_beyond
from ingest.sinks.iceberg.rewrite import rewrite
from ingest.sinks.iceberg.tables import PROPERTIES, changes, columns_there, schema_of
from ingest.sinks.iceberg.types import iceberg_type
from ingest.sinks.iceberg.upkeep import compact, expire, is_due
from ingest.sinks.lake.coordinator import LakeCoordinator, check_folder
from ingest.sinks.lake.table import folder_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    import pyarrow as pa
    from pyiceberg.catalog import Catalog

    from ingest.model.schema import TableComments
    from ingest.sinks.iceberg.options import IcebergSink
    from ingest.sinks.lake.changes import Changes, ColumnThere
    from ingest.sinks.lake.marks import Mark, TableName, TakenAway
    from ingest.sinks.lake.table import AddedFile, LakeTable


class IcebergCoordinator(LakeCoordinator[Table]):
    """The driver's side. Raises IngestError only."""

    def __init__(self, options: IcebergSink, pipeline: str, warn: Callable[[str], None]) -> None:
        super().__init__(options, pipeline, warn)
        self.probe = ConnectProbe(lambda: IcebergCoordinator(options, pipeline, lambda _: None))
        self._options = options
        self._warehouse = options.warehouse

    def connect(self) -> str:
        """Return the warehouse's name; raises Unavailable where the catalog does not answer. Makes nothing."""
        own = self._warehouse.own
        if own is not None:  # also of a catalog that is there: each commit writes to it
            check_folder(own, "catalog.properties.warehouse")
            if self._warehouse.is_new:
                return str(own)
        with self._warehouse.asking("list namespaces") as catalog:
            try:
                catalog.list_namespaces()
            except NoSuchNamespaceError as exc:  # of a catalog with several warehouses
                msg = f"the catalog has no warehouse {self._warehouse.name}: {one_line(str(exc))[:500]}"
                raise ConfigError(msg, "see catalog.properties.warehouse") from exc
            return self._warehouse.name if own is None else str(own)

    def fingerprint(self, identity: str) -> dict[str, Any]:
        """Return what a checkpoint of this sink depends on."""
        return {"type": "iceberg", "warehouse": identity}

    def _asking(self, what: str) -> AbstractContextManager[Catalog]:
        return self._warehouse.asking(what)

    def _is_new(self) -> bool:
        return self._warehouse.is_new

    def _exists(self, name: tuple[str, ...]) -> bool:
        return self._warehouse.catalog.table_exists(name)

    def _has_rows(self, name: TableName) -> bool:
        return self._warehouse.catalog.load_table(name).scan().count() > 0

    def _look_up(self, wanted: LakeTable) -> Table | None:
        try:
            return self._warehouse.catalog.load_table(wanted.id)
        except (NoSuchTableError, NoSuchNamespaceError):
            return None

    def _make(self, wanted: LakeTable) -> None:
        catalog = self._warehouse.catalog
        for parts in range(1, len(wanted.namespace) + 1):
            catalog.create_namespace_if_not_exists(wanted.namespace[:parts])
        warehouse = catalog.properties.get("warehouse", "")
        # A catalog in a database leaves it to us where tables are, and its library makes paths of names as they are
        own = type(catalog).__name__ == "SqlCatalog" and warehouse
        location = f"{warehouse.rstrip('/')}/{folder_of(wanted.id)}" if own else None
        try:
            schema, properties = schema_of(wanted), {**PROPERTIES, **dict(wanted.layout.options)}
            made = catalog.create_table(wanted.id, schema, location, spec_of(wanted, schema), properties=properties)
        except TableAlreadyExistsError:
            return
        self._warehouse.hint(made)

    def _mark(self, _name: TableName, there: Table | None, batch: int) -> Mark:
        assert there is not None
        return mark_of(there.metadata, batch)

    def _taken_away(self, _name: TableName, there: Table, mark: Mark) -> TakenAway | None:
        return taken_away(there.metadata, mark, self._checkpoint)

    def _older_progress(self, there: Table) -> str | None:
        return older_progress(there.metadata, self._checkpoint, self._pipeline)

    def _changes(self, wanted: LakeTable, there: Table) -> Changes:
        return changes(wanted, there.metadata)

    def _columns(self, there: Table) -> Mapping[str, ColumnThere]:
        return columns_there(there.metadata)

    def _beyond(self, _wanted: LakeTable, there: Table, names: Sequence[str]) -> set[str]:
        return {name for name in names if has_beyond(there, name)}

    def _apply(self, there: Table, wanted: LakeTable, found: Changes) -> None:
        if found.rewritten:
            rewrite(there, found, wanted.key)
        else:
            with there.update_schema() as update:
                for name, kind in found.added.items():
                    update.add_column((name,), iceberg_type(kind))
                for name, kind in found.widened.items():
                    update.update_column((name,), iceberg_type(kind))
        self._warehouse.hint(there)

    def _comment(self, there: Table, comments: TableComments) -> None:
        known = {one.name: one.doc or "" for one in there.schema().fields}
        changed = {name: text for name, text in comments.columns.items() if known[name] != text}
        if changed:
            with there.update_schema() as update:
                for name, text in changed.items():
                    update.update_column((name,), doc=text)
        if comments.table is not None and there.properties.get("comment", "") != comments.table:
            with there.transaction() as transaction:
                transaction.set_properties({"comment": comments.table})
        self._warehouse.hint(there)

    def add(self, scope: str, batch: int, additions: list[Any]) -> Mapping[str, int]:
        """Commit a batch's files to their tables, where that is not done yet. Raise IngestError."""
        with self._warehouse.asking("open the catalog"):
            return super().add(scope, batch, additions)

    def _add(self, name: tuple[str, ...], files: list[AddedFile], scope: str, batch: int) -> int:
        with self._warehouse.asking(f"commit rows of the table {show(name)}") as catalog:
            table = self._compare(name, catalog.load_table(name))
            table, older = add_files(table, files, scope, batch, self._pipeline)
            for one in files:
                if one.gone:
                    with suppress(OSError):  # before a crash it may have been removed, and it is in no table
                        table.io.delete(one.path)
            if self._options.compaction and is_due(table, self._options.compaction_interval):
                table = self._keep_up(catalog, name)
            self._warehouse.hint(table)
            self._note(name, table, scope, batch)
            return older

    def _empty(self, name: tuple[str, ...]) -> Table:
        table = self._compare(name, self._warehouse.catalog.load_table(name))
        table.delete()
        self._warehouse.hint(table)
        return table

    def _files(self) -> IcebergFiles:
        return IcebergFiles(self._warehouse)

    def _read(self, name: tuple[str, ...], columns: Sequence[str]) -> pa.Table:
        return self._warehouse.catalog.load_table(name).scan(selected_fields=tuple(columns)).to_arrow()

    def _keep_up(self, catalog: Catalog, name: tuple[str, ...]) -> Table:
        """Compact a table; returns it as it is then. What fails is said once: the batch is in the table."""
        why = ""
        try:
            with self._warehouse.asking("compact it"):
                compact(catalog.load_table(name))
                if not expire(catalog.load_table(name)):
                    why = "it has branches or tags, so its old snapshots are not removed"
        except IngestError as exc:
            why = exc.message
        if why:
            self._neglect(name, why)
        return catalog.load_table(name)

    def close(self) -> None:
        """Release the catalog."""
        self._warehouse.close()

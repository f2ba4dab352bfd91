"""The driver's side of the sink `iceberg`: it makes and widens tables, and adds the files of batches to them.

Rules: docs/spec/iceberg.md.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError, TableAlreadyExistsError

from ingest.errors import ConfigError, IngestError, SchemaChangeRefused
from ingest.iceberg.commit import add_files
from ingest.iceberg.rewrite import rewrite
from ingest.iceberg.tables import PROPERTIES, LakeChangeError, changes, schema_of, statements
from ingest.iceberg.types import iceberg_type
from ingest.iceberg.upkeep import compact, expire, is_due
from ingest.lake.table import AddedFile, folder_of, table_of
from ingest.model.reject import RowError
from ingest.model.table import show
from ingest.sinks.sink import PlainSinkCoordinator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from ingest.iceberg.tables import Changes
    from ingest.lake.table import LakeTable
    from ingest.model.schema import TableSchema
    from ingest.model.table import TableId
    from ingest.sinks.iceberg import IcebergSink

_AT_ONCE: Final = 8
"""Tables whose snapshots are committed at the same time."""


class IcebergCoordinator(PlainSinkCoordinator):
    """The driver's side. Raises IngestError only."""

    def __init__(self, options: IcebergSink, warn: Callable[[str], None]) -> None:
        """Ask nothing yet."""
        self._options = options
        self._warehouse = options.warehouse
        self._warn = warn
        self._places: dict[tuple[str, ...], TableId] = {}
        self._told: set[tuple[tuple[str, ...], str]] = set()
        """Tables and columns of which it was said that times were cut."""
        self._neglected: set[tuple[str, ...]] = set()
        """Tables of which it was said that their upkeep is not done."""

    def connect(self) -> str:
        """Return the warehouse's name; raises Unavailable where the catalog does not answer. Makes nothing."""
        own = self._warehouse.own
        if own is not None and self._warehouse.is_new:
            there = next((path for path in (own, *own.parents) if path.exists()), own)
            if not (there.is_dir() and os.access(there, os.W_OK | os.X_OK)):
                msg = f"cannot make the warehouse {own} (catalog.properties.warehouse): {there} cannot be written to"
                raise ConfigError(msg, "choose a directory that can be written to")
            return str(own)
        with self._warehouse.asking("list namespaces") as catalog:
            catalog.list_namespaces()
            return self._warehouse.name if own is None else str(own)

    def fingerprint(self, identity: str) -> dict[str, Any]:
        """Return what a checkpoint of this sink depends on."""
        return {"type": "iceberg", "warehouse": identity}

    def declare(self, schemas: Mapping[TableId, TableSchema]) -> None:
        """Make and widen the tables, before their rows are written. Raise SchemaChangeRefused for what cannot be."""
        for table, wanted in self._wanted(schemas):
            with self._warehouse.asking(f"change the table {wanted}") as catalog:
                there = _load(catalog, wanted)
                if there is None:
                    self._make(catalog, wanted)
                elif found := self._changes(table, wanted, there):
                    _apply(there, wanted, found)
                    self._warehouse.hint(there)

    def vanished(self, tables: Iterable[TableId]) -> set[str]:
        """Return the tables that are not in the catalog."""
        ids = {(*(one[:-1] or (self._options.namespace,)), one[-1]) for one in tables}
        if not ids or self._warehouse.is_new:
            return {f"table {show(one)}" for one in ids}
        with self._warehouse.asking("look tables up") as catalog:
            return {f"table {show(one)}" for one in ids if not catalog.table_exists(one)}

    def undeclared(self, schemas: Mapping[TableId, TableSchema]) -> set[str]:
        """Return the changes that `declare` would make, as statements. Raise what it would raise."""
        out: set[str] = set()
        for table, wanted in self._wanted(schemas):
            if self._warehouse.is_new:
                out.update(statements(wanted, None))
                continue
            with self._warehouse.asking(f"look the table {wanted} up") as catalog:
                there = _load(catalog, wanted)
                out.update(statements(wanted, None if there is None else self._changes(table, wanted, there)))
        return out

    def _wanted(self, schemas: Mapping[TableId, TableSchema]) -> Iterator[tuple[TableId, LakeTable]]:
        """Yield the tables that rows need. Raise SchemaChangeRefused where two would be one."""
        for table, schema in schemas.items():
            try:
                wanted = table_of(table, schema, self._options.namespace, times=True)
            except RowError:
                continue  # its rows are rejects, in the task
            other = self._places.setdefault(wanted.id, table)
            if other != table:
                msg = f"the tables {show(other)} and {show(table)} would be one table there: {wanted}"
                raise SchemaChangeRefused(msg, "route one of them to another name")
            if wanted.has_key:
                yield table, wanted

    @staticmethod
    def _changes(table: TableId, wanted: LakeTable, there: Table) -> Changes:
        try:
            return changes(wanted, there.metadata)
        except LakeChangeError as exc:
            msg = f"the table {wanted} cannot take rows of {show(table)}: {exc}"
            raise SchemaChangeRefused(msg, "change it there, or route the rows to another table") from None

    def _make(self, catalog: Catalog, wanted: LakeTable) -> None:
        """Make a table, which another run may have made in the meantime."""
        for parts in range(1, len(wanted.namespace) + 1):
            catalog.create_namespace_if_not_exists(wanted.namespace[:parts])
        warehouse = catalog.properties.get("warehouse", "")
        # A catalog in a database leaves it to us where tables are, and its library makes paths of names as they are
        own = type(catalog).__name__ == "SqlCatalog" and warehouse
        location = f"{warehouse.rstrip('/')}/{folder_of(wanted.id)}" if own else None
        try:
            made = catalog.create_table(wanted.id, schema_of(wanted), location, properties=PROPERTIES)
        except TableAlreadyExistsError:
            return
        self._warehouse.hint(made)

    def additions(self, delivered: Sequence[Any]) -> list[Any] | None:
        """Return the files that tasks wrote; None where there are none."""
        for one in delivered:
            for column, count in one.cut:
                if (one.table, column) not in self._told:
                    self._told.add((one.table, column))
                    text = "times were cut to microseconds, which is as fine as a lake's columns are"
                    self._warn(f"table {show(one.table)}: {count} {text} (column {column}; said once)")
        return [list(one) for one in delivered] or None

    def add(self, scope: str, batch: int, additions: list[Any]) -> None:
        """Commit a batch's files to their tables, where that is not done yet. Raise IngestError."""
        by_table: dict[tuple[str, ...], list[AddedFile]] = {}
        for one in map(AddedFile.from_json, additions):
            by_table.setdefault(one.table, []).append(one)
        with self._warehouse.asking("open the catalog") as catalog, ThreadPoolExecutor(_AT_ONCE) as threads:
            jobs = [threads.submit(self._add, catalog, *entry, scope, batch) for entry in by_table.items()]
            for job in jobs:
                job.result()

    def _add(self, catalog: Catalog, name: tuple[str, ...], files: list[AddedFile], scope: str, batch: int) -> None:
        with self._warehouse.asking(f"commit rows of the table {show(name)}"):
            table = catalog.load_table(name)
            table = add_files(table, files, scope, batch)
            for one in files:
                if one.gone:
                    with suppress(OSError):  # before a crash it may have been removed, and it is in no table
                        table.io.delete(one.path)
            if self._options.compaction and is_due(table, self._options.compaction_interval):
                table = self._keep_up(catalog, name)
            self._warehouse.hint(table)

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
        if why and name not in self._neglected:
            self._neglected.add(name)
            self._warn(f"table {show(name)}: {why} (said once)")
        return catalog.load_table(name)

    def close(self) -> None:
        """Let go of the catalog."""
        self._warehouse.close()


def _load(catalog: Catalog, wanted: LakeTable) -> Table | None:
    try:
        return catalog.load_table(wanted.id)
    except (NoSuchTableError, NoSuchNamespaceError):
        return None


def _apply(table: Table, wanted: LakeTable, found: Changes) -> None:
    """Change a table. Raise what the library raises."""
    if found.rewritten:
        rewrite(table, found, wanted.key)
        return
    with table.update_schema() as update:
        for name, kind in found.added.items():
            update.add_column((name,), iceberg_type(kind))
        for name, kind in found.widened.items():
            update.update_column((name,), iceberg_type(kind))

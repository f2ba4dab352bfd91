"""Tables of a lake, read back: Iceberg's and Delta's.

A table is read as one version of it, which no commit changes. Expected rows become columns of Arrow as in the sink, and
then both sides the texts of their values.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

import pyarrow as pa

from ingest.model import types
from ingest.model.table import TableId, show
from ingest.sinks.lake.rows import UnfitRows, rows_to_batch
from ingest.sinks.lake.values import converted
from ingest.verify.rows import Cells, KeyedRow, SinkReader, SinkTable, TableRules, key_of, table_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import ExitStack

    from ingest.model.schema import TableSchema
    from ingest.sinks.delta.options import DeltaSink
    from ingest.sinks.iceberg.options import IcebergSink
    from ingest.sinks.lake.options import LakeOptions
    from ingest.sinks.lake.table import LakeTable

_ROWS = 20_000
"""Rows that are handed on together."""


class LakeReader(SinkReader["LakeTable"]):
    """The tables of a lake."""

    states = False

    def __init__(self, sink: LakeOptions) -> None:
        self.sink = sink
        self._tables: dict[TableId, tuple[LakeTable, pa.Schema | None]] = {}
        self._targets: dict[tuple[str, ...], TableId] = {}
        self._cut: dict[str, int] = {}
        self._emptied: dict[tuple[str, ...], frozenset[str]] = {}
        """Columns in which an empty text is null, as they make partitions."""

    def tables(self, schemas: Mapping[TableId, TableSchema]) -> dict[TableId, SinkTable]:
        """Return the tables as they are. Raise IngestError."""
        out = {}
        for target, schema in schemas.items():
            wanted: LakeTable = table_for(self.sink, target, schema)
            existing = self._schema(wanted.id)
            names = set() if existing is None else set(existing.names)
            self._tables[target] = wanted, existing
            self._targets[wanted.id] = target
            missing = tuple(c.name for c in wanted.columns if existing is not None and c.name not in names)
            kinds = {column.name: column.type for column in wanted.columns}
            appends = self.sink.write_mode == "append"
            rules = TableRules(
                keeps_deleted=self.sink.delete_strategy == "ignore",
                flag=None if appends else wanted.deleted,
                sequence=wanted.sequence,
                of_texts=wanted.sequence is not None and types.is_text(kinds[wanted.sequence]),
                all_states=appends,
            )
            out[target] = SinkTable(wanted.key, rules, f"table {wanted}", missing, absent=existing is None)
        return out

    def rows(self, tables: Sequence[TableId]) -> Iterator[tuple[TableId, list[KeyedRow]]]:
        """Yield all rows of tables."""
        for target in tables:
            wanted, existing = self._tables[target]
            if existing is None:
                continue
            names = [column.name for column in wanted.columns if column.name in existing.names]
            for batch in self._batches(wanted.id, names):
                for at in range(0, batch.num_rows, _ROWS):
                    yield target, self._rows_of(wanted, batch.slice(at, _ROWS))

    @property
    def cut(self) -> int:
        """How many times of expected rows were cut: only the sink's writer does that."""
        return sum(self._cut.values())

    def target(self, destination: LakeTable) -> TableId | None:
        """Return the table that a record's destination stands for."""
        return self._targets.get(destination.id)

    def expected(
        self, table: TableId, destination: LakeTable, records: Sequence[tuple[bytes, bytes | None]]
    ) -> list[KeyedRow]:
        """Return the row of each record, with values as the table stores them; a delete has no cells.

        `records`: key and row as JSON, None for a delete. Those that the sink refuses are left out.
        """
        wanted, existing = destination, self._tables[table][1]
        deletes = [value is None for _, value in records]
        try:
            batch = rows_to_batch(wanted.columns, wanted.key, records, self._cut)
        except UnfitRows as exc:  # the sink refuses these, too
            faults = {at for at, _ in exc.faults}
            kept = [record for at, record in enumerate(records) if at not in faults]
            return self.expected(table, destination, kept) if kept else []
        columns = []
        for name in batch.schema.names:
            column = pa.chunked_array([batch.column(name)])
            kind = existing.field(name).type if existing is not None and name in existing.names else None
            columns.append(column if kind is None else _fitting(column, kind))
        rows = self._rows_of(wanted, pa.table(columns, names=batch.schema.names))
        emptied, out = self._emptied.get(wanted.id, frozenset()), []
        appends = self.sink.write_mode == "append" and wanted.deleted is not None
        for row, gone in zip(rows, deletes, strict=True):
            cells = row.cells
            assert cells is not None
            if gone and appends:
                cells = {**cells, str(wanted.deleted): "true"}
            elif emptied:
                cells = {name: text for name, text in cells.items() if text or name not in emptied}
            out.append(KeyedRow(row.key, None if gone and not appends else cells))
        return out

    def _rows_of(self, wanted: LakeTable, rows: pa.Table | pa.RecordBatch) -> list[KeyedRow]:
        table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
        names = table.schema.names
        columns = [converted(table.column(name), pa.string()).to_pylist() for name in names]
        out = []
        for values in zip(*columns, strict=True):
            cells: Cells = {name: text for name, text in zip(names, values, strict=True) if text is not None}
            if wanted.deleted is not None and cells.get(wanted.deleted) == "false":
                del cells[wanted.deleted]  # tables that are older than the column have null there
            out.append(KeyedRow(key_of(cells, wanted.key), cells))
        return out

    @abstractmethod
    def _schema(self, name: tuple[str, ...]) -> pa.Schema | None:
        """Return the columns of a table; None where it does not exist. Raise IngestError."""

    @abstractmethod
    def _batches(self, name: tuple[str, ...], columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a table. Raise IngestError."""


class IcebergReader(LakeReader):
    """Tables of a catalog."""

    def __init__(self, sink: IcebergSink, resources: ExitStack) -> None:
        super().__init__(sink)
        self._warehouse = sink.warehouse
        resources.callback(self._warehouse.close)

    def _schema(self, name: tuple[str, ...]) -> pa.Schema | None:
        if self._warehouse.is_new:
            return None
        with self._warehouse.asking(f"look the table {show(name)} up") as catalog:
            return catalog.load_table(name).schema().as_arrow() if catalog.table_exists(name) else None

    def _batches(self, name: tuple[str, ...], columns: list[str]) -> Iterator[pa.RecordBatch]:
        with self._warehouse.asking(f"read the table {show(name)}") as catalog:
            yield from catalog.load_table(name).scan(selected_fields=tuple(columns)).to_arrow_batch_reader()


class DeltaReader(LakeReader):
    """Tables below one place."""

    def __init__(self, sink: DeltaSink) -> None:
        super().__init__(sink)
        self._warehouse = sink.warehouse

    def _schema(self, name: tuple[str, ...]) -> pa.Schema | None:
        with self._warehouse.asking(f"look the table {show(name)} up"):
            table = self._warehouse.find(name)
            if table is None:
                return None
            self._emptied[name] = frozenset(table.metadata().partition_columns)
            return pa.schema(table.schema().to_arrow())

    def _batches(self, name: tuple[str, ...], columns: list[str]) -> Iterator[pa.RecordBatch]:
        with self._warehouse.asking(f"read the table {show(name)}"):
            yield from self._warehouse.load(name).to_pyarrow_dataset().to_batches(columns=columns)


def _fitting(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Return values as a column of the table has them; as they are where it cannot have them: then they differ."""
    try:
        return converted(column, kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return column

"""A task's side of the sinks that are lakes: rows become files, which the driver adds to tables.

Order per key is kept: of the states of a key in one file only the last one counts, and files are added in the order in
which they were written.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Self

import pyarrow.compute as pc

from ingest.errors import ConfigError
from ingest.model.commit import OLDER, CommitScope, RefusedRow, ResumePoint, RowsRefused
from ingest.sinks.lake.changes import ExistingColumn, LakeChangeError
from ingest.sinks.lake.files import AddedFile, PartitionValue
from ingest.sinks.lake.pending_rows import LastStates, PendingRows
from ingest.sinks.lake.rows import UnfitRows, targets_of
from ingest.sinks.lake.table import LakeColumn, LakeTable, StatesToWrite, TableT, Warehouse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from ingest.encode.upsert_encoder import Record
    from ingest.model.record import Split

MOST_BYTES: Final = 128 << 20
"""Bytes of rows that wait in memory. Then they become files, before a commit."""
MOST_TABLES: Final = 1_000
"""Tables whose schemas a worker keeps."""


@dataclass(frozen=True, slots=True)
class TaskTable(ABC):
    """A table as a worker knows it."""

    columns: tuple[LakeColumn, ...]
    """Columns of rows in the order of the table's, with the types that they have there."""
    key: list[str]
    """Names of the columns of the key, in the order of the table's."""
    empty_is_null: Sequence[str]
    """Columns in which an empty text is null."""

    @property
    @abstractmethod
    def refuses(self) -> bool:
        """True if a row may have a value that no partition has."""

    @abstractmethod
    def fault(self, key: bytes, row: bytes | None) -> str | None:
        """Return why a record can be in no partition; None where it can, or is no row at all."""

    @abstractmethod
    def split(self, rows: pa.RecordBatch) -> Iterator[tuple[tuple[PartitionValue, ...], pa.RecordBatch]]:
        """Yield the rows of each partition, with the values that its file lacks. Raise LakeChangeError."""

    @abstractmethod
    def write(self, rows: pa.RecordBatch, *, of_keys: bool) -> str:
        """Write rows, or the keys of deletes, into a new file; returns its path. Raise what the library raises."""


class LakeFiles(ABC, Generic[TableT]):
    """A worker's files of the tables of a warehouse."""

    looks_up_for_each_batch: ClassVar[bool]
    """True if the partitions of a table have to be those that it has when a batch begins."""

    def __init__(self, warehouse: Warehouse[TableT]) -> None:
        self._warehouse = warehouse
        self._known: dict[LakeTable, TaskTable] = {}

    @abstractmethod
    def _known_as(self, table: LakeTable, existing: TableT) -> TaskTable:
        """Return a table that is there as rows need it. Raise ValueError where it cannot take them."""

    def columns_of(self, table: LakeTable) -> tuple[Sequence[LakeColumn], Sequence[str]]:
        """Return a table's columns, in the order of its files, and the names of those of its key. Raise IngestError."""
        return self._table(table).columns, table.key

    def begin(self) -> None:
        """Begin a batch: others may have changed tables."""
        if self.looks_up_for_each_batch:
            self._known.clear()

    def refused(self, records: Sequence[Record]) -> list[RefusedRow]:
        """Return records that cannot be in the partitions of their tables. Raise IngestError."""
        targets: Sequence[Any] = targets_of(records) or [record[0] for record in records]
        tables = {id(table): table for table in targets}
        strict = {number: known for number, table in tables.items() if (known := self._table(table)).refuses}
        out = []
        for destination, key, row in records if strict else ():
            table = strict.get(id(destination))
            if table is not None and (why := table.fault(key or b"{}", row)):
                out.append(RefusedRow(destination, key, None if row is None else bytes(row), why))
        return out

    def write(self, table: LakeTable, states: LastStates) -> list[AddedFile]:
        """Write the last states of keys, and the keys of rows that are gone. Raise IngestError."""
        known = self._table(table)
        gone = states.rows.filter(states.gone).select(known.key)
        rows = states.rows.filter(pc.invert(states.gone)) if gone.num_rows else states.rows
        key, out = table.key if table.unique else (), list[AddedFile]()
        with self._warehouse.asking(f"write rows of the table {table}"):
            if gone.num_rows:
                path = known.write(gone, of_keys=True)
                out.append(AddedFile(table.id, key, path, gone.num_rows, True, (), table.deleted, table.sequence))
            for partition, part in _apart(table, known, rows):
                path = known.write(part, of_keys=False)
                out.append(AddedFile(table.id, key, path, part.num_rows, False, (), None, table.sequence, partition))
        if out:  # what became of values is told with one of the files
            cut, emptied = tuple(states.cut.items()), _emptied(rows, known.empty_is_null)
            out[0] = out[0]._replace(cut=cut, emptied=emptied)
        return out

    def close(self) -> None:
        """Release the warehouse."""
        self._warehouse.close()

    def _table(self, table: LakeTable) -> TaskTable:
        known = self._known.get(table)
        if known is None:
            with self._warehouse.asking(f"look the table {table} up"):
                known = self._known_as(table, self._warehouse.load(table.id))
            if len(self._known) >= MOST_TABLES:
                self._known.clear()
            self._known[table] = known
        return known


def _apart(
    table: LakeTable, known: TaskTable, rows: pa.RecordBatch
) -> Iterator[tuple[tuple[PartitionValue, ...], pa.RecordBatch]]:
    """Yield the rows of each partition. Raise ConfigError for very many of them."""
    try:
        yield from known.split(rows) if rows.num_rows else ()
    except LakeChangeError as exc:
        msg = f"the table {table} cannot take its rows: {exc}"
        raise ConfigError(msg, "create it again with other partition-keys; nothing is lost") from None


def _emptied(rows: pa.RecordBatch, names: Sequence[str]) -> tuple[tuple[str, int], ...]:
    """Return by column how many texts are empty."""
    counts = [(name, pc.sum(pc.equal(rows.column(name), "")).as_py()) for name in names if name in rows.schema.names]
    return tuple((name, count) for name, count in counts if count)


def known_columns(
    table: LakeTable, existing: Mapping[str, ExistingColumn], required: Iterable[str | None]
) -> tuple[LakeColumn, ...]:
    """Return the columns of rows with the types that a table has, which may be wider than those of the rows.

    Raise ValueError where one of the required columns is gone.
    """
    for name in required:
        if name is not None and name not in existing:
            raise ValueError(f"somebody has removed or renamed its column {name!r}: run again, and it is created again")
    wanted = {column.name: column.type for column in table.columns}
    return tuple(LakeColumn(name, existing[name].type or wanted[name]) for name in existing if name in wanted)


class LakeWriter:
    """Keeps rows until the commit, or until there are many, and writes them into files."""

    failures = 0

    by_one: None = None
    reporting: None = None

    def __init__(self, files: LakeFiles[Any], states: StatesToWrite) -> None:
        self._files = files
        self._states = states
        self._rows = PendingRows(files.columns_of, states)
        self._written: list[AddedFile] = []
        """Files that no commit has yet."""
        self._committed: list[AddedFile] = []
        self._older = 0
        """Rows that were left out since this was asked last."""

    def begin(self, _scope: CommitScope) -> ResumePoint | None:
        """Return None: a shard starts where the plan says, since nothing is in a table before the driver adds it."""
        self.abort()
        self._files.begin()
        self._committed = []
        return None

    def write(self, records: Sequence[Record]) -> None:
        """Keep the rows. Raise RowsRefused for those that a table cannot hold, IngestError where files are written."""
        if rows := self._files.refused(records):
            raise _error_of(rows)
        try:
            self._rows.keep(records)
        except UnfitRows as exc:
            raise _error_of([_refused(records[at], why) for at, why in exc.faults]) from exc
        if self._rows.size()[1] > MOST_BYTES:
            self._flush()

    def _flush(self) -> None:
        for table, states in self._rows.take():
            self._written += self._files.write(table, states)
            self._older += states.older

    def commit(self, _positions: Mapping[Split, int], _metadata: bytes, *, final: bool) -> None:
        """Write what is there into files. Raise IngestError."""
        self._flush()
        self._committed += self._written
        self._written = []

    def delivered(self) -> list[Any]:
        """Return the files that were committed since this was asked last."""
        out, self._committed = self._committed, []
        return list(out)

    @property
    def leaving_out(self) -> Self:
        """Itself: changes that are older than their rows are left out."""
        return self

    def left_out(self) -> Mapping[str, int]:
        """Return, by reason, how many changes were left out since this was asked last."""
        older, self._older = self._older, 0
        return {OLDER: older} if older else {}

    def abort(self) -> None:
        """Forget what was not committed. Files of it stay where they are, in no table."""
        self._rows, self._written = PendingRows(self._files.columns_of, self._states), []

    def close(self) -> None:
        """Forget what was not committed, and release what is held."""
        self.abort()
        self._files.close()


def _error_of(rows: Sequence[RefusedRow]) -> RowsRefused:
    first = rows[0]
    shown = (first.key or b"")[:200].decode(errors="backslashreplace")
    msg = f"the table {first.destination} cannot hold the row with the key {shown}: {first.reason}"
    return RowsRefused(msg, "leave such rows out with a filter, or cast the column", rows)


def _refused(record: Record, reason: str) -> RefusedRow:
    destination, key, value = record
    return RefusedRow(destination, key, None if value is None else bytes(value), reason)

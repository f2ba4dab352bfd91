"""Files of Delta tables: rows into Parquet on a worker, and what a version says of each file.

Rules: docs/spec/delta.md#types.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ingest.errors import ConfigError
from ingest.model.commit import RefusedRow
from ingest.model.jsontext import parse_row
from ingest.sinks.delta.partitions import DeltaPartitions
from ingest.sinks.delta.tables import arrow_schema, columns_there
from ingest.sinks.lake.changes import LakeChangeError
from ingest.sinks.lake.columns import LakeColumn
from ingest.sinks.lake.native_rows import targets_of
from ingest.sinks.lake.table import AddedFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyarrow.fs import FileSystem

    from ingest.encode.upsert_encoder import Record
    from ingest.sinks.delta.warehouse import DeltaWarehouse
    from ingest.sinks.lake.kept_rows import LastStates
    from ingest.sinks.lake.table import LakeTable, PartitionValue

_LEVEL: Final = 1
"""Level of compression: higher ones take more time than they save."""
MOST_TABLES: Final = 1_000
"""Tables whose schemas a worker keeps."""
_EMPTY: Final = "column {!r} of the key makes partitions, and Delta does not tell an empty text from a null there"


def write_parquet(files: FileSystem, schema: pa.Schema, batches: Iterable[pa.RecordBatch | pa.Table], kind: str) -> str:
    """Write batches into a new file, whose columns come in the schema's order; returns its path in the table.

    `kind`: a word in the file's name. Raise OSError.
    """
    path = f"{uuid.uuid4()}-{kind}.parquet"
    with (
        files.open_output_stream(path) as stream,
        pq.ParquetWriter(
            stream, schema, compression="zstd", compression_level=_LEVEL, store_decimal_as_integer=True
        ) as writer,
    ):
        for batch in batches:
            columns = [one.cast(to.type) for one, to in zip(batch.columns, schema, strict=True)]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))
    return path


@dataclass(frozen=True, slots=True)
class _KnownTable:
    """A table as a worker knows it."""

    columns: tuple[LakeColumn, ...]
    key: list[str]
    """Names of the columns of the key, in the order of the table's."""
    rows: pa.Schema
    """Columns of files with rows."""
    keys: pa.Schema
    partitions: DeltaPartitions
    files: FileSystem

    @property
    def texts(self) -> set[str]:
        """Columns of the key that make partitions and hold texts, of which none can be empty."""
        return {*self.key}.intersection(self.partitions.texts)


class DeltaFiles:
    """A worker's files of the tables of a warehouse."""

    def __init__(self, warehouse: DeltaWarehouse) -> None:
        """Ask nothing yet."""
        self._warehouse = warehouse
        self._known: dict[LakeTable, _KnownTable] = {}

    def columns_of(self, table: LakeTable) -> tuple[Sequence[LakeColumn], Sequence[str]]:
        """Return a table's columns, with the types that they have there, and the names of those of its key.

        Raises IngestError.
        """
        return self._table(table).columns, table.key

    def begin(self) -> None:
        """Do nothing: what others change in a table is seen when files are added to it."""

    def write(self, table: LakeTable, states: LastStates) -> list[AddedFile]:
        """Write the last states of keys, and the keys of rows that are gone. Raise IngestError."""
        known = self._table(table)
        gone = states.rows.filter(states.gone).select(known.key)
        there = states.rows.filter(pc.invert(states.gone)) if gone.num_rows else states.rows
        cut, out = tuple(states.cut.items()), []
        emptied = _emptied(there, known.partitions.texts)
        key = table.key if table.unique else ()
        with self._warehouse.asking(f"write rows of the table {table}"):
            if gone.num_rows:
                path = write_parquet(known.files, known.keys, [gone], "keys")
                out.append(AddedFile(table.id, key, path, gone.num_rows, True, cut, table.deleted, table.sequence))
                cut = ()
            for partition, rows in _apart(table, known.partitions, there):
                path = write_parquet(known.files, known.rows, [_in_columns(rows, known.rows)], "rows")
                columns = None, table.sequence, partition, emptied
                out.append(AddedFile(table.id, key, path, rows.num_rows, False, cut, *columns))
                cut, emptied = (), ()
        return out

    def refused(self, records: Sequence[Record]) -> list[RefusedRow]:
        """Return the records whose key has an empty text in a column that makes partitions, as that is a null there.

        Raise IngestError.
        """
        targets: Sequence[Any] = targets_of(records) or [record[0] for record in records]
        tables = {id(one): one for one in targets}
        empty = {number: texts for number, one in tables.items() if (texts := self._table(one).texts)}
        out = []
        for destination, key, row in records if empty else ():
            names = empty.get(id(destination), ())
            if key is not None and b'""' in key:
                of_key = parse_row(msgspec.Raw(key))
                out += [
                    RefusedRow(destination, key, None if row is None else bytes(row), _EMPTY.format(name))
                    for name in names
                    if of_key.get(name) == b'""'
                ][:1]
        return out

    def close(self) -> None:
        """Do nothing: nothing is held."""

    def _table(self, table: LakeTable) -> _KnownTable:
        found = self._known.get(table)
        if found is None:
            with self._warehouse.asking(f"look the table {table} up"):
                found = self._look_up(table)
        return found

    def _look_up(self, table: LakeTable) -> _KnownTable:
        """Return a table with the types that its columns have there, which may be wider than those of the rows."""
        there = self._warehouse.load(table.id)
        schema, known = arrow_schema(there), columns_there(there)
        for name in (table.deleted, table.sequence):
            if name is not None and name not in known:
                msg = f"somebody has removed or renamed its column {name!r}: run again, and it is created again"
                raise ValueError(msg)
        wanted = {one.name: one.type for one in table.columns}
        columns = tuple(LakeColumn(name, known[name].type or wanted[name]) for name in schema.names if name in wanted)
        if len(self._known) >= MOST_TABLES:
            self._known.clear()
        partitions = DeltaPartitions.of(there)
        of_files = partitions.without(schema)
        found = _KnownTable(
            columns=columns,
            key=[name for name in schema.names if name in table.key],
            # A file of no column would not say how many rows it has
            rows=pa.schema([one for one in of_files if one.name in wanted] or list(of_files)[:1]),
            partitions=partitions,
            keys=pa.schema([one for one in schema if one.name in table.key]),
            files=self._warehouse.files(table.id),
        )
        self._known[table] = found
        return found


def _apart(
    table: LakeTable, partitions: DeltaPartitions, rows: pa.RecordBatch
) -> Iterator[tuple[tuple[PartitionValue, ...], pa.RecordBatch]]:
    """Yield the rows of each partition. Raise ConfigError for very many of them."""
    try:
        yield from partitions.split(rows) if rows.num_rows else ()
    except LakeChangeError as exc:
        msg = f"the table {table} cannot take its rows: {exc}"
        raise ConfigError(msg, "create it again with other partition-keys; nothing is lost") from None


def _in_columns(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return rows in the columns of a file. One that they lack is null."""
    names = rows.schema.names
    columns = [rows.column(one.name) if one.name in names else pa.nulls(rows.num_rows, one.type) for one in schema]
    return pa.RecordBatch.from_arrays(columns, names=schema.names)


def _emptied(rows: pa.RecordBatch, names: Sequence[str]) -> tuple[tuple[str, int], ...]:
    """Return by column how many texts are empty."""
    there = [name for name in names if name in rows.schema.names]
    counts = [(name, pc.sum(pc.equal(rows.column(name), "")).as_py() or 0) for name in there]
    return tuple((name, count) for name, count in counts if count)

"""Files of Delta tables: rows into Parquet on a worker, and what a version says of each file.

Rules: docs/spec/delta.md#types.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ingest.delta.tables import arrow_schema, columns_there
from ingest.lake.columns import LakeColumn
from ingest.lake.table import AddedFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyarrow.fs import FileSystem

    from ingest.delta.warehouse import DeltaWarehouse
    from ingest.lake.kept_rows import LastStates
    from ingest.lake.table import LakeTable

_LEVEL: Final = 1
"""Level of compression: higher ones take more time than they save."""
MOST_TABLES: Final = 1_000
"""Tables whose schemas a worker keeps."""


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
    keys: pa.Schema
    files: FileSystem


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
        key, marks = table.key if table.unique else (), table.deleted
        with self._warehouse.asking(f"write rows of the table {table}"):
            for rows, schema, kind in ((there, known.rows, "rows"), (gone, known.keys, "keys")):
                if rows.num_rows:
                    path, of_keys = write_parquet(known.files, schema, [rows], kind), rows is gone
                    deleted = marks if of_keys else None
                    out.append(AddedFile(table.id, key, path, rows.num_rows, of_keys, cut=cut, deleted=deleted))
                    cut = ()
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
        wanted = {one.name: one.type for one in table.columns}
        columns = tuple(
            LakeColumn(name, known[name].type or wanted[name]) for name in schema.names if name in wanted
        )  # fmt: skip
        if len(self._known) >= MOST_TABLES:
            self._known.clear()
        found = _KnownTable(
            columns=columns,
            key=[name for name in schema.names if name in table.key],
            rows=pa.schema([one for one in schema if one.name in wanted]),
            keys=pa.schema([one for one in schema if one.name in table.key]),
            files=self._warehouse.files(table.id),
        )
        self._known[table] = found
        return found

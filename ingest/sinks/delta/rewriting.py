"""Rows that remain of files, in new files: those of each partition apart.

In: files, and which of their rows remain. Out: actions that add new files with these rows. A new file is in no table
before a version has such an action. Memory is bounded by a few groups of rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from ingest.sinks.delta.actions import added_file, watch_nans
from ingest.sinks.delta.files import write_parquet
from ingest.sinks.delta.superseded import remaining_rows, rows_per_file

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from deltalake.transaction import AddAction
    from pyarrow.fs import FileSystem

    from ingest.sinks.delta.partitions import DeltaPartitions
    from ingest.sinks.delta.superseded import Superseded
    from ingest.sinks.lake.table import PartitionValue

    Partition = tuple[PartitionValue, ...]


class NewFiles:
    """New files of a table with these columns."""

    def __init__(
        self, place: FileSystem, schema: pa.Schema, partitions: DeltaPartitions, key: Collection[str] = ()
    ) -> None:
        """Write nothing yet. `place` has the table's files; `schema`: all of its columns; `key`: those of the key."""
        self._place, self._schema, self._partitions, self._key = place, schema, partitions, key

    def write(self, sources: Sequence[Superseded], deleted: str | None = None) -> Iterator[AddAction]:
        """Write what remains of files; yield the action that adds each new file. Raise OSError, LakeChangeError.

        `deleted`: the column that becomes true in rows that are marked.
        """
        groups: dict[Partition | None, list[Superseded]] = {}
        moves = deleted in self._partitions.names  # a row that is marked as deleted goes to another partition
        for one in sources:
            apart = moves and len(one.marked)
            groups.setdefault(None if apart else self._partitions.of_known(one.known, self._key), []).append(one)
        for partition, some in groups.items():
            if partition is None:
                yield from self._split(some, deleted)
                continue
            for rows in rows_per_file(remaining_rows(self._place, some, self._schema, deleted, self._key)):
                yield self.write_file(partition, rows)

    def _split(self, sources: Sequence[Superseded], deleted: str | None) -> Iterator[AddAction]:
        """Write what remains of files whose rows get other partitions than they had."""
        for rows in remaining_rows(self._place, sources, self._schema, deleted, self._key):
            for partition, part in self._partitions.split(rows):
                yield self.write_file(partition, [part])

    def write_file(self, partition: Partition, rows: Iterable[pa.Table]) -> AddAction:
        """Write one file of rows that are in a partition; returns the action that adds it. Raise OSError."""
        nans: set[str] = set()
        schema = self._partitions.without(self._schema)
        own = (one.select(schema.names) for one in rows)
        path = write_parquet(self._place, schema, watch_nans(own, nans), "rows")
        return action_of(self._place, path, partition, nans)


def action_of(place: FileSystem, path: str, partition: Partition, without: Collection[str] = ()) -> AddAction:
    """Return the action that adds a file. Raise OSError. `without`: columns with values that its footer hides."""
    with place.open_input_file(path) as stream:
        file, size = pq.ParquetFile(stream), stream.size()
        return added_file(path, size, file.metadata, file.schema_arrow, without, partition)

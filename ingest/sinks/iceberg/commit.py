"""Snapshots: the files of a batch become rows of a table, once, and the rows that they supersede are gone.

A snapshot has the files of rows and, as positions in files, the rows that are no more. In the same commit the table
notes the batch, so that one that is committed already is seen. Positions are found in the snapshot that the commit
builds on: if another writer comes in between, they are found again. Rules: docs/spec/iceberg.md#delivery.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFileContent, ManifestContent, ManifestEntry, ManifestEntryStatus, ManifestWriterV2
from pyiceberg.table import Table, Transaction
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update.snapshot import _MergeAppendFiles
from pyiceberg.typedef import Record as Partition

from ingest.sinks.iceberg.files import DELETES, data_file, deletes_data_file
from ingest.sinks.iceberg.history import BATCH, CHECKPOINT, NOTE, PIPELINE
from ingest.sinks.iceberg.superseded import SupersededFiles, superseded_by
from ingest.sinks.iceberg.tables import partition_of
from ingest.sinks.iceberg.writer import ParquetPlace
from ingest.sinks.lake.files import AddedFile, Committed, digest_of, has_batch, retried

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile, ManifestFile
    from pyiceberg.table.metadata import TableMetadata


def note_of(files: Sequence[AddedFile], batch: int) -> str:
    """Return what a table notes of a batch: its number, and which files it had."""
    return f"{batch}.{digest_of(files)[:16]}"


def add_files(
    load: Callable[[], Table], files: Sequence[AddedFile], scope: str, batch: int, pipeline: str = ""
) -> Committed:
    """Commit the files of a batch of a pipeline to a table, where that is not done yet; batch 0 is none, and never is.

    Files that are in no table then are removed. It is tried again where another writer was faster, and where it is not
    known whether it was done. `load` returns the table as it is now. Raise CheckpointError where the table is ahead of
    the checkpoint, and what the library raises.
    """
    note = note_of(files, batch)

    def commit() -> Committed:
        table = load()
        noted = table.metadata.properties.get(NOTE + scope, "0")
        if batch and has_batch(int(noted.partition(".")[0]), batch, same_files=noted == note):
            return Committed(table)
        return Committed(table, _commit(table, files, scope, note, pipeline))

    done = retried(commit, (CommitFailedException, CommitStateUnknownException))
    for file in files:
        if file.gone:
            with suppress(OSError):  # before a crash it may have been removed, and it is in no table
                done.state.io.delete(file.path)
    return done


def _commit(table: Table, files: Sequence[AddedFile], scope: str, note: str, pipeline: str) -> int:
    """Commit a snapshot; returns how many rows are left out as older ones."""
    io = table.io
    with ThreadPoolExecutor(4) as threads:
        rows = list(threads.map(lambda one: data_file(table.metadata, io, one.path), [f for f in files if not f.gone]))
    superseded = superseded_by(table, files, rows) if files[-1].key else SupersededFiles([], [])
    gone = superseded.gone
    rows += superseded.marked
    with removed_if_it_fails(io) as written, QuickTransaction(table) as transaction:
        written.extend(superseded.marked)
        transaction.set_properties({NOTE + scope: note, PIPELINE + pipeline: scope.partition(".")[0]})
        operation = Operation.OVERWRITE if gone else Operation.APPEND
        told = {BATCH: note.partition(".")[0], CHECKPOINT: scope}
        snapshot = RowDelta(operation, transaction, io, snapshot_properties=told)
        for one in rows:
            snapshot.append_data_file(one)
        if gone:
            deletes = deletes_files(table, gone)
            written.extend(deletes)
            snapshot.append_deletes(deletes)
        if rows or gone:
            snapshot.commit()
    return superseded.older


@contextmanager
def removed_if_it_fails(io: FileIO) -> Generator[list[DataFile]]:
    """Yield a list for files that are written for a commit. They are removed where another writer was faster."""
    made: list[DataFile] = []
    try:
        yield made
    except CommitFailedException:
        for one in made:
            with suppress(OSError):
                io.delete(one.file_path)
        raise


def deletes_files(table: Table, gone: Iterable[tuple[DataFile, pa.Array]]) -> list[DataFile]:
    """Write positions of rows that are no more, a file for each partition. Raise OSError."""
    parts: dict[tuple[int, str], dict[str, list[Any]]] = {}
    places: dict[tuple[int, str], tuple[Partition, int]] = {}
    for file, positions in gone:
        part = partition_of(file)
        places[part] = file.partition, file.spec_id
        found = parts.setdefault(part, {}).setdefault(file.file_path, [])
        found.append(positions.to_numpy(zero_copy_only=False))
    to, out = replace(ParquetPlace.of(table), schema=schema_to_pyarrow(DELETES)), []
    for part, by_path in parts.items():
        path = to.write(
            # In the order of files and positions, as readers expect
            (_positions(path, np.unique(np.concatenate(found))) for path, found in sorted(by_path.items())),
            "deletes",
        )
        out.append(deletes_data_file(table.io, path, places[part]))
    return out


def _positions(path: str, found: np.ndarray[Any, Any]) -> pa.Table:
    return pa.table([pa.repeat(path, len(found)), pa.array(found, pa.int64())], names=["file_path", "pos"])


def live_entries(table: Table) -> list[ManifestEntry]:
    """Return what a table says of its files of rows and of deletes. Raise what the library raises."""
    snapshot = table.current_snapshot()
    manifests = [] if snapshot is None else snapshot.manifests(table.io)
    return [entry for one in manifests for entry in one.fetch_manifest_entry(table.io, discard_deleted=True)]


class QuickTransaction(Transaction):
    """A transaction that makes its metadata once for each change: the library copies all snapshots each time."""

    _made: tuple[object, object, TableMetadata] | None = None

    @property
    def table_metadata(self) -> TableMetadata:
        """The table's metadata as it is after the changes so far."""
        if self._made is None or self._made[0] is not self._updates or self._made[1] is not self._table.metadata:
            self._made = (self._updates, self._table.metadata, super().table_metadata)
        return self._made[2]


class _DeletesManifest(ManifestWriterV2):
    """A manifest of files of deletes."""

    def content(self) -> ManifestContent:
        """Return what its files are."""
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


class RowDelta(_MergeAppendFiles):
    """A snapshot that adds files of rows and files of deletes. The library has none for both."""

    _deletes: tuple[DataFile, ...] = ()

    def append_deletes(self, files: Iterable[DataFile]) -> None:
        """Add files of deletes."""
        self._deletes = (*self._deletes, *files)

    def _validate_concurrency(self) -> None:
        """Refuse to be tried again by the library: positions are those of one snapshot."""
        raise CommitFailedException("another writer has changed the table")

    def _process_manifests(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        merged = super()._process_manifests(manifests)
        return [*merged, *self._deletes_manifests()]

    def _deletes_manifests(self) -> Iterable[ManifestFile]:
        """Yield a manifest of deletes for each specification of partitions."""
        metadata = self._transaction.table_metadata
        for spec_id in sorted({one.spec_id for one in self._deletes}):
            with _DeletesManifest(
                metadata.specs()[spec_id],
                metadata.schema(),
                self.new_manifest_output(),
                self._snapshot_id,
                self._compression,
            ) as writer:
                for file in (one for one in self._deletes if one.spec_id == spec_id):
                    writer.add(
                        ManifestEntry.from_args(
                            status=ManifestEntryStatus.ADDED,
                            snapshot_id=self._snapshot_id,
                            sequence_number=None,
                            file_sequence_number=None,
                            data_file=file,
                        )
                    )
            yield writer.to_manifest_file()

    def _summary(self, snapshot_properties: dict[str, str] | None = None) -> Summary:
        rows = self._added_data_files
        # The library takes all for files of today's partitions, and needs these only to count partitions
        self._added_data_files = [*rows, *map(_without_partition, self._deletes)]
        try:
            return super()._summary(snapshot_properties or {})
        finally:
            self._added_data_files = rows


def _without_partition(file: DataFile) -> DataFile:
    out = copy(file)
    out._data = [Partition() if value is file.partition else value for value in file._data]  # noqa: SLF001
    return out


class Replacement(RowDelta):
    """A snapshot whose files replace others."""

    _kept: tuple[ManifestEntry, ...] = ()
    _removed: tuple[ManifestEntry, ...] = ()

    def replace(self, kept: Sequence[ManifestEntry], removed: Sequence[ManifestEntry]) -> None:
        """Say which files of rows stay, and which files of rows and of deletes do not."""
        self._kept, self._removed = tuple(kept), tuple(removed)
        self._deleted_data_files.update(one.data_file for one in removed)

    def _existing_manifests(self) -> list[ManifestFile]:
        out = []
        for spec_id in sorted({one.data_file.spec_id for one in self._kept}):
            with self.new_manifest_writer(self.spec(spec_id)) as writer:
                for one in self._kept:
                    if one.data_file.spec_id == spec_id:
                        writer.add_entry(self._entry(one, ManifestEntryStatus.EXISTING, one.snapshot_id))
            out.append(writer.to_manifest_file())
        return out

    def _deleted_entries(self) -> list[ManifestEntry]:
        return [
            self._entry(one, ManifestEntryStatus.DELETED, self._snapshot_id)
            for one in self._removed
            if one.data_file.content == DataFileContent.DATA
        ]

    @staticmethod
    def _entry(one: ManifestEntry, status: ManifestEntryStatus, snapshot: int | None) -> ManifestEntry:
        return ManifestEntry.from_args(
            status=status,
            snapshot_id=snapshot,
            sequence_number=one.sequence_number,
            file_sequence_number=one.file_sequence_number,
            data_file=one.data_file,
        )

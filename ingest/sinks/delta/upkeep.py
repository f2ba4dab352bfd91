"""Upkeep of a Delta table: small files become few, and files of old versions are removed.

It is done by the library's own ways, but for the compaction of tables with partitions.

Every batch adds files, and the search for keys reads their footers. Versions of upkeep have the same rows. They leave
notes of batches as they are, but cannot have any: the version of a batch notes that upkeep is due, and follows it.
Rules: docs/spec/delta.md#upkeep.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from deltalake.exceptions import DeltaError

from ingest.sinks.delta.actions import removed_file
from ingest.sinks.delta.change import ALONE, COMPRESSION
from ingest.sinks.delta.listing import listed_files
from ingest.sinks.delta.partitions import DeltaPartitions
from ingest.sinks.delta.rewriting import NewFiles
from ingest.sinks.delta.superseded import all_of, remaining_rows, row_groups
from ingest.sinks.delta.tables import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from deltalake import DeltaTable
    from deltalake.transaction import AddAction, RemoveAction
    from pyarrow.fs import FileSystem

    from ingest.sinks.delta.listing import ListedFile
    from ingest.sinks.lake.table import PartitionValue

COMPACTED: Final = "ingest-compacted"
"""Name under which a version has the number of the newest one that upkeep follows."""
_TARGET_BYTES: Final = 100 << 20
"""Size below which a file is small, where the table does not say."""
_DAY_H: Final = 24
"""The shortest retention of a vacuum in hours: files that tasks are about to hand over are in no version, too."""


def is_due(table: DeltaTable, interval: int) -> bool:
    """Return whether the next version is this many versions after the last one that upkeep followed."""
    return table.version() + 1 - (table.transaction_version(COMPACTED) or 0) >= interval


def compact(table: DeltaTable, place: FileSystem) -> None:
    """Rewrite small files of a table as few ones. Raise CommitFailedError where another writer was faster.

    `place` has the table's files.
    """
    if table.metadata().partition_columns:
        _compact_partitions(table, place)
    else:
        table.optimize.compact(commit_properties=ALONE, writer_properties=COMPRESSION)


def _compact_partitions(table: DeltaTable, place: FileSystem) -> None:
    """Compact a table with partitions: the library has wrong texts for some values, and paths that are too long."""
    partitions, most = DeltaPartitions.of(table), _target(table)
    schema = arrow_schema(table)
    groups: dict[tuple[PartitionValue, ...], list[ListedFile]] = {}
    for one in listed_files(table):
        if one.size < most:
            groups.setdefault(partitions.of_known(one.known) or (), []).append(one)
    new = NewFiles(place, schema, partitions)
    actions: list[AddAction | RemoveAction] = []
    for partition, some in groups.items():
        for files in _bins(some, most):
            rows = row_groups(remaining_rows(place, all_of(files), schema))
            actions += [removed_file(one, data_change=False) for one in files]
            actions.append(replace(new.write_file(partition, rows), data_change=False))
    if actions:
        table.create_write_transaction(actions, "append", table.schema(), partitions.names, commit_properties=ALONE)


def _target(table: DeltaTable) -> int:
    """Return the size in bytes below which a file is small."""
    found = table.metadata().configuration.get("delta.targetFileSize") or ""
    return int(found) if found.isdecimal() else _TARGET_BYTES


def _bins(files: Sequence[ListedFile], most: int) -> Iterator[list[ListedFile]]:
    """Yield files that become one, of so many bytes at most. A file alone stays as it is."""
    held: list[ListedFile] = []
    for one in sorted(files, key=lambda file: file.size):
        if held and sum(file.size for file in held) + one.size > most:
            if len(held) > 1:
                yield held
            held = []
        held.append(one)
    if len(held) > 1:
        yield held


def vacuum(table: DeltaTable) -> None:
    """Remove files that no version has, or only versions older than the table's own retention, a day at least.

    Raise what the library raises.
    """
    for hours in (_DAY_H, None):
        try:
            found = table.vacuum(hours, full=True)  # a list only
        except DeltaError as exc:
            if hours is None or "retention" not in str(exc):
                raise
            continue  # the table's own is longer
        if found:
            table.vacuum(hours, dry_run=False, full=True)
        return

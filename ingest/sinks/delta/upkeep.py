"""Tables that are rewritten: small files become few, files of old versions are removed, and columns change.

It is done by the library's own ways, but for tables with partitions. A version fails where another writer's came in
between, as the rows that it has are those of the version before it.

Every batch adds files, and the search for keys reads their footers. Versions of upkeep have the same rows. They leave
notes of batches as they are, but cannot have any: the version of a batch notes that upkeep is due, and follows it.
Rules: docs/spec/delta.md#upkeep.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from queue import Full, Queue
from threading import Event, Thread
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, TableFeatures, WriterProperties, write_deltalake
from deltalake.exceptions import DeltaError

from ingest.sinks.delta.files import NewFiles, all_of, listed_files, remaining_rows, removed_file, row_groups
from ingest.sinks.delta.tables import DeltaPartitions, arrow_schema, field_of
from ingest.sinks.lake.values import arrow_type

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from deltalake.transaction import AddAction, RemoveAction
    from pyarrow.fs import FileSystem

    from ingest.sinks.delta.files import ListedFile
    from ingest.sinks.lake.changes import Changes
    from ingest.sinks.lake.files import PartitionValue


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


ALONE: Final = CommitProperties(max_commit_retries=0)
"""A commit that is not tried again on top of another writer's."""
COMPRESSION: Final = WriterProperties(compression="ZSTD", compression_level=1)
_POLL_S: Final = 0.2
_TIMES: Final = "timestampNtz"
"""Table feature of tables with a TIMESTAMP."""


def change(table: DeltaTable, place: FileSystem, changes: Changes, key: Sequence[str]) -> None:
    """Change a table, whose primary key `key` is. Raise what the library raises."""
    if not changes.rewritten:
        fields = [field_of(name, kind) for name, kind in changes.added.items()]
        table.alter.add_columns(fields, commit_properties=ALONE)
        return
    schema = _changed(arrow_schema(table), changes)
    if table.metadata().partition_columns:
        _rewrite_partitions(table, place, schema, key)
        return
    with _read_beside(remaining_rows(place, all_of(listed_files(table)), schema, key=key)) as rows:
        batches = (batch for one in rows for batch in one.to_batches())
        write_deltalake(
            table,
            pa.RecordBatchReader.from_batches(schema, batches),
            mode="overwrite",
            schema_mode="overwrite",
            writer_properties=COMPRESSION,
            commit_properties=ALONE,
        )


def _rewrite_partitions(table: DeltaTable, place: FileSystem, schema: pa.Schema, key: Sequence[str]) -> None:
    """Rewrite a table with partitions: the library has wrong texts for some values, and paths that are too long."""
    columns = Schema.from_arrow(schema)
    partitions = DeltaPartitions(columns, table.metadata().partition_columns)
    new = NewFiles(place, schema, partitions, key)
    actions: list[AddAction | RemoveAction] = [*new.write(all_of(listed_files(table)))]
    has_times = any(getattr(one.type, "type", "") == "timestamp_ntz" for one in columns.fields)
    if has_times and _TIMES not in (table.protocol().writer_features or ()):
        # The library adds it with a column, but not with the rows of a table
        table.alter.add_feature(
            TableFeatures.TimestampWithoutTimezone, allow_protocol_versions_increase=True, commit_properties=ALONE
        )
    table.create_write_transaction(actions, "overwrite", columns, partitions.names, commit_properties=ALONE)


def _changed(schema: pa.Schema, changes: Changes) -> pa.Schema:
    """Return the columns that a table has after changes."""
    fields = [
        one.with_type(arrow_type(changes.rewritten[one.name])) if one.name in changes.rewritten else one
        for one in schema
    ]
    return pa.schema([*fields, *(pa.field(name, arrow_type(kind)) for name, kind in changes.added.items())])


@contextmanager
def _read_beside(rows: Iterator[pa.Table]) -> Generator[Iterator[pa.Table]]:
    """Yield rows that a thread of its own reads: the library cannot read files while it asks for what it writes."""
    handed: Queue[pa.Table | BaseException | None] = Queue(1)
    over = Event()

    def hand(one: pa.Table | BaseException | None) -> None:
        while not over.is_set():
            try:
                handed.put(one, timeout=_POLL_S)
            except Full:
                continue
            return

    def read() -> None:
        try:
            for one in rows:
                hand(one)
                if over.is_set():
                    return
            hand(None)
        except BaseException as exc:  # noqa: BLE001  (it is raised where the rows are taken)
            hand(exc)

    failed: list[BaseException] = []

    def taken() -> Iterator[pa.Table]:
        while (one := handed.get()) is not None:
            if isinstance(one, BaseException):
                failed.append(one)
                raise one
            yield one

    thread = Thread(target=read, name="rows", daemon=True)
    thread.start()
    try:
        yield taken()
    except Exception:
        if failed:
            raise failed[0] from None
        raise
    finally:
        over.set()
        thread.join()

"""Versions: the files of a batch become rows of a table, once, and the rows that they supersede are gone.

A version adds the files of a batch as they are. A file that is there and has rows which are superseded is removed in
the same version, and its other rows are in a new file. The version has the number of the batch, so that one that is
committed already is seen. Which rows those are is found in the version that the commit builds on: if another writer
comes in between, it is found again. Rules: docs/spec/delta.md#delivery.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError

from ingest.errors import ConfigError
from ingest.model.types import BOOLEAN, merge
from ingest.sinks.delta.files import ListedFile, NewFiles, RewrittenFile, action_of, removed_file
from ingest.sinks.delta.history import BATCH, CHECKPOINT
from ingest.sinks.delta.superseded import DeltaSearch
from ingest.sinks.delta.tables import (
    DeltaPartitions,
    arrow_schema,
    check_writable,
    columns_of,
    existing_columns,
    fields_of,
    values_of,
)
from ingest.sinks.delta.upkeep import COMPACTED, is_due
from ingest.sinks.lake.changes import ExistingColumn, LakeChangeError, check_required
from ingest.sinks.lake.files import AddedFile, Committed, digest_of, has_batch, retried
from ingest.sinks.lake.superseded import NOWHERE, DeadRows, SupersededRows, key_groups, superseded_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from deltalake.transaction import AddAction, RemoveAction
    from pyarrow import NativeFile
    from pyarrow.fs import FileSystem


_FILES: Final = ".files"
"""End of the name under which a version has the digest of the files of its batch, beside the batch's number."""
PIPELINE: Final = "ingest-pipeline."
"""Beginning of the name under which a version has the number of a pipeline's checkpoint. Its end is the pipeline's."""
_GIVE_UP: Final = "give the batch up with ingest checkpoint reset --drop-batch, and its rows are read again"


def number_of(checkpoint: str) -> int:
    """Return a number that tells a checkpoint from others: a version has numbers only."""
    return int(hashlib.sha256(checkpoint.encode()).hexdigest()[:15], 16)


def has_older_progress(table: DeltaTable, checkpoint: str, pipeline: str) -> bool:
    """Return whether a pipeline has written to a table with other checkpoints, and not with this one."""
    found = table.transaction_version(PIPELINE + pipeline)
    return found not in {None, number_of(checkpoint)} and table.transaction_version(checkpoint) is None


def add_files(
    load: Callable[[], DeltaTable],
    place: FileSystem,
    files: Sequence[AddedFile],
    scope: str,
    batch: int,
    interval: int | None,
    pipeline: str = "",
) -> Committed:
    """Commit the files of a batch of a pipeline to a table, where that is not done yet; batch 0 is none, and never is.

    Returns the version that has it. Files that are in no table then are removed. It is tried again where another writer
    was faster. `load` returns the newest version, `place` has the table's files; `interval`: versions between two of
    upkeep, None for no upkeep. Raise LakeChangeError for a table that takes no rows of this tool, ConfigError for files
    that it cannot take, CheckpointError where the table is ahead of the checkpoint, and what the library raises.
    """
    written = list[str]()
    digest = int(digest_of(files)[:16], 16) >> 1
    owner = Transaction(PIPELINE + pipeline, number_of(scope.partition(".")[0]))
    notes = [Transaction(scope, batch), Transaction(scope + _FILES, digest), owner]
    metadata = {BATCH: str(batch), CHECKPOINT: scope}

    def commit() -> Committed:
        table = load()
        last, same_files = table.transaction_version(scope) or 0, table.transaction_version(scope + _FILES) == digest
        if batch and has_batch(last, batch, same_files=same_files):
            version = table.version()
            return Committed(version, due=interval is not None and table.transaction_version(COMPACTED) == version)
        _delete(place, written)  # files of a version that another writer's took the place of
        version, due = table.version() + 1, interval is not None and is_due(table, interval)
        more = [Transaction(COMPACTED, version)] if due else []
        return Committed(version, _commit(table, place, files, [*notes, *more], metadata, written), due)

    done = retried(commit, CommitFailedError)
    _delete(place, [file.path for file in files if file.gone])
    return done


def _delete(place: FileSystem, paths: list[str]) -> None:
    while paths:
        with suppress(OSError):  # before a crash it may have been removed, and it is in no table
            place.delete_file(paths.pop())


class _Version(NamedTuple):
    """The actions of a version, and the rows that become new files."""

    actions: list[AddAction | RemoveAction]
    remaining: list[RewrittenFile]
    deleted: str | None
    """The column that becomes true in rows that are marked as deleted; None where none is."""
    older: int
    """Rows of the batch that are older than their row in the table."""


def _commit(
    table: DeltaTable,
    place: FileSystem,
    files: Sequence[AddedFile],
    notes: list[Transaction],
    metadata: dict[str, str],
    written: list[str],
) -> int:
    """Commit a version; returns how many rows are left out as older ones.

    `metadata`: of the version, for the table's history. `written` gets the paths of the files that are made for it.
    """
    check_writable(table)
    schema, partitions = arrow_schema(table), DeltaPartitions.of(table)
    version = _planned(table, place, files, schema)
    for action in NewFiles(place, schema, partitions, files[-1].key).write(version.remaining, version.deleted):
        written.append(action.path)
        version.actions.append(action)
    table.create_write_transaction(
        version.actions,
        "append",
        table.schema(),
        partitions.names,
        commit_properties=CommitProperties(custom_metadata=metadata, max_commit_retries=0, app_transactions=notes),
    )
    return version.older


def _planned(table: DeltaTable, place: FileSystem, files: Sequence[AddedFile], schema: pa.Schema) -> _Version:
    key, existing = files[-1].key, existing_columns(table)
    deleted = next((one.deleted for one in files if one.gone and one.deleted is not None), None)
    _check_columns(key, deleted, files[-1].sequence, existing)
    types = [schema.field(name).type for name in key]
    keys, fit = [], []
    for one in files:
        values = values_of(one.partition)
        with _opened(place, one.path) as stream:
            parquet = pq.ParquetFile(stream)
            fit.append(_fits(one, parquet.schema_arrow, schema, existing, set(table.metadata().partition_columns)))
            if key:
                keys.append(pa.concat_tables([found for _, found in key_groups(parquet, key, types, None, values)]))
            else:
                given = [name for name, value in values.items() if value.is_valid]
                check_required([*given, *(one.name for one in parquet.schema_arrow if not one.nullable)], existing)
    rows: SupersededRows[ListedFile] = SupersededRows([DeadRows(NOWHERE)] * len(files), [])
    if key:
        check_required(key, existing)
        rows = superseded_rows(DeltaSearch(table, place, files), files, keys)
    actions: list[AddAction | RemoveAction] = []
    remaining = []
    for one, dead, fits in zip(files, rows.own, fit, strict=True):
        if not one.gone and (len(dead.positions) or not fits):  # somebody else may have changed the table meanwhile
            remaining.append(RewrittenFile(one.path, *dead, values_of(one.partition)))
        elif not one.gone:
            actions.append(action_of(place, one.path, one.partition))
    for file, dead in rows.others:
        actions.append(removed_file(file))
        remaining.append(RewrittenFile(file.path, *dead, file.known))
    return _Version(actions, remaining, deleted, rows.older)


def _check_columns(
    key: Sequence[str], deleted: str | None, sequence: str | None, existing: Mapping[str, ExistingColumn]
) -> None:
    """Raise LakeChangeError where rows of a batch could not be found, compared, or marked as deleted."""
    for name in key:
        if name not in existing:
            raise LakeChangeError(f"its column {name!r} of the key is gone, and rows that are there could not be found")
    if sequence is not None and sequence not in existing:
        raise LakeChangeError(f"its column {sequence!r}, which says which change is newer, is gone")
    if deleted is not None and (deleted not in existing or existing[deleted].type != BOOLEAN):
        msg = f"its column {deleted!r}, which says of a row that it is deleted, is gone or no BOOLEAN any more"
        raise LakeChangeError(msg)


def _opened(place: FileSystem, path: str) -> NativeFile:
    """Return a file of a batch to be read. Raise ConfigError where it is gone."""
    try:
        return place.open_input_file(path)
    except FileNotFoundError as exc:
        msg = f"the file {path} of a batch is gone: somebody has removed files that were in no table yet"
        raise ConfigError(msg, _GIVE_UP) from exc


def _fits(
    file: AddedFile,
    file_schema: pa.Schema,
    schema: pa.Schema,
    existing: Mapping[str, ExistingColumn],
    partitions: set[str],
) -> bool:
    """Return whether a file of a batch can be in a table as it is.

    Not if a column was dropped or became wider, or if the table has got other partitions. `file_schema`: that of the
    file. Raise ConfigError for a column of another type, which does not hold the file's values: it was created again.
    """
    whole = Schema([*Schema.from_arrow(file_schema).fields, *fields_of(file.partition)])
    for name, one in columns_of(whole).items():
        to = existing[name].type if name in existing else None
        if name in existing and one.type != to and (to is None or one.type is None or merge(to, one.type) != to):
            msg = f"the column {name!r} was created again as {existing[name].shown} since {file.path} was written with "
            raise ConfigError(msg + one.shown, _GIVE_UP)
    known = {one.column for one in file.partition}
    all_of = pa.schema(whole.to_arrow())
    return known == partitions and all(
        one.name in existing and schema.field(one.name).type == one.type for one in all_of
    )

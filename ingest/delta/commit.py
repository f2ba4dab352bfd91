"""Versions: the files of a batch become rows of a table, once, and the rows that they supersede are gone.

A version adds the files of a batch as they are. A file that is there and has rows which are superseded is removed in
the same version, and its other rows are in a new file. The version has the number of the batch, so that one that is
committed already is seen. Which rows those are is found in the version that the commit builds on: if another writer
comes in between, it is found anew. Rules: docs/spec/delta.md#delivery.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, Transaction
from deltalake.exceptions import CommitFailedError

from ingest.delta.actions import added_file, removed_file, watch_nans
from ingest.delta.files import write_parquet
from ingest.delta.superseded import Superseded, files_with, remaining_rows, rows_per_file
from ingest.delta.tables import arrow_schema, check_writable
from ingest.lake.key_groups import key_groups
from ingest.lake.keys import last_states

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from deltalake import DeltaTable
    from deltalake.transaction import AddAction, RemoveAction
    from pyarrow.fs import FileSystem

    from ingest.delta.warehouse import DeltaWarehouse
    from ingest.lake.table import AddedFile

_TRIES: Final = 8
_PAUSE_S: Final = 0.1


def has_batch(table: DeltaTable, scope: str, batch: int) -> bool:
    """Return whether a table has what a batch adds to it. The library takes the same number twice."""
    return (table.transaction_version(scope) or 0) >= batch


def add_files(
    warehouse: DeltaWarehouse, name: tuple[str, ...], files: Sequence[AddedFile], scope: str, batch: int
) -> None:
    """Commit the files of a batch to a table, where that is not done yet. Remove those that are in no table then.

    It is tried again where another writer was faster. Raise LakeChangeError for a table that takes no rows of this
    tool, and what the library raises.
    """
    place, made = warehouse.files(name), list[str]()
    for left in reversed(range(_TRIES)):
        table = warehouse.load(name)
        if has_batch(table, scope, batch):
            break
        _delete(place, made)  # files of a version that another writer's took the place of
        try:
            _commit(table, place, files, Transaction(scope, batch), made)
            break
        except CommitFailedError:
            if not left:
                raise
            time.sleep(_PAUSE_S * (_TRIES - left))
    _delete(place, [one.path for one in files if one.gone])


def _delete(place: FileSystem, paths: list[str]) -> None:
    while paths:
        with suppress(OSError):  # before a crash it may have been removed, and it is in no table
            place.delete_file(paths.pop())


class _Version(NamedTuple):
    """The actions of a version, and the rows that become new files."""

    actions: list[AddAction | RemoveAction]
    remaining: list[Superseded]


def _commit(
    table: DeltaTable, place: FileSystem, files: Sequence[AddedFile], transaction: Transaction, made: list[str]
) -> None:
    """Commit a version. `made` gets the paths of the files that are written for it."""
    check_writable(table)
    schema = arrow_schema(table)
    version = _planned(table, place, files, schema)
    for rows in rows_per_file(remaining_rows(place, version.remaining, schema)):
        nans: set[str] = set()
        path = write_parquet(place, schema, watch_nans(rows, nans), "rows")
        made.append(path)
        version.actions.append(_added(place, path, nans))
    table.create_write_transaction(
        version.actions, "append", table.schema(),
        commit_properties=CommitProperties(max_commit_retries=0, app_transactions=[transaction]),
    )  # fmt: skip


def _planned(table: DeltaTable, place: FileSystem, files: Sequence[AddedFile], schema: pa.Schema) -> _Version:
    key = files[-1].key
    types = [schema.field(name).type for name in key]
    keys, fit = [], []
    for one in files:
        with place.open_input_file(one.path) as stream:
            file = pq.ParquetFile(stream)
            fit.append(all(schema.field(there.name).type == there.type for there in file.schema_arrow))
            keys.append(pa.concat_tables([found for _, found in key_groups(file, key, types, None)]))
    distinct, superseded = last_states(keys)
    actions: list[AddAction | RemoveAction] = []
    remaining = []
    for one, positions, fits in zip(files, superseded, fit, strict=True):
        if not one.gone and (len(positions) or not fits):  # somebody else may have changed a type in the meantime
            remaining.append(Superseded(one.path, positions))
        elif not one.gone:
            actions.append(_added(place, one.path))
    for path, size, positions in files_with(table, place, distinct, key):
        actions.append(removed_file(path, size))
        remaining.append(Superseded(path, positions))
    return _Version(actions, remaining)


def _added(place: FileSystem, path: str, without: Collection[str] = ()) -> AddAction:
    """Return the action that adds a file."""
    with place.open_input_file(path) as stream:
        file, size = pq.ParquetFile(stream), stream.size()
        return added_file(path, size, file.metadata, file.schema_arrow, without)

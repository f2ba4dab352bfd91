"""Tables that are rewritten: small files become few, what only old snapshots have is removed, and types change.

Every batch adds a file of rows and a file of deletes, and the search for keys reads all of them. After some snapshots
small files and those with mostly dead rows are rewritten, and what deletes are left become one file. Big files stay.
A type that Iceberg makes of a column's type by no metadata takes a commit with the new schema and the same rows in new
files. Rules: docs/spec/iceberg.md#upkeep.
"""

from __future__ import annotations

import time
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.manifest import DataFile, DataFileContent, ManifestEntry
from pyiceberg.table.snapshots import Operation, Snapshot, Summary

from ingest.sinks.iceberg.commit import QuickTransaction, Replacement, deletes_files, live_entries, removed_if_it_fails
from ingest.sinks.iceberg.files import dead_positions, rows_of, written_files
from ingest.sinks.iceberg.tables import iceberg_type, is_floating, partition_of
from ingest.sinks.iceberg.writer import ParquetPlace
from ingest.sinks.lake.values import converted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.table import Table, Transaction

    from ingest.sinks.lake.changes import Changes


COMPACTED: Final = "ingest-compacted-at"
"""Property in which a table notes the sequence number of the snapshot that was compacted last."""
SMALL: Final = 64 << 20
"""Bytes of the smallest file that stays as it is."""
_AGE: Final = "history.expire.max-snapshot-age-ms"
_AT_LEAST: Final = "history.expire.min-snapshots-to-keep"
_DAY_MS: Final = 86_400_000


def is_due(table: Table, interval: int) -> bool:
    """Return whether a table has had this many snapshots since it was compacted."""
    return _newest(table) - int(table.metadata.properties.get(COMPACTED, 0)) >= interval


def _newest(table: Table) -> int:
    """Return the sequence number of the newest snapshot."""
    snapshot = table.current_snapshot()
    return 0 if snapshot is None else snapshot.sequence_number or 0


def compact(table: Table) -> None:
    """Rewrite small files and mostly dead ones, and deletes of the others into one file.

    It is left out where another writer was faster. Raise what the library raises.
    """
    found = live_entries(table)
    rows = [one for one in found if one.data_file.content == DataFileContent.DATA]
    deletes = [one for one in found if one.data_file.content != DataFileContent.DATA]
    gone = dead_positions(table.io, [one.data_file for one in deletes])
    rewritten = _to_rewrite(rows, gone)
    replaced = {one.data_file.file_path for one in rewritten}
    kept = [one for one in rows if one.data_file.file_path not in replaced]
    deletes_left = [(one.data_file, gone[one.data_file.file_path]) for one in kept if one.data_file.file_path in gone]
    quick = QuickTransaction(table)
    with suppress(CommitFailedException), removed_if_it_fails(table.io) as written, quick as transaction:
        transaction.set_properties({COMPACTED: str(_newest(table) + 1)})
        if len(rewritten) + len(deletes) > 1:
            snapshot = _Compaction(Operation.OVERWRITE, transaction, table.io)
            snapshot.replace(kept, [*rewritten, *deletes])
            for file in written_files(
                table.metadata, table.io, _rows(table, [one.data_file for one in rewritten], gone)
            ):
                written.append(file)
                snapshot.append_data_file(file)
            if deletes_left:
                merged = deletes_files(table, deletes_left)
                written.extend(merged)
                snapshot.append_deletes(merged)
            snapshot.commit()


def _to_rewrite(rows: Sequence[ManifestEntry], gone: Mapping[str, pa.Array]) -> list[ManifestEntry]:
    """Return the files that are small or mostly dead, but for those that are alone in a partition and all alive."""
    parts: dict[tuple[int, str], list[ManifestEntry]] = {}
    for one in rows:
        file = one.data_file
        dead = len(gone.get(file.file_path, ()))
        if file.file_size_in_bytes < SMALL or dead * 2 > file.record_count:
            parts.setdefault(partition_of(file), []).append(one)
    return [one for some in parts.values() if len(some) > 1 or some[0].data_file.file_path in gone for one in some]


def _rows(table: Table, files: Sequence[DataFile], gone: Mapping[str, pa.Array]) -> Iterator[pa.Table]:
    """Yield the rows of files that are not dead."""
    for file in files:
        yield from rows_of(table, file, gone.get(file.file_path))


class _Compaction(Replacement):
    """A snapshot with the same rows in other files."""

    def _summary(self, snapshot_properties: dict[str, str] | None = None) -> Summary:
        found = super()._summary(snapshot_properties)
        return Summary(Operation.REPLACE, **found.additional_properties)


def expire(table: Table) -> bool:
    """Remove snapshots that are older than the table says (one day), and files that only they have.

    Returns False for a table with branches or tags: its files are not looked at. Raise what the library raises.
    """
    metadata = table.metadata
    if set(metadata.refs) - {"main"}:
        return False
    line = sorted(metadata.snapshots, key=lambda one: one.sequence_number or 0)
    at_least = max(1, int(metadata.properties.get(_AT_LEAST, 1)))
    before = time.time() * 1000 - int(metadata.properties.get(_AGE, _DAY_MS))
    heads = {one.snapshot_id for one in metadata.refs.values()}
    old = [one for one in line[:-at_least] if one.timestamp_ms < before and one.snapshot_id not in heads]
    if not old:
        return True
    gone = {one.snapshot_id for one in old}
    left = [one for one in line if one.snapshot_id not in gone]
    # In a line, what the first one that stays does not have, no later one has; after a rollback it is no line
    straight = all(two.parent_snapshot_id == one.snapshot_id for one, two in pairwise(line))
    known: dict[str, set[str]] = {}
    stay = set().union(*(_files(table.io, one, known) for one in (left[:1] if straight else left)))
    removed = set().union(*(_files(table.io, one, known) for one in old)) - stay
    table.maintenance.expire_snapshots().by_ids(sorted(gone)).commit()
    for path in sorted(removed):
        with suppress(OSError):
            table.io.delete(path)
    return True


def _files(io: FileIO, snapshot: Snapshot, known: dict[str, set[str]]) -> set[str]:
    """Return all files of a snapshot. `known`: those of manifests that were read already."""
    out = {snapshot.manifest_list}
    for manifest in snapshot.manifests(io):
        if manifest.manifest_path not in known:
            entries = manifest.fetch_manifest_entry(io, discard_deleted=True)
            known[manifest.manifest_path] = {manifest.manifest_path, *(one.data_file.file_path for one in entries)}
        out |= known[manifest.manifest_path]
    return out


def rewrite(table: Table, changes: Changes, key: Sequence[str]) -> None:
    """Change a table, and rewrite its rows. Raise what the library raises."""
    order = [one.name for one in table.schema().fields]
    with QuickTransaction(table) as transaction:
        _change(transaction, changes, key, order)
        if table.current_snapshot() is None:
            return
        replaced = Replacement(Operation.OVERWRITE, transaction, table.io)
        replaced.replace([], live_entries(table))
        metadata = transaction.table_metadata
        to = ParquetPlace.of_metadata(metadata, table.io).schema
        for file in written_files(metadata, table.io, _converted(table, to, order, key)):
            replaced.append_data_file(file)
        replaced.commit()


def _change(transaction: Transaction, changes: Changes, key: Sequence[str], order: Sequence[str]) -> None:
    schema = transaction.table_metadata.schema()
    required = {one.name for one in schema.fields if one.required}
    identifiers = {schema.find_field(number).name for number in schema.identifier_field_ids}
    with transaction.update_schema(allow_incompatible_changes=True) as update:
        update.set_identifier_fields(*(set() if identifiers & changes.rewritten.keys() else identifiers))
        for name in changes.rewritten:
            update.delete_column((name,))
    with transaction.update_schema(allow_incompatible_changes=True) as update:
        for name, kind in changes.rewritten.items():
            update.add_column((name,), iceberg_type(kind), required=name in required)
            before = order[: order.index(name)]
            update.move_first(name) if not before else update.move_after(name, before[-1])
        for name, kind in changes.widened.items():
            update.update_column((name,), iceberg_type(kind))
        for name, kind in changes.added.items():
            update.add_column((name,), iceberg_type(kind))
        if identifiers == set(key) and not any(is_floating(changes.rewritten.get(name)) for name in key):
            update.set_identifier_fields(*identifiers)


def _converted(table: Table, to: pa.Schema, order: Sequence[str], key: Sequence[str]) -> Iterator[pa.Table]:
    """Yield the rows of a table in the columns of another schema, whose first columns have the same names."""
    for batch in table.scan(selected_fields=tuple(order)).to_arrow_batch_reader():
        rows = pa.table(batch)
        if rows.num_rows:
            columns = [
                converted(rows.column(at), to[at].type, of_key=name in key) for at, name in enumerate(rows.column_names)
            ]
            columns += [pa.nulls(rows.num_rows, one.type) for one in list(to)[rows.num_columns :]]
            yield pa.table(columns, schema=to)

"""Changes of Delta tables: new columns, and tables that are rewritten for a type, in one version each.

A version fails where another writer's came in between, as the rows that it has are those of the version before it.
Memory is bounded by a few groups of rows.
"""

from __future__ import annotations

from contextlib import contextmanager
from queue import Full, Queue
from threading import Event, Thread
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from deltalake import CommitProperties, Schema, TableFeatures, WriterProperties, write_deltalake

from ingest.sinks.delta.listing import listed_files
from ingest.sinks.delta.partitions import DeltaPartitions
from ingest.sinks.delta.rewriting import NewFiles
from ingest.sinks.delta.superseded import all_of, remaining_rows
from ingest.sinks.delta.tables import arrow_schema, field_of
from ingest.sinks.lake.columns import arrow_type

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from deltalake import DeltaTable
    from deltalake.transaction import AddAction, RemoveAction
    from pyarrow.fs import FileSystem

    from ingest.sinks.lake.changes import Changes

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
        _write_partitions_anew(table, place, schema, key)
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


def _write_partitions_anew(table: DeltaTable, place: FileSystem, schema: pa.Schema, key: Sequence[str]) -> None:
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

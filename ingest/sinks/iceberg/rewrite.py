"""Tables that are rewritten: for a type that Iceberg makes of a column's type by no metadata.

One commit has the new schema and a snapshot with the same rows in new files. Readers see the table before it or after
it. Memory is bounded by a group of rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.table.snapshots import Operation

from ingest.sinks.iceberg.commit import QuickTransaction, Replacement, live_entries
from ingest.sinks.iceberg.files import ParquetPlace, written_files
from ingest.sinks.iceberg.types import iceberg_type, is_floating
from ingest.sinks.lake.converted import converted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyiceberg.table import Table, Transaction

    from ingest.sinks.lake.changes import Changes


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

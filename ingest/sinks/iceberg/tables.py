"""Tables of an Iceberg catalog: the changes after which one takes rows.

In: the table that rows need, and the one that is there. Out: changes, or the reason why none will do. A change may be
repeated. Rules: docs/spec/iceberg.md#tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyiceberg.schema import Schema
from pyiceberg.types import DecimalType as IcebergDecimal
from pyiceberg.types import DoubleType, FloatType, IntegerType, LongType, NestedField

from ingest.sinks.iceberg.partitions import check_partitions
from ingest.sinks.iceberg.types import iceberg_type, is_floating, our_type
from ingest.sinks.lake.changes import ColumnThere, LakeChangeError, changes_of

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.types import IcebergType

    from ingest.sinks.lake.changes import Changes
    from ingest.sinks.lake.table import LakeTable

PROPERTIES: Final = {
    "format-version": "2",
    "write.parquet.compression-codec": "zstd",
    "write.parquet.compression-level": "1",
    "commit.manifest-merge.enabled": "true",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
    "history.expire.max-snapshot-age-ms": "86400000",
}
"""Properties of tables that are made here. Each commit rewrites the metadata, so old ones are removed."""


CODE: Final = frozenset({"write.py-location-provider.impl", "py-io-impl", "py-catalog-impl"})
"""Properties that name code for the library to load."""


def schema_of(table: LakeTable) -> Schema:
    """Return the schema of a table that is made. The key's columns are required, and identify a row where they can."""
    fields = [
        NestedField(number, one.name, iceberg_type(one.type), required=one.name in table.key)
        for number, one in enumerate(table.columns, 1)
    ]
    of_key = [one for one in fields if one.required]
    identifies = table.unique and not any(is_floating(one.type) for one in table.columns if one.name in table.key)
    return Schema(*fields, identifier_field_ids=[one.field_id for one in of_key] if identifies else [])


def changes(table: LakeTable, metadata: TableMetadata) -> Changes:
    """Return the changes after which a table that is there takes rows. Raise LakeChangeError where none will do."""
    if metadata.format_version != 2:
        msg = f"its format has version {metadata.format_version}, and this tool writes version 2"
        raise LakeChangeError(msg)
    if _has_equality_deletes(metadata):
        msg = (
            "another writer has left equality deletes in it, which this tool does not read: compact it with that writer"
        )
        raise LakeChangeError(msg)
    if metadata.properties.keys() & CODE:
        msg = f"it names code in its property {min(metadata.properties.keys() & CODE)}, which this tool does not run"
        raise LakeChangeError(msg)
    there = columns_there(metadata)
    has_rows = metadata.current_snapshot() is not None
    found = changes_of(table, there, iceberg_type, _promotes, has_rows=has_rows)
    check_partitions(metadata, [*found.rewritten])
    return found


def columns_there(metadata: TableMetadata) -> dict[str, ColumnThere]:
    """Return the columns of a table by their names."""
    fields = metadata.schema().fields
    return {one.name: ColumnThere(our_type(one.field_type), str(one.field_type), one.required) for one in fields}


def _has_equality_deletes(metadata: TableMetadata) -> bool:
    """Return whether rows of a table are gone by their values."""
    snapshot = metadata.current_snapshot()
    summary = None if snapshot is None else snapshot.summary
    return summary is not None and summary.get("total-equality-deletes", "0") != "0"


def _promotes(known: IcebergType, to: IcebergType) -> bool:
    """Return whether Iceberg reads values of a type as those of another."""
    if isinstance(known, IcebergDecimal) and isinstance(to, IcebergDecimal):
        return known.scale == to.scale and known.precision <= to.precision
    pairs = ((IntegerType, LongType), (FloatType, DoubleType))
    return any(isinstance(known, one) and isinstance(to, other) for one, other in pairs)

"""Tables of an Iceberg catalog: the changes after which one takes rows.

In: the table that rows need, and the one that is there. Out: changes, or the reason why none will do. A change may be
repeated. Rules: docs/spec/iceberg.md#tables.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pyiceberg.schema import Schema
from pyiceberg.types import DecimalType as IcebergDecimal
from pyiceberg.types import DoubleType, FloatType, IntegerType, LongType, NestedField

from ingest.iceberg.types import iceberg_type, is_floating, our_type
from ingest.model import types

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.types import IcebergType

    from ingest.lake.table import LakeTable
    from ingest.model.data_type import DataType

PROPERTIES: Final = {
    "format-version": "2",
    "write.parquet.compression-codec": "zstd",
    "write.parquet.compression-level": "1",
    "commit.manifest-merge.enabled": "true",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
    "history.expire.max-snapshot-age-ms": "86400000",
}
"""Properties of tables that are made here. Each commit writes the metadata anew, so old ones are removed."""


CODE: Final = frozenset({"write.py-location-provider.impl", "py-io-impl", "py-catalog-impl"})
"""Properties that name code for the library to load."""


class LakeChangeError(ValueError):
    """Error about a change that Iceberg cannot do. Its text says which."""


@dataclass(slots=True)
class Changes:
    """The changes after which a table takes rows."""

    added: dict[str, DataType] = field(default_factory=dict)
    """New columns with their types."""
    widened: dict[str, DataType] = field(default_factory=dict)
    """Columns whose type becomes a wider one by the table's metadata alone."""
    rewritten: dict[str, DataType] = field(default_factory=dict)
    """Columns whose type becomes one that Iceberg makes of theirs by no metadata: the table is written anew."""

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return bool(self.added or self.widened or self.rewritten)


def schema_of(table: LakeTable) -> Schema:
    """Return the schema of a table that is made. The key's columns are required, and identify a row where they can."""
    fields = [
        NestedField(number, one.name, iceberg_type(one.type), required=one.name in table.key)
        for number, one in enumerate(table.columns, 1)
    ]
    of_key = [one for one in fields if one.required]
    identifies = not any(is_floating(one.type) for one in table.columns if one.name in table.key)
    return Schema(*fields, identifier_field_ids=[one.field_id for one in of_key] if identifies else [])


def changes(table: LakeTable, metadata: TableMetadata) -> Changes:
    """Return the changes after which a table that is there takes rows. Raise LakeChangeError where none will do."""
    if metadata.format_version != 2:
        msg = f"its format has version {metadata.format_version}, and this tool writes version 2"
        raise LakeChangeError(msg)
    if not metadata.spec().is_unpartitioned():
        msg = "it has partitions, and this tool writes tables without"
        raise LakeChangeError(msg)
    if _has_equality_deletes(metadata):
        msg = (
            "another writer has left equality deletes in it, which this tool does not read: compact it with that writer"
        )
        raise LakeChangeError(msg)
    there = {one.name: one for one in metadata.schema().fields}
    wanted = {one.name: one.type for one in table.columns}
    for one in there.values():
        if one.required and one.name not in table.key:
            msg = f"its column {one.name!r} is required, and is no column of the key ({', '.join(table.key)})"
            raise LakeChangeError(msg)
    if metadata.properties.keys() & CODE:
        msg = f"it names code in its property {min(metadata.properties.keys() & CODE)}, which this tool does not run"
        raise LakeChangeError(msg)
    out = Changes()
    for name, kind in wanted.items():
        if name not in there and name in table.key and metadata.current_snapshot() is not None:
            msg = f"its column {name!r} of the key is gone, and rows that are there could not be found"
            raise LakeChangeError(msg)
        if name not in there:
            out.added[name] = kind
            continue
        known = our_type(there[name].field_type)
        if known is None:
            msg = f"its column {name!r} is {there[name].field_type}, and rows have {types.name(kind)}"
            raise LakeChangeError(msg)
        to = types.merge(known, kind)
        if iceberg_type(to) != there[name].field_type:
            place = out.widened if _promotes(there[name].field_type, iceberg_type(to)) else out.rewritten
            place[name] = to
    return out


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


def statements(table: LakeTable, found: Changes | None) -> Iterator[str]:
    """Yield changes as statements of SQL, for people; None: the table is not there."""
    name = ".".join(map(_quoted, table.id))
    if found is None:
        parts = [*_columns((one.name, one.type) for one in table.columns), f"PRIMARY KEY ({_listed(table.key)})"]
        yield f"CREATE TABLE {name} ({', '.join(parts)})"
        return
    for part in _columns(found.added.items()):
        yield f"ALTER TABLE {name} ADD COLUMN {part}"
    for column, kind in found.widened.items():
        yield f"ALTER TABLE {name} ALTER COLUMN {_quoted(column)} TYPE {types.name(kind)}"
    for column, kind in found.rewritten.items():
        yield f"ALTER TABLE {name} ALTER COLUMN {_quoted(column)} TYPE {types.name(kind)} (writes the table anew)"


def _columns(columns: Iterable[tuple[str, DataType]]) -> Iterator[str]:
    return (f"{_quoted(name)} {types.name(kind)}" for name, kind in columns)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(_quoted, names))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'

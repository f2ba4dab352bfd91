"""Tables of an Iceberg catalog: their types, their partitions, and the changes after which one takes rows.

Rules: docs/spec/iceberg.md#tables and docs/spec/iceberg.md#partitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.partitioning import PartitionField, PartitionSpec, partition_record_value
from pyiceberg.schema import Schema
from pyiceberg.transforms import TruncateTransform, UnknownTransform, VoidTransform, parse_transform
from pyiceberg.typedef import Record as Partition
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
)

from ingest.model import types
from ingest.sinks.lake.changes import Changes, ExistingColumn, LakeChangeError, changes_of
from ingest.sinks.lake.files import column_of, rows_apart
from ingest.sinks.lake.ordering import codes_of
from ingest.sinks.lake.values import reader_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyiceberg.manifest import DataFile
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.types import IcebergType

    from ingest.model.table import PartitionKey
    from ingest.model.types import DataType
    from ingest.sinks.lake.table import LakeTable


_PLAIN: Final[dict[DataType, IcebergType]] = {
    types.BOOLEAN: BooleanType(),
    types.TINYINT: IntegerType(),
    types.SMALLINT: IntegerType(),
    types.INT: IntegerType(),
    types.BIGINT: LongType(),
    types.FLOAT: FloatType(),
    types.DOUBLE: DoubleType(),
    types.STRING: StringType(),
    types.BYTES: BinaryType(),
    types.DATE: DateType(),
    types.TIMESTAMP: TimestampType(),
    types.TIMESTAMP_LTZ: TimestamptzType(),
}
_OURS: Final[dict[IcebergType, DataType]] = {
    **{of: one for one, of in _PLAIN.items() if one not in {types.TINYINT, types.SMALLINT}},
    TimeType(): types.TimeType(6),
}


def iceberg_type(data_type: DataType) -> IcebergType:
    """Return the type of a column of a lake, as Iceberg has it."""
    if types.is_text(data_type):
        return StringType()
    if isinstance(data_type, types.DecimalType):
        return DecimalType(data_type.precision, data_type.scale)
    return TimeType() if isinstance(data_type, types.TimeType) else _PLAIN[data_type]


def is_floating(data_type: DataType | None) -> bool:
    """Return whether a type is one of binary floating-point numbers: no identifier field has one."""
    return isinstance(data_type, (types.FloatType, types.DoubleType))


def our_type(found: IcebergType) -> DataType | None:
    """Return what a column that is there is for us; None for a type that no column of ours has."""
    if isinstance(found, DecimalType):
        return types.DecimalType(found.precision, found.scale)
    return _OURS.get(found)


_Rows: TypeAlias = "pa.Table | pa.RecordBatch"
FIRST_ID: Final = 1000
"""Number of the first field of a specification."""


class _Part(NamedTuple):
    """One field of a specification, with the column that it is made of."""

    field: PartitionField
    source: NestedField
    type: pa.DataType
    """The column's type in rows."""

    def values(self, rows: _Rows) -> pa.Array:
        """Return the values of the field in rows. Where they lack the column it is null."""
        if isinstance(self.field.transform, VoidTransform) or self.source.name not in rows.column_names:
            return pa.nulls(rows.num_rows, pa.int32())
        column = column_of(rows, self.source.name, self.type)
        return self.field.transform.pyarrow_transform(self.source.field_type)(column)


class Partitions:
    """The partitions that new files of a table are in."""

    def __init__(self, metadata: TableMetadata) -> None:
        """Take the table's specification. Raise ValueError where the library does not know its columns."""
        self._schema = metadata.schema()
        self._parts = []
        for field in metadata.spec().fields:
            source = self._schema.find_field(field.source_id)
            kind = schema_to_pyarrow(Schema(source), include_field_ids=False).types[0]
            kind = pa.binary() if kind == pa.large_binary() else kind  # there are transforms of the small one only
            self._parts.append(_Part(field, source, kind))
        self._cut = [
            (part.source.name, part.field.transform.width, types.DecimalType(kind.precision, kind.scale))
            for part in self._parts
            if isinstance(part.field.transform, TruncateTransform)
            and isinstance(kind := part.source.field_type, DecimalType)
        ]

    def __bool__(self) -> bool:
        """Return whether there are any: a table without has one."""
        return bool(self._parts)

    @property
    def sources(self) -> list[NestedField]:
        """The columns that partitions are made of."""
        return [part.source for part in self._parts]

    @property
    def narrow(self) -> bool:
        """True if a row may have a value that no partition has."""
        return bool(self._cut)

    def fault(self, values: Mapping[str, bytes]) -> str | None:
        """Return why a row with these texts can be in no partition; None where it can, or is no row at all."""
        for name, width, kind in self._cut:
            if values.get(name, b"null") == b"null":
                continue
            try:
                number, _ = reader_of(kind)(values[name])
            except ValueError:
                continue
            unscaled = int(f"{number:.{kind.scale}f}".replace(".", ""))
            if unscaled - unscaled % width <= -(10**kind.precision):
                return f"column {name!r} makes partitions, and {number:f} less its rest by {width} has too many digits"
        return None

    def split(self, rows: _Rows) -> Iterator[_Rows]:
        """Yield the rows of each partition, in their order. Raise LakeChangeError for very many partitions."""
        return rows_apart(rows, self._values(rows), "as with bucket or truncate")

    def _values(self, rows: _Rows) -> list[pa.Array]:
        return [part.values(rows) for part in self._parts]

    def of_rows(self, rows: _Rows) -> Partition:
        """Return the partition of rows. Raise ValueError where they are in several."""
        if not self._parts:
            return Partition()
        if len(set(codes_of(self._values(rows)).tolist())) != 1:
            msg = "the table's partitions were changed since rows were written: undo that, or give the batch up with"
            raise ValueError(f"{msg} ingest checkpoint reset --drop-batch, and its rows are read again")
        first = rows.slice(0, 1)
        return Partition(*(self._stored(part, part.values(first)[0].as_py()) for part in self._parts))

    def _stored(self, part: _Part, value: Any) -> Any:
        # A number is what a transform made, and the library would take one of a TIME for a time
        return value if isinstance(value, int) else partition_record_value(part.field, value, self._schema)


def partition_of(file: DataFile) -> tuple[int, str]:
    """Return what two files share that are in one partition."""
    return file.spec_id, repr([file.partition[at] for at in range(len(file.partition))])


def spec_of(table: LakeTable, schema: Schema) -> PartitionSpec:
    """Return the specification of a table that is made. Raise LakeChangeError for what the table cannot have."""
    taken = {one.name for one in schema.fields}
    fields = []
    for number, key in enumerate(table.layout.partitions, FIRST_ID):
        source = next((one for one in schema.fields if one.name == key.column), None)
        if source is None:
            raise LakeChangeError(f"partition-keys has {str(key)!r}, and rows have no column {key.column!r} so far")
        transform = parse_transform(key.transform + (f"[{key.width}]" if key.width else ""))
        if not transform.can_transform(source.field_type):
            msg = f"partition-keys has {str(key)!r}, and that cannot be made of a column that is {source.field_type}"
            raise LakeChangeError(msg)
        name = _name(key, taken)
        taken.add(name)
        fields.append(PartitionField(source.field_id, number, transform, name))
    return PartitionSpec(*fields)


def _name(key: PartitionKey, taken: set[str]) -> str:
    """Return the name of a field: that of its column where it is the column, and none that is taken."""
    if key.transform == "identity":
        return key.column
    name = f"{key.column}_{key.transform}"
    while name in taken:
        name += "_"
    return name


def check_partitions(metadata: TableMetadata, rewritten: Sequence[str]) -> None:
    """Raise LakeChangeError for partitions that this tool does not know, or made of a column that is created again."""
    for spec in metadata.specs().values():
        for field in spec.fields:
            if isinstance(field.transform, UnknownTransform):
                raise LakeChangeError(f"its partitions are made by {field.transform}, which this tool does not know")
            source = next((one for one in metadata.schema().fields if one.field_id == field.source_id), None)
            if source is None and not isinstance(field.transform, VoidTransform):
                msg = f"its partitions ({field.name}) are made of a column inside of another, or of one that is gone"
                raise LakeChangeError(msg)
            if source is not None and source.name in rewritten:
                msg = f"its column {source.name!r} makes partitions, so that it cannot become of another type"
                raise LakeChangeError(msg)


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
        raise LakeChangeError(f"its format has version {metadata.format_version}, and this tool writes version 2")
    if _has_equality_deletes(metadata):
        msg = (
            "another writer has left equality deletes in it, which this tool does not read: compact it with that writer"
        )
        raise LakeChangeError(msg)
    if metadata.properties.keys() & CODE:
        msg = f"it names code in its property {min(metadata.properties.keys() & CODE)}, which this tool does not run"
        raise LakeChangeError(msg)
    existing = existing_columns(metadata)
    has_rows = metadata.current_snapshot() is not None
    found = changes_of(table, existing, iceberg_type, _promotes, has_rows=has_rows)
    check_partitions(metadata, [*found.rewritten])
    return found


def existing_columns(metadata: TableMetadata) -> dict[str, ExistingColumn]:
    """Return the columns of a table by their names."""
    fields = metadata.schema().fields
    return {one.name: ExistingColumn(our_type(one.field_type), str(one.field_type), one.required) for one in fields}


def _has_equality_deletes(metadata: TableMetadata) -> bool:
    """Return whether rows of a table are gone by their values."""
    snapshot = metadata.current_snapshot()
    summary = None if snapshot is None else snapshot.summary
    return summary is not None and summary.get("total-equality-deletes", "0") != "0"


def _promotes(known: IcebergType, to: IcebergType) -> bool:
    """Return whether Iceberg reads values of a type as those of another."""
    if isinstance(known, DecimalType) and isinstance(to, DecimalType):
        return known.scale == to.scale and known.precision <= to.precision
    pairs = ((IntegerType, LongType), (FloatType, DoubleType))
    return any(isinstance(known, one) and isinstance(to, other) for one, other in pairs)

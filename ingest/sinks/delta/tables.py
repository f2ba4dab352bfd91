"""Delta tables: their types, their partitions, the changes after which one takes rows, and which tables never do.

A file lacks the columns that make partitions: the version that adds it has their values, as texts of the protocol's. No
path has a value, since values come from messages. Rules: docs/spec/delta.md#tables and docs/spec/delta.md#partitions.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, Field, QueryBuilder, Schema
from deltalake.schema import ArrayType, MapType, PrimitiveType, StructType

from ingest.model import types
from ingest.model.numbers import LARGEST
from ingest.model.types import DataType, DecimalType
from ingest.sinks.lake.changes import Changes, ExistingColumn, LakeChangeError, changes_of
from ingest.sinks.lake.files import PartitionValue, column_of, rows_apart
from ingest.sinks.lake.superseded import repeated
from ingest.sinks.lake.values import converted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from ingest.sinks.lake.table import LakeTable


_THERE: Final = {
    "boolean": types.BOOLEAN,
    "byte": types.TINYINT,
    "short": types.SMALLINT,
    "integer": types.INT,
    "long": types.BIGINT,
    "float": types.FLOAT,
    "double": types.DOUBLE,
    "string": types.STRING,
    "binary": types.BYTES,
    "date": types.DATE,
    "timestamp_ntz": types.TIMESTAMP,
    "timestamp": types.TIMESTAMP_LTZ,
}
_DELTA_TYPES: Final = {ours: name for name, ours in _THERE.items()}
_DECIMAL: Final = re.compile(r"decimal\((\d+),\s*(\d+)\)")


def same_type(data_type: DataType) -> str:
    """Return the type of Delta that is the same as one of a lake's columns."""
    if types.is_text(data_type):
        return "string"
    if isinstance(data_type, types.DecimalType):
        return f"decimal({data_type.precision},{data_type.scale})"
    return _DELTA_TYPES[data_type]


def delta_type(data_type: DataType) -> str:
    """Return the type of a column that is made. Small integers get `integer`, as no type can be widened there."""
    return "integer" if data_type in {types.TINYINT, types.SMALLINT} else same_type(data_type)


def our_type(found: str) -> DataType | None:
    """Return what a column that is there is for us; None for a type that no column of ours has."""
    decimal = _DECIMAL.fullmatch(found)
    return types.DecimalType(int(decimal[1]), int(decimal[2])) if decimal else _THERE.get(found)


Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)
_NONE: Final = frozenset({"binary", "void", "variant"})
"""Types by which a table cannot be partitioned: readers do not agree on texts of their values, or there are none."""
_INTEGERS: Final = (types.TINYINT, types.SMALLINT, types.INT, types.BIGINT)
_NAMES: Final = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
"""Names of doubles that are no finite numbers, by Python's names, as readers in other languages have them."""


class DeltaPartitions:
    """The partitions of a table."""

    def __init__(self, schema: Schema, names: Sequence[str]) -> None:
        """`names`: of the columns of the schema by which the table is partitioned."""
        fields = {one.name: one for one in schema.fields}
        chosen = [fields[name] for name in names]
        self.names = list(names)
        """The columns, in the order of the partitions."""
        self._kinds = [getattr(one.type, "type", "") for one in chosen]
        self._columns = [(one.name, one.type) for one in pa.schema(Schema(chosen).to_arrow())]
        self._required = {one.name for one in chosen if not one.nullable}

    @classmethod
    def of(cls, table: DeltaTable) -> DeltaPartitions:
        """Return the partitions of a table that is there."""
        return cls(table.schema(), table.metadata().partition_columns)

    @property
    def texts(self) -> list[str]:
        """Names of the columns whose values are texts."""
        return [name for name, kind in self._columns if _is_text(kind)]

    def without(self, schema: pa.Schema) -> pa.Schema:
        """Return the columns of a schema that files have."""
        return pa.schema([one for one in schema if one.name not in self.names])

    def split(self, rows: Rows) -> Iterator[tuple[tuple[PartitionValue, ...], Rows]]:
        """Yield the rows of each partition with its values. Raise LakeChangeError for very many of them.

        The rows still have all of their columns.
        """
        for part in rows_apart(rows, self._values(rows), "as with a column that has a day in the place of a time"):
            yield self._partition([column[0] for column in self._values(part.slice(0, 1))]), part

    def _values(self, rows: pa.Table | pa.RecordBatch) -> list[pa.Array]:
        """Return the columns that make partitions. An empty text is null, as the protocol has it."""
        columns = [(column_of(rows, name, kind), kind) for name, kind in self._columns]
        return [
            pc.if_else(pc.equal(column, ""), pa.scalar(None, kind), column) if _is_text(kind) else column
            for column, kind in columns
        ]

    def of_known(self, known: Mapping[str, pa.Scalar], key: Collection[str] = ()) -> tuple[PartitionValue, ...] | None:
        """Return the partition of a file by the values that its rows have in columns which it lacks.

        None where it lacks other columns: the table has got other partitions since it was written. `key`: columns of
        the primary key.
        """
        if set(known) != set(self.names):
            return None
        values = (converted(repeated(known[name], 1), kind, of_key=name in key)[0] for name, kind in self._columns)
        return self._partition(list(values))

    def _partition(self, values: Sequence[pa.Scalar]) -> tuple[PartitionValue, ...]:
        found = tuple(PartitionValue(*one) for one in zip(self.names, self._kinds, map(text_of, values), strict=True))
        for name, _, text in found:
            if text is None and name in self._required:
                msg = f"its column {name!r} makes partitions and is required, and a row has no value or no text in it"
                raise LakeChangeError(msg)
        return found


def _is_text(kind: pa.DataType) -> bool:
    return any(of_kind(kind) for of_kind in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view))


def text_of(value: pa.Scalar) -> str | None:
    """Return the text of a value, as a version has it. None for a null, and for an empty text, which is a null there.

    A moment has its zone, or readers would take that of their session.
    """
    kind = value.type
    if not value.is_valid:
        return None
    if pa.types.is_floating(kind):
        return _NAMES.get(repr(value.as_py()), repr(value.as_py()))
    if pa.types.is_decimal(kind):  # Arrow's own text may have an exponent, and readers want all digits of the fraction
        return f"{value.as_py():f}"
    if pa.types.is_timestamp(kind):
        text: str = value.cast(pa.timestamp("us")).cast(pa.string()).as_py()
        return text if kind.tz is None else text.replace(" ", "T") + "Z"
    found: str = value.cast(pa.string()).as_py()
    return found or None


def values_of(partition: Iterable[PartitionValue]) -> dict[str, pa.Scalar]:
    """Return by column the values that texts say. Raise pa.ArrowInvalid for what is none of the column's type."""
    out = {}
    for name, kind, text in partition:
        (to,) = pa.schema(Schema([Field(name, PrimitiveType(kind))]).to_arrow()).types
        out[name] = pa.scalar(text, pa.string()).cast(to)
    return out


def texts_of(partition: Iterable[PartitionValue]) -> dict[str, str | None]:
    """Return a partition as a version has it."""
    return {name: text for name, _, text in partition}


def fields_of(partition: Iterable[PartitionValue]) -> list[Field]:
    """Return the columns of a partition with their types."""
    return [Field(name, PrimitiveType(kind)) for name, kind, _ in partition]


def partition_columns(table: LakeTable) -> list[str]:
    """Return the columns by which a table that is made is partitioned. Raise LakeChangeError where that cannot be."""
    kinds = {one.name: delta_type(one.type) for one in table.columns}
    names = [key.column for key in table.layout.partitions]
    for name in names:
        if name not in kinds:
            raise LakeChangeError(f"partition-keys has {name!r}, and rows have no column {name!r} so far")
        if kinds[name] in _NONE:
            msg = f"partition-keys has {name!r}, and no partitions can be made of a column that is {kinds[name]}"
            raise LakeChangeError(msg)
    if names and set(names) == set(kinds):
        msg = f"partition-keys has all of its columns ({', '.join(names)}), so that files would have none"
        raise LakeChangeError(msg)
    return names


def check_partitions(table: DeltaTable) -> None:
    """Raise LakeChangeError for a table with partitions that this tool does not write."""
    names, fields = table.metadata().partition_columns, table.schema().fields
    for one in fields:
        kind = getattr(one.type, "type", None)
        if one.name in names and (kind is None or kind in _NONE):
            raise LakeChangeError(f"its partitions are made of the column {one.name!r}, which is {kind or one.type}")
    if names and len(names) == len(fields):
        raise LakeChangeError(f"all of its columns make partitions ({', '.join(names)}), so that files would have none")


def reads_texts(known: DataType, to: DataType) -> bool:
    """Return whether texts of one type's values are texts of another's, which readers want of all that a log has."""
    if isinstance(known, DecimalType) and isinstance(to, DecimalType):
        return known.scale == to.scale
    of_integer = known in _INTEGERS and to in {*_INTEGERS, types.FLOAT, types.DOUBLE}
    return of_integer or types.is_text(to) or (known, to) == (types.FLOAT, types.DOUBLE)


_FEATURES: Final = frozenset({
    "appendOnly", "changeDataFeed", "checkConstraints", "columnMapping", "generatedColumns", "identityColumns",
    "invariants", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck",
})  # fmt: skip
"""Features that a table may have: those that ask nothing of a writer, or only where a setting below uses them."""
_USED: Final = {
    "delta.appendOnly": "true",
    "delta.enableChangeDataFeed": "true",
    "delta.enableDeletionVectors": "true",
    "delta.enableRowTracking": "true",
}
_NEVER: Final = frozenset({"delta.setTransactionRetentionDuration"})
"""Properties that a table must not have: by this one it forgets which batch it has."""
PROPERTIES: Final = {"delta.checkpointInterval": "20"}
"""Properties of tables that are made here. Versions since the last checkpoint are read by each commit."""
_CHAR: Final = "__CHAR_VARCHAR_TYPE_STRING"
"""Name under which Spark keeps how long texts of a column may be."""


def schema_of(table: LakeTable) -> Schema:
    """Return the schema of a table that is made. The key's columns are required."""
    return Schema([field_of(one.name, one.type, required=one.name in table.key) for one in table.columns])


def field_of(name: str, kind: DataType, *, required: bool = False) -> Field:
    """Return a column of a schema."""
    return Field(name, PrimitiveType(delta_type(kind)), nullable=not required)


def arrow_schema(table: DeltaTable) -> pa.Schema:
    """Return the columns of a table as Arrow has them."""
    return pa.schema(table.schema().to_arrow())


def changes(table: LakeTable, existing: DeltaTable) -> Changes:
    """Return the changes after which a table that is there takes rows. Raise LakeChangeError where none will do."""
    check_writable(existing)
    has_rows = bool(existing.get_add_actions().num_rows)
    known = existing_columns(existing)
    out = changes_of(table, known, same_type, lambda _known, _to: False, has_rows=has_rows)
    for name in existing.metadata().partition_columns:
        old, new = known[name].type, out.rewritten.get(name)
        if old is not None and new is not None and not reads_texts(old, new):
            raise LakeChangeError(f"its column {name!r} makes partitions, so that it cannot become {types.name(new)}")
    return out


def existing_columns(table: DeltaTable) -> dict[str, ExistingColumn]:
    """Return the columns of a table by their names."""
    return columns_of(table.schema())


def columns_of(schema: Schema) -> dict[str, ExistingColumn]:
    """Return the columns of a schema by their names."""
    out = {}
    for one in schema.fields:
        shown = _shown(one.type)
        bounded = one.metadata.get(_CHAR)
        kind = our_type(shown) if bounded is None else None
        out[one.name] = ExistingColumn(kind, str(bounded or shown), not one.nullable)
    return out


def _shown(kind: object) -> str:
    """Return a type of Delta as Spark shows it: `struct<a:integer>`."""
    if isinstance(kind, StructType):
        return f"struct<{','.join(f'{one.name}:{_shown(one.type)}' for one in kind.fields)}>"
    if isinstance(kind, ArrayType):
        return f"array<{_shown(kind.element_type)}>"
    if isinstance(kind, MapType):
        return f"map<{_shown(kind.key_type)},{_shown(kind.value_type)}>"
    return kind.type if isinstance(kind, PrimitiveType) else str(kind)


def has_beyond(table: DeltaTable, name: str) -> bool:
    """Return whether a BIGINT column holds an integer beyond ±2^53. Raise what the library raises."""
    if existing_columns(table)[name].type != types.BIGINT:
        return False
    column = '"' + name.replace('"', '""') + '"'
    query = f"SELECT 1 FROM t WHERE {column} > {LARGEST} OR {column} < -{LARGEST} LIMIT 1"  # noqa: S608  (it is quoted)
    return bool(pa.table(QueryBuilder().register("t", table).execute(query)).num_rows)


def check_writable(table: DeltaTable) -> None:
    """Raise LakeChangeError for a table of which a writer has to know more than files of rows."""
    metadata, protocol = table.metadata(), table.protocol()
    check_partitions(table)
    features = {*(protocol.writer_features or ()), *(protocol.reader_features or ())}
    other = sorted(features - _FEATURES)
    if other:
        raise LakeChangeError(f"it has the table features {', '.join(other)}, which this tool does not write")
    for name, value in metadata.configuration.items():
        used = name == "delta.columnMapping.mode" and value != "none"
        if used or name in _NEVER or name.startswith("delta.constraints.") or (value or "").lower() == _USED.get(name):
            raise LakeChangeError(f"it has the property {name} = {value}, which this tool does not heed")
    for one in table.schema().fields:
        for name in one.metadata:
            if name.startswith("delta."):
                raise LakeChangeError(f"its column {one.name!r} has {name}, which this tool does not heed")

"""Delta tables: the schema of one that is made, the changes after which one takes rows, and which tables never do.

Rules: docs/spec/delta.md#tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
from deltalake import Field, QueryBuilder, Schema
from deltalake.schema import ArrayType, MapType, PrimitiveType, StructType

from ingest.model import types
from ingest.model.numbers import LARGEST
from ingest.sinks.delta.partitions import check_partitions, reads_texts
from ingest.sinks.delta.types import delta_type, our_type, same_type
from ingest.sinks.lake.changes import ColumnThere, LakeChangeError, changes_of

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from ingest.model.data_type import DataType
    from ingest.sinks.lake.changes import Changes
    from ingest.sinks.lake.table import LakeTable

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


def changes(table: LakeTable, there: DeltaTable) -> Changes:
    """Return the changes after which a table that is there takes rows. Raise LakeChangeError where none will do."""
    check_writable(there)
    has_rows = bool(there.get_add_actions().num_rows)
    known = columns_there(there)
    found = changes_of(table, known, same_type, lambda _known, _to: False, has_rows=has_rows)
    for name in there.metadata().partition_columns:
        old, new = known[name].type, found.rewritten.get(name)
        if old is not None and new is not None and not reads_texts(old, new):
            msg = f"its column {name!r} makes partitions, so that it cannot become {types.name(new)}"
            raise LakeChangeError(msg)
    return found


def columns_there(table: DeltaTable) -> dict[str, ColumnThere]:
    """Return the columns of a table by their names."""
    return columns_of(table.schema())


def columns_of(schema: Schema) -> dict[str, ColumnThere]:
    """Return the columns of a schema by their names."""
    out = {}
    for one in schema.fields:
        shown = _shown(one.type)
        bounded = one.metadata.get(_CHAR)
        kind = our_type(shown) if bounded is None else None
        out[one.name] = ColumnThere(kind, str(bounded or shown), not one.nullable)
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
    if columns_there(table)[name].type != types.BIGINT:
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
        msg = f"it has the table features {', '.join(other)}, which this tool does not write"
        raise LakeChangeError(msg)
    for name, value in metadata.configuration.items():
        used = name == "delta.columnMapping.mode" and value != "none"
        if used or name in _NEVER or name.startswith("delta.constraints.") or (value or "").lower() == _USED.get(name):
            msg = f"it has the property {name} = {value}, which this tool does not heed"
            raise LakeChangeError(msg)
    for one in table.schema().fields:
        for name in one.metadata:
            if name.startswith("delta."):
                msg = f"its column {one.name!r} has {name}, which this tool does not heed"
                raise LakeChangeError(msg)

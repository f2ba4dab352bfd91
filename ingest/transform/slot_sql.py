"""SQL between the values of slots, which few types have, and values of a column's own type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ingest.encode.compiled_transform import slot_of
from ingest.model import types
from ingest.model.data_type import ArrayType, BinaryType, MapType, NullType, StructType, TimestampType
from ingest.transform.spark_types import VARIANT, sql_name

if TYPE_CHECKING:
    from ingest.model.data_type import DataType

SLOT_TYPES: Final = {"s": "string", "l": "bigint", "d": "double", "b": "boolean"}
"""The SQL type of a slot, by the letter that its name begins with."""
_JSON: Final = (
    "map('ignoreNullFields', 'false', 'timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSSX', "
    "'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')"
)


def received(slot: str, data_type: DataType) -> str:
    """Return SQL that turns a slot's value into a value of the column's own type."""
    if slot[0] in "db" or data_type == types.BIGINT or types.is_text(data_type):
        return slot
    if isinstance(data_type, NullType):
        return "CAST(NULL AS STRING)"
    if isinstance(data_type, BinaryType):
        return f"unbase64({slot})"
    if isinstance(data_type, (ArrayType, MapType, StructType)):
        return f"from_json({slot}, '{quoted(sql_name(data_type))}')"
    return f"CAST({slot} AS {sql_name(data_type)})"


def sent(sql: str, data_type: DataType) -> str:
    """Return SQL that turns an expression's result into a value of its slot's type."""
    slot = slot_of(data_type)
    if slot == "l":
        return f"CAST({sql} AS BIGINT)"
    if slot in "db":
        return sql
    if isinstance(data_type, BinaryType):
        return f"base64({sql})"
    if isinstance(data_type, TimestampType):
        return f"CAST(unix_micros({sql}) AS STRING)"
    if data_type == VARIANT or isinstance(data_type, (ArrayType, MapType, StructType)):
        return f"to_json({sql}, {_JSON})"
    return f"CAST({sql} AS STRING)"


def kept(data_type: DataType) -> DataType:
    """Return the type of the column that a result becomes. A VARIANT becomes a STRING."""
    return types.STRING if data_type == VARIANT else data_type


def literal_type(column: str) -> str:
    """Return the SQL type of a column that stands for a literal."""
    return "string" if column.startswith("_text") else "int"


def quoted(text: str) -> str:
    """Return a text as it stands between quotes in SQL."""
    return text.replace("\\", "\\\\").replace("'", "\\'")


def next_slot(counts: dict[str, int], data_type: DataType) -> str:
    """Return the next free slot for values of a type, and count it."""
    kind = slot_of(data_type)
    counts[kind] += 1
    return f"{kind}{counts[kind] - 1}"

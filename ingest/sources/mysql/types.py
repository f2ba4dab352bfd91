"""The type of each column of MySQL and MariaDB, and the JSON text that its values have in the source's records.

Snapshot and log write the same text for a value: that of the table in docs/spec/mysql.md#types.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ingest.model import types
from ingest.model.data_type import CharType, DecimalType, TimeType, VarcharType
from ingest.model.values import fits

if TYPE_CHECKING:
    from ingest.model.data_type import DataType
    from ingest.sources.mysql.columns import Column

BIGINT_UNSIGNED: Final = DecimalType(20, 0)
_SIGNED: Final[dict[str, DataType]] = {
    "tinyint": types.TINYINT,
    "smallint": types.SMALLINT,
    "mediumint": types.INT,
    "int": types.INT,
    "bigint": types.BIGINT,
}
_UNSIGNED: Final[dict[str, DataType]] = {
    "tinyint": types.SMALLINT,
    "smallint": types.INT,
    "mediumint": types.INT,
    "int": types.BIGINT,
    "bigint": BIGINT_UNSIGNED,
}
_SIMPLE: Final[dict[str, DataType]] = {
    "double": types.DOUBLE,
    "year": types.INT,
    "date": types.DATE,
    "datetime": types.TIMESTAMP,
    "timestamp": types.TIMESTAMP_LTZ,
}
TEXTS: Final = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext"})
BINARIES: Final = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "vector"})
GEOMETRIES: Final = frozenset({
    "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon",
    "geometrycollection", "geomcollection",
})  # fmt: skip
FIXED: Final[dict[str, int]] = {"uuid": 16, "inet6": 16, "inet4": 4}
"""MariaDB's types that have a fixed number of bytes in the log, and a text in a query."""
_OTHERS: Final = frozenset({"enum", "set", "json", "xmltype"})
KNOWN: Final = (
    frozenset({*_SIGNED, *_SIMPLE, *FIXED, "float", "decimal", "bit", "time"}) | TEXTS | BINARIES | GEOMETRIES | _OTHERS
)
"""Every type that a column may have, by the name that information_schema has in DATA_TYPE."""


def data_type(column: Column, *, tinyint1_as_boolean: bool = False) -> DataType:
    """Return the type of a column. A column of a type that is not known is a STRING.

    `tinyint1_as_boolean`: the option `treat-tinyint1-as-boolean.enabled`.
    """
    kind = column.type
    if kind in _SIGNED:
        if column.unsigned:
            return _UNSIGNED[kind]
        return types.BOOLEAN if tinyint1_as_boolean and is_tinyint1(column) else _SIGNED[kind]
    if kind == "decimal":
        precision, scale = 10 if column.precision is None else column.precision, column.scale or 0
        return types.STRING if precision > types.MAX_PRECISION else DecimalType(precision, scale)
    if kind == "float":
        return types.FLOAT if column.precision is None else types.DOUBLE
    if kind == "bit":
        return types.BOOLEAN if column.length in {None, 1} else types.BYTES
    if kind == "time":
        return TimeType(column.fsp)
    if kind in {"char", "varchar"}:
        length = max(1 if column.length is None else column.length, 1)
        return CharType(length) if kind == "char" else VarcharType(length)
    if kind in BINARIES:
        return types.BYTES
    return _SIMPLE.get(kind, types.STRING)


_DAY: Final = re.compile(rb'"[0-9]{4}-[0-9]{2}-[0-9]{2}(?: [0-9:.]{8,15})?Z?"')


def is_no_day(data_type: DataType, text: bytes) -> bool:
    """Return whether a value is a date of MySQL's that is none of the calendar, as `"0000-00-00"`."""
    return isinstance(data_type, types.TIMES) and _DAY.fullmatch(text) is not None and not fits(data_type, text)


def is_tinyint1(column: Column) -> bool:
    """Return whether a column is TINYINT(1), of which BOOL and BOOLEAN are other names."""
    return column.type == "tinyint" and column.length == 1 and not column.unsigned


def boolean(value: int) -> bytes:
    """Return the JSON text of a TINYINT(1) that the pipeline takes as a BOOLEAN.

    A number that is neither 0 nor 1 stays a number, which a BOOLEAN column rejects: `type-mismatch`.
    """
    return b"true" if value == 1 else b"false" if value == 0 else str(value).encode()

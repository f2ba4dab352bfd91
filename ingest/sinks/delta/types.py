"""Types of Delta beside ours: the type that a column gets there, and the one that a column there has for us."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ingest.model import data_type as ours
from ingest.model import types

if TYPE_CHECKING:
    from ingest.model.data_type import DataType

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
_NAMES: Final = {ours: name for name, ours in _THERE.items()}
_DECIMAL: Final = re.compile(r"decimal\((\d+),\s*(\d+)\)")


def same_type(data_type: DataType) -> str:
    """Return the type of Delta that is the same as one of a lake's columns."""
    if types.is_text(data_type):
        return "string"
    if isinstance(data_type, ours.DecimalType):
        return f"decimal({data_type.precision},{data_type.scale})"
    return _NAMES[data_type]


def delta_type(data_type: DataType) -> str:
    """Return the type of a column that is made. Small integers get `integer`, as no type can be widened there."""
    return "integer" if data_type in {types.TINYINT, types.SMALLINT} else same_type(data_type)


def our_type(found: str) -> DataType | None:
    """Return what a column that is there is for us; None for a type that no column of ours has."""
    decimal = _DECIMAL.fullmatch(found)
    return ours.DecimalType(int(decimal[1]), int(decimal[2])) if decimal else _THERE.get(found)

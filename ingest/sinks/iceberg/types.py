"""Types of Iceberg beside ours: what each is there, and which of two holds the values of both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
)

from ingest.model import data_type as ours
from ingest.model import types

if TYPE_CHECKING:
    from pyiceberg.types import IcebergType

    from ingest.model.data_type import DataType

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
    TimeType(): ours.TimeType(6),
}


def iceberg_type(data_type: DataType) -> IcebergType:
    """Return the type of a column of a lake, as Iceberg has it."""
    if types.is_text(data_type):
        return StringType()
    if isinstance(data_type, ours.DecimalType):
        return DecimalType(data_type.precision, data_type.scale)
    return TimeType() if isinstance(data_type, ours.TimeType) else _PLAIN[data_type]


def is_floating(data_type: DataType | None) -> bool:
    """Return whether a type is one of binary floating-point numbers: no identifier field has one."""
    return isinstance(data_type, (ours.FloatType, ours.DoubleType))


def our_type(found: IcebergType) -> DataType | None:
    """Return what a column that is there is for us; None for a type that no column of ours has."""
    if isinstance(found, DecimalType):
        return ours.DecimalType(found.precision, found.scale)
    return _OURS.get(found)

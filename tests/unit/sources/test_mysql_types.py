"""Types of MySQL's columns, and texts of values that are put together here: docs/spec/mysql.md#types."""

from __future__ import annotations

import struct

import msgspec
import pytest

from ingest.model import types
from ingest.sources.mysql.binary_values import geometry
from ingest.sources.mysql.types import KNOWN, Column, boolean, data_type


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (Column("c", "tinyint"), "TINYINT"),
        (Column("c", "tinyint", length=1), "TINYINT"),
        (Column("c", "tinyint", unsigned=True), "SMALLINT"),
        (Column("c", "smallint", unsigned=True), "INT"),
        (Column("c", "mediumint", unsigned=True), "INT"),
        (Column("c", "int"), "INT"),
        (Column("c", "int", unsigned=True), "BIGINT"),
        (Column("c", "bigint", unsigned=True), "DECIMAL(20,0)"),
        (Column("c", "decimal", precision=10, scale=2), "DECIMAL(10,2)"),
        (Column("c", "decimal", precision=38, scale=38), "DECIMAL(38,38)"),
        (Column("c", "decimal", precision=39, scale=2), "STRING"),
        (Column("c", "float"), "FLOAT"),
        (Column("c", "float", precision=7, scale=3), "DOUBLE"),
        (Column("c", "double", precision=7, scale=3), "DOUBLE"),
        (Column("c", "bit", length=1), "BOOLEAN"),
        (Column("c", "bit", length=9), "BYTES"),
        (Column("c", "date"), "DATE"),
        (Column("c", "time", fsp=3), "TIME(3)"),
        (Column("c", "datetime", fsp=6), "TIMESTAMP"),
        (Column("c", "timestamp"), "TIMESTAMP_LTZ"),
        (Column("c", "year", length=4), "INT"),
        (Column("c", "char", length=3), "CHAR(3)"),
        (Column("c", "varchar", length=0), "VARCHAR(1)"),
        (Column("c", "longtext"), "STRING"),
        (Column("c", "binary", length=3), "BYTES"),
        (Column("c", "mediumblob"), "BYTES"),
        (Column("c", "enum", labels=("a",)), "STRING"),
        (Column("c", "json"), "STRING"),
        (Column("c", "point"), "STRING"),
        (Column("c", "inet6"), "STRING"),
    ],
)
def test_each_column_has_the_type_of_the_table(column: Column, expected: str) -> None:
    """The table of docs/spec/mysql.md, line by line."""
    assert types.name(data_type(column)) == expected
    assert column.type in KNOWN


def test_tinyint1_is_a_boolean_where_the_pipeline_says_so() -> None:
    """An unsigned one is never a boolean, and a number that is none stays a number, to be rejected."""
    assert data_type(Column("c", "tinyint", length=1), tinyint1_as_boolean=True) == types.BOOLEAN
    assert data_type(Column("c", "tinyint", length=1, unsigned=True), tinyint1_as_boolean=True) == types.SMALLINT
    assert data_type(Column("c", "tinyint", length=4), tinyint1_as_boolean=True) == types.TINYINT
    assert [boolean(value) for value in (0, 1, 2, -1)] == [b"false", b"true", b"2", b"-1"]


def _wkb(kind: int, body: bytes, order: str = "<") -> bytes:
    return (b"\1" if order == "<" else b"\0") + struct.pack(order + "I", kind) + body


_LINE = struct.pack("<I4d", 2, 3, 0, 3.5, -1e300)
_PARTS = struct.pack("<I", 2) + _wkb(1, struct.pack("<2d", 1, 2)) + _wkb(1, struct.pack(">2d", 1, 2), ">")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (_wkb(1, struct.pack("<2d", 1, 2.5)), {"coordinates": [1, 2.5], "type": "Point"}),
        (_wkb(2, _LINE), {"coordinates": [[3, 0], [3.5, -1e300]], "type": "LineString"}),
        (_wkb(3, struct.pack("<I", 1) + _LINE), {"coordinates": [[[3, 0], [3.5, -1e300]]], "type": "Polygon"}),
        (_wkb(4, _PARTS), {"coordinates": [[1, 2], [1, 2]], "type": "MultiPoint"}),
        (
            _wkb(7, struct.pack("<I", 1) + _wkb(4, _PARTS)),
            {"geometries": [{"coordinates": [[1, 2], [1, 2]], "type": "MultiPoint"}], "type": "GeometryCollection"},
        ),
        (_wkb(7, struct.pack("<I", 0)), {"geometries": [], "type": "GeometryCollection"}),
    ],
)
def test_a_geometry_is_its_json_with_the_reference_system(value: bytes, expected: dict[str, object]) -> None:
    """The text is the JSON of the geometry, and ends with `srid`."""
    text = msgspec.json.decode(geometry(struct.pack("<I", 4326) + value), type=str)
    assert msgspec.json.decode(text) == {**expected, "srid": 4326}


def test_bytes_that_are_no_geometry_are_refused() -> None:
    """Each way in which bytes may be cut or wrong ends in a ValueError."""
    whole = bytes(4) + _wkb(7, struct.pack("<I", 1) + _wkb(4, _PARTS))
    nested = bytes(4) + _wkb(7, struct.pack("<I", 1)) * 40
    mixed = bytes(4) + _wkb(5, _PARTS)
    infinite = bytes(4) + _wkb(1, struct.pack("<2d", float("inf"), 1))
    for value in [*(whole[:end] for end in range(len(whole))), whole + b"x", nested, mixed, infinite]:
        with pytest.raises(ValueError, match=r"geometry|bytes|parts|number"):
            geometry(value)

"""Pairs of a writer's and a reader's schema: those of Avro's own tests, and logical types."""

from __future__ import annotations

from typing import Any

AB = {"type": "enum", "name": "Enum1", "symbols": ["A", "B"]}
ABC = {**AB, "symbols": ["A", "B", "C"]}
BC = {**AB, "symbols": ["B", "C"]}
AB_ELSE_A = {**AB, "default": "A"}
FIXED = {"type": "fixed", "name": "Fixed", "size": 4}


def array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def mapped(values: Any) -> dict[str, Any]:
    return {"type": "map", "values": values}


def named(name: str, *fields: tuple[Any, ...]) -> dict[str, Any]:
    """A record's schema from names, types, and perhaps defaults."""
    made = [{"name": f[0], "type": f[1], **({"default": f[2]} if len(f) > 2 else {})} for f in fields]
    return {"type": "record", "name": name, "fields": made}


READ: list[tuple[Any, Any, Any, Any]] = [
    # promotions
    ("int", "long", 219, 219),
    ("int", "float", 219, 219.0),
    ("int", "double", -219, -219.0),
    ("long", "float", 219, 219.0),
    ("long", "double", 1 << 40, float(1 << 40)),
    ("float", "double", 1.5, 1.5),
    ("string", "bytes", "abc", "YWJj"),
    ("bytes", "string", b"abc", "abc"),
    # unions
    (["int"], "float", 1, 1.0),
    (["int"], "double", 1, 1.0),
    (["int"], ["long"], 1, 1),
    (["int"], ["float"], 1, 1.0),
    (["long"], ["double"], 1, 1.0),
    (["float"], ["double"], 1.5, 1.5),
    (["string"], ["bytes"], "a", "YQ=="),
    (["bytes"], ["string"], b"a", "a"),
    (["int", "string"], ["string", "int"], "a", "a"),
    (["int", "string"], ["string", "int"], 5, 5),
    (["int", "float"], ["float"], 5, 5.0),
    ("int", ["int", "string"], 5, 5),
    ("int", ["string", "double", "long"], 5, 5.0),
    ("int", ["null", "long"], 5, 5),
    (["null", "int"], ["int", "null"], None, None),
    (["null", "int"], ["long", "null"], 7, 7),
    (["null", "int"], "int", 7, 7),
    (["null", array("int")], array("long"), [1], [1]),
    # arrays and maps
    (array("int"), array("long"), [1, 2], [1, 2]),
    (array("int"), array("double"), [], []),
    (mapped("int"), mapped("long"), {"a": 1}, {"a": 1}),
    # enums: symbols in another order, fewer of them, and a default
    (AB, ABC, "B", "B"),
    (ABC, BC, "C", "C"),
    (ABC, AB_ELSE_A, "C", "A"),
    # records: fields in another order, left out, added with a default, renamed
    (
        named("R", ("a", "int"), ("b", "string")),
        named("R", ("b", "string"), ("a", "long")),
        {"a": 1, "b": "x"},
        {"b": "x", "a": 1},
    ),
    (named("R", ("a", "int"), ("b", array("string"))), named("R", ("a", "int")), {"a": 1, "b": ["x"]}, {"a": 1}),
    (named("R", ("a", "int")), named("R"), {"a": 1}, {}),
    (named("R"), named("R", ("a", "int", 5)), {}, {"a": 5}),
    (named("R", ("a", "int")), named("R", ("a", "int", 0), ("b", ["int", "string"], 7)), {"a": 1}, {"a": 1, "b": 7}),
    (named("R"), named("R", ("a", ["null", "int"], None)), {}, {"a": None}),
    (named("ns1.R", ("a", "int")), named("ns2.R", ("a", "int")), {"a": 1}, {"a": 1}),
    (
        named("R", ("old", "int")),
        {"type": "record", "name": "R", "fields": [{"name": "new", "type": "int", "aliases": ["old"]}]},
        {"old": 3},
        {"new": 3},
    ),
    ({**FIXED, "name": "Old"}, {**FIXED, "aliases": ["Old"]}, b"abcd", "YWJjZA=="),
    (["int", named("R1", ("f", "int"))], ["int", named("R1", ("f", "long"))], {"f": 1}, {"f": 1}),
]
"""The writer's schema, the reader's, a value, and the value that is read."""
REFUSED: list[tuple[Any, Any]] = [
    ("int", "null"),
    ("null", "int"),
    ("int", "boolean"),
    ("long", "int"),
    ("float", "int"),
    ("double", "float"),
    ("float", "long"),
    ("string", "double"),
    ("bytes", "long"),
    ("boolean", "int"),
    ("int", "string"),
    (array("long"), array("int")),
    (mapped("int"), array("int")),
    (array("int"), mapped("int")),
    (mapped("long"), mapped("int")),
    (AB, "int"),
    ("int", AB),
    (AB, {**AB, "name": "Enum2"}),
    (FIXED, {**FIXED, "size": 8}),
    (FIXED, {**FIXED, "name": "Other"}),
    (FIXED, "bytes"),
    (["string"], ["int"]),
    ("string", ["null", "int"]),
    (named("R"), named("R", ("a", "int"))),
    (named("R", ("a", "string")), named("R", ("a", "int"))),
    (array("null"), array("null")),
    # one number would mean two values
    ({"type": "long", "logicalType": "timestamp-millis"}, {"type": "long", "logicalType": "timestamp-micros"}),
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 3},
    ),
]
"""Pairs of which no value can be read."""

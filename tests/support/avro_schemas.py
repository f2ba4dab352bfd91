"""Avro schemas of any kind, with values as fastavro takes them, and schemas that readers may have for them."""

from __future__ import annotations

import io
from typing import Any

import fastavro
from hypothesis import strategies as st
from picking import pick, shuffle

TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False, allow_infinity=False),
    "double": FLOATS,
    "bytes": st.binary(max_size=20),
    "string": TEXTS,
}
NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,6}", fullmatch=True)


class Names:
    """Full names, each once: a schema has no type twice."""

    def __init__(self, letter: str = "t") -> None:
        self._letter, self._count = letter, 0

    def next(self) -> str:
        self._count += 1
        return f"{self._letter}{self._count}"


@st.composite
def schemas(draw: st.DrawFn, names: Names, depth: int = 3) -> tuple[Any, st.SearchStrategy[Any]]:
    """A schema, and its values as fastavro takes them."""
    kinds = [*PRIMITIVES, "enum", "fixed", *(["record", "array", "map", "union"] if depth else [])]
    kind = pick(draw, kinds)
    if kind in PRIMITIVES:
        return kind, PRIMITIVES[kind]
    if kind == "enum":
        symbols = draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
        return {"type": "enum", "name": names.next(), "symbols": symbols}, st.sampled_from(symbols)
    if kind == "fixed":
        size = draw(st.integers(1, 9))
        return {"type": "fixed", "name": names.next(), "size": size}, st.binary(min_size=size, max_size=size)
    if kind == "record":
        return draw(records(names, depth - 1))
    if kind == "union":
        schema, values = draw(schemas(names, depth - 1))
        if isinstance(schema, list) or schema == "null":
            return ["null"], st.none()
        return shuffle(draw, ["null", schema]), st.none() | values
    schema, values = draw(schemas(names, depth - 1))
    if kind == "map":
        return {"type": "map", "values": schema}, st.dictionaries(TEXTS, values, max_size=3)
    return {"type": "array", "items": schema}, st.lists(values, max_size=3)


@st.composite
def records(draw: st.DrawFn, names: Names, depth: int = 3) -> tuple[Any, st.SearchStrategy[Any]]:
    fields = {name: draw(schemas(names, depth)) for name in draw(st.lists(NAMES, max_size=6, unique=True))}
    schema = {
        "type": "record",
        "name": names.next(),
        "fields": [{"name": name, "type": one} for name, (one, _) in fields.items()],
    }
    return schema, st.fixed_dictionaries({name: values for name, (_, values) in fields.items()})


def empty_items(schema: Any) -> bool:
    """Whether a schema has an array of items that take no bytes."""
    if isinstance(schema, list):
        return any(map(empty_items, schema))
    if not isinstance(schema, dict):
        return False
    inner = [schema[key] for key in ("items", "values") if key in schema] + [
        f["type"] for f in schema.get("fields", ())
    ]
    return ("items" in schema and takes_nothing(schema["items"])) or any(map(empty_items, inner))


def takes_nothing(schema: Any) -> bool:
    if isinstance(schema, dict) and schema["type"] == "record":
        return all(takes_nothing(field["type"]) for field in schema["fields"])
    return bool(schema == "null")


def possible(schema: Any) -> bool:
    """Whether rows of a schema can be read: arrays whose items take no bytes cannot."""
    return not empty_items(schema)


def written(schema: Any, value: Any) -> bytes:
    file = io.BytesIO()
    fastavro.schemaless_writer(file, fastavro.parse_schema(schema), value)
    return file.getvalue()


def changed(data: st.DataObject, message: bytes) -> bytes:
    """A message with some bytes changed, or without its end."""
    out = bytearray(message)
    for at, byte in data.draw(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 255)), max_size=4)):
        out[at : at + 1] = bytes([byte])
    return bytes(out[: data.draw(st.integers(0, len(out)))])


LOGICAL: list[tuple[dict[str, Any], st.SearchStrategy[Any]]] = [
    ({"type": "int", "logicalType": "date"}, st.integers(-800_000, 3_000_000)),
    ({"type": "int", "logicalType": "time-millis"}, st.integers(-10, 86_400_010)),
    ({"type": "long", "logicalType": "time-micros"}, st.integers(-10, 86_400_000_010)),
    ({"type": "long", "logicalType": "timestamp-millis"}, st.integers(-(2**47), 2**48)),
    ({"type": "long", "logicalType": "local-timestamp-micros"}, st.integers(-(2**57), 2**58)),
    ({"type": "long", "logicalType": "timestamp-millis", "connect.name": "io.debezium.time.MicroTimestamp"},
     st.integers(-(2**63), 2**63 - 1)),
    ({"type": "int", "connect.name": "io.debezium.time.Time"}, st.integers(0, 86_399_999)),
    ({"type": "int", "connect.type": "int8"}, st.integers(-130, 130)),
    ({"type": "int", "connect.type": "int16"}, st.integers(-33_000, 33_000)),
    ({"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 3}, st.binary(max_size=7)),
    ({"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 0}, st.binary(max_size=17)),
    ({"type": "bytes", "logicalType": "decimal", "precision": 90}, st.binary(max_size=40)),
    ({"type": "bytes", "logicalType": "big-decimal"}, st.binary(max_size=9)),
    ({"type": "string", "connect.name": "io.debezium.time.ZonedTimestamp"},
     st.sampled_from(["2024-02-29T01:02:03.450Z", "2024-02-29T01:02:03+02:00", "2024-02-29T01:02:03Z", "no", "\\"])),
    ({"type": "string", "logicalType": "uuid"}, TEXTS),
]  # fmt: skip
"""Schemas with a logical type that is known, and plain values of them."""


@st.composite
def logical_records(draw: st.DrawFn) -> tuple[Any, Any, dict[str, Any]]:
    """A record with logical types, the same without, for fastavro to write, and a value of it."""
    fields = draw(st.lists(st.tuples(st.sampled_from(LOGICAL), st.booleans()), min_size=1, max_size=5))
    scaled = {"type": "record", "name": "scaled", "fields": [
        {"name": "scale", "type": "int"}, {"name": "value", "type": "bytes"}
    ]}  # fmt: skip
    declared, plain, value = [], [], {}
    for at, ((schema, values), nullable) in enumerate(fields):
        declared.append({"name": f"c{at}", "type": ["null", schema] if nullable else schema})
        plain.append({"name": f"c{at}", "type": ["null", schema["type"]] if nullable else schema["type"]})
        value[f"c{at}"] = draw(st.none() | values if nullable else values)
    declared.append({"name": "v", "type": {**scaled, "connect.name": "io.debezium.data.VariableScaleDecimal"}})
    plain.append({"name": "v", "type": scaled})
    value["v"] = {"scale": draw(st.integers(-20, 45)), "value": draw(st.binary(max_size=18))}
    return {"type": "record", "name": "r", "fields": declared}, {"type": "record", "name": "r", "fields": plain}, value


_PROMOTED = {
    "int": ["long", "float", "double"], "long": ["float", "double"], "float": ["double"], "string": ["bytes"],
    "bytes": ["string"],
}  # fmt: skip
_ADDED: list[tuple[Any, Any]] = [
    ("long", 5), ("string", "ß"), (["null", "int"], None), (["int", "null"], 7), ("bytes", "\u00ff"), ("double", 0.5),
    ({"type": "array", "items": "int"}, [1, 2]), ({"type": "map", "values": "boolean"}, {"a": True}),
]  # fmt: skip
"""Types of fields that a writer lacks, with their defaults."""


def _seldom(draw: st.DrawFn) -> bool:
    return draw(st.integers(0, 9)) == 9


@st.composite
def readers(draw: st.DrawFn, schema: Any, names: Names) -> Any:
    """A reader's schema for the values of another one, which mostly can read them."""
    branches = schema if isinstance(schema, list) else [schema]
    made = [draw(_readers_of_one(branch, names)) for branch in branches]
    if not isinstance(schema, list) and draw(st.booleans()):
        return made[0]
    more = draw(st.lists(st.sampled_from(list(PRIMITIVES)), max_size=2))
    # A union has no union in it, and of each type without a name one
    flat = [inner for one in [*made, *more] for inner in (one if isinstance(one, list) else [one])]
    found = {one if isinstance(one, str) else one.get("name", one["type"]): one for one in flat}
    return draw(st.permutations(list(found.values())))


@st.composite
def _readers_of_one(draw: st.DrawFn, schema: Any, names: Names) -> Any:
    if _seldom(draw):
        return draw(st.sampled_from(list(PRIMITIVES)))
    if isinstance(schema, str):
        return draw(st.sampled_from([schema, *_PROMOTED.get(schema, ())]))
    kind = schema["type"]
    if kind in {"array", "map"}:
        inner = "items" if kind == "array" else "values"
        return {**schema, inner: draw(readers(schema[inner], names))}
    if kind == "record":
        return draw(readers_of_records(schema, names))
    made = dict(schema)
    if draw(st.booleans()):
        made |= {"name": names.next(), "aliases": [schema["name"]]}
    if kind == "enum":
        symbols = draw(st.lists(st.sampled_from([*schema["symbols"], "Added_1"]), min_size=1, unique=True))
        made["symbols"] = symbols
        if draw(st.booleans()):
            made["default"] = draw(st.sampled_from(symbols))
    elif _seldom(draw):
        made["size"] += 1
    return made


@st.composite
def readers_of_records(draw: st.DrawFn, schema: Any, names: Names) -> Any:
    """A record whose fields are in another order, left out, added, renamed, or of another type."""
    fields = []
    for one in schema["fields"]:
        what = draw(st.sampled_from(["same", "same", "same", "renamed", "left-out"]))
        if what != "left-out":
            kind = draw(readers(one["type"], names))
            other = {"name": f"{one['name']}_{names.next()}", "aliases": [one["name"]]} if what == "renamed" else {}
            fields.append({"name": one["name"], "type": kind, **other})
    for kind, default in draw(st.lists(st.sampled_from(_ADDED), max_size=2)):
        fields.append({"name": f"added_{names.next()}", "type": kind, "default": default})
    if _seldom(draw):
        fields.append({"name": f"added_{names.next()}", "type": "int"})
    return {**schema, "fields": draw(st.permutations(fields))}

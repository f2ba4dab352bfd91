"""Schemas that readers may have for messages of others."""

from __future__ import annotations

from typing import Any

from avro_schemas import PRIMITIVES, Names
from hypothesis import strategies as st

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

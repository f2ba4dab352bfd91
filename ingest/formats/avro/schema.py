"""Avro schemas as trees of nodes.

In: the JSON text of a schema, and the texts of schemas that it refers to. Out: its tree. fastavro resolves names and
namespaces. Rules: docs/spec/avro.md#schemas.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import msgspec
from fastavro.schema import parse_schema

from ingest.model.jsontext import MALFORMED, reason
from ingest.model.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ingest.model.jsontext import Json

PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_COMPLEX: Final = frozenset({"record", "error", "enum", "fixed", "array", "map"})
"""Types that are made of others. A schema without a namespace may have the name of one, as older ones of Flink do."""
LOGICAL: Final = "logical-type"
"""The property of a node that names its logical type."""
DEFAULT: Final = "default-value"
"""The property of a field or an enum that holds its default."""
_UNCHECKED: Final = {"logicalType": LOGICAL, "default": DEFAULT}
"""Properties under names that fastavro does not look at: it refuses a schema for a wrong one."""
_OF_ONE_TYPE: Final = frozenset(
    {"name", "namespace", "aliases", "doc", "type", "fields", "symbols", "items", "values", "size"}
)
"""Properties that say nothing about a schema that stands in place of a type's name."""
_MAX_DEPTH: Final = 200
"""Number of schemas inside of one another, at most."""


class SchemaError(ValueError):
    """Error about an Avro schema that cannot be used. Its text says why."""


@dataclass(slots=True, eq=False)
class Node:
    """One schema of a tree. A record that holds itself makes the tree a cycle."""

    kind: str
    """The type's name as in Avro, or `union`."""
    name: str = ""
    """Full name of a record, enum or fixed."""
    properties: Mapping[str, Any] = field(default_factory=dict)
    """All that the schema says beside its type, for example its logical type."""
    fields: list[Field] = field(default_factory=list)
    """Fields of a record."""
    branches: list[Node] = field(default_factory=list)
    """Branches of a union; of an array or map, the schema of its items."""
    symbols: list[str] = field(default_factory=list)
    """Symbols of an enum."""
    size: int = 0
    """Bytes of a fixed."""


@dataclass(slots=True, eq=False)
class Field:
    """One field of a record."""

    name: str
    node: Node
    properties: Mapping[str, Any] = field(default_factory=dict)
    """All that the schema says of it: for example its default, and its aliases."""

    @property
    def has_default(self) -> bool:
        """True if it has a default."""
        return DEFAULT in self.properties

    @property
    def default(self) -> Json:
        """The default, as JSON has it; None where there is none."""
        return self.properties.get(DEFAULT)

    def required_default(self) -> Json:
        """Return the default. Raise KeyError where there is none."""
        return self.properties[DEFAULT]


def parse(text: str, references: Iterable[str] = ()) -> Node:
    """Return the tree of a schema. `references` are the texts of the schemas whose names it uses, in their order.

    Raise SchemaError.
    """
    named: dict[str, Any] = {}
    try:
        for reference in references:
            parse_schema(_json(reference), named)
        parsed = parse_schema(_json(text), named)
    except SchemaError:
        raise
    except Exception as exc:  # fastavro raises whatever Python does over a schema of the wrong shape
        msg = f"{type(exc).__name__}: {one_line(str(exc))[:200]}"
        raise SchemaError(msg) from exc
    return _Builder(named).node(parsed, 0)


def _json(text: str) -> Json:
    """Return a schema's JSON as fastavro takes it: see `_plain`."""
    try:
        return _plain(msgspec.json.decode(text))
    except MALFORMED as exc:
        msg = f"it is not JSON: {reason(exc)}"
        raise SchemaError(msg) from exc


def _plain(schema: Json) -> Json:
    """Return a schema whose types are names, with logical types and defaults where fastavro does not look at them.

    Avro ignores a logical type that does not fit its schema, and reads messages without the writer's defaults.
    `{"type": {"type": "string"}}` is what the inner schema is, with the outer properties that the inner one lacks.
    """
    if isinstance(schema, list):
        return [_plain(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    made = {_UNCHECKED.get(name, name): value for name, value in schema.items()}
    kind = made.get("type")
    if isinstance(kind, (dict, list)):
        inner = _plain(kind)
        outer = {name: value for name, value in made.items() if name not in _OF_ONE_TYPE}
        return {**outer, **inner} if isinstance(inner, dict) else inner
    if isinstance(kind, str) and kind not in PRIMITIVES and kind not in _COMPLEX:
        return kind
    for name in ("items", "values"):
        if name in made:
            made[name] = _plain(made[name])
    if isinstance(made.get("fields"), list):
        made["fields"] = [_plain_field(one) for one in made["fields"]]
    return made


def _plain_field(one: Json) -> Json:
    if not isinstance(one, dict):
        return one
    made = {_UNCHECKED.get(name, name): value for name, value in one.items()}
    return {**made, "type": _plain(one["type"])} if "type" in one else made


class _Builder:
    """Builder of the nodes of one schema, with all names that it knows."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._nodes: dict[str, Node] = {}

    def node(self, schema: Json, depth: int) -> Node:
        """Return the node of a schema; raises SchemaError."""
        if depth > _MAX_DEPTH:
            msg = f"more than {_MAX_DEPTH} schemas are inside of one another"
            raise SchemaError(msg)
        if isinstance(schema, list):
            return self._union(schema, depth)
        if isinstance(schema, str):
            known = self._nodes.get(schema)
            if known is not None:
                return known
            return Node(schema) if schema in PRIMITIVES else self.node(self._named[schema], depth + 1)
        return self._of(schema["type"], schema, depth + 1)

    def _union(self, branches: list[Any], depth: int) -> Node:
        if not branches or any(isinstance(branch, list) for branch in branches):
            msg = "a union has no branch, or holds a union"
            raise SchemaError(msg)
        return Node("union", branches=[self.node(branch, depth + 1) for branch in branches])

    def _of(self, kind: str, schema: Mapping[str, Any], depth: int) -> Node:
        node = Node("record" if kind == "error" else kind, schema.get("name", ""), schema)
        if kind in {"record", "error", "enum", "fixed"}:
            self._nodes[node.name] = node
        if node.kind == "record":
            node.fields = [Field(one["name"], self.node(one["type"], depth), one) for one in schema["fields"]]
            if not all(isinstance(one.name, str) for one in node.fields):
                msg = f"the record {node.name!r} has a field whose name is no text"
                raise SchemaError(msg)
            names = {one.name for one in node.fields}
            if len(names) < len(node.fields):
                msg = f"the record {node.name!r} has two fields of one name"
                raise SchemaError(msg)
        elif kind in {"array", "map"}:
            node.branches = [self.node(schema["items" if kind == "array" else "values"], depth)]
        elif kind == "enum":
            node.symbols = list(schema["symbols"])
        elif kind == "fixed":
            node.size = schema["size"]
            if type(node.size) is not int or node.size < 0:
                msg = f"the size of the fixed {node.name!r} is no number of bytes"
                raise SchemaError(msg)
        elif kind not in PRIMITIVES:
            msg = f"{kind[:60]!r} is no type"
            raise SchemaError(msg)
        return node


def takes_bytes(node: Node, known: dict[int, bool] | None = None) -> bool:
    """Return whether each value takes a byte, at least. `known`: what was found before, by the records' ids."""
    if node.kind in {"null", "fixed"}:
        return node.size > 0
    if node.kind != "record":
        return True
    known = {} if known is None else known
    found = known.get(id(node))
    if found is None:
        known[id(node)] = True  # a record that always holds itself has no value
        found = known[id(node)] = any(takes_bytes(one.node, known) for one in node.fields)
    return found

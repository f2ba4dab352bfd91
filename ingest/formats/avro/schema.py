"""Avro schemas as trees of nodes, and the defaults of fields as the bytes that a message would have in their place.

fastavro resolves names and namespaces. Rules: docs/spec/avro.md#schemas.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from struct import Struct
from typing import Any, Final, TypeVar

import msgspec

from ingest.model.jsontext import MALFORMED, Json, reason
from ingest.model.text import one_line, yaml_text

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
    from fastavro.schema import parse_schema  # noqa: PLC0415  (slow to import; most pipelines have no Avro)

    named: dict[str, Any] = {}
    try:
        for reference in references:
            parse_schema(_json(reference), named)
        parsed = parse_schema(_json(text), named)
    except SchemaError:
        raise
    except Exception as exc:  # fastavro raises whatever Python does over a schema of the wrong shape
        raise SchemaError(f"{type(exc).__name__}: {one_line(str(exc))[:200]}") from exc
    return _Builder(named).node(parsed, 0)


def _json(text: str) -> Json:
    """Return a schema's JSON as fastavro takes it: see `_plain`."""
    try:
        return _plain(msgspec.json.decode(text))
    except MALFORMED as exc:
        raise SchemaError(f"it is not JSON: {reason(exc)}") from exc


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
            raise SchemaError(f"more than {_MAX_DEPTH} schemas are inside of one another")
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
            raise SchemaError("a union has no branch, or holds a union")
        return Node("union", branches=[self.node(branch, depth + 1) for branch in branches])

    def _of(self, kind: str, schema: Mapping[str, Any], depth: int) -> Node:
        node = Node("record" if kind == "error" else kind, schema.get("name", ""), schema)
        if kind in {"record", "error", "enum", "fixed"}:
            self._nodes[node.name] = node
        if node.kind == "record":
            node.fields = [Field(one["name"], self.node(one["type"], depth), one) for one in schema["fields"]]
            if not all(isinstance(one.name, str) for one in node.fields):
                raise SchemaError(f"the record {node.name!r} has a field whose name is no text")
            names = {one.name for one in node.fields}
            if len(names) < len(node.fields):
                raise SchemaError(f"the record {node.name!r} has two fields of one name")
        elif kind in {"array", "map"}:
            node.branches = [self.node(schema["items" if kind == "array" else "values"], depth)]
        elif kind == "enum":
            node.symbols = list(schema["symbols"])
        elif kind == "fixed":
            node.size = schema["size"]
            if type(node.size) is not int or node.size < 0:
                raise SchemaError(f"the size of the fixed {node.name!r} is no number of bytes")
        elif kind not in PRIMITIVES:
            raise SchemaError(f"{kind[:60]!r} is no type")
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


_T = TypeVar("_T")
_BYTES: Final = [bytes((number,)) for number in range(256)]
_FLOATS: Final = {"float": Struct("<f"), "double": Struct("<d")}
_BITS: Final = {"int": 32, "long": 64}


def number_bytes(value: int) -> bytes:
    """Return an integer of 64 bits: groups of seven bits, the lowest first, with the sign in the lowest bit.

    Raise ValueError for one that has more bits.
    """
    if not -(1 << 63) <= value < 1 << 63:
        raise ValueError("a number of more than 64 bits")
    rest = (value << 1) ^ (value >> 63)
    if rest < 0x80:
        return _BYTES[rest]
    out = bytearray()
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def default_bytes(value: Json, node: Node) -> bytes:
    """Return the bytes of a default. Raise SchemaError where it is no value of its schema.

    Logical types do not matter: a default is written as the type below them.
    """
    try:
        return _bytes(value, node)
    except (ValueError, TypeError, OverflowError, KeyError) as exc:
        shown = (repr(value) if isinstance(value, str) else yaml_text(value))[:60]
        raise SchemaError(f"the default {shown} is no value of the type {node.kind!r}") from exc


def check_defaults(node: Node) -> None:
    """Raise SchemaError where a default of a field, or of an enum, is no value of its type."""
    seen: set[int] = set()
    rest = [node]
    while rest:
        one = rest.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        for member in one.fields:
            if member.has_default:
                try:
                    default_bytes(member.default, member.node)
                except SchemaError as exc:
                    raise SchemaError(f"field {member.name!r}: {exc}") from exc
        if one.kind == "enum" and one.properties.get(DEFAULT, one.symbols[0]) not in one.symbols:
            raise SchemaError(f"the enum {one.name!r} has a default that is none of its symbols")
        rest += [*one.branches, *(member.node for member in one.fields)]


def _bytes(value: Json, node: Node) -> bytes:
    kind = node.kind
    if kind == "union":
        return _of_union(value, node)
    if kind == "record":
        given = _checked(value, dict)
        return b"".join(_bytes(given[f.name] if f.name in given else f.required_default(), f.node) for f in node.fields)
    if kind == "array":
        items = [_bytes(item, node.branches[0]) for item in _checked(value, list)]
        return number_bytes(len(items)) + b"".join(items) + b"\0" if items else b"\0"
    if kind == "map":
        pairs = [_sized(name.encode()) + _bytes(item, node.branches[0]) for name, item in _checked(value, dict).items()]
        return number_bytes(len(pairs)) + b"".join(pairs) + b"\0" if pairs else b"\0"
    if kind == "enum":
        return number_bytes(node.symbols.index(value))
    if kind == "fixed":
        piece = _checked(value, str).encode("latin-1")
        if len(piece) != node.size:
            raise ValueError
        return piece
    return _plain_bytes(value, kind)


def _plain_bytes(value: Json, kind: str) -> bytes:
    if kind == "null":
        _checked(value, type(None))
        return b""
    if kind == "boolean":
        return b"\1" if _checked(value, bool) else b"\0"
    if kind in _BITS:
        number = _checked(value, int)
        if not -(1 << (_BITS[kind] - 1)) <= number < 1 << (_BITS[kind] - 1):
            raise ValueError
        return number_bytes(number)
    if kind in _FLOATS:
        if type(value) not in {int, float}:
            raise TypeError
        packed: bytes = _FLOATS[kind].pack(value)
        return packed
    text = _checked(value, str)
    return _sized(text.encode() if kind == "string" else text.encode("latin-1"))


def _of_union(value: Json, node: Node) -> bytes:
    """Write a default by the first branch that has it: by Avro's rules that is the first one, or any since 1.12."""
    for at, branch in enumerate(node.branches):
        try:
            return number_bytes(at) + _bytes(value, branch)
        except (ValueError, TypeError, OverflowError, KeyError):
            continue
    raise ValueError


def _sized(piece: bytes) -> bytes:
    return number_bytes(len(piece)) + piece


def _checked(value: Json, kind: type[_T]) -> _T:
    if type(value) is not kind:
        raise TypeError
    return value

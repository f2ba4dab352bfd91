"""Schemas in JSON Schema, as a registry has them: the types of a row's columns.

In: the text of a schema, and the texts of those that it refers to. Out: for each column of the rows its type and how
its values are read. What Kafka Connect's converter says (`connect.type`, a logical type as `title`) is read as in
Connect's own schemas. Rules: docs/spec/json.md#json-schema.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from math import isfinite
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urljoin

import msgspec

from ingest.formats.debezium.connect import ConnectField, column_of
from ingest.formats.typed import Reads, TypedColumn
from ingest.model import temporal, types
from ingest.model.jsontext import MALFORMED, Json, reason

_MAX_DEPTH: Final = 100
"""References and schemas inside of one another, at most."""
_MAX_INSIDE: Final = 10_000
"""Schemas of values inside of columns that are looked at: few references may stand for any number of them."""
_CONNECT_TYPES: Final = frozenset(
    {"int8", "int16", "int32", "int64", "float32", "float64", "boolean", "string", "bytes", "map", "array", "struct"}
)
_PLAIN: Final = {"integer": "int64", "number": "float64", "string": "string", "boolean": "boolean"}
"""Connect's types for those of JSON Schema."""
_WIDE: Final = frozenset({"integer", "number"})
"""Types of JSON Schema whose numbers may be larger than Connect's types for them."""


class SchemaError(ValueError):
    """Error about a schema that cannot be used. Its text says why."""


class Columns(NamedTuple):
    """The columns of a schema's rows."""

    typed: dict[str, TypedColumn]
    """Those of which the schema says one type."""
    wide: frozenset[str]
    """Those of them whose type is any number's: a value beyond BIGINT or DOUBLE is none of it, and no contradiction."""


class _Place(NamedTuple):
    """A schema, and the document that its references are about."""

    schema: Json
    document: Json


class JsonSchema:
    """A schema with those that it refers to."""

    def __init__(self, text: str, references: Mapping[str, str]) -> None:
        """`references` are texts by the names by which they are referred to. Raise SchemaError."""
        document = _json(text)
        self._root = _Place(document, document)
        self._others = {name: _json(other) for name, other in references.items()}
        self._open: set[int] = set()
        self._named: dict[int, dict[str, Json]] = {}
        self._inside = 0

    def rows(self) -> Columns:
        """Return the columns of rows. Raise SchemaError where the schema is none of an object."""
        return self._columns(self._only(self._root))

    def keys(self) -> Columns:
        """Return the columns of keys; none where they are no objects. Raise SchemaError."""
        found = self._only(self._root)
        return self._columns(found) if _kind(found.schema) in {None, "object"} else Columns({}, frozenset())

    def envelopes(self) -> Columns:
        """Return the columns of the rows in Debezium's envelopes. Raise SchemaError."""
        members = self._members(self._only(self._root))
        row = members.get("after") or members.get("before")
        row = None if row is None else self._only(row)
        if row is None or _kind(row.schema) not in {None, "object"}:  # as those of MongoDB's documents, which are texts
            return Columns({}, frozenset())
        return self._columns(row)

    def _columns(self, row: _Place) -> Columns:
        kind = _kind(row.schema)
        if kind not in {None, "object"}:
            raise SchemaError(f"it is of the type {str(kind)[:60]!r}, and a row is an object")
        typed: dict[str, TypedColumn] = {}
        wide = set()
        for name, member in self._members(row).items():
            place = self._only(member)
            column = self._column(place)
            if column is None:
                continue
            typed[name] = column
            if "connect.type" not in _object(place.schema) and _kind(place.schema) in _WIDE:
                wide.add(name)
        return Columns(typed, frozenset(wide))

    def _column(self, place: _Place) -> TypedColumn | None:
        """Return the type of values of a schema; None where it does not say one type."""
        schema, kind = _object(place.schema), _kind(place.schema)
        said = schema.get("connect.type")
        connect = said if said in _CONNECT_TYPES else _PLAIN.get(str(kind))
        if connect is None and kind not in {"object", "array"}:
            return None
        title = schema.get("title") if isinstance(schema.get("title"), str) else None
        if connect == "string" and title not in _NAMED_TEXTS and (made := _FORMATS.get(str(schema.get("format")))):
            return made
        column = column_of(self._field(place, connect))
        if connect == "float64" and said is None and column.type == types.DOUBLE:
            return column._replace(reads=(Reads.SHORT_NUMBER, 0, 0))
        return column

    def _field(self, place: _Place, connect: str | None) -> ConnectField:
        """Return a schema as Connect has it, with those of the values inside of its own."""
        schema, kind = _object(place.schema), _kind(place.schema)
        title, parameters = schema.get("title"), schema.get("connect.parameters")
        field = ConnectField(
            connect or ("struct" if kind == "object" else "array"),
            title if isinstance(title, str) else None,
            parameters=parameters if isinstance(parameters, dict) else None,
        )
        self._inside += 1
        if self._inside > _MAX_INSIDE or id(place.schema) in self._open:  # it may hold itself
            return field
        self._open.add(id(place.schema))
        if kind == "array" and isinstance(schema.get("items"), dict):
            field.type, field.items = "array", self._value(_Place(schema["items"], place.document))
        elif connect == "map" and isinstance(schema.get("additionalProperties"), dict):
            field.values = self._value(_Place(schema["additionalProperties"], place.document))
        elif kind == "object" and connect != "map":
            field.fields = [self._value(member, name) for name, member in self._members(place).items()]
        self._open.discard(id(place.schema))
        return field

    def _value(self, place: _Place, name: str | None = None) -> ConnectField:
        """Return the schema of a value inside of another one; without a type where it does not say one."""
        place = self._only(place)
        schema, kind = _object(place.schema), _kind(place.schema)
        said = schema.get("connect.type")
        connect = said if said in _CONNECT_TYPES else _PLAIN.get(str(kind))
        if connect is None and kind not in {"object", "array"}:
            return ConnectField(field=name)
        field = self._field(place, connect)
        field.field = name
        return field

    def _members(self, place: _Place) -> dict[str, _Place]:
        """Return the members that an object's schema names, in Connect's order where it says one."""
        schema = _object(place.schema)
        members = {name: _Place(member, place.document) for name, member in _object(schema.get("properties")).items()}
        for part in _list(schema.get("allOf")):
            members |= self._members(self._resolved(_Place(part, place.document)))
        return members

    def _only(self, place: _Place) -> _Place:
        """Return what a schema is beside null. A union of several is left as it is.

        It is behind references, the one branch of a oneOf or anyOf, or the one part of an allOf.
        """
        for _ in range(_MAX_DEPTH):
            place = self._resolved(place)
            schema = _object(place.schema)
            branches = [
                self._resolved(_Place(branch, place.document))
                for name in ("oneOf", "anyOf", "allOf")
                for branch in _list(schema.get(name))
            ]
            left = [one for one in branches if _kind(one.schema) != "null"]
            if len(left) != 1 or "properties" in schema:
                return place
            place = left[0]
        raise _too_deep()

    def _resolved(self, place: _Place) -> _Place:
        """Return the schema that one refers to, or itself. Raise SchemaError where there is none."""
        for _ in range(_MAX_DEPTH):
            target = _object(place.schema).get("$ref")
            if not isinstance(target, str):
                return place
            place = self._target(target, place.document)
        raise _too_deep()

    def _target(self, target: str, document: Json) -> _Place:
        where, _, pointer = target.partition("#")
        found = document
        own = _object(document).get("$id")
        if where and where != own:
            full = urljoin(own, where) if isinstance(own, str) else where
            names = {name: _object(other).get("$id") for name, other in self._others.items()}
            known = [name for name, other in names.items() if name in {where, full} or other in {where, full}]
            if not known:
                raise SchemaError(f"it refers to {target[:100]!r}, which is none of its references")
            found = self._others[known[0]]
        document = found
        if pointer and not pointer.startswith("/"):
            found = self._anchors(document).get(unquote(pointer))
            if found is None:
                raise SchemaError(f"it refers to {target[:100]!r}, which is not there")
            pointer = ""
        for part in pointer.split("/")[1:]:
            key = unquote(part).replace("~1", "/").replace("~0", "~")
            if isinstance(found, list) and key.isdecimal() and int(key) < len(found):
                found = found[int(key)]
            elif isinstance(found, dict) and key in found:
                found = found[key]
            else:
                raise SchemaError(f"it refers to {target[:100]!r}, which is not there")
        return _Place(found, document)

    def _anchors(self, document: Json) -> dict[str, Json]:
        """Return the schemas of a document that have a name of their own: `$anchor`, in older drafts an `$id`."""
        known = self._named.get(id(document))
        if known is None:
            known = self._named[id(document)] = {}
            left = [document]
            while left:
                one = left.pop()
                if isinstance(one, dict):
                    for name in (one.get("$anchor"), _fragment(one.get("$id"))):
                        if isinstance(name, str):
                            known.setdefault(name, one)
                    left += one.values()
                elif isinstance(one, list):
                    left += one
        return known


def _fragment(name: Json) -> str | None:
    """Return the name behind the `#` that a text begins with."""
    return name[1:] if isinstance(name, str) and name[:1] == "#" else None


def is_exact(column: TypedColumn, raw: bytes) -> bool:
    """Return whether a number of any size is one that its column's type holds exactly."""
    if raw[:1] not in b"-0123456789":
        return True  # null; or what is no number, which contradicts its schema
    if column.type == types.BIGINT:
        return len(raw) < 20 and b"." not in raw and b"e" not in raw.lower() and -(2**63) <= int(raw) < 2**63
    value = float(raw)
    digits = len(raw.lower().partition(b"e")[0].replace(b".", b"").lstrip(b"-0")) or 1
    return isfinite(value) and digits < _MAX_DEPTH and Decimal(f"{value:.{digits - 1}e}") == Decimal(raw.decode())


def _kind(schema: Json) -> str | None:
    """Return the one type of a schema beside null; None where there are none or several."""
    found = _object(schema).get("type")
    kinds: Sequence[Any] = found if isinstance(found, list) else [found]
    left = [kind for kind in kinds if kind != "null"] or ["null"]
    if len(left) == 1 and isinstance(left[0], str):
        return left[0]
    if found is None:
        values = _list(_object(schema).get("enum"))
        if values and all(isinstance(value, str) or value is None for value in values):
            return "string"
        return "object" if "properties" in _object(schema) else None
    return None


def _object(value: Json) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Json) -> list[Any]:
    return value if isinstance(value, list) else []


def _json(text: str) -> Json:
    try:
        return msgspec.json.decode(text)
    except MALFORMED as exc:
        raise SchemaError(f"it is not JSON: {reason(exc)}") from exc


def _too_deep() -> SchemaError:
    return SchemaError(f"more than {_MAX_DEPTH} references lead to one another")


def _zoned(raw: bytes) -> bytes:
    if raw[:1] != b'"':
        raise ValueError("not a text")
    return temporal.zoned_text(msgspec.json.decode(raw, type=str))


_NAMED_TEXTS: Final = frozenset({"io.debezium.time.ZonedTimestamp"})
"""Logical types of texts, which say more than a format."""
_FORMATS: Final = {
    "date-time": TypedColumn(types.TIMESTAMP_LTZ, _zoned, reads=(Reads.ZONED, 0, 0)),
    "date": TypedColumn(types.DATE, reads=(Reads.DATE_TEXT, 0, 0)),
}
"""Texts of JSON Schema's formats."""

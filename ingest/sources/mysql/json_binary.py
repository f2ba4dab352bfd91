"""MySQL's binary JSON to the text that the server prints for it. The reference.

The layout is that of the server's `json_binary.h`; numbers, times and escapes are printed as `json_dom.cc` does.
MariaDB has no such thing: its JSON is a text.
"""

from __future__ import annotations

import base64
import math
import re
from struct import unpack
from typing import Final, TypeAlias

import orjson

from ingest.sources.mysql.binary_values import decimal, moment
from ingest.sources.mysql.events import BadEvent, Cursor

MAX_DEPTH: Final = 100
"""Levels of a document, as in the server."""
_ESCAPES: Final = {
    0x22: '\\"',
    0x5C: "\\\\",
    0x08: "\\b",
    0x0C: "\\f",
    0x0A: "\\n",
    0x0D: "\\r",
    0x09: "\\t",
    **{code: f"\\u{code:04x}" for code in range(0x20) if code not in {8, 9, 10, 12, 13}},
}
_LITERALS: Final = {0: "null", 1: "true", 2: "false"}
_INTEGERS: Final = {5: (2, True), 6: (2, False), 7: (4, True), 8: (4, False), 9: (8, True), 10: (8, False)}
_INLINE: Final = frozenset({4, 5, 6})
"""Types whose values are in the entry of an object or array; 7 and 8 are, too, in large ones."""


Tree: TypeAlias = "str | list[Tree] | dict[str, Tree]"
"""A document: texts of scalars as they are printed, arrays, objects."""


def document(data: bytes) -> str:
    """Return the text of a document. Raise BadEvent."""
    return printed(tree(data))


def tree(data: bytes) -> Tree:
    """Return a document. Raise BadEvent."""
    if not data:
        return "null"  # the server stores an empty value where it was told to ignore an error
    return _value(data[0], data, 1, 0)


def printed(of: Tree) -> str:
    """Return the text of a document as the server prints it."""
    if isinstance(of, str):
        return of
    if isinstance(of, list):
        return f"[{', '.join(map(printed, of))}]"
    return f"{{{', '.join(f'{quoted(name)}: {printed(value)}' for name, value in of.items())}}}"


def quoted(text: str) -> str:
    """Return a text in quotes, as the server prints it inside of a document."""
    return f'"{text.translate(_ESCAPES)}"'


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as exc:
        raise BadEvent("a text inside of JSON that is no UTF-8") from exc


def _value(kind: int, data: bytes, at: int, depth: int) -> Tree:
    """Return the value of a type that begins at a place."""
    if depth > MAX_DEPTH:
        raise BadEvent(f"JSON of more than {MAX_DEPTH} levels")
    if kind <= 3:
        return _container(kind, data[at:], depth)
    cursor = Cursor(data, at)
    if kind == 4:
        literal = cursor.number(1)
        if literal not in _LITERALS:
            raise BadEvent(f"JSON with the literal {literal}")
        return _LITERALS[literal]
    if kind in _INTEGERS:
        size, signed = _INTEGERS[kind]
        return str(int.from_bytes(cursor.take(size), "little", signed=signed))
    if kind == 11:
        return double_text(unpack("<d", cursor.take(8))[0])
    if kind == 12:
        return quoted(_text(cursor.take(_length(cursor))))
    if kind == 15:
        field = cursor.number(1)
        return _opaque(field, cursor.take(_length(cursor)))
    raise BadEvent(f"JSON with a value of the type {kind}")


def _length(cursor: Cursor) -> int:
    """Return a length: seven bits in each byte, the lowest first, as long as the eighth is set."""
    length = 0
    for shift in range(0, 35, 7):
        byte = cursor.number(1)
        length |= (byte & 0x7F) << shift
        if byte < 0x80:
            return length
    raise BadEvent("JSON with a length of more than five bytes")


def _container(kind: int, data: bytes, depth: int) -> Tree:
    """Return an object or array, whose offsets count from its first byte."""
    wide = 4 if kind in {1, 3} else 2
    cursor = Cursor(data)
    count, size = cursor.number(wide), cursor.number(wide)
    if size > len(data):
        raise BadEvent(f"an object or array of JSON with {size} bytes, of which {len(data)} are there")
    data = cursor.data = data[:size]
    is_object = kind in {0, 1}
    if count * (wide + 1) > size:
        raise BadEvent(f"an object or array of JSON with {count} members in {size} bytes")
    keys = [(cursor.number(wide), cursor.number(2)) for _ in range(count)] if is_object else []
    members: list[Tree] = []
    for _ in range(count):
        of = cursor.number(1)
        if of in _INLINE or (wide == 4 and of in {7, 8}):
            members.append(_value(of, data, cursor.at, depth + 1))
            cursor.take(wide)
        else:
            members.append(_value(of, data, cursor.number(wide), depth + 1))
    if not is_object:
        return members
    return dict(zip((_text(Cursor(data, at).take(length)) for at, length in keys), members, strict=True))


def _opaque(field: int, data: bytes) -> str:
    """Return the text of a value of a type of SQL."""
    if field in {0, 246}:
        if len(data) < 2:
            raise BadEvent("a decimal of JSON without its digits")
        return decimal(data[2:], data[0], data[1])
    if field in {7, 10, 11, 12, 17, 18, 19}:
        if len(data) != 8:
            raise BadEvent(f"a time of JSON of {len(data)} bytes")
        return f'"{moment(int.from_bytes(data, "little", signed=True), field)}"'
    return f'"base64:type{field}:{base64.b64encode(data).decode()}"'


def double_text(value: float) -> str:
    """Return the text of a double as the server prints it in JSON: the fewest digits, with `e` beyond 15 places."""
    if not math.isfinite(value):
        raise BadEvent("JSON with a number that is none")
    sign = "-" if str(value).startswith("-") else ""
    mantissa, _, exponent = f"{abs(value)!r}".partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    if not digits:
        return f"{sign}0.0"
    if -15 < point <= 15:
        if point <= 0:
            return f"{sign}0.{'0' * -point}{digits}"
        if len(digits) <= point:
            return f"{sign}{digits.ljust(point, '0')}.0"
        return f"{sign}{digits[:point]}.{digits[point:]}"
    rest = f".{digits[1:]}" if digits[1:] else ""
    return f"{sign}{digits[0]}{rest}e{point - 1}"


_PATH: Final = re.compile(r'\.(?:([^\W\d$][\w$]*|[$][\w$]*)|("(?:[^"\\]|\\.)*"))|\[(\d+)\]')


def change(of: Tree, data: bytes) -> Tree:
    """Return a document after the changes of a partial update. Raise BadEvent."""
    cursor = Cursor(data)
    while cursor.left:
        operation = cursor.number(1)
        path = _text(cursor.take(cursor.packed()))
        value = None if operation == _REMOVE else tree(cursor.take(cursor.packed()))
        of = _changed(of, operation, path, value)
    return of


_REPLACE, _INSERT, _REMOVE = 0, 1, 2


def _steps(path: str) -> list[str | int]:
    """Return the members and places of a path. Raise BadEvent."""
    steps: list[str | int] = []
    at = 1
    while at < len(path):
        step = _PATH.match(path, at)
        if step is None:
            break
        name, in_quotes, place = step.groups()
        steps.append(int(place) if place is not None else name if name is not None else orjson.loads(in_quotes))
        at = step.end()
    if not path.startswith("$") or at < len(path):
        raise BadEvent(f"a partial update of JSON with the path {path[:100]!r}")
    return steps


def _changed(of: Tree, operation: int, path: str, value: Tree | None) -> Tree:
    """Return a document after one change."""
    steps = _steps(path)
    if not steps:
        if operation != _REPLACE or value is None:
            raise BadEvent(f"a partial update of JSON that does {operation} to all of it")
        return value
    parent = of
    for step in steps[:-1]:
        parent = _member(parent, step, path)
    last = steps[-1]
    if operation == _INSERT and value is not None:
        if isinstance(parent, list) and isinstance(last, int):
            parent.insert(last, value)
            return of
        if isinstance(parent, dict) and isinstance(last, str) and last not in parent:
            parent[last] = value
            members = sorted(parent.items(), key=lambda item: (len(item[0].encode()), item[0].encode()))
            parent.clear()
            parent.update(members)
            return of
    _member(parent, last, path)
    if isinstance(parent, list) and isinstance(last, int):
        parent[last : last + 1] = [] if value is None else [value]
    elif isinstance(parent, dict) and isinstance(last, str):
        if value is None:
            del parent[last]
        else:
            parent[last] = value
    return of


def _member(of: Tree, step: str | int, path: str) -> Tree:
    """Return a member of an object, or of an array. Raise BadEvent where there is none."""
    if isinstance(of, dict) and isinstance(step, str) and step in of:
        return of[step]
    if isinstance(of, list) and isinstance(step, int) and step < len(of):
        return of[step]
    raise BadEvent(f"a partial update of JSON with the path {path[:100]!r}, which the document has not")

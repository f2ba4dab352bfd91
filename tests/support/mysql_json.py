"""MySQL's binary JSON, written as the server does."""

from __future__ import annotations

from dataclasses import dataclass
from struct import pack
from typing import Any


@dataclass(frozen=True)
class Opaque:
    """A value of a type of SQL within a document."""

    field: int
    data: bytes


def encode(value: Any, *, large: bool = False) -> bytes:
    """The bytes of a document."""
    kind, data = _encoded(value, large=large)
    return bytes([kind]) + data


def _length(size: int) -> bytes:
    out = b""
    while size >= 0x80:
        out += bytes([size & 0x7F | 0x80])
        size >>= 7
    return out + bytes([size])


def _encoded(value: Any, *, large: bool) -> tuple[int, bytes]:
    """The type's byte, and what follows it."""
    if value is None or value is True or value is False:
        return 4, bytes([{None: 0, True: 1, False: 2}[value]])
    if isinstance(value, int):
        for kind, size, signed in (
            (5, 2, True),
            (6, 2, False),
            (7, 4, True),
            (8, 4, False),
            (9, 8, True),
            (10, 8, False),
        ):
            try:
                return kind, value.to_bytes(size, "little", signed=signed)
            except OverflowError:
                continue
    if isinstance(value, float):
        return 11, pack("<d", value)
    if isinstance(value, str):
        data = value.encode()
        return 12, _length(len(data)) + data
    if isinstance(value, Opaque):
        return 15, bytes([value.field]) + _length(len(value.data)) + value.data
    return _container(value, large=large)


def _container(value: Any, *, large: bool) -> tuple[int, bytes]:
    wide = 4 if large else 2
    members = list(value)
    if isinstance(value, dict):
        members = sorted(value, key=lambda name: (len(name.encode()), name.encode()))
    values = [value[name] for name in members] if isinstance(value, dict) else members
    keys = [name.encode() for name in members] if isinstance(value, dict) else []
    at = 2 * wide + len(keys) * (wide + 2) + len(values) * (wide + 1)
    entries, body = b"", b""
    for key in keys:
        entries += (at + len(body)).to_bytes(wide, "little") + pack("<H", len(key))
        body += key
    for one in values:
        kind, data = _encoded(one, large=large)
        if kind in {4, 5, 6} or (large and kind in {7, 8}):
            entries += bytes([kind]) + data.ljust(wide, b"\0")
        else:
            entries += bytes([kind]) + (at + len(body)).to_bytes(wide, "little")
            body += data
    head = len(values).to_bytes(wide, "little") + (2 * wide + len(entries) + len(body)).to_bytes(wide, "little")
    return (0 if isinstance(value, dict) else 2) + large, head + entries + body

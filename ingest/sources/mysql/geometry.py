"""Values of spatial types as JSON texts, as Flink CDC has them: type, coordinates and the reference system (`srid`).

In: the bytes that a server stores: four of the reference system, then the geometry in WKB. Rule:
docs/spec/mysql.md#types.
"""

from __future__ import annotations

import struct
from typing import Final

import msgspec

from ingest.sources.mysql.events import BadEvent

_NAMES: Final = {
    1: "Point",
    2: "LineString",
    3: "Polygon",
    4: "MultiPoint",
    5: "MultiLineString",
    6: "MultiPolygon",
    7: "GeometryCollection",
}
_POINT: Final = 1
_COLLECTION: Final = 7
_DEEPEST: Final = 30
"""How deep collections may nest here; servers allow more, and nobody writes it."""


class _Bytes:
    """Bytes of a geometry, read from the front."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def take(self, form: str) -> tuple[float | int, ...]:
        """Return numbers by a form of `struct`. Raise BadEvent where the bytes end before."""
        try:
            found = struct.unpack_from(form, self._data, self.at)
        except struct.error as exc:
            msg = "a geometry that ends too early"
            raise BadEvent(msg) from exc
        self.at += struct.calcsize(form)
        return found

    def count(self, order: str, least: int) -> int:
        """Return the number of parts that follow, each of which has `least` bytes at least. Raise BadEvent."""
        (parts,) = self.take(order + "I")
        if int(parts) * least > len(self._data) - self.at:
            msg = "a geometry that ends too early"
            raise BadEvent(msg)
        return int(parts)


def geometry(value: bytes) -> bytes:
    """Return the JSON text of a value: a string that holds the JSON of the geometry. Raise BadEvent for other bytes.

    Coordinates are in the order x, y in which servers store them; a number without a fraction has no point.
    """
    data = _Bytes(value)
    (srid,) = data.take("<I")
    found = _geometry(data, 0)
    if data.at != len(value):
        msg = "bytes behind a geometry"
        raise BadEvent(msg)
    return msgspec.json.encode(msgspec.json.encode({**found, "srid": srid}).decode())


def _geometry(data: _Bytes, depth: int) -> dict[str, object]:
    """Return one geometry in WKB as the members of its JSON."""
    (order,) = data.take("B")
    if order > 1 or depth > _DEEPEST:
        msg = "no geometry"
        raise BadEvent(msg)
    endian = "<" if order else ">"
    kind = int(data.take(endian + "I")[0])
    name = _NAMES.get(kind)
    if name is None:
        msg = f"a geometry of the kind {kind}"
        raise BadEvent(msg)
    if kind == _POINT:
        return {"coordinates": _point(data, endian), "type": name}
    if kind == 2:
        return {"coordinates": _line(data, endian), "type": name}
    if kind == 3:
        return {"coordinates": [_line(data, endian) for _ in range(data.count(endian, 4))], "type": name}
    parts = [_geometry(data, depth + 1) for _ in range(data.count(endian, 9))]
    if kind == _COLLECTION:
        return {"geometries": parts, "type": name}
    if any(part["type"] != _NAMES[kind - 3] for part in parts):
        msg = f"a {name} with other parts"
        raise BadEvent(msg)
    return {"coordinates": [part["coordinates"] for part in parts], "type": name}


def _line(data: _Bytes, endian: str) -> list[list[float | int]]:
    return [_point(data, endian) for _ in range(data.count(endian, 16))]


def _point(data: _Bytes, endian: str) -> list[float | int]:
    return [int(number) if number.is_integer() and abs(number) < 1e15 else number for number in _two(data, endian)]


def _two(data: _Bytes, endian: str) -> list[float]:
    found = [float(number) for number in data.take(endian + "dd")]
    if any(number - number != 0 for number in found):  # NaN or infinite
        msg = "a coordinate that is no number"
        raise BadEvent(msg)
    return found

"""Texts of values, which are the same for values that a column takes for equal.

In: JSON text of a value, in whichever form its format has it, and the type of its column. Out: a text. Numbers are
equal by what they are worth, times by the moment, texts by their characters. Rules: docs/spec/values.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import orjson

from ingest.model import temporal, types
from ingest.model.data_type import (
    ArrayType,
    BinaryType,
    DecimalType,
    DoubleType,
    FloatType,
    MapType,
    StructType,
    TimestampNTZType,
    TimestampType,
    TimeType,
)
from ingest.model.floats import shortest
from ingest.model.jsontext import MALFORMED, fields_of
from ingest.model.spelling import plain_number, respelled
from ingest.model.values import elements_of, holds, written
from ingest.sinks.lake.values import reader_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ingest.model.data_type import DataType
    from ingest.verify.rows import Cells

_NULL = b"null"
_TIMES = (TimestampNTZType, TimestampType, TimeType)
_NESTED = (ArrayType, MapType, StructType)


def cells_of(row: bytes, columns: Mapping[str, DataType] | None = None, *, coarse: bool = False) -> Cells:
    """Return the cells of a row's JSON, of these columns only; without any of all, as texts.

    `coarse`: whether times have microseconds. Raise one of MALFORMED.
    """
    out: Cells = {}
    for name, raw in fields_of(row).items():
        if columns is None or name in columns:
            kind = types.STRING if columns is None else columns[name]
            text = cell(kind, bytes(raw).strip(), coarse=coarse)
            if text is not None:
                out[name] = text
    return out


def cell(kind: DataType, raw: bytes, *, coarse: bool = False) -> str | None:
    """Return the text of a value; None for null. What says no value of the type is its JSON."""
    if raw == _NULL:
        return None
    if types.is_text(kind):
        return msgspec.json.decode(written(raw, types.STRING, types.STRING), type=str)
    if isinstance(kind, _NESTED):
        try:
            return orjson.dumps(_inside(kind, raw, coarse=coarse)).decode()
        except (*MALFORMED, TypeError):
            return raw.decode()
    own = raw if holds(kind, raw) else respelled(kind, raw, temporal.SQL)
    if own is None:
        return raw.decode()
    try:
        return _plain(kind, own, coarse=coarse)
    except ValueError:
        return raw.decode()


def _plain(kind: DataType, own: bytes, *, coarse: bool) -> str:
    """Return the text of a value in its type's own form. Raise ValueError."""
    if isinstance(kind, FloatType):
        return repr(shortest(reader_of(kind)(own)[0]))
    if isinstance(kind, DoubleType):
        return repr(float(own) + 0.0)
    if isinstance(kind, DecimalType):
        text = plain_number(own).decode()
        text = text.rstrip("0").rstrip(".") if "." in text else text
        return "0" if text in {"-0", ""} else text
    if isinstance(kind, _TIMES):
        text = own[1:-1].decode()
        zone = "Z" if text.endswith("Z") else ""
        text = text.removesuffix("Z").replace("T", " ")
        text = temporal.coarse(text)[0] if coarse else text
        if isinstance(kind, TimeType) and text.count(":") == 1:
            text += ":00"
        return (text.rstrip("0").rstrip(".") if "." in text else text) + zone
    if isinstance(kind, BinaryType) or own[:1] == b'"':
        return msgspec.json.decode(own, type=str)
    return own.decode()


def _inside(kind: DataType, raw: bytes, *, coarse: bool) -> Any:
    """Return a value of an ARRAY, MAP or ROW with the texts of its parts; a ROW lacks nulls, and has its own order."""
    if raw == _NULL:
        return None
    if raw[:1] == b'"' and isinstance(kind, _NESTED):  # a text that holds its JSON
        raw = msgspec.json.decode(raw, type=str).encode()
    if isinstance(kind, ArrayType):
        return [_inside(kind.element, bytes(one), coarse=coarse) for one in elements_of(raw)]
    if isinstance(kind, MapType):
        found = {name: _inside(kind.value, bytes(one), coarse=coarse) for name, one in fields_of(raw).items()}
        return dict(sorted(found.items()))
    if isinstance(kind, StructType):
        of = {field.name: field.type for field in kind.fields}
        made = {n: _inside(of.get(n, types.STRING), bytes(one), coarse=coarse) for n, one in fields_of(raw).items()}
        return {name: one for name, one in sorted(made.items()) if one is not None}
    return cell(kind, raw, coarse=coarse)

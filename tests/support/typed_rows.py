"""Rows of a table that has a column of each type, as JSON, with the types in DDL's words."""

from __future__ import annotations

import json
from base64 import b64encode
from datetime import datetime, time
from decimal import Decimal
from typing import Any

import msgspec
from hypothesis import strategies as st

_texts = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=8)
dates = st.dates().map(str)
moments = st.datetimes().map(lambda moment: moment.isoformat(" "))
decimals = st.decimals(-99999999, 99999999, allow_nan=False, allow_infinity=False, places=2)
TYPED: dict[str, tuple[str, Any]] = {
    "id": ("BIGINT", st.integers(0, 3)),
    "i8": ("TINYINT", st.integers(-128, 127)),
    "i16": ("SMALLINT", st.integers(-(1 << 15), (1 << 15) - 1)),
    "i32": ("INT", st.integers(-(1 << 31), (1 << 31) - 1)),
    "i64": ("BIGINT", st.integers(-(1 << 63), (1 << 63) - 1)),
    "f": ("DOUBLE", st.floats(allow_nan=False, allow_infinity=False)),
    "b": ("BOOLEAN", st.booleans()),
    "s": ("STRING", _texts),
    "d": ("DATE", dates),
    "ts": ("TIMESTAMP", moments),
    "n": ("DECIMAL(10, 2)", decimals.map(float)),
    "big": ("DECIMAL(38, 0)", st.integers(-(10**38) + 1, 10**38 - 1)),
    "t3": (
        "TIME(3)",
        st.times().map(lambda time: time.replace(microsecond=time.microsecond // 1000 * 1000).isoformat()),
    ),
    "t6": ("TIME(6)", st.times().map(lambda time: time.isoformat())),
    "bytes": ("BYTES", st.binary(max_size=4).map(lambda data: b64encode(data).decode())),
}
KINDS = {name: sql.replace(", ", ",") if "(" in sql else sql for name, (sql, _) in TYPED.items()}
"""The types as they are shown."""
typed_rows = st.fixed_dictionaries(
    {name: values if name == "id" else st.none() | values for name, (_, values) in TYPED.items()}
)


def texts(value: bytes | None) -> Any:
    """A row as its texts say it: a number in one spelling, whatever its zeros."""
    if value is None:
        return None
    fields = msgspec.json.decode(value, type=dict[str, msgspec.Raw])
    return {name: said(name, bytes(raw)) for name, raw in fields.items()}


def said(name: str, raw: bytes) -> Any:
    """What the text of a value says."""
    value = json.loads(raw, parse_float=str, parse_int=str)
    if KINDS[name][:4] == "TIME" and value is not None:
        return (datetime if KINDS[name] == "TIMESTAMP" else time).fromisoformat(value)
    if not isinstance(value, str) or raw[:1] == b'"':
        return value
    if KINDS[name] == "DOUBLE":
        return float(value)
    return Decimal(value)

"""Rows of a lake: native code makes the columns that the reference makes, whatever the JSON, or leaves the record."""

from __future__ import annotations

import json
import re
import struct
from base64 import b64encode
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from any_table import a_nested, a_number, a_scalar, a_spelling, a_text
from examples import examples
from hypothesis import event, example, given, settings
from hypothesis import strategies as st
from picking import pick, shuffle
from typed_rows import TYPED, typed_rows

from ingest.model import types
from ingest.sinks.lake.rows import BUILT, UnfitRows, rows_reader, rows_to_batch, rows_to_batch_by_reference
from ingest.sinks.lake.table import LakeColumn

pytestmark = pytest.mark.compiled
KINDS = [
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(5,2)", "DECIMAL(38,0)",
    "DECIMAL(38,38)", "DECIMAL(20,10)", "STRING", "VARCHAR(3)", "BYTES", "DATE", "TIME(3)", "TIMESTAMP",
    "TIMESTAMP_LTZ",
]  # fmt: skip
NAMES = ["id", "a", "b", "ключ", "", "a b", "after", "%d", "{", 'q"']
a_digit = re.compile(r"-?(0|[1-9][0-9]{0,40})(\.[0-9]{1,45})?([eE][+-]?[0-9]{1,3})?", re.ASCII)
a_long_number = st.from_regex(a_digit, fullmatch=True)
a_clock = st.from_regex(
    re.compile(
        r'"(000|20)[0-2][0-9]-[01][0-9]-[0-3][0-9][T ][0-2][0-9]:[0-5][0-9]:[0-6][0-9](\.[0-9]{1,10})?Z?"', re.ASCII
    ),
    fullmatch=True,
)
a_time = st.from_regex(re.compile(r'"[0-2][0-9]:[0-5][0-9](:[0-6][0-9](\.[0-9]{1,10})?)?"', re.ASCII), fullmatch=True)
some_base64 = st.binary(max_size=9).map(lambda data: f'"{b64encode(data).decode()}"')
a_fraction = st.sampled_from(["", "", ".5", ".120", ".123456", ".123456000", ".1234567", ".123456789"])
a_clock_time = st.times().map(lambda time: time.replace(microsecond=0).isoformat())
a_moment = st.datetimes().map(lambda moment: moment.replace(microsecond=0).isoformat(" "))


def joined(*parts: Any) -> Any:
    """A text in quotes of several parts."""
    return st.tuples(*parts).map(lambda texts: f'"{"".join(texts)}"')


def decimals(digits: int, scale: int) -> Any:
    return st.integers(-(10**digits) + 1, 10**digits - 1).map(lambda whole: f"{Decimal(whole).scaleb(-scale, WIDE):f}")


WIDE = Context(prec=99)
FITTING = {
    "BOOLEAN": st.sampled_from(["true", "false"]), "BYTES": some_base64, "DATE": joined(st.dates().map(str)),
    "TIME(3)": joined(a_clock_time, a_fraction), "TIMESTAMP": joined(a_moment, a_fraction),
    "TIMESTAMP_LTZ": joined(a_moment, a_fraction, st.just("Z")),
    "STRING": st.text(st.characters(codec="utf-8"), max_size=6).map(json.dumps),
    "VARCHAR(3)": st.text(st.characters(codec="utf-8"), max_size=3).map(lambda t: json.dumps(t, ensure_ascii=False)),
    "FLOAT": st.floats(width=32, allow_nan=False, allow_infinity=False).map(json.dumps),
    "DOUBLE": st.floats(allow_nan=False, allow_infinity=False).map(json.dumps),
    "DECIMAL(5,2)": decimals(5, 2), "DECIMAL(38,0)": decimals(38, 0), "DECIMAL(38,38)": decimals(38, 38),
    "DECIMAL(20,10)": decimals(20, 10),
    **{
        kind: st.integers(-(1 << bits), (1 << bits) - 1).map(str)
        for kind, bits in (("TINYINT", 7), ("SMALLINT", 15), ("INT", 31), ("BIGINT", 63))
    },
}  # fmt: skip
ODD = {
    "TIME(3)": a_time, "TIMESTAMP": a_clock, "TIMESTAMP_LTZ": a_clock, "STRING": a_text, "VARCHAR(3)": a_text,
    "BOOLEAN": a_scalar, "BYTES": a_text, "DATE": a_text,
}  # fmt: skip


def an_odd_value(kind: str) -> Any:
    """A text for a column of a type that may not be of its form, or say no value of it."""
    usual = FITTING[kind].flatmap(a_spelling)
    return st.one_of(usual, usual, ODD.get(kind, a_long_number), a_number, a_scalar, a_nested)


def some_fields(draw: Any, kinds: dict[str, str], names: list[str]) -> list[tuple[str, str]]:
    """Values of columns: one that is odd, at most."""
    odd = pick(draw, [*names, *[None] * len(names)])
    return [(name, draw(an_odd_value(kinds[name]) if name == odd else FITTING[kinds[name]])) for name in names]


def fields_text(draw: Any, fields: list[tuple[str, str]]) -> str:
    """The text of an object, with white space or without."""
    gap = pick(draw, ["", "", "", " ", "\n\t"])
    escaped = pick(draw, [False, False, False, True])
    parts = [f"{json.dumps(name, ensure_ascii=escaped)}{gap}:{gap}{value}" for name, value in fields]
    return f"{gap}{{{gap}" + f"{gap},{gap}".join(parts) + f"{gap}}}{gap}"


@st.composite
def a_table(draw: Any) -> tuple[list[LakeColumn], list[str], list[tuple[bytes, bytes | None]]]:
    """Columns, those of the key, and records that mostly fit."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=5, unique=True))
    kinds = {name: pick(draw, KINDS) for name in names}
    key = names[: pick(draw, [1, 1, 2])]
    records: list[tuple[bytes, bytes | None]] = []
    for _ in range(draw(st.integers(0, 6))):
        fields, of_key = some_fields(draw, kinds, names), some_fields(draw, kinds, key)
        odd = pick(draw, [None, None, None, "missing", "twice", "order", "more", "delete", "cut", "junk"])
        if odd == "missing":
            fields.pop(draw(st.integers(0, len(fields) - 1)))
        elif odd == "twice":
            fields.insert(0, (pick(draw, names), draw(a_scalar)))
        elif odd == "order":
            fields = shuffle(draw, fields)
        elif odd == "more":
            fields.append(("other", draw(a_nested)))
        row = fields_text(draw, fields)
        if odd == "cut":
            row = row[: draw(st.integers(0, len(row)))]
        elif odd == "junk":
            row += pick(draw, ["x", " ,", "{}", "\0", "\xff"])
        data = row.encode("utf-8", "surrogatepass")
        records.append((fields_text(draw, of_key).encode("utf-8", "surrogatepass"), None if odd == "delete" else data))
    return [LakeColumn(name, types.parse(kinds[name])) for name in names], key, records


def made(to_batch: Any, columns: Any, key: Any, records: Any) -> tuple[Any, ...]:
    """What comes of records: rows, or who is at fault; and what was counted."""
    cut: dict[str, int] = {}
    try:
        batch = to_batch(columns, key, records, cut)
    except UnfitRows as exc:
        return "unfit", exc.faults, cut
    batch.validate(full=True)
    return "rows", batch, cut


@settings(max_examples=examples(1500))
@given(a_table())
def test_native_code_makes_the_columns_of_the_reference(table: Any) -> None:
    columns, key, records = table
    expected = made(rows_to_batch_by_reference, columns, key, records)
    found = made(rows_to_batch, columns, key, records)
    if expected[0] == "unfit":
        assert found == expected
        places = {place for place, _ in expected[1]}
        records = [record for place, record in enumerate(records) if place not in places]
        expected = made(rows_to_batch_by_reference, columns, key, records)
        found = made(rows_to_batch, columns, key, records)
    assert found[0] == expected[0] == "rows"
    assert found[2] == expected[2]
    reader = rows_reader(columns, key)
    if reader is not None:
        event(f"{len(reader.read(records))} of {len(records)} are left to the reference")
    assert found[1].schema == expected[1].schema
    for one, other in zip(found[1].columns, expected[1].columns, strict=True):
        assert one.equals(other)
        assert bits_of(one) == bits_of(other), "equal to the bit: -0.0 is not 0.0"


def bits_of(column: Any) -> Any:
    """A column's binary numbers as their bits."""
    code = {pa.float32(): "<f", pa.float64(): "<d"}.get(column.type)
    return None if code is None else [None if v is None else struct.pack(code, v) for v in column.to_pylist()]


@settings(max_examples=examples(500))
@given(st.lists(typed_rows, max_size=5), st.booleans())
def test_rows_that_fit_come_back_as_json_says_and_are_not_left(rows: list[dict[str, Any]], ascii_only: bool) -> None:
    columns = [LakeColumn(name, types.parse(sql.replace(", ", ","))) for name, (sql, _) in TYPED.items()]
    records = [
        (json.dumps({"id": row["id"]}).encode(), json.dumps(row, ensure_ascii=ascii_only).encode()) for row in rows
    ]
    if BUILT:
        reader = rows_reader(columns, ["id"])
        assert reader is not None
        left = reader.read(records)
        assert all("e" in repr(rows[place]["n"]) for place in left), "native code reads what is usual"
    back = rows_to_batch(columns, ["id"], records).to_pylist()
    assert [{name: said(name, value) for name, value in row.items()} for row in back] == [
        {name: came(name, value) for name, value in row.items()} for row in rows
    ]


def said(name: str, value: Any) -> Any:
    """A value that Arrow gave back, as JSON has it."""
    kind = TYPED[name][0]
    if value is None:
        return None
    if kind == "TIMESTAMP":
        return value.isoformat(" ")
    if kind.startswith(("TIME", "DATE")):
        return value.isoformat()
    return b64encode(value).decode() if kind == "BYTES" else value


def came(name: str, value: Any) -> Any:
    """A value as it was in JSON; a decimal with its digits."""
    return Decimal(repr(value)) if name == "n" and value is not None else value


@settings(max_examples=examples(1000))
@given(a_long_number)
@example("1.00000005960464477539062500000000001")
@example("16777217")
@example("3.4028235677973366e38")
@example("1e-45")
@example("7.006492321624085354618e-46")
def test_a_float_is_the_nearest_one(text: str) -> None:
    columns = [LakeColumn("id", types.BIGINT), LakeColumn("f", types.FLOAT)]
    record = (b'{"id":1}', f'{{"f":{text}}}'.encode())
    kind, found, _ = made(rows_to_batch, columns, ["id"], [record])
    exact = Decimal(text)
    if kind == "unfit":
        assert abs(exact) > Decimal("3.4028235e38")
        return
    value = found.to_pylist()[0]["f"]
    (bits,) = struct.unpack("<I", struct.pack("<f", abs(value)))
    others = [struct.unpack("<f", struct.pack("<I", n))[0] for n in (bits - 1, bits + 1) if 0 <= n < 0x7F800000]
    distance = distance_of(abs(exact), abs(value))
    assert all(distance <= distance_of(abs(exact), other) for other in others)


def distance_of(exact: Decimal, value: float) -> Fraction:
    """How far a number is from an exact one."""
    return abs(Fraction(exact) - Fraction(value))

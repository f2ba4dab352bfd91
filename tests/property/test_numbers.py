"""Numbers beside binary ones: what is exact, what is rounded, what does not fit; what native code takes as exact."""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import Any

import pytest
from examples import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ingest.model import types
from ingest.model.numbers import LARGEST, Fit, Numbers, fit_of, is_key, rounding_of
from ingest.native import native

if native.BUILT:
    from any_table import SINK, Message, schema
    from native_encoding import take

    from ingest.encode.encode import EncoderCache
    from ingest.formats.debezium.options import DebeziumJson
    from ingest.schema.evolve import Schemas, SourceTable
    from ingest.schema.infer import Inference

a_plain_number = st.from_regex(r"\A-?(0|[1-9][0-9]{0,18})(\.[0-9]{1,22})?\Z")
a_double = st.floats(allow_nan=False, allow_infinity=False).map(repr)
beside_a_double = st.builds(
    lambda value, digits: f"{Decimal(value):.{digits}f}", st.floats(-1e17, 1e17), st.integers(0, 18)
)
a_number = st.one_of(
    a_plain_number, a_double, beside_a_double, st.from_regex(r"\A-?[1-9](\.[0-9]{1,18})?[eE][+-]?[0-9]{1,3}\Z")
)
TEXTS = [
    "0", "-0.0", "0.10000000000000001", "4.9E-324", "3.3333333333333333", "9007199254740992", "9007199254740993",
    "-9007199254740993", "9007199254740991.5", "123456789012345678.91", "1e400", "1e-400", "1e23", "16777217",
    "0.30000000000000004", "1152921504606846976", "99999999999999.99", "0.000010000000000000001", "1.000000000000000",
    "100000000000000.38",
]  # fmt: skip


def digits(text: str) -> int:
    return max(len(text.lower().partition("e")[0].lstrip("-").replace(".", "").lstrip("0")), 1)


def expected(text: str) -> Fit:
    """The rule, word by word."""
    near = float(text)
    if abs(near) == float("inf"):
        return Fit.UNFIT
    if Decimal(f"{near:.{digits(text) - 1}e}") == Decimal(text):
        return Fit.EXACT
    return Fit.ROUNDED if abs(Decimal(text)) <= LARGEST else Fit.UNFIT


def with_texts(test: Any) -> Any:
    for text in TEXTS:
        test = example(text)(test)
    return test


@with_texts
@settings(max_examples=examples(1000))
@given(a_number)
def test_a_number_in_a_double(text: str) -> None:
    assert fit_of(types.DOUBLE, text.encode()) is expected(text)
    assert fit_of(types.DOUBLE, text.encode(), types.DOUBLE) is Fit.EXACT
    assert fit_of(types.DOUBLE, text.encode(), types.FLOAT) is Fit.EXACT


@settings(max_examples=examples(500))
@given(st.floats(width=32, allow_nan=False, allow_infinity=False), a_number)
def test_a_number_in_a_float(single: float, text: str) -> None:
    assert fit_of(types.FLOAT, f"{Decimal(single):f}".encode()) is Fit.EXACT
    assert fit_of(types.FLOAT, repr(single).encode(), types.DOUBLE) is Fit.EXACT
    assert fit_of(types.FLOAT, text.encode(), types.FLOAT) is Fit.EXACT
    if fit_of(types.FLOAT, text.encode()) is Fit.EXACT:
        (near,) = struct.unpack("<f", struct.pack("<f", float(text)))
        assert Decimal(near) == Decimal(text)


@pytest.mark.parametrize(
    ("said", "text", "fit"),
    [
        ("DOUBLE", "0.1", Fit.UNFIT), ("DOUBLE", "0.5", Fit.EXACT), ("DOUBLE", "1e300", Fit.UNFIT),
        ("FLOAT", "0.1", Fit.EXACT), ("BIGINT", "16777217", Fit.UNFIT), ("BIGINT", "16777216", Fit.EXACT),
    ],
)  # fmt: skip
def test_a_declared_number_in_a_float(said: str, text: str, fit: Fit) -> None:
    assert fit_of(types.FLOAT, text.encode(), types.parse(said)) is fit


@settings(max_examples=examples(500))
@given(st.floats(-(2.0**126), 2.0**126, width=32), st.integers(1, 12), a_number)
def test_a_key_is_told_from_others_by_its_column(single: float, count: int, text: str) -> None:
    """It is the shortest of the numbers that are the same one there."""
    shortest_too = expected(text) is Fit.EXACT and Decimal(repr(float(text))) == Decimal(text)
    assert is_key(types.DOUBLE, text.encode()) is shortest_too
    short = f"{single:.{count - 1}e}"
    shortest = min(
        (f"{single:.{n}e}" for n in range(9)), key=lambda text: (as_single(float(text)) != single, len(text))
    )
    if as_single(float(short)) == single:
        assert is_key(types.FLOAT, short.encode()) is (Decimal(shortest) == Decimal(short))


def as_single(number: float) -> float:
    (near,) = struct.unpack("<f", struct.pack("<f", number))
    return float(near)


@pytest.mark.parametrize(
    ("kind", "text", "said", "rounded"),
    [
        ("ARRAY<DOUBLE>", "[0.5,null,0.1]", "NULL", False), ("ARRAY<DOUBLE>", "[3.3333333333333333]", "NULL", True),
        ("ARRAY<FLOAT>", "[0.1]", "NULL", True), ("ARRAY<FLOAT>", "[0.1]", "ARRAY<FLOAT>", False),
        ("MAP<STRING, FLOAT>", '{"a":0.1}', "MAP<STRING, DOUBLE>", True),
        ("MAP<STRING, DOUBLE>", '{"a":0.1}', "MAP<STRING, FLOAT>", False),
        ("ROW<a DOUBLE, b ARRAY<ROW<c FLOAT>>>", '{"a":1,"b":[{"c":16777217}]}', "NULL", True),
        ("ROW<a DOUBLE, b ARRAY<ROW<c FLOAT>>>", '{"a":1,"b":[{"c":16777216},{}],"d":0.1}', "NULL", False),
        ("ROW<a STRING, b BIGINT>", '{"a":"0.1","b":9007199254740993}', "NULL", False),
        ("ARRAY<DOUBLE>", '"[3.3333333333333333]"', "NULL", True), ("ARRAY<DOUBLE>", '"[3.3"', "NULL", False),
        ("ARRAY<DOUBLE>", '"\\ud800"', "NULL", False), ("ARRAY<DOUBLE>", "{}", "NULL", False),
        ("BIGINT", "9007199254740993", "NULL", False),
    ],
)  # fmt: skip
def test_numbers_inside_of_values(kind: str, text: str, said: str, rounded: bool) -> None:
    told = None if said == "NULL" else types.parse(said)
    rounds = rounding_of(types.parse(kind))
    assert (rounds is not None and rounds(text.encode(), told)) is rounded


if native.BUILT:
    FORM, AT = DebeziumJson(), ("shop", "t")
    COLUMNS = schema({"id": "INT", "d": "DOUBLE", "f": "FLOAT"}, ("id",))
    CACHE = EncoderCache(SINK.encoder, Inference(FORM.reading, numbers=Numbers.STORED))
    CACHE.renew(Schemas(1, {AT: SourceTable(COLUMNS, (("out",),), key_from_message=False)}, {("out",): COLUMNS}), None)
    ENCODER = native.NativeEncoders(FORM, CACHE).of("t")


def is_taken(column: str, text: str) -> bool:
    row = '{"id":1,"d":null,"f":null}'.replace(f'"{column}":null', f'"{column}":{text}')
    value = f'{{"before":null,"after":{row},"source":{{"db":"shop","table":"t"}},"op":"c"}}'
    return take(ENCODER, [Message(b'{"id":1}', value.encode())], 0, []) == 1


@pytest.mark.compiled
@with_texts
@settings(max_examples=examples(2000))
@given(a_number)
def test_native_code_takes_only_what_is_exact(text: str) -> None:
    """And of plain numbers with up to 17 digits, of which Java and Python write doubles, all but the smallest.

    It leaves one that the nearest double is half of its last digit away from, too.
    """
    for column, kind in (("d", types.DOUBLE), ("f", types.FLOAT)):
        if is_taken(column, text):
            assert fit_of(kind, text.encode()) is Fit.EXACT
    plain = "e" not in text.lower() and digits(text) <= 17 and len(text.partition(".")[2]) <= 20
    tie = plain and abs(Decimal(float(text)) - Decimal(text)) * 2 == Decimal(1).scaleb(-len(text.partition(".")[2]))
    if plain and not tie and abs(float(text)) < LARGEST and fit_of(types.DOUBLE, text.encode()) is Fit.EXACT:
        assert is_taken("d", text)

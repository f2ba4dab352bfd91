"""A value of a declared type in another text is the same value in the type's own text, or none at all."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal, localcontext
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ingest.model import temporal, types
from ingest.model.spelling import respelled, says
from ingest.model.temporal import timestamp_said
from ingest.model.values import fits, fits_inside

NUMBERS = ["TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(5,2)", "DECIMAL(38,0)", "DECIMAL(20,20)"]
NAMES = [
    *NUMBERS, "BOOLEAN", "VARCHAR(3)", "CHAR(3)", "STRING", "BYTES", "DATE", "TIME(3)", "TIMESTAMP", "TIMESTAMP_LTZ",
    "ARRAY<INT>", "MAP<STRING, DECIMAL(5,2)>", "ROW<a INT, b ARRAY<STRING>>", "NULL",
]  # fmt: skip
a_number = st.from_regex(r"[+-]?0{0,2}[0-9]{0,12}(\.[0-9]{0,12})?([eE][+-]?[0-9]{1,3})?", fullmatch=True)
a_time = st.from_regex(
    r"(19|20)[0-9]{2}-(0[1-9]|1[0-2])-[0-3][0-9]([T ][0-2][0-9]:[0-5][0-9](:[0-6][0-9](\.[0-9]{1,11})?)?"
    r"( ?(Z|[+-][01][0-9](:[0-5][0-9](:[0-6][0-9])?|[0-5][0-9]([0-6][0-9])?)?))?)?",
    fullmatch=True,
)


@given(st.sampled_from(NUMBERS), a_number, st.sampled_from(["", " ", "\t", " \n "]))
def test_no_number_loses_a_digit(name: str, text: str, space: str) -> None:
    data_type = types.parse(name)
    made = respelled(data_type, json.dumps(space + text + space).encode(), "SQL")
    if made is None:
        return
    assert fits(data_type, made)
    with localcontext() as context:
        context.prec = 2000
        assert Decimal(made.decode()) == Decimal(text)
    json.loads(made)


@given(st.sampled_from(["TIMESTAMP", "TIMESTAMP_LTZ"]), a_time, st.sampled_from(["SQL", "ISO-8601"]))
@example("TIMESTAMP_LTZ", "1900-01-01T00:00:00.0 Z", "SQL")
@example("TIMESTAMP_LTZ", "1900-01-01 00:00:00.5 +01:30", "ISO-8601")
@example("TIMESTAMP_LTZ", "1900-01-01 00:00:00.5+00:19:32", "SQL")
def test_no_time_loses_a_digit(name: str, text: str, standard: str) -> None:
    data_type = types.parse(name)
    made = respelled(data_type, f'"{text}"'.encode(), standard)
    if made is None:
        return
    zoned = name == "TIMESTAMP_LTZ"
    assert temporal.is_timestamp(made, standard, zoned=zoned) or temporal.is_fine_timestamp(made, standard, zoned=zoned)
    own = made.decode().strip('"').removesuffix("Z")
    said, came = datetime.fromisoformat(own), datetime.fromisoformat(re.sub(" (?=[Z+-])", "", text))
    assert said.replace(tzinfo=UTC) == (came if came.tzinfo is not None else came.replace(tzinfo=UTC))
    assert came.tzinfo is None or zoned
    digits = [t.partition(".")[2].partition("Z")[0].partition("+")[0].partition("-")[0].strip() for t in (own, text)]
    assert digits[0].rstrip("0") == digits[1].rstrip("0")


a_value = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False),
              a_number, a_time, st.text(max_size=5),
              st.sampled_from(["TRUE", " false ", "aGk=", "1e5", "12:13:14.1234567"])),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("abc"), inner, max_size=3)),
    max_leaves=4,
)  # fmt: skip


@given(st.sampled_from(NAMES), a_value, st.sampled_from(["SQL", "ISO-8601"]))
def test_what_was_written_is_of_the_type_and_stays_so(name: str, value: Any, standard: str) -> None:
    data_type, raw = types.parse(name), json.dumps(value).encode()
    made = None if fits_inside(data_type, raw, standard) else respelled(data_type, raw, standard)
    if made is not None:
        assert fits_inside(data_type, made, standard) or respelled(data_type, made, standard) == made
        assert says(data_type, made, standard)
        json.loads(made)


@pytest.mark.parametrize("hours", [-12, 0, 5.5, 14])
def test_a_zone_is_an_instant(hours: float) -> None:
    moment = datetime(2020, 1, 31, 12, 13, 14, tzinfo=timezone(timedelta(hours=hours)))
    made = respelled(types.TIMESTAMP_LTZ, json.dumps(moment.isoformat()).encode(), "SQL")
    assert made == f'"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%SZ}"'.encode()


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("INT", '"1.5"'), ("INT", '"3000000000"'), ("INT", "true"), ("INT", '""'), ("INT", '"1e999999999"'),
        ("INT", '"0x1"'), ("INT", '"1_000"'), ("BIGINT", '"\\u0661"'), ("DOUBLE", '"NaN"'), ("DOUBLE", '".e1"'),
        ("DECIMAL(5,2)", '"1.234"'), ("DECIMAL(5,2)", '"1234"'),
        ("BOOLEAN", '"yes"'), ("BOOLEAN", "1"), ("VARCHAR(3)", "1234"),
        ("DATE", "18262"),
        ("DATE", '"2020-01-31T00:00:01"'), ("TIMESTAMP", '"2020-01-31T12:13:14Z"'), ("TIMESTAMP", '"2020-02-30T00:00"'),
        ("TIMESTAMP", '"2020-01-31T00:00:00.1234567891"'), ("TIMESTAMP_LTZ", '"0001-01-01T00:00+14:00"'),
        ("TIMESTAMP_LTZ", "1580000000000"), ("TIME(3)", '"24:00"'), ("ARRAY<INT>", '["1", "x"]'),
        ("ARRAY<INT>", '"[1]"'),
        ("ROW<a INT>", '{"b":"1"}'),
    ],
)  # fmt: skip
def test_what_says_no_value_of_the_type_is_none(name: str, raw: str) -> None:
    assert not says(types.parse(name), raw.encode(), "SQL")


@pytest.mark.parametrize("zone", ["+02:60", "+19:00", "+18:01", "-23:59", "+0260", "+99"])
def test_a_distance_from_utc_that_no_zone_has_is_none(zone: str) -> None:
    assert timestamp_said(f"2020-01-31T12:13:14{zone}", zoned=True) is None


@pytest.mark.parametrize(
    ("zone", "hour"), [("+02:59", b"09:14"), ("-18:00", b"06:13"), ("+02", b"10:13"), ("Z", b"12:13")]
)
def test_a_distance_from_utc_is_taken_off(zone: str, hour: bytes) -> None:
    assert hour in (timestamp_said(f"2020-01-31T12:13:14{zone}", zoned=True) or b"")

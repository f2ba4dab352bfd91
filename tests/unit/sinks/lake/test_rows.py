"""Records as rows of Arrow, value by value, by the reference and by what is used."""

from __future__ import annotations

import datetime as dt
import struct
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from ingest.model import types
from ingest.sinks.lake.rows import UnfitRows, rows_to_batch, rows_to_batch_by_reference
from ingest.sinks.lake.table import LakeColumn

if TYPE_CHECKING:
    from collections.abc import Callable

UTC = dt.UTC
BOTH = pytest.mark.parametrize("to_batch", [rows_to_batch_by_reference, rows_to_batch])
ID = LakeColumn("id", types.BIGINT)
MAX = 10**38 - 1


def one(to_batch: Callable[..., pa.RecordBatch], kind: str, text: str | bytes) -> Any:
    """Return a value as Python has it after Arrow had it."""
    raw = text if isinstance(text, bytes) else text.encode()
    batch = to_batch([ID, LakeColumn("a", types.parse(kind))], ["id"], [(b'{"id":1}', b'{"id":1,"a":' + raw + b"}")])
    batch.validate(full=True)
    return batch.to_pylist()[0]["a"]


def moment(*parts: Any) -> dt.datetime:
    """Return a moment without a zone, or in the one that comes last."""
    return dt.datetime(*parts)  # noqa: DTZ001  (TIMESTAMP has none)


def nearest(text: str) -> float:
    """Return a number of 32 bits."""
    return float(struct.unpack("<f", struct.pack("<f", float(text)))[0])


@BOTH
@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("BOOLEAN", "true", True), ("BOOLEAN", "false", False), ("TINYINT", "-128", -128), ("SMALLINT", "32767", 32767),
        ("INT", "-2147483648", -(1 << 31)), ("INT", "-0", 0), ("BIGINT", "9223372036854775807", (1 << 63) - 1),
        ("BIGINT", "-9223372036854775808", -(1 << 63)),
        ("DOUBLE", "0.1", 0.1), ("DOUBLE", "1e-3", 0.001), ("DOUBLE", "1E400000", None), ("DOUBLE", "1e-400", 0.0),
        ("DOUBLE", "123456789012345678901234567890", 123456789012345678901234567890.0), ("DOUBLE", "7", 7.0),
        ("DOUBLE", "9007199254740993", 9007199254740992.0),
        ("FLOAT", "0.1", nearest("0.1")), ("FLOAT", "3.4028235e38", nearest("3.4028235e38")),
        ("FLOAT", "3.4028236e38", None), ("FLOAT", "1e-50", 0.0), ("FLOAT", "1e400", None),
        ("DECIMAL(5,2)", "123.45", Decimal("123.45")), ("DECIMAL(5,2)", "-1.5", Decimal("-1.50")),
        ("DECIMAL(5,2)", "1.50000", Decimal("1.50")), ("DECIMAL(5,2)", "100", Decimal("100.00")),
        ("DECIMAL(5,2)", "-0.0", Decimal("0.00")), ("DECIMAL(5,2)", "1.555", None), ("DECIMAL(5,2)", "1000", None),
        ("DECIMAL(5,2)", "1.5e2", Decimal("150.00")), ("DECIMAL(5,2)", "1e-3", None),
        ("DECIMAL(38,0)", f"-{MAX}", Decimal(-MAX)), ("DECIMAL(38,0)", f"{MAX + 1}", None),
        ("DECIMAL(38,38)", "0." + "9" * 38, Decimal("0." + "9" * 38)),
        ("DECIMAL(38,37)", "-9." + "1" * 37, Decimal("-9." + "1" * 37)),
        ("STRING", '"é\\u00e9\\ud83d\\ude00\\n\\"\\/"', 'éé😀\n"/'), ("STRING", '""', ""), ("STRING", "1.50", "1.50"),
        ("STRING", "true", "true"), ("STRING", '{"a" : [1]}', '{"a":[1]}'), ("STRING", '"a\\u0000b"', "a\0b"),
        ("VARCHAR(2)", '"abc"', "abc"), ("STRING", '"\\ud83d"', None), ("STRING", b'"\xff"', None),
        ("BYTES", '"aGk="', b"hi"), ("BYTES", '""', b""), ("BYTES", '"aGk"', None), ("BYTES", '"a?k="', None),
        ("DATE", '"0001-01-01"', dt.date(1, 1, 1)), ("DATE", '"9999-12-31"', dt.date(9999, 12, 31)),
        ("DATE", '"2023-02-29"', None), ("DATE", '"10000-01-01"', None), ("DATE", '"0000-12-31"', None),
        ("TIME(3)", '"12:13:14.5"', dt.time(12, 13, 14, 500_000)), ("TIME(3)", '"23:59"', dt.time(23, 59)),
        ("TIME(9)", '"23:59:59.9999999"', dt.time(23, 59, 59, 999_999)), ("TIME(3)", '"24:00:00"', None),
        ("TIMESTAMP", '"0001-01-01 00:00:00"', moment(1, 1, 1)),
        ("TIMESTAMP", '"9999-12-31T23:59:59.999999"', moment(9999, 12, 31, 23, 59, 59, 999_999)),
        ("TIMESTAMP", '"1969-12-31 23:59:59.5"', moment(1969, 12, 31, 23, 59, 59, 500_000)),
        ("TIMESTAMP", '"1969-12-31 23:59:59.123456789"', moment(1969, 12, 31, 23, 59, 59, 123_456)),
        ("TIMESTAMP", '"2020-01-31"', moment(2020, 1, 31)), ("TIMESTAMP", '"0000-01-01 00:00:00"', None),
        ("TIMESTAMP", '"2020-01-31 12:13:14Z"', None),
        ("TIMESTAMP_LTZ", '"2020-01-31 12:13:14.5Z"', moment(2020, 1, 31, 12, 13, 14, 500_000, UTC)),
        ("TIMESTAMP_LTZ", '"2020-01-31 12:13:14"', moment(2020, 1, 31, 12, 13, 14, 0, UTC)),
        ("TIMESTAMP_LTZ", '"0001-01-01 00:00:00+05:00"', None),
        ("TINYINT", "128", None), ("INT", "2147483648", None), ("BIGINT", "9223372036854775808", None),
        ("INT", "1.5", None), ("INT", '"x"', None), ("INT", "{}", None), ("INT", "true", None), ("BOOLEAN", "1", None),
        ("DATE", "5", None),
    ],
)  # fmt: skip
def test_a_value_is_what_its_text_says(to_batch: Any, kind: str, text: str | bytes, expected: Any) -> None:
    if expected is not None:
        assert one(to_batch, kind, text) == expected
        return
    with pytest.raises(UnfitRows) as failed:
        one(to_batch, kind, text)
    ((place, reason),) = failed.value.faults
    assert place == 0
    assert reason


@BOTH
@pytest.mark.parametrize("bits", [0, 1, 0x7FFFFF, 0x800000, 0x3F800000, 0x3F800001, 0x7F7FFFFE])
def test_a_float_is_rounded_once(to_batch: Any, bits: int) -> None:
    """A number beside the middle of two floats is as near to that middle as no double is."""
    low, high = (struct.unpack("<f", struct.pack("<I", n))[0] for n in (bits, bits + 1))
    middle = f"{Decimal((low + high) / 2):f}"
    assert float(middle) * 2 == low + high
    for sign in (1, -1):
        text = middle if sign > 0 else f"-{middle}"
        above = text + ("" if "." in text else ".") + "0" * 20 + "1"
        assert one(to_batch, "FLOAT", text) == sign * (low if bits % 2 == 0 else high)
        assert one(to_batch, "FLOAT", above) == sign * high


@BOTH
def test_columns_of_the_key_are_those_of_the_key(to_batch: Any) -> None:
    columns = [
        LakeColumn("n", types.BIGINT), LakeColumn("s", types.STRING), LakeColumn("x", types.parse("DECIMAL(5,2)")),
        LakeColumn("d", types.TIMESTAMP), LakeColumn("a", types.INT),
    ]  # fmt: skip
    key = b'{"n": "41", "s": 1.5, "x": 1.5, "d": "2020-01-31"}'
    row = b'{"a": 1, "a" : 2, "n":7, "s":"1.50", "x":1.50, "d":"2020-01-31 00:00:00", "other": [1]}'
    batch = to_batch(columns, ["n", "s", "x", "d"], [(key, row), (key, None)])
    told = {"n": 41, "s": "1.5", "x": Decimal("1.50"), "d": moment(2020, 1, 31)}
    assert batch.to_pylist() == [{**told, "a": 2}, {**told, "a": None}]
    assert batch.schema == pa.schema([
        ("n", pa.int64()), ("s", pa.string()), ("x", pa.decimal128(5, 2)), ("d", pa.timestamp("us")), ("a", pa.int32())
    ])  # fmt: skip


@BOTH
def test_columns_that_a_row_lacks_are_null(to_batch: Any) -> None:
    columns = [ID, *(LakeColumn(kind, types.parse(kind)) for kind in ("STRING", "BYTES", "BOOLEAN", "DECIMAL(3,1)"))]
    batch = to_batch(columns, ["id"], [(b'{"id":1}', b"{}"), (b'{"id":2}', b' {"STRING" :\n null}\t')])
    assert batch.to_pylist() == [{c.name: number if c is ID else None for c in columns} for number in (1, 2)]


@BOTH
def test_no_records_are_no_rows(to_batch: Any) -> None:
    batch = to_batch([ID, LakeColumn("a", types.STRING)], ["id"], [])
    assert (batch.num_rows, batch.schema.names) == (0, ["id", "a"])


@BOTH
def test_all_records_at_fault_are_named(to_batch: Any) -> None:
    columns = [ID, LakeColumn("a", types.INT)]
    records = [
        (b'{"id":1}', b'{"id":1,"a":1}'), (b'{"id":2}', b'{"id":2,"a":2147483648}'), (b'{"id":3}', None),
        (b'{"id":4}', b"[1]"), (b'{"id":null}', b'{"id":5}'), (b"{}", None), (b'{"id":7}', b'{"id":7,"a":"x"}'),
        (b'{"id":"\\ud800"}', None), (b'{"id":9}', b"null"), (b'{"id":10}', b'{"a":1}x'),
    ]  # fmt: skip
    cut: dict[str, int] = {}
    with pytest.raises(UnfitRows, match="8 records that cannot be rows") as failed:
        to_batch(columns, ["id"], records, cut)
    faults = dict(failed.value.faults)
    assert [*faults] == [1, 3, 4, 5, 6, 7, 8, 9]
    assert faults[1] == "column 'a' is INT, and the row has 2147483648"
    assert faults[4] == "primary key column 'id' is null or missing"


@BOTH
def test_times_that_were_cut_are_counted(to_batch: Any) -> None:
    columns = [ID, LakeColumn("t", types.parse("TIME(9)")), LakeColumn("ts", types.TIMESTAMP_LTZ)]
    row = b'{"id":1,"t":"12:13:14.1234567","ts":"2020-01-31 12:13:14.123456700Z"}'
    whole = b'{"id":1,"t":"12:13:14.123456000","ts":"2020-01-31 12:13:14.1234560Z"}'
    cut = {"t": 1}
    records = [(b'{"id":1}', row), (b'{"id":1}', whole), (b'{"id":1}', row)]
    assert to_batch(columns, ["id"], records, cut).num_rows == 3
    assert cut == {"t": 3, "ts": 2}
    with pytest.raises(UnfitRows):
        to_batch(columns, ["id"], [*records, (b"", None)], cut)
    assert cut == {"t": 3, "ts": 2}

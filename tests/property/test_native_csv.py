"""Rows in CSV, decoded natively and by the reference: the same records, rejects and schemas."""

from __future__ import annotations

from typing import Any

import pytest
from any_table import cache_of, schema
from bothways import both_ways
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from picking import pick

from ingest.formats.csv.options import Csv
from ingest.native import native
from ingest.native.codes import CsvKind, MessageForm
from ingest.native.contract import CsvSpec, MessageSpec
from ingest.testing.in_memory import MemoryRecord

pytestmark = pytest.mark.compiled

DDL = (
    "CREATE TABLE topic (id BIGINT, n DECIMAL(5, 2), s STRING, b BOOLEAN, day DATE, v VARCHAR(3), list ARRAY<INT>, "
    "PRIMARY KEY (id) NOT ENFORCED)"
)
USUAL = ["1", "1.50", '"a""b"', "true", "2020-01-31", "abc", "[1]"]
odd = st.sampled_from([
    "", '""', " 7", "007", "-0", "1e5", "+1", ".5", "1.", "nan", "TRUE", "false", '"1"', '"true"', 'a"b', '"a\nb"',
    "a\tb", '"x" ', '"x"y', '"open', "\\", '"\\"', "é", '"\u2028"', "\0", "\x7f", "'", '"2020-01-31 12:13:14"', "1;2",
    "null", "99999999999999999999", '"{""k"":1}"', "\x1f", "#", "-", "\ufeff1",
])  # fmt: skip


@st.composite
def lines(draw: st.DrawFn, delimiter: str, quote: str) -> bytes:
    """A row of the table, mostly; now and then with something odd."""
    fields = [draw(odd) if pick(draw, [False] * 5 + [True]) else field for field in USUAL]
    change = pick(draw, [None] * 8 + ["more", "less", "end", "bytes"])
    if change == "more":
        fields.append(draw(odd))
    if change == "less":
        fields.pop()
    end = pick(draw, ["", "", "", "\n", "\r\n", "\r", delimiter, "\n\n", "\nx"])
    text = (delimiter.join(fields) + (end if change == "end" else "")).replace('"', quote)
    data = text.encode()
    if change == "bytes":
        at = draw(st.integers(0, len(data)))
        data = data[:at] + draw(st.binary(max_size=2)) + data[at + 1 :]
    return data


@pytest.mark.parametrize("sink", [{}, {"value.format": "csv", "key.format": "csv"}], ids=["json", "csv"])
@pytest.mark.parametrize(
    ("delimiter", "quote"),
    [(",", '"'), ("\t", '"'), (";", "'"), ("\x01", None)],
    ids=["usual", "tab", "single", "none"],
)
@settings(max_examples=examples(150), deadline=None)
@given(st.data())
def test_rows_come_to_the_same(delimiter: str, quote: str | None, sink: dict[str, Any], data: st.DataObject) -> None:
    options: dict[str, Any] = {"csv.field-delimiter": delimiter}
    options |= {"csv.disable-quote-character": True} if quote is None else {"csv.quote-character": quote}
    messages = data.draw(st.lists(st.none() | lines(delimiter, quote or '"'), min_size=1, max_size=6))
    both_ways(
        [(None, message) for message in messages], 1, exact=True,
        source={"value.format": "csv", "scan.value.initial-schemas.ddls": DDL, **options},
        sink={"type": "upsert-kafka", "properties.bootstrap.servers": "memory:1", **sink},
    )  # fmt: skip


def encoders(form: Csv) -> native.NativeEncoders:
    table = schema({"id": "BIGINT", "s": "STRING", "b": "BOOLEAN"}, ("id",))
    return native.NativeEncoders(form, cache_of(form, ("t",), table, table, keyed=False))


def made(**options: Any) -> Csv:
    columns = {
        column.name: column.type for column in schema({"id": "BIGINT", "s": "STRING", "b": "BOOLEAN"}, ()).columns
    }
    return Csv.model_validate(options).with_tables({("t",): columns})


@pytest.mark.parametrize(
    ("line", "row"),
    [
        (b'1,"a""b\n",true', b'{"id":1,"s":"a\\"b\\n","b":true}'),
        (b"2,,\r\n", b'{"id":2,"s":null,"b":null}'),
        (b'3,a"b\\,false\n', b'{"id":3,"s":"a\\"b\\\\","b":false}'),
        (b'4,"",', b'{"id":4,"s":"","b":null}'),
    ],
)
def test_usual_rows_are_read_natively(line: bytes, row: bytes) -> None:
    encoder = encoders(made()).of("t")
    batch, stop = encoder.encode([MemoryRecord(0, "t", None, line)], 0)
    assert stop == 1
    assert [bytes(value or b"") for _, _, value in batch] == [row]


@pytest.mark.parametrize(
    "line", [b"1,a", b"1,a,true,", b"01,a,true", b"1,a,TRUE", b'1,"a" ,true', b'1,"a', b"1,a,true\n\n"]
)
def test_other_rows_are_left_to_the_reference(line: bytes) -> None:
    encoder = encoders(made()).of("t")
    _, stop = encoder.encode([MemoryRecord(0, "t", None, line)], 0)
    assert stop == 0


@pytest.mark.parametrize(
    "options",
    [
        {"csv.null-literal": "N"}, {"csv.escape-character": "\\"}, {"csv.allow-comments": True}, {"csv.header": True},
        {"csv.fail-on-missing-columns": False}, {"csv.field-delimiter": "§"},
    ],
)  # fmt: skip
def test_rarer_dialects_have_no_form(options: dict[str, Any]) -> None:
    assert made(**options).form is None
    assert made().form is not None


def test_a_topic_without_names_is_left_to_the_reference() -> None:
    encoder = encoders(made()).of("other")
    _, stop = encoder.encode([MemoryRecord(0, "other", None, b"1,a,true")], 0)
    assert stop == 0


def test_specs_that_are_none_are_refused() -> None:
    from ingest.native.native_encoder import NativeEncoder

    def encoder(columns: Any) -> NativeEncoder:
        return NativeEncoder(
            MessageSpec(MessageForm.FORM_CSV, csv=CsvSpec(b",", b'"', columns)), lambda _: None, lambda _: None
        )

    with pytest.raises(ValueError, match="no such kind"):
        encoder(((b"a", CsvKind.CSV_KINDS),))
    with pytest.raises(ValueError, match="more columns"):
        encoder(tuple((b"%d" % i, CsvKind.CSV_TEXT) for i in range(2000)))


def test_the_form_says_what_the_dialect_does() -> None:
    form = made(**{"csv.field-delimiter": ";", "csv.disable-quote-character": True}).form
    assert form is not None
    assert form.lines is not None
    assert (form.lines.delimiter, form.lines.quote) == (";", None)

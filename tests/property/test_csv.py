"""CSV and raw values: what a sink writes reads back to the same rows; and any text is a row or a reject."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import msgspec
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from inmemory import run
from picking import pick

from ingest.formats.csv.dialect import CsvError, Dialect
from ingest.formats.csv.options import Csv
from ingest.formats.raw_values import charset_of, codec_of
from ingest.model import types
from ingest.model.change import Reject, Skip

patiently = settings(max_examples=examples(60), deadline=None)
BROKER = {"properties.bootstrap.servers": "memory:1"}
texts = st.text(st.characters(codec="utf-8"), max_size=8) | st.sampled_from(
    ["", '"', '""', "\n", ",", " a", "null", "\ufeffa"]
)
TYPED: dict[str, tuple[str, Any]] = {
    "id": ("BIGINT", st.integers(0, 3)),
    "small": ("TINYINT", st.integers(-128, 127)),
    "big": ("DECIMAL(38, 0)", st.integers(-(10**38) + 1, 10**38 - 1)),
    "f": ("DOUBLE", st.floats(allow_nan=False, allow_infinity=False)),
    "b": ("BOOLEAN", st.booleans()),
    "s": ("STRING", texts),
    "v": ("VARCHAR(20)", texts),
    "day": ("DATE", st.dates().map(str)),
    "ts": ("TIMESTAMP", st.datetimes().map(lambda moment: moment.isoformat(" "))),
    "bytes": ("BYTES", st.binary(max_size=4).map(lambda data: b64encode(data).decode())),
    "list": ("ARRAY<STRING>", st.lists(texts, max_size=3)),
    "pair": ("ROW<x INT, y STRING>", st.fixed_dictionaries({"x": st.integers(0, 9), "y": texts})),
    "map": ("MAP<STRING, INT>", st.dictionaries(texts, st.integers(0, 9), max_size=2)),
}
rows = st.fixed_dictionaries(
    {name: values if name == "id" else st.none() | values for name, (_, values) in TYPED.items()}
)
COLUMNS = ", ".join(f"`{name}` {sql}" for name, (sql, _) in TYPED.items())
DDL = f"CREATE TABLE topic ({COLUMNS}, PRIMARY KEY (id) NOT ENFORCED)"


def written(rows: list[dict[str, Any]], **sink: Any) -> list[tuple[bytes | None, bytes | None]]:
    messages = [(None, json.dumps(row, ensure_ascii=False).encode()) for row in rows]
    source = {"value.format": "json", "scan.value.initial-schemas.ddls": DDL}
    ran = run(messages, 1000, source=source, sink={"type": "upsert-kafka", **BROKER, **sink})
    assert ran.error is None
    assert ran.rejects == []
    return [(key, value) for _, key, value in ran.records]


@pytest.mark.parametrize("include", ["ALL", "EXCEPT_KEY"])
@patiently
@given(st.lists(rows, min_size=1, max_size=4))
def test_typed_rows_read_back_to_the_same(include: str, rows: list[dict[str, Any]]) -> None:
    options = {"key.format": "csv", "value.format": "csv", "value.fields-include": include}
    expected = written(rows)
    source = {"type": "upsert-kafka", **BROKER, "topic": "topic", "scan.max.pre.fetch.records": 0, **options}
    again = run(written(rows, **options), 1000, source={**source, "scan.value.initial-schemas.ddls": DDL})
    assert again.error is None
    assert again.rejects == []
    assert [key for _, key, _ in again.records] == [key for key, _ in expected]
    assert [json.loads(value or b"", parse_float=str) for _, _, value in again.records] == [
        json.loads(value or b"", parse_float=str) for _, value in expected
    ]


characters = st.sampled_from(list(",;|\t'\"\\#~\x01"))


@st.composite
def dialects(draw: st.DrawFn) -> Dialect:
    delimiter, quote, escape = draw(st.lists(characters, min_size=3, max_size=3, unique=True))
    null = pick(draw, ["", "NULL", "N/A", "0", "n"])
    quoted, escaped = draw(st.booleans()), draw(st.booleans())
    comments = "#" not in (delimiter, quote, escape) and draw(st.booleans())
    return Dialect(delimiter, quote if quoted else None, escape if escaped else None, null, comments)


awkward = st.lists(characters | st.sampled_from(list("ab \r\n0ntr")), max_size=8).map("".join)
contents = st.none() | texts | awkward | st.sampled_from(["NULL", "N/A", "0", "#", "n"])


@settings(patiently, max_examples=examples(400))
@given(dialects(), st.lists(contents, min_size=1, max_size=4))
def test_what_a_dialect_writes_it_splits_to_the_same(dialect: Dialect, fields: list[str | None]) -> None:
    try:
        line = dialect.delimiter.encode().join(dialect.write(msgspec.json.encode(field)) for field in fields)
    except CsvError:
        assert dialect.quote is None
        return
    if dialect.comments and not line.strip():
        return  # one field that is null, or blank: no row that can be told from no row
    assert dialect.split(line.decode()) == fields


@settings(patiently, max_examples=examples(400))
@given(dialects(), awkward)
def test_any_text_is_a_row_or_an_error(dialect: Dialect, text: str) -> None:
    try:
        fields = dialect.split(text)
    except CsvError:
        return
    if fields is None:
        assert dialect.comments
    else:
        assert all(field is None or isinstance(field, str) for field in fields)


MUTATED = [b'1,"a""b",2.5,true', b"1;'a',,", b"# x\n1,a,2,false\r\n", b'1,a\\,b,"[1,2]",NULL']
pieces = st.binary(max_size=4) | st.sampled_from([b'"', b"'", b",", b"\\", b"\n", b"#", b"\0", b"\xff", b'""'])
OPTIONS: list[dict[str, Any]] = [
    {},
    {"csv.columns": "a,b,c,d"},
    {"csv.field-delimiter": ";", "csv.quote-character": "'", "csv.allow-comments": True},
    {"csv.escape-character": "\\", "csv.null-literal": "NULL", "csv.fail-on-missing-columns": False},
    {"csv.disable-quote-character": True},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("typed", [False, True])
@settings(patiently, max_examples=examples(200))
@given(st.sampled_from(MUTATED), st.lists(st.tuples(st.integers(0, 20), st.integers(0, 4), pieces), max_size=4))
def test_a_broken_message_is_a_row_or_a_reject(
    typed: Any, options: dict[str, Any], message: bytes, changes: list[tuple[int, int, bytes]]
) -> None:
    data = bytearray(message)
    for at, length, piece in changes:
        data[at : at + length] = piece
    made = Csv.model_validate(options)
    if typed:
        columns = {"a": types.BIGINT, "b": types.STRING, "c": types.parse("ARRAY<DOUBLE>"), "d": types.BOOLEAN}
        made = made.with_tables({("t",): columns})
    (found,) = made.decoder("t").decode([None], [bytes(data)])
    if isinstance(found, tuple):
        assert isinstance(msgspec.json.decode(found[3] or b""), dict)
    else:
        assert isinstance(found, (Reject, Skip))


RAW = {
    "STRING": texts, "BOOLEAN": st.booleans(), "TINYINT": st.integers(-128, 127), "SMALLINT": st.integers(-999, 999),
    "INT": st.integers(-(1 << 31), (1 << 31) - 1), "BIGINT": st.integers(-(1 << 63), (1 << 63) - 1),
    "FLOAT": st.floats(allow_nan=False, allow_infinity=False, width=32),
    "DOUBLE": st.floats(allow_nan=False, allow_infinity=False),
    "BYTES": st.binary(max_size=6).map(lambda data: b64encode(data).decode()),
}  # fmt: skip


@pytest.mark.parametrize("type_name", RAW)
@patiently
@given(st.data(), st.sampled_from("<>"), st.sampled_from(["UTF-8", "UTF-16", "UTF-16LE", "UTF-32", "GB18030"]))
def test_raw_values_read_back_to_the_same(type_name: str, data: st.DataObject, order: str, charset: str) -> None:
    codec = codec_of(types.parse(type_name), charset_of(charset), little=order == "<")
    assert codec is not None
    text = msgspec.json.encode(data.draw(RAW[type_name]))
    again = codec.read(codec.write(text))
    assert again == text or type_name == "FLOAT", "a number of 32 bits has the fewest digits that read back"
    assert codec.write(again) == codec.write(text)


@pytest.mark.parametrize("charset", ["UTF-16", "UTF-32"])
def test_a_text_that_begins_with_a_byte_order_mark_keeps_it(charset: str) -> None:
    codec = codec_of(types.STRING, charset_of(charset), little=False)
    assert codec is not None
    text = msgspec.json.encode("\ufeffa")
    assert codec.read(codec.write(text)) == text

"""The dialects of CSV, row by row, and the options that make them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from inmemory import pipeline
from pydantic import ValidationError

from ingest.config.diagnostics import render
from ingest.config.loader import load_text
from ingest.errors import ConfigError
from ingest.formats.csv.dialect import MAX_FIELDS, CsvError, Dialect
from ingest.formats.csv.options import Csv
from ingest.formats.template import csv_field
from ingest.model.change import Reject

if TYPE_CHECKING:
    from pathlib import Path

BACKSLASH = Dialect(escape="\\")
UNQUOTED = Dialect(quote=None)


@pytest.mark.parametrize(
    ("dialect", "text", "fields"),
    [
        (Dialect(), "", [None]),
        (Dialect(), ",", [None, None]),
        (Dialect(), '"",', ["", None]),
        (Dialect(), 'a, "b"', ["a", ' "b"']),
        (Dialect(), 'a"b,"c" \t', ['a"b', "c"]),
        (Dialect(), '"a""b","c\r\nd"\r\n', ['a"b', "c\r\nd"]),
        (Dialect(), "a\0b,\0", ["a\0b", "\0"]),
        (Dialect("\t"), '"a"\t\tb', ["a", None, "b"]),
        (Dialect(null="-"), '-,"-",,', [None, "-", "", ""]),
        (Dialect(quote="'"), "'it''s',\"", ["it's", '"']),
        (UNQUOTED, '"a",b', ['"a"', "b"]),
        (BACKSLASH, r'a\,b,"c\"d",\n\x', ["a,b", 'c"d', "\nx"]),
        (BACKSLASH, r'a""b,"c""\\"', ['a""b', 'c"\\']),
        (Dialect(comments=True), "# x\n\n  # y\r\na,#b", ["a", "#b"]),
        (Dialect(comments=True), "a\n# x", ["a"]),
        (Dialect(comments=True), "# x\n", None),
        (Dialect(), "# x", ["# x"]),
    ],
)
def test_a_row_has_these_fields(dialect: Dialect, text: str, fields: list[str | None] | None) -> None:
    assert dialect.split(text) == fields


@pytest.mark.parametrize(
    ("dialect", "text", "why"),
    [
        (Dialect(), '"a', "not closed"),
        (Dialect(), 'a,"b""', "not closed"),
        (Dialect(), '"a"b', "followed by more"),
        (Dialect(), "a\nb", "more than one row"),
        (BACKSLASH, "a\\", "last one"),
        (BACKSLASH, '"a\\"', "not closed"),
        (Dialect(), "," * MAX_FIELDS, "fields"),
    ],
)
def test_what_is_no_row_is_an_error(dialect: Dialect, text: str, why: str) -> None:
    with pytest.raises(CsvError, match=why):
        dialect.split(text)


@pytest.mark.parametrize("text", ['"' + '""' * 500_000 + '"', "a" * 1_000_000, '"' + "a" * 1_000_000 + '"'])
def test_a_field_may_be_long(text: str) -> None:
    (field,) = Dialect().split(text) or []
    assert len(field or "") in {500_000, 1_000_000}


VALUES = [b"null", b'""', b'"a"', b'"a\\"b,\\n"', b"1", b"-1.50", b"true", b'{"k":[1]}', b"[1]", '"ü"'.encode()]


@pytest.mark.parametrize("value", VALUES)
def test_the_usual_dialect_writes_as_templates_do(value: bytes) -> None:
    assert Dialect().write(value) == csv_field(value)


@pytest.mark.parametrize(
    ("dialect", "value", "written"),
    [
        (Dialect("-"), b"-1", b'"-1"'),
        (Dialect(null="N"), b'"N"', b'"N"'),
        (Dialect(null="0"), b"0", b'"0"'),
        (Dialect(null="N"), b"null", b"N"),
        (Dialect(quote="'"), b'"it\'s"', b"'it''s'"),
        (BACKSLASH, b'"a\\\\b\\"c"', b'"a\\\\b""c"'),
        (UNQUOTED, b'"a b"', b"a b"),
        (Dialect(quote=None, escape="\\"), b'"a,b\\nc\\\\"', b"a\\,b\\nc\\\\"),
        (Dialect(quote=None, escape="\\", null="NULL"), b'"NULL"', b"\\NULL"),
        (Dialect(quote=None, escape="\\", comments=True, null="-"), b'"#a"', b"\\#a"),
        (Dialect(quote=None, escape="\\"), '"\ufeffa"'.encode(), "\\\ufeffa".encode()),
    ],
)
def test_a_value_is_written_so_that_it_reads_back(dialect: Dialect, value: bytes, written: bytes) -> None:
    assert dialect.write(value) == written


@pytest.mark.parametrize("value", [b'""', b'"a,b"', b'"a\\n"', '"\ufeffa"'.encode()])
def test_what_cannot_be_said_without_quotes_is_a_reject(value: bytes) -> None:
    with pytest.raises(CsvError, match="quote-character"):
        UNQUOTED.write(value)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"csv.field-delimiter": "ab"}, "one character"),
        ({"csv.field-delimiter": "x"}, "no letter"),
        ({"csv.quote-character": "\n"}, "one character"),
        ({"csv.escape-character": ""}, "one character"),
        ({"csv.quote-character": ","}, "character of csv.field-delimiter"),
        ({"csv.quote-character": '"', "csv.disable-quote-character": True}, "not possible with"),
        ({"csv.null-literal": "a,b"}, "has a meaning"),
        ({"csv.allow-comments": True, "csv.field-delimiter": "#"}, "another meaning"),
        ({"csv.columns": "a, a"}, "twice"),
        ({"csv.columns": "a,,b"}, "empty"),
    ],
)
def test_options_that_make_no_dialect_are_refused(options: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        Csv.model_validate(options)


@pytest.mark.parametrize(("written", "meant"), [(r"\t", "\t"), (r"\u0001", "\x01"), (r"\\", "\\"), ("|", "|")])
def test_a_delimiter_may_be_written_as_in_java(written: str, meant: str) -> None:
    assert Csv.model_validate({"csv.field-delimiter": written}).dialect.delimiter == meant


def test_a_quote_that_escapes_itself_is_a_doubled_quote() -> None:
    made = Csv.model_validate({"csv.escape-character": '"'})
    assert made.dialect.split('"a""b"') == ['a"b']


def rows(decoded: list[Any]) -> list[bytes | str]:
    return [one.code if isinstance(one, Reject) else bytes(one[3]) for one in decoded]


def test_a_header_line_names_the_columns_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "orders.csv"
    file.write_bytes(b'\xef\xbb\xbfid,"the name"\r\n1,a\r\n2\r\n')
    made = pipeline(
        source={
            "type": "file", "path": str(tmp_path / "*.csv"), "value.format": "csv", "csv.header": True,
            "scan.value.initial-schemas.ddls": "CREATE TABLE orders (id INT)",
        },
        sink={"type": "print"},
    )  # fmt: skip
    split = (str(file), 0)
    (chunk,) = made.source.reader("p").read({split: (0, 3)})
    values = [record.value() for record in chunk.messages]
    assert [record.offset() for record in chunk.messages] == [1, 2]
    decoder = made.source.decoder(split, chunk.topic)
    assert rows(decoder.decode([None] * 2, values)) == [b'{"id":1,"the name":"a"}', "column-count"]
    assert rows(made.source.decoder(("letters", 0), "orders").decode([None], [b"3,c"])) == [b'{"id":3,"the name":"c"}']
    with pytest.raises(ConfigError, match="0 files"):
        made.source.decoder(("letters", 0), "others")


@pytest.mark.parametrize(("format_", "line"), [("json", b'{"a":1}'), ("raw", b"a")])
def test_a_byte_order_mark_is_no_part_of_the_first_line_of_a_file(tmp_path: Path, format_: str, line: bytes) -> None:
    file = tmp_path / "t.txt"
    file.write_bytes(b"\xef\xbb\xbf" + line + b"\n\xef\xbb\xbf")
    made = pipeline(source={"type": "file", "path": str(file), "value.format": format_}, sink={"type": "print"})
    (chunk,) = made.source.reader("p").read({(str(file), 0): (0, 2)})
    assert [record.value() for record in chunk.messages] == [line, b"\xef\xbb\xbf"]


@pytest.mark.parametrize("line", [b"a,a", b"a,,b", b"", b'"a', b"\xff"])
def test_a_header_without_names_ends_the_run(tmp_path: Path, line: bytes) -> None:
    file = tmp_path / "t.csv"
    file.write_bytes(line + b"\n1,2\n")
    source = {"type": "file", "path": str(file), "value.format": "csv", "csv.header": True}
    with pytest.raises(ConfigError, match="no names of columns"):
        pipeline(source=source, sink={"type": "print"}).source.decoder((str(file), 0), "t")


@pytest.mark.parametrize(
    "source",
    [
        {"type": "kafka", "topic": "t", "properties.bootstrap.servers": "x:1"},
        {"type": "file", "path": "x", "file.envelope": True},
    ],
)
def test_a_header_is_for_files(source: dict[str, Any]) -> None:
    text = str({"source": {**source, "value.format": "csv", "csv.header": True}, "sink": {"type": "print"}})
    loaded = load_text("p.yaml", text.replace("True", "true"), "p")
    assert "csv.header needs lines of files" in render(loaded.diagnostics)

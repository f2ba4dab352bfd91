"""Raw values: what bytes stand for, by type, charset and byte order, in both directions."""

from __future__ import annotations

from typing import Any

import pytest

from ingest.config.diagnostics import render
from ingest.config.loader import load_text
from ingest.formats.raw import Raw
from ingest.formats.raw_values import charset_of, codec_of
from ingest.model import types
from ingest.model.reject import RowError


@pytest.mark.parametrize(
    ("type_name", "little", "value", "text"),
    [
        ("STRING", False, "aü".encode(), '"aü"'.encode()),
        ("STRING", False, b"\0", b'"\\u0000"'),
        ("BYTES", False, b"\0\xff", b'"AP8="'),
        ("BOOLEAN", False, b"\1", b"true"),
        ("BOOLEAN", False, b"\0", b"false"),
        ("TINYINT", False, b"\xff", b"-1"),
        ("SMALLINT", False, b"\1\0", b"256"),
        ("SMALLINT", True, b"\1\0", b"1"),
        ("INT", False, b"\x7f\xff\xff\xff", b"2147483647"),
        ("BIGINT", False, b"\x80" + b"\0" * 7, b"-9223372036854775808"),
        ("FLOAT", False, b"\x3d\xcc\xcc\xcd", b"0.1"),
        ("DOUBLE", True, b"\x9a\x99\x99\x99\x99\x99\xb9\x3f", b"0.1"),
    ],
)
def test_a_value_reads_and_is_written(type_name: str, little: bool, value: bytes, text: bytes) -> None:
    codec = codec_of(types.parse(type_name), "utf-8", little=little)
    assert codec is not None
    assert (codec.read(value), codec.write(text)) == (text, value)


@pytest.mark.parametrize(
    ("java", "value", "written"),
    [
        ("UTF-8", "ü".encode(), None),
        ("ISO-8859-1", b"\xfc", None),
        ("windows-1252", b"\xfc", None),
        ("UTF-16", b"\0\xfc", b"\xfe\xff\0\xfc"),
        ("UTF-16", b"\xff\xfe\xfc\0", b"\xfe\xff\0\xfc"),
        ("UTF-16LE", b"\xfc\0", None),
        ("UTF-32", b"\0\0\0\xfc", None),
        ("GB18030", "ü".encode("gb18030"), None),
    ],
)
def test_charsets_are_those_of_java(java: str, value: bytes, written: bytes | None) -> None:
    codec = codec_of(types.STRING, charset_of(java), little=False)
    assert codec is not None
    assert codec.read(value) == '"ü"'.encode()
    assert codec.write('"ü"'.encode()) == (value if written is None else written)


@pytest.mark.parametrize("name", ["base64", "rot13", "idna", "punycode", "unicode_escape", "utf-7", "none", ""])
def test_what_is_no_charset_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="no charset"):
        charset_of(name)


@pytest.mark.parametrize(
    ("type_name", "value"),
    [("INT", b"123"), ("BOOLEAN", b""), ("BOOLEAN", b"ab"), ("STRING", b"\xff"), ("DOUBLE", b"1")],
)
def test_bytes_that_are_no_value_are_rejects(type_name: str, value: bytes) -> None:
    codec = codec_of(types.parse(type_name), "utf-8", little=False)
    assert codec is not None
    with pytest.raises(ValueError, match="it "):
        codec.read(value)


@pytest.mark.parametrize(
    ("type_name", "text", "charset"),
    [
        ("STRING", '"€"', "iso8859-1"),
        ("TINYINT", "300", "utf-8"),
        ("FLOAT", "1e300", "utf-8"),
        ("STRING", "null", "utf-8"),
    ],
)
def test_a_value_that_has_no_bytes_is_a_reject(type_name: str, text: str, charset: str) -> None:
    made = Raw.model_validate({"raw.charset": charset})
    with pytest.raises(RowError, match="column 'c'"):
        made.writer_of(("t",), {"c": types.parse(type_name)})(text.encode())


@pytest.mark.parametrize(
    ("columns", "why"), [("a INT, b INT", "are 2: a, b"), ("a DATE", "no DATE"), ("a ARRAY<INT>", "no ARRAY")]
)
def test_a_ddl_that_no_raw_value_has_is_refused(columns: str, why: str) -> None:
    source: dict[str, Any] = {
        "type": "kafka", "topic": "t", "properties.bootstrap.servers": "x:1", "value.format": "raw",
        "scan.value.initial-schemas.ddls": f"CREATE TABLE t ({columns})",
    }  # fmt: skip
    loaded = load_text("p.yaml", str({"source": source, "sink": {"type": "print"}}), "p")
    assert loaded.pipeline is None
    assert why in render(loaded.diagnostics)


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ("a INT, b INT, PRIMARY KEY (a, b) NOT ENFORCED", "are 2: a, b"),
        ("a DATE, PRIMARY KEY (a) NOT ENFORCED", "no DATE"),
    ],
)
def test_a_primary_key_that_no_raw_key_has_is_refused(columns: str, why: str) -> None:
    source: dict[str, Any] = {
        "type": "kafka", "topic": "t", "properties.bootstrap.servers": "x:1", "value.format": "json",
        "key.format": "raw", "scan.value.initial-schemas.ddls": f"CREATE TABLE t ({columns})",
    }  # fmt: skip
    loaded = load_text("p.yaml", str({"source": source, "sink": {"type": "print"}}), "p")
    assert loaded.pipeline is None
    assert why in render(loaded.diagnostics)

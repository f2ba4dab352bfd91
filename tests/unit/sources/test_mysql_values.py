"""Values of a MySQL log by their bytes: JSON documents, old times, character sets, types of MariaDB."""

from __future__ import annotations

import ipaddress
import uuid
from struct import pack
from typing import Any

import orjson
import pytest
from mysql_events import Log, read_bytes, table
from mysql_log import Tables
from mysql_values import Opaque, encode

from ingest.errors import ConfigError
from ingest.sources.mysql import json_binary
from ingest.sources.mysql.binary_values import decode_text
from ingest.sources.mysql.events import BadEvent, Cursor
from ingest.sources.mysql.row_values import ValueReader, fixed_text
from ingest.sources.mysql.types import Column


def read(column: Column, code: int, metadata: bytes, data: bytes) -> str:
    cursor = Cursor(data)
    text = ValueReader().read(cursor, column, code, metadata)
    assert not cursor.left
    return text.decode()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({}, "{}"), ([], "[]"), (None, "null"), (True, "true"), (False, "false"),
        ({"b": 1, "a": [1, "x", None]}, '{"a": [1, "x", null], "b": 1}'),
        ({"long": 1, "b": {"c": {}}}, '{"b": {"c": {}}, "long": 1}'),
        ([-32768, 65535, -2147483648, 4294967295, -(1 << 63), (1 << 64) - 1],
         "[-32768, 65535, -2147483648, 4294967295, -9223372036854775808, 18446744073709551615]"),
        ([0.0, -0.0, 1.0, 0.1, 1e15, 1e14, 1.5e300, 1e-5, 1e-20, 123456789012345680.0, 5e-324],
         "[0.0, -0.0, 1.0, 0.1, 1e15, 100000000000000.0, 1.5e300, 0.00001, 1e-20, 1.2345678901234568e17, 5e-324]"),
        ('"\\\n\t\b\f\r\x01ü', '"\\"\\\\\\n\\t\\b\\f\\r\\u0001ü"'),
        (["x" * 200], f'["{"x" * 200}"]'),
        (Opaque(246, b"\4\2\x8c\x22"), "12.34"),
        (Opaque(10, ((2015 * 13 + 1) << 46 | 15 << 41).to_bytes(8, "little")), '"2015-01-15"'),
        (Opaque(12, (((2015 * 13 + 1) << 5 | 15) << 41 | (23 << 12 | 24 << 6 | 25) << 24 | 120).to_bytes(8, "little")),
         '"2015-01-15 23:24:25.000120"'),
        (Opaque(11, (-((1 << 12 | 2 << 6 | 3) << 24)).to_bytes(8, "little", signed=True)), '"-01:02:03.000000"'),
        (Opaque(252, b"foo"), '"base64:type252:Zm9v"'),
    ],
)  # fmt: skip
def test_a_document_is_printed_as_the_server_does(value: Any, text: str) -> None:
    assert json_binary.document(encode(value)) == text
    assert json_binary.document(encode(value, large=True)) == text
    data = encode(value)
    assert read(Column("j", "json"), 245, b"\4", pack("<I", len(data)) + data) == orjson.dumps(text).decode()


@pytest.mark.parametrize(
    "data",
    [b"\x0d", b"\0\1\0\xff\0", b"\4\7", b"\x0c\5ab", b"\x0b\0", b"\x0c\x80\x80\x80\x80\x80\1", b"\2\xff\xff\4\0",
     b"\x0f\xf6\1\4", b"\x0f\x0a\1\4", b"\x0c\2\xc3\x28", encode([[]] * 1)[:-1],
     b"\x0b" + pack("<d", float("nan"))],
)  # fmt: skip
def test_a_damaged_document_is_a_clear_stop(data: bytes) -> None:
    with pytest.raises(BadEvent):
        json_binary.document(data)


def test_a_document_has_at_most_a_hundred_levels() -> None:
    deep: Any = []
    for _ in range(101):
        deep = [deep]
    with pytest.raises(BadEvent, match="more than 100 levels"):
        json_binary.document(encode(deep))


def change(operation: int, path: str, value: Any = ...) -> bytes:
    body = b"" if value is ... else encode(value)
    return bytes([operation, len(path.encode())]) + path.encode() + (b"" if value is ... else bytes([len(body)]) + body)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (change(0, "$.a", 5), '{"a": 5, "list": [1, 2], "b c": {}}'),
        (change(1, "$.d", "x"), '{"a": 1, "d": "x", "list": [1, 2], "b c": {}}'),
        (change(2, "$.a"), '{"list": [1, 2], "b c": {}}'),
        (change(0, "$.list[1]", None), '{"a": 1, "list": [1, null], "b c": {}}'),
        (change(1, "$.list[0]", 0), '{"a": 1, "list": [0, 1, 2], "b c": {}}'),
        (change(2, "$.list[0]"), '{"a": 1, "list": [2], "b c": {}}'),
        (change(1, '$."b c".x', {"y": 1}), '{"a": 1, "list": [1, 2], "b c": {"x": {"y": 1}}}'),
        (change(0, "$.a", 2) + change(2, "$.list"), '{"a": 2, "b c": {}}'),
    ],
)
@pytest.mark.parametrize("native", [False, pytest.param(True, marks=pytest.mark.compiled)])
def test_a_partial_update_is_applied_to_the_document_before_it(changes: bytes, text: str, native: bool) -> None:
    text = text.replace('"list": [1, 2], "b c": {}', '"b c": {}, "list": [1, 2]')
    before = encode({"a": 1, "b c": {}, "list": [1, 2]})
    log = Log()
    log.query(b"BEGIN")
    log.table_map(7, "t", b"\3\xf5", b"\4")
    old = b"\0" + pack("<iI", 1, len(before)) + before
    log.rows(39, 7, 2, old + b"\1\1\0" + pack("<iI", 1, len(changes)) + changes)
    log.xid()
    tables = Tables({("shop", "t"): table("t", Column("id", "int"), Column("j", "json"))})
    records, _ = read_bytes(log.packets, log.offset, tables, native=native)
    assert orjson.loads(orjson.loads(records[0][0][5:])["after"]["j"]) == orjson.loads(text)
    assert list(orjson.loads(orjson.loads(records[0][0][5:])["after"]["j"])) == sorted(
        orjson.loads(text), key=lambda name: (len(name), name)
    )


def test_a_partial_update_without_the_document_before_it_stops() -> None:
    log = Log()
    log.query(b"BEGIN")
    log.table_map(7, "t", b"\3\xf5", b"\4")
    changes = change(2, "$.a")
    log.rows(39, 7, 2, b"\0" + pack("<i", 1) + b"\1\1\0" + pack("<I", len(changes)) + changes, [b"\1", b"\2"])
    tables = Tables({("shop", "t"): table("t", Column("id", "int"), Column("j", "json"))})
    with pytest.raises(ConfigError, match="column j has only the changed parts of a document"):
        read_bytes(log.packets, log.offset + 1, tables, native=False)


@pytest.mark.parametrize(
    ("kind", "fsp", "code", "data", "text"),
    [
        ("time", 0, 11, (-8385959).to_bytes(3, "little", signed=True), '"-838:59:59"'),
        ("time", 0, 11, (10203).to_bytes(3, "little"), '"01:02:03"'),
        ("time", 3, 11, (3_020_400_000 - 3_723_250).to_bytes(5, "big"), '"-01:02:03.25"'),
        ("datetime", 0, 12, (20200131121314).to_bytes(8, "little"), '"2020-01-31 12:13:14"'),
        ("datetime", 0, 12, bytes(8), '"0000-00-00 00:00:00"'),
        ("datetime", 6, 12, (((((2020 * 13 + 1) * 32 + 31) * 24 + 12) * 60 + 13) * 60 * 10**6 + 14_000_005).to_bytes(
            8, "big"), '"2020-01-31 12:13:14.000005"'),
        ("timestamp", 0, 7, (1580472794).to_bytes(4, "little"), '"2020-01-31 12:13:14Z"'),
        ("timestamp", 0, 7, bytes(4), '"0000-00-00 00:00:00Z"'),
        ("timestamp", 2, 7, (1580472794).to_bytes(4, "big") + b"\x32", '"2020-01-31 12:13:14.5Z"'),
        ("timestamp", 0, 17, (4294967295).to_bytes(4, "big"), '"2106-02-07 06:28:15Z"'),
        ("time", 6, 19, ((1 << 47) - 1).to_bytes(6, "big"), '"-00:00:00.000001"'),
        ("time", 1, 19, ((1 << 31) - 50).to_bytes(4, "big"), '"-00:00:00.5"'),
        ("year", 0, 13, b"\0", "0"), ("year", 0, 13, b"\xff", "2155"),
        ("date", 0, 10, bytes(3), '"0000-00-00"'),
        ("date", 0, 10, (2020 << 9 | 15).to_bytes(3, "little"), '"2020-00-15"'),
    ],
)  # fmt: skip
def test_times_of_all_formats(kind: str, fsp: int, code: int, data: bytes, text: str) -> None:
    metadata = bytes([fsp]) if code in {17, 18, 19} else b""
    assert read(Column("a", kind, fsp=fsp), code, metadata, data) == text


@pytest.mark.parametrize(
    "text",
    [
        "550e8400-e29b-41d4-a716-446655440000",
        "00000000-0000-0000-0000-000000000000",
        "0190163d-8694-739b-aea5-966c26f8ad91",
    ],
)
def test_a_uuid_of_mariadb_is_stored_with_its_time_last_or_as_it_is(text: str) -> None:
    data = uuid.UUID(text).bytes
    swapped = data[10:] + data[8:10] + data[6:8] + data[4:6] + data[:4]
    stored = swapped if 0 < data[6] < 0x60 and data[8] & 0x80 else data
    assert fixed_text("uuid", stored) == text


@pytest.mark.parametrize(
    "text", ["::", "::1", "2001:db8::1", "fe80::1:0:0:1", "::ffff:192.168.0.1", "1:2:3:4:5:6:7:8", "1::8", "1:0:3::8"]
)
def test_an_address_has_the_text_of_the_server(text: str) -> None:
    assert fixed_text("inet6", ipaddress.IPv6Address(text).packed) == text
    assert fixed_text("inet4", bytes([10, 0, 255, 1])) == "10.0.255.1"


@pytest.mark.parametrize(
    ("charset", "data", "text"),
    [
        ("latin1", b"\x80\x81\xe4", "€\x81ä"), ("utf8mb3", "ä€".encode(), "ä€"), ("utf8mb4", "😀".encode(), "😀"),
        ("ucs2", b"\x20\xac", "€"), ("utf16", b"\xd8\x3d\xde\x00", "😀"), ("utf16le", b"\xac\x20", "€"),
        ("utf32", b"\0\1\xf6\0", "😀"), ("gbk", b"\xc4\xe3", "你"), ("sjis", b"\x83\x41", "ア"),
        ("big5", b"\xa7\x41", "你"),
        ("euckr", b"\xb0\xa1", "가"), ("cp1251", b"\xff", "я"), ("koi8r", b"\xd1", "я"), ("latin2", b"\xb1", "ą"),
        ("gb18030", b"\x81\x30\x81\x30", "\x80"), ("ujis", b"\xa4\xa2", "あ"), ("cp932", b"\x87\x40", "①"),
    ],
)  # fmt: skip
def test_a_text_is_decoded_by_its_columns_character_set(charset: str, data: bytes, text: str) -> None:
    assert decode_text(charset, data) == (text, True)


def test_bytes_that_are_no_characters_are_counted() -> None:
    values = ValueReader()
    column = Column("a", "varchar", charset="utf8mb4")
    assert values.read(Cursor(b"\3a\xffb"), column, 15, b"\x64\0") == '"a\ufffdb"'.encode()
    assert values.invalid == {".a": 1}

"""Types of MySQL and MariaDB, the literals of values at the bounds of each, and MySQL's binary JSON."""

from __future__ import annotations

from dataclasses import dataclass
from struct import pack
from typing import Any, Final

TYPES: Final = {
    "TINYINT": ["-128", "127", "0"],
    "TINYINT(1)": ["1", "0", "2", "-1"],
    "TINYINT UNSIGNED ZEROFILL": ["0", "7", "255"],
    "SMALLINT": ["-32768", "32767"],
    "MEDIUMINT": ["-8388608", "8388607"],
    "MEDIUMINT UNSIGNED": ["16777215"],
    "INT": ["-2147483648", "2147483647"],
    "INT(7) UNSIGNED ZEROFILL": ["42", "0"],
    "BIGINT": ["-9223372036854775808", "9223372036854775807"],
    "BIGINT UNSIGNED": ["18446744073709551615", "0"],
    "DECIMAL(5,2)": ["-999.99", "0", "0.05", "-0.05"],
    "DECIMAL(6,2) ZEROFILL": ["1.5", "0"],
    "DECIMAL(38,30)": ["0.000000000000000000000000000001"],
    "DECIMAL(65,30)": ["-99999999999999999999999999999999999.999999999999999999999999999999", "0.5"],
    "DECIMAL(10,0)": ["-7", "0"],
    "FLOAT": ["0.1", "-0e0", "3.4028235e38", "1.1754944e-38", "1e-45", "16777216", "1e7", "123456.789", "8388609"],
    "FLOAT(10,2)": ["1.25", "12345678.9", "-0.01"],
    "DOUBLE": ["0.1", "-0e0", "1.7976931348623157e308", "5e-324", "1e16", "1e15", "123456789012345680", "0.1 + 0.2e0"],
    "DOUBLE(20,2)": ["1.25", "123456789012345678.12", "-0.01"],
    "BIT": ["b'0'", "b'1'"],
    "BIT(13)": ["b'1'", "b'1111111111111'"],
    "BIT(64)": ["b'0'", "18446744073709551615"],
    "DATE": ["'1000-01-01'", "'9999-12-31'", "'0000-00-00'", "'2020-00-15'", "'2020-02-31'", "'0001-01-01'"],
    "TIME": ["'-838:59:59'", "'838:59:59'", "'00:00:00'", "'-00:00:01'", "'100:00:00'"],
    "TIME(3)": ["'-00:00:00.5'", "'12:13:14.120'", "'-838:59:58.999'"],
    "TIME(6)": ["'-00:00:00.000001'", "'23:59:59.999999'", "'01:00:00'"],
    "DATETIME": ["'1000-01-01 00:00:00'", "'0000-00-00'", "'2020-10-25 02:30:00'"],
    "DATETIME(1)": ["'2020-01-31 12:13:14.5'", "'2020-01-31 12:13:14'"],
    "DATETIME(6)": ["'9999-12-31 23:59:59.999999'", "'2020-00-15 00:00:00.000010'"],
    "TIMESTAMP NULL": ["'1970-01-01 00:00:01'", "'2038-01-19 03:14:07'", "'0000-00-00'", "'2020-10-25 00:30:00'"],
    "TIMESTAMP(6) NULL": ["'2020-10-25 01:30:00.000001'", "'2020-10-25 00:30:00.1'"],
    "YEAR": ["1901", "2155", "'0000'"],
    "CHAR(10)": ["'a  '", "''", "'ä€😀'"],
    "VARCHAR(20)": ["'a  '", "'\"\\\\\\n\\t\\0\\b'", "'\\Z'", "'漢字'"],
    "VARCHAR(20) CHARACTER SET latin1": ["'ä€'", "X'80819f'"],
    "VARCHAR(20) CHARACTER SET ucs2": ["'aЖ漢'"],
    "VARCHAR(20) CHARACTER SET utf16": ["'a😀'"],
    "VARCHAR(20) CHARACTER SET sjis": ["'表ソ'"],
    "VARCHAR(20) CHARACTER SET gbk": ["'汉字'"],
    "VARCHAR(20) CHARACTER SET cp1251": ["'Привет'"],
    "TEXT": ["REPEAT('ab', 40000)", "''"],
    "LONGTEXT": ["'x'"],
    "BINARY(5)": ["X'0100'", "X''", "X'FFFFFFFFFF'", "X'2020'"],
    "VARBINARY(9)": ["X'0100'", "X''", "'abc'"],
    "BLOB": ["REPEAT(X'00FF', 300)", "X''"],
    "ENUM('a','B''s','ü,x','')": ["'a'", "'B''s'", "'ü,x'", "''"],
    "ENUM('ä','b') CHARACTER SET latin1": ["'ä'"],
    "SET('a','b c','ü')": ["'a,ü'", "''", "'b c'"],
    "GEOMETRY": ["ST_GeomFromText('POINT(1 2.5)', 4326)", "ST_GeomFromText('POLYGON((0 0,1 0,1 1,0 0))')"],
}  # fmt: skip
OF_MARIADB: Final = {
    "UUID": ["'123e4567-e89b-12d3-a456-426655440000'"],
    "INET6": [
        "'::ffff:1.2.3.4'",
        "'2001:db8::ff00:42:8329'",
        "'::'",
        "'::1'",
        "'::1.2.3.4'",
        "'1:0:0:2:0:0:0:3'",
        "'1::2:0:0:3'",
        "'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'",
    ],
    "INET4": ["'1.2.3.4'", "'0.0.0.0'", "'255.255.255.255'"],
    "JSON": ["'{\"a\": [1, null]}'"],
}


@dataclass(frozen=True)
class Opaque:
    """A value of a type of SQL within a document."""

    field: int
    data: bytes


def encode(value: Any, *, large: bool = False) -> bytes:
    """The bytes of a document."""
    kind, data = _encoded(value, large=large)
    return bytes([kind]) + data


def _length(size: int) -> bytes:
    out = b""
    while size >= 0x80:
        out += bytes([size & 0x7F | 0x80])
        size >>= 7
    return out + bytes([size])


def _encoded(value: Any, *, large: bool) -> tuple[int, bytes]:
    """The type's byte, and what follows it."""
    if value is None or value is True or value is False:
        return 4, bytes([{None: 0, True: 1, False: 2}[value]])
    if isinstance(value, int):
        for kind, size, signed in (
            (5, 2, True),
            (6, 2, False),
            (7, 4, True),
            (8, 4, False),
            (9, 8, True),
            (10, 8, False),
        ):
            try:
                return kind, value.to_bytes(size, "little", signed=signed)
            except OverflowError:
                continue
    if isinstance(value, float):
        return 11, pack("<d", value)
    if isinstance(value, str):
        data = value.encode()
        return 12, _length(len(data)) + data
    if isinstance(value, Opaque):
        return 15, bytes([value.field]) + _length(len(value.data)) + value.data
    return _container(value, large=large)


def _container(value: Any, *, large: bool) -> tuple[int, bytes]:
    wide = 4 if large else 2
    members = list(value)
    if isinstance(value, dict):
        members = sorted(value, key=lambda name: (len(name.encode()), name.encode()))
    values = [value[name] for name in members] if isinstance(value, dict) else members
    keys = [name.encode() for name in members] if isinstance(value, dict) else []
    at = 2 * wide + len(keys) * (wide + 2) + len(values) * (wide + 1)
    entries, body = b"", b""
    for key in keys:
        entries += (at + len(body)).to_bytes(wide, "little") + pack("<H", len(key))
        body += key
    for one in values:
        kind, data = _encoded(one, large=large)
        if kind in {4, 5, 6} or (large and kind in {7, 8}):
            entries += bytes([kind]) + data.ljust(wide, b"\0")
        else:
            entries += bytes([kind]) + (at + len(body)).to_bytes(wide, "little")
            body += data
    head = len(values).to_bytes(wide, "little") + (2 * wide + len(entries) + len(body)).to_bytes(wide, "little")
    return (0 if isinstance(value, dict) else 2) + large, head + entries + body

"""The log by native code and by the reference: the same records, also of damaged bytes."""

from __future__ import annotations

from dataclasses import replace
from struct import pack
from typing import TYPE_CHECKING

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from mysql_events import Log, packed, read_bytes, table
from mysql_log import Tables
from picking import pick

from ingest.errors import IngestError
from ingest.sources.mysql.types import Column, ForeignKey

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn

pytestmark = pytest.mark.compiled

KINDS = (
    (1, b"", "tinyint", 1), (1, b"", "tinyint unsigned", 1), (2, b"", "smallint", 2), (9, b"", "mediumint", 3),
    (3, b"", "int", 4), (3, b"", "int unsigned", 4), (8, b"", "bigint", 8), (8, b"", "bigint unsigned", 8),
    (4, b"\4", "float", 4), (5, b"\x08", "double", 8), (13, b"", "year", 1), (10, b"", "date", 3),
    (16, b"\1\0", "bit", 1), (16, b"\2\1", "bit", 2), (247, b"\xf7\1", "enum", 1), (248, b"\xf8\1", "set", 1),
    (7, b"", "timestamp", 4), (11, b"", "time", 3), (12, b"", "datetime", 8),
)  # fmt: skip
"""Types of a fixed length: code, metadata, type, bytes."""
TEXTS = ("utf8mb4", "latin1", "ascii", "ucs2", "gbk", "binary", "utf16le", "sjis")
SMALL = (0, 1, -1, 7, 99, 100, 127, 128, 255, 256, 1_700_000_000)


@st.composite
def columns(draw: DrawFn) -> tuple[Column, int, bytes, bytes]:
    """A column, its type and metadata in a table map, and a value."""
    name = pick(draw, ("id", "b", 'q"x', "ü", "long name of a column"))
    way = pick(draw, ("fixed", "fixed", "text", "decimal", "moment", "blob", "char"))
    if way == "fixed":
        code, metadata, kind, size = pick(draw, KINDS)
        value = (
            pick(draw, SMALL).to_bytes(16, "little", signed=True)[:size]
            if draw(st.booleans())
            else draw(st.binary(min_size=size, max_size=size))
        )
        if code in {4, 5} and draw(st.booleans()):
            value = pack(
                "<f" if code == 4 else "<d", draw(st.integers(-9999999, 9999999)) / pick(draw, (1, 8, 10, 1000))
            )
        column = Column(
            name,
            kind.split()[0],
            unsigned="unsigned" in kind,
            labels=("a", 'b"', ",ü"),
            length=1 if code == 1 else None,
        )
        return column, code, metadata, value
    if way == "decimal":
        precision = draw(st.integers(1, 65))
        scale = draw(st.integers(0, min(38, precision)))
        whole = precision - scale
        size = sum(n // 9 * 4 + (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)[n % 9] for n in (whole, scale))
        value = draw(st.binary(min_size=size, max_size=size))
        if draw(st.booleans()):  # small groups of digits are those that there are
            value = bytes([0x80 | value[0] & 7]) + bytes(byte & 0x0B for byte in value[1:])
        return Column(name, "decimal", precision=precision, scale=scale), 246, bytes([precision, scale]), value
    if way == "moment":
        code, kind, size = pick(draw, ((17, "timestamp", 4), (18, "datetime", 5), (19, "time", 3)))
        fsp = draw(st.integers(0, 6))
        value = draw(st.binary(min_size=size + (fsp + 1) // 2, max_size=size + (fsp + 1) // 2))
        if code == 18:
            value = bytes([0x99]) + value[1:]
        return Column(name, kind, fsp=fsp), code, bytes([fsp]), value
    data = draw(st.binary(max_size=20)) if draw(st.booleans()) else draw(st.text(max_size=20)).encode()
    charset = pick(draw, TEXTS)
    if way == "text":
        wide = draw(st.booleans())
        length = pack("<H" if wide else "<B", len(data))
        return Column(name, "varchar", charset=charset), 15, pack("<H", 300 if wide else 200), length + data
    if way == "blob":
        width = draw(st.integers(1, 4))
        kind = pick(draw, ("text", "blob"))
        return Column(name, kind, charset=charset), 252, bytes([width]), len(data).to_bytes(width, "little") + data
    binary = draw(st.booleans())
    column = Column(name, "binary" if binary else "char", length=20, charset="binary" if binary else charset)
    return column, 254, b"\xfe\x14", bytes([len(data[:20])]) + data[:20]


@st.composite
def logs(draw: DrawFn) -> tuple[Log, Tables]:
    """A log with a table and rows of it, of every kind."""
    log = Log(checksums=draw(st.booleans()))
    given_columns = draw(st.lists(columns(), min_size=1, max_size=9))
    named = [
        (Column(f"{column.name}{at}", *(getattr(column, field) for field in _FIELDS)), code, metadata, value)
        for at, (column, code, metadata, value) in enumerate(given_columns)
    ]
    of = table("t", *(column for column, *_ in named))
    count = len(named)

    def image(present: int) -> bytes:
        there = [at for at in range(count) if present >> at & 1]
        nulls = draw(st.integers(0, (1 << len(there)) - 1)) if draw(st.booleans()) else 0
        values = b"".join(named[at][3] for place, at in enumerate(there) if not nulls >> place & 1)
        return nulls.to_bytes((len(there) + 7) // 8, "little") + values

    for _ in range(draw(st.integers(1, 3))):
        log.gtid(draw(st.integers(1, 3)))
        log.query(b"BEGIN")
        log.table_map(7, "t", bytes(code for _, code, *_ in named), b"".join(one[2] for one in named))
        log.table_map(8, "other", b"\3", b"")
        log.rows(30, 8, 1, b"\0" + bytes(4))
        kind = pick(draw, (23, 24, 25, 30, 31, 32))
        full = (1 << count) - 1
        first = draw(st.integers(1, full)) if draw(st.booleans()) else full
        second = draw(st.integers(1, full)) if draw(st.booleans()) else full
        update = kind in {24, 31}
        body = b"".join(image(first) + (image(second) if update else b"") for _ in range(draw(st.integers(1, 3))))
        bitmaps = [one.to_bytes((count + 7) // 8, "little") for one in ((first, second) if update else (first,))]
        log.rows(kind, 7, count, body, bitmaps, flags=pick(draw, (1, 1, 3)))
        log.xid()
    keys = []
    for _ in range(draw(st.integers(0, 2))):
        name = pick(draw, ("unknown", *(column.name for column, *_ in named)))
        keys.append(ForeignKey("k", ("shop", "t"), pick(draw, ("", "CASCADE")), "SET NULL", ("c",), (name,)))
    child = replace(table("child", Column("c", "int")), cascades=tuple(keys))
    unread = frozenset(["t"] if draw(st.booleans()) else [])
    return log, Tables({("shop", "t"): of, ("shop", "child"): child}, partial=draw(st.booleans()), unread=unread)


_FIELDS = ("type", "length", "precision", "scale", "fsp", "unsigned", "charset", "collation", "labels")


def outcome(data: bytes, bound: int, tables: Tables, piece: int, *, native: bool) -> object:
    """What comes of a log: all of it, or the error."""
    try:
        records, reader = read_bytes(data, bound, tables, native=native, piece=piece)
    except IngestError as exc:
        return type(exc), str(exc)
    except AssertionError as exc:  # the stream has no more
        return str(exc)
    return records, list(reader.gtids), reader.place, dict(reader.invalid), dict(reader.maps.parents)


@settings(max_examples=examples(300), deadline=None)
@given(logs(), st.integers(20, 3000))
def test_native_code_and_the_reference_read_the_same(made: tuple[Log, Tables], piece: int) -> None:
    log, tables = made
    assert outcome(log.packets, log.offset, tables, piece, native=True) == outcome(
        log.packets, log.offset, tables, 1 << 16, native=False
    )


@settings(max_examples=examples(300), deadline=None)
@given(logs(), st.data())
def test_damaged_events_are_a_clear_stop_or_the_same(made: tuple[Log, Tables], data: st.DataObject) -> None:
    log, tables = made
    packets = bytearray(log.packets)
    begin = 4 + 1 + 19 + 57 + len(log.events[0])  # what is before describes how all is written
    for _ in range(data.draw(st.integers(1, 3))):
        packets[data.draw(st.integers(min(begin, len(packets) - 1), len(packets) - 1))] = data.draw(st.integers(0, 255))
    found = [outcome(bytes(packets), log.offset, tables, 1 << 16, native=native) for native in (True, False)]
    assert found[0] == found[1]


def test_lengths_of_columns_beyond_250_are_read() -> None:
    log = Log()
    count = 300
    of = table("wide", *(Column(f"c{at}", "tinyint") for at in range(count)))
    log.query(b"BEGIN")
    log.table_map(7, "wide", b"\1" * count, b"")
    log.rows(30, 7, count, bytes((count + 7) // 8) + bytes(range(100)) * 3)
    log.xid()
    tables = Tables({("shop", "wide"): of})
    found = [outcome(log.packets, log.offset, tables, 1000, native=native) for native in (True, False)]
    assert found[0] == found[1]
    assert b'"c299":99}' in found[0][0][0][0]  # type: ignore[index]  # (records)
    assert packed(300) == b"\xfc\x2c\x01"

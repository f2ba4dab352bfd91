"""Rows of result sets read by native code and by the reference: the same bytes, wherever the stream is cut."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.sources.mysql import query_values
from ingest.sources.mysql.events import BadEvent
from ingest.sources.mysql.log_records import LogRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingest.sources.mysql.query_values import ValueWriter


result_rows = pytest.importorskip("ingest.sources.mysql.native.result_rows")

HEAD, TAIL = b'\0\0\0\0\x05{"before":null,"after":{', b'},"op":"r"}'
NUMBERS = st.from_regex(r"-?[0-9]{1,30}(\.[0-9]{1,30})?", fullmatch=True).map(str.encode)
DOUBLES = st.floats(allow_nan=False, allow_infinity=False)
SHORT = st.integers(-(10**7), 10**7).map(lambda number: number / 1000)
SINGLES = st.floats(width=32, allow_nan=False, allow_infinity=False) | SHORT.map(
    lambda number: float(struct.unpack("<f", struct.pack("<f", number))[0])
)


def printed(value: float) -> bytes:
    """A number as servers print it."""
    text = repr(value).replace("e+", "e")
    return text.removesuffix(".0").encode()


MOMENTS = st.from_regex(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}( [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?)?|-?[0-9]{2,3}:[0-9]{2}:00(\.0{1,6})?",
    fullmatch=True,
).map(str.encode)
TEXTS = st.text(max_size=30).map(lambda text: text.encode("utf-8", "replace")) | st.binary(max_size=30)
WRITERS: dict[ValueWriter, st.SearchStrategy[bytes]] = {
    query_values.number: NUMBERS | st.binary(max_size=3).filter(lambda text: not text[:1].isdigit()),
    query_values.quoted_number: NUMBERS,
    query_values.double: (DOUBLES | SHORT).map(printed) | NUMBERS,
    query_values.single: SINGLES.map(printed),
    query_values.moment: MOMENTS,
    query_values.instant: MOMENTS,
    query_values.characters: TEXTS,
    query_values.base64: st.binary(max_size=300),
    query_values.flag: st.sampled_from([b"\0", b"\1"]),
    query_values.truth: st.integers(-128, 127).map(lambda number: str(number).encode()),
}


def counted(value: bytes | None) -> bytes:
    """A value with its length in front."""
    if value is None:
        return b"\xfb"
    size = len(value)
    if size < 251:
        return bytes([size]) + value
    if size < 1 << 24:
        return (b"\xfc" + struct.pack("<H", size) if size < 1 << 16 else b"\xfd" + struct.pack("<I", size)[:3]) + value
    return b"\xfe" + struct.pack("<Q", size) + value


def packet(payload: bytes, number: int = 1) -> bytes:
    return struct.pack("<I", len(payload))[:3] + bytes([number & 255]) + payload


END = packet(b"\xfe\0\0\x02\0")


def by_reference(names: Sequence[bytes], writers: Sequence[ValueWriter], row: Sequence[bytes | None]) -> bytes:
    members = [
        name + b":" + (b"null" if value is None else write(value))
        for name, write, value in zip(names, writers, row, strict=True)
    ]
    return HEAD + b",".join(members) + TAIL


@given(st.data())
def test_rows(data: st.DataObject) -> None:
    """Each row is that of the reference, and nothing depends on where the socket's pieces begin."""
    writers = data.draw(st.lists(st.sampled_from(list(WRITERS)), min_size=1, max_size=6))
    names = [b'"c%d"' % at for at in range(len(writers))]
    rows = data.draw(st.lists(st.tuples(*(st.none() | WRITERS[write] for write in writers)), max_size=5))
    stream = b"".join(packet(b"".join(map(counted, row))) for row in rows) + END
    reader = result_rows.ResultSetRows(HEAD, TAIL, names, writers, 3, 99, True)
    cuts = sorted(data.draw(st.sets(st.integers(1, len(stream)), max_size=4)))
    found: list[Any] = []
    for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        reader.feed(stream[start:stop])
        if data.draw(st.booleans()):
            found += reader.take()
    assert reader.ended
    assert reader.error is None
    found += reader.take()
    assert [record.value() for record in found] == [by_reference(names, writers, row) for row in rows]
    assert {(record.key(), record.offset(), record.timestamp()) for record in found} <= {(None, 3, (1, 99))}
    assert all(type(record) is LogRecord for record in found)


@given(st.binary(max_size=60), st.integers(1, 3))
def test_any_packet(payload: bytes, columns: int) -> None:
    """Bytes that are no row are refused, and read nothing beyond them."""
    names = [b'"c%d"' % at for at in range(columns)]
    reader = result_rows.ResultSetRows(HEAD, TAIL, names, [query_values.characters] * columns, 0, 0)
    try:
        reader.feed(packet(payload) + END)
    except ValueError:
        return
    assert reader.ended
    assert len(reader.take()) == (payload[:1] != b"\xff" and not (payload[:1] == b"\xfe" and len(payload) < 9))


def test_a_packet_that_goes_on() -> None:
    """A row of 2^24 - 1 bytes and more comes in several packets, the last of which may be empty."""
    names = [b'"c0"', b'"c1"']
    for size in ((1 << 24) - 1 - 4 - 2, (1 << 24) + 10):
        value = b"x" * size
        row = counted(value) + counted(b"1")
        assert (len(row) == (1 << 24) - 1) == (size < 1 << 24)
        full, rest = row[: (1 << 24) - 1], row[(1 << 24) - 1 :]
        reader = result_rows.ResultSetRows(HEAD, TAIL, names, [query_values.characters, query_values.number], 0, 0)
        stream = packet(full) + packet(rest, 2) + END
        for at in range(0, len(stream), 1 << 20):
            reader.feed(stream[at : at + (1 << 20)])
        assert reader.ended
        (record,) = reader.take()
        assert record.value() == HEAD + b'"c0":"' + value + b'","c1":1' + TAIL


def test_the_server_ends_the_rows() -> None:
    """An error packet ends them; what comes behind the end is refused."""
    reader = result_rows.ResultSetRows(HEAD, TAIL, [b'"c"'], [query_values.number], 0, 0)
    payload = b"\xff\x25\x05#70100Query execution was interrupted"
    reader.feed(packet(counted(b"1")) + packet(payload))
    assert (reader.ended, reader.error, len(reader)) == (True, payload, 1)
    other = result_rows.ResultSetRows(HEAD, TAIL, [b'"c"'], [query_values.number], 0, 0)
    with pytest.raises(ValueError, match="behind"):
        other.feed(END + b"\0")


@pytest.mark.parametrize("write", [query_values.truth, query_values.single, query_values.double])
def test_a_text_that_is_no_number_is_an_error_of_the_row(write: ValueWriter) -> None:
    with pytest.raises(BadEvent, match="is no number"):
        write(b"\0.5e10")

"""Sessions with a server whose packets are damaged, cut or others than were asked for: a clear stop, and never a crash.

The login, questions, rows of a chunk and the log are read by the product's own ways from the replay server.
"""

from __future__ import annotations

from functools import cache
from struct import pack
from typing import TYPE_CHECKING

import pymysql
import pytest
from examples import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mysql_log import Tables
from picking import pick
from replay_server import ReplayServer, log_of

from ingest.errors import AccessError, ConfigError, DataLoss, IngestError, Unavailable
from ingest.sources.mysql.connection import connect, explain
from ingest.sources.mysql.events import BadEvent
from ingest.sources.mysql.log_model import LogPlace
from ingest.sources.mysql.log_reader import LogReader
from ingest.sources.mysql.log_search import LogSearch
from ingest.sources.mysql.snapshot import ChunkRowReader, Reading
from ingest.sources.mysql.types import Column, Table

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypothesis.strategies import DrawFn

FILE = "binlog.000001"
COLUMNS = (
    Column("id", "int"), Column("s", "varchar", length=20, charset="utf8mb4"), Column("f", "double"),
    Column("b", "blob"), Column("t", "timestamp"), Column("g", "point"), Column("e", "float"),
)  # fmt: skip
TABLE = Table("shop", "t", COLUMNS, ("id",))
OF_LOG = Table("shop", "t", COLUMNS[:2], ("id",))
ROWS = [
    (at, f"text {at}", "1.5e10", "blob", "2020-01-01 00:00:00", None, "0.1") for at in range(3)
] + [(9, None, None, "x" * 300, None, None, "1e38")]  # fmt: skip
MAP = (9).to_bytes(6, "little") + pack("<H", 1) + b"\x04shop\0\x01t\0\x02\x03\x0f\x02" + pack("<H", 80) + b"\x02"
INSERT = (9).to_bytes(6, "little") + pack("<HH", 1, 2) + b"\x02\x03\0" + pack("<i", 7) + b"\x03abc"
BEGIN = pack("<IIBHH", 7, 0, 4, 0, 0) + b"shop\0BEGIN"
LOG = log_of([(2, BEGIN), (19, MAP), (30, INSERT), (16, pack("<Q", 1)), (2, BEGIN), (16, pack("<Q", 2))])


def session(server: ReplayServer, *, native: bool) -> int:
    """All that is asked of a server; the number of records. Raise IngestError."""
    login = server.login(connect_s=5.0, read_s=5.0)
    search, count = LogSearch(login), 0
    search.status()
    search.listing()
    connection = connect(login)
    try:
        for records in ChunkRowReader(native=native).read(connection, Reading(TABLE, 1, COLUMNS[:1])):
            count += len(records)
        connection.rollback()
    except pymysql.MySQLError as exc:
        raise explain(exc, "read rows", login) from exc
    except BadEvent as exc:
        raise ConfigError(str(exc)) from exc
    finally:
        connection._force_close()  # type: ignore[attr-defined]  # (there may be rows that nobody reads)
    reader = LogReader(login, 4711, Tables({("shop", "t"): OF_LOG}), heartbeat_s=0.2, native=native)
    try:
        for chunk in reader.read(LogPlace(FILE, 4, 0), len(LOG)):
            count += len(chunk.messages) if chunk is not None else 0
    finally:
        reader.close()
    return count


def served() -> ReplayServer:
    return ReplayServer({FILE: LOG}, plugin="mysql_native_password", answers={"SELECT .*FROM `shop`.*": ROWS})


@cache
def places() -> tuple[tuple[tuple[int, int], int], ...]:
    """The packets that a server sends in a session, and their sizes."""
    found: list[tuple[tuple[int, int], int]] = []

    def note(place: tuple[int, int], wire: bytes) -> None:
        found.append((place, len(wire)))

    with served() as server:
        server.spoil = note
        assert session(server, native=True) == len(ROWS) + 1
    return tuple(sorted(found))


@pytest.fixture(scope="module", autouse=True)
def known_places() -> None:
    """A session is looked at before examples are made, which has to be fast."""
    places()


OTHERS = {
    "ok": b"\0\0\0\2\0\0\0", "end": b"\xfe\0\0\2\0", "error": b"\xff\x25\x05#70100Query execution was interrupted",
    "error without text": b"\xff\x25\x05", "error of one byte": b"\xff", "nothing": b"", "a file": b"\xfb/etc/passwd",
    "one column": b"\x01", "many columns": b"\xfd\xff\xff\xff", "a null": b"\xfb", "long": b"\xfe" + b"\xff" * 8,
    "page": b"HTTP/1.1 400 Bad Request\r\n\r\n", "large error": b"\xff\xff\xff#HY000" + b"x" * 70_000,
}  # fmt: skip


@st.composite
def damages(draw: DrawFn) -> tuple[tuple[int, int], Callable[[bytes], bytes], str]:
    """The place of a packet, and what becomes of it."""
    place, size = pick(draw, places())
    way = pick(draw, ("cut", "bytes", "other", "length", "sequence", "more", "raw"))
    if way == "cut":
        count = draw(st.integers(0, size - 1))
        return place, lambda wire: wire[:count], f"cut at {count}"
    if way == "bytes":
        changes = draw(
            st.lists(st.tuples(st.integers(4, max(4, size - 1)), st.integers(0, 255)), min_size=1, max_size=4)
        )

        def changed(wire: bytes) -> bytes:
            data = bytearray(wire)
            for at, byte in changes:
                data[at % len(data)] = byte
            return bytes(data)

        return place, changed, f"bytes {changes}"
    if way in {"other", "more"}:
        name = pick(draw, tuple(OTHERS))
        data = OTHERS[name]
        before = way == "more"  # an additional packet behind this one
        return (
            place,
            lambda wire: (wire if before else b"")
            + pack("<I", len(data))[:3] + bytes([(wire[3] + before) & 255]) + data,
            f"{way}: {name}",
        )  # fmt: skip
    if way == "raw":
        raw = draw(st.binary(max_size=60))
        return place, lambda _: raw, f"raw {raw!r}"
    number = draw(st.integers(0, 255))
    if way == "sequence":
        return place, lambda wire: wire[:3] + bytes([number]) + wire[4:], f"sequence {number}"
    length = pick(draw, (0, 1, 0xFFFFFF, 0xFFFFFE, number))
    return place, lambda wire: pack("<I", length)[:3] + wire[3:], f"length {length}"


@settings(max_examples=examples(400), deadline=None)
@given(damages(), st.booleans(), st.booleans())
@example(((0, 0), lambda _: b"SSH-2.0-OpenSSH_9.6\r\n", "another protocol"), True, False)
def test_damaged_packets_are_a_clear_stop(
    damage: tuple[tuple[int, int], Callable[[bytes], bytes], str], native: bool, resets: bool
) -> None:
    """What is raised is an error with an exit code; where nothing is raised, nothing is missing."""
    where, change, what = damage
    with served() as server:
        server.spoil = lambda place, wire: change(wire) if place == where else None
        server.resets = resets
        stop, count = outcome(server, native=native)
    assert stop in {None, Unavailable, ConfigError, DataLoss, AccessError}
    # The last packet of a session may be as good as it was; an end of rows cannot be told from the true one
    may_lack = "end" in what or what.startswith(("bytes", "length", "raw"))
    assert stop is not None or count == len(ROWS) + 1 or (may_lack and count <= len(ROWS))


def outcome(server: ReplayServer, *, native: bool) -> tuple[type[IngestError] | None, int]:
    """The error that ends a session, or the number of records."""
    try:
        return None, session(server, native=native)
    except IngestError as exc:
        return type(exc), 0


@pytest.mark.parametrize("native", [False, pytest.param(True, marks=pytest.mark.compiled)])
def test_an_answer_without_columns_is_no_empty_chunk(native: bool) -> None:
    with served() as server:
        connection = connect(server.login())
        server.spoil = lambda _, wire: pack("<I", 7)[:3] + wire[3:4] + b"\0\0\0\2\0\0\0" if wire[4] == 7 else None
        with pytest.raises(pymysql.OperationalError, match="without columns"):
            list(ChunkRowReader(native=native).read(connection, Reading(TABLE, 1, COLUMNS[:1])))
        assert not connection.open

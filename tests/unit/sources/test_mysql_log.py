"""The log by bytes that a server would write: kinds of events, positions, ends of transactions, damage."""

from __future__ import annotations

import zlib
from struct import pack
from typing import TYPE_CHECKING, Any

import orjson
import pytest
import zstandard
from mysql_events import POST_HEADERS, START, Log, framed, packed, read_bytes, table
from mysql_log import Tables

from ingest.errors import ConfigError, DataLoss, IngestError, Unavailable
from ingest.sources.mysql import log_reader, table_maps
from ingest.sources.mysql.log_decoder import CLOSED, GtidRun
from ingest.sources.mysql.log_model import LogPlace
from ingest.sources.mysql.table_maps import NATIVE
from ingest.sources.mysql.types import Column

if TYPE_CHECKING:
    from collections.abc import Callable

T = Tables({("shop", "t"): table("t", Column("id", "int"), Column("a", "int"))})
BOTH = pytest.mark.parametrize("native", [False, pytest.param(True, marks=pytest.mark.compiled)])
INT_INT = b"\3\3", b""


def row(*values: int | None) -> bytes:
    """A row of numbers, with its bitmap of nulls."""
    nulls = sum(1 << at for at, value in enumerate(values) if value is None)
    return bytes([nulls]) + b"".join(pack("<i", value) for value in values if value is not None)


def insert(log: Log, *rows: bytes, kind: int = 30) -> None:
    log.table_map(7, "t", *INT_INT)
    log.rows(kind, 7, 2, b"".join(rows))


def ids(records: list[tuple[bytes, int, int]]) -> list[int]:
    found: list[int] = []
    for value, _, _ in records:
        changes = orjson.loads(value[5:])
        found += [change["after"]["id"] for change in (changes if isinstance(changes, list) else [changes])]
    return found


def read(log: Log, *, native: bool, tables: Tables = T, bound: int | None = None, **options: Any) -> Any:
    return read_bytes(log.packets, log.offset if bound is None else bound, tables, native=native, **options)


@BOTH
def test_rows_have_positions_in_their_event(native: bool) -> None:
    log = Log()
    log.transaction(lambda: insert(log, row(1, None), row(2, 5)))
    records, reader = read(log, native=native)
    begins = log.offset - 31 - len(log.events[3])
    assert [(at, millis) for _, at, millis in records] == [
        (begins, 1_700_000_000_000), (begins + 1, 1_700_000_000_000),
    ]  # fmt: skip
    assert records[0][0] == (
        b'\0\0\0\0\1{"before":null,"after":{"id":1,"a":null},"source":{"db":"shop","table":"t"},"op":"c"}'
    )
    assert reader.place.position == log.offset


@BOTH
def test_reading_ends_at_the_end_of_the_transaction_in_which_the_bound_lies(native: bool) -> None:
    log = Log()
    ends = []
    for at in range(3):
        log.transaction(lambda at=at: insert(log, row(at, 0)))
        ends.append(log.offset)
    for bound, count in ((ends[0] - 1, 1), (ends[0], 1), (ends[0] + 1, 2), (ends[2], 3)):
        records, reader = read(log, native=native, bound=bound)
        assert ids(records) == list(range(count))
        assert reader.place.position == ends[count - 1]


@BOTH
def test_records_below_where_reading_goes_on_are_left_out(native: bool) -> None:
    log = Log()
    log.transaction(lambda: insert(log, row(1, 0), row(2, 0), row(3, 0)))
    all_of_them, _ = read(log, native=native)
    records, reader = read(log, native=native, after=all_of_them[1][1])
    assert ids(records) == [2, 3]
    assert reader._decoder.opened == CLOSED


@BOTH
def test_offsets_go_on_beyond_four_gibibytes(native: bool) -> None:
    far = (1 << 32) - 200
    log = Log(offset=far)
    log.transaction(lambda: insert(log, *(row(at, 0) for at in range(30))))
    log.transaction(lambda: insert(log, row(99, 0)))
    start = LogPlace("binlog.000001", far, 1 << 40)
    records, reader = read(log, native=native, bound=(1 << 40) + log.offset, start=start)
    assert ids(records) == [*range(30), 99]
    assert records[-1][1] > (1 << 40) + (1 << 32)
    assert reader.place.offset == log.offset > 1 << 32


@BOTH
def test_a_place_beyond_four_gibibytes_is_looked_for_from_the_beginning_of_the_file(native: bool) -> None:
    log = Log()
    log.transaction(lambda: insert(log, row(1, 0)))
    log.offset = (1 << 32) - 60  # as if much were between them, of which the server sends no event
    log.transaction(lambda: insert(log, row(2, 0)))
    _, reader = read(log, native=native)
    place = reader.place
    log.transaction(lambda: insert(log, row(3, 0)))
    records, _ = read(log, native=native, start=place)
    assert ids(records) == [3]
    changed = LogPlace(place.file, place.offset, place.base, place.last, place.last_crc ^ 1)
    with pytest.raises(DataLoss, match=r"the event that ends at binlog\.000001:4294967402 is not the one"):
        read(log, native=native, start=changed)


@BOTH
@pytest.mark.parametrize("over", [-1, 0, 1])
def test_packets_go_on_in_the_next_one_also_when_they_are_full_exactly(over: int, native: bool) -> None:
    tables = Tables({("shop", "b"): table("b", Column("id", "int"), Column("a", "longblob"))})
    log = Log()
    fixed = 1 + 19 + 8 + 2 + 1 + 1 + 1 + 4 + 4 + 4  # what is around the blob: header, bitmaps, id, length, checksum
    data = bytes((1 << 24) - 1 - fixed + over)
    log.query(b"BEGIN")
    log.table_map(7, "b", b"\3\xfc", b"\4")
    event = log.rows(30, 7, 2, b"\0" + pack("<iI", 5, len(data)) + data)
    assert len(event) + 4 + 1 == (1 << 24) - 1 + over
    log.xid()
    records, _ = read(log, native=native, tables=tables, piece=1 << 20)
    assert len(records) == 1
    assert records[0][0].startswith(b'\0\0\0\0\1{"before":null,"after":{"id":5,"a":"AAAA')


@BOTH
def test_transactions_are_counted_by_their_gtids(native: bool) -> None:
    log = Log()
    for number in (5, 6, 8, 9):
        log.gtid(number)
        log.transaction(lambda: insert(log, row(1, 1)))
    log.gtid(1, b"\xff" * 16)
    log.query(b"CREATE TABLE other (a INT)")
    _, reader = read(log, native=native)
    uuid = "00010203-0405-0607-0809-0a0b0c0d0e0f"
    assert list(reader.gtids) == [
        GtidRun(uuid, 5, 6), GtidRun(uuid, 8, 9), GtidRun("ffffffff-ffff-ffff-ffff-ffffffffffff", 1, 1),
    ]  # fmt: skip


@BOTH
def test_transactions_may_be_passed_over_by_their_gtids(native: bool) -> None:
    log = Log()
    for number in (5, 6, 7):
        log.gtid(number)
        log.transaction(lambda number=number: insert(log, row(number, 1)))
    log.gtid(8)
    log.query(b"ALTER TABLE t ADD b INT")
    tables = Tables(dict(T.tables), all_known=False)
    records, reader = read(log, native=native, tables=tables, excluded=lambda _, number: number in {6, 8})
    assert ids(records) == [5, 7]
    assert reader.place.position == log.offset


@BOTH
def test_a_gtid_may_have_a_tag(native: bool) -> None:
    log = Log("9.0.0")
    fields = b"\0\0" + b"\2" + b"".join(bytes([byte << 1]) for byte in range(16)) + b"\4" + bytes([7 << 2]) + b"\6\6abc"
    log.add(42, b"\2\2\x14" + fields)
    log.transaction(lambda: insert(log, row(1, 1)))
    _, reader = read(log, native=native)
    assert list(reader.gtids) == [GtidRun("00010203-0405-0607-0809-0a0b0c0d0e0f:abc", 7, 7)]


def payload(*events: bytes, size: int | None = None, compressed: bytes | None = None) -> bytes:
    """The body of a compressed transaction."""
    plain = b"".join(events)
    data = zstandard.ZstdCompressor().compress(plain) if compressed is None else compressed
    fields = ((2, packed(0)), (3, packed(len(plain) if size is None else size)), (1, packed(len(data))))
    head = b"".join(packed(kind) + packed(len(value)) + value for kind, value in fields)
    return head + packed(0) + data


def inner(*rows: bytes) -> list[bytes]:
    """The events of a transaction, without checksums."""
    log = Log(checksums=False)
    log.transaction(lambda: insert(log, *rows))
    return log.events[1:]


@BOTH
def test_a_compressed_transaction_is_read(native: bool) -> None:
    log = Log()
    log.gtid(5)
    log.add(40, payload(*inner(row(1, 2), row(3, 4))))
    log.gtid(6)
    log.transaction(lambda: insert(log, row(5, 6)))
    records, reader = read(log, native=native)
    assert ids(records) == [1, 3, 5]
    assert records[1][1] == records[0][1] + 1
    assert list(reader.gtids) == [GtidRun("00010203-0405-0607-0809-0a0b0c0d0e0f", 5, 6)]


@BOTH
def test_more_rows_than_bytes_share_records(native: bool) -> None:
    log = Log()
    log.add(40, payload(*inner(*(row(1, 1) for _ in range(2000)))))
    end = log.offset
    log.transaction(lambda: insert(log, row(5, 6)))
    records, _ = read(log, native=native)
    assert len(records) < 200
    assert ids(records) == [1] * 2000 + [5]
    positions = [position for _, position, _ in records]
    assert positions == sorted(set(positions))
    assert positions[-2] < end <= positions[-1]
    assert orjson.loads(records[0][0][5:])[0] == {
        "id": 1, "before": None, "after": {"id": 1, "a": 1}, "source": {"db": "shop", "table": "t"}, "op": "c",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (payload(*inner(row(1, 1)), size=5), "where it says 5"),
        (payload(b"abc", compressed=b"abc"), "cannot be unpacked"),
        (payload(b"abc"), "before the end of its compressed transaction"),
        (b"\2\1\7\1\1\0\3\1\0\0", "of the kind 7"),
    ],
)
def test_a_damaged_compressed_transaction_stops(body: bytes, why: str) -> None:
    log = Log()
    log.add(40, body)
    with pytest.raises(ConfigError, match=why):
        read(log, native=False)


@BOTH
@pytest.mark.parametrize("kind", [50, 172, 200, 21])
def test_an_unknown_kind_stops_unless_the_server_says_that_it_may_be_ignored(kind: int, native: bool) -> None:
    log = Log()
    log.add(kind, b"abc", flags=0x80)
    log.transaction(lambda: insert(log, row(1, 1)))
    assert ids(read(log, native=native)[0]) == [1]
    log.add(kind, b"abc")
    log.transaction(lambda: insert(log, row(2, 1)))
    with pytest.raises(ConfigError, match=rf"an event of the kind {kind}, which is not known and may have rows"):
        read(log, native=native)


@BOTH
def test_padding_that_aurora_adds_within_a_transaction_is_passed_over(native: bool) -> None:
    log = Log("5.7.12")
    log.add(34, bytes(42))
    log.add(100, b"*" * 905, flags=0x80)
    log.transaction(lambda: insert(log, row(1, 1)), lambda: log.add(100, b"*" * 90, flags=0x80))
    records, reader = read(log, native=native)
    assert (ids(records), reader.place.position) == ([1], log.offset)


@BOTH
def test_a_log_of_mysql_5_5_says_nothing_of_checksums(native: bool) -> None:
    log = Log(checksums=False)
    log.events, log.offset = [], START
    log.add(15, pack("<H", 4) + b"5.5.27-log".ljust(50, b"\0") + pack("<I", 0) + bytes([19]) + POST_HEADERS[:27])
    log.transaction(lambda: insert(log, row(1, 1), row(2, None), kind=23))
    assert ids(read(log, native=native)[0]) == [1, 2]


@BOTH
def test_an_incident_is_data_loss(native: bool) -> None:
    log = Log()
    log.add(26, pack("<H", 1) + b"\0")
    with pytest.raises(DataLoss, match="its log lacks changes"):
        read(log, native=native, bound=log.offset + 1)


@BOTH
def test_a_wrong_checksum_stops(native: bool) -> None:
    log = Log()
    log.transaction(lambda: insert(log, row(1, 1)))
    broken = bytearray(log.events[3])
    broken[-6] ^= 1
    log.events[3] = bytes(broken)
    with pytest.raises(ConfigError, match="the checksum of an event is"):
        read(log, native=native)


@BOTH
def test_a_file_may_have_checksums_and_the_next_one_none(native: bool) -> None:
    log = Log()
    log.transaction(lambda: insert(log, row(1, 1)))
    log.add(4, pack("<Q", 4) + b"binlog.000002")
    base = log.offset
    other = Log(checksums=False)
    other.transaction(lambda: insert(other, row(2, 2)))
    artificial = Log(checksums=False).add(4, pack("<Q", 4) + b"binlog.000002", flags=0x20, filed=False)
    data = log.packets + framed(b"\0" + artificial) + other.packets
    records, reader = read_bytes(data, base + other.offset, T, native=native)
    assert ids(records) == [1, 2]
    assert (reader.place.file, reader.place.base, reader.place.offset) == ("binlog.000002", base, other.offset)
    assert [file.name for file in reader.files] == ["binlog.000001", "binlog.000002"]


@BOTH
def test_what_a_crash_of_the_server_cut_is_no_transaction(native: bool) -> None:
    log = Log()
    log.query(b"BEGIN")
    insert(log, row(1, 1))
    artificial = Log().add(4, pack("<Q", 4) + b"binlog.000002", flags=0x20, filed=False)
    other = Log()
    other.transaction(lambda: insert(other, row(2, 2)))
    data = log.packets + framed(b"\0" + artificial + pack("<I", zlib.crc32(artificial))) + other.packets
    records, _ = read_bytes(data, log.offset + other.offset, T, native=native)
    assert ids(records) == [2]


@BOTH
def test_a_large_transaction_is_given_on_in_pieces_but_not_one_with_savepoints(
    native: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_reader, "CHUNK_BYTES", 500)
    monkeypatch.setattr(log_reader, "OPEN_BYTES", 2000)
    monkeypatch.setattr(log_reader, "HELD_BYTES", 4000)
    many = [row(at, 0) for at in range(15)]

    def large(end: Callable[[Log], None], *, savepoint: bool) -> Log:
        log = Log()
        log.query(b"BEGIN")
        if savepoint:
            log.query(b"SAVEPOINT `a`")
        for _ in range(4):
            insert(log, *many)
        end(log)
        log.transaction(lambda: insert(log, row(99, 0)))
        return log

    log = large(Log.xid, savepoint=False)
    assert ids(read(log, native=native)[0]) == [*range(15)] * 4 + [99]
    with pytest.raises(DataLoss, match="was rolled back after"):
        read(large(lambda log: log.query(b"ROLLBACK"), savepoint=False), native=native)
    rolled_back = large(lambda log: log.query(b"ROLLBACK"), savepoint=True)
    assert ids(read(rolled_back, native=native)[0]) == [99]
    with pytest.raises(ConfigError, match="larger than is kept"):
        read(large(Log.xid, savepoint=True), native=native)


def test_a_table_map_is_compared_with_the_history() -> None:
    def why(types: bytes, metadata: bytes, *columns: Column, more: bytes = b"") -> str:
        log = Log()
        log.query(b"BEGIN")
        log.table_map(7, "t", types, metadata, more)
        log.rows(30, 7, len(types), b"\0" + bytes(30))
        with pytest.raises(ConfigError) as failed:
            read(log, native=False, tables=Tables({("shop", "t"): table("t", *columns)}), bound=log.offset + 1)
        return failed.value.message

    a = Column("a", "int")
    assert "has 2 columns in the log, and 1 in the history of schemas" in why(b"\3\3", b"", a)
    assert "column a, which has the type int in the history of schemas, and the code 8 in the log" in why(
        b"\x08", b"", a
    )
    assert "column a, which is signed in the log" in why(b"\3", b"", Column("a", "int", unsigned=True), more=b"\1\1\0")
    assert "has column b in the log where the history of schemas has a" in why(b"\3", b"", a, more=b"\4\2\1b")
    decimal = Column("a", "decimal", precision=10, scale=2)
    assert "is DECIMAL(10,2) in the history of schemas, and DECIMAL(10,3)" in why(b"\xf6", b"\x0a\3", decimal)
    assert "has 3 digits of a second" in why(b"\x12", b"\6", Column("a", "datetime", fsp=3))


@BOTH
def test_columns_of_functional_indexes_are_left_out(native: bool) -> None:
    log = Log()
    log.query(b"BEGIN")
    names = b"".join(bytes([len(name)]) + name for name in (b"id", b"!hidden!i!0!0", b"a"))
    log.table_map(7, "t", b"\3\x0f\3", b"\x40\0", b"\4" + packed(len(names)) + names)
    log.rows(30, 7, 3, b"\0" + pack("<i", 1) + b"\3xyz" + pack("<i", 2))
    log.xid()
    hidden = Tables(
        {("shop", "t"): table("t", Column("id", "int"), Column("h", "varchar", hidden=True), Column("a", "int"))}
    )
    for tables in (T, hidden):
        records, _ = read(log, native=native, tables=tables)
        assert orjson.loads(records[0][0][5:])["after"] == {"id": 1, "a": 2}


@BOTH
def test_rows_without_a_table_map_stop(native: bool) -> None:
    log = Log()
    log.query(b"BEGIN")
    log.rows(30, 7, 2, row(1, 1))
    with pytest.raises(ConfigError, match="rows of the table 7, of which no table map came"):
        read(log, native=native, bound=log.offset + 1)


def test_a_statement_has_what_it_is_read_by() -> None:
    log = Log()
    status = b"\0\0\0\0\0\1" + pack("<Q", 4) + b"\6\3std\4" + pack("<HHH", 33, 33, 8)
    log.query(b"-- a comment\n /* and one */ ALTER TABLE t ADD b INT", "shop", status, error=0)
    tables = Tables(dict(T.tables), all_known=False)
    _, reader = read(log, native=False, tables=tables, bound=log.offset + 1)
    met = reader.statement
    assert met is not None
    assert (met.query.database, met.query.sql_mode, met.query.charset) == ("shop", 4, 33)
    assert (met.position, met.end, met.changes_rows) == (
        log.offset - 19 - 13 - len(status) - 5 - 51 - 4,
        log.offset,
        False,
    )
    assert reader.place.position == met.position


def test_load_data_as_a_statement_is_data_loss() -> None:
    log = Log()
    name, text = b"shop", b"LOAD DATA INFILE 'x' INTO TABLE t"
    log.query(b"BEGIN")
    log.add(17, pack("<I", 1) + b"1\t2\n")
    log.add(18, pack("<IIBHH", 1, 0, 4, 0, 0) + pack("<IIIB", 1, 5, 10, 0) + name + b"\0" + text)
    with pytest.raises(DataLoss, match="its rows are not in the log: LOAD DATA INFILE 'x' INTO TABLE t"):
        read(log, native=False, bound=log.offset + 1)


@pytest.mark.parametrize(
    ("packet", "kind", "why"),
    [
        (
            b"\xff" + pack("<H", 1236) + b"#HY000Could not find first log file name",
            DataLoss,
            "Could not find first log",
        ),
        (b"\xff" + pack("<H", 1236) + b"#HY000A slave with the same server_uuid", ConfigError, "same server_uuid"),
        (b"\xfe\0\0\2\0", Unavailable, "the end of its log"),
        (b"\7abc", Unavailable, "byte 7"),
        (b"\0abc", ConfigError, "an event of 3 bytes"),
        (b"", Unavailable, "where an event was expected"),
    ],
)
def test_what_is_no_event_is_a_clear_stop(packet: bytes, kind: type[IngestError], why: str) -> None:
    for native in {False, NATIVE}:
        with pytest.raises(kind, match=why):
            read_bytes(framed(packet), 100, T, native=native)


@BOTH
def test_ids_of_tables_are_forgotten_where_they_are_many(native: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_reader, "CHUNK_BYTES", 1)
    monkeypatch.setattr(table_maps, "MAX_KNOWN", 3)
    log = Log()
    for at in range(20):
        log.query(b"BEGIN")
        log.table_map(at, "t", *INT_INT)
        log.rows(30, at, 2, row(at, 1))
        log.xid()
    records, reader = read(log, native=native)
    assert ids(records) == list(range(20))
    assert max(len(reader.maps._known), reader._decoder.known) <= 4


@BOTH
def test_a_table_that_gets_another_id_is_looked_at_once(native: bool) -> None:
    log = Log()
    for at in range(20):
        log.query(b"BEGIN")
        log.table_map(at, "t", *INT_INT)
        log.rows(30, at, 2, row(at, 1))
        log.xid()
    records, reader = read(log, native=native)
    assert ids(records) == list(range(20))
    assert (len(reader.maps._known), reader._decoder.known) == ((1, 20) if native else (20, 0))
    assert len(set(map(id, reader.maps._known.values()))) == 1


@BOTH
def test_rows_that_the_reference_reads_are_of_a_table_with_another_id_as_well(native: bool) -> None:
    """Native code leaves compressed rows, and may be the only one that has seen the table's map."""
    log, others = Log(), Tables({})
    for at in range(3):
        body = bytes([0]) + pack("<i", at) + pack("<i", 1)
        log.query(b"BEGIN")
        log.table_map(at, "t", *INT_INT)
        log.rows(166, at, 2, bytes([0x81, len(body)]) + zlib.compress(body))
        log.xid()
    assert ids(read(log, native=native)[0]) == [0, 1, 2]
    assert read(log, native=native, tables=others)[0] == []

"""Positions over the files of a log: names by number, bases, servers; and a log that is another one than before."""

from __future__ import annotations

import zlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.errors import ConfigError, DataLoss
from ingest.sources.mysql.log_model import (
    FIRST,
    FORMER,
    LogFiles,
    LogName,
    ServerIdentity,
    check_listing,
    compare_first,
    compare_last,
    log_name,
)  # fmt: skip

ONE, OTHER = (
    ServerIdentity(1, "3e11fa47-71ca-11e1-9e33-c80aa9429562"),
    ServerIdentity(1, "4350f323-7565-4e59-8763-4b1b83a0ce0e"),
)
LISTING = [("binlog.000009", 1000), ("binlog.000010", 5 << 32), ("binlog.000011", 300)]


def test_names_are_compared_by_their_number() -> None:
    assert log_name("mysql-bin.999999") < log_name("mysql-bin.1000000")
    assert log_name("a.b.v2.000010") == LogName("a.b.v2", 10)
    assert log_name("mysql-bin-changelog.123456") == LogName("mysql-bin-changelog", 123456)
    for wrong in ("binlog", "binlog.", "binlog.x", "binlog.٣", ""):
        with pytest.raises(ConfigError, match="is no name of a log file"):
            log_name(wrong)


def test_a_position_counts_bytes_over_all_files() -> None:
    files = LogFiles((ONE,)).grown(LISTING)
    assert [(file.base, file.size) for file in files.files] == [(0, 1000), (1000, 5 << 32), (1000 + (5 << 32), 300)]
    assert files.position("binlog.000010", (4 << 32) + 7) == 1007 + (4 << 32)
    file, offset = files.place(1007 + (4 << 32))
    assert (file.name, offset) == ("binlog.000010", (4 << 32) + 7)
    assert files.position("binlog.000009", 0) == FIRST
    assert files.place(1000)[1] == FIRST
    assert files.end == 1300 + (5 << 32)
    assert files.shown(20) == "binlog.000009:20"
    with pytest.raises(ConfigError, match=r"the log file binlog\.000012 is none of server 3e11"):
        files.position("binlog.000012", 4)


@given(st.lists(st.integers(FIRST, 1 << 34), min_size=1, max_size=6), st.data())
def test_each_offset_is_found_again(sizes: list[int], data: st.DataObject) -> None:
    listing = [(f"b.{999_998 + at}", size) for at, size in enumerate(sizes)]
    files = LogFiles((ONE,)).grown(listing)
    name, size = data.draw(st.sampled_from(listing))
    offset = data.draw(st.integers(FIRST, max(FIRST, size - 1)))
    file, again = files.place(files.position(name, offset))
    assert (file.name, again) == (name, offset) or size == FIRST
    assert sorted(file.base for file in files.files) == [file.base for file in files.files]


@given(st.lists(st.integers(FIRST, 1000), min_size=2, max_size=6))
def test_a_file_that_grows_keeps_its_base(sizes: list[int]) -> None:
    listing = [(f"b.{at}", size) for at, size in enumerate(sizes)]
    files = LogFiles((ONE,))
    for count in range(1, len(listing) + 1):
        for written in (FIRST, listing[count - 1][1]):
            files = files.grown([*listing[: count - 1], (listing[count - 1][0], written)])
    assert files == LogFiles((ONE,)).grown(listing)


def test_a_file_that_lost_its_end_in_a_crash_moves_no_base_back() -> None:
    files = LogFiles((ONE,)).grown([("b.1", 1000)]).grown([("b.1", 900), ("b.2", 50)])
    assert files.files[1].base == 1000
    assert files.place(1000)[0].name == "b.2"
    assert files.place(950)[0].name == "b.1"
    with pytest.raises(DataLoss, match=r"b\.1 has 900 bytes, and was read up to 950"):
        check_listing(files, 950, [("b.1", 900), ("b.2", 50)])


def test_a_log_that_goes_on_in_its_last_file_needs_no_list() -> None:
    files = LogFiles((ONE,)).grown([("b.1", 1000), ("b.2", 50)])
    assert files.reached("b.2", 50) is files
    assert files.reached("b.2", 70) == files.grown([("b.1", 1000), ("b.2", 70)])
    # Another file, one that begins again, another server: the list says what became of the log
    assert files.reached("b.3", 4) is None
    assert files.reached("b.1", 2000) is None
    assert files.moved(ONE).reached("b.2", 70) is None
    assert LogFiles((ONE,)).reached("b.1", 4) is None


def test_the_first_file_that_counts() -> None:
    files = LogFiles((ONE,)).grown(LISTING, "binlog.000010")
    assert [file.name for file in files.files] == ["binlog.000010", "binlog.000011"]
    assert files.files[0].base == 0


def test_purged_files_are_data_loss_and_so_is_a_log_that_begins_again() -> None:
    files = LogFiles((ONE,)).grown(LISTING)
    with pytest.raises(DataLoss, match=r"binlog\.000009, .* is purged: the first is binlog\.000010") as purged:
        check_listing(files, 500, LISTING[1:])
    assert "backfill" in purged.value.hint
    assert "binlog_expire_logs_seconds" in purged.value.hint
    with pytest.raises(
        DataLoss, match=r"has no log file binlog\.000009: it has binlog\.000001 to binlog\.000002"
    ) as reset:
        check_listing(files, 500, [("binlog.000001", 9), ("binlog.000002", 9)])
    assert "RESET MASTER" in reset.value.hint
    with pytest.raises(DataLoss, match=r"has no log file binlog\.000011: it has binlog\.000001 to"):
        files.grown([("binlog.000001", 9)])
    with pytest.raises(DataLoss, match="it has none"):
        files.grown([])
    assert check_listing(files, 500, LISTING) == (files.files[0], 500)


def test_another_servers_files_come_after_all_others() -> None:
    files = LogFiles((ONE,)).grown(LISTING).timed("binlog.000011", 77)
    moved = files.moved(OTHER).grown([("binlog.000011", 400), ("binlog.000012", 10)], "binlog.000011")
    assert moved.identity == OTHER
    assert moved.position("binlog.000011", 4) == files.end + 4
    assert moved.place(files.end - 1)[0].server == 0
    assert moved.files[2].size == 300
    assert moved.files[3].first_time is None
    assert moved.pruned(files.end + 4) == moved, "a few files are kept for people"
    assert moved.timed("binlog.000011", 99).files[2:4] == (
        files.files[2],
        msgspec.structs.replace(moved.files[3], first_time=99),
    )


def test_few_files_before_the_one_that_is_read_are_kept() -> None:
    files = LogFiles((ONE,)).grown(LISTING)
    numbers = range(1, 51)
    moved = files.moved(OTHER).grown([(f"binlog.{number:06}", 100) for number in numbers])
    kept = moved.pruned(moved.position("binlog.000040", 50))
    assert [log_name(file.name).number for file in kept.files] == [*range(40 - FORMER, 51)]
    assert kept.servers == (OTHER,)
    assert kept.place(moved.position("binlog.000050", 9)) == (kept.files[-1], 9)
    assert kept.position("binlog.000050", 9) == moved.position("binlog.000050", 9)
    assert kept.grown([("binlog.000050", 200), ("binlog.000051", 4)]).end == kept.files[-1].base + 204
    assert kept.pruned(kept.files[FORMER].base) is kept
    assert LogFiles((ONE,)).pruned(0) == LogFiles((ONE,))


def test_identities() -> None:
    assert ONE.is_same(ServerIdentity(7, ONE.uuid))
    assert not ONE.is_same(OTHER)
    assert ServerIdentity(1, None, 0).is_same(ServerIdentity(1, None, 0))
    assert not ServerIdentity(1, None, 0).is_same(ServerIdentity(1, None, 1))
    assert not ServerIdentity(1, None, 0).is_same(ServerIdentity(2, None, 0))
    assert not ONE.is_same(ServerIdentity(1, None, 0))


def test_a_log_is_known_by_its_first_event_and_the_one_that_ends_at_the_position() -> None:
    file = LogFiles((ONE,)).grown(LISTING).timed("binlog.000009", 77).files[0]
    compare_first(file, 77)
    with pytest.raises(
        DataLoss, match=r"begins at another time \(78\) than the file of this name that was read \(77\)"
    ):
        compare_first(file, 78)
    compare_last("b.1:12", zlib.crc32(b"an event"), b"an event")
    for other in (b"an evant", b"an event ", None):
        with pytest.raises(DataLoss, match=r"the event that ends at b\.1:12 is not the one that was read there"):
            compare_last("b.1:12", zlib.crc32(b"an event"), other)


def test_the_files_are_json() -> None:
    files = LogFiles((ONE, OTHER)).grown(LISTING).timed("binlog.000011", 5)
    assert msgspec.json.decode(msgspec.json.encode(files), type=LogFiles) == files

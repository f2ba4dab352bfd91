"""Places in logs of real servers: GTIDs, times, another server, and a log that is another one under the same name."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import pytest
from mysql_events import Log
from mysql_servers import MARIADB_10, MYSQL_5, PASSWORD, USER, clone

from ingest.errors import ConfigError, DataLoss
from ingest.sources.mysql.events import read_header
from ingest.sources.mysql.gtids import GtidSet
from ingest.sources.mysql.log_model import FIRST, KnownFile, LogFiles, LogPlace
from ingest.sources.mysql.log_search import FileHead, LogSearch, PlacedEvent, mariadb_executed, mariadb_transactions
from ingest.sources.mysql.server import MySqlServer, Tls

if TYPE_CHECKING:
    from collections.abc import Callable

    from mysql_servers import MySql

    Starter = Callable[..., MySql]
GTIDS: dict[str, Any] = {"gtid_mode": "ON", "enforce_gtid_consistency": 1, "log_slave_updates": 1}
A = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


def search(server: MySql) -> LogSearch:
    return LogSearch(MySqlServer("127.0.0.1", server.port, USER, PASSWORD, Tls("disabled")))


@pytest.fixture(params=["mariadb", "mysql"])
def server(request: pytest.FixtureRequest, mysql_server: Starter) -> MySql:
    found = mysql_server(MARIADB_10) if request.param == "mariadb" else mysql_server(MYSQL_5, **GTIDS)
    found.execute("CREATE TABLE shop.t (id INT PRIMARY KEY)")
    return found


def read(server: MySql) -> tuple[LogFiles, LogPlace]:
    """What a checkpoint has of a log that was read to its end."""
    looked = search(server)
    status = looked.status()
    files = LogFiles((looked.identity(),)).grown(looked.listing())
    files = files.timed(status.file, looked.head(status.file).first_time)
    last = list(looked.events(status.file))[-1]
    assert last.end == status.offset
    base = files.position(status.file, FIRST) - FIRST
    return files, LogPlace(status.file, status.offset, base, last.start, zlib.crc32(last.data))


def test_a_log_that_went_on_is_the_same(server: MySql) -> None:
    known = read(server)
    server.execute("INSERT INTO shop.t VALUES (1)")
    server.restart()
    server.execute("INSERT INTO shop.t VALUES (2)")
    search(server).check(*known)
    files, place = read(server)
    search(server).check(files, place)
    search(server).check(files, LogPlace(place.file, place.offset, place.base))


def test_after_reset_master_the_same_name_is_another_log(server: MySql) -> None:
    known = read(server)
    files, place = known
    server.reset_master()
    with pytest.raises(DataLoss):
        search(server).check(*known)
    for number in range(40):  # the file grows past the position
        server.insert(number)
    assert server.position()[1] > place.offset
    with pytest.raises(DataLoss, match=r"the event that ends at|begins at another time"):
        search(server).check(*known)
    untimed = LogFiles(files.servers, tuple(KnownFile(file.name, file.base, file.size) for file in files.files))
    with pytest.raises(DataLoss, match="the event that ends at"):
        search(server).check(untimed, place)


def test_purged_files_are_noticed(server: MySql) -> None:
    known = read(server)
    server.rotate()
    server.purge(server.position()[0])
    with pytest.raises(DataLoss, match="which was not read to its end, is purged"):
        search(server).check(*known)


def test_a_clone_that_went_on_by_itself_is_another_log(server: MySql) -> None:
    known = read(server)
    with clone(server) as other:
        assert search(other).identity() == search(server).identity()
        search(other).check(*known)
        for number in range(20):
            server.insert(number)
        known = read(server)
        with pytest.raises(DataLoss):
            search(other).check(*known)
        for number in range(30):
            other.insert(100 + number)
        assert other.position()[0] == server.position()[0]
        with pytest.raises(DataLoss, match=r"the event that ends at|begins at another time"):
            search(other).check(*known)


def test_what_was_executed_at_a_place(server: MySql) -> None:
    before = search(server).status()
    assert search(server).executed_at(before.file, FIRST) == GtidSet()
    server.execute("INSERT INTO shop.t VALUES (1)", "INSERT INTO shop.t VALUES (2)")
    server.rotate()
    server.execute("INSERT INTO shop.t VALUES (3)")
    status = search(server).status()
    found = search(server).executed_at(status.file, status.offset)
    assert found is not None
    if server.kind is MYSQL_5:
        assert found == status.executed
    else:
        assert found.position() == server.execute("SELECT @@gtid_binlog_pos")[0][0]
    earlier = search(server).executed_at(before.file, before.offset)
    assert earlier is not None
    assert (found - earlier).count() == 3


def test_a_place_is_found_by_what_was_delivered(server: MySql) -> None:
    wanted: list[tuple[GtidSet, tuple[str, int]]] = []
    for number in range(6):
        status = search(server).status()
        executed = search(server).executed_at(status.file, status.offset)
        assert executed is not None
        server.insert(number)
        wanted.append((executed, (status.file, status.offset)))
        if number % 2:
            server.rotate()
            wanted.append((executed, (status.file, status.offset)))
    for delivered, place in wanted:
        found = search(server).find_gtids(delivered)
        assert (found.file, found.offset) == place, delivered
        assert not found.skip
    end = search(server).status()
    everything = search(server).executed_at(end.file, end.offset)
    assert everything is not None
    assert search(server).find_gtids(everything)[:2] == (end.file, end.offset)
    server.purge(end.file)
    with pytest.raises(DataLoss, match="has no log any more of transactions that were not read") as lost:
        search(server).find_gtids(wanted[0][0])
    assert "backfill" in lost.value.hint


def test_mysql_transactions_that_a_server_never_had_are_named(mysql_server: Starter) -> None:
    server = mysql_server(MYSQL_5, **GTIDS)
    for number in (1, 2, 5, 3):
        server.execute(f"SET GTID_NEXT = '{A}:{number}'", "BEGIN", "COMMIT", "SET GTID_NEXT = AUTOMATIC")
    places = {event.start: event for event in search(server).events(server.position()[0]) if event.header.kind == 33}
    starts = sorted(places)
    # A gap that was filled later: 3 was not delivered, 5 behind it was
    found = search(server).find_gtids(GtidSet.parse(f"{A}:1-2:5"))
    assert found.offset == starts[3]
    found = search(server).find_gtids(GtidSet.parse(f"{A}:1:3:5"))
    assert (found.offset, str(found.skip)) == (starts[1], f"{A}:3:5")
    with pytest.raises(DataLoss, match=f"does not have all transactions that were read .*: {A}:4:6-9") as lost:
        search(server).find_gtids(GtidSet.parse(f"{A}:1-9"))
    assert "ingest verify FILE" in lost.value.hint
    assert "ingest backfill FILE --all" in lost.value.hint


def test_a_replicas_own_transactions_can_be_left_out(mysql_server: Starter) -> None:
    server = mysql_server(MYSQL_5, **GTIDS)
    server.execute("CREATE TABLE shop.own (id INT)")
    own = server.execute("SELECT @@server_uuid")[0][0]
    server.rotate()
    server.execute(f"SET GTID_NEXT = '{A}:1'", "BEGIN", "COMMIT", "SET GTID_NEXT = AUTOMATIC")
    server.execute("INSERT INTO shop.own VALUES (1)")
    end = search(server).status()
    found = search(server).find_gtids(GtidSet.parse(f"{A}:1"), lambda source: source == own)
    assert found[:2] == (end.file, end.offset)
    assert search(server).find_gtids(GtidSet.parse(f"{A}:1")).file == "binlog.000001"
    # What another server wrote by itself counts only where its own transactions do
    with pytest.raises(DataLoss, match="does not have all"):
        search(server).find_gtids(GtidSet.parse(f"{A}:1,00000000-0000-0000-0000-000000000001:1"))


def test_mariadb_servers_of_a_domain_follow_each_other(mysql_server: Starter) -> None:
    server = mysql_server(MARIADB_10, server_id=2)

    def write(server_id: int, number: int) -> None:
        server.execute(f"SET server_id = {server_id}, gtid_seq_no = {number}", f"CREATE TABLE shop.t{number} (id INT)")

    for number in (1, 2, 3):
        write(1, number)
    for number in (4, 5):
        write(2, number)
    starts = [event.start for event in search(server).events(server.position()[0]) if event.header.kind == 162]
    assert search(server).find_gtids(GtidSet.parse("0-1-2")).offset == starts[2]
    assert search(server).find_gtids(GtidSet.parse("0-1:1-3,0-2:4")).offset == starts[4]
    with pytest.raises(DataLoss, match=r"does not have all transactions that were read .*: 0-1:4-6"):
        search(server).find_gtids(GtidSet.parse("0-1-6"))
    with pytest.raises(DataLoss, match="0-9:1-4"):
        search(server).find_gtids(GtidSet.parse("0-9-4"))
    server.rotate()
    write(2, 6)
    assert search(server).find_gtids(GtidSet.parse("0-1:1-3,0-2:4")).file == "binlog.000001"
    assert search(server).find_gtids(GtidSet.parse("0-1:1-3,0-2:4-5")).file == "binlog.000002"
    server.purge("binlog.000002")
    assert search(server).find_gtids(GtidSet.parse("0-1:1-3,0-2:4-5")).file == "binlog.000002"
    with pytest.raises(DataLoss, match="has no log any more"):
        search(server).find_gtids(GtidSet.parse("0-1:1-3,0-2:4"))


def test_mariadb_replicas_that_were_made_of_a_backup() -> None:
    found = mariadb_transactions("0-2-120", "0-1-100", GtidSet.parse("0-1:90-99"))
    assert str(found.executed) == "0-1:1-100,0-2:1-120"
    assert str(found.delivered) == "0-1:1-99"
    assert str(found.unlogged) == "0-1:100"
    # The former server is named in the log: what it wrote after that was lost
    assert (
        str(mariadb_transactions("0-1-95,0-2-120", "0-2-120", GtidSet.parse("0-1-99")).executed) == "0-1:1-95,0-2:1-120"
    )


def test_servers_without_gtids_have_no_place_of_another_server(mysql_server: Starter) -> None:
    server = mysql_server(MYSQL_5)
    assert search(server).status().executed is None
    assert search(server).executed_at(*server.position()) is None
    with pytest.raises(DataLoss, match="has no GTIDs"):
        search(server).find_gtids(GtidSet.parse(f"{A}:1"))


def test_a_place_is_found_by_time(server: MySql) -> None:
    looked = search(server)
    for number, seconds in enumerate((1000, 2000, 2000, 3000)):
        server.insert(number, f"SET TIMESTAMP = {seconds}")
    events = list(looked.events(server.position()[0]))
    first = {
        time: next(event.start for event in events if event.header.kind in {33, 162} and event.header.time == time)
        for time in (1000, 2000, 3000)
    }
    for wanted, place in ((1500, first[2000]), (2000, first[2000]), (2000.5, first[3000]), (3000, first[3000])):
        found = looked.find_time(wanted)
        # Times of commits may go back where sessions set them: the first that is not older counts
        assert found.offset <= place
    end = looked.status()
    assert looked.find_time(1 << 40)[:2] == (end.file, end.offset)


def test_a_server_without_a_log_is_told_so(mysql_server: Starter) -> None:
    server = mysql_server(MARIADB_10, skip_log_bin=1)
    with pytest.raises(ConfigError, match="log"):
        search(server).status()


def test_a_server_that_can_looks_through_a_long_file_itself(
    mysql_server: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = mysql_server(MARIADB_10, server_id=2)
    server.execute("SET server_id = 1", "CREATE TABLE shop.t (id INT PRIMARY KEY)")
    server.insert(1)
    place = server.position()
    server.insert(2)
    server.insert(3, "SET gtid_domain_id = 7")
    looked = search(server).executed_at(*place)
    monkeypatch.setattr("ingest.sources.mysql.log_search._LONG", 0)
    assert looked == GtidSet.parse("0-1:1,0-2:2")
    assert search(server).executed_at(*place) == GtidSet.parse("0-1-1,0-2-2")
    before = GtidSet.parse("0-4-1")
    found = mariadb_executed("0-2-5", "0-1-3,0-2-9,0-3-7,0-4-8,7-2-4", before)
    assert str(found) == "0-1:1-3,0-2:1-5,0-4:1-5", "what server 3 wrote is behind the position"


@pytest.mark.parametrize("question", ["next_statements", "statements", "end_of", "executed_at", "gtid_at"])
def test_a_damaged_event_is_an_error_that_says_so(question: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever looks into the log reads events that no checksum was compared of."""
    log, looked = Log(checksums=False), LogSearch(MySqlServer("db", 1, USER, PASSWORD))
    log.gtid(7) if question in {"executed_at", "gtid_at"} else log.query(b"CREATE TABLE t (id INT)")
    header = read_header(log.events[-1])
    event = PlacedEvent(4, 90, header, log.events[-1][:25])
    monkeypatch.setattr(looked, "events", lambda *_: (one for one in [event]))
    monkeypatch.setattr(looked, "listing", lambda: [("f", 90)])
    monkeypatch.setattr(looked, "head", lambda _: FileHead(0, GtidSet()))
    given: tuple[Any, ...] = ("f", 4, set()) if question == "next_statements" else ("f", 4)
    if question == "executed_at":
        given = ("f", 90)
    with pytest.raises(ConfigError, match="cannot read the log at db:1: it ends after 25 bytes"):
        _ = [*getattr(looked, question)(*given)]

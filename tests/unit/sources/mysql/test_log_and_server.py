"""The log is the one that was read, whatever happens while a run is up; transactions that are given on in pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from mysql_log import SERVER_ID, Tables, changes, place_of, read_log, reader_of, server_of, tables_of
from mysql_run import KINDS, Run, caught_up, inserts, replicate, started
from mysql_servers import MARIADB_10, MYSQL_5

from ingest.errors import ConfigError, DataLoss, Unavailable
from ingest.sources.mysql import log_reader
from ingest.sources.mysql.connection import connect
from ingest.sources.mysql.replication import LogStream
from ingest.sources.mysql.state import LOG

if TYPE_CHECKING:
    from collections.abc import Callable

    from mysql_servers import Kind, MySql

    Starter = Callable[..., MySql]


# -- The same log


@pytest.mark.parametrize("rotated", [False, True])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_log_that_is_written_anew_while_a_run_is_up_is_data_loss(
    kind: Kind, rotated: bool, mysql_server: Starter
) -> None:
    """The connection was kept: the server may still send of it, or go on in the next file of the new log."""
    server = mysql_server(kind)
    server.execute("CREATE TABLE t (id INT PRIMARY KEY)", database="shop")
    run = Run(server)
    server.execute(*inserts(0, 19))
    assert run.read() == list(range(20))
    server.reset_master()
    server.execute(*inserts(1000, 1059))
    if rotated:
        server.rotate()
        server.execute("INSERT INTO t VALUES (5000)", database="shop")
    with pytest.raises(DataLoss):
        run.read()
    assert len(run.changes) == 20, "nothing was read of it"
    with pytest.raises(DataLoss):
        run.coordinator.check(run.positions)
    run.reader.close()


def test_a_log_of_which_nothing_was_read_is_known_by_its_beginning(mysql_server: Starter) -> None:
    server = mysql_server(MARIADB_10)
    server.execute("CREATE TABLE shop.t (id INT PRIMARY KEY)")
    run = Run(server)
    state = run.coordinator._log.now
    file = state.files.files[-1]
    assert file.first_time is not None
    server.insert(1)
    state.files = type(state.files)(state.files.servers, (type(file)(file.name, file.base, file.size, 0, 7),))
    with pytest.raises(DataLoss, match="begins at another time"):
        run.read()
    run.reader.close()


def swapped(one: MySql, two: MySql) -> None:
    """Let the second server have the first one's address."""
    one.kill()
    two.stop()
    two.port = one.port
    two.start()


def next_of(run: Run) -> list[int]:
    """The next batch, as the driver does it: what a task takes for lost is looked at by the driver."""
    for _ in range(3):
        try:
            if run.coordinator.ends(run.positions)[LOG] >= run.positions[LOG]:
                return run.read()
            run.positions = run.coordinator.check(run.positions)
        except (DataLoss, Unavailable):
            run.positions = run.coordinator.check(run.positions)
    raise AssertionError


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_another_server_behind_the_address_is_followed_or_refused(kind: Kind, mysql_server: Starter) -> None:
    one, two, three = (started(kind, mysql_server, number) for number in (1, 2, 3))
    one.execute("CREATE TABLE shop.t (id INT PRIMARY KEY)")
    replicate(one, two)
    caught_up(two, 0)
    run = Run(one)
    for number in range(1, 6):
        one.insert(number)
    assert run.read() == [1, 2, 3, 4, 5]
    one.insert(6)
    caught_up(two, 6)
    two.execute("STOP SLAVE", "RESET SLAVE ALL")
    swapped(one, two)
    two.insert(7)
    assert next_of(run) == [6, 7]
    assert any("found by GTIDs" in text for text in run.warnings)
    three.execute("CREATE TABLE shop.t (id INT PRIMARY KEY)")
    for number in range(10, 40):
        three.insert(number)
    swapped(two, three)
    with pytest.raises(DataLoss, match="does not have all transactions"):
        next_of(run)
    assert len(run.changes) == 7
    run.reader.close()


@pytest.mark.parametrize("kind", ["mariadb", "mysql5"])
def test_the_log_goes_to_another_worker_though_the_former_one_has_it_and_does_not_read(
    kind: str, request: pytest.FixtureRequest
) -> None:
    """More waits for the former one than sockets take, so that the server cannot end its connection by itself."""
    server: MySql = request.getfixturevalue(kind)
    server.execute("CREATE DATABASE IF NOT EXISTS held", "CREATE TABLE held.t (id INT PRIMARY KEY, b LONGTEXT)")
    start, rows = place_of(server), range(24)
    server.execute(*(f"INSERT INTO held.t VALUES ({k}, REPEAT('x', 1000000))" for k in rows))
    tables = Tables(tables_of(server, "held"))
    reader = reader_of(server, tables)
    former = LogStream(connect(server_of(server)), server_of(server), SERVER_ID)
    former.start(start.file, start.offset)
    assert former.read()
    try:
        found = [change["after"]["id"] for change in changes(read_log(server, tables, start, reader))]
    finally:
        former.close()
        reader.close()
        server.execute("DROP DATABASE held")
    assert found == [*rows]


def test_an_xid_that_is_used_again_stands_for_its_last_transaction(mariadb: MySql) -> None:
    """A worker has met the first one; another one had the log meanwhile, which met its end, and the second one."""
    mariadb.execute("CREATE DATABASE xids", "CREATE TABLE xids.t (id INT PRIMARY KEY)")
    start, tables = place_of(mariadb), Tables(tables_of(mariadb, "xids"))
    prepare = ("XA START 'x'", "INSERT INTO xids.t VALUES ({})", "XA END 'x'", "XA PREPARE 'x'")
    mariadb.execute(*(one.format(1) for one in prepare))
    reader = reader_of(mariadb, tables)
    assert read_log(mariadb, tables, start, reader) == []
    mariadb.execute("XA ROLLBACK 'x'", *(one.format(2) for one in prepare))
    start = place_of(mariadb)
    mariadb.execute("XA COMMIT 'x'")
    assert [change["after"] for change in changes(read_log(mariadb, tables, start, reader))] == [{"id": 2}]
    reader.close()
    mariadb.execute("DROP DATABASE xids")


def test_a_chunk_is_read_of_the_server_that_positions_are_of(mysql_server: Starter) -> None:
    one, two = started(MARIADB_10, mysql_server, 1), started(MARIADB_10, mysql_server, 2)
    for server in (one, two):
        server.execute("CREATE TABLE shop.t (id INT PRIMARY KEY)", "INSERT INTO shop.t VALUES (1)")
    options: dict[str, Any] = {"scan.startup.mode": "initial"}
    run = Run(one, **options)
    ends = run.coordinator.ends(run.positions)
    swapped(one, two)
    with pytest.raises(DataLoss, match="the server is server id 2, domain 0, and positions are those of server id 1"):
        run.batch({**ends, LOG: run.positions[LOG]})
    run.reader.close()


# -- Large transactions


@pytest.fixture
def _pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records of one transaction are given on after 8 KB."""
    monkeypatch.setattr(log_reader, "CHUNK_BYTES", 2000)
    monkeypatch.setattr(log_reader, "OPEN_BYTES", 8000)


@pytest.mark.usefixtures("_pieces")
def test_a_large_transaction_that_is_rolled_back_leaves_what_the_server_has(mariadb: MySql) -> None:
    """The server logs a ROLLBACK where a table without transactions was changed: nothing of `t` is written."""
    mariadb.execute(
        "CREATE DATABASE rolled", "CREATE TABLE rolled.t (id INT PRIMARY KEY, u VARCHAR(40))",
        "CREATE TABLE rolled.m (id INT PRIMARY KEY, u VARCHAR(40)) ENGINE MyISAM",
    )  # fmt: skip
    start = place_of(mariadb)
    many = "SELECT seq, UUID() FROM seq_{}_to_{}"
    mixed = (
        "SET binlog_format = 'MIXED'", "BEGIN", "INSERT INTO t " + many.format(1, 300),
        "INSERT INTO m " + many.format(1, 20), "INSERT INTO t " + many.format(301, 600),
    )  # fmt: skip
    mariadb.execute(*mixed, "ROLLBACK", database="rolled")
    mariadb.execute("INSERT INTO t VALUES (1000, '')", database="rolled")
    mariadb.execute("BEGIN", "INSERT INTO t " + many.format(2001, 2600), "COMMIT", database="rolled")
    mariadb.execute(
        "BEGIN", "INSERT INTO t " + many.format(3001, 3300), "SAVEPOINT a", "INSERT INTO m VALUES (99, '')",
        "INSERT INTO t " + many.format(3301, 3600), "ROLLBACK TO a", "COMMIT", database="rolled",
    )  # fmt: skip
    assert mariadb.execute("SELECT COUNT(*) FROM rolled.t") == [(901,)]
    want = {name: [row[0] for row in mariadb.execute(f"SELECT id FROM rolled.{name} ORDER BY 1")] for name in "tm"}
    tables = Tables(tables_of(mariadb, "rolled"))
    for native in (True, False):
        reader = reader_of(mariadb, tables, native=native)
        found: dict[str, list[int]] = {"t": [], "m": []}
        for change in changes(read_log(mariadb, tables, start, reader)):
            found[change["source"]["table"]].append(change["after"]["id"])
        reader.close()
        assert {name: sorted(ids) for name, ids in found.items()} == want


@pytest.mark.usefixtures("_pieces")
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("other", [False, True])
def test_a_run_goes_on_within_a_transaction(kind: Kind, other: bool, mysql_server: Starter) -> None:
    """On the same server from the position, on a replica that took over after as many records as were written."""
    one, two = started(kind, mysql_server, 1), started(kind, mysql_server, 2)
    one.execute("CREATE TABLE shop.t (id INT PRIMARY KEY)", "CREATE TABLE shop.filler (a VARCHAR(100))")
    replicate(one, two)
    run = Run(one)
    one.insert(0)
    assert run.read() == [0]
    state, stored = run.coordinator.state(), dict(run.positions)
    one.execute("BEGIN", *inserts(1, 599), "COMMIT")
    one.insert(1000)
    caught_up(two, 601)
    before = run.read(part=100)
    assert 100 <= len(before) < 500
    note, committed = run.note, run.committed
    run.end()
    two.execute("STOP SLAVE", "RESET SLAVE ALL")
    server = one
    if other:
        server = two
        one.kill()
    again = Run(server, state, {**stored, **committed}, note=note)
    middle = again.read(part=150)
    third = Run(server, again.coordinator.state(), {**again.positions, **again.committed}, note=again.note)
    again.reader.close()
    after = third.read()
    assert before + middle + after == [*range(1, 600), 1000]
    third.end()


@pytest.mark.usefixtures("_pieces")
def test_a_server_without_the_open_transaction_is_data_loss(mysql_server: Starter) -> None:
    one, two = started(MYSQL_5, mysql_server, 1), started(MYSQL_5, mysql_server, 2)
    one.execute("CREATE TABLE shop.t (id INT PRIMARY KEY)")
    replicate(one, two)
    run = Run(one)
    one.insert(0)
    caught_up(two, 1)
    two.execute("STOP SLAVE", "RESET SLAVE ALL")
    assert run.read() == [0]
    state, stored = run.coordinator.state(), dict(run.positions)
    one.execute("BEGIN", *inserts(1, 599), "COMMIT")
    run.read(part=100)
    note, committed = run.note, run.committed
    run.end()
    with pytest.raises(DataLoss, match="does not have all transactions that were read"):
        Run(two, state, {**stored, **committed}, note=note)
    with pytest.raises(ConfigError, match="is written in part"):
        Run(two, state, {**stored, **committed})

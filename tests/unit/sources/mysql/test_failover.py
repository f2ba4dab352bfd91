"""Another server than before: a replica that took over, one that lost the tail, one that was made of a disk's copy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from mysql_run import KINDS, Run, caught_up, replicate, started
from mysql_servers import MARIADB_10, MYSQL_5, clone

from ingest.errors import ConfigError, DataLoss
from ingest.sources.mysql.start_positions import excluded_sources, passed_over
from ingest.sources.mysql.state import LOG

if TYPE_CHECKING:
    from collections.abc import Callable

    from mysql_servers import Kind, MySql

    Starter = Callable[..., MySql]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_replica_that_took_over_is_read_from_where_the_former_server_was(kind: Kind, mysql_server: Starter) -> None:
    one, two = started(kind, mysql_server, 1), started(kind, mysql_server, 2)
    one.execute("CREATE TABLE shop.t (id INT PRIMARY KEY)")
    replicate(one, two)
    caught_up(two, 0)
    two.rotate()
    run = Run(one, None, {})
    one.insert(1)
    one.insert(2)
    assert run.read() == [1, 2]
    one.insert(3)
    one.rotate()
    one.insert(4)
    assert run.read() == [3, 4]
    one.insert(5)
    caught_up(two, 5)
    state, stored = run.end()
    one.kill()
    two.execute("STOP SLAVE")
    two.insert(6)
    other = Run(two, state, stored)
    assert any("found by GTIDs" in warning for warning in other.warnings)
    assert other.positions[LOG] > stored[LOG], "positions only grow"
    assert other.read() == [5, 6]
    two.insert(7)
    again = Run(two, *other.end())
    assert again.warnings == []
    assert again.read() == [7]
    again.end()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_statements_that_were_applied_ahead_are_met_again_on_another_server(kind: Kind, mysql_server: Starter) -> None:
    one, two = started(kind, mysql_server, 1), started(kind, mysql_server, 2)
    one.execute("CREATE TABLE shop.t (id INT PRIMARY KEY)")
    replicate(one, two)
    caught_up(two, 0)
    run = Run(one, None, {})
    one.execute(
        "ALTER TABLE shop.t ADD a INT FIRST", "ALTER TABLE shop.t ADD b INT", "INSERT INTO shop.t VALUES (1, 2, 3)",
        "INSERT INTO shop.t VALUES (4, 5, 6)",
    )  # fmt: skip
    caught_up(two, 2)
    assert run.read() == []
    assert len(run.coordinator._log.now.answers) == 2
    state, stored = run.end()
    two.execute("STOP SLAVE")
    other = Run(two, state, stored)
    assert [change["after"] for change in other.once()] == [
        {"a": 1, "id": 2, "b": 3}, {"a": 4, "id": 5, "b": 6},
    ]  # fmt: skip
    assert len(other.warnings) == 1, other.warnings
    other.end()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_replica_that_lost_the_tail_is_data_loss_with_the_gtids(kind: Kind, mysql_server: Starter) -> None:
    one, two = started(kind, mysql_server, 1), started(kind, mysql_server, 2)
    one.execute("CREATE TABLE shop.t (id INT PRIMARY KEY)")
    replicate(one, two)
    run = Run(one, None, {})
    one.insert(1)
    caught_up(two, 1)
    two.execute("STOP SLAVE")
    one.insert(2)
    one.insert(3)
    assert run.read() == [1, 2, 3]
    lost = run.coordinator._log.now.gtids
    state, stored = run.end()
    for number in (10, 11, 12, 13):  # the numbers of MariaDB's transactions go on
        two.insert(number)
    with pytest.raises(DataLoss, match="does not have all transactions that were read") as failed:
        Run(two, state, stored)
    assert lost.partition(":")[0] in failed.value.message
    assert "ingest verify FILE" in failed.value.hint
    assert "ingest backfill FILE --all" in failed.value.hint


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_an_open_batch_ends_at_what_its_tasks_have_committed(kind: Kind, mysql_server: Starter) -> None:
    one, two = started(kind, mysql_server, 1), started(kind, mysql_server, 2)
    one.execute("CREATE TABLE shop.t (id INT PRIMARY KEY)")
    replicate(one, two)
    run = Run(one, None, {})
    state, stored = run.coordinator.state(), dict(run.positions)
    for number in range(1, 6):
        one.insert(number)
    caught_up(two, 5)
    read = run.read(part=2)
    note, committed = run.note, run.committed
    run.end()
    two.execute("STOP SLAVE")
    other = Run(two, state, {**stored, **committed}, note=note)
    assert read + other.read() == [1, 2, 3, 4, 5]
    other.end()


def test_a_server_without_gtids_is_followed_by_no_other(mysql_server: Starter) -> None:
    one, two = mysql_server(MYSQL_5, server_id=1), mysql_server(MYSQL_5, server_id=2)
    run = Run(one, None, {})
    state, stored = run.end()
    with pytest.raises(DataLoss, match="has no GTIDs"):
        Run(two, state, stored)


def test_a_transaction_that_is_written_in_part_is_not_left_in_the_middle(mysql_server: Starter) -> None:
    one, two = mysql_server(MARIADB_10, server_id=1), mysql_server(MARIADB_10, server_id=2)
    state, stored = Run(one, None, {}).end()
    with pytest.raises(ConfigError, match="a transaction of server id 1, domain 0 is written in part"):
        Run(two, state, {**stored, LOG: stored[LOG] + 1})


def test_a_clone_is_no_other_server_and_another_log(mysql_server: Starter) -> None:
    one = mysql_server(MARIADB_10)
    one.execute("CREATE TABLE shop.t (id INT PRIMARY KEY)")
    run = Run(one, None, {})
    with clone(one) as two:
        one.insert(1)
        assert run.read() == [1]
        state, stored = run.end()
        two.insert(2, "SET TIMESTAMP = 1700000000")
        two.insert(3)
        with pytest.raises(DataLoss, match=r"the event that ends at|begins at another time"):
            Run(two, state, stored)


def test_a_start_by_gtids(mysql_server: Starter) -> None:
    server = started(MYSQL_5, mysql_server, 1)
    server.execute("CREATE TABLE shop.t (id INT PRIMARY KEY)")
    server.insert(1)
    done = server.execute("SELECT @@GLOBAL.gtid_executed")[0][0]
    server.insert(2)
    server.rotate()
    server.insert(3)
    by: dict[str, Any] = {"scan.startup.mode": "specific-offset", "scan.startup.specific-offset.gtid-set": done}
    run = Run(server, None, {}, **by)
    assert run.read() == [2, 3]
    run.end()


def test_transactions_of_excluded_servers_are_left_out(mysql_server: Starter) -> None:
    uuid = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
    server = started(MYSQL_5, mysql_server, 1)
    server.execute("CREATE TABLE shop.t (id INT PRIMARY KEY)")
    options: dict[str, Any] = {"gtid.source.excludes": uuid.upper()}
    run = Run(server, None, {}, **options)
    server.insert(1)
    server.insert(2, f"SET GTID_NEXT = '{uuid}:1'")
    server.insert(3)
    assert run.read() == [1, 3]
    run.end()


def test_what_is_passed_over() -> None:
    uuid = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
    assert passed_over("", None) is None
    over = passed_over(f"{uuid}:3", "0-7")
    assert over is not None
    assert (over(uuid, 3), over(uuid, 4), over("0-7", 1), over("0-1", 1)) == (True, False, True, False)
    excluded = excluded_sources(f" {uuid.upper()} , 0-7 ")
    assert excluded(uuid)
    assert excluded("0-7")
    assert not excluded("0-8")
    with pytest.raises(ValueError, match="no set of GTIDs"):
        excluded_sources("x")

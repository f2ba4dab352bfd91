"""The driver's side of the source, asked beside statements that change tables."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from examples import own_name
from mysql_log import changes
from mysql_run import Run
from mysql_tables import source_of

from ingest.errors import CheckpointError
from ingest.model.table import table_in
from ingest.sources.mysql import catalogue
from ingest.sources.mysql.state import CHUNK_BYTES, LOG, MOST_BYTES
from ingest.sources.stateful import SinkHabits, SourceState

if TYPE_CHECKING:
    from mysql_servers import MySql


@pytest.mark.parametrize("at", ["start", "taken in"])
def test_columns_are_those_of_the_place_though_a_statement_comes_between(
    at: str, mariadb: MySql, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = f"between_{at.replace(' ', '_')}"
    mariadb.execute(f"CREATE DATABASE {base}", f"CREATE TABLE {base}.t (id INT PRIMARY KEY, a INT)")
    options = source_of(mariadb, rf"{base}.\.*", **{"scan.startup.mode": "latest-offset"})
    coordinator = options.coordinator("p", lambda _: None)
    coordinator.connect()
    if at == "taken in":
        coordinator.start({}, {}, "c", None)
        mariadb.execute(f"CREATE TABLE {base}.u (id INT PRIMARY KEY, a INT)")
    table = "t" if at == "start" else "u"
    altered: list[int] = []
    ask = coordinator._log.ask

    def asked(what: str, question: Any) -> Any:
        found = ask(what, question)
        if what == "ask for the log's position" and not altered:
            mariadb.execute(f"ALTER TABLE {base}.{table} DROP COLUMN a, ADD COLUMN b INT")
            altered.append(mariadb.position()[1])
        return found

    monkeypatch.setattr(coordinator._log, "ask", asked)
    if at == "start":
        place = coordinator.start({}, {}, "c", None)[LOG]
    else:
        coordinator._take_in()
        place = next(one for one in coordinator._log.history.newest() if one.name[1] == table).position
    state = coordinator._log.now
    assert altered
    assert state.files.place(place)[1] >= altered[0]
    newest = next(one for one in coordinator._log.history.newest() if one.name[1] == table)
    assert newest.table is not None
    assert [column.name for column in newest.table.columns] == ["id", "b"]
    coordinator.close()


def rows_of(coordinator: Any, reader: Any, ranges: dict[Any, tuple[int, int]]) -> list[tuple[str, int]]:
    """Read ranges as a task does; the changes, by kind and key."""
    reader.take(coordinator.assign(ranges), coordinator.shared())
    found = [record for chunk in reader.read(ranges) if chunk is not None for record in chunk.messages]
    return [(one["op"], (one["after"] or one["before"])["id"]) for one in changes(found)]


@pytest.mark.parametrize("once", [True, False])
def test_a_row_that_was_deleted_between_two_attempts_at_its_chunk_leaves_the_sink(once: bool, mariadb: MySql) -> None:
    base = f"attempts_{once}".lower()
    mariadb.execute(f"CREATE DATABASE {base}", f"CREATE TABLE {base}.t (id INT PRIMARY KEY)")
    mariadb.execute("INSERT INTO t VALUES (1), (2)", database=base)
    options = source_of(mariadb, rf"{base}.\.*")
    coordinator, reader = options.coordinator("p", lambda _: None), options.reader("p")
    coordinator.writes(SinkHabits(keyed=True, once=once))
    coordinator.connect()
    positions = coordinator.start({}, {}, "c", None)
    ends = coordinator.ends(positions)
    chunk = {split: (at, ends[split]) for split, at in positions.items() if split != LOG and ends[split] > at}
    assert rows_of(coordinator, reader, chunk) == [("r", 1), ("r", 2)]
    mariadb.execute("DELETE FROM t WHERE id = 2", database=base)
    assert rows_of(coordinator, reader, chunk) == [("r", 1)]  # the attempt that counts
    reached = {split: end for split, (_, end) in chunk.items()}
    coordinator.learn(reader.notes(reached))
    positions |= reached
    log = {LOG: (positions[LOG], coordinator.ends(positions)[LOG])}
    # With exactly-once nobody has seen the first attempt's rows: a delete of a row that never was would be one too many
    assert rows_of(coordinator, reader, log) == ([] if once else [("d", 2)])
    reader.close()
    coordinator.close()


@pytest.fixture
def shop(mariadb: MySql) -> tuple[MySql, dict[str, Any]]:
    """A server with a table of this test's own, and the option that chooses it."""
    name = own_name("s")
    mariadb.execute(f"CREATE DATABASE {name}", f"CREATE TABLE {name}.t (id INT PRIMARY KEY, a INT)")
    return mariadb, {"tables": rf"{name}.\.*", "name": name}


def made_meanwhile(shop: Any, *statements: str, **more: Any) -> tuple[Run, list[tuple[str, dict[str, Any]]]]:
    """A run that finds tables which were made while none was up, with more of them before it reads; what it reads."""
    server, options = shop
    given = {"tables": options["tables"], **more}
    state, stored = Run(server, **given).end()
    server.execute(*statements, database=options["name"])
    run = Run(server, state, stored, **given)
    server.execute("INSERT INTO u VALUES (4, 4, 4)", "UPDATE u SET a = 9 WHERE id = 3", database=options["name"])
    return run, [(change["op"], change["after"] or change["before"]) for change in run.once()]


MEANWHILE = (
    "CREATE TABLE u (id INT NOT NULL, a INT)", "INSERT INTO u VALUES (1, 1), (2, 2)", "TRUNCATE u",
    "INSERT INTO u VALUES (1, 5), (2, 6)", "ALTER TABLE u ADD PRIMARY KEY (id)", "DELETE FROM u WHERE id = 2",
    "ALTER TABLE u ADD COLUMN b INT DEFAULT 7", "INSERT INTO u VALUES (3, 3, 3)",
)  # fmt: skip


@pytest.mark.parametrize("once", [True, False])
@pytest.mark.parametrize("keyed", [True, False])
def test_a_table_that_was_made_while_no_run_was_up_is_read_once(shop: Any, keyed: bool, once: bool) -> None:
    """By its rows, whatever the log has of it before: also statements that would stop the run elsewhere."""
    more = ("CREATE TABLE w SELECT id FROM u", "ALTER TABLE w ADD PRIMARY KEY (id)")
    run, found = made_meanwhile(shop, *MEANWHILE, *more, habits=SinkHabits(keyed=keyed, once=once))
    at_least = [row for op, row in found if op != "r"]
    assert sorted((row["id"], row["a"]) for op, row in found if op == "r" and "a" in row) == [(1, 5), (3, 9), (4, 4)]
    assert sorted(row["id"] for op, row in found if op == "r" and "a" not in row) == [1, 3]
    assert at_least == [] if once else {row["id"] for row in at_least} <= {3, 4}
    state = run.coordinator._log.now
    assert (run.warnings, run.coordinator.emptied(), run.coordinator.replaced(), state.marked) == ([], [], [], {})
    shop[0].execute("INSERT INTO u VALUES (5, 5, 5)", "ALTER TABLE w ADD COLUMN c INT", database=shop[1]["name"])
    assert [change["after"] for change in run.once()] == [{"id": 5, "a": 5, "b": 5}]
    assert state.snapshots == []
    run.end()


def test_a_table_that_is_read_by_the_log_alone_is_read_from_its_beginning_on(shop: Any) -> None:
    made = ("CREATE TABLE u (id INT PRIMARY KEY, a INT)", "ALTER TABLE u ADD COLUMN b INT", MEANWHILE[-1])
    run, found = made_meanwhile(shop, *made, **{"scan.binlog.newly-added-table.enabled": True})
    assert [(op, row["id"]) for op, row in found] == [("c", 3), ("c", 4), ("u", 3)]
    assert (run.warnings, run.coordinator.emptied(), run.coordinator._log.now.marked) == ([], [], {})
    run.end()


@pytest.mark.parametrize("keyed", [True, False])
def test_a_table_that_comes_under_a_name_unseen_is_read_once(shop: Any, keyed: bool) -> None:
    """Its rows beside its changes in the log, of which those before its rows were read are left out."""
    server, options = shop
    name = options["name"]
    server.execute("CREATE TABLE hidden (id INT PRIMARY KEY)", "INSERT INTO hidden VALUES (1), (2)", database=name)
    run = Run(server, tables=rf"{name}.u", habits=SinkHabits(keyed=keyed, once=True))
    server.execute("RENAME TABLE hidden TO u", "INSERT INTO u VALUES (3)", "DELETE FROM u WHERE id = 1", database=name)
    assert sorted((change["op"], change["after"]["id"]) for change in run.once()) == [("r", 2), ("r", 3)]
    said = f"{name}.u: RENAME TABLE of {name}.hidden to this name; the table is read beside the log"
    assert run.warnings[1:] == [said]
    run.end()


def test_a_sink_that_keeps_all_rows_says_when_a_key_changes_while_rows_are_read(shop: Any) -> None:
    server, options = shop
    name = options["name"]
    server.execute("INSERT INTO t SELECT seq, seq FROM seq_1_to_200", database=name)
    more: dict[str, Any] = {"scan.startup.mode": "initial", "scan.incremental.snapshot.chunk.size": 2}
    run = Run(server, tables=options["tables"], habits=SinkHabits(keyed=False, once=True), **more)

    def alter(batches: int) -> None:
        if batches == 0:
            server.execute("ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (a)", database=name)

    chunks = {split: end for split, end in run.coordinator.ends(run.positions).items() if split != LOG}
    run.batch({**run.positions, **chunks})
    run.once(alter)
    assert len(run.changes) > 200
    why = "its key changed while its rows were read: those that were read before come a second time"
    assert run.coordinator._log.now.marked == {f"{name}.t": why}
    assert run.warnings == [f"{name}.t: {why}"]
    run.end()


@pytest.mark.parametrize("keyed", [True, False])
def test_a_table_that_was_made_again_while_no_run_was_up(shop: Any, keyed: bool) -> None:
    server, options = shop
    name = options["name"]
    given: dict[str, Any] = {"tables": options["tables"], "habits": SinkHabits(keyed=keyed, once=True)}
    run = Run(server, **given)
    server.execute("INSERT INTO t VALUES (1, 1), (2, 2)", "DROP TABLE t", database=name)
    run.once()
    state, stored = run.end()
    server.execute("CREATE TABLE t (id INT, c INT)", "INSERT INTO t VALUES (2, 7)", database=name)
    server.execute("ALTER TABLE t ADD PRIMARY KEY (id)", database=name)
    again = Run(server, state, stored, **given)
    assert [(change["op"], change["after"]) for change in again.once()] == [("r", {"id": 2, "c": 7})]
    assert again.coordinator.emptied() == []
    assert again.coordinator.replaced() == ([table_in(name, "t")] if keyed else [])
    why = "it was made under a name that another table had"
    assert again.coordinator._log.now.marked == ({} if keyed else {f"{name}.t": why})
    assert again.warnings == [f"{name}.t: {why}" + keyed * "; it is read again"]
    again.end()


def test_a_server_that_logs_what_foreign_keys_do_from_now_on_while_statements_wait(
    shop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, options = shop
    name = options["name"]
    server.execute(
        "CREATE TABLE c (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES t (id) ON DELETE CASCADE)", database=name
    )
    state, stored = Run(server, tables=options["tables"]).end()
    server.execute("ALTER TABLE c ADD COLUMN b INT", "INSERT INTO c VALUES (1, NULL, 3)", database=name)
    known = catalogue.server
    monkeypatch.setattr(catalogue, "server", lambda connection: replace(known(connection), logs_cascades=True))
    run = Run(server, state, stored, tables=options["tables"])
    server.execute("INSERT INTO c VALUES (2, NULL, 4)", database=name)
    assert [change["after"]["b"] for change in run.once()] == [3, 4]

    def keys(run: Run) -> list[int]:
        newest = run.coordinator._log.history.newest()
        return [len(entry.table.cascades) for entry in newest if entry.name == (name, "c")]

    again = Run(server, *run.end(), tables=options["tables"])
    assert keys(again) == [0]
    server.execute("INSERT INTO c VALUES (3, NULL, 5)", database=name)
    assert [change["after"]["b"] for change in again.once()] == [5]
    again.end()


@pytest.mark.parametrize("harm", ["a document is gone", "a document is cut", "another version"])
def test_a_state_that_cannot_be_read_is_a_damaged_checkpoint(shop: Any, harm: str) -> None:
    state, _ = Run(shop[0], tables=shop[1]["tables"]).end()
    value, documents = dict(state.value), dict(state.documents)
    if harm == "another version":
        value["place"] = {"file": 3}
    elif harm == "a document is gone":
        documents.clear()
    else:
        documents = {name: {} for name in documents}
    with pytest.raises(CheckpointError, match="the checkpoint's state of the database cannot be read"):
        Run(shop[0], SourceState(value, documents), {LOG: 4}, tables=shop[1]["tables"])


def test_a_task_reads_no_more_chunks_than_a_commit_can_note(shop: Any) -> None:
    """Brokers take 4,096 bytes with an offset: all of a shard's chunks are in there, however many its lanes have."""
    shop[0].execute("INSERT INTO t SELECT seq, seq FROM seq_1_to_1400", database=shop[1]["name"])
    more: dict[str, Any] = {"scan.startup.mode": "initial", "scan.incremental.snapshot.chunk.size": 2}
    run, sizes = Run(shop[0], tables=shop[1]["tables"], **more), [0]
    found = run.once(lambda batches: sizes.append(len(msgspec.json.encode(run.note)) if batches else 0))
    assert sorted(change["after"]["id"] for change in found) == [*range(1, 1401)]
    assert CHUNK_BYTES / 2 < max(sizes) <= MOST_BYTES
    run.end()

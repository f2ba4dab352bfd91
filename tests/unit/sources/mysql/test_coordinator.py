"""The driver's side of the source, asked beside statements that change tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from mysql_log import changes
from mysql_tables import source_of

from ingest.sources.mysql.state import LOG
from ingest.sources.stateful import SinkHabits

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
    ask = coordinator._ask

    def asked(what: str, question: Any) -> Any:
        found = ask(what, question)
        if what == "ask for the log's position" and not altered:
            mariadb.execute(f"ALTER TABLE {base}.{table} DROP COLUMN a, ADD COLUMN b INT")
            altered.append(mariadb.position()[1])
        return found

    monkeypatch.setattr(coordinator, "_ask", asked)
    if at == "start":
        place = coordinator.start({}, {}, "c", None)[LOG]
    else:
        coordinator._take_in()
        place = next(one for one in coordinator._history.newest() if one.name[1] == table).position
    state = coordinator._now
    assert altered
    assert state.files.place(place)[1] >= altered[0]
    newest = next(one for one in coordinator._history.newest() if one.name[1] == table)
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
    mariadb.execute(
        f"CREATE DATABASE {base}",
        f"CREATE TABLE {base}.t (id INT PRIMARY KEY)",
    )
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

"""MariaDB's versioned tables: rows by snapshot and log are those that a query shows, without their history (H86)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from mysql_log import changes
from mysql_tables import source_of

from ingest.errors import ConfigError
from ingest.sources.stateful import SinkHabits

if TYPE_CHECKING:
    from mysql_servers import MySql

Rows = dict[str, dict[int, dict[str, Any]]]
PERIODS = "PERIOD FOR SYSTEM_TIME (s, e)) WITH SYSTEM VERSIONING"
PRECISE = (
    "(id INT PRIMARY KEY, v INT, s BIGINT UNSIGNED GENERATED ALWAYS AS ROW START, "
    f"e BIGINT UNSIGNED GENERATED ALWAYS AS ROW END, {PERIODS}"
)
TABLES = {
    "implicit": "(id INT PRIMARY KEY, v INT) WITH SYSTEM VERSIONING",
    "named": "(id INT PRIMARY KEY, v INT, s TIMESTAMP(6) GENERATED ALWAYS AS ROW START, "
             f"e TIMESTAMP(6) GENERATED ALWAYS AS ROW END, {PERIODS}",
    "unseen": "(id INT PRIMARY KEY, s TIMESTAMP(6) GENERATED ALWAYS AS ROW START INVISIBLE, "
              f"e TIMESTAMP(6) GENERATED ALWAYS AS ROW END INVISIBLE, v INT, {PERIODS}",
    "parts": "(id INT PRIMARY KEY, v INT WITHOUT SYSTEM VERSIONING, w INT) WITH SYSTEM VERSIONING",
    "late": "(id INT PRIMARY KEY, v INT)",
}  # fmt: skip
FIRST = (
    "INSERT INTO {} (id, v) VALUES (1, 1), (2, 2), (3, 3), (9, 9)", "UPDATE {} SET v = 90 WHERE id = 9",
    "DELETE FROM {} WHERE id = 9",
)  # fmt: skip
LOAD = (
    "INSERT INTO {} (id, v) VALUES (4, 4), (5, 5)", "UPDATE {} SET v = 10 WHERE id = 1", "DELETE FROM {} WHERE id = 2",
    "UPDATE {} SET id = 30 WHERE id = 3", "REPLACE INTO {} (id, v) VALUES (4, 40)", "UPDATE {} SET v = 10 WHERE id = 1",
    "INSERT INTO {} (id, v) VALUES (5, 0) ON DUPLICATE KEY UPDATE v = 50",
    "INSERT INTO {} (id, v) VALUES (6, 6)", "DELETE FROM {} WHERE id = 6", "INSERT INTO {} (id, v) VALUES (6, 66)",
    "ALTER TABLE {} ADD COLUMN x INT", "UPDATE {} SET v = v + 1 WHERE id > 4", "DELETE FROM {} WHERE id = 5",
)  # fmt: skip


def apply(rows: Rows, records: list[Any]) -> None:
    """Let rows be what they are after changes: nothing is inserted twice, and only rows that are there change."""
    for change in changes(records):
        table, op = rows.setdefault(change["source"]["table"], {}), change["op"]
        if op in "ud":
            del table[change["before"]["id"]]
        if op != "d":
            assert change["after"]["id"] not in table, change
            table[change["after"]["id"]] = change["after"]


def read(coordinator: Any, reader: Any, positions: dict[Any, int], rows: Rows) -> None:
    """Read up to where the log ends now, and all chunks, as batches of a run do."""
    for _ in range(20):
        ends = coordinator.ends(positions)
        ranges = {split: (at, ends[split]) for split, at in positions.items() if ends[split] > at}
        if not ranges:
            return
        reader.take(coordinator.assign(ranges), coordinator.shared())
        apply(rows, [one for chunk in reader.read(ranges) if chunk is not None for one in chunk.messages])
        positions |= {split: reader.position(split) for split in ranges}
        coordinator.learn(reader.notes(positions))
    raise AssertionError(positions)


@pytest.mark.parametrize("product", ["mariadb", "mariadb11"])
def test_rows_are_those_that_a_query_shows(request: pytest.FixtureRequest, product: str) -> None:
    server: MySql = request.getfixturevalue(product)
    base = "versioned"
    server.execute(f"DROP DATABASE IF EXISTS {base}", f"CREATE DATABASE {base}")
    keeps = "SET SESSION system_versioning_alter_history = KEEP"
    for name, definition in TABLES.items():
        server.execute(
            f"CREATE TABLE {name} {definition}",
            *(one.format(name) for one in FIRST), database=base,
        )  # fmt: skip
    server.execute("ALTER TABLE late ADD SYSTEM VERSIONING", database=base)
    options = source_of(server, rf"{base}.\.*")
    coordinator, reader = options.coordinator("p", lambda _: None), options.reader("p")
    coordinator.writes(SinkHabits(keyed=True, once=True))
    coordinator.connect()
    positions = dict(coordinator.start({}, {}, "c", None))
    rows: Rows = {}
    read(coordinator, reader, positions, rows)

    def judged() -> None:
        for name in TABLES:
            found = {key: row["v"] for key, row in rows.get(name, {}).items()}
            expected = server.execute(f"SELECT id, v FROM {name}", database=base)
            assert found == dict(expected), name

    judged()
    assert json.dumps(rows["named"][1]).count("2038-01-19 03:14:07.999999Z") == 1
    for name in TABLES:
        server.execute(
            keeps, *(statement.format(name) for statement in LOAD),
            database=base,
        )  # fmt: skip
    server.execute("ALTER TABLE late DROP SYSTEM VERSIONING", "UPDATE late SET v = 0", "DELETE FROM late WHERE id = 4",
                   "DELETE HISTORY FROM implicit", database=base)  # fmt: skip
    read(coordinator, reader, positions, rows)
    judged()
    reader.close()
    coordinator.close()


def test_a_table_that_is_versioned_by_transactions_is_refused(mariadb: MySql) -> None:
    """The server logs its changes as statements, whatever binlog_format is."""
    mariadb.execute("DROP DATABASE IF EXISTS precise", "CREATE DATABASE precise", f"CREATE TABLE precise.t {PRECISE}")
    options = source_of(mariadb, r"precise.\.*")
    coordinator = options.coordinator("p", lambda _: None)
    with pytest.raises(ConfigError, match=r"precise\.t is versioned by transactions") as caught:
        coordinator.start({}, {}, "c", None)
    assert "tables.exclude" in caught.value.hint
    coordinator.close()

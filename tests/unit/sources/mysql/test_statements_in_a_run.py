"""Statements that a run meets: compared with the server, asked of it, answered by a person, refused by the pipeline."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from examples import own_name
from mysql_log import Tables, place_of, read_log, reader_of, tables_of
from mysql_run import Run
from mysql_servers import MARIADB_10, MYSQL_5

from ingest.errors import ConfigError, SchemaChangeRefused
from ingest.model.table import table_in
from ingest.sources.mysql import ddl, log_history, log_model, marks, reader
from ingest.sources.mysql.ddl import may_change, new_answer
from ingest.sources.mysql.history import bare, changes_rows, may_change_tables
from ingest.sources.mysql.tokens import ServerRules
from ingest.sources.stateful import SinkHabits, SourceState

if TYPE_CHECKING:
    from collections.abc import Callable

    from mysql_servers import MySql

    from ingest.model.table import TableId

    Starter = Callable[..., MySql]


@pytest.fixture
def shop(request: pytest.FixtureRequest) -> tuple[MySql, dict[str, Any]]:
    """A server with a table of this test's own, MariaDB's where a test says nothing, and the option that chooses it."""
    server: MySql = request.getfixturevalue(getattr(request, "param", "mariadb"))
    name = own_name("s")
    server.execute(f"CREATE DATABASE {name}", f"CREATE TABLE {name}.t (id INT PRIMARY KEY, a INT)")
    return server, {"tables": rf"{name}.\.*", "name": name}


ON_BOTH = pytest.mark.parametrize("shop", ["mariadb", "mysql5"], indirect=True)


def run_of(shop: tuple[MySql, dict[str, Any]], **more: Any) -> tuple[Run, Callable[..., Any], str]:
    server, options = shop
    name = options["name"]
    run = Run(server, tables=options["tables"], **more)
    return run, lambda *found: server.execute(*found, database=name), name


def misread(monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    """Let a statement with this word be taken to make its last column unsigned."""
    apply = ddl.apply

    def applied(tables: Any, statement: str, **more: Any) -> Any:
        effect = apply(tables, statement, **more)
        for name, table in effect.tables.items():
            if word in statement and table is not None:
                last = replace(table.columns[-1], unsigned=True)
                effect.tables[name] = replace(table, columns=(*table.columns[:-1], last))
        return effect

    monkeypatch.setattr(ddl, "apply", applied)


@ON_BOTH
def test_a_misread_statement_is_mended_at_the_end_of_the_log(shop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run, execute, name = run_of(shop)
    misread(monkeypatch, "first")
    execute("ALTER TABLE t /* first */ ADD COLUMN b INT")
    run.once()
    assert len(run.warnings) == 1
    assert f"{name}.t: the server has other columns than a statement was taken to leave" in run.warnings[0]
    assert "ALTER TABLE t /* first */ ADD COLUMN b INT" in run.warnings[0]
    assert run.coordinator._log.now.applied == []
    execute("INSERT INTO t VALUES (1, 1, -1)")
    again = Run(shop[0], *run.end(), tables=shop[1]["tables"])
    assert [change["after"]["b"] for change in again.once()] == [-1]
    assert again.warnings == []
    again.end()


@ON_BOTH
def test_a_misread_statement_whose_rows_were_read_stops_the_run(shop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also by way of a later statement on the same table; until the table is read again."""
    run, execute, name = run_of(shop)
    misread(monkeypatch, "first")
    execute("ALTER TABLE t /* first */ ADD COLUMN b INT", "INSERT INTO t VALUES (1, 1, -1)")
    execute("ALTER TABLE t ADD COLUMN c INT")
    with pytest.raises(ConfigError, match=r"column 3 is b int\S* unsigned here and b int\S* there") as stopped:
        run.once()
    assert f"ingest backfill FILE --table {name}.t" in stopped.value.hint
    state, stored = run.end()
    again = Run(shop[0], state, stored, tables=shop[1]["tables"])
    with pytest.raises(ConfigError, match="statement"):
        again.coordinator.ends(again.positions)
    again.coordinator.read_again([_id(again)])
    again.once()
    assert "no row was read" in again.warnings[0]
    again.end()


def _id(run: Run) -> TableId:
    return next(entry.table_id for entry in run.coordinator._log.history.newest())


def test_tables_are_compared_only_where_the_log_stands_still(shop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run, execute, _ = run_of(shop)
    misread(monkeypatch, "first")
    execute("ALTER TABLE t /* first */ ADD COLUMN b INT")
    ask = run.coordinator._log.ask
    moved: list[Any] = []

    def asked(what: str, question: Any) -> Any:
        found = ask(what, question)
        if what == "ask for columns" and not moved and run.coordinator._log.now.applied:
            moved.append(execute("INSERT INTO t VALUES (1, 1, 1)"))
        return found

    monkeypatch.setattr(run.coordinator._log, "ask", asked)
    run.once()
    assert moved
    assert run.warnings == []
    assert len(run.coordinator._log.now.applied) == 1
    with pytest.raises(ConfigError, match="rows of the log were read"):
        run.once()
    run.end()


@ON_BOTH
def test_right_statements_are_compared_in_silence(shop: Any) -> None:
    run, execute, _ = run_of(shop)
    execute(
        "ALTER TABLE t ADD COLUMN b VARCHAR(20) CHARACTER SET latin1, ADD UNIQUE (b)",
        "INSERT INTO t VALUES (1, 1, 'x')",
        "CREATE TABLE u LIKE t", "RENAME TABLE t TO v", "CREATE TABLE w (id INT)", "DROP TABLE w",
        "ALTER TABLE v MODIFY a DECIMAL(5, 2) NOT NULL DEFAULT 1, DROP PRIMARY KEY",
    )  # fmt: skip
    run.once()
    assert run.coordinator._log.now.applied == []
    assert not [text for text in run.warnings if "than a statement" in text]
    run.end()


NOT_UNDERSTOOD = ("SET sql_mode = MSSQL", "ALTER TABLE t ADD [b c] INT NOT NULL DEFAULT 7")
"""Names in brackets, which the parser does not know."""


def test_columns_are_asked_where_no_later_statement_is_about_the_table(shop: Any) -> None:
    run, execute, _ = run_of(shop)
    execute(*NOT_UNDERSTOOD, "SET sql_mode = ''", "CREATE INDEX i ON t (a)", "CREATE VIEW looks AS SELECT * FROM t",
            "INSERT INTO t VALUES (1, 1, 1)", "TRUNCATE t", "CREATE TABLE other (id INT)")  # fmt: skip
    assert [change["after"] for change in run.once()] == [{"id": 1, "a": 1, "b c": 1}]
    run.end()


@pytest.mark.parametrize(
    "later",
    ["ALTER TABLE t ADD COLUMN d INT", "ALTER TABLE t MODIFY `b c` INT NOT NULL DEFAULT 7", "DROP TABLE t",
     "RENAME TABLE t TO u, u TO t", "SET STATEMENT max_statement_time = 9 FOR ALTER TABLE t ADD COLUMN d INT"],
)  # fmt: skip
def test_a_later_statement_stops_the_run_until_a_person_answers(shop: Any, later: str) -> None:
    run, execute, name = run_of(shop)
    execute(*NOT_UNDERSTOOD, "INSERT INTO t VALUES (1, 1, 1)", "FLUSH BINARY LOGS", later)
    with pytest.raises(ConfigError, match="is not understood") as stopped:
        run.once()
    assert "ALTER TABLE t ADD [b c] INT NOT NULL DEFAULT 7" in stopped.value.message
    assert (later if later[0] != "D" else "it is gone") in stopped.value.message
    assert f"ingest schema set FILE --table '{name}.t'" in stopped.value.hint
    state, stored = run.end()
    answer, document = new_answer(f"{name}.t", "CREATE TABLE x (id INT PRIMARY KEY, a INT, `b c` INT NOT NULL)", ())
    kept = SourceState(state.value, {**state.documents, answer: document})
    again = Run(shop[0], kept, stored, tables=shop[1]["tables"])
    assert [change["after"] for change in again.once()] == [{"id": 1, "a": 1, "b c": 1}]
    assert again.coordinator._log.now.used_answers == [answer]
    again.end()


def test_a_table_that_comes_under_a_name_unseen_is_not_asked_for_behind_a_later_statement(shop: Any) -> None:
    server, options = shop
    name = options["name"]
    server.execute("CREATE TABLE hidden (id INT PRIMARY KEY, x INT)", database=name)
    run = Run(server, tables=rf"{name}.t|{name}.u")
    server.execute(
        "RENAME TABLE hidden TO u", "INSERT INTO u VALUES (1, 2)", "ALTER TABLE u DROP COLUMN x", database=name
    )
    with pytest.raises(ConfigError, match="does not say which columns a table has"):
        run.once()
    run.end()


@pytest.mark.parametrize(
    "statement",
    ["ALTER TABLE t ADD COLUMN b INT", "ALTER TABLE t DROP COLUMN a", "ALTER TABLE t MODIFY a BIGINT", "TRUNCATE t",
     "ALTER TABLE t CHANGE a b INT", "DROP TABLE t", "RENAME TABLE t TO u", "CREATE OR REPLACE TABLE t LIKE t2",
     "ALTER TABLE t DROP PRIMARY KEY"],
)  # fmt: skip
def test_a_pipeline_that_takes_no_change_stops_before_it(shop: Any, statement: str) -> None:
    """`schema.change.behavior: exception`; rows before the statement are read, and the next run meets it again."""
    server, options = shop
    name = options["name"]
    server.execute("CREATE TABLE t2 LIKE t", database=name)
    options = {"tables": options["tables"], "habits": SinkHabits(refuses=True)}
    run = Run(server, **options)
    server.execute(
        "INSERT INTO t VALUES (1, 1)", "CREATE TABLE made (id INT PRIMARY KEY)", "INSERT INTO made VALUES (2)",
        "ALTER TABLE t ADD INDEX (a), COMMENT 'x'", statement, "INSERT INTO made VALUES (3)", database=name,
    )  # fmt: skip
    with pytest.raises(SchemaChangeRefused, match=f"table {name}.t changed") as stopped:
        run.once()
    assert statement.removesuffix(" t") in stopped.value.message
    assert [change["after"]["id"] for change in run.changes] == [1, 2]
    state, stored = run.end()
    with pytest.raises(SchemaChangeRefused):
        Run(server, state, stored, **options).once()
    options["habits"] = SinkHabits()
    again = Run(server, state, stored, **options)
    assert [change["after"]["id"] for change in again.once() if change["op"] == "c"] == [3]
    again.end()


def test_a_pipeline_that_leaves_truncate_out_marks_the_table(shop: Any) -> None:
    run, execute, name = run_of(shop, habits=SinkHabits(empties=False))
    execute("TRUNCATE t")
    run.once()
    assert run.coordinator.emptied() == []
    assert run.coordinator._log.now.marked == {f"{name}.t": "TRUNCATE TABLE"}
    run.end()


def test_a_table_that_is_altered_while_its_rows_are_read(mysql_server: Starter) -> None:
    """`--once`: the log is read as far as the chunks need it, though the statement lies behind where it was to end."""
    server = mysql_server(MARIADB_10)
    server.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, a INT)", "INSERT INTO t SELECT seq, seq FROM seq_1_to_100",
        database="shop",
    )  # fmt: skip
    for mode in ("initial", "snapshot"):
        column = f"c_{mode}"
        options: dict[str, Any] = {"scan.startup.mode": mode, "scan.incremental.snapshot.chunk.size": 5}
        run = Run(server, **options)

        def alter(batches: int, column: str = column) -> None:
            if batches in {0, 1}:
                server.execute(f"ALTER TABLE shop.t ADD COLUMN {column}{batches} INT DEFAULT {batches}")

        rows = {change["after"]["id"]: change["after"] for change in run.once(alter)}
        assert len(rows) == 100
        assert all(list(row) == list(rows[100]) for row in list(rows.values())[-20:])
        assert rows[100][f"{column}1"] == 1
        run.end()


def test_rows_are_read_right_behind_a_statement_where_the_low_mark_lies_before_it(
    mysql_server: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MySQL without GTIDs: changes of the last seconds are merged into a chunk, of the former columns, too."""
    monkeypatch.setattr(marks, "SETTLED_S", 1.5)
    monkeypatch.setattr(reader, "_AGAIN_S", 0.3)
    server = mysql_server(MYSQL_5)
    options: dict[str, Any] = {"scan.startup.mode": "initial"}
    server.execute("CREATE TABLE t (id INT PRIMARY KEY, a INT)", "INSERT INTO t VALUES (1, 1)", database="shop")
    run = Run(server, **options)
    run.once()
    server.execute("INSERT INTO t VALUES (2, 2)", "ALTER TABLE t MODIFY a VARCHAR(9)", database="shop")
    assert {change["after"]["id"]: change["after"]["a"] for change in run.once()}.items() >= {1: "1", 2: "2"}.items()
    run.end()


def test_a_migration_takes_a_few_batches(shop: Any) -> None:
    """Also with rows between its statements, and where tables are changed again, and dropped."""
    run, execute, _ = run_of(shop)
    tables = [f"m{number}" for number in range(200)]
    changed = tables[:20]
    for table in tables:
        execute(f"CREATE TABLE {table} (id INT PRIMARY KEY)")
        if table in changed:
            execute(
                f"ALTER TABLE {table} ADD COLUMN b INT, ADD INDEX (b)",
                f"INSERT INTO {table} VALUES (1, 4), (2, 3)",
                f"ALTER TABLE {table} DROP INDEX b, COMMENT 'x'",
            )
    counted: list[int] = []
    found = run.once(counted.append)
    assert counted[-1] <= 3
    assert [change["after"] for change in found] == [
        row for _ in changed for row in ({"id": 1, "b": 4}, {"id": 2, "b": 3})
    ]
    assert len(run.coordinator.new_schemas()) == 1 + len(tables) + 2 * len(changed)
    assert run.coordinator._log.now.applied == []
    assert run.warnings == []
    execute(*(f"DROP TABLE {table}" for table in changed))
    counted.clear()
    assert run.once(counted.append) == []
    assert counted[-1] <= 3
    assert len(run.coordinator._log.now.marked) == len(changed)
    state, stored = run.end()
    again = Run(shop[0], state, stored, tables=shop[1]["tables"])
    execute("INSERT INTO t VALUES (7, 7)")
    assert [change["after"]["id"] for change in again.once()] == [7]
    again.end()


def test_a_plan_does_not_grow_with_statements_and_files(shop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_history, "MOST_DOCUMENTS", 4)
    monkeypatch.setattr(log_model, "FORMER", 1)
    server, options = shop
    run, execute, name = run_of(shop)
    sizes: list[tuple[int, int]] = []
    for number in range(12):
        execute(
            "ALTER TABLE t ADD INDEX i (a)", "ALTER TABLE t DROP INDEX i", "CREATE TABLE u (id INT PRIMARY KEY)",
            "DROP TABLE u", f"CREATE DATABASE {name}_{number}", f"CREATE TABLE {name}_{number}.passing (id INT)",
            f"DROP DATABASE {name}_{number}", f"INSERT INTO t VALUES ({number}, 1)",
        )  # fmt: skip
        server.rotate()
        run.once()
        run.coordinator.emptied()
        state = run.coordinator.state()
        sizes.append((len(msgspec.json.encode(state.value)), len(msgspec.json.encode(state.documents))))
    for size, most in zip(zip(*sizes[6:], strict=True), zip(*sizes[:6], strict=True), strict=True):
        # A state may have one file more where the server said late that it has begun it: some 230 bytes
        assert max(size) <= max(most) + 300, sizes
    assert [change["after"]["id"] for change in run.changes] == [*range(12)]
    execute("ALTER TABLE t ADD COLUMN b INT", "INSERT INTO t VALUES (12, 1, 2)")
    again = Run(server, *run.end(), tables=options["tables"])
    assert [change["after"] for change in again.once()] == [{"id": 12, "a": 1, "b": 2}]
    again.end()


@pytest.mark.parametrize(
    ("statement", "waits"),
    [
        ("TRUNCATE t", True),
        ("ALTER TABLE t ADD COLUMN b INT DEFAULT 7", True),
        ("ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (a)", True),
        ("RENAME TABLE first TO last", True),
        ("CREATE OR REPLACE TABLE t (id INT PRIMARY KEY, a INT)", True),
        ("CREATE TABLE made SELECT 1 AS id", False),
        ("ALTER TABLE t MODIFY a BIGINT", True),
        ("ALTER TABLE first ADD COLUMN c INT", False),
        ("ALTER TABLE t ADD INDEX (a), COMMENT 'x'", False),
        ("CREATE TABLE made LIKE t", False),
    ],
)
def test_what_means_something_for_rows_waits_for_those_before_it(shop: Any, statement: str, waits: bool) -> None:
    run, execute, name = run_of(shop)
    execute("CREATE TABLE first (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1, 1)", statement)
    execute("INSERT INTO t VALUES (2, 2)" if "DEFAULT" not in statement else "INSERT INTO t VALUES (2, 2, 3)")
    answers: list[int] = []
    run.once(lambda _: answers.append(len(run.coordinator._log.now.answers)))
    assert answers[1] == (1 if waits else 2)
    assert [
        change["after"]["id"] for change in run.changes if change["source"]["table"] == "t" and change["op"] == "c"
    ] == [1, 2]
    emptied = "TRUNCATE" in statement or "REPLACE" in statement
    assert run.coordinator.emptied() == ([table_in(name, "t")] if emptied else [])
    run.end()


def test_a_foreign_key_is_dropped_when_the_rows_before_that_were_read(shop: Any) -> None:
    """A task notes the last change of a parent only: the first one has changed rows of the first child, too."""
    run, execute, name = run_of(shop)
    refers = "id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES t (id) ON DELETE CASCADE"
    execute("INSERT INTO t VALUES (1, 1), (2, 2)", f"CREATE TABLE c ({refers})", f"CREATE TABLE d ({refers})")
    run.once()
    execute(
        "CREATE TABLE first (id INT PRIMARY KEY)", "DELETE FROM t WHERE id = 1",
        "ALTER TABLE c DROP FOREIGN KEY c_ibfk_1", "DELETE FROM t WHERE id = 2",
    )  # fmt: skip
    run.once()
    assert sorted(text.split(":")[0] for text in run.warnings) == [f"{name}.c", f"{name}.d"]
    run.end()


def test_settings_before_a_statement_count_for_nothing(shop: Any) -> None:
    run, execute, _ = run_of(shop)
    execute("SET STATEMENT max_statement_time = 10 FOR ALTER TABLE t DROP COLUMN a", "INSERT INTO t VALUES (1)")
    assert [change["after"] for change in run.once()] == [{"id": 1}]
    run.end()
    text = b" -- x\nSET STATEMENT a = 'b FOR c', d = 1 FOR insert into t values (1); "
    assert bare(text) == b"insert into t values (1)"
    assert changes_rows(bare(text))
    assert not may_change_tables(text)
    assert may_change_tables(b"set statement a=1 for drop table t")
    assert not may_change_tables(b"SET @a = 1")


def test_an_alter_in_two_phases_counts_when_it_is_carried_out(shop: Any) -> None:
    """MariaDB has the statement twice in its log: where it begins, and where it counts."""
    run, execute, name = run_of(shop)
    start = place_of(shop[0])
    execute("SET binlog_alter_two_phase = 1", "ALTER TABLE t ADD COLUMN b INT", "INSERT INTO t VALUES (1, 2, 3)")
    assert [change["after"] for change in run.once()] == [{"id": 1, "a": 2, "b": 3}]
    run.end()
    for native in (True, False):
        tables = Tables(tables_of(shop[0], name), all_known=False)
        reader = reader_of(shop[0], tables, native=native)
        assert read_log(shop[0], tables, start, reader) == []
        assert reader.statement is not None
        tables.known.add(reader.statement.position)
        assert len(read_log(shop[0], tables, reader.place, reader)) == 1, "no other statement stops it"
        reader.close()


def test_which_later_statements_may_change_columns() -> None:
    rules = ServerRules(version=101106, mariadb=True)
    for statement, may in {
        "ALTER TABLE t ADD INDEX (a)": True,
        "CREATE INDEX i ON t (a)": False,
        "CREATE VIEW v AS SELECT * FROM t": False,
        "DROP DATABASE d": True,
        "ALTER DATABASE d CHARACTER SET latin1": False,
        "TRUNCATE t": False,
        "BEGIN": False,
        "CREATE TABLE tt (a INT)": False,
        "FANCY t": True,
        "RENAME TABLE u TO t": True,
        "ALTER TABLE t ADD 'x": True,
        "GRANT ALL ON t TO u": False,
        "CREATE OR REPLACE DATABASE d": True,
        "DROP TABLE `T`": True,
    }.items():
        assert may_change(("d", "t"), statement, sql_mode=0, server=rules) == may, statement

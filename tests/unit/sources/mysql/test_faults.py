"""What goes wrong when MySQL is read, all at once: rows and statements of many kinds, into tables that are read back.

`tests/mysql_faults.txt` names the kinds, `faults.sql` has the statements. In the end each cell is what the server says.
"""

from __future__ import annotations

import re
import time
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from mysql_servers import PASSWORD, USER
from verified import FilePipeline

from ingest.errors import ConfigError
from ingest.sinks.delta.warehouse import DeltaWarehouse
from ingest.sources.mysql import catalogue, marks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mysql_servers import MySql

STATEMENTS: Final = Path(__file__).with_name("faults.sql")


def faults(*, mariadb: bool) -> list[tuple[list[str], list[str]]]:
    """The statements of each fault before the first run, and before the second."""
    found = []
    for part in STATEMENTS.read_text(encoding="utf-8").split("\n=== ")[1:]:
        name, _, rest = part.partition("\n")
        before, after = ([one.strip() for one in text.split(";;")[:-1]] for text in rest.split("\n---\n"))
        if mariadb or "MariaDB" not in name:
            found.append((before, after))
    return found


def plain(value: Any) -> Any:
    """A value of either side in one form."""
    if value is None or isinstance(value, bool):
        return None if value is None else int(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime):
        text = value.replace(tzinfo=None).isoformat(" ")
        return text.rstrip("0") if "." in text else text
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, str) and re.match("0000-|....-00|....-..-00|2020-02-31", value):
        return None  # a date that is no day
    if isinstance(value, float):
        return float(value)
    text = str(value)
    try:
        return Decimal(text).normalize()
    except InvalidOperation:
        return text.rstrip("0").rstrip(".") if ":" in text and "." in text else text


class Shop:
    """A database of a test's own, a pipeline from it to Delta, and both sides' rows."""

    def __init__(self, server: MySql, folder: Path, database: str) -> None:
        self.server, self.folder, self.database, self.lake = server, folder, database, folder / "lake"
        server.execute(f"DROP DATABASE IF EXISTS {database}", f"CREATE DATABASE {database}")
        self.choose(r"\.*")

    def choose(self, tables: str, **more: Any) -> None:
        """Go on with other options of the source."""
        source = {
            "type": "mysql", "hostname": "127.0.0.1", "port": self.server.port, "username": USER, "password": PASSWORD,
            "tables": f"{self.database}.{tables}", "tables.exclude": rf"{self.database}._\.*",
            "scan.incremental.snapshot.chunk.size": 5, **more,
        }  # fmt: skip
        self.pipeline = FilePipeline(
            self.folder, {"type": "delta", "warehouse": str(self.lake), "sink.commit-interval": 0}, source
        )

    def execute(self, statements: Sequence[str]) -> None:
        self.server.execute(*(one.replace("{db}", self.database) for one in statements), database=self.database)

    def differences(self) -> list[str]:
        """Each table whose rows differ, with both sides."""
        out = []
        tables = self.server.execute(
            f"SHOW FULL TABLES FROM {self.database} WHERE Table_type LIKE '%TABLE%' OR Table_type LIKE 'SYSTEM%'"
        )
        for name, _ in tables:
            if not name.startswith("_"):
                theirs, ours = self.of_server(name), self.of_sink(name)
                if theirs != ours:
                    out.append(f"{name}\n  server {theirs}\n  sink   {ours}")
        return out

    def columns(self, name: str) -> dict[str, str]:
        query = (
            "SELECT COLUMN_NAME, DATA_TYPE FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
        )
        with self.server.connect() as connection, connection.cursor() as cursor:
            cursor.execute(query, (self.database, name))
            return dict(cursor.fetchall())

    def of_server(self, name: str) -> list[tuple[Any, ...]]:
        text = {"time", "year", "enum", "set", "uuid", "inet4", "inet6"}
        parts = []
        for column, kind in self.columns(name).items():
            quoted = "`" + column.replace("`", "``") + "`"
            parts.append(
                f"CAST({quoted} AS CHAR)" if kind in text else f"{quoted} * 1e0" if kind == "float" else quoted
            )
        query = f"SELECT {', '.join(parts)} FROM `{name.replace('`', '``')}`"
        return self.ordered(self.server.execute(query, database=self.database))

    def of_sink(self, name: str) -> list[tuple[Any, ...]]:
        rows = DeltaWarehouse(str(self.lake), {}).load((self.database, name)).to_pyarrow_table().to_pylist()
        columns = self.columns(name)
        return self.ordered([tuple(row.get(column) for column in columns) for row in rows])

    @staticmethod
    def ordered(rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        return sorted((tuple(map(plain, row)) for row in rows), key=repr)


@pytest.mark.parametrize("kind", ["mariadb", "mysql5"])
def test_in_the_end_the_sink_has_the_tables(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(marks, "SETTLED_S", 0.5)  # nothing is being committed
    server: MySql = request.getfixturevalue(kind)
    shop = Shop(server, tmp_path, f"faults_{kind}")
    found = faults(mariadb=server.kind.is_mariadb)
    for before, _ in found:
        shop.execute(before)
    shop.pipeline.run()
    assert "\n".join(shop.differences()) == ""
    for _, after in found:
        shop.execute(after)
    shop.pipeline.run()
    assert "\n".join(shop.differences()) == ""


def test_another_selection_goes_on(mariadb: MySql, tmp_path: Path) -> None:
    """A table that is chosen no more stays as it is; one that is chosen again lacks none of its changes."""
    shop = Shop(mariadb, tmp_path, "faults_chosen")
    shop.execute([f"CREATE TABLE {name} (k INT PRIMARY KEY, v INT)" for name in "ab"])
    shop.execute(["INSERT INTO a VALUES (1, 1)", "INSERT INTO b VALUES (1, 1), (2, 2)"])
    shop.pipeline.run()
    chosen = shop.pipeline
    shop.choose("a")
    shop.execute(["UPDATE a SET v = 2", "UPDATE b SET v = 5", "DELETE FROM b WHERE k = 2"])
    shop.pipeline.run()
    assert [text.split("\n")[0] for text in shop.differences()] == ["b"]
    shop.execute(["INSERT INTO a VALUES (3, 3)", "ALTER TABLE b ADD w INT", "INSERT INTO b VALUES (4, 4, 4)"])
    shop.pipeline.run()
    shop.pipeline = chosen
    shop.execute(["INSERT INTO b VALUES (5, 5, 5)", "CREATE TABLE c LIKE b", "INSERT INTO c VALUES (1, 1, 1)"])
    shop.pipeline.run()
    assert "\n".join(shop.differences()) == ""


@pytest.mark.parametrize("mode", ["specific-offset", "timestamp"])
def test_a_start_before_a_table_was_made_reads_its_rows_by_their_columns(
    mode: str, mariadb: MySql, tmp_path: Path
) -> None:
    shop = Shop(mariadb, tmp_path, f"faults_made_{mode[:4]}")
    start: dict[str, Any] = {"scan.startup.mode": mode}
    if mode == "timestamp":
        mariadb.rotate()
        time.sleep(1.1)  # times of the log are whole seconds
        start["scan.startup.timestamp-millis"] = int(time.time()) * 1000
    else:
        file, position = mariadb.position()
        start |= {"scan.startup.specific-offset.file": file, "scan.startup.specific-offset.pos": position}
    shop.execute(["CREATE TABLE t (k INT PRIMARY KEY, a INT, b INT)", "INSERT INTO t VALUES (1, 10, 20)",
                  "ALTER TABLE t CHANGE a b INT, CHANGE b a INT", "INSERT INTO t VALUES (2, 21, 11)",
                  "ALTER TABLE t ADD c VARCHAR(5) FIRST", "INSERT INTO t VALUES ('x', 3, 22, 12)"])  # fmt: skip
    shop.choose(r"\.*", **start)
    shop.pipeline.run()
    rows = shop.of_sink("t")
    assert [row[1:] for row in rows if row[1] in {2, 3}] == [row[1:] for row in shop.of_server("t") if row[1] in {2, 3}]


def test_a_start_before_a_statement_about_a_table_that_was_there_stops(mariadb: MySql, tmp_path: Path) -> None:
    """What its columns were before the statement, nobody says: names that are swapped would swap values."""
    shop = Shop(mariadb, tmp_path, "faults_before")
    shop.execute(["CREATE TABLE t (k INT PRIMARY KEY, a INT, b INT)", "CREATE TABLE u (k INT PRIMARY KEY)"])
    file, position = mariadb.position()
    shop.execute(["INSERT INTO t VALUES (1, 10, 20)", "ALTER TABLE t CHANGE a b INT, CHANGE b a INT"])
    shop.choose(
        r"\.*",
        **{
            "scan.startup.mode": "specific-offset", "scan.startup.specific-offset.file": file,
            "scan.startup.specific-offset.pos": position,
        },
    )  # fmt: skip
    with pytest.raises(ConfigError, match="ALTER TABLE t CHANGE a b INT"):
        shop.pipeline.run()


def test_a_table_that_a_listing_lacks_is_not_left_out(
    mariadb: MySql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As information_schema does while MariaDB renames what an ALTER has copied."""
    shop = Shop(mariadb, tmp_path, "faults_listed")
    shop.execute(["CREATE TABLE t (k INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1)"])
    real, lacked = catalogue._rows, set()

    def listed(connection: Any, query: str, parameters: tuple[Any, ...]) -> list[dict[str, Any]]:
        rows = list(real(connection, query, parameters))
        view = re.search(r"information_schema\.(TABLES|COLUMNS)", query)
        if view is None or (view[1], len(parameters)) in lacked:
            return rows
        lacked.add((view[1], len(parameters)))
        return [row for row in rows if row["TABLE_NAME"] != "t"]

    monkeypatch.setattr(catalogue, "_rows", listed)
    shop.pipeline.run()
    assert len(lacked) == 3
    assert "\n".join(shop.differences()) == ""


def test_a_table_that_the_server_cannot_open_is_not_left_out(mariadb: MySql, tmp_path: Path) -> None:
    """Information_schema has it without columns, as if it were not there."""
    shop = Shop(mariadb, tmp_path, "faults_broken")
    shop.execute(["CREATE TABLE t (k INT PRIMARY KEY) ENGINE MyISAM", "FLUSH TABLES"])
    file = mariadb.folder / "data" / "faults_broken" / "t.frm"
    whole = file.read_bytes()
    file.write_bytes(b"")
    with pytest.raises(ConfigError, match=r"cannot ask for columns at .*t\.frm"):
        shop.pipeline.run()
    file.write_bytes(whole)
    mariadb.execute("DROP DATABASE faults_broken")

"""The rows of the sandbox's shop in its MariaDB server, which go on changing until the sandbox is stopped.

It is this module as a program: `python -m ingest.sandbox.mysql_shop FOLDER RATE READY`.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ingest.errors import ConfigError, Unavailable
from ingest.sandbox import mysql, sample
from ingest.sandbox.sample import Shop
from ingest.sources.mysql.connection import connect

if TYPE_CHECKING:
    from ingest.sandbox.mysql import RunningMariaDb
    from ingest.sandbox.sample import Row, RunningSample
    from ingest.sources.mysql.connection import Connection

_NAME: Final = "mysql-shop"
_TABLES: Final = {
    "customers": "id BIGINT PRIMARY KEY, name VARCHAR(64) NOT NULL, email VARCHAR(128)",
    "products": "id BIGINT PRIMARY KEY, name VARCHAR(64) NOT NULL, price DECIMAL(10,2) NOT NULL",
    "orders": (
        "id BIGINT PRIMARY KEY, customer BIGINT NOT NULL, product BIGINT NOT NULL, quantity INT NOT NULL, "
        "status VARCHAR(16) NOT NULL, created_at DATETIME NOT NULL"
    ),
}


class TableShop(Shop):
    """The shop, whose changes are statements."""

    def __init__(self, connection: Connection, now_ms: int) -> None:
        """Make the tables where they are not there, and take over the rows that they have."""
        super().__init__(None, now_ms)
        self._connection = connection
        with connection.cursor() as cursor:
            for table, columns in _TABLES.items():
                cursor.execute(f"CREATE TABLE IF NOT EXISTS {table} ({columns})")
                cursor.execute(f"SELECT * FROM {table}")  # noqa: S608  (a name of this file)
                names = [column[0] for column in cursor.description]
                for values in cursor.fetchall():
                    row = {
                        name: str(value) if name in {"price", "created_at"} else value
                        for name, value in zip(names, values, strict=True)
                    }
                    self.tables[table][int(values[0])] = row

    def fill(self) -> None:
        """Insert the rows that are there when somebody begins to look, unless there are any."""
        if not any(self.tables.values()):
            super().fill()

    def sent(self) -> None:
        """Have nothing to wait for: each statement is committed when it returns."""

    def _changed(self, table: str, _operation: str, before: Row | None, after: Row | None) -> None:
        """Change the row in the database as it was changed here."""
        row = after or before or {}
        names = ", ".join(row)
        marks = ", ".join(["%s"] * len(row))
        statements: dict[tuple[bool, bool], tuple[str, list[Any]]] = {
            (False, True): (f"INSERT INTO {table} ({names}) VALUES ({marks})", [*row.values()]),  # noqa: S608  (as above)
            (True, True): (
                f"UPDATE {table} SET {', '.join(f'{name} = %s' for name in row)} WHERE id = %s",  # noqa: S608  (as above)
                [*row.values(), row.get("id")],
            ),
            (True, False): (f"DELETE FROM {table} WHERE id = %s", [row.get("id")]),  # noqa: S608  (as above)
        }
        statement, values = statements[before is not None, after is not None]
        with self._connection.cursor() as cursor:
            cursor.execute(statement, values)

    def _send(self, topic: str, key: bytes | None, value: bytes | None) -> None:
        """Send nothing: what topics have beside the tables is not in the database."""


def shop_of(found: RunningMariaDb) -> TableShop:
    """Return the shop in a server, with its tables and rows. Raise IngestError."""
    connection = connect(mysql.login(found, mysql.OWNER), database=mysql.DATABASE)
    shop = TableShop(connection, int(time.time() * 1000))
    shop.fill()
    return shop


def status(folder: Path) -> RunningSample | None:
    """Return the process that changes rows in the sandbox of this directory, or None."""
    return sample.status(folder, _NAME)


def up(folder: Path, found: RunningMariaDb, rate: float) -> RunningSample | None:
    """Fill the shop's tables, and start to change their rows unless a process does; None for a rate of 0.

    Raise IngestError.
    """
    there = status(folder)
    if there is None and not rate:
        shop_of(found)
        return None
    return there or sample.start(folder, _NAME, __name__, str(folder.resolve()), rate)


def down(folder: Path) -> None:
    """Stop to change rows. Raise Unavailable where that does not end."""
    sample.down(folder, _NAME)


def main(folder: str, rate: float, ready: str) -> None:
    """Fill the tables of the server in a directory, and change rows so often in a second, until a signal ends this."""
    found = mysql.status(Path(folder))
    if found is None:
        msg = f"no MariaDB server runs in {folder}"
        raise ConfigError(msg, "ingest sandbox up --mysql")
    try:
        sample.keep_changing(shop_of(found), rate, ready)
    except OSError as exc:
        msg = "the MariaDB server is away"
        raise Unavailable(msg, f"see {found.log}") from exc


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), sys.argv[3])

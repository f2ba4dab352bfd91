"""Changes of a MySQL or MariaDB server's tables, of every kind, at a rate.

What a server that is killed may lose of itself is not killed in the middle: statements on tables without transactions,
TRUNCATE and XA hold a lock for which a restart waits. All else is.
"""

from __future__ import annotations

import random
import threading
from contextlib import nullcontext, suppress
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pymysql

if TYPE_CHECKING:
    from mysql_servers import MySql


class SqlLoad(threading.Thread):
    """Changes rows at a rate until it is told to finish, whatever becomes of the server.

    `tables`: "" leaves the tables as they are, "alter" changes them and adds some, "empty" also empties and swaps them,
    for sinks that keep one row per key; "alter" has a table without a key.
    """

    def __init__(
        self, server: MySql, *, keys: int, seed: int, every_s: float, tables: str, loose: bool, calm: threading.Lock
    ) -> None:
        super().__init__(daemon=True)
        self.server, self.keys, self.every_s, self.tables = server, keys, every_s, tables
        self.loose, self.calm = loose, calm
        self.sent = self.changed = 0
        """Transactions that were committed, and rows that they changed."""
        self.failed: list[str] = []
        self._chance = random.Random(seed)
        self._numbers = seed % 100 * 1_000_000  # a hundredth of it is a price
        self._columns: list[str] = []
        self._added = self._rows = 0
        self._ended = threading.Event()

    def run(self) -> None:
        connection: pymysql.Connection[Any] | None = None
        while not self._ended.wait(self.every_s):
            try:
                if connection is None:
                    more: dict[str, Any] = {"autocommit": False, "connect_timeout": 2, "read_timeout": 60}
                    connection = self.server.connect(database="shop", **more)
                self._one(connection)
            except (pymysql.err.OperationalError, pymysql.err.InterfaceError) as exc:
                if exc.args and exc.args[0] in {1205, 1213}:  # a lock that took too long, a deadlock
                    connection.rollback()  # type: ignore[union-attr]
                    continue
                connection = None  # the server is gone
            except Exception as exc:  # noqa: BLE001  (the storm reports it)
                self.failed.append(repr(exc))
                return

    def _one(self, connection: pymysql.Connection[Any]) -> None:
        chance, kind = self._chance, self._chance.random()
        calm = self.calm if kind < 0.2 else nullcontext()
        with calm, connection.cursor() as cursor:
            self._rows = 0
            if kind < 0.05:
                self._by_xa(cursor)
                return
            for at in range(chance.choice((1, 1, 2, 5, 30))):
                if chance.random() < 0.05:
                    cursor.execute(f"SAVEPOINT s{at}")
                    self._safely(cursor)
                    cursor.execute(f"ROLLBACK TO s{at}")
                if kind < 0.2 and chance.random() < 0.5:
                    self._without_transactions(cursor)
                self._safely(cursor)
            if self.tables and chance.random() < 0.004:  # above any range, and above what is kept of one
                self._do(cursor, "UPDATE pairs SET n = n + 1000000")
            if chance.random() < 0.1:
                connection.rollback()
            else:
                connection.commit()
                self.sent, self.changed = self.sent + 1, self.changed + self._rows
        if self.tables and chance.random() < 0.03:
            with connection.cursor() as cursor:
                self._change_table(cursor)

    def _do(self, cursor: Any, sql: str, values: tuple[Any, ...] | None = None) -> None:
        self._rows += max(0, cursor.execute(sql, values))

    def _safely(self, cursor: Any) -> None:
        with suppress(pymysql.err.IntegrityError):  # a key that is there: of the transaction, the rest stays
            self._change(cursor)

    def _by_xa(self, cursor: Any) -> None:
        cursor.execute("XA START 'x'")
        try:
            self._safely(cursor)
        finally:
            cursor.execute("XA END 'x'")
            cursor.execute("XA PREPARE 'x'")
            cursor.execute(self._chance.choice(("XA COMMIT 'x'", "XA COMMIT 'x'", "XA ROLLBACK 'x'")))

    def _without_transactions(self, cursor: Any) -> None:
        """Change rows that no rollback brings back."""
        self._numbers += 1
        key = self._chance.randrange(1200)
        self._do(cursor, self._chance.choice((
            f"REPLACE INTO plain VALUES ({key}, {self._numbers})", f"DELETE FROM plain WHERE id = {key}",
            f"UPDATE plain SET n = {self._numbers} WHERE id BETWEEN {key} AND {key + 3}",
        )))  # fmt: skip

    def _change(self, cursor: Any) -> None:
        """Insert, update, delete, or change the key of rows of any table."""
        chance, key = self._chance, self._chance.randrange(self.keys)
        self._numbers += 1
        number, kind = self._numbers, chance.randrange(12)
        more = "".join(f", {column} = {number}" for column in self._columns if chance.random() < 0.5)
        if kind < 3:
            name = chance.choice((None, "", "ü'\"\\", "日本", f"x{number}"))
            self._do(
                cursor,
                f"INSERT INTO orders SET id = %s, n = %s, name = %s, price = %s, at = %s{more}"
                f" ON DUPLICATE KEY UPDATE n = VALUES(n), name = VALUES(name)",
                (key, number, name, Decimal(number) / 100, "1999-12-31 23:59:59.25"),
            )
        elif kind < 5:
            until = key + chance.randrange(4)
            self._do(cursor, f"UPDATE orders SET n = {number}{more} WHERE id BETWEEN {key} AND {until}")
        elif kind == 5:
            self._do(cursor, f"DELETE FROM orders WHERE id BETWEEN {key} AND {key + chance.randrange(3)}")
        elif kind == 6:
            self._do(cursor, f"UPDATE orders SET id = {chance.randrange(self.keys)}, n = {number} WHERE id = {key}")
        elif kind == 7:
            case = chance.choice("kK")
            self._do(cursor, f"REPLACE INTO names VALUES ('{case}{key}', {number}, 'é{number}')")
        elif kind == 8:
            self._do(cursor, f"UPDATE names SET k = 'k{chance.randrange(self.keys)}', n = {number} WHERE k = 'k{key}'")
        elif kind == 9 and self.loose:
            a, b = chance.randrange(900), chance.randrange(7)
            self._do(cursor, chance.choice((
                f"INSERT INTO loose VALUES ({a}, 'ß{b}'), ({a}, 'ß{b}')", f"DELETE FROM loose WHERE a = {a} LIMIT 1",
                f"UPDATE loose SET b = 'ß{b}' WHERE a = {a}", f"UPDATE loose SET a = NULL WHERE a = {a}",
            )))  # fmt: skip
        elif kind == 10 and self.tables:
            self._do(cursor, f"REPLACE INTO moved VALUES ({key % 1200}, {number}, 'b')")
            self._do(cursor, f"DELETE FROM moved WHERE id = {key * 7 % 1200}")
        else:
            self._do(cursor, f"REPLACE INTO pairs VALUES ({key % 50}, 'b{key // 50}', {number})")
            self._do(cursor, f"DELETE FROM pairs WHERE a = {(key + 7) % 50} AND b = 'b{key // 50}'")
            self._do(cursor, f"UPDATE pairs SET a = a + 1, n = {number} WHERE a = 3 AND b = 'b{key // 70}'")

    def _change_table(self, cursor: Any) -> None:
        """Add or drop a column of `orders`, add a table, or empty, swap or drop one."""
        self._added += 1
        kind, name = self._chance.randrange(10 if self.tables == "empty" else 7), f"later{self._added}"
        if kind < 2 and len(self._columns) < 4:
            column, place = f"c{self._added}", self._chance.choice(("", " FIRST", " AFTER id"))
            cursor.execute(f"ALTER TABLE orders ADD COLUMN {column} BIGINT{place}")
            self._columns.append(column)
        elif kind == 2 and self._columns:
            cursor.execute(f"ALTER TABLE orders DROP COLUMN {self._columns.pop(0)}")
        elif kind == 3:
            cursor.execute(self._chance.choice((
                "FLUSH LOGS", "FLUSH TABLES", "ANALYZE TABLE orders", "OPTIMIZE TABLE names",
                "CREATE OR REPLACE INDEX i ON orders (n)", "CREATE OR REPLACE VIEW seen AS SELECT id FROM orders",
                "CREATE OR REPLACE TEMPORARY TABLE orders_now SELECT * FROM orders LIMIT 5",
            )))  # fmt: skip
        elif kind == 4 and self._added < 60:
            cursor.execute(f"CREATE TABLE {name} (PRIMARY KEY (id)) SELECT id, n, 'ß' AS s FROM orders LIMIT 20")
        elif kind < 7 and self._added < 60:
            cursor.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, n BIGINT, s VARCHAR(9))")
            cursor.execute(f"INSERT INTO {name} SELECT seq, seq, 'ß' FROM seq_0_to_20")
            cursor.execute(f"UPDATE {name} SET n = -1 WHERE id < 5")
            cursor.connection.commit()
        elif kind == 7:
            with self.calm:
                cursor.execute(f"TRUNCATE TABLE {self._chance.choice(('names', 'pairs', 'plain', 'moved'))}")
        elif kind == 8:  # as gh-ost ends
            cursor.execute("DROP TABLE IF EXISTS _new, _old")
            cursor.execute("CREATE TABLE _new LIKE moved")
            cursor.execute("INSERT INTO _new SELECT * FROM moved")
            cursor.connection.commit()
            cursor.execute("RENAME TABLE moved TO _old, _new TO moved")
        elif kind == 9:
            cursor.execute("DROP TABLE IF EXISTS made")
            cursor.execute("CREATE TABLE made (id INT PRIMARY KEY, s VARCHAR(9))")
            cursor.execute(f"INSERT INTO made VALUES ({self._added}, 'x'), (0, 'y')")
            cursor.connection.commit()

    def finish(self) -> None:
        self._ended.set()
        self.join()

"""Records the logs of tests/unit/sources/mysql/recorded: what servers write for values and statements of every kind.

`PYTHONPATH=tests/support python tests/support/record_logs.py` records them once more. What the tables have in the end
is read by the servers' own client, each value as the hexadecimal digits of its text.
"""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
from typing import TYPE_CHECKING, Any, Final

from mysql_servers import MARIADB_10, MARIADB_11, MYSQL_5, PASSWORD, USER, running
from mysql_values import OF_MARIADB, TYPES
from recorded_logs import RECORDED

if TYPE_CHECKING:
    from mysql_servers import Kind, MySql

BINARIES: Final = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
CHARSETS: Final = (
    "big5", "cp850", "koi8r", "latin1", "latin2", "ascii", "ujis", "sjis", "hebrew", "tis620", "euckr", "gb2312",
    "greek", "cp1250", "gbk", "latin5", "utf8", "ucs2", "cp866", "macroman", "cp852", "utf8mb4", "cp1251", "utf16",
    "cp1256", "cp1257", "utf32", "eucjpms",
)  # fmt: skip
TEXTS: Final = ("abc ~", "äöüß€", "Привет", "漢字かな", "Ωλ", "😀a", "")


def statements(kind: Kind) -> list[list[str]]:
    """What is run: a list for each session."""
    types = {**TYPES, **(OF_MARIADB if kind.is_mariadb else {})}
    types["TEXT"] = ["REPEAT('ab', 400)", "''"]
    count = max(map(len, types.values()))
    columns = ", ".join(f"c{at} {name}" for at, name in enumerate(types))
    charsets = ", ".join(f"{name} VARCHAR(9) CHARACTER SET {name}" for name in CHARSETS)
    values = [", ".join(given[row] if row < len(given) else "NULL" for given in types.values()) for row in range(count)]
    wide = ", ".join(f"c{at} TINYINT" for at in range(300))
    all_of_them = [
        f"CREATE TABLE types (id INT PRIMARY KEY, {columns})",
        "SET sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'",
        *(f"INSERT INTO types VALUES ({at}, {row})" for at, row in enumerate(values)),
        "UPDATE types SET id = id + 100 WHERE id < 3", "DELETE FROM types WHERE id = 4",
        "SET sql_mode = ''",
        f"CREATE TABLE texts (id INT PRIMARY KEY, {charsets})",
        *(f"INSERT INTO texts VALUES ({at}{f', {text!r}' * len(CHARSETS)})" for at, text in enumerate(TEXTS)),
        f"CREATE TABLE wide (id INT PRIMARY KEY, {wide})", f"INSERT INTO wide VALUES (1{', 7' * 300})",
        "UPDATE wide SET c299 = NULL, c150 = -1",
    ]  # fmt: skip
    changes = [
        "CREATE TABLE t (id INT PRIMARY KEY, n INT, s VARCHAR(20) CHARACTER SET latin1)",
        "INSERT INTO t VALUES (1, 1, 'é'), (2, 2, NULL), (3, 3, 'x'), (4, 4, ''), (5, 5, 'y')",
        "CREATE TABLE m (id INT PRIMARY KEY, n INT) ENGINE MyISAM",
        "BEGIN", "INSERT INTO t VALUES (10, 1, 'a')", "SAVEPOINT `a b`", "INSERT INTO t VALUES (11, 1, 'lost')",
        "ROLLBACK TO `a b`", "INSERT INTO t VALUES (12, 1, 'kept')", "COMMIT",
        "BEGIN", "INSERT INTO t VALUES (13, 1, 'lost')", "INSERT INTO m VALUES (13, 1)", "ROLLBACK",
        "BEGIN", "INSERT INTO m VALUES (14, 1)", "SAVEPOINT s", "INSERT INTO m VALUES (15, 1)",
        "INSERT INTO t VALUES (15, 1, 'lost')", "ROLLBACK TO s", "INSERT INTO t VALUES (16, 1, 'kept')", "COMMIT",
        "XA START 'one', 'b', 7", "INSERT INTO t VALUES (20, 1, 'xa')", "XA END 'one', 'b', 7",
        "XA PREPARE 'one', 'b', 7", "XA COMMIT 'one', 'b', 7",
        "XA START 'two'", "INSERT INTO t VALUES (21, 1, 'lost')", "XA END 'two'", "XA PREPARE 'two'",
        "XA ROLLBACK 'two'",
        "XA START 'three'", "UPDATE t SET n = 9 WHERE id = 20", "XA END 'three'", "XA COMMIT 'three' ONE PHASE",
        "UPDATE t SET id = id + 1 WHERE id < 6 ORDER BY id DESC", "REPLACE INTO t VALUES (2, 22, 'again')",
        "DELETE FROM t WHERE id = 3",
        "ALTER TABLE t ADD COLUMN z TINYINT UNSIGNED FIRST, DROP COLUMN n",
        "INSERT INTO t VALUES (200, 30, 'z')", "UPDATE t SET z = 255 WHERE id = 4",
        "ALTER TABLE t CHANGE z y SMALLINT AFTER s, ADD COLUMN e ENUM('b', 'a') CHARACTER SET utf8mb4",
        "UPDATE t SET y = -1, e = 'a', s = 'ÿ' WHERE id = 2",
        "CREATE TABLE _new LIKE t", "INSERT INTO _new SELECT * FROM t", "RENAME TABLE t TO _old, _new TO t",
        "INSERT INTO t VALUES (300, 'n', 1, 'b')", "DROP TABLE _old",
        "CREATE TABLE gone (id INT PRIMARY KEY)", "INSERT INTO gone VALUES (1), (2)", "TRUNCATE TABLE gone",
        "INSERT INTO gone VALUES (3)",
        "CREATE TABLE picked (PRIMARY KEY (id)) SELECT id, s, 1 + 1 AS two FROM t WHERE id > 100" if kind.is_mariadb
        else "CREATE TABLE picked (id INT PRIMARY KEY, s VARCHAR(20) CHARACTER SET latin1, two INT)",
        "CREATE TABLE part (id INT PRIMARY KEY, n INT) PARTITION BY HASH (id) PARTITIONS 3",
        "INSERT INTO part VALUES (1, 1), (2, 2), (3, 3), (4, 4)", "UPDATE part SET id = id + 10, n = NULL WHERE id < 3",
        "SET binlog_row_image = 'MINIMAL'", "UPDATE part SET n = 5 WHERE id = 3", "DELETE FROM part WHERE id = 4",
        "INSERT INTO part (id) VALUES (50)", "SET binlog_row_image = 'NOBLOB'",
        "UPDATE types SET id = 1000 WHERE id = 5", "SET binlog_row_image = 'FULL'",
        'CREATE TABLE `q``u.o"te` (`a b` INT PRIMARY KEY, `c``d` VARCHAR(9))',
        "INSERT INTO `q``u.o\"te` VALUES (1, 'ü')", "SET sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'",
        'ALTER TABLE "q`u.o""te" ADD COLUMN "e f" VARCHAR(9) DEFAULT \'\\\' /* DROP */',
        "INSERT INTO \"q`u.o\"\"te\" VALUES (2, 'x', '\\')", "SET sql_mode = ''",
        "CREATE TEMPORARY TABLE tmp (id INT)", "INSERT INTO tmp VALUES (1)", "DROP TEMPORARY TABLE tmp",
        "CREATE VIEW v AS SELECT 1 AS x", "DROP VIEW v",
    ]  # fmt: skip
    return [all_of_them, changes]


def record(name: str, kind: Kind, **options: Any) -> None:
    """Record the log of a server that runs all statements, in two files."""
    folder = RECORDED / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with running(kind, **options) as server:
        server.execute("DROP DATABASE shop")
        server.reset_master()
        server.execute("CREATE DATABASE shop CHARACTER SET utf8mb4")
        first, second = statements(kind)
        server.execute("USE shop", *first)
        if kind.is_mariadb and not options:  # the second file has no checksums
            server.execute("SET GLOBAL binlog_checksum = 'NONE'")
        else:
            server.rotate()
        server.execute("USE shop", *second)
        tables = [row[0] for row in server.execute("SHOW TABLES FROM shop")]
        rows = {table: by_client(server, table) for table in tables}
        logs = server.logs()
        server.stop()  # who writes a file marks it as one that is written
        for file, _ in logs[:2]:
            data = server.log_file(file).read_bytes()
            (folder / f"{file}.gz").write_bytes(gzip.compress(data, 9, mtime=0))
    lines = [f"{json.dumps(name)}: {json.dumps(of, ensure_ascii=False)}" for name, of in rows.items()]
    (folder / "rows.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(name, sum(path.stat().st_size for path in folder.iterdir()), "bytes", [*rows])


def by_client(server: MySql, table: str) -> dict[str, Any]:
    """Names of a table's columns, and its rows as the server's client prints them."""
    found = server.execute(
        "SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = 'shop' AND table_name = "
        f"'{table}' ORDER BY ordinal_position"
    )
    quoted = {name: f"`{name.replace('`', '``')}`" for name, _ in found}
    texts = [_digits(quoted[name], kind) for name, kind in found]
    of = table.replace("`", "``")
    command = [
        "mariadb", "--no-defaults", "-h127.0.0.1", f"-P{server.port}", f"-u{USER}", f"-p{PASSWORD}", "--skip-ssl",
        "--batch", "--skip-column-names", "--default-character-set=utf8mb4", "-e",
        f"SET time_zone = '+00:00'; SELECT {', '.join(texts)} FROM shop.`{of}` ORDER BY 1",
    ]  # fmt: skip
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    kinds = [kind for _, kind in found]
    rows = [
        [None if one == "NULL" else one if kind in BINARIES else bytes.fromhex(one).decode()
         for one, kind in zip(line.split("\t"), kinds, strict=True)]
        for line in said.splitlines()
    ]  # fmt: skip
    return {"columns": [name for name, _ in found], "rows": rows}


def _digits(column: str, kind: str) -> str:
    """What to select, so that no digit and no byte is lost: binary values as they are, others as the text in UTF-8."""
    if kind in BINARIES:
        return f"HEX({column})"
    if kind in {"float", "double"}:
        column += " * 1e0"
    elif kind == "bit":
        column += " + 0"
    elif kind == "geometry":
        column = f"CONCAT(ST_SRID({column}), ';', ST_AsText({column}))"
    return f"HEX(CONVERT(CAST({column} AS CHAR) USING utf8mb4))"


def main() -> None:
    """Record all of them."""
    record("mariadb-10.11", MARIADB_10)
    record("mariadb-10.11-compressed", MARIADB_10, log_bin_compress=1, log_bin_compress_min_len=10)
    record("mariadb-11.4", MARIADB_11)
    record("mysql-5.6", MYSQL_5)


if __name__ == "__main__":
    main()

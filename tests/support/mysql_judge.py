"""Compares what `ddl.apply` says of a statement with what information_schema of a real server says after it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pymysql

from ingest.sources.mysql import catalogue, ddl

if TYPE_CHECKING:
    from mysql_servers import MySql

    from ingest.sources.mysql.effects import Effect
    from ingest.sources.mysql.types import Table

DATABASES: Final = ("d", "e", "e2")
_MODES: Final = {
    "ANSI_QUOTES": 4, "NO_BACKSLASH_ESCAPES": 0x100000, "STRICT_TRANS_TABLES": 0x200000,
    "STRICT_ALL_TABLES": 0x400000, "REAL_AS_FLOAT": 1, "ORACLE": 0x200,
}  # fmt: skip
_WHOLE: Final = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint"})
_NO_WIDTH: Final = frozenset({"year"})


def facts(table: Table) -> dict[str, Any]:
    """What of a table has to be right, by a name for each fact."""
    out: dict[str, Any] = {
        "primary key": table.primary_key,
        "unique keys": frozenset(zip(table.unique_names, table.unique_keys, strict=True)),
        "character set": table.charset,
        "row_end": table.row_end,
        "cascades": frozenset(table.cascades),
        "comment": table.comment,
    }
    for at, column in enumerate(table.columns):
        length = column.length
        if column.type in _WHOLE:  # only one width means something
            length = 1 if column.type == "tinyint" and length == 1 and not column.unsigned else None
        if column.type in _NO_WIDTH:
            length = None
        out[f"column {at}"] = (
            column.name, column.type, length, column.precision, column.scale, column.fsp, column.unsigned,
            column.charset, column.labels, column.nullable, column.generated, column.invisible, column.hidden,
            column.comment,
        )  # fmt: skip
    return out


class Judge:
    """A session on a server, with the tables as the statements so far have left them."""

    def __init__(self, server: MySql) -> None:
        self.connection = server.connect()
        self.execute("SET FOREIGN_KEY_CHECKS = 0")
        for database in DATABASES:
            self.execute(f"DROP DATABASE IF EXISTS {database}")
        self.execute("CREATE DATABASE d CHARACTER SET utf8mb4")
        self.execute("CREATE DATABASE e CHARACTER SET latin1")
        self.execute("USE d")
        self.about = catalogue.server(self.connection)
        self.databases = catalogue.databases(self.connection)
        self.tables: dict[tuple[str, str], Table] = {}

    def close(self) -> None:
        for database in DATABASES:
            self.execute(f"DROP DATABASE IF EXISTS {database}")
        self.connection.close()

    def execute(self, statement: str) -> Any:
        with self.connection.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchall()

    def runs(self, statement: str) -> Effect | None:
        """Run a statement and apply it; None where the server refuses it."""
        modes = str(self.execute("SELECT @@sql_mode")[0][0]).split(",")
        try:
            self.execute(statement)
        except pymysql.Error:
            return None
        effect = ddl.apply(
            self.tables, statement, default_database="d", sql_mode=sum(_MODES.get(mode, 0) for mode in modes),
            server=self.about, databases=self.databases,
        )  # fmt: skip
        self.tables |= {table: found for table, found in effect.tables.items() if found is not None}
        for table, found in effect.tables.items():
            if found is None:
                self.tables.pop(table, None)
        self.databases |= {name: charset for name, charset in effect.databases.items() if charset is not None}
        for name, charset in effect.databases.items():
            if charset is None:
                self.databases.pop(name, None)
        return effect

    def differs(self, effect: Effect | None = None) -> list[str]:
        """How tables differ from the server's, a line for each fact; goes on with the server's.

        With an effect: those that it names, and whether all others are there; without: all.
        """
        names = {name for name in catalogue.names(self.connection) if name[0] in DATABASES}
        looked = names if effect is None else names & effect.tables.keys()
        there = catalogue.tables(self.connection, looked, self.about)
        unknown = set() if effect is None else effect.unknown
        out = [f"not understood: {effect.doubt}"] if effect is not None and effect.doubt else []
        out += [f"{name} is only here" for name in self.tables.keys() - names]
        out += [f"{name} is only on the server" for name in names - self.tables.keys() - unknown]
        for name in sorted(there.keys() & self.tables.keys()):
            first, second = facts(self.tables[name]), facts(there[name])
            out += [
                f"{name} {fact}: {first.get(fact)} here, {second.get(fact)} on the server"
                for fact in sorted(first.keys() | second.keys())
                if first.get(fact) != second.get(fact)
            ]
        missing = names - self.tables.keys() - there.keys()
        self.tables |= there | catalogue.tables(self.connection, missing, self.about)
        for name in self.tables.keys() - names:
            del self.tables[name]
        return out

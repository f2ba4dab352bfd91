"""Rows of XA transactions: they are in the log where they were prepared, and count where they are committed.

In: the XID of a commit. Out: the place where its transaction begins, which may be in an earlier file, and the values of
its records, read over a connection of their own. While it is prepared no statement can change its tables: so they have
the columns that they have at the commit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingest.errors import DataLoss
from ingest.sources.mysql.log_model import LogPlace
from ingest.sources.mysql.log_search import LogSearch

if TYPE_CHECKING:
    from collections.abc import Callable

    from ingest.sources.mysql.cascades import Referenced
    from ingest.sources.mysql.columns import Table
    from ingest.sources.mysql.connection import MySqlServer
    from ingest.sources.mysql.log_model import LogTables, Statement
    from ingest.sources.mysql.log_reader import LogReader

_FIRST = 4
"""Where the first event of a file is."""


class TablesAt:
    """The tables as they are at one position; None: no table is read."""

    def __init__(self, tables: LogTables | None, position: int) -> None:
        """Take the history of schemas."""
        self._tables, self._position = tables, position
        self.partial = tables is not None and tables.partial

    def read(self, database: str, name: str, _position: int, /) -> tuple[int, Table] | None:
        """Return the table's entry at the one position."""
        return None if self._tables is None else self._tables.read(database, name, self._position)

    def referenced(self, database: str, name: str, _position: int, /) -> Referenced | None:
        """Return what of the table others depend on at the one position."""
        return None if self._tables is None else self._tables.referenced(database, name, self._position)

    def answered(self, _position: int) -> bool:
        """Return True: each statement was passed once already."""
        return True

    def matters(self, _statement: Statement) -> bool:
        """Return False, for the same reason."""
        return False


def find_prepared(
    server: MySqlServer, make: Callable[[LogTables], LogReader], xid: str, end: LogPlace
) -> LogPlace | None:
    """Return where the transaction begins that was prepared last by this XID before `end`; None where no log has it."""
    listing = LogSearch(server).listing()
    names = [name for name, _ in listing]
    if end.file not in names:
        return None
    for name, size in reversed(listing[: names.index(end.file) + 1]):
        reader = make(TablesAt(None, 0))
        bound = end.offset if name == end.file else size
        try:
            for _ in reader.read(LogPlace(name, _FIRST, 0), bound):
                pass
        finally:
            reader.close()
        found = [one.place for one in reader.prepared if one.xid == xid and one.place.file == name]
        if found:
            return found[-1]
    return None


def rows_of_prepared(
    server: MySqlServer,
    make: Callable[[LogTables], LogReader],
    xid: str,
    place: LogPlace | None,
    end: LogPlace,
    tables: TablesAt,
) -> list[bytes]:
    """Return the values of the records of a transaction that was prepared before `end`. Raise DataLoss.

    `place`: where it begins, if that is known. `tables`: as they are at its commit.
    """
    place = place or find_prepared(server, make, xid, end)
    if place is None:
        msg = f"the XA transaction {xid} is committed here, and was prepared in a log that is gone"
        raise DataLoss(f"{msg} ({end.file}, at {end.offset})", "run `ingest backfill FILE --all`")
    reader = make(tables)
    reader.keeps_prepared = True
    found: list[bytes] = []
    try:
        for chunk in reader.read(place, place.position + 1):
            found += [record.value() or b"" for record in chunk.messages] if chunk is not None else []
    finally:
        reader.close()
    return found

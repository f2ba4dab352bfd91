"""Transactions whose records cannot wait for their end: large ones, and XA transactions.

A transaction that is too large to be kept is passed on in pieces, once it is known how it ends. Rows of an XA
transaction are in the log where it was prepared, and count where it is committed: they are read over a connection of
their own. While it is prepared no statement can change its tables, so they have the columns that they have at the
commit.
Rules: docs/spec/mysql.md#the-log, docs/spec/mysql.md#another-server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingest.errors import DataLoss
from ingest.sources.mysql.log_decoder import CLOSED, LogDecoder
from ingest.sources.mysql.log_model import FIRST, LogPlace, LogTables, PartOfTransaction, Statement
from ingest.sources.mysql.log_search import End, LogSearch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ingest.model.record import Record
    from ingest.sources.mysql.cascades import Referenced
    from ingest.sources.mysql.events import Gtid
    from ingest.sources.mysql.log_reader import LogReader
    from ingest.sources.mysql.server import MySqlServer
    from ingest.sources.mysql.types import Table


class Pieces:
    """The transaction that is given on in pieces, and the one of which a part is left out."""

    def __init__(self, server: MySqlServer | None) -> None:
        """`server`: where the end of a transaction is looked for; None where a log comes from none, and all commit."""
        self._search = None if server is None else LogSearch(server)
        self._opened = CLOSED
        self._end: End = "commit"
        self._gtid: Gtid | None = None
        self._given = 0
        self.left_out: PartOfTransaction | None = None
        """What is left out of a transaction, because it was written before."""
        self._left_from: int | None = None
        self._left = 0

    def begin(self, left_out: PartOfTransaction | None) -> None:
        """Begin to read from the end of a transaction on."""
        self._opened = CLOSED
        self.left_out, self._left_from, self._left = left_out, None, 0

    def end_of(self, file: str, decoder: LogDecoder) -> End:
        """Return how the open transaction ends, which is all in the log. Raise IngestError."""
        if self._opened != decoder.base + decoder.opened:
            self._opened, self._given = decoder.base + decoder.opened, 0
            self._end, self._gtid = "commit", None
            if self._search is not None:
                self._end = self._search.end_of(file, decoder.opened)
                self._gtid = self._search.gtid_at(file, decoder.opened)
        return self._end

    def is_undecided(self, statement: bytes, file: str, decoder: LogDecoder) -> bool:
        """Return whether a statement is an ALTER of MariaDB in two phases that counts later, or never."""
        of_two = statement[:5].upper() == b"ALTER" and "mariadb" in decoder.description.version.lower()
        found = self._search.gtid_at(file, decoder.opened) if self._search is not None and of_two else None
        return found is not None and found.undecided

    def opens(self, gtid: Gtid, position: int) -> None:
        """Look whether a transaction, which begins at a position, is the one of which a part is left out."""
        found = self.left_out
        if found is not None and (found.source, found.number) == (gtid.source, gtid.number):
            self._left_from, self._left = position, found.records

    def rest(self, records: Sequence[Record], decoder: LogDecoder) -> Sequence[Record]:
        """Return records without those that are left out, and count those of the open transaction."""
        if decoder.opened != CLOSED and self._opened == decoder.base + decoder.opened:
            self._given += len(records)
        if not self._left or self._left_from is None:
            return records
        out: list[Record] = []
        for record in records:
            if self._left and (record.offset() or 0) >= self._left_from:
                self._left -= 1
            else:
                out.append(record)
        return out

    def given(self, decoder: LogDecoder) -> PartOfTransaction | None:
        """Return how much of the open transaction was given on; None where it has no GTID, or none is."""
        if decoder.opened == CLOSED or self._opened != decoder.base + decoder.opened:
            return None
        return None if self._gtid is None else PartOfTransaction(self._gtid.source, self._gtid.number, self._given)


class TablesAt:
    """The tables as they are at one position; None: no table is read."""

    def __init__(self, tables: LogTables | None, position: int) -> None:
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
            for _ in reader.read(LogPlace(name, FIRST, 0), bound):
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
    values: list[bytes] = []
    try:
        for chunk in reader.read(place, place.position + 1):
            values += [record.value() or b"" for record in chunk.messages] if chunk is not None else []
    finally:
        reader.close()
    return values

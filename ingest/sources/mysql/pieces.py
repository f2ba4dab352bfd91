"""Transactions that are too large to be kept until their end: they are given on in pieces, once their end is known.

In: the records of an open transaction. Out: whether they count, how many were given on, and without those that were
written while another server was read. Rules: docs/spec/mysql.md#the-log, docs/spec/mysql.md#another-server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingest.sources.mysql.log_decoder import CLOSED
from ingest.sources.mysql.log_model import PartOfTransaction
from ingest.sources.mysql.log_search import LogSearch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingest.model.record import Record
    from ingest.sources.mysql.connection import MySqlServer
    from ingest.sources.mysql.events import Gtid
    from ingest.sources.mysql.log_decoder import LogDecoder
    from ingest.sources.mysql.log_search import End


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

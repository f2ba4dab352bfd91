"""The tables that row events stand for by their ids, and the rows of those that are read.

In: table maps and row events. Out: records of the rows, at positions of their own within the event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ingest.errors import ConfigError
from ingest.sources.mysql import events
from ingest.sources.mysql.cascades import ParentWatch
from ingest.sources.mysql.events import BadEvent
from ingest.sources.mysql.row_decoder import KnownTable, check, decode, read_rows, read_table_map, table_of, unpacked
from ingest.sources.mysql.row_plan import plan_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ingest.sources.mysql.log_decoder import Event, LogDecoder
    from ingest.sources.mysql.log_model import LogTables
    from ingest.sources.mysql.native.row_image import RowPlan
    from ingest.sources.mysql.row_decoder import TableMap
    from ingest.sources.mysql.row_values import ValueReader

MAX_KNOWN: Final = 20_000
"""Ids that are known at once, at most, beside those of the open transaction."""
_ID_BYTES: Final = 6
_NO_TABLE: Final = 0xFFFFFF
"""The table of an event without rows that only ends a statement."""
_WITHOUT_TRANSACTIONS: Final = frozenset({"myisam", "aria", "memory", "heap", "csv", "archive", "mrg_myisam", "merge"})


class AnotherDefinition(ConfigError):
    """A table of the log is not as the history of schemas has it."""


class TableMaps:
    """What is known of tables by their ids in the log, until a statement may have changed them."""

    def __init__(self, tables: LogTables, decoder: LogDecoder, values: ValueReader, *, native: bool) -> None:
        """Take the history of schemas, what the records go to, and whether native code is there."""
        self._tables, self._decoder = tables, decoder
        self.values, self.native = values, native
        self._known: dict[int, KnownTable | None] = {}
        """By the ids of tables in the log."""
        self._read: dict[bytes, tuple[TableMap, KnownTable | None, RowPlan | bytes | None, ParentWatch | None]] = {}
        """What table maps say, by their bodies without the id, of which a table may get a new one at any moment."""
        self.used: set[int] = set()
        """The entries of the history that tables had since `begin`."""
        self.parents: dict[tuple[str, str, str | None], int] = {}
        """Changes of rows that others refer to by foreign keys since `begin`, as `ParentWatch` notes them."""
        self.nested = False
        """True within a compressed transaction, whose rows get their positions at its end."""

    def begin(self) -> None:
        """Forget which entries were used, but for tables that native code goes on with by itself."""
        self.used = {known.id for known in self._known.values() if known is not None}
        self.parents.clear()

    def trim(self) -> None:
        """Forget all of them where they are many: servers give a table another id each time that they open it."""
        if max(len(self._known), self._decoder.known) > MAX_KNOWN:
            self.forget()

    def forget(self) -> None:
        """Forget all of them."""
        self._known.clear()
        self._read.clear()
        self._decoder.forget()

    def learn(self, event: Event, file: str) -> None:
        """Take a table map. Raise BadEvent, or ConfigError where it is not the table that the history has."""
        body = event.data[events.HEADER_BYTES :]
        table = table_of(event.data, events.TABLE_MAP, self._decoder.description)
        made = self._read.get(body[_ID_BYTES:])
        found = read_table_map(event.data, self._decoder.description) if made is None else made[0]
        entry = self._tables.read(found.database, found.name, self._decoder.base + event.start)
        if made is None or (entry and entry[0]) != (made[1] and made[1].id):
            known = None if entry is None else KnownTable(entry[0], entry[1], found)
            if known is not None and (why := check(known)):
                msg = f"table {found.database}.{found.name} {why} ({file}, before {self._decoder.offset})"
                hint = (
                    "give its columns with `ingest schema set FILE --table T 'CREATE TABLE …'`, or pass over it with "
                    "`ingest backfill FILE --all`"
                )
                raise AnotherDefinition(msg, hint)
            plan = None if not self.native else body if known is None else plan_of(known, body, self.values)
            of = self._tables.referenced(found.database, found.name, self._decoder.base + event.start)
            watch = None if of is None else ParentWatch(found, of, self.values, self.parents, native=self.native)
            made = self._read[body[_ID_BYTES:]] = found, known, plan, watch
        self._known[table] = made[1]
        if made[1] is not None:
            self.used.add(made[1].id)
        self._decoder.learn(table, made[2], made[3])

    def rows(self, event: Event) -> None:
        """Add the records of a row event. Raise BadEvent."""
        decoder, kind, data = self._decoder, event.header.kind, event.data
        table = table_of(data, kind, decoder.description)
        known, watch = self._lookup(table), decoder.watched.get(table)
        if watch is not None and not decoder.skipped:
            plain, body = unpacked(data, kind, decoder.description)
            watch.look(body, plain, decoder.base + event.start, decoder.description)
        if known is None or decoder.unheld or decoder.skipped:
            return
        if not event.filed:
            msg = "rows that are in no file"
            raise BadEvent(msg)
        before, position = len(decoder.records), decoder.base + event.start
        kind, data = unpacked(data, kind, decoder.description)
        if not decoder.rows_of(data, position):
            rows = read_rows(data, kind, decoder.description)
            for value in decode(known, rows, self.values, partial=self._tables.partial):
                decoder.records.add(value, position, event.header.time * 1000)
        if not self.nested:
            decoder.records.place(before, position, event.end - event.start)

    def _lookup(self, table: int) -> KnownTable | None:
        """Return the table of rows; None if it is not read. Raise BadEvent where no table map was before them."""
        if table in self._known or table == _NO_TABLE:
            return self._known.get(table)
        plan = self._decoder.plan(table)  # native code knows a table by its map, whatever its id
        if plan is None:
            msg = f"rows of the table {table}, of which no table map came"
            raise BadEvent(msg)
        return None if isinstance(plan, bytes) else plan.known

    def without_transactions(self, ids: Iterable[int]) -> set[int]:
        """Return those entries of the history that are tables without transactions."""
        by_id = {known.id: known.table.engine.lower() for _, known, *_ in self._read.values() if known is not None}
        return {one for one in ids if by_id.get(one) in _WITHOUT_TRANSACTIONS}

"""Reads a server's log: from a transaction's end to the end of the transaction in which a bound lies.

In: a place, a bound, the history of schemas. Out: chunks of records with positions of their own, and what was met:
statements, ends of transactions with their GTIDs, files. docs/spec/mysql.md#the-log has the rules.
"""

from __future__ import annotations

import re
import zlib
from typing import TYPE_CHECKING, Final

from ingest.errors import ConfigError, DataLoss, Unavailable
from ingest.model.record import offset_of
from ingest.sources.mysql import events
from ingest.sources.mysql.connection import NumberTaken, connect
from ingest.sources.mysql.events import BadEvent, Query
from ingest.sources.mysql.history import bare, changes_rows
from ingest.sources.mysql.log_decoder import CLOSED, Event, GtidRun
from ingest.sources.mysql.log_model import (
    FIRST,
    KnownFile,
    LogChunk,
    LogFile,
    LogPlace,
    Prepared,
    Statement,
    compare_first,
    compare_last,
)
from ingest.sources.mysql.log_records import entry_of, spread
from ingest.sources.mysql.replication import HEARTBEAT_S, LogStream, check_packet
from ingest.sources.mysql.row_values import ValueReader
from ingest.sources.mysql.table_maps import NATIVE, TableMaps, make_decoder
from ingest.sources.mysql.transactions import Pieces, TablesAt, rows_of_prepared

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Mapping, Sequence

    from ingest.sources.mysql.log_model import LogTables, PartOfTransaction
    from ingest.sources.mysql.server import MySqlServer

CHUNK_BYTES: Final = 1 << 20
"""Bytes of records after which a chunk is given on."""
OPEN_BYTES: Final = 16 << 20
"""Bytes of records of one transaction that are kept until its end is seen."""
HELD_BYTES: Final = 512 << 20
"""The same for one with savepoints or XA, of which nothing may be given on before its end."""
MAX_PREPARED: Final = 10_000
"""XA transactions whose places are remembered; others are looked for when they are committed."""
_LOOKS: Final = 10  # that find no bytes, a second together: then a connection of a former `read` is made again


class LogReader:
    """Reads the log of one server; `read` may be called again and again. The connection is kept between calls."""

    def __init__(
        self,
        server: MySqlServer,
        server_id: int,
        tables: LogTables,
        *,
        heartbeat_s: float = HEARTBEAT_S,
        tinyint1_as_boolean: bool = False,
        metadata: bool = False,
        native: bool = True,
        open_stream: Callable[[], LogStream] | None = None,
    ) -> None:
        """`server_id`: the id by which the server knows this reader among its replicas.

        `metadata`: native code is asked for records' positions and times, beside their values. `native`: False for the
        reference. `open_stream`: what the log comes from, where that is no server.
        """
        self._server, self._server_id, self._tables, self._heartbeat_s = server, server_id, tables, heartbeat_s
        self._open_stream = open_stream or self._connect
        self._open_other = open_stream
        self._commits = True
        """True if rows of an XA transaction are looked for where it is committed."""
        self.keeps_prepared = False
        """True if rows of an XA transaction count where it is prepared."""
        self._prepared: dict[str, LogPlace] = {}
        self._before_xa: dict[tuple[str, str, str | None], int] = {}
        """What was noted of rows that others refer to before the XA transaction that was begun last."""
        self._of_prepared: dict[tuple[str, str, str | None], int] = {}
        """Of the XA transaction that is committed: changes of rows that others refer to."""
        self._began: int | None
        self._sure: int | None
        self._stream: LogStream | None = None
        self._kept = False
        """True if the connection was made for an earlier `read`."""
        self.pieces = Pieces(server if open_stream is None else None)
        native = native and NATIVE
        self._decoder = make_decoder((CHUNK_BYTES, OPEN_BYTES, HELD_BYTES), native=native, metadata=metadata)
        values = ValueReader(tinyint1_as_boolean=tinyint1_as_boolean)
        self.maps = TableMaps(tables, self._decoder, values, native=native)
        self._file = ""
        self._bases: Mapping[str, int] = {}
        self.files: list[LogFile] = []
        """The files that were entered in the last `read`."""
        self.statement: Statement | None = None
        """The statement that ended the last `read`, which stands before it."""
        self.prepared: list[Prepared] = []
        """The XA transactions that were prepared in the last `read`."""

    @property
    def place(self) -> LogPlace:
        """The end of the last transaction that was read to its end."""
        decoder = self._decoder
        # The first event of a file is its description, which is compared by its time
        last = decoder.last if decoder.ended > decoder.last > FIRST else None
        return LogPlace(self._file, decoder.ended, decoder.base, last, decoder.last_crc)

    @property
    def time(self) -> int:
        """When the event was logged that was read last, in seconds since 1970; 0 before the first one."""
        return self._decoder.time

    @property
    def gtids(self) -> Sequence[GtidRun]:
        """The transactions that ended since `read` was called, as runs of numbers, in the order of the log."""
        return self._decoder.runs

    @property
    def invalid(self) -> Mapping[str, int]:
        """For each column (`database.table.column`): the texts of this `read` with bytes that are no characters."""
        return self.maps.values.invalid

    def read(
        self,
        start: LogPlace,
        bound: int,
        after: int = 0,
        *,
        bases: Mapping[str, int] | None = None,
        excluded: Callable[[str, int], bool] | None = None,
        began: int | None = None,
        left_out: PartOfTransaction | None = None,
    ) -> Generator[LogChunk | None]:
        """Yield chunks up to the end of the transaction in which `bound` lies; None where nothing came for a moment.

        Records at positions below `after` are left out. `bases`: the bases of files that are known; the base of another
        is where the file before it ends. `excluded`: asked of each GTID (source and number of `GtidRun`) whether its
        transaction is passed over. `began`: the time of the first event of the file of `start`, which is compared when
        a connection begins, as the event before `start` is. `left_out`: records that are left out. It ends early at a
        statement that the history does not know yet. Raise IngestError.
        """
        self._excluded, self._decoder.asks = excluded, excluded is not None or left_out is not None
        self.pieces.begin(left_out)
        self._after, self._bases = after, bases or {}
        self.files, self.statement, self.prepared = [], None, []
        self.maps.values.invalid.clear()
        self.maps.begin()
        self._decoder.begin_runs()
        self._decoder.bound = bound
        self._began, self._kept, self._idle, self._sure = None, True, 0, None
        if moved := self.place.position != start.position:
            self._prepared.clear()  # another reader had the log meanwhile: an XID may be of a later transaction now
        if self._stream is None or moved or self._decoder.opened != CLOSED:
            self._start(start, began)
        self.maps.trim()
        try:
            yield from self._read(bound)
        except BadEvent as exc:
            self.close()
            if self._check is not None:  # no event begins where one was read before
                compare_last(f"{self._file}:{self._check.offset}", 0, None)
            where = f"{self._file}, at {self._decoder.offset}"
            msg = f"the log of {self._server.name} cannot be read ({where}): {exc}"
            hint = "see docs/mysql.md for what can be read; `ingest backfill FILE --all` reads tables again"
            raise ConfigError(msg, hint) from exc
        except (GeneratorExit, Unavailable, ConfigError, DataLoss):
            self.close()
            raise

    def close(self) -> None:
        """Close the connection."""
        if self._stream is not None:
            self._stream.close()
        self._stream = None

    def _start(self, start: LogPlace, began: int | None = None) -> None:
        """Ask for the log from a place on, in a file whose first event is of a known time perhaps."""
        self.close()
        self._began, self._kept = began, False
        self.pieces.begin(self.pieces.left_out)
        offset = start.offset if start.last is None else start.last
        self._check = start if start.last is not None else None
        # The protocol has room for 32 bits: what is beyond is read from the file's first event on
        asked = offset if offset < 1 << 32 else FIRST
        self._wanted = start.offset
        self._file = start.file
        self._stream = self._open_stream()
        self._decoder.reset(start.base, asked)
        self.maps.forget()
        self._stream.start(start.file, asked)

    def _connect(self) -> LogStream:
        return LogStream(connect(self._server), self._server, self._server_id, self._heartbeat_s)

    def _read(self, bound: int) -> Generator[LogChunk | None]:
        decoder, records = self._decoder, self._decoder.records
        while not self._reached(bound):
            packet = decoder.next()
            if packet is not None:
                self._packet(packet)
                if self.statement is not None:
                    yield from self._take(len(records) if decoder.given else records.ended)
                    return
                if records.size < CHUNK_BYTES:
                    continue
            if records.ended:
                if decoder.opened == CLOSED:
                    self.maps.trim()
                yield from self._take(records.ended)
            elif records.size >= (HELD_BYTES if decoder.held else OPEN_BYTES):
                yield from self._overflow()
            elif packet is None and not self._reached(bound) and self._stream is not None:
                data = self._stream.read()
                if data is not None:
                    decoder.feed(data)
                    continue
                self._idle += 1
                if self._kept and self._idle == _LOOKS and decoder.opened == CLOSED:
                    # The log was longer than this when the range was planned: it may be another one by now
                    self._start(self.place)
                yield None
        yield from self._take(records.ended)

    def _reached(self, bound: int) -> bool:
        """Tell whether the transaction in which the bound lies was read to its end."""
        decoder = self._decoder
        ended = decoder.base + decoder.ended
        return decoder.opened == CLOSED and ended >= bound and decoder.offset >= self._wanted

    def _overflow(self) -> Generator[LogChunk]:
        """Make room where the open transaction is too large to be kept."""
        records = self._decoder.records
        if self._decoder.held:
            records.drop(0)
            self._decoder.unheld = True
            return
        end = self.pieces.end_of(self._file, self._decoder)
        if end == "commit":
            self._decoder.given = True
        elif end == "parts":  # which ones, only its end says
            self._decoder.held = True
            return
        else:
            self._undo(0, all_of_it=end == "crash")
        yield from self._take(len(records))

    def _take(self, count: int) -> Generator[LogChunk]:
        """Yield the first records, but those below where this reading begins."""
        if not count:
            return
        taken = self._decoder.records.take(count)
        last = offset_of(taken[-1])
        transactions, position = self._decoder.numbered(offset_of(taken[0]), last), last + 1
        records = self.pieces.rest(taken, self._decoder)
        if records and offset_of(records[0]) < self._after:
            records = [record for record in records if offset_of(record) >= self._after]
        self._after = max(self._after, position)
        if records:
            yield LogChunk(records, position, self.pieces.given(self._decoder), transactions)

    def _packet(self, packet: bytes) -> None:
        try:
            data = check_packet(packet, self._server)
        except (NumberTaken, Unavailable):
            if not self._kept:
                raise
            self._start(self.place)  # another worker of this run had the log meanwhile, or it ended: RESET MASTER
            return
        except ConfigError as exc:
            if self._check is None or "max_allowed_packet" not in exc.message:
                raise
            # It was read before: no event has such a size there
            compare_last(f"{self._file}:{self._check.offset}", 0, None)
        event = self._decoder.event(data)
        if self._check is not None and event.filed and event.header.kind != events.FORMAT_DESCRIPTION:
            self._compare(event)
            return
        if event.filed and event.end <= self._wanted and event.header.kind != events.FORMAT_DESCRIPTION:
            return
        self._event(event)
        self._decoder.plain = self._check is None and self._decoder.offset >= self._wanted

    def _compare(self, event: Event) -> None:
        """Compare the event that ends where reading begins with what it was."""
        if self._check is not None and event.start < (self._check.last or 0):
            return  # the file is read from its first event on
        wanted, self._check = self._check, None
        if wanted is not None:
            data = event.data if event.end == wanted.offset else None
            compare_last(f"{self._file}:{wanted.offset}", wanted.last_crc, data)
        self._decoder.enter(self._decoder.base, event.end)
        self._decoder.last, self._decoder.last_crc = event.start, zlib.crc32(event.data)

    def _event(self, event: Event) -> None:
        kind = event.header.kind
        if kind in events.ROWS:
            self.maps.rows(event)
        elif kind == events.TABLE_MAP:
            self.maps.learn(event, self._file)
        elif kind in {events.QUERY, events.QUERY_COMPRESSED, events.EXECUTE_LOAD_QUERY}:
            self._query(event, events.read_query(event.data, kind, self._decoder.description))
        elif kind == events.XID:
            self._end(event)
        elif kind in {events.GTID, events.ANONYMOUS_GTID, events.GTID_TAGGED, events.MARIADB_GTID}:
            self._gtid(event)
        elif kind == events.ROTATE:
            self._rotate(*events.read_rotate(event.data), filed=event.filed)
        elif kind == events.FORMAT_DESCRIPTION:
            self._describe(event)
        elif kind == events.TRANSACTION_PAYLOAD:
            self._payload(event, events.unpack_payload(events.read_payload(event.data)))
        elif kind == events.XA_PREPARE:
            self._xa_prepare(event)
        else:
            self._others(event)

    def _others(self, event: Event) -> None:
        """Pass over what changes no row, and stop at everything else."""
        kind = event.header.kind
        if kind in events.SKIPPED | events.STATEMENT_DATA | {events.HEARTBEAT, events.HEARTBEAT_V2}:
            # A statement's text belongs to the rows behind it: reading does not go on between the two
            if event.filed and self._decoder.opened == CLOSED and kind not in {events.ROWS_QUERY, events.ANNOTATE_ROWS}:
                self._decoder.pass_over(event)
            return
        if kind == events.INCIDENT:
            msg = f"{self._server.name} says that its log lacks changes: an incident ({self._file}, at {event.start})"
            raise DataLoss(msg, "see the server's error log; run `ingest backfill FILE --all`, then `ingest verify`")
        if not event.header.flags & events.IGNORABLE_FLAG:
            raise BadEvent(f"an event of the kind {kind}, which is not known and may have rows")

    def _describe(self, event: Event) -> None:
        """Enter a file, whose first event this is. What a crash of the server left open is no transaction."""
        decoder = self._decoder
        header, version = event.header, decoder.description.version
        self.maps.forget()
        if event.filed:
            if decoder.opened != CLOSED:
                self._drop_all()
            decoder.ended = decoder.last = event.end
        compare_first(KnownFile(self._file, decoder.base, 0, first_time=self._began), header.time)
        self._began = None
        if not self.files or self.files[-1].name != self._file:
            self.files.append(LogFile(self._file, decoder.base, header.server_id, header.time, version))

    def _rotate(self, file: str, offset: int, *, filed: bool) -> None:
        """Go on in the next file, which an event in the file names, or where it lacks that, one made for readers.

        A file lacks it after a crash. But it also may be that the server goes on in another log than the file was of.
        """
        if file == self._file:
            return
        decoder = self._decoder
        place = self.place
        if not filed and self._sure != place.position and self._open_other is None:
            self._sure = place.position
            self._start(place)
            return
        if decoder.opened != CLOSED:
            self._drop_all()
        base = self._bases.get(file)
        self._file = file
        self._wanted = 0
        decoder.enter(decoder.base + decoder.offset if base is None else base, offset)
        self.maps.forget()

    def _payload(self, event: Event, inner: Sequence[bytes]) -> None:
        """Handle the events of a compressed transaction, which have no places of their own."""
        decoder = self._decoder
        before = len(decoder.records)
        self.maps.nested = True
        for data in inner:
            self._event(Event(events.read_header(data), data, event.start, event.end))
        self.maps.nested = False
        decoder.records.place(before, decoder.base + event.start, event.end - event.start)
        if decoder.opened == CLOSED:
            decoder.records.end()
            decoder.pass_over(event)

    def _gtid(self, event: Event) -> None:
        gtid = events.read_gtid(event.data, event.header.server_id, event.header.kind)
        # MariaDB's is the beginning of a transaction, MySQL's is followed by one
        begun = event.header.kind == events.MARIADB_GTID and gtid is not None and not gtid.standalone
        self._decoder.begin_at(event.start, gtid, begun)
        if gtid is not None:
            self.pieces.opens(gtid, self._decoder.base + event.start)
            excluded = self._excluded is not None and self._excluded(gtid.source, gtid.number)
            self._decoder.skipped = excluded or gtid.undecided

    def _end(self, event: Event) -> None:
        """End a transaction that counts."""
        if self._decoder.unheld:
            raise BadEvent("a transaction with savepoints or XA that is larger than is kept")
        self._decoder.end_with(event)

    def _rolled_back(self, event: Event) -> None:
        """End a transaction that was rolled back: what stays are changes of tables that have no transactions."""
        self._undo(0)
        self._decoder.end_with(event)

    def _drop_all(self) -> None:
        """Forget the open transaction."""
        self._undo(0, all_of_it=True)
        self._decoder.abandon()

    def _undo(self, start: int, *, all_of_it: bool = False) -> None:
        """Drop records of the open transaction from one on, but those of tables without transactions."""
        records = self._decoder.records
        if self._decoder.given:
            msg = (
                f"the transaction at {self._decoder.opened} of {self._file} was rolled back after {OPEN_BYTES} bytes "
                "of its rows, which were given on already"
            )
            raise DataLoss(msg, "run `ingest backfill FILE --all`")
        start = max(start, records.ended)
        kept: Collection[int] = ()
        if not all_of_it:
            kept = self.maps.without_transactions(entry_of(record.data) for record in records.since(start))
        records.drop(start, kept)

    def _query(self, event: Event, query: Query) -> None:
        """Handle a statement: of transactions, or any other."""
        text = bare(query.text)
        verb = text[:40].upper()
        if verb in {b"BEGIN", b"START TRANSACTION"}:
            self._decoder.begin_at(event.start, None, True)
        elif verb == b"COMMIT":
            self._end(event)
        elif verb in {b"ROLLBACK", b"ROLLBACK WORK"}:
            self._rolled_back(event)
        elif verb.startswith(b"SAVEPOINT "):
            self._decoder.held = not self._decoder.given
            self._decoder.savepoints[text[10:].strip()] = len(self._decoder.records)
        elif verb.startswith(b"ROLLBACK TO "):
            name = re.sub(rb"(?i)^ROLLBACK\s+TO\s+(?:SAVEPOINT\s+)?", b"", text).strip()
            if name not in self._decoder.savepoints or self._decoder.unheld:
                raise BadEvent("a savepoint that is not known")
            self._undo(self._decoder.savepoints[name])
        elif verb.startswith(b"XA "):
            self._xa(event, text)
        elif not verb.startswith(b"RELEASE SAVEPOINT"):
            self._statement(event, query, text)

    def _xa(self, event: Event, text: bytes) -> None:
        verb = text.split(None, 2)[1].upper()
        if verb in {b"START", b"BEGIN"}:
            self._decoder.begin_at(event.start, None, True)
            self._decoder.held = True
            self._before_xa = dict(self.maps.parents)
        elif verb in {b"COMMIT", b"ROLLBACK"}:
            xid = text.split(None, 2)[2].decode("ascii", "replace")
            self._decoder.begin_at(event.start, None, True)
            if verb == b"COMMIT" and self._commits and not self._decoder.skipped:
                self._xa_commit(event, xid)
            self._prepared.pop(xid, None)
            self._decoder.end_with(event)
            if self._stream is None:
                self._start(self.place)

    def _xa_prepare(self, event: Event) -> None:
        prepared = events.read_xa_prepare(event.data)
        if prepared.one_phase or self.keeps_prepared:
            self._end(event)
            return
        place = LogPlace(self._file, self._decoder.opened, self._decoder.base)
        if len(self._prepared) < MAX_PREPARED:
            self._prepared[prepared.xid] = place
        self.prepared.append(Prepared(prepared.xid, place))
        self._decoder.records.drop(self._decoder.records.ended)
        self.maps.parents.clear()
        self.maps.parents |= self._before_xa
        self._decoder.end_with(event)

    def _xa_commit(self, event: Event, xid: str) -> None:
        """Add the rows of an XA transaction that is committed here: they are where it was prepared.

        This reader's connection is closed for that: a server throws out a replica whose id another one has.
        """
        self.close()
        decoder = self._decoder
        position, end = decoder.base + event.start, LogPlace(self._file, event.start, decoder.base)
        tables = TablesAt(self._tables, position)
        self._of_prepared.clear()
        values = rows_of_prepared(self._server, self._other, xid, self._prepared.pop(xid, None), end, tables)
        for at, value in enumerate(spread(values, event.end - event.start)):
            decoder.records.add(value, position + at, event.header.time * 1000)
        self.maps.parents |= dict.fromkeys(self._of_prepared, position)  # what others saw at the commit only

    def _other(self, tables: LogTables) -> LogReader:
        """Return another reader of the same log."""
        other = LogReader(
            self._server,
            self._server_id,
            tables,
            tinyint1_as_boolean=self.maps.values.tinyint1_as_boolean,
            native=self.maps.native,
            open_stream=self._open_other,
        )
        other._commits = False
        other.maps.parents = self._of_prepared
        return other

    def _statement(self, event: Event, query: Query, text: bytes) -> None:
        """Handle a statement that may change tables."""
        base = self._decoder.base
        found = Statement(base + event.start, base + event.end, query, event.header.time, changes_rows(text))
        self._decoder.begin_at(event.start, None, self._decoder.begun)
        if not self._decoder.skipped:
            self._meet(found)
        if self.statement is not None:
            return
        self.maps.forget()
        if text[-40:].upper().endswith(b"START TRANSACTION"):  # CREATE TABLE … AS SELECT, whose rows follow
            self._decoder.begun = True
        if not self._decoder.begun:
            self._decoder.end_with(event)

    def _meet(self, statement: Statement) -> None:
        """Stop at a statement whose result is not known, or whose rows are not in the log."""
        if statement.changes_rows:
            if self._tables.matters(statement):
                msg = "a statement changed a table that is read, and its rows are not in the log: "
                msg += statement.query.text[:300].decode("utf-8", "replace")
                hint = "SET GLOBAL binlog_format = 'ROW', end sessions with another, run `ingest backfill FILE --all`"
                raise DataLoss(msg, hint)
            return
        if self._tables.answered(statement.position) or not self._tables.matters(statement):
            return
        if self.pieces.is_undecided(bare(statement.query.text), self._file, self._decoder):
            return
        self.statement = statement
        if not self._decoder.given:
            self._decoder.records.drop(self._decoder.records.ended)

"""Places in a server's log: its end, the end of a set of GTIDs, the beginning of a time; and if it is still the same.

Looks into the log as `mysqlbinlog` does, without a server id, so that no reader is thrown out.
Rules: docs/spec/mysql.md#positions, docs/spec/mysql.md#another-server.
"""

from __future__ import annotations

from contextlib import closing, contextmanager
from struct import pack
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

import pymysql
from pymysql.constants import COMMAND

from ingest.errors import ConfigError, DataLoss
from ingest.sources.mysql import events
from ingest.sources.mysql.connection import connect, explain, version
from ingest.sources.mysql.events import BadEvent, EventHeader, FormatDescription, Gtid, Query
from ingest.sources.mysql.gtids import GtidSet
from ingest.sources.mysql.history import bare, may_change_tables
from ingest.sources.mysql.log_model import (
    FIRST,
    WAYS,
    LogFiles,
    ServerIdentity,
    check_listing,
    compare_first,
    compare_last,
)
from ingest.sources.mysql.row_decoder import name_in

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from ingest.sources.mysql.connection import Connection, ServerVersion
    from ingest.sources.mysql.log_model import LogPlace
    from ingest.sources.mysql.server import MySqlServer

_STARTS: Final = frozenset({events.GTID, events.ANONYMOUS_GTID, events.GTID_TAGGED, events.MARIADB_GTID})
"""Kinds with which a transaction begins; before MySQL 5.7 without GTIDs it begins with the statement BEGIN."""
_ENDS: Final = frozenset({events.XID, events.XA_PREPARE, events.TRANSACTION_PAYLOAD})
_OF_A_FILE: Final = frozenset(
    {
        events.FORMAT_DESCRIPTION,
        events.PREVIOUS_GTIDS,
        events.MARIADB_GTID_LIST,
        events.BINLOG_CHECKPOINT,
        events.ROTATE,
        events.STOP,
    }
)
_LENGTHS: Final = FormatDescription("", b"", checksums=False)
"""Lengths of kinds of events, as all versions that are read have them."""
_MAX_OFFSET: Final = (1 << 32) - 1
_NON_BLOCK: Final = 1
NEAR_BYTES: Final = 1 << 20
"""Bytes of the log without a statement after which no next one is looked for."""
_LONG: Final = 16 << 20
"""Bytes of a file from which on a server that can is asked for its transactions, and the file is not looked through."""

End: TypeAlias = Literal["commit", "rollback", "parts", "crash"]
"""How a transaction ends."""


class LogStatus(NamedTuple):
    """Where a log ends, and which transactions it has."""

    file: str
    offset: int
    executed: GtidSet | None
    """All of MySQL's transactions up to there; None on MariaDB, and where the server has no GTIDs."""


class PlacedEvent(NamedTuple):
    """An event, and where it is in its file."""

    start: int
    end: int
    header: EventHeader
    data: bytes
    """The event with its header, without its checksum."""


class PlacedStatement(NamedTuple):
    """A statement, and where it is in its file."""

    start: int
    end: int
    time: int
    """Seconds since 1970."""
    query: Query


class FileHead(NamedTuple):
    """What the first events of a file say."""

    first_time: int
    previous: GtidSet | None
    """The transactions of all files before it; None where the server has no GTIDs."""


class FoundPlace(NamedTuple):
    """A place in a log."""

    file: str
    offset: int
    skip: GtidSet = GtidSet()
    """Transactions that lie behind the place and were delivered before."""


def identity(connection: Connection) -> ServerIdentity:
    """Return who a server is. Raise an error of PyMySQL."""
    if version(connection).mariadb:
        server_id, domain = _row(connection, "SELECT @@server_id, @@gtid_domain_id")
        return ServerIdentity(int(server_id), None, int(domain))
    server_id, uuid = _row(connection, "SELECT @@server_id, @@server_uuid")
    return ServerIdentity(int(server_id), str(uuid).lower())


def status_statement(known: ServerVersion) -> str:
    """Return the statement that asks where the log stands. MySQL 8.4 has no other, 8.1 and older do not know it."""
    return "SHOW BINARY LOG STATUS" if known.since(mysql=(8, 2)) else "SHOW MASTER STATUS"


def log_status(connection: Connection) -> LogStatus:
    """Return where the log stands. Raise ConfigError where there is none, and errors of PyMySQL."""
    row = _row(connection, status_statement(version(connection)))
    if not row:
        raise ConfigError("the server writes no log", "start it with log_bin")
    executed = GtidSet.parse(str(row[4])) if len(row) > 4 and row[4] else None
    return LogStatus(str(row[0]), int(row[1]), executed)


def log_listing(connection: Connection) -> list[tuple[str, int]]:
    """Return names and sizes of the log's files, the oldest first. Raise an error of PyMySQL."""
    with connection.cursor() as cursor:
        cursor.execute("SHOW BINARY LOGS")
        return [(str(row[0]), int(row[1])) for row in cursor.fetchall()]


class LogSearch:
    """Questions about the log of one server, each by connections of its own. Raises IngestError."""

    def __init__(self, server: MySqlServer) -> None:
        self._server = server

    @contextmanager
    def _connection(self, what: str) -> Iterator[Connection]:
        connection = connect(self._server)
        try:
            yield connection
        except (pymysql.MySQLError, OSError) as exc:
            raise explain(exc, what, self._server) from exc
        except BadEvent as exc:
            raise self._damaged(what, exc) from exc
        finally:
            connection._force_close()  # type: ignore[attr-defined]

    def _damaged(self, what: str, exc: BadEvent) -> ConfigError:
        msg = f"cannot {what} at {self._server.name}: {exc}"
        return ConfigError(msg, "see whether the log is damaged: mysqlbinlog reads it, too")

    @contextmanager
    def _reading(self, file: str, offset: int = FIRST) -> Iterator[Iterator[PlacedEvent]]:
        """Give the events of a file (`events`) to a block, in which a damaged one is an error as well."""
        try:
            with closing(self.events(file, offset)) as placed:
                yield placed
        except BadEvent as exc:
            raise self._damaged("read the log", exc) from exc

    def identity(self) -> ServerIdentity:
        """Return who the server is."""
        with self._connection("ask for its identity") as connection:
            return identity(connection)

    def status(self) -> LogStatus:
        """Return where the log stands."""
        with self._connection("ask for the log's position") as connection:
            return log_status(connection)

    def listing(self) -> list[tuple[str, int]]:
        """Return names and sizes of the log's files, the oldest first."""
        with self._connection("list the log's files") as connection:
            return log_listing(connection)

    def head(self, file: str) -> FileHead:
        """Return what the first events of a file say."""
        first_time: int | None = None
        previous: GtidSet | None = None
        with self._reading(file) as placed:
            for event in placed:
                if event.header.kind == events.FORMAT_DESCRIPTION and first_time is None:
                    first_time = event.header.time
                elif event.header.kind in {events.PREVIOUS_GTIDS, events.MARIADB_GTID_LIST}:
                    previous = _previous(event)
                    break
                elif event.header.kind in _STARTS or event.start > 4096:
                    break
        if first_time is None:
            raise DataLoss(f"the log file {file} of {self._server.name} has no first event", WAYS)
        return FileHead(first_time, previous)

    def events(self, file: str, offset: int = FIRST) -> Generator[PlacedEvent]:
        """Yield the events of one file from an offset on, first the one that describes the format.

        From an offset behind 4 GiB on, which the protocol cannot say, the file is read from its beginning.
        """
        start = offset if offset <= _MAX_OFFSET else FIRST
        with self._connection("read the log") as connection:
            connection.query(
                "SET @master_binlog_checksum = @@global.binlog_checksum, "
                "@source_binlog_checksum = @@global.binlog_checksum"
            )
            if version(connection).mariadb:
                connection.query("SET @mariadb_slave_capability = 4")
            for event in _dumped(connection, file, start):
                if event.header.kind == events.FORMAT_DESCRIPTION or event.start >= offset:
                    yield event

    def gtid_at(self, file: str, offset: int) -> Gtid | None:
        """Return the GTID of the transaction that begins at an offset; None where it has none."""
        with self._reading(file, offset) as placed:
            for event in placed:
                if event.start >= offset:
                    numbered = event.header.kind in _STARTS
                    return events.read_gtid(event.data, event.header.server_id, event.header.kind) if numbered else None
        return None

    def end_of(self, file: str, offset: int) -> End:
        """Return how the transaction ends that begins at an offset: it is all in the log once it is seen there.

        `parts`: some of it is rolled back to a savepoint, and the rest is committed. `crash`: the file ends before it.
        """
        parts = begun = False
        with self._reading(file, offset) as placed:
            for event in placed:
                kind = event.header.kind
                if kind in {events.XID, events.XA_PREPARE}:
                    return "parts" if parts else "commit"
                if kind in {events.QUERY, events.QUERY_COMPRESSED}:
                    verb = bare(events.read_query(event.data, kind, _LENGTHS).text)[:40].upper()
                    if verb in {b"COMMIT", b"ROLLBACK", b"ROLLBACK WORK"}:
                        return "rollback" if verb != b"COMMIT" else "parts" if parts else "commit"
                    parts = parts or verb.startswith(b"ROLLBACK TO ")
                elif kind in _STARTS and begun:
                    break
                begun = begun or event.start >= offset
        return "crash"

    def check(self, files: LogFiles, place: LogPlace) -> None:
        """Raise DataLoss unless the server's log has a place, and the same events before it as when it was read."""
        file, offset = check_listing(files, place.position, self.listing())
        if place.last is None or offset != place.offset or place.last > _MAX_OFFSET:
            compare_first(file, self.head(file.name).first_time)
            return
        first, event = self._event_at(file.name, place.last)
        # Where the server finds no event at the place, what the file begins with may say why
        compare_first(file, self.head(file.name).first_time if first is None else first.header.time)
        compare_last(f"{file.name}:{offset}", place.last_crc, event.data if event and event.end == offset else None)

    def _event_at(self, file: str, offset: int) -> tuple[PlacedEvent | None, PlacedEvent | None]:
        """Return the first event of a file and the one at an offset; None for what is none: it was read before."""
        with self._reading(file, offset) as placed:
            try:
                first = next(placed, None)
            except (DataLoss, ConfigError):
                return None, None
            try:
                return first, next(placed, None)
            except (DataLoss, ConfigError):
                return first, None

    def executed_at(self, file: str, offset: int) -> GtidSet | None:
        """Return all transactions that lie before a place of the log; None where the server has no GTIDs."""
        if offset > _LONG and (asked := self._asked_executed(file, offset)) is not None:
            return asked
        executed = self.head(file).previous
        if executed is None:
            return None
        runs: dict[str, list[tuple[int, int]]] = {}
        with self._reading(file) as placed:
            for event in placed:
                if event.start >= offset:
                    break
                if (gtid := _gtid(event)) is not None:
                    runs.setdefault(gtid[0], []).append((gtid[1], gtid[1]))
        return executed | GtidSet(runs)

    def _asked_executed(self, file: str, offset: int) -> GtidSet | None:
        """Return the same from a MariaDB server, which looks through its file itself; None from another one."""
        with self._connection("ask for its transactions") as connection:
            if not version(connection).mariadb:
                return None
            with connection.cursor() as cursor:
                cursor.execute("SELECT BINLOG_GTID_POS(%s, %s), @@gtid_binlog_state", (file, offset))
                position, state = cursor.fetchone() or (None, None)
        before = self.head(file).previous or GtidSet()
        return None if position is None else mariadb_executed(str(position), str(state or ""), before)

    def find_gtids(
        self,
        delivered: GtidSet,
        excluded: Callable[[str], bool] = lambda _source: False,
        partly: GtidSet = GtidSet(),  # noqa: B008  (it is never changed)
    ) -> FoundPlace:
        """Return the place from which on everything lies that is not in a set. Raise DataLoss where there is none.

        `excluded`: whether the transactions of a source do not count (`gtid.source.excludes`). `partly`: those of which
        a part was delivered.
        """
        listing = self.listing()
        delivered = delivered.without(excluded)
        state = self._transactions(delivered)
        missing = (delivered | partly) - state.executed
        if missing:
            msg = (
                f"{self._server.name} does not have all transactions that were read of the former server, and that the "
                f"sink may have: {missing.shown()}"
            )
            raise DataLoss(msg, f"changes of the former server were lost in the failover: {WAYS}")
        delivered = state.delivered
        lost = (state.unlogged - delivered).without(excluded)
        begin = None if lost else self._file_before(listing, delivered, excluded)
        if begin is None:
            before = self.head(listing[0][0]).previous or GtidSet()
            lost = lost or before.without(excluded) - delivered
            msg = f"{self._server.name} has no log any more of transactions that were not read: {lost.shown()}"
            hint = "keep the log for longer on all servers (binlog_expire_logs_seconds), with log_slave_updates"
            raise DataLoss(msg, f"{WAYS}; {hint}")
        runs: dict[str, list[tuple[int, int]]] = {}
        end = FIRST
        for name, _ in listing[begin:]:
            end = FIRST
            with self._reading(name) as placed:
                for event in placed:
                    gtid = _gtid(event)
                    if event.header.kind == events.ANONYMOUS_GTID:
                        raise ConfigError(f"{self._server.name} has transactions without GTIDs", "set gtid_mode = ON")
                    if gtid is not None and not excluded(gtid[0].partition(":")[0]):
                        if not delivered.has(*gtid):
                            seen = GtidSet(runs) | (self.head(listing[begin][0]).previous or GtidSet())
                            return FoundPlace(name, event.start, delivered - seen)
                        runs.setdefault(gtid[0], []).append((gtid[1], gtid[1]))
                    end = max(end, event.end)
        return FoundPlace(listing[-1][0], end)

    def find_time(self, seconds: float) -> FoundPlace:
        """Return the place of the first transaction that is not older than a time; the log's end where all are."""
        listing = self.listing()
        begin = len(listing) - 1
        while begin > 0 and self.head(listing[begin][0]).first_time >= seconds:
            begin -= 1
        for name, _ in listing[begin:]:
            open_at: int | None = None
            with self._reading(name) as placed:
                for event in placed:
                    begins = event.header.kind == events.QUERY and open_at is None and event.data.endswith(b"\0BEGIN")
                    if event.header.kind in _STARTS or begins:
                        open_at = event.start
                    if event.header.kind not in _OF_A_FILE and event.header.time >= seconds:
                        return FoundPlace(name, event.start if open_at is None else open_at)
                    if event.header.kind in _ENDS:
                        open_at = None
        status = self.status()
        return FoundPlace(status.file, status.offset)

    def statements(self, file: str, offset: int) -> Iterator[tuple[str, int, Query]]:
        """Yield file, end and text of the statements from a place of the log on, as far as it goes now."""
        names = [name for name, _ in self.listing()]
        for name in names[names.index(file) if file in names else 0 :]:
            with self._reading(name, offset if name == file else FIRST) as placed:
                for event in placed:
                    if event.header.kind in {events.QUERY, events.QUERY_COMPRESSED}:
                        yield name, event.end, events.read_query(event.data, event.header.kind, _LENGTHS)

    def next_statements(
        self, file: str, offset: int, written: set[tuple[str, str]], excluded: Callable[[str, int], bool] | None = None
    ) -> Iterator[PlacedStatement]:
        """Yield the statements from a place of a file on that may change tables, to where the next one is far away.

        `written`: gets the names of tables that have rows meanwhile; it ends at rows of which it cannot tell.
        `excluded`: asked of each GTID (source and number) whether its transaction is passed over. Those of MariaDB that
        only begin a change, which counts later or never, are passed over as well.
        """
        last, over = offset, False
        with self._reading(file, offset) as placed:
            for event in placed:
                kind = event.header.kind
                if event.start - last > NEAR_BYTES:
                    return
                if kind in _STARTS:
                    gtid = events.read_gtid(event.data, event.header.server_id, kind)
                    given = gtid is not None and excluded is not None and excluded(gtid.source, gtid.number)
                    over = given or (gtid is not None and gtid.undecided)
                elif kind == events.TABLE_MAP:
                    written.add(name_in(event.data, _LENGTHS))
                elif kind == events.TRANSACTION_PAYLOAD:
                    return
                elif kind in {events.QUERY, events.QUERY_COMPRESSED} and not over:
                    query = events.read_query(event.data, kind, _LENGTHS)
                    if may_change_tables(query.text):
                        last = event.end
                        yield PlacedStatement(event.start, event.end, event.header.time, query)

    def _transactions(self, delivered: GtidSet) -> _Transactions:
        """Return what the server has. Raise DataLoss where it has no GTIDs."""
        with self._connection("ask for its transactions") as connection:
            if version(connection).mariadb:
                row = _row(connection, "SELECT @@gtid_binlog_state, @@gtid_slave_pos")
                return mariadb_transactions(str(row[0] or ""), str(row[1] or ""), delivered)
            row = _row(connection, "SELECT @@GLOBAL.gtid_mode, @@GLOBAL.gtid_executed, @@GLOBAL.gtid_purged")
        if not str(row[0]).upper().startswith("ON"):
            msg = f"{self._server.name} has no GTIDs, and its log is not the one that was read: a place cannot be found"
            raise DataLoss(msg, f"set gtid_mode = ON on both servers before a failover; {WAYS}")
        return _Transactions(GtidSet.parse(str(row[1] or "")), GtidSet.parse(str(row[2] or "")), delivered)

    def _file_before(
        self, listing: Sequence[tuple[str, int]], delivered: GtidSet, excluded: Callable[[str], bool]
    ) -> int | None:
        """Return the last file before which all was delivered; None where there is none."""
        for at in range(len(listing) - 1, -1, -1):
            before = (self.head(listing[at][0]).previous or GtidSet()).without(excluded)
            if delivered.contains(before):
                return at
        return None


class _Transactions(NamedTuple):
    executed: GtidSet
    unlogged: GtidSet
    """Those that the server's log has no more, or never had."""
    delivered: GtidSet
    """What was delivered, as sets of this server have it."""


def mariadb_transactions(state: str, replicated: str, delivered: GtidSet) -> _Transactions:
    """Return what a MariaDB server has, by its log (`gtid_binlog_state`) and by what it replicated (`gtid_slave_pos`).

    Of each server in a domain, numbers only grow, so the last one stands for all. A replica that was made of a backup
    names a former server nowhere: it has what lies before the last transaction of the domain that it replicated.
    """
    executed, last = GtidSet.parse(state), GtidSet.parse(replicated)
    named = {source for source, _ in executed}
    domains = {source.partition("-")[0]: own[-1][1] for source, own in last}
    other = {
        source: [(1, domains[source.partition("-")[0]])]
        for source, _ in (*delivered, *last)
        if source not in named and source.partition("-")[0] in domains
    }
    filled = GtidSet({source: [(1, own[-1][1])] for source, own in delivered})
    points = GtidSet({source: [(own[-1][1], own[-1][1])] for source, own in last})
    return _Transactions(executed | GtidSet(other), points - executed, filled)


def mariadb_executed(position: str, state: str, before: GtidSet) -> GtidSet:
    """Return the transactions before a position of MariaDB (the last of each domain), by a later state of the log.

    Numbers of a domain only grow, whichever server they are of. `before`: the transactions before the file.
    """
    last = {source.partition("-")[0]: own[-1][1] for source, own in GtidSet.parse(position)}
    executed = {}
    for source, own in GtidSet.parse(state):
        end, most = own[-1][1], last.get(source.partition("-")[0], 0)
        if end <= most or any(source == other for other, _ in before):
            executed[source] = [(1, min(end, most))]
    return GtidSet.parse(position) | before | GtidSet(executed)


def _row(connection: Connection, statement: str) -> Sequence[Any]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchone() or ()


def _dumped(connection: Connection, file: str, start: int) -> Generator[PlacedEvent]:
    """Yield the events of one file that a server sends to who has no server id: to the end of the log, then no more."""
    body = pack("<IHI", start, _NON_BLOCK, 0) + file.encode()
    connection._execute_command(COMMAND.COM_BINLOG_DUMP, body)  # type: ignore[attr-defined]
    checksum, at, described = False, FIRST, False
    while True:
        packet = connection._read_packet()  # type: ignore[no-untyped-call]
        data = bytes(packet.get_all_data())
        if data[:1] == b"\xfe" and len(data) < 9:
            return
        event = data[1:]
        header = events.read_header(event)
        if header.kind == events.ROTATE and described:
            return  # the next file
        if header.kind == events.FORMAT_DESCRIPTION:
            checksum, described = events.read_format(event).checksums, True
            at = FIRST + header.size if start == FIRST else start
            yield PlacedEvent(FIRST, FIRST + header.size, header, event[:-4] if checksum else event)
        elif not header.flags & events.ARTIFICIAL and header.kind not in {events.HEARTBEAT, events.HEARTBEAT_V2}:
            # Events may be missing: MariaDB sends no texts of statements. The header has the lowest 32 bits of its end
            at += header.size + (header.end - at - header.size) % (1 << 32)
            yield PlacedEvent(at - header.size, at, header, event[:-4] if checksum else event)


def _previous(event: PlacedEvent) -> GtidSet:
    body = event.data[events.HEADER_BYTES :]
    return GtidSet.decode(body) if event.header.kind == events.PREVIOUS_GTIDS else GtidSet.decode_list(body)


def _gtid(event: PlacedEvent) -> tuple[str, int] | None:
    """Return source and number of the transaction that begins with an event."""
    if event.header.kind not in _STARTS:
        return None
    gtid = events.read_gtid(event.data, event.header.server_id, event.header.kind)
    return None if gtid is None else (gtid.source, gtid.number)

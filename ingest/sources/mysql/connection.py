"""Logins to a MySQL or MariaDB server, and its errors in the words of a run.

There is one way to log in, for metadata, chunks and the log. In: where the server is, and who asks. Out: a connection
whose session has known settings; for an exception of PyMySQL, an IngestError. docs/spec/mysql.md#connections has the
rules.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import ssl
import struct
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pymysql
from pymysql.constants import CLIENT, CR

from ingest.errors import AccessError, ConfigError, DataLoss, IngestError, InternalError, Unavailable
from ingest.model.text import one_line
from ingest.sources.mysql.events import BadEvent
from ingest.sources.mysql.log_model import WAYS

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from ingest.sources.mysql.server import MySqlServer, Tls

    Connection = pymysql.Connection[pymysql.cursors.Cursor]
    _PyMySql = Connection
else:
    _PyMySql = pymysql.Connection

SQL_MODE: Final = "STRICT_TRANS_TABLES,STRICT_ALL_TABLES,ALLOW_INVALID_DATES,ERROR_FOR_DIVISION_BY_ZERO"
"""The sql_mode of each session. Backslashes escape, `"` quotes texts, CHAR is returned without padding, and a zero or
invalid date, which a key may hold, may stand in a condition."""

_PAUSE_S: Final = 0.3
"""Seconds between two tries of connecting, as in Flink CDC."""
_LOCK_WAIT_S: Final = 60
"""Seconds for which a statement waits for the lock of DDL before it fails and is tried again."""
_PATIENCE_S: Final = 3600
"""Seconds for which the server waits for a reader that is busy with what it has read."""
_ERRNO: Final = re.compile(r"\[Errno -?\d+\] ")
_KEEPALIVES: Final = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.IPPROTO_TCP, getattr(socket, "TCP_KEEPIDLE", 0), 30),
    (socket.IPPROTO_TCP, getattr(socket, "TCP_KEEPINTVL", 0), 10),
    (socket.IPPROTO_TCP, getattr(socket, "TCP_KEEPCNT", 0), 3),
    (socket.IPPROTO_TCP, getattr(socket, "TCP_USER_TIMEOUT", 0), 60_000),
)
"""So a peer that has vanished is an error after a minute, also in the middle of a long query. 0: not on this system."""
_WITH_ROWS: Final = ("SELECT", "SHOW")
"""The first words of statements whose answer has columns, also where it has no row."""


@contextmanager
def as_client_errors() -> Generator[None]:
    """Let whatever an answer of a server leads to be an error of PyMySQL with a number.

    A proxy may cut an answer, mix two of them, or send a page of its own: that is a failure of the connection.
    """
    try:
        yield
    except pymysql.MySQLError as exc:
        if exc.args and isinstance(exc.args[0], int):
            raise
        raise pymysql.OperationalError(CR.CR_MALFORMED_PACKET, one_line(str(exc))) from exc
    except OSError as exc:
        raise pymysql.OperationalError(CR.CR_SERVER_LOST, f"Lost connection to MySQL server ({exc})") from exc
    except (UnicodeEncodeError, BadEvent):  # of what is sent; of a value in a row
        raise
    except (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError,
            struct.error) as exc:  # fmt: skip
        text = f"Malformed packet: an answer that is not of MySQL's protocol ({type(exc).__name__})"
        raise pymysql.OperationalError(CR.CR_MALFORMED_PACKET, text) from exc


class _Client(_PyMySql):
    """PyMySQL's connection, which raises errors of PyMySQL with numbers only, whatever the server sends."""

    def query(self, sql: Any, unbuffered: bool = False) -> int:  # noqa: FBT002  (PyMySQL's)
        rows: int = super().query(sql, unbuffered)
        words = sql if isinstance(sql, str) else bytes(sql).decode("utf-8", "replace")
        if words.upper().startswith(_WITH_ROWS) and not self._result.field_count:  # type: ignore[attr-defined]  # (its stubs lack it)
            # Taken for a result without rows, it would be a chunk that is empty
            self._force_close()  # type: ignore[attr-defined]  # (as above)
            raise pymysql.OperationalError(CR.CR_MALFORMED_PACKET, "Malformed packet: an answer without columns")
        return rows

    def _read_query_result(self, unbuffered: bool = False) -> int:  # noqa: FBT002  (PyMySQL's)
        with self._answer():
            return super()._read_query_result(unbuffered)  # type: ignore[misc, no-any-return]  # (as above)

    def _read_ok_packet(self) -> Any:
        with self._answer():
            return super()._read_ok_packet()  # type: ignore[misc]  # (as above)

    @contextmanager
    def _answer(self) -> Generator[None]:
        try:
            with as_client_errors():
                yield
        except pymysql.OperationalError as exc:
            if exc.args[0] == CR.CR_MALFORMED_PACKET:
                self._force_close()  # type: ignore[attr-defined]  # (as above; what comes next answers nothing)
            raise


class ServerVersion(msgspec.Struct, frozen=True, order=True):
    """The version of a server, of which those of one product are compared."""

    numbers: tuple[int, ...]
    mariadb: bool = False
    text: str = ""

    @property
    def product(self) -> str:
        """The product's name."""
        return "MariaDB" if self.mariadb else "MySQL"

    def since(self, *, mysql: tuple[int, ...] | None = None, mariadb: tuple[int, ...] | None = None) -> bool:
        """Return whether it is at least the version of its product; None: no version of it is."""
        first = mariadb if self.mariadb else mysql
        return first is not None and self.numbers >= first


def version(connection: Connection) -> ServerVersion:
    """Return the version of a connection's server, which it said at the login."""
    return parse_version(str(connection.get_server_info()))  # type: ignore[no-untyped-call]  # (its stubs lack it)


def parse_version(text: str) -> ServerVersion:
    """Return the version in the text of a server: `8.0.36-log`, `5.5.5-10.11.6-MariaDB`, `10.5.12-MariaDB`."""
    mariadb = "mariadb" in text.lower()
    # Before 11, MariaDB says 5.5.5 first, for replicas of MySQL that knew no larger number
    plain = text.removeprefix("5.5.5-") if mariadb else text
    numbers: list[int] = []
    for part in plain.partition("-")[0].split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
    return ServerVersion(tuple(numbers), mariadb, text)


def connect(server: MySqlServer, *, database: str | None = None) -> Connection:
    """Return a connection with a session of known settings, which commits each statement. Raise IngestError.

    What may pass is tried again, as often as the server's options say.
    """
    for left in reversed(range(server.tries)):
        try:
            connection = _login(server, database)
            try:
                settle(connection)
            except BaseException:
                connection.close()
                raise
        except (pymysql.MySQLError, OSError, UnicodeError, ValueError) as exc:
            error = explain(exc, "log in", server)
            if not left or not isinstance(error, Unavailable):
                raise error from exc
            time.sleep(_PAUSE_S)
        else:
            return connection
    raise AssertionError


def settle(connection: Connection) -> None:
    """Give a session the settings that all sessions have. Raise an error of PyMySQL.

    Whatever the server's own settings are, times are in UTC, texts in utf8mb4, and no result is cut.
    """
    known = version(connection)
    settings = {
        "time_zone": "'+00:00'",
        "sql_mode": f"'{SQL_MODE}'",
        "sql_select_limit": "18446744073709551615",
        "sql_auto_is_null": "0",
        "sql_quote_show_create": "1",
        "lock_wait_timeout": str(_LOCK_WAIT_S),
        "wait_timeout": str(8 * _PATIENCE_S),
        "net_write_timeout": str(_PATIENCE_S),
        "net_read_timeout": "120",
    }
    if known.since(mariadb=(10, 1)):
        settings["max_statement_time"] = "0"
    if known.since(mysql=(5, 7, 8)):
        settings["max_execution_time"] = "0"
    if known.since(mysql=(8, 0)):
        settings["information_schema_stats_expiry"] = "0"
        settings["show_create_table_skip_secondary_engine"] = "0"
    if known.since(mysql=(8, 0, 30)):
        settings["show_gipk_in_create_table_and_information_schema"] = "1"  # rows of the log have the hidden key
    with connection.cursor() as cursor:
        cursor.execute("SET " + ", ".join(f"SESSION {name} = {value}" for name, value in settings.items()))


def explain(exc: Exception, what: str, server: MySqlServer) -> IngestError:
    """Return the error for an exception of PyMySQL or of the socket. `what`: what was tried."""
    code, text = _told(exc)
    detail = f"cannot {what} at {server.name}: {one_line(text)[:300]}"
    cause = getattr(exc, "original_exception", exc)
    if isinstance(cause, ssl.SSLCertVerificationError):
        hint = (
            "name the authority that signed it in ssl.ca, a PEM file, and the host as the certificate does; "
            "or ssl.mode: required, which encrypts and verifies nothing; or ssl.mode: disabled"
        )
        return ConfigError(f"the certificate of {server.name} is refused: {cause.verify_message}", hint)
    if isinstance(cause, ssl.SSLError) and not isinstance(cause, (ssl.SSLEOFError, ssl.SSLZeroReturnError)):
        hint = "see which versions of TLS the server speaks (tls_version), correct ssl.ca, ssl.cert and ssl.key"
        return ConfigError(detail, f"{hint}, or choose another ssl.mode")
    if isinstance(cause, UnicodeError):
        return ConfigError(f"cannot {what} at {server.name}: the hostname or the username is no text", "correct it")
    if code in _OF_THE_LOG:
        return log_error(text, server)
    if code is None:
        if isinstance(cause, (OSError, pymysql.OperationalError)):
            return Unavailable(detail, _AWAY_HINT)
        return ConfigError(detail, "correct the options of the source")
    if code in _HINTS:
        kind, hint = _HINTS[code]
        return kind(f"{detail} (error {code})", hint.format(user=server.user, port=server.port))
    if (
        code in _PASSING
        or any(words in text.lower() for words in _PASSING_TEXTS)
        or CR.CR_ERROR_FIRST <= code <= CR.CR_ERROR_LAST
    ):
        return Unavailable(f"{detail} (error {code})", _AWAY_HINT)
    return ConfigError(f"{detail} (error {code})", "see the server's documentation of this error")


def log_error(text: str, server: MySqlServer) -> IngestError:
    """Return what error 1236 means, which is many things: its text says which (docs/spec/mysql.md#connections)."""
    said = f"{server.name} does not send its log: {one_line(text)[:300]}"
    lower = text.lower()
    for words, kind, hint in _LOG_ERRORS:
        if any(word in lower for word in words):
            return kind(said, hint)
    return ConfigError(said, "see the server's error log; nothing that was not read is passed over")


_LOST_WAYS: Final = f"changes may be lost: {WAYS}"


class NumberTaken(ConfigError):
    """Another reader of the log has the same number, for which the server has thrown this one out."""


_OF_THE_LOG: Final = frozenset({1236, 1789, 1945, 1955, 4052})
"""Errors of a server that does not send its log."""
_LOG_ERRORS: Final[tuple[tuple[tuple[str, ...], type[IngestError], str], ...]] = (
    (
        ("same server_uuid", "same server_id", "same server-id", "same server id"), NumberTaken,
        "another reader or replica has the same number: give each pipeline a range of its own in server-id",
    ),
    (
        ("max_allowed_packet",), ConfigError,
        "an event is larger than the server sends: SET GLOBAL max_allowed_packet = 1073741824",
    ),
    (("not open",), ConfigError, "start the server with log_bin"),
    (
        ("misconfigured", "server_id is 0", "can not handle", "gtid_mode"), ConfigError,
        "see log_bin, server_id and gtid_mode of the server",
    ),
    (("memory allocation", "i/o error", "lost connection", "shutdown"), Unavailable, "it is tried again"),
    (
        ("purged", "could not find", "not found", "not in the master's binlog", "missing the gtid", "more gtids than",
         "diverged"),
        DataLoss, _LOST_WAYS,
    ),
    (
        ("impossible position", "file size", "truncated", "bogus", "corrupt", "crc", "checksum"), DataLoss,
        "the log is another one than before (RESET MASTER, a restored server) or damaged, see the server's error log; "
        + _LOST_WAYS,
    ),
)  # fmt: skip
"""Words in the text of error 1236, in lower case, the kind of the error, and what to do; the first that matches."""
_AWAY_HINT: Final = "it is tried again; see whether the server runs and can be reached at hostname and port"
_PASSING: Final = frozenset({
    3, 20, 1021, 1026, 1037, 1038, 1041, 1114, 1135, 1206, 1637, 1878,  # no room, memory or thread
    1053, 1077, 1079, 1080, 3168, 3169, 1927, 1317,  # a shutdown, a killed session or statement
    1836, 3032, 9001,  # maintenance; a proxy that reaches no server
    1152, 1154, 1155, 1156, 1157, 1158, 1159, 1160, 1161, 1184, 1189, 1190, 1218, 4031,  # the network
    1205, 1213, 1412,  # locks; a table was altered while it was read
})  # fmt: skip
_PASSING_TEXTS: Final = ("no space left", "got error 28 ", "errno: 28 ", "errcode: 28 ", "wsrep has not")
"""Words of errors that may pass, whose numbers stand for others as well: a full disk, a node of Galera that joins."""
_RIGHTS_HINT: Final = "grant user {user!r} the rights that docs/mysql.md lists, and see SHOW GRANTS"
_PLUGIN_HINT: Final = "let user {user!r} log in with caching_sha2_password or mysql_native_password: ALTER USER …"
_HINTS: Final[dict[int, tuple[type[IngestError], str]]] = {
    1040: (Unavailable, "it is tried again; see max_connections and SHOW PROCESSLIST"),
    1203: (Unavailable, "it is tried again; see max_user_connections, or let fewer tasks read at once"),
    1226: (Unavailable, "it is tried again; see the limits of the user: SHOW CREATE USER"),
    1044: (AccessError, _RIGHTS_HINT),
    1045: (AccessError, "check username and password, and from which hosts the user may log in (user@host)"),
    1698: (AccessError, "the user has no password login (auth_socket, unix_socket): " + _PLUGIN_HINT),
    1153: (ConfigError, "SET GLOBAL max_allowed_packet = 16777216, or more"),
    1194: (ConfigError, "REPAIR TABLE, see the server's error log"),
    1195: (ConfigError, "REPAIR TABLE, see the server's error log"),
    1129: (ConfigError, "the server blocks this host after failed logins: mysqladmin flush-hosts"),
    1130: (AccessError, "let the user log in from this host: CREATE USER {user!r}@'…'"),
    1142: (AccessError, _RIGHTS_HINT),
    1143: (AccessError, _RIGHTS_HINT),
    1227: (AccessError, _RIGHTS_HINT),
    1370: (AccessError, _RIGHTS_HINT),
    1049: (ConfigError, "create the database, or correct the option tables"),
    1251: (ConfigError, _PLUGIN_HINT),
    1275: (ConfigError, _PLUGIN_HINT),
    2026: (ConfigError, "let the server speak TLS, or choose another ssl.mode"),
    2059: (ConfigError, _PLUGIN_HINT),
    2061: (ConfigError, _PLUGIN_HINT),
    1820: (AccessError, "the password has expired: ALTER USER … IDENTIFIED BY …"),
    1862: (AccessError, "the password has expired: ALTER USER … IDENTIFIED BY …"),
    3118: (AccessError, "the account is locked: ALTER USER … ACCOUNT UNLOCK"),
    4151: (AccessError, "the account is locked: ALTER USER … ACCOUNT UNLOCK"),
    3159: (ConfigError, "the server takes encrypted connections only: leave ssl.mode out, or let it be required"),
    3024: (Unavailable, "it is tried again; see max_execution_time"),
    1969: (Unavailable, "it is tried again; see max_statement_time"),
    1064: (InternalError, "please report it with the server's version"),
}
"""Errors of the server with a hint of their own, by number."""


class _Refused:
    """A way to log in that would give the password away, or that is broken."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def authenticate(self, _packet: object) -> None:
        raise pymysql.OperationalError(
            CR.CR_AUTH_PLUGIN_CANNOT_LOAD, "the server asks for the password in a form that gives it away"
        )


def _login(server: MySqlServer, database: str | None) -> Connection:
    mode, clear = server.tls.mode, ("mysql_clear_password", "dialog")
    offered = mode in {"preferred", "by-host"}
    refused = ["mysql_old_password", *(clear if offered or mode == "disabled" else ())]
    context = None if mode == "by-host" else _context(server.tls)
    kinds: dict[str, Callable[[Connection], Any]] = dict.fromkeys(refused, _Refused)
    connection = _Client(
        host=server.host, port=server.port, user=server.user,
        # Bytes: PyMySQL would encode a text in latin1, MySQL's own clients do in utf8
        password=(server.password or "").encode(), database=database, charset="utf8mb4", autocommit=True,
        read_timeout=server.connect_s, write_timeout=60, connect_timeout=server.connect_s, defer_connect=True,
        client_flag=CLIENT.FOUND_ROWS, program_name="ingest", auth_plugin_map=kinds, local_infile=False,
        ssl=None if offered else context, ssl_disabled=mode == "disabled",
    )  # fmt: skip
    sock = socket.create_connection((server.host, server.port), server.connect_s)
    try:
        for level, name, value in _KEEPALIVES:
            if name:
                sock.setsockopt(level, name, value)
        if mode == "by-host":
            here = msgspec.structs.replace(server.tls, mode="preferred")
            context = _context(here if is_loopback(sock) else server.tls)
        if offered:
            connection.ctx = context  # type: ignore[attr-defined]  # (not in the stubs)
    except BaseException:
        sock.close()
        raise
    try:
        with as_client_errors():
            connection.connect(sock)
    except pymysql.OperationalError as exc:
        if exc.args[0] != CR.CR_MALFORMED_PACKET:
            raise
        msg = (
            f"what answers at {server.name} does not log in as a MySQL server does: {one_line(str(exc.args[1]))[:200]}"
        )
        raise ConfigError(msg, "see hostname and port of the source, and what stands between") from exc
    # PyMySQL has no way to give the login a time limit and a statement another one
    connection._read_timeout = server.read_s  # type: ignore[attr-defined]
    return connection


def is_loopback(sock: socket.socket) -> bool:
    """Return whether a connection leads to this machine itself, where nobody can stand between."""
    return ipaddress.ip_address(str(sock.getpeername()[0]).partition("%")[0]).is_loopback


def _context(tls: Tls) -> ssl.SSLContext | None:
    """Return the settings of TLS. Raise ConfigError where a file of them cannot be used."""
    if tls.mode == "disabled":
        return None
    for option, name in (("ssl.ca", tls.ca), ("ssl.cert", tls.cert), ("ssl.key", tls.key)):
        if name is not None and not Path(name).is_file():
            msg = f"{option}: there is no file {name!r}"
            raise ConfigError(msg, "name a PEM file that is on each machine where the command and the workers run")
    try:
        verified = tls.mode in {"verify-ca", "verify-identity", "by-host"}
        # Reading the system's authorities takes longer than a login
        asked = verified or tls.ca is not None
        context = ssl.create_default_context(cafile=tls.ca) if asked else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        # Servers make certificates that Python 3.13 finds too plain: without the key's identifier
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        context.check_hostname = verified and tls.mode != "verify-ca"
        context.verify_mode = ssl.CERT_REQUIRED if verified else ssl.CERT_NONE
        if tls.cert is not None:
            context.load_cert_chain(tls.cert, tls.key, tls.key_password or "")
    except (ssl.SSLError, OSError) as exc:
        msg = f"ssl.ca, ssl.cert or ssl.key cannot be used: {one_line(str(exc))[:200]}"
        raise ConfigError(msg, "give PEM files, the key that belongs to the certificate, and its password") from exc
    return context


def _told(exc: Exception) -> tuple[int | None, str]:
    """Return the number and the text of an error."""
    match exc.args:
        case (int() as code, str() as text, *_) if isinstance(exc, pymysql.MySQLError):
            return code, _ERRNO.sub("", text)
        case _:
            return None, _ERRNO.sub("", str(exc)) or type(exc).__name__

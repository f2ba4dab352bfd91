"""A small server that speaks MySQL's protocol and serves recorded logs: for versions of MySQL that cannot be had here.

It logs in by `caching_sha2_password` (cold: in full, with TLS or by RSA; warm: fast) or `mysql_native_password`,
answers statements by a table, and sends logs as a replica gets them. What it is asked is kept for the test.

    with ReplayServer({"binlog.000001": log([...])}) as server:
        connect(server.login())
"""

from __future__ import annotations

import contextlib
import hashlib
import random
import re
import socket
import ssl
import struct
import threading
import zlib
from dataclasses import dataclass, field
from functools import partial
from struct import pack, unpack_from
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

import msgspec
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from examples import seed

from ingest.sources.mysql.gtids import GtidSet
from ingest.sources.mysql.server import MySqlServer, Tls

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Rows: TypeAlias = "Sequence[Sequence[Any]]"
Answer: TypeAlias = "Rows | ServerError | Callable[[], Rows]"
USER, PASSWORD = "reader", "pä$$ 'w\"ord"
MAGIC: Final = b"\xfebin"
_MAX: Final = (1 << 24) - 1
_CAPABILITIES: Final = 0x20_0000 | 0x10_0000 | 0x8_0000 | 0x2_0000 | 0xA000 | 0xA0D
"""Long passwords and flags, databases, protocol 4.1, TLS, transactions, plugins and their data, attributes."""
_SSL: Final = 0x800
_WITHOUT_ROWS: Final = re.compile(r"(SET|START TRANSACTION|COMMIT|ROLLBACK)\b", re.IGNORECASE)
_ROTATE, _FORMAT, _HEARTBEAT, _GTID, _ANONYMOUS = 4, 15, 27, 33, 34
_KEY: Final = rsa.generate_private_key(public_exponent=65537, key_size=2048)
_PEM: Final = _KEY.public_key().public_bytes(
    serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
)  # fmt: skip


@dataclass
class ServerError:
    """An error packet."""

    code: int
    text: str
    state: str = "HY000"


@dataclass
class Dump:
    """A request for the log, and what is done to it."""

    server_id: int
    file: str
    offset: int
    flags: int
    gtids: GtidSet | None = None
    replaced: threading.Event = field(default_factory=threading.Event)


class ReplayServer:
    """The server. Its attributes may be changed while it runs: what is asked next is answered by them."""

    def __init__(
        self, logs: Mapping[str, bytes] | None = None, *, version: str = "8.0.36",
        plugin: str = "caching_sha2_password", offered: str | None = None, tls: tuple[str, str] | None = None,
        password: str = PASSWORD, answers: Mapping[str, Answer] | None = None,
    ) -> None:  # fmt: skip
        """`plugin`: the user's; `offered`: the one of the handshake. `tls`: files of certificate and key.

        `answers`: regular expressions, which the whole statement has to match, without case; the first one counts.
        """
        self.logs = dict(logs or {"binlog.000001": MAGIC})
        self.version, self.plugin, self.offered = version, plugin, offered or plugin
        self.password = password
        self.answers: dict[str, Answer] = dict(answers or {})
        self.warm = False
        """True if the server has the user's password in its cache."""
        self.said: list[str] = []
        """What happened: `full by RSA`, `full by TLS`, `fast`, `native`, statements, dumps."""
        self.break_after: int | None = None
        """Events after which a dump's connection breaks."""
        self.fail_after: tuple[int, ServerError] | None = None
        """Events after which a dump ends with an error."""
        self.heartbeat_s = 0.2
        self.silent = False
        """True if nothing is sent at the log's end, no heartbeat either."""
        self.spoil: Callable[[tuple[int, int], bytes], bytes | None] | None = None
        """Asked of each packet: its place (session and number in it, from 0 on), and what the network gets. What it
        returns is sent in its place, and then the connection closed; None: nothing is done to it."""
        self.resets = False
        """True if a connection is closed so that its peer gets an error, not an end."""
        self.variables: dict[str, str] = {
            "log_bin": "ON", "binlog_format": "ROW", "binlog_row_image": "FULL", "server_id": "1",
            "binlog_expire_logs_seconds": "2592000", "gtid_mode": "ON", "gtid_executed": "", "gtid_purged": "",
            "server_uuid": "3e11fa47-71ca-11e1-9e33-c80aa9429562", "binlog_checksum": "CRC32",
        }  # fmt: skip
        self._tls: ssl.SSLContext | None = None
        if tls is not None:
            self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._tls.load_cert_chain(*tls)
        self._dumps: dict[int, Dump] = {}
        self._grown = threading.Condition()
        self._ended = threading.Event()
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    def login(self, tls: Tls = Tls("disabled"), **more: Any) -> MySqlServer:  # noqa: B008  (frozen)
        """How to log in."""
        return msgspec.structs.replace(MySqlServer("127.0.0.1", self.port, USER, self.password, tls), **more)

    def append(self, file: str, data: bytes) -> None:
        """Let a log grow: dumps that wait at its end go on."""
        with self._grown:
            self.logs[file] = self.logs.get(file, MAGIC) + data
            self._grown.notify_all()

    def __enter__(self) -> Self:
        thread = threading.Thread(target=self._accept, daemon=True)
        thread.start()
        self._threads.append(thread)
        return self

    def __exit__(self, *_exc: object) -> None:
        self._ended.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        with self._grown:
            self._grown.notify_all()
        for thread in self._threads:
            thread.join(10)
        for each in self._sockets:
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._sockets.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        session = _Session(self, connection, self._sockets.index(connection))
        with contextlib.suppress(OSError, EOFError, struct.error):
            if session.log_in():
                session.serve()
        with contextlib.suppress(OSError):
            session.socket.close()

    def answer(self, statement: str) -> Answer:
        """The answer to a statement."""
        self.said.append(statement)
        for pattern, answer in self.answers.items():
            if re.fullmatch(pattern, statement, re.IGNORECASE | re.DOTALL):
                return answer
        if _WITHOUT_ROWS.match(statement):
            return []
        if re.fullmatch(r"SHOW (BINARY|MASTER) LOGS", statement, re.IGNORECASE):
            return [(name, len(data)) for name, data in self.logs.items()]
        status = "SHOW BINARY LOG STATUS" if self._numbers() >= (8, 4) else "SHOW MASTER STATUS"
        if statement.upper() == status:
            name = list(self.logs)[-1]
            return [(name, len(self.logs[name]), "", "", self.variables["gtid_executed"])]
        if (names := re.fullmatch(r"SELECT ((?:@@(?:GLOBAL\.)?\w+(?:, )?)+)", statement, re.IGNORECASE)) is not None:
            wanted = [re.sub(r"@@(GLOBAL\.)?", "", name, flags=re.IGNORECASE).lower() for name in names[1].split(", ")]
            if all(name in self.variables for name in wanted):
                return [tuple(self.variables[name] for name in wanted)]
        if statement.upper().startswith("SHOW GLOBAL VARIABLES"):
            return [pair for pair in self.variables.items() if f"'{pair[0]}'" in statement]
        if statement.upper() == "SELECT CURRENT_USER()":
            return [(f"{USER}@%",)]
        return ServerError(1064, f"You have an error in your SQL syntax near '{statement[:60]}'", "42000")

    def _numbers(self) -> tuple[int, ...]:
        return tuple(int(part) for part in re.findall(r"\d+", self.version)[:2])


class _Session:
    """One connection."""

    def __init__(self, server: ReplayServer, connection: socket.socket, number: int) -> None:
        self.server, self.socket, self.number = server, connection, number
        self.sequence = self.sent = 0
        self.checksums = False
        self.encrypted = False

    # -- Packets

    def read(self) -> bytes:
        data = b""
        while True:
            head = self._exactly(4)
            size = int.from_bytes(head[:3], "little")
            self.sequence = (head[3] + 1) % 256
            data += self._exactly(size)
            if size < _MAX:
                return data

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self.socket.recv(count - len(data))
            if not more:
                raise EOFError
            data += more
        return data

    def send(self, data: bytes) -> None:
        """Send a packet; where it is as large as one can be, it goes on in the next."""
        at = 0
        while True:
            part = data[at : at + _MAX]
            wire = len(part).to_bytes(3, "little") + bytes([self.sequence]) + part
            if self.server.spoil is not None and self._spoiled(self.server.spoil((self.number, self.sent), wire)):
                raise EOFError
            self.socket.sendall(wire)
            self.sent += 1
            self.sequence = (self.sequence + 1) % 256
            at += len(part)
            if len(part) < _MAX:
                return

    def _spoiled(self, changed: bytes | None) -> bool:
        """Whether something else was sent, after which there is nothing."""
        if changed is None:
            return False
        self.socket.sendall(changed)
        if self.server.resets:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, pack("ii", 1, 0))
        else:
            self.socket.shutdown(socket.SHUT_RDWR)
        return True

    def ok(self) -> None:
        self.send(b"\0\0\0" + pack("<HH", 2, 0))

    def fail(self, error: ServerError) -> None:
        self.send(b"\xff" + pack("<H", error.code) + b"#" + error.state.encode() + error.text.encode())

    # -- The login

    def log_in(self) -> bool:
        server = self.server
        nonce = random.Random(seed()).randbytes(20).replace(b"\0", b"x")
        capabilities = _CAPABILITIES if server._tls is not None else _CAPABILITIES & ~_SSL
        self.send(
            b"\x0a" + server.version.encode() + b"\0" + pack("<I", 7) + nonce[:8] + b"\0"
            + pack("<HBHH", capabilities & 0xFFFF, 255, 2, capabilities >> 16)
            + bytes([21]) + bytes(10) + nonce[8:] + b"\0" + server.offered.encode() + b"\0"
        )  # fmt: skip
        data = self.read()
        (flags,) = unpack_from("<I", data)
        if flags & _SSL and server._tls is not None:
            self.socket = server._tls.wrap_socket(self.socket, server_side=True)
            server._sockets.append(self.socket)
            self.encrypted = True
            data = self.read()
        user, _, rest = data[32:].partition(b"\0")
        response = rest[1 : 1 + rest[0]]
        plugin = server.offered
        if server.offered != server.plugin:
            self.send(b"\xfe" + server.plugin.encode() + b"\0" + nonce + b"\0")
            response, plugin = self.read(), server.plugin
        right = user.decode() == USER and self._proven(plugin, nonce, response)
        if not right:
            self.fail(
                ServerError(
                    1045, f"Access denied for user '{user.decode()}'@'127.0.0.1' (using password: YES)", "28000"
                )
            )
            return False
        self.ok()
        return True

    def _proven(self, plugin: str, nonce: bytes, response: bytes) -> bool:
        server, secret = self.server, self.server.password.encode()
        if plugin == "mysql_native_password":
            server.said.append("native")
            one = hashlib.sha1(secret).digest()  # noqa: S324  (the protocol's)
            two = hashlib.sha1(nonce + hashlib.sha1(one).digest()).digest()  # noqa: S324
            return response == (bytes(a ^ b for a, b in zip(one, two, strict=True)) if secret else b"")
        if plugin == "mysql_clear_password":
            server.said.append("clear")
            return response == secret + b"\0"
        if not secret:
            return response in {b"", b"\0"}
        one = hashlib.sha256(secret).digest()
        two = hashlib.sha256(hashlib.sha256(one).digest() + nonce).digest()
        if server.warm and response == bytes(a ^ b for a, b in zip(one, two, strict=True)):
            server.said.append("fast")
            self.send(b"\x01\x03")
            return True
        self.send(b"\x01\x04")
        answer = self.read()
        if self.encrypted:
            server.said.append("full by TLS")
            proven = answer == secret + b"\0"
        else:
            server.said.append("full by RSA")
            if answer == b"\x02":
                self.send(b"\x01" + _PEM)
                answer = self.read()
            oaep = padding.OAEP(padding.MGF1(hashes.SHA1()), hashes.SHA1(), None)  # noqa: S303  (the protocol's)
            plain = _KEY.decrypt(answer, oaep)
            proven = bytes(a ^ nonce[at % 20] for at, a in enumerate(plain)) == secret + b"\0"
        server.warm = server.warm or proven
        return proven

    # -- Commands

    def serve(self) -> None:
        while True:
            data = self.read()
            command, body = data[0], data[1:]
            if command == 1:
                return
            if command == 3:
                self._query(body.decode())
            elif command == 0x12:
                (server_id,) = unpack_from("<I", body, 6)
                offset, flags = unpack_from("<IH", body)
                self._dump(Dump(server_id, body[10:].decode(), offset, flags))
            elif command == 0x1E:
                flags, server_id, size = unpack_from("<HII", body)
                name = body[10 : 10 + size].decode()
                (offset,) = unpack_from("<Q", body, 10 + size)
                gtids = GtidSet.decode(body[22 + size :]) if body[22 + size :] else GtidSet()
                self._dump(Dump(server_id, name, offset, flags, gtids))
            else:  # registering, a ping, a database
                self.server.said.append(f"command {command}")
                self.ok()

    def _query(self, statement: str) -> None:
        answer = self.server.answer(statement)
        if re.match(r"SET @(master|source)_binlog_checksum", statement):
            self.checksums = "NONE" not in statement
        if callable(answer):
            answer = answer()
        if isinstance(answer, ServerError):
            self.fail(answer)
        elif not answer:
            self.ok() if _WITHOUT_ROWS.match(statement) else self._rows([], 1)
        else:
            self._rows(answer, len(answer[0]))

    def _rows(self, rows: Rows, columns: int) -> None:
        self.send(bytes([columns]))
        for at in range(columns):
            name = f"c{at}".encode()
            self.send(
                b"\x03def\0\0\0" + bytes([len(name)]) + name + bytes([len(name)]) + name + b"\x0c"
                + pack("<HIBHBH", 45, 1024, 0xFD, 0, 0, 0)
            )  # fmt: skip
        self.send(b"\xfe" + pack("<HH", 0, 2))
        for row in rows:
            self.send(b"".join(b"\xfb" if value is None else _length(str(value).encode()) for value in row))
        self.send(b"\xfe" + pack("<HH", 0, 2))

    # -- The log

    def _dump(self, dump: Dump) -> None:
        server = self.server
        server.said.append(f"dump {dump.file}:{dump.offset} for {dump.server_id}")
        if dump.server_id:
            former = server._dumps.get(dump.server_id)
            server._dumps[dump.server_id] = dump
            if former is not None:
                former.replaced.set()
                with server._grown:
                    server._grown.notify_all()
        names = list(server.logs)
        name = dump.file or names[0]
        if name not in server.logs:
            self.fail(ServerError(1236, "Could not find first log file name in binary log index file"))
            return
        if dump.offset > len(server.logs[name]):
            self.fail(ServerError(1236, "Client requested source to start replication from position > file size"))
            return
        sent, offset = 0, max(dump.offset, 4)
        while True:
            self._send_event(_rotate(name, offset, checksum=self._has_sums(name) and self.checksums))
            for event in self._events(name, offset, dump):
                if server.fail_after is not None and sent >= server.fail_after[0]:
                    self.fail(server.fail_after[1])
                    return
                if server.break_after is not None and sent >= server.break_after:
                    server.break_after = None
                    self.socket.shutdown(socket.SHUT_RDWR)
                    return
                if event is None:
                    text = "A replica with the same server_uuid/server_id as this replica has connected to the source"
                    self.fail(ServerError(1236, text))
                    return
                self._send_event(event)
                sent += 1
            names = list(server.logs)
            at = names.index(name)
            if server._ended.is_set():
                return
            if at + 1 == len(names):
                self.send(b"\xfe\0\0\0\0")
                return
            name, offset = names[at + 1], 4

    def _has_sums(self, name: str) -> bool:
        data = self.server.logs[name]
        size = int.from_bytes(data[13:17], "little")
        return len(data) > 8 and data[4 + size - 5] == 1

    def _events(self, name: str, offset: int, dump: Dump) -> Any:
        """The events of a file, and heartbeats at the end of the last; None where another reader took the number."""
        server = self.server
        at, skipping = 4, False
        while True:
            data = server.logs[name]
            if at + 19 > len(data):
                if name != list(server.logs)[-1] or dump.flags & 1:
                    return
                with server._grown:
                    grew = server._grown.wait_for(partial(self._goes_on, name, len(data), dump), server.heartbeat_s)
                if server._ended.is_set():
                    return
                if dump.replaced.is_set():
                    yield None
                    return
                if not grew and not server.silent:
                    yield self._heartbeat(name, at)
                continue
            size = int.from_bytes(data[at + 9 : at + 13], "little")
            event = data[at : at + size]
            kind = event[4]
            if kind == _FORMAT and at == 4:
                yield event if offset == 4 else _fake_format(event)
            elif at >= offset:
                if dump.gtids is not None and kind in {_GTID, _ANONYMOUS}:
                    skipping = kind == _GTID and dump.gtids.has(_uuid(event[20:36]), unpack_from("<Q", event, 36)[0])
                if not skipping:
                    yield event if self.checksums or not self._has_sums(name) else _without_sum(event)
            at += size

    def _goes_on(self, name: str, size: int, dump: Dump) -> bool:
        """Whether there is something to do at the end of the log."""
        server = self.server
        ended = server._ended.is_set() or dump.replaced.is_set()
        return ended or len(server.logs[name]) > size or name != list(server.logs)[-1]

    def _heartbeat(self, name: str, at: int) -> bytes:
        return made_event(_HEARTBEAT, name.encode(), time=0, end=at & 0xFFFFFFFF, flags=0x20,
                          checksum=self.checksums and self._has_sums(name))  # fmt: skip

    def _send_event(self, event: bytes) -> None:
        self.send(b"\0" + event)


def made_event(
    kind: int, body: bytes, *, time: int = 1_700_000_000, server_id: int = 1, end: int = 0, flags: int = 0,
    checksum: bool = True,
) -> bytes:  # fmt: skip
    """An event of its body."""
    size = 19 + len(body) + (4 if checksum else 0)
    event = pack("<IBIIIH", time, kind, server_id, size, end, flags) + body
    return event + (pack("<I", zlib.crc32(event)) if checksum else b"")


def format_event(version: str, *, time: int = 1_700_000_000, checksum: bool = True) -> bytes:
    """The first event of a file. It has a checksum of its own in any case."""
    lengths = {
        2: 13,
        4: 8,
        8: 0,
        9: 4,
        11: 0,
        14: 0,
        15: 95,
        17: 4,
        18: 26,
        19: 8,
        23: 8,
        24: 8,
        25: 8,
        30: 10,
        31: 10,
        32: 10,
    }
    lengths |= {33: 42, 34: 42, 38: 4, 39: 10, 40: 40}
    posts = bytes(lengths.get(kind, 0) for kind in range(1, 43))
    body = (
        pack("<H", 4)
        + version.encode().ljust(50, b"\0")
        + pack("<I", time)
        + bytes([19])
        + posts
        + bytes([int(checksum)])
    )
    return made_event(_FORMAT, body, time=time, end=4 + 19 + len(body) + 4)


def log_of(
    events: Sequence[tuple[int, bytes]], version: str = "8.0.36", *, time: int = 1_700_000_000, checksum: bool = True
) -> bytes:
    """A log file of kinds and bodies of events, which get their places."""
    data = MAGIC + format_event(version, time=time, checksum=checksum)
    for kind, body in events:
        end = len(data) + 19 + len(body) + (4 if checksum else 0)
        data += made_event(kind, body, time=time, end=end & 0xFFFFFFFF, checksum=checksum)
    return data


def _rotate(name: str, offset: int, *, checksum: bool) -> bytes:
    return made_event(_ROTATE, pack("<Q", offset) + name.encode(), time=0, flags=0x20, checksum=checksum)


def _fake_format(event: bytes) -> bytes:
    """The first event as it is sent to who starts behind it: without its place, and without the time of its server."""
    changed = event[:13] + bytes(4) + event[17:71] + bytes(4) + event[75:-4]
    return changed + pack("<I", zlib.crc32(changed))


def _without_sum(event: bytes) -> bytes:
    return event[:9] + pack("<I", len(event) - 4) + event[13:-4]


def _uuid(raw: bytes) -> str:
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _length(data: bytes) -> bytes:
    size = len(data)
    if size < 251:
        return bytes([size]) + data
    return (b"\xfc" + pack("<H", size) if size < 1 << 16 else b"\xfd" + size.to_bytes(3, "little")) + data

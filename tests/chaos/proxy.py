"""A TCP proxy in front of a broker: cuts its clients off, and swallows or delays the answers to EndTxn."""

from __future__ import annotations

import socket
import struct
import threading
import time
from contextlib import suppress

END_TXN = 26


class Proxy:
    """Listens on one port of loopback, and forwards to another, until `close`."""

    def __init__(self, port: int, to: int) -> None:
        self._to = to
        self._listener = socket.create_server(("127.0.0.1", port))
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self.cut = False
        self.drop = 0
        """How many answers to EndTxn are yet to be swallowed."""
        self.delay = 0
        """How many are yet to be delayed."""
        self.delay_s = 0.0
        self.struck = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.cut:
                client.close()
                continue
            try:
                broker = socket.create_connection(("127.0.0.1", self._to), 5)
                broker.settimeout(None)
            except OSError:
                client.close()
                continue
            with self._lock:
                self._open |= {client, broker}
            ends: set[int] = set()
            writing = threading.Lock()
            threading.Thread(target=self._requests, args=(client, broker, ends), daemon=True).start()
            threading.Thread(target=self._answers, args=(broker, client, ends, writing), daemon=True).start()

    def _requests(self, client: socket.socket, broker: socket.socket, ends: set[int]) -> None:
        with suppress(OSError):
            while (frame := _frame(client)) is not None:
                key, _, correlation = struct.unpack_from(">hhi", frame, 4)
                if key == END_TXN:
                    ends.add(correlation)
                broker.sendall(frame)
        self._close(client, broker)

    def _answers(self, broker: socket.socket, client: socket.socket, ends: set[int], writing: threading.Lock) -> None:
        with suppress(OSError):
            while (frame := _frame(broker)) is not None:
                (correlation,) = struct.unpack_from(">i", frame, 4)
                if correlation in ends:
                    ends.discard(correlation)
                    if self.drop:
                        self.drop -= 1
                        self.struck += 1
                        continue
                    if self.delay:
                        self.delay -= 1
                        self.struck += 1
                        threading.Thread(target=self._later, args=(client, frame, writing), daemon=True).start()
                        continue
                with writing:
                    client.sendall(frame)
        self._close(client, broker)

    def _later(self, client: socket.socket, frame: bytes, writing: threading.Lock) -> None:
        time.sleep(self.delay_s)
        with suppress(OSError), writing:
            client.sendall(frame)

    def _close(self, *sockets: socket.socket) -> None:
        for one in sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        with self._lock:
            self._open -= set(sockets)

    def cut_off(self, seconds: float) -> None:
        """Break all connections, and let none be made for a while."""
        self.cut = True
        with self._lock:
            there = list(self._open)
        self._close(*there)
        time.sleep(seconds)
        self.cut = False

    def close(self) -> None:
        """Listen no more."""
        self._listener.close()
        with self._lock:
            there = list(self._open)
        self._close(*there)


def _frame(source: socket.socket) -> bytes | None:
    """One request or answer, with its length in front."""
    head = _exactly(source, 4)
    if head is None:
        return None
    body = _exactly(source, int.from_bytes(head, "big"))
    return None if body is None else head + body


def _exactly(source: socket.socket, count: int) -> bytes | None:
    parts = []
    while count:
        part = source.recv(min(count, 1 << 16))
        if not part:
            return None
        parts.append(part)
        count -= len(part)
    return b"".join(parts)

"""A MySQL or MariaDB server, and how to log in to it: values that options become, without the client."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

CONNECT_S: Final = 15
"""Time that each step of a login may take, in seconds."""
READ_S: Final = 600.0
"""Time that a server may leave a statement, or the rows of one, without any answer, in seconds."""
TlsMode = Literal["disabled", "preferred", "required", "verify-ca", "verify-identity", "by-host"]


class Tls(msgspec.Struct, frozen=True):
    """How a connection is encrypted."""

    mode: TlsMode = "by-host"
    """`preferred` encrypts where the server can and verifies nothing, as MySQL's own clients do. `required` verifies
    nothing either; `verify-ca` verifies who signed the certificate, `verify-identity` also the host's name in it.
    `by-host` encrypts where the server can, and verifies both then, but on this machine's loopback device."""
    ca: str | None = None
    """A PEM file of authorities that are trusted; None: those of the system."""
    cert: str | None = None
    key: str | None = None
    key_password: str | None = None

    def __repr__(self) -> str:
        """The mode alone: there is a secret."""
        return f"Tls({self.mode!r})"


class MySqlServer(msgspec.Struct, frozen=True):
    """A server, and how to log in to it."""

    host: str
    port: int
    user: str
    password: str | None
    tls: Tls = Tls()
    connect_s: float = CONNECT_S
    tries: int = 1
    """How often connecting is tried at most, where what is wrong may pass."""
    read_s: float | None = READ_S
    """Seconds without any answer to a statement after which it has failed; None: as long as the peer is alive."""

    @property
    def name(self) -> str:
        """The server as messages name it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __repr__(self) -> str:
        """The address alone: there are secrets."""
        return f"MySqlServer({self.name!r})"

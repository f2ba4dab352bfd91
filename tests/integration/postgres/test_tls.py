"""TLS to a real PostgreSQL: who the server is, and who asks."""

from __future__ import annotations

import os
import pwd
from typing import TYPE_CHECKING, Any

import pytest
from postgres import running
from postgres_sink import driver_of, options

from ingest.errors import AccessError, IngestError
from ingest.sandbox.secure import Authority

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from postgres import Database


class Certificates:
    """Files with what an authority has issued."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.authority = folder, Authority("tests")
        self.root = self.write("root.crt", self.authority.pem)
        self.other = self.write("other.crt", Authority("others").pem)
        key, chain = self.authority.issue("by-certificate")
        self.client = {"sslcert": self.write("client.crt", chain), "sslkey": self.write("client.key", key)}

    def write(self, name: str, content: bytes) -> str:
        path = self.folder / name
        path.write_bytes(content)
        path.chmod(0o600)
        return str(path)


@pytest.fixture(scope="module")
def secured() -> Iterator[Database]:
    """A server of its own: others test one without TLS."""
    with running() as database:
        yield database


@pytest.fixture(scope="module")
def certificates(secured: Database, tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """The server speaks TLS, and lets one user in by a certificate."""
    made = Certificates(tmp_path_factory.mktemp("tls"))
    key, chain = made.authority.issue("server", "127.0.0.1")
    for name, content in {"server.key": key, "server.crt": chain, "root.crt": made.authority.pem}.items():
        path = secured.folder / "data" / name
        path.write_bytes(content)
        path.chmod(0o600)
        if os.getuid() == 0:
            user = pwd.getpwnam("postgres")
            os.chown(path, user.pw_uid, user.pw_gid)
    hba = secured.folder / "data" / "pg_hba.conf"
    hba.write_text(f"hostssl all by-certificate 127.0.0.1/32 cert\n{hba.read_text()}")
    secured.ask('CREATE ROLE "by-certificate" LOGIN')
    with secured.connection() as connection:
        connection.autocommit = True
        for setting, value in {"ssl_ca_file": "root.crt", "ssl": "on"}.items():
            connection.execute(f"ALTER SYSTEM SET {setting} = '{value}'")
    secured.control("reload")
    return made


def test_a_server_is_known_by_its_certificate(secured: Database, certificates: Certificates) -> None:
    sure: dict[str, Any] = {"sslmode": "verify-full", "sslrootcert": certificates.root}
    assert driver_of(options(secured, **sure)).connect() == f"127.0.0.1:{secured.port}/postgres"
    with pytest.raises(AccessError, match="certificate verify failed"):
        driver_of(options(secured, **{**sure, "sslrootcert": certificates.other})).connect()


def test_a_user_is_known_by_a_certificate(secured: Database, certificates: Certificates) -> None:
    given: dict[str, Any] = {"sslmode": "verify-ca", "sslrootcert": certificates.root, "username": "by-certificate"}
    assert driver_of(options(secured, **given, **certificates.client, password=None)).connect()
    with pytest.raises(IngestError, match="certificate"):
        driver_of(options(secured, **given, password=None)).connect()

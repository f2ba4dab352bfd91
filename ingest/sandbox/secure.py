"""The additions of `ingest sandbox up --secure`: certificates, a user, and secured listeners.

    SASL_SSL        TLS, and SCRAM-SHA-256 or SCRAM-SHA-512
    SSL             TLS with a client certificate (mTLS)
    SASL_PLAINTEXT  PLAIN, not encrypted

The certificate authority is made here, and its key is not kept. Only the user can read keys and passwords.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

USER: Final = "ingest"
VALID: Final = dt.timedelta(days=3650)
_MECHANISMS: Final = "SCRAM-SHA-256,SCRAM-SHA-512"

_PROPERTIES: Final = """\
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller},SASL_SSL://{host}:{sasl_ssl},\
SSL://{host}:{ssl},SASL_PLAINTEXT://{host}:{sasl_plaintext}
advertised.listeners=PLAINTEXT://{host}:{port},SASL_SSL://{host}:{sasl_ssl},SSL://{host}:{ssl},\
SASL_PLAINTEXT://{host}:{sasl_plaintext}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL,SSL:SSL,\
SASL_PLAINTEXT:SASL_PLAINTEXT
ssl.keystore.type=PEM
ssl.keystore.location={folder}/broker.pem
ssl.truststore.type=PEM
ssl.truststore.location={folder}/ca.pem
listener.name.ssl.ssl.client.auth=required
ssl.principal.mapping.rules=RULE:^CN=([^,]*).*$/$1/,DEFAULT
listener.name.sasl_ssl.sasl.enabled.mechanisms={mechanisms}
listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config=\
org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=\
org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.sasl_plaintext.sasl.enabled.mechanisms=PLAIN
listener.name.sasl_plaintext.plain.sasl.jaas.config=\
org.apache.kafka.common.security.plain.PlainLoginModule required user_{user}="{password}";
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
allow.everyone.if.no.acl.found=true
"""


@dataclass(frozen=True, slots=True)
class Secure:
    """The secured listeners of a broker by their Kafka names, and the directory of its credentials."""

    listeners: Mapping[str, str]
    folder: str
    user: str = USER

    @property
    def password(self) -> str:
        """The password of the user for SCRAM and PLAIN."""
        return (Path(self.folder) / "password").read_text(encoding="ascii").strip()


def prepare(folder: Path, host: str, ports: Mapping[str, int]) -> Secure:
    """Make certificates and password where they are missing, and return the listeners."""
    credentials(folder, host)
    names = {"sasl_ssl": "SASL_SSL", "ssl": "SSL", "sasl_plaintext": "SASL_PLAINTEXT"}
    return Secure({names[name]: f"{host}:{port}" for name, port in ports.items()}, str(folder))


def credentials(folder: Path, host: str) -> str:
    """Make certificates and password where they are missing, and return the password."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    if not (folder / "password").exists():
        _private(folder / "password", secrets.token_urlsafe(18).encode())
    if not (folder / "client.pem").exists():
        authority = Authority("ingest sandbox")
        (folder / "ca.pem").write_bytes(authority.pem)
        _private(folder / "broker.pem", b"".join(authority.issue("localhost", host)))
        key, chain = authority.issue(USER)
        _private(folder / "client.key", key)
        (folder / "client.pem").write_bytes(chain)
    return Secure({}, str(folder)).password


def properties(secure: Secure, host: str, port: int, controller: int, ports: Mapping[str, int]) -> str:
    """Return the lines of the broker's properties that replace those of a broker without security."""
    return _PROPERTIES.format(
        host=host,
        port=port,
        controller=controller,
        folder=Path(secure.folder).resolve(),
        user=secure.user,
        password=secure.password,
        mechanisms=_MECHANISMS,
        **ports,
    )


def client_properties(secure: Secure) -> dict[str, dict[str, str]]:
    """Return for each listener the properties that a pipeline writes as `properties.*`.

    The password is a placeholder.
    """
    ca = {"ssl.ca.location": f"{secure.folder}/ca.pem"}
    user = {"sasl.username": secure.user, "sasl.password": "${secret_values.sandbox}"}
    properties = {
        "SASL_SSL": {"sasl.mechanism": "SCRAM-SHA-256", **user, **ca},
        "SSL": {
            **ca,
            "ssl.certificate.location": f"{secure.folder}/client.pem",
            "ssl.key.location": f"{secure.folder}/client.key",
        },
        "SASL_PLAINTEXT": {"sasl.mechanism": "PLAIN", **user},
    }
    return {
        name: {"bootstrap.servers": servers, "security.protocol": name, **properties[name]}
        for name, servers in secure.listeners.items()
    }


class Authority:
    """A certificate authority. It can issue certificates as long as this object exists."""

    def __init__(self, name: str) -> None:
        """Make a key and a certificate for the authority."""
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        now = dt.datetime.now(dt.UTC)
        self._certificate = (
            x509.CertificateBuilder()
            .subject_name(self._name)
            .issuer_name(self._name)
            .public_key(self._key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=1))
            .not_valid_after(now + VALID)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.pem = self._certificate.public_bytes(serialization.Encoding.PEM)

    def issue(self, name: str, address: str | None = None, *, valid: dt.timedelta = VALID) -> tuple[bytes, bytes]:
        """Return a private key and a certificate chain, both in PEM, for a name.

        The certificate is valid from at least one hour ago. With a negative `valid` it has already expired.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        now = dt.datetime.now(dt.UTC)
        names: list[x509.GeneralName] = [x509.DNSName(name)]
        if address is not None:
            names.append(x509.IPAddress(ipaddress.ip_address(address)))
        certificate = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(min(now, now + valid) - dt.timedelta(hours=1))
            .not_valid_after(now + valid)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
                critical=False,
            )
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return private, certificate.public_bytes(serialization.Encoding.PEM) + self.pem


def _private(path: Path, data: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)

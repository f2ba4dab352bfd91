"""Why no client can be made of a configuration, or why none gets an answer: more than librdkafka says.

`usable` is asked before a client connects, all else after a failure: librdkafka does not tell a wrong port, or a
listener of another protocol, from a broker that is away (docs/adr/2026-11-29-what-answers-at-an-address.md).
"""

from __future__ import annotations

import datetime as dt
import os
import socket
import ssl
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, TypeAlias

from confluent_kafka import Consumer, KafkaException

from ingest.errors import AccessError, ConfigError
from ingest.kafka.msk import Login
from ingest.kafka.properties import BOOTSTRAP, OAUTH_ALLOWED, refuse_endpoint
from ingest.kafka.waiting import in_time

_FILES: Final = (
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.crl.location",
    "sasl.kerberos.keytab",
    "https.ca.location",
    "sasl.oauthbearer.assertion.private.key.file",
)
_FEATURES: Final = {"GSSAPI": "sasl_gssapi", "OAUTHBEARER": "sasl_oauthbearer"}
TLS_S: Final = 3.0
"""The time that a look at a certificate may take, in seconds."""
TRY_S: Final = 2.0
"""The time to wait for each answer, in seconds."""
MAX_ASKED: Final = 3
"""Addresses of a list that are asked."""
_API_VERSIONS: Final = 18
_METADATA: Final = 3
_LARGEST: Final = 1 << 24

Address: TypeAlias = tuple[str, int]
_PROTOCOLS: Final = {
    (False, "open"): "PLAINTEXT",
    (False, "login"): "SASL_PLAINTEXT",
    (True, "open"): "SSL",
    (True, "login"): "SASL_SSL",
    (True, ""): "SSL or SASL_SSL",
}
"""By whether TLS is spoken and what a question is answered with; one without a client's certificate may not be."""
_TLS_ALERT: Final = 0x15


def has_feature(name: str) -> bool:
    """Return whether librdkafka was built with a feature, e.g. `sasl_gssapi`."""
    try:
        # Setting this property asks whether these features are there
        Consumer({"group.id": "features", "builtin.features": name, "log_level": 0}).close()
    except KafkaException:
        return False
    return True


def usable(conf: Mapping[str, str]) -> None:
    """Raise ConfigError or AccessError for settings that cannot work, with a remedy."""
    for name in _FILES:
        place = conf.get(name)
        if place and place != "probe" and not os.access(place, os.R_OK):
            why = "it cannot be read by this user" if Path(place).exists() else "there is no such file"
            msg = f"cannot use properties.{name}: {place}: {why}"
            raise ConfigError(msg, "files that a pipeline names must be there on every machine that runs it")
    refused = refuse_endpoint(conf, os.environ.get(OAUTH_ALLOWED, ""))
    if refused is not None:
        hint = f"if credentials may be sent there, add it to the environment variable {OAUTH_ALLOWED} of the run"
        raise AccessError(refused, hint)
    if not conf.get("security.protocol", "").upper().startswith("SASL"):
        return
    login = Login.of(conf)
    if login is not None:
        login.token()
    mechanism = (conf.get("sasl.mechanism") or conf.get("sasl.mechanisms") or "GSSAPI").upper()
    feature = _FEATURES.get(mechanism)
    if feature is not None and not has_feature(feature):
        msg = f"the installed Kafka client cannot do sasl.mechanism {mechanism}: librdkafka was built without it"
        hint = "use the project's image, or build a client with Kerberos: docker/kerberos-client.sh (docs/kafka.md)"
        raise ConfigError(msg, hint)


class NoKafkaError(Exception):
    """An answer that is not Kafka's."""


def addresses(servers: str) -> list[Address]:
    """Return hosts and ports of `host:port,host:port`; a server without a port has Kafka's usual one."""
    out = []
    for server in filter(None, (part.strip().rpartition("://")[2] for part in servers.split(","))):
        host, colon, port = server.rpartition(":")
        plain = not colon or not port.isdigit()
        out.append((server.strip("[]"), 9092) if plain else (host.strip("[]"), int(port)))
    return out


def unresolved(hosts: Iterable[str]) -> dict[str, str]:
    """Return those of the names that do not resolve, each with why."""
    out = {}
    for host in hosts:
        try:
            socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except socket.gaierror as exc:
            out[host] = exc.strerror or "no such name"
        except UnicodeError:
            out[host] = "it cannot be a host's name"
    return out


def wrong_address(conf: Mapping[str, str], what: str) -> ConfigError | None:
    """Return why trying again probably does not help; None where nothing is found.

    It is for names that nobody knows, a listener of another protocol, or no Kafka.
    """
    servers = addresses(conf[BOOTSTRAP])
    unknown = unresolved({host for host, _ in servers})
    resolved = [(host, port) for host, port in servers if host not in unknown]
    if servers and not resolved:
        names = ", ".join(f"{name!r} ({why})" for name, why in sorted(unknown.items()))
        msg = f"cannot {what}: properties.{BOOTSTRAP} names a host that does not resolve: {names}"
        return ConfigError(msg, "correct the name, or see whether this machine's DNS knows it")
    ours = conf.get("security.protocol", "plaintext").upper()
    for host, port in resolved[:MAX_ASKED]:
        try:
            theirs = listener(host, port)
        except NoKafkaError:
            msg = f"cannot {what}: what answers at {host}:{port} does not speak Kafka's protocol"
            return ConfigError(msg, f"correct the address in properties.{BOOTSTRAP}")
        if theirs is not None and ours not in theirs.split(" or "):
            msg = f"cannot {what}: security.protocol is {ours}, and the broker's listener at {host}:{port} is {theirs}"
            hint = f"set properties.security.protocol to {theirs}, or give the port of the broker's {ours} listener"
            return ConfigError(msg, hint)
    return None


def refuse_advertised(brokers: Iterable[Address], servers: str) -> None:
    """Raise ConfigError where a cluster answers and says of all its brokers names that do not resolve here."""
    asked = {host for host, _ in addresses(servers)}
    advertised = sorted(set(brokers))[:MAX_ASKED]
    if not advertised or asked & {host for host, _ in advertised}:
        return
    unknown: dict[str, str] = {}
    if in_time(TRY_S, lambda: unknown.update(unresolved(host for host, _ in advertised))) and all(
        host in unknown for host, _ in advertised
    ):
        host, port = advertised[0]
        msg = (
            f"the broker at {servers} answers, and says that it is at {host}:{port}, a name that does not resolve here"
        )
        hint = "correct the broker's advertised.listeners, or make that name known to this machine (DNS, /etc/hosts)"
        raise ConfigError(f"{msg}: {unknown[host]}", hint)


def listener(host: str, port: int) -> str | None:
    """Return the security protocol of a listener; None where nothing answers. Raises NoKafkaError."""
    answer: str | None
    for tls in (False, True):
        try:
            plain = socket.create_connection((host, port), TRY_S)
        except OSError:
            return None
        try:
            with plain:
                if not tls:
                    answer = _speaks(plain)
                else:
                    with _anybody().wrap_socket(plain, server_hostname=host) as wrapped:
                        answer = _speaks(wrapped)
        except ssl.SSLError as exc:
            answer = "" if "ALERT" in (exc.reason or "") else None
        except OSError:
            continue
        if answer or (tls and answer is not None):
            return _PROTOCOLS[tls, answer]
    return None


def _anybody() -> ssl.SSLContext:
    """Return a context that trusts anybody: nothing is sent that anybody may not know."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _speaks(connection: socket.socket) -> str:
    """`open` where questions are answered at once, `login` where only the first one is; empty where none is."""
    if not _answers(connection, _API_VERSIONS, b""):
        return ""
    return "open" if _answers(connection, _METADATA, struct.pack(">i", 0)) else "login"


def _answers(connection: socket.socket, api: int, body: bytes) -> bool:
    """Return whether a request of version 0 is answered, not refused.

    Raises NoKafkaError, and TimeoutError where neither happens.
    """
    name = b"ingest"
    request = struct.pack(">hhih", api, 0, api, len(name)) + name + body
    try:
        connection.sendall(struct.pack(">i", len(request)) + request)
        head = _exactly(connection, 8)
        if len(head) < 8:
            if head and head[0] != _TLS_ALERT:
                raise NoKafkaError
            return False
        size, answered = struct.unpack(">ii", head)
        if head[0] == _TLS_ALERT:
            return False
        if answered != api or not 4 <= size <= _LARGEST:
            raise NoKafkaError
        _exactly(connection, size - 4)
    except (ConnectionError, ssl.SSLError):
        return False
    return True


def _exactly(connection: socket.socket, count: int) -> bytes:
    """So many bytes, or what there is until the other side closes."""
    out = b""
    while len(out) < count:
        some = connection.recv(min(count - len(out), 1 << 16))
        if not some:
            break
        out += some
    return out


def why_untrusted(servers: str, conf: Mapping[str, str]) -> str:
    """Return what is wrong with the certificate of the first server that answers; an empty text where nothing is found.

    Connects to the servers, each for at most TLS_S seconds.
    """
    context = ssl.create_default_context()
    context.check_hostname = conf.get("ssl.endpoint.identification.algorithm", "https") != "none"
    try:
        if "ssl.ca.pem" in conf:
            context.load_verify_locations(cadata=conf["ssl.ca.pem"])
        elif "ssl.ca.location" in conf:
            place = Path(conf["ssl.ca.location"])
            context.load_verify_locations(**({"capath": str(place)} if place.is_dir() else {"cafile": str(place)}))
    except (OSError, ssl.SSLError, ValueError):
        return ""
    for server in servers.split(","):
        host, _, port = server.strip().rpartition(":")
        try:
            with (
                socket.create_connection((host.strip("[]"), int(port)), TLS_S) as plain,
                context.wrap_socket(plain, server_hostname=host.strip("[]")),
            ):
                return ""
        except ssl.SSLCertVerificationError as exc:
            return exc.verify_message
        except (OSError, ValueError):
            continue
    return ""


def own_certificate(conf: Mapping[str, str]) -> str:
    """Return what is wrong with the client's own certificate; an empty text where its file shows no problem."""
    from cryptography import x509  # noqa: PLC0415  (only after a failure)

    try:
        pem = conf.get("ssl.certificate.pem", "").encode()
        if not pem:
            if "ssl.certificate.location" not in conf:
                return "the pipeline file gives none"
            pem = Path(conf["ssl.certificate.location"]).read_bytes()
        until = x509.load_pem_x509_certificate(pem).not_valid_after_utc
    except (OSError, ValueError):
        return ""
    return f"it expired on {until:%Y-%m-%d}" if until < dt.datetime.now(dt.UTC) else ""

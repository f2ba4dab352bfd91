"""`properties.*` of a pipeline file, as the client of this tool understands them.

The reference documents speak of the Java client's properties; this tool runs on librdkafka. Same names pass through,
names without meaning here are accepted silently, other Java names are translated or refused with the librdkafka name to
use. Every property of Kafka's Java clients, 2.8 to 4.1, and of librdkafka (`catalogue.py`) is one of these; any other
name is unknown. Java's trust and key stores are the files that `connection.py` reads. Rules:
docs/spec/configuration.md#client-properties. Starts no client and imports none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final, Literal, NamedTuple

from ingest.kafka.catalogue import CLIENT

BOOTSTRAP: Final = "bootstrap.servers"
CREATE: Final = "allow.auto.create.topics"
TRUE: Final = frozenset({"true", "t", "1"})
FALSE: Final = frozenset({"false", "f", "0"})
LOG_LEVEL: Final = {"log_level": 4}
"""The log level of clients that read or write records: warnings and errors, which a client keeps for whoever asks."""
LARGEST: Final = "10485760"
"""Bytes of the largest message that a producer takes, where the pipeline does not say otherwise."""

MEANINGLESS: Final = frozenset({
    "key.serializer", "value.serializer", "key.deserializer", "value.deserializer", "max.poll.records",
    "client.dns.lookup", "metric.reporters", "metrics.num.samples", "metrics.recording.level",
    "metrics.sample.window.ms", "interceptor.classes", "partition.discovery.interval.ms", "client.id.prefix",
    "register.consumer.metrics", "exclude.internal.topics", "auto.include.jmx.reporter", "enable.metrics.push",
    "max.block.ms", "request.timeout.ms", "default.api.timeout.ms", "sasl.client.callback.handler.class",
    "sasl.login.class", "ssl.provider", "ssl.secure.random.implementation", "ssl.keymanager.algorithm",
    "ssl.trustmanager.algorithm", "sasl.kerberos.ticket.renew.jitter", "sasl.kerberos.ticket.renew.window.factor",
    "sasl.login.refresh.buffer.seconds", "sasl.login.refresh.min.period.seconds", "sasl.login.refresh.window.factor",
    "sasl.login.refresh.window.jitter", "connector.auth.open", "partition.assignment.strategy",
    "internal.auto.downgrade.txn.commit", "internal.leave.group.on.close", "group.protocol", "group.remote.assignor",
    "internal.throw.on.fetch.stable.offset.unsupported", "share.acknowledgement.mode", "bootstrap.controllers",
    "partitioner.adaptive.partitioning.enable", "partitioner.availability.timeout.ms", "partitioner.ignore.keys",
    "sasl.login.connect.timeout.ms", "sasl.login.read.timeout.ms", "sasl.login.retry.backoff.ms",
    "sasl.login.retry.backoff.max.ms", "sasl.oauthbearer.clock.skew.seconds", "sasl.oauthbearer.expected.audience",
    "sasl.oauthbearer.expected.issuer", "sasl.oauthbearer.jwks.endpoint.url", "sasl.oauthbearer.scope.claim.name",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms", "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", "sasl.oauthbearer.header.urlencode",
})  # fmt: skip
"""Java properties that mean nothing here: pasted pipelines have them. The engine assigns partitions itself, makes its
own threads and metrics, passes on bytes, and is a client only, which validates no tokens."""

RENAMED: Final = {
    "buffer.memory": "queue.buffering.max.kbytes (in KiB)",
    "max.request.size": "message.max.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "metadata.max.idle.ms": "topic.metadata.refresh.interval.ms",
    "ssl.engine.factory.class": "the ssl.* properties: TLS is OpenSSL's here",
    "sasl.login.callback.handler.class": "sasl.oauthbearer.method: oidc with sasl.oauthbearer.* for OAUTHBEARER, "
    "and sasl.mechanism: AWS_MSK_IAM for Amazon MSK",
    "partitioner.class": "nothing: this sink partitions by the key's hash, as the Java client does",
    "transactional.id": "sink.transactional-id-prefix",
    "transaction.two.phase.commit.enable": "nothing: this sink's transactions are committed in one phase",
    "security.providers": "the ssl.* and sasl.* properties: TLS is OpenSSL's here",
    "socket.connection.setup.timeout.max.ms": "socket.connection.setup.timeout.ms, which is not lengthened here",
    "compression.gzip.level": "compression.level",
    "compression.lz4.level": "compression.level",
    "compression.zstd.level": "compression.level",
    "sasl.oauthbearer.assertion.template.file": "sasl.oauthbearer.assertion.jwt.template.file",
    "sasl.oauthbearer.jwt.retriever.class": "sasl.oauthbearer.method: oidc with sasl.oauthbearer.*",
    "sasl.oauthbearer.jwt.validator.class": "sasl.oauthbearer.method: oidc with sasl.oauthbearer.*",
    "metadata.broker.list": "bootstrap.servers",
}
"""Properties that are called otherwise here, with what to write."""

MANAGED: Final = frozenset({
    "enable.auto.commit", "auto.commit.enable", "enable.auto.offset.store", "partitioner", "delivery.report.only.error",
    "enable.partition.eof", "on_delivery", "logger", "oauth_cb", "plugin.library.paths", "builtin.features",
    "ssl.engine.location", "ssl.engine.id", "ssl.providers", "sasl.kerberos.kinit.cmd", "debug", "log_level",
    "log.queue", *(name for name, known in CLIENT.items() if known.values == "callback"),
})  # fmt: skip
"""Properties that this tool sets itself, that would run code, or that would write secrets to a log."""

SECRET: Final = re.compile(
    r"pass|pasw|pwd|psw|secret|jaas|token|private|credential|user.?info|access.?key|api.?key|auth.?key|oauth|bearer|assertion"
    r"|custom-header|\.pem$|\.key$|certificate\.chain$",
    re.IGNORECASE,
)
"""Names whose values are never shown, of options that there are and of misspelt ones."""

NAMED: Final = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "connector.kerberos.principal": "sasl.kerberos.principal",
    "connector.kerberos.keytab": "sasl.kerberos.keytab",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
}
"""Other clients' properties that mean the same as one of librdkafka's."""

KRB5: Final = "connector.kerberos.krb5"
"""The property that names Kerberos's configuration, krb5.conf."""

MSK: Final = "AWS_MSK_IAM"
"""The mechanism of Amazon's clusters: OAUTHBEARER, whose tokens are signed with credentials of AWS (`msk.py`)."""
REGION: Final = "aws.region"
AWS: Final = (REGION, "aws.profile", "aws.role.arn", "aws.role.session.name")
"""The properties of that login, in the order in which `Login` has them. librdkafka gets none of them."""

STORES: Final = frozenset(
    f"ssl.{store}.{name}" for store in ("truststore", "keystore") for name in ("location", "password", "type")
)
"""Properties of Java's stores."""
_STORE_TYPES: Final = ("JKS", "PKCS12", "PEM")
_PEM: Final = (".pem", ".crt", ".cer", ".cert")

KNOWN: Final = frozenset({
    *CLIENT, *MEANINGLESS, *RENAMED, *MANAGED, *NAMED, *STORES, *AWS, KRB5, "sasl.jaas.config", "ssl.protocol",
    "ssl.enabled.protocols",
})  # fmt: skip
"""Every property that has a meaning, or is known to have none."""

OAUTH_URL: Final = "sasl.oauthbearer.token.endpoint.url"
OAUTH_ALLOWED: Final = "INGEST_OAUTHBEARER_ALLOWED_URLS"
"""The environment variable that names the only token endpoints which credentials may be sent to, by commas."""

_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")
_TLS: Final = frozenset({"TLS", "TLSv1.2", "TLSv1.3"})
# librdkafka puts these into a command line for kinit, which a shell runs
_KERBEROS: Final = {
    "sasl.kerberos.principal": re.compile(r"[A-Za-z0-9][A-Za-z0-9._/@-]*"),
    "sasl.kerberos.service.name": re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*"),
    "sasl.kerberos.keytab": re.compile(r"[A-Za-z0-9/.][A-Za-z0-9._/@+=:,-]*"),
}
_ENDPOINT: Final = "ssl.endpoint.identification.algorithm"
_JAAS_NAME: Final = "sasl.jaas.config"
_JAAS: Final = re.compile(r"\s*(\S+)\s+(?i:required|requisite|sufficient|optional)\b(.*?);?\s*", re.DOTALL)
_JAAS_OPTION: Final = re.compile(r"""([\w.]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([^\s"';]+))""")
_WORDS: Final = {"acks": ("all",), "request.required.acks": ("all",), "auto.offset.reset": ("none",)}
"""Values of properties that are taken beside those of the listing."""
_REGION: Final = re.compile(r"[a-z]{2}(?:-[a-z]+)+-\d+")
_IPV6: Final = re.compile(r"[0-9A-Fa-f:.]+(%\w+)?")
_LISTENERS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "OAUTHBEARER", MSK)
_OF_MSK: Final = re.compile(
    r"\.kafka(?:-serverless)?\.([a-z]{2}(?:-[a-z]+)+-\d+)\.amazonaws\.com(?:\.cn)?(?::\d+)?\s*(?:,|$)"
)
"""The region in the name of a broker, as Amazon gives it."""
_IAM_OPTIONS: Final = {
    "awsProfileName": "aws.profile",
    "awsRoleArn": "aws.role.arn",
    "awsRoleSessionName": "aws.role.session.name",
}


class PropertyError(ValueError):
    """Properties that cannot be used: for each its name, why, and what to do."""

    def __init__(self, *problems: tuple[str, str]) -> None:
        super().__init__("; ".join(text for _, text in problems))
        self.problems = problems


class Store(NamedTuple):
    """A store that properties name."""

    option: str
    """The property with its place."""
    place: str
    type: str
    """The type that the properties say, in upper case; an empty text where they say none."""
    password: str | None

    @property
    def is_pem(self) -> bool:
        """True if it is a file with PEM texts: librdkafka reads it by itself."""
        return self.type == "PEM" or (not self.type and self.place.lower().endswith(_PEM))


def store_of(properties: Mapping[str, str], kind: Literal["truststore", "keystore"]) -> Store | None:
    """Return the trust store or the key store; None where there is none, or where a placeholder hides what it is."""
    option = f"ssl.{kind}.location"
    place, said = properties.get(option, ""), properties.get(f"ssl.{kind}.type", "")
    if not place or "${" in said or "${" in place:
        return None
    return Store(option, place, said.upper(), properties.get(f"ssl.{kind}.password"))


def as_pem_files(properties: Mapping[str, str]) -> dict[str, str]:
    """Return librdkafka's properties for the stores that are PEM files."""
    out = {}
    trust, own = store_of(properties, "truststore"), store_of(properties, "keystore")
    if trust is not None and trust.is_pem:
        out["ssl.ca.location"] = trust.place
    if own is not None and own.is_pem:  # one file with the key and the certificates
        out["ssl.certificate.location"] = out["ssl.key.location"] = own.place
        if own.password is not None:
            out["ssl.key.password"] = own.password
    return out


def _impossible_type(name: str, value: str) -> str:
    """Return why a type of a store is not possible; an empty text where it is, and for other properties."""
    if not name.endswith("store.type") or value.upper() in _STORE_TYPES or "${" in value:
        return ""
    return f"{name}: {value[:60]!r} is not possible (possible: {', '.join(_STORE_TYPES)})"


def check(properties: Mapping[str, str]) -> Mapping[str, str]:
    """Return the properties, when all of them can be used; raises PropertyError with all that cannot."""
    translate(properties)
    return properties


def translate(properties: Mapping[str, str]) -> dict[str, str]:
    """Return librdkafka's configuration for these properties, but for files that the driver reads.

    Raise PropertyError.
    """
    out: dict[str, str] = as_pem_files(properties)
    problems = [] if BOOTSTRAP in properties else [(BOOTSTRAP, f"option 'properties.{BOOTSTRAP}' is missing")]
    for name, value in properties.items():
        if name in MEANINGLESS:
            continue
        refused = _refused(name, value) or _impossible(name, value) or _impossible_type(name, value)
        if refused:
            problems.append((name, refused))
        elif name == _JAAS_NAME:
            out.update(_jaas(value, problems))
        elif name == _ENDPOINT:
            out[name] = value or "none"
        elif name not in STORES and name not in {"ssl.protocol", "ssl.enabled.protocols", KRB5}:
            out[NAMED.get(name, name)] = value
    problems += _log_in_to_msk(out, properties)
    problems += [
        (_JAAS_NAME, why) for name in _KERBEROS if name not in properties if (why := _refused(name, out.get(name, "x")))
    ]
    if problems:
        raise PropertyError(*problems)
    return out


def uses_msk(properties: Mapping[str, str]) -> bool:
    """Return whether these properties log in to a cluster of Amazon's."""
    return MSK in (properties.get("sasl.mechanism"), properties.get("sasl.mechanisms"))


def _log_in_to_msk(conf: dict[str, str], given: Mapping[str, str]) -> list[tuple[str, str]]:
    """Put the region of a login to MSK, and librdkafka's mechanism, into a configuration. Return what is wrong."""
    if not uses_msk(conf):
        return [(name, f"{name} has an effect with sasl.mechanism: {MSK} only") for name in AWS if name in conf]
    conf.pop("sasl.mechanisms", None)
    conf["sasl.mechanism"] = "OAUTHBEARER"
    problems = []
    protocol, region = given.get("security.protocol", ""), conf.get(REGION, "")
    if protocol.upper() != "SASL_SSL" and not _is_to_come(protocol):
        text = f"sasl.mechanism {MSK} needs security.protocol: SASL_SSL: its tokens let in whoever reads them"
        problems.append(("security.protocol" if protocol else "sasl.mechanism", text))
    if not region and (found := _OF_MSK.search(conf.get(BOOTSTRAP, ""))) is not None:
        region = conf[REGION] = found[1]
    if not region and not _is_to_come(conf.get(BOOTSTRAP, "")):
        text = f"sasl.mechanism {MSK}: the servers' names do not tell the region; write properties.{REGION}"
        problems.append(("sasl.mechanism", text))
    elif region and not _REGION.fullmatch(region) and not _is_to_come(region):
        problems.append((REGION, f"{REGION}: a region is written as eu-central-1"))
    return problems


def _is_to_come(value: str) -> bool:
    """Return whether a value has a placeholder that nothing has filled in: `check` needs no variables."""
    return "${" in value


def shared(conf: Mapping[str, str]) -> dict[str, str]:
    """Return the part of a client's configuration that any other client takes, too."""
    return {name: value for name, value in conf.items() if name not in CLIENT or CLIENT[name].scope == "*"}


def idle(properties: Mapping[str, str], scope: str) -> list[str]:
    """Return those of the properties that only the other side has: `scope` is `C` for consumers, `P` for producers."""
    of = {name: CLIENT.get(NAMED.get(name, name)) for name in properties if name not in MEANINGLESS}
    return [name for name, known in of.items() if known is not None and known.scope not in {scope, "*"}]


def _refused(name: str, value: str) -> str:
    """Return why a property cannot be used, with what to use instead; empty where it can."""
    if not _NAME.fullmatch(name):
        return "the name of a client property has letters, digits, '.', '_' and '-' only; write properties.name: value"
    if name not in KNOWN:
        close = get_close_matches(name, KNOWN, n=1, cutoff=0.6)
        return f"unknown client property {name[:100]!r}{f', did you mean {close[0]!r}?' if close else ''}"
    if name in MANAGED:
        return f"{name!r} is set by the tool itself and cannot be changed"
    if name in RENAMED:
        whose = "called otherwise here" if name in CLIENT else "known to the Java client only"
        return f"{name!r} is {whose}; use {RENAMED[name]}"
    if name in {"ssl.protocol", "ssl.enabled.protocols"} and not {part.strip() for part in value.split(",")} <= _TLS:
        return f"{name}: only TLSv1.2 and TLSv1.3 are possible here, and both are on"
    allowed = _KERBEROS.get(name)
    if allowed is not None and not allowed.fullmatch(value):
        return f"{name} has characters that are not allowed in it"
    return ""


def _impossible(name: str, value: str) -> str:
    """Return why the client would refuse a value, as far as that is known; empty where it takes it."""
    if name in {"sasl.mechanism", "sasl.mechanisms"}:
        return (
            ""
            if value in _MECHANISMS
            else f"{name}: {value[:60]!r} is not possible (possible: {', '.join(_MECHANISMS)})"
        )
    if name == BOOTSTRAP:
        return _no_servers(value)
    known = CLIENT.get(NAMED.get(name, name))
    if known is None or value.lower() in _WORDS.get(name, ()) or (name == _ENDPOINT and not value):
        return ""
    why = known.refuse(value)
    return f"{name}: {why}" if why else ""


def _no_servers(value: str) -> str:
    """Return why a list of servers names none that can be asked; empty where each can. Quotes nothing of it."""
    servers = [part.strip() for part in value.split(",") if part.strip()]
    if not servers:
        return f"{BOOTSTRAP}: no server is named; write host:port,host:port"
    if ";" in value:
        return f"{BOOTSTRAP}: servers are separated by ','; write host:port,host:port"
    for server in servers:
        protocol, scheme, address = server.rpartition("://")
        if scheme and protocol.upper() not in _LISTENERS:
            return f"{BOOTSTRAP}: only {', '.join(_LISTENERS)} can stand before '://'; write host:port,host:port"
        host, colon, port = address.rpartition(":")
        if not address or (colon and not host):
            return f"{BOOTSTRAP}: a server has no name; write host:port,host:port"
        alone = not colon or address.endswith("]") or (":" in host and bool(_IPV6.fullmatch(address)))
        if not alone and not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 1 << 16):
            return f"{BOOTSTRAP}: a port is a number from 1 to 65535; write host:port,host:port"
    return ""


def _jaas(value: str, problems: list[tuple[str, str]]) -> dict[str, str]:
    """Return a login module of Java's as properties."""
    login = _JAAS.fullmatch(value)
    module = login.group(1).rpartition(".")[2] if login else ""
    options = {
        name: re.sub(r"\\(.)", r"\1", quoted) if quoted else single or bare
        for name, quoted, single, bare in (_JAAS_OPTION.findall(login.group(2)) if login else ())
    }
    if module in {"PlainLoginModule", "ScramLoginModule"}:
        if "username" in options and "password" in options:
            return {"sasl.username": options["username"], "sasl.password": options["password"]}
        problems.append((_JAAS_NAME, "username and password are missing; use sasl.username and sasl.password"))
    elif module == "Krb5LoginModule":
        names = {"keyTab": "keytab", "principal": "principal", "serviceName": "service.name"}
        return {f"sasl.kerberos.{names[n]}": v for n, v in options.items() if n in names}
    elif module == "IAMLoginModule":
        return {_IAM_OPTIONS[n]: v for n, v in options.items() if n in _IAM_OPTIONS}
    elif module == "OAuthBearerLoginModule":
        names = {"clientId": "client.id", "clientSecret": "client.secret", "scope": "scope"}
        return {f"sasl.oauthbearer.{names[n]}": v for n, v in options.items() if n in names}
    else:
        known = "PlainLoginModule, ScramLoginModule, Krb5LoginModule, OAuthBearerLoginModule and IAMLoginModule"
        problems.append((_JAAS_NAME, f"only {known} can be translated; use sasl.* properties"))
    return {}


def refuse_endpoint(conf: Mapping[str, str], allowed: str) -> str | None:
    """Return why these properties may not be used in a run: they would send credentials to an endpoint nobody allowed.

    `allowed` is what the environment variable `OAUTH_ALLOWED` holds: a pipeline file alone shall not decide that.
    """
    url = conf.get(OAUTH_URL)
    if url is None or url in {part.strip() for part in allowed.split(",")}:
        return None
    return f"properties.{OAUTH_URL} is not an allowed endpoint: {url}"

"""Which client properties are known, against the client itself and the names of Kafka's Java clients."""

from __future__ import annotations

import ctypes
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

from ingest.errors import TopicMissing
from ingest.kafka import catalogue
from ingest.kafka.admin import Cluster
from ingest.kafka.catalogue import CLIENT
from ingest.kafka.properties import (
    KNOWN,
    MANAGED,
    MEANINGLESS,
    NAMED,
    RENAMED,
    STORES,
    PropertyError,
    check,
    shared,
    translate,
)
from ingest.sources.kafka.options import KafkaSource

if TYPE_CHECKING:
    from collections.abc import Iterator

SERVERS = {"bootstrap.servers": "h:1"}
JAVA = """
acks allow.auto.create.topics auto.commit.interval.ms auto.offset.reset batch.size bootstrap.servers buffer.memory
check.crcs client.dns.lookup client.id client.rack compression.type connections.max.idle.ms default.api.timeout.ms
delivery.timeout.ms enable.auto.commit enable.idempotence exclude.internal.topics fetch.max.bytes fetch.max.wait.ms
fetch.min.bytes group.id group.instance.id heartbeat.interval.ms interceptor.classes internal.auto.downgrade.txn.commit
internal.leave.group.on.close internal.throw.on.fetch.stable.offset.unsupported isolation.level key.deserializer
key.serializer linger.ms max.block.ms max.in.flight.requests.per.connection max.partition.fetch.bytes
max.poll.interval.ms max.poll.records max.request.size metadata.max.age.ms metadata.max.idle.ms metric.reporters
metrics.num.samples metrics.recording.level metrics.sample.window.ms partition.assignment.strategy partitioner.class
receive.buffer.bytes reconnect.backoff.max.ms reconnect.backoff.ms request.timeout.ms retries retry.backoff.ms
sasl.client.callback.handler.class sasl.jaas.config sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin
sasl.kerberos.service.name sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor
sasl.login.callback.handler.class sasl.login.class sasl.login.refresh.buffer.seconds
sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor sasl.login.refresh.window.jitter sasl.mechanism
security.protocol security.providers send.buffer.bytes session.timeout.ms socket.connection.setup.timeout.max.ms
socket.connection.setup.timeout.ms ssl.cipher.suites ssl.enabled.protocols ssl.endpoint.identification.algorithm
ssl.engine.factory.class ssl.key.password ssl.keymanager.algorithm ssl.keystore.certificate.chain ssl.keystore.key
ssl.keystore.location ssl.keystore.password ssl.keystore.type ssl.protocol ssl.provider ssl.secure.random.implementation
ssl.trustmanager.algorithm ssl.truststore.certificates ssl.truststore.location ssl.truststore.password
ssl.truststore.type transaction.timeout.ms transactional.id value.deserializer value.serializer
"""
"""What ConsumerConfig, ProducerConfig and AdminClientConfig of kafka-clients 2.8.2 define."""
JAVA_SINCE = """
bootstrap.controllers compression.gzip.level compression.lz4.level compression.zstd.level enable.metrics.push
group.protocol group.remote.assignor metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy
partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms partitioner.ignore.keys
retry.backoff.max.ms sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.retry.backoff.max.ms
sasl.login.retry.backoff.ms sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file sasl.oauthbearer.assertion.private.key.file
sasl.oauthbearer.assertion.private.key.passphrase sasl.oauthbearer.assertion.template.file
sasl.oauthbearer.client.credentials.client.id sasl.oauthbearer.client.credentials.client.secret
sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer
sasl.oauthbearer.header.urlencode sasl.oauthbearer.jwks.endpoint.refresh.ms
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.ms
sasl.oauthbearer.jwks.endpoint.url sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class
sasl.oauthbearer.scope sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name
sasl.oauthbearer.token.endpoint.url share.acknowledgement.mode transaction.two.phase.commit.enable
"""
"""What kafka-clients 4.1.0 has beside those."""


def listed(folder: Path) -> Iterator[str]:
    """The lines of the catalogue, as the installed librdkafka tells them."""
    maps = Path("/proc/self/maps").read_text(encoding="utf-8")
    library = ctypes.CDLL(next(path for path in maps.split() if "librdkafka" in path))
    c = ctypes.CDLL(None)
    c.fopen.restype, c.fclose.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    library.rd_kafka_conf_properties_show.argtypes = [ctypes.c_void_p]
    file = c.fopen(os.fsencode(folder / "listing"), b"w")
    library.rd_kafka_conf_properties_show(file)
    c.fclose(file)
    seen = set()
    for line in (folder / "listing").read_text(encoding="utf-8").splitlines():
        name, *cells = (cell.strip() for cell in line.split("|", 1)[0:1] + line.split("|")[1:])
        kind = re.search(r"\*Type: (.*?)\*", line)
        if kind is None or name in seen:
            continue
        seen.add(name)
        values = re.split(r" +\| +", line.split("|", 2)[2])[0].strip().replace(", ", "|").replace(" .. ", "..")
        if kind[1] == "see dedicated API":
            values = "callback"
        elif kind[1] == "float":
            values = "..".join(f"{float(number):.1f}" for number in values.split(".."))
        elif kind[1] not in {"integer", "boolean", "enum value"} or not values:
            values = "text"
        yield f"{name} {cells[0]} {values}"


def test_the_catalogue_is_what_the_installed_client_lists(tmp_path: Path) -> None:
    found = "".join(f"{line}\n" for line in sorted(listed(tmp_path)))
    if os.environ.get("UPDATE_GOLDEN"):
        file = Path(catalogue.__file__)
        file.write_text(file.read_text(encoding="utf-8").replace(catalogue.LISTING, found), encoding="utf-8")
    else:
        assert found == catalogue.LISTING


@pytest.mark.parametrize("name", (JAVA + JAVA_SINCE).split())
def test_every_property_of_the_java_clients_has_a_meaning(name: str) -> None:
    kinds = (
        MEANINGLESS,
        RENAMED,
        MANAGED,
        NAMED,
        STORES,
        {"sasl.jaas.config", "ssl.protocol", "ssl.enabled.protocols"},
    )
    said = [name in kind for kind in kinds]
    assert sum(said) == 1 or (name in CLIENT and not any(said))
    if not any(said) and CLIENT[name].values == "text" and name != "sasl.mechanism":
        assert translate({**SERVERS, name: "x"}).keys() <= CLIENT.keys()


def test_no_property_has_two_meanings() -> None:
    for one in (MEANINGLESS, RENAMED, MANAGED, STORES):
        assert not one & NAMED.keys()
    assert not MEANINGLESS & RENAMED.keys()
    assert not MEANINGLESS & MANAGED
    assert not RENAMED.keys() & MANAGED
    assert set(NAMED.values()) <= CLIENT.keys()
    assert CLIENT.keys() <= KNOWN


def refused(name: str, value: str = "x") -> str:
    with pytest.raises(PropertyError) as caught:
        translate({**SERVERS, name: value})
    ((where, why),) = caught.value.problems
    assert where == name
    return why


def test_a_login_modules_flag_may_have_any_case() -> None:
    value = 'x.PlainLoginModule REQUIRED username="u" password="p";'
    assert translate({**SERVERS, "sasl.jaas.config": value}) == {
        **SERVERS, "sasl.username": "u", "sasl.password": "p",
    }  # fmt: skip


def test_unknown_properties_are_refused_with_what_was_meant() -> None:
    assert refused("max.pol.records") == "unknown client property 'max.pol.records', did you mean 'max.poll.records'?"
    assert "did you mean 'linger.ms'?" in refused("linger.msec")
    assert "did you mean 'ssl.truststore.location'?" in refused("ssl.truststore.locatoin")
    assert refused("zzzzzzzzzzzz") == "unknown client property 'zzzzzzzzzzzz'"


def test_what_only_java_knows_is_translated_or_refused() -> None:
    assert translate({**SERVERS, "fetch.max.wait.ms": "7"}) == {**SERVERS, "fetch.wait.max.ms": "7"}
    assert translate({**SERVERS, "partition.assignment.strategy": "org.apache.kafka.RangeAssignor"}) == SERVERS
    assert "OpenSSL" in refused("security.providers")
    assert "use socket.connection.setup.timeout.ms" in refused("socket.connection.setup.timeout.max.ms", "5")
    assert "use bootstrap.servers" in refused("metadata.broker.list")


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("linger.ms", ["0", "5", "1.5", "900000", " 5", "5 "], ["-1", "900001", "5 ms", "", "1e3", "9" * 5000]),
        ("fetch.min.bytes", ["1", " 5000\n"], ["1.5", "1k", "0x10", "1_000", "1 0", "\u0663", "\u00a05"]),
        ("fetch.max.wait.ms", ["500"], ["300001"]),
        ("acks", ["all", "ALL", "-1", "1", "0"], ["some", "-2", "1001"]),
        ("enable.idempotence", ["true", "TRUE", "false", "1", "f"], ["yes", "on", ""]),
        ("compression.type", ["zstd", "LZ4", "none"], ["brotli"]),
        ("security.protocol", ["SASL_SSL", "plaintext"], ["TLS", "SASL-SSL"]),
        ("sasl.mechanism", ["PLAIN", "SCRAM-SHA-512"], ["plain", "AWS_MSK", ""]),
        ("isolation.level", ["read_committed"], ["committed"]),
        ("auto.offset.reset", ["earliest", "latest", "none"], ["first"]),
        ("ssl.endpoint.identification.algorithm", ["", "https", "HTTPS", "none"], ["ldap"]),
    ],
)
def test_values_that_the_client_would_refuse(name: str, good: list[str], bad: list[str]) -> None:
    for value in good:
        made = translate({**SERVERS, name: value})
        conf = {k: v for k, v in made.items() if k != "bootstrap.servers" and v != "none"}
        if name not in {"security.protocol", "sasl.mechanism"}:
            make(conf)
    for value in bad:
        assert refused(name, value).startswith(f"{name}: ")


def make(conf: dict[str, str]) -> None:
    """A client with this configuration; raises KafkaException where it does not take it."""
    quiet = {"log_level": 0, **conf}
    if any(CLIENT[name].scope == "P" for name in conf):
        Producer(quiet)
    else:
        Consumer({"group.id": "g", **quiet}).close()


@pytest.mark.parametrize(
    ("name", "bad"), [("message.max.bytes", "10"), ("enable.idempotence", "yes"), ("acks", "2000")]
)
def test_the_client_does_refuse_them(name: str, bad: str) -> None:
    with pytest.raises(KafkaException):
        make({name: bad})


def test_what_clients_share_is_neither_a_consumers_nor_a_producers() -> None:
    conf = {"bootstrap.servers": "h", "security.protocol": "ssl", "retry.backoff.ms": "5", "client.id": "c"}
    assert shared({**conf, "acks": "all", "fetch.min.bytes": "1", "linger.ms": "1", "group.id": "g"}) == conf


def test_no_topic_is_created_where_a_property_says_so() -> None:
    cluster = Cluster({**SERVERS, "allow.auto.create.topics": "false"})
    with pytest.raises(TopicMissing, match=r"topic 'a' does not exist at h:1.*cleanup\.policy=delete"):
        cluster.create(["b", "a"], -1, -1, {"cleanup.policy": "delete"})
    assert cluster.create([], -1, -1, {}) == set()


def test_a_source_never_lets_brokers_create_topics() -> None:
    properties = {**SERVERS, "allow.auto.create.topics": "true"}
    source = KafkaSource.model_validate({"type": "kafka", "topic": "t", "properties.*": properties})
    assert "allow.auto.create.topics" not in source.client("p")


@pytest.mark.parametrize(
    ("servers", "why"),
    [
        ("", "no server is named"),
        (" , ", "no server is named"),
        ("a:9092,b:99999", "a port is a number from 1 to 65535"),
        ("a:0", "a port is a number"),
        ("a:9o92", "a port is a number"),
        ("a:9092;b:9092", "servers are separated by ','"),
        ("[::1]:x", "a port is a number"),
        ("a:\u0661", "a port is a number"),
        (":9092", "a server has no name"),
        ("http://a:9092", "only PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL can stand before"),
        ("SSL://", "a server has no name"),
    ],
)
def test_servers_that_cannot_be_asked_are_refused(servers: str, why: str) -> None:
    with pytest.raises(PropertyError) as caught:
        check({"bootstrap.servers": servers})
    assert caught.value.problems[0][0] == "bootstrap.servers"
    assert why in caught.value.problems[0][1]


@pytest.mark.parametrize(
    "servers", ["a", "a:1", " a:9092 , b:65535", "SASL_SSL://a:9092", "[::1]:9092", "::1", "a:1,,b:1"]
)
def test_servers_that_the_client_takes_are_taken(servers: str) -> None:
    assert check({"bootstrap.servers": servers})

"""What a secured cluster refuses: each time one clear line, before anything is read or written."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pytest
from brokers import broker
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from secured import feed

from ingest.errors import AccessError, ConfigError
from ingest.kafka.admin import Cluster
from ingest.kafka.failures import error_of
from ingest.sandbox import broker as sandbox
from ingest.sandbox.secure import Authority, Secure, client_properties

if TYPE_CHECKING:
    from pathlib import Path

    from harness import Kafka
    from secured import Run


def refused(conf: dict[str, str]) -> str:
    """The one line that a connection with these properties is refused with."""
    with pytest.raises((AccessError, ConfigError)) as caught:
        Cluster(conf).connect(3600)  # longer than a test may take: what comes is an answer, and not the end of patience
    assert caught.value.exit_code == 78
    assert "\n" not in caught.value.message
    return f"{caught.value.message} ({caught.value.hint})"


def test_each_wrong_credential_is_one_clear_line(tmp_path: Path, clients: dict[str, dict[str, str]]) -> None:
    scram, mtls, password = clients["SASL_SSL"], clients["SSL"], clients["SASL_PLAINTEXT"]
    foreign = Authority("somebody else")
    (tmp_path / "ca.pem").write_bytes(foreign.pem)
    key, chain = foreign.issue("ingest")
    (tmp_path / "key.pem").write_bytes(key)
    (tmp_path / "cert.pem").write_bytes(chain)
    others = {"ssl.certificate.location": str(tmp_path / "cert.pem"), "ssl.key.location": str(tmp_path / "key.pem")}

    assert "refused the login" in refused({**scram, "sasl.password": "wrong"})
    assert "invalid credentials" in refused({**scram, "sasl.username": "nobody"})
    assert "Invalid username or password" in refused({**password, "sasl.password": "wrong"})
    assert "supported mechanisms: SCRAM" in refused({**scram, "sasl.mechanism": "PLAIN"}).replace("OAUTHBEARER,", "")
    assert "is not trusted (self-signed certificate" in refused({**scram, "ssl.ca.location": str(tmp_path / "ca.pem")})
    assert "did not accept this client's certificate" in refused({**mtls, **others})
    without = {name: value for name, value in mtls.items() if "key" not in name and "certificate" not in name}
    assert "the pipeline file gives none" in refused(without)
    assert "no such file" in refused({**mtls, "ssl.key.location": str(tmp_path / "nope")})
    assert "librdkafka was built without it" in refused({**scram, "sasl.mechanism": "GSSAPI"})


def test_another_protocol_than_the_listeners_is_said(
    run: Run, plain: Kafka, clients: dict[str, dict[str, str]]
) -> None:
    plaintext = {"bootstrap.servers": plain.bootstrap, "security.protocol": "PLAINTEXT"}
    every = {**clients, "PLAINTEXT": plaintext}
    for ours, theirs in (
        ("PLAINTEXT", "SSL"), ("PLAINTEXT", "SASL_SSL"), ("PLAINTEXT", "SASL_PLAINTEXT"), ("SSL", "PLAINTEXT"),
        ("SSL", "SASL_SSL"), ("SASL_SSL", "PLAINTEXT"), ("SASL_SSL", "SASL_PLAINTEXT"), ("SASL_PLAINTEXT", "PLAINTEXT"),
        ("SASL_PLAINTEXT", "SASL_SSL"),
    ):  # fmt: skip
        at = every[theirs]["bootstrap.servers"]
        said = refused({**every[ours], "bootstrap.servers": at})
        assert f"security.protocol is {ours}, and the broker's listener at {at} is {theirs}" in said
    feed(plain)
    whole = run(plaintext, {**plaintext, "bootstrap.servers": clients["SSL"]["bootstrap.servers"]})
    assert whole.code == 78, whole.err
    assert "security.protocol is PLAINTEXT" in whole.err


def test_the_client_does_not_tell_the_listeners_apart(clients: dict[str, dict[str, str]]) -> None:
    """That is why `diagnosis.listener` asks them (docs/adr/2026-11-29-what-answers-at-an-address.md)."""
    errors: dict[str, set[str]] = {}
    for listener in ("SSL", "SASL_SSL", "SASL_PLAINTEXT"):
        names = errors[listener] = set()
        conf = {"bootstrap.servers": clients[listener]["bootstrap.servers"], "log_level": 0}
        client = AdminClient({**conf, "error_cb": lambda error, names=names: names.add(error.name())})
        with pytest.raises(KafkaException) as caught:
            client.list_topics(timeout=3)
        client.poll(0.5)
        names.add(error_of(caught.value).name())
    assert set().union(*errors.values()) <= {"_TRANSPORT", "_ALL_BROKERS_DOWN"}, errors


@pytest.mark.usefixtures("java")
def test_expired_certificates_say_so(tmp_path: Path) -> None:
    folder = tmp_path / "kafka" / "secure"
    folder.mkdir(parents=True)
    authority = Authority("ours")
    past = dt.timedelta(days=-2)
    (folder / "ca.pem").write_bytes(authority.pem)
    (folder / "broker.pem").write_bytes(b"".join(authority.issue("localhost", "127.0.0.1", valid=past)))
    key, chain = authority.issue("ingest")
    (folder / "client.key").write_bytes(key)
    (folder / "client.pem").write_bytes(chain)
    running = broker(tmp_path / "kafka", secure=True)
    try:
        assert running.secure is not None
        expired = client_properties(Secure(running.secure, str(folder)))["SSL"]
        assert "is not trusted (certificate has expired)" in refused(expired)
    finally:
        sandbox.down(tmp_path / "kafka", wipe=True)


def test_an_expired_client_certificate_says_so(tmp_path: Path, clients: dict[str, dict[str, str]]) -> None:
    authority = Authority("ingest sandbox")
    key, chain = authority.issue("ingest", valid=dt.timedelta(days=-2))
    (tmp_path / "key.pem").write_bytes(key)
    (tmp_path / "cert.pem").write_bytes(chain)
    own = {"ssl.certificate.location": str(tmp_path / "cert.pem"), "ssl.key.location": str(tmp_path / "key.pem")}
    day = dt.datetime.now(dt.UTC) - dt.timedelta(days=2)
    assert f"it expired on {day:%Y-%m-%d}" in refused({**clients["SSL"], **own})


def test_a_missing_acl_is_one_clear_line(
    run: Run, plain: Kafka, secure: Secure, clients: dict[str, dict[str, str]]
) -> None:
    feed(plain)

    def only(topic: str, operation: AclOperation) -> None:
        """From here on nobody may do anything with the topic but what this says."""
        binding = AclBinding(
            ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, f"User:{secure.user}", "*", operation,
            AclPermissionType.ALLOW,
        )  # fmt: skip
        plain.admin.create_acls([binding])[binding].result(10)

    into = plain.create(f"{plain.name}.out.orders", 1)
    only(f"{plain.name}.in", AclOperation.DESCRIBE)
    denied = run(clients["SASL_SSL"], clients["SASL_SSL"])
    assert denied.code == 78, denied.err
    assert f"{plain.name}.in" in denied.err
    assert "grant this user Read" in denied.err
    only(f"{plain.name}.in", AclOperation.READ)
    only(into, AclOperation.DESCRIBE)
    denied = run(clients["SASL_SSL"], clients["SASL_SSL"])
    assert denied.code == 78, denied.err
    assert into in denied.err
    assert "Write on the topic" in denied.err
    assert "Traceback" not in denied.err
    only(into, AclOperation.WRITE)
    done = run(clients["SASL_SSL"], clients["SASL_SSL"])
    assert done.code == 0, done.err
    assert len(plain.table(into)) == 5

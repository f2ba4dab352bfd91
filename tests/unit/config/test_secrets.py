"""Secrets: where they are looked for, whole sets of properties from one, and that they show nowhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ingest.config import secrets as secrets_module
from ingest.config.loader import load
from ingest.config.secrets import SecretError, Secrets, installed
from ingest.errors import AccessError, ConfigError
from ingest.kafka.diagnosis import has_feature, usable
from ingest.kafka.properties import OAUTH_ALLOWED, OAUTH_URL, PropertyError, translate

if TYPE_CHECKING:
    from pathlib import Path

    from ingest.config.pipeline import Pipeline

SERVERS = {"bootstrap.servers": "h:1"}


class Manager:
    """A secret manager, as somebody would write one."""

    def get(self, name: str, version: str | None) -> str | None:
        if name == "broken":
            msg = "the vault is sealed"
            raise OSError(msg)
        return {
            "one": f"value of {version}",
            "set": '{"sasl.username": "u", "properties.sasl.password": "pass-word"}',
        }.get(name)


def pipeline(tmp_path: Path, source: str, found: Secrets) -> tuple[Pipeline | None, str]:
    file = tmp_path / "p.yaml"
    file.write_text(
        f"source:\n  type: kafka\n  topic: t\n{source}"
        "sink: {type: upsert-kafka, properties.bootstrap.servers: 'h:1'}\n"
    )
    loaded = load(file, {}, found)
    return loaded.pipeline, "\n".join(d.message for d in loaded.diagnostics)


def test_secrets_are_looked_for_in_order(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("from-file\n")
    manager: list[tuple[str, Any]] = [("m", Manager())]
    assert Secrets({"INGEST_SECRET_ONE": "env", "INGEST_SECRETS_DIR": str(tmp_path)}, manager).find("one") == "env"
    assert Secrets({"INGEST_SECRETS_DIR": str(tmp_path)}, manager).find("one") == "from-file"
    last = Secrets({}, manager)
    assert last.find("one", "v2") == "value of v2"
    assert last.known == {"value of v2"}
    with pytest.raises(SecretError, match=r"INGEST_SECRET_NONE and provider m .INGEST_SECRETS_DIR is not set."):
        last.find("none")
    with pytest.raises(SecretError, match="provider m failed: OSError: the vault is sealed"):
        last.find("broken")


def test_providers_are_chosen_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    class Point:
        name = "m"

        @staticmethod
        def load() -> type[Manager]:
            return Manager

    monkeypatch.setattr(secrets_module, "entry_points", lambda group: [Point] if group == "ingest.secrets" else [])
    assert installed({}) == []
    ((label, provider),) = installed({"INGEST_SECRETS_PROVIDER": "m"})
    assert (label, provider.get("one", None)) == ("m", "value of None")
    with pytest.raises(SecretError, match=r"names 'x', which is not installed .installed: m."):
        installed({"INGEST_SECRETS_PROVIDER": "m,x"})


def test_a_whole_set_of_properties_comes_from_one_secret(tmp_path: Path) -> None:
    found = Secrets({}, [("m", Manager())])
    text = "  properties.bootstrap.servers: 'h:1'\n  properties-from-secret: set\n"
    made, problems = pipeline(tmp_path, text, found)
    assert problems == ""
    assert made is not None
    assert made.source.properties == {**SERVERS, "sasl.username": "u", "sasl.password": "pass-word"}
    assert "pass-word" in made.secrets
    assert "pass-word" not in str(made.describe())
    lines = Secrets({"INGEST_SECRET_LINES": "# comment\nbootstrap.servers = h:1\nsasl.password=a=b\n"})
    made, problems = pipeline(tmp_path, "  properties-from-secret: lines\n", lines)
    assert made is not None, problems
    assert made.source.properties == {**SERVERS, "sasl.password": "a=b"}
    assert "h:1" not in lines.known
    both = "  properties.sasl.username: me\n  properties.bootstrap.servers: 'h:1'\n  properties-from-secret: set\n"
    assert "which this file gives as well" in pipeline(tmp_path, both, found)[1]
    assert "neither a JSON object" in pipeline(tmp_path, text.replace("set\n", "one\n"), found)[1]


def test_fields_that_name_keys_of_a_secret(tmp_path: Path) -> None:
    several = '{"jaas": "x.PlainLoginModule required username=u password=hunter22;", "n": 5}'
    found = Secrets({"INGEST_SECRET_DMS": several})
    text = (
        "  properties.bootstrap.servers: 'h:1'\n  properties.sasl.jaas.config: {}\n  dew.csms.secretName: dms\n"
        "  dew.csms.decrypt.fields: properties.sasl.jaas.config{}\n  dew.csms.version: v1\n"
    )
    made, problems = pipeline(tmp_path, text.format("jaas", ""), found)
    assert made is not None, problems
    assert translate(made.source.properties) == {**SERVERS, "sasl.username": "u", "sasl.password": "hunter22"}
    gone = pipeline(tmp_path, text.format("s3cr3t", ""), found)[1]
    assert gone == "the secret has no value under the key that properties.sasl.jaas.config names"
    assert "which is not given here" in pipeline(tmp_path, text.format("jaas", ",properties.x"), found)[1]


def test_kerberos_and_stores_of_java_pipelines() -> None:
    jaas = (
        'com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true keyTab="/etc/k.keytab" '
        'serviceName="kafka" principal="svc/host@REALM";'
    )
    assert translate({**SERVERS, "sasl.jaas.config": jaas, "sasl.mechanism": "GSSAPI"}) == {
        **SERVERS, "sasl.mechanism": "GSSAPI", "sasl.kerberos.keytab": "/etc/k.keytab",
        "sasl.kerberos.service.name": "kafka", "sasl.kerberos.principal": "svc/host@REALM",
    }  # fmt: skip
    huawei = {"connector.auth.open": "true", "connector.kerberos.principal": "u", "connector.kerberos.keytab": "/k"}
    assert translate({**SERVERS, **huawei}) == {
        **SERVERS, "sasl.kerberos.principal": "u", "sasl.kerberos.keytab": "/k",
    }  # fmt: skip
    with pytest.raises(PropertyError, match="characters that are not allowed"):
        translate({**SERVERS, "sasl.jaas.config": jaas.replace("svc/host@REALM", "$(touch /tmp/x)")})
    pem = {"ssl.truststore.type": "PEM", "ssl.truststore.location": "/ca", "ssl.truststore.password": "x"}
    assert translate({**SERVERS, **pem}) == {**SERVERS, "ssl.ca.location": "/ca"}
    own = {"ssl.keystore.location": "/c.pem", "ssl.keystore.password": "x", "ssl.protocol": "TLSv1.3"}
    assert translate({**SERVERS, **own}) == {
        **SERVERS, "ssl.certificate.location": "/c.pem", "ssl.key.location": "/c.pem", "ssl.key.password": "x",
    }  # fmt: skip
    p12 = {"ssl.keystore.location": "/c.p12", "ssl.keystore.password": "x", "ssl.keystore.type": "PKCS12"}
    assert translate({**SERVERS, **p12}) == SERVERS  # the driver reads it: tests/unit/kafka/test_connection.py


def test_what_the_client_cannot_do_is_said_before_it_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"properties\.ssl\.ca\.location: .*nope.*no such file"):
        usable({**SERVERS, "ssl.ca.location": str(tmp_path / "nope")})
    oauth = {**SERVERS, "security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER", OAUTH_URL: "https://a/t"}
    monkeypatch.delenv(OAUTH_ALLOWED, raising=False)
    with pytest.raises(AccessError, match="not an allowed endpoint: https://a/t"):
        usable(oauth)
    monkeypatch.setenv(OAUTH_ALLOWED, "https://b/t, https://a/t")
    usable(oauth)
    kerberos = {**SERVERS, "security.protocol": "sasl_plaintext", "sasl.mechanism": "GSSAPI"}
    if has_feature("sasl_gssapi"):
        usable(kerberos)
    else:
        with pytest.raises(ConfigError, match="librdkafka was built without it"):
            usable(kerberos)

"""Files that client properties name: which of them the driver reads, and what becomes of them."""

from __future__ import annotations

import datetime as dt
import os
import pickle
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from key_stores import KEY_PASSWORD, PASSWORD, key_store, trust_store

from ingest.component.files import Files
from ingest.component.options import filled
from ingest.config.loader import load_text
from ingest.errors import ConfigError, InternalError
from ingest.sandbox.secure import Authority

if TYPE_CHECKING:
    from ingest.config.pipeline import Pipeline

SERVERS = {"bootstrap.servers": "h:1"}
AUTHORITY = Authority("one")
KEY, CHAIN = AUTHORITY.issue("client")
PIPELINE = "source:\n  type: kafka\n  topic: t\n{}sink:\n  type: upsert-kafka\n{}pipeline:\n  name: p\n"


def pipeline(source: dict[str, str], sink: dict[str, str] | None = None) -> Pipeline:
    made = load_text("p", PIPELINE.format(*(
        "".join(f"  properties.{name}: '{value}'\n" for name, value in {**SERVERS, **side}.items())
        for side in (source, sink or {})
    )), "p")  # fmt: skip
    assert made.pipeline is not None, made.diagnostics
    return made.pipeline


def read(source: dict[str, str], remote: dict[str, bytes] | None = None, told: list[str] | None = None) -> Pipeline:
    """Return a pipeline that has read the files of its source."""
    made = pipeline(source)
    reader = Files("source", (remote or {}).__getitem__, ([] if told is None else told).append)
    return made.model_copy(update={"source": filled(made.source, reader)})


def without_group(made: Pipeline) -> dict[str, str]:
    conf = made.source.client("p")
    return {name: conf[name] for name in conf if name not in {"group.id", "client.id"}}


def test_stores_become_texts_that_no_checkpoint_has(java: None, tmp_path: Path) -> None:
    trust = trust_store(tmp_path / "trust.jks", "JKS", AUTHORITY.pem)
    own = key_store(tmp_path / "own.jks", "JKS", KEY, CHAIN)
    given = {
        "security.protocol": "SSL", "ssl.truststore.location": str(trust), "ssl.truststore.password": PASSWORD,
        "ssl.truststore.type": "JKS", "ssl.keystore.location": str(own), "ssl.keystore.password": PASSWORD,
        "ssl.key.password": KEY_PASSWORD,
    }  # fmt: skip
    made = read(given)
    conf = without_group(made)
    assert conf["ssl.ca.pem"] == AUTHORITY.pem.decode()
    assert conf["ssl.certificate.pem"] == CHAIN.decode()
    assert "BEGIN PRIVATE KEY" in conf["ssl.key.pem"]
    assert conf.keys() - {"ssl.ca.pem", "ssl.certificate.pem", "ssl.key.pem", "ssl.key.password"} == {
        "bootstrap.servers", "security.protocol",
    }  # fmt: skip
    assert pickle.loads(pickle.dumps(made.source)).client("p") == made.source.client("p")  # noqa: S301  (our own)
    shown = f"{made.describe()} {made!r} {made.source}"
    assert "BEGIN" not in shown
    assert made.describe() == pipeline(given).describe()


def test_local_pem_files_stay_files() -> None:
    given = {"ssl.truststore.location": "/ca.pem", "ssl.keystore.location": "/c", "ssl.keystore.type": "pem"}
    assert without_group(read(given)) == {
        **SERVERS, "ssl.ca.location": "/ca.pem", "ssl.certificate.location": "/c", "ssl.key.location": "/c",
    }  # fmt: skip


def test_remote_files_become_texts_or_private_files() -> None:
    remote = {
        "s3a://b/ca.pem": b"ca", "s3a://b/own.pem": KEY + CHAIN, "obs://b/user.keytab": b"\5\2", "oss://b/crl": b"crl",
        "hdfs://h/krb5.conf": b"[libdefaults]\n",
    }  # fmt: skip
    given = {
        "ssl.ca.location": "s3a://b/ca.pem", "ssl.keystore.location": "s3a://b/own.pem", "ssl.crl.location": "oss://b/crl",
        "connector.kerberos.keytab": "obs://b/user.keytab", "connector.kerberos.krb5": "hdfs://h/krb5.conf",
        "ssl.keystore.password": "x",
    }  # fmt: skip
    made = read(given, remote)
    conf = without_group(made)
    keytab, crl = Path(conf.pop("sasl.kerberos.keytab")), Path(conf.pop("ssl.crl.location"))
    assert conf == {
        **SERVERS, "ssl.ca.pem": "ca", "ssl.certificate.pem": (KEY + CHAIN).decode(),
        "ssl.key.pem": (KEY + CHAIN).decode(), "ssl.key.password": "x",
    }  # fmt: skip
    for file, data in ((keytab, b"\5\2"), (crl, b"crl"), (Path(os.environ["KRB5_CONFIG"]), b"[libdefaults]\n")):
        assert file.read_bytes() == data
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert without_group(made)["sasl.kerberos.keytab"] == str(keytab)


def test_a_local_krb5_conf_is_named_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KRB5_CONFIG", raising=False)
    assert without_group(read({"connector.kerberos.krb5": "/there/krb5.conf"})) == SERVERS
    assert os.environ["KRB5_CONFIG"] == "/there/krb5.conf"


def test_a_login_module_may_name_a_remote_keytab() -> None:
    jaas = 'x.Krb5LoginModule required useKeyTab=true keyTab="obs://b/k" principal="p" serviceName="kafka";'
    conf = without_group(read({"sasl.jaas.config": jaas}, {"obs://b/k": b"\5\2"}))
    assert Path(conf["sasl.kerberos.keytab"]).read_bytes() == b"\5\2"


def test_a_client_without_its_files_is_a_bug() -> None:
    for given in ({"ssl.truststore.location": "/t.jks"}, {"ssl.ca.location": "s3a://b/ca.pem"}):
        with pytest.raises(InternalError, match="was not read before"):
            pipeline(given).source.client("p")


@pytest.mark.parametrize(("given", "why"), [
    ({"ssl.truststore.location": "/no/t.jks"}, ".ssl.truststore.location: /no/t.jks: there is no such file"),
    ({"ssl.keystore.location": "/dev"}, "source.properties.ssl.keystore.location: /dev: it is no file"),
    ({"ssl.truststore.location": __file__}, "test_connection.py: it is neither a JKS nor a PKCS#12 store"),
])  # fmt: skip
def test_what_cannot_be_read(given: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read(given)
    assert why in raised.value.message


def test_expired_certificates_are_a_warning(tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(AUTHORITY.issue("old", valid=dt.timedelta(days=-3))[1])
    told: list[str] = []
    read({"ssl.truststore.location": str(tmp_path / "old")}, told=told)
    (text,) = told
    assert text.startswith(
        f"source.properties.ssl.truststore.location: {tmp_path}/old: the certificate of 'CN=old' exp"
    )


def test_a_check_says_which_files_are_not_here(tmp_path: Path) -> None:
    (tmp_path / "there.jks").touch()
    text = PIPELINE.format(
        "  properties.bootstrap.servers: h:1\n"
        "  properties.ssl.truststore.location: /no/t.jks\n"
        f"  properties.ssl.keystore.location: {tmp_path}/there.jks\n"
        "  properties.connector.kerberos.krb5: /no/krb5.conf\n",
        "  properties.bootstrap.servers: h:1\n  properties.ssl.truststore.location: obs://b/t.jks\n",
    )
    found = load_text("p", text, "p")
    assert found.pipeline is not None
    assert [(one.severity, one.line, one.message) for one in found.diagnostics] == [
        ("note", 5, "properties.ssl.truststore.location: /no/t.jks: there is no such file"),
        ("note", 7, "properties.connector.kerberos.krb5: /no/krb5.conf: there is no such file"),
    ]


def test_a_process_has_one_krb5_conf() -> None:
    both = "  properties.bootstrap.servers: h:1\n  properties.connector.kerberos.krb5: obs://b/{}\n"
    assert load_text("p", PIPELINE.format(both.format("a"), both.format("a")), "p").pipeline is not None
    found = load_text("p", PIPELINE.format(both.format("a"), both.format("b")), "p")
    assert found.pipeline is None
    (one,) = found.diagnostics
    assert "names another file in source; put the realms of both into one file" in one.message
    assert one.line == 9

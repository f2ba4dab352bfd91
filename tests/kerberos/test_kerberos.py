"""Kerberos: a real KDC, a real broker that asks for tickets, and a pipeline that has a keytab.

Not part of `make test`: the published client cannot do it. `make kerberos` builds one that can, and runs this.
"""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from harness import Kafka, Pipeline, free_port, message

from ingest.errors import AccessError
from ingest.kafka.admin import Cluster
from ingest.kafka.client import has_feature
from ingest.sandbox import broker as sandbox

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

REALM = "INGEST.TEST"
_KRB5 = """\
[libdefaults]
default_realm = {realm}
dns_lookup_kdc = false
dns_canonicalize_hostname = false
rdns = false
udp_preference_limit = 1
[realms]
{realm} = {{
  kdc = 127.0.0.1:{port}
}}
"""
_KDC = """\
[kdcdefaults]
kdc_ports = {port}
kdc_tcp_ports = {port}
[realms]
{realm} = {{
  database_name = {folder}/principal
  key_stash_file = {folder}/stash
  max_life = 1h
}}
"""
_LISTENER = """\
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller},KERBEROS://127.0.0.1:{kerberos}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},KERBEROS://127.0.0.1:{kerberos}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,KERBEROS:SASL_PLAINTEXT
listener.name.kerberos.sasl.enabled.mechanisms=GSSAPI
listener.name.kerberos.sasl.kerberos.service.name=kafka
listener.name.kerberos.gssapi.sasl.jaas.config=com.sun.security.auth.module.Krb5LoginModule required \
useKeyTab=true storeKey=true keyTab="{folder}/kafka.keytab" principal="kafka/127.0.0.1@{realm}";
"""


@dataclass
class Realm:
    """A KDC with a broker that trusts it."""

    folder: Path
    plain: str
    kerberos: str

    def properties(self, keytab: str = "ingest.keytab", principal: str = f"ingest@{REALM}") -> dict[str, str]:
        return {
            "bootstrap.servers": self.kerberos, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.service.name": "kafka", "sasl.kerberos.keytab": str(self.folder / keytab),
            "sasl.kerberos.principal": principal,
        }  # fmt: skip


@pytest.fixture(scope="module")
def realm(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    folder = tmp_path_factory.mktemp("realm")
    port, kerberos = free_port(), free_port()
    (folder / "krb5.conf").write_text(_KRB5.format(realm=REALM, port=port))
    (folder / "kdc.conf").write_text(_KDC.format(realm=REALM, port=port, folder=folder))
    environment = {
        "KRB5_CONFIG": str(folder / "krb5.conf"), "KRB5_KDC_PROFILE": str(folder / "kdc.conf"),
        "KRB5CCNAME": f"FILE:{folder}/cache", "JAVA_TOOL_OPTIONS": f"-Djava.security.krb5.conf={folder}/krb5.conf",
    }  # fmt: skip
    os.environ.update(environment)

    def admin(*command: str) -> None:
        subprocess.run(command, check=True, capture_output=True)

    admin("/usr/sbin/kdb5_util", "create", "-s", "-r", REALM, "-P", "master")
    for name, file in (("kafka/127.0.0.1", "kafka"), ("ingest", "ingest"), ("other", "other")):
        admin("/usr/sbin/kadmin.local", "-r", REALM, "addprinc", "-randkey", name)
        admin("/usr/sbin/kadmin.local", "-r", REALM, "ktadd", "-k", str(folder / f"{file}.keytab"), name)
    kdc = subprocess.Popen(["/usr/sbin/krb5kdc", "-n", "-r", REALM])
    extra = _LISTENER.format(
        port="{port}", controller="{controller}", kerberos=kerberos, folder=folder, realm=REALM
    )  # the sandbox fills its own ports in
    running = sandbox.up(folder / "kafka", free_port(), heap="512m", extra=extra)
    yield Realm(folder, running.bootstrap, f"127.0.0.1:{kerberos}")
    sandbox.down(folder / "kafka", wipe=True)
    kdc.terminate()
    kdc.wait()
    for name in environment:
        del os.environ[name]


def test_the_client_was_built_with_kerberos() -> None:
    assert has_feature("sasl_gssapi")


def test_a_pipeline_reads_and_writes_with_a_keytab(tmp_path: Path, realm: Realm) -> None:
    plain = Kafka(realm.plain)
    topic = plain.create(f"{plain.name}.in", 1)
    plain.send(topic, *[message("c", None, {"id": i, "v": i}) for i in range(5)])
    pipeline = Pipeline(tmp_path, plain, topic)
    jaas = (
        "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
        f'keyTab="{realm.folder}/ingest.keytab" principal="ingest@{REALM}";'
    )
    java = {**realm.properties(), "sasl.jaas.config": jaas}  # as a Java pipeline says it
    del java["sasl.kerberos.keytab"], java["sasl.kerberos.principal"]
    text = pipeline.file.read_text()
    for properties in (realm.properties(), java):
        lines = "\n".join(f"  properties.{name}: '{value}'" for name, value in properties.items())
        pipeline.file.write_text(text.replace(f"  properties.bootstrap.servers: {realm.plain}", lines))
        done = pipeline.run()
        assert done.code == 0, done.err
    assert len(plain.table(pipeline.out("orders"))) == 5


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_krb5_conf_and_keytab_by_options(tmp_path: Path, realm: Realm, scheme: str) -> None:
    """As pipelines of Java say it: in the environment of the run is nothing of Kerberos."""
    plain = Kafka(realm.plain)
    topic = plain.create(f"{plain.name}.in", 1)
    plain.send(topic, *[message("c", None, {"id": i, "v": i}) for i in range(5)])
    pipeline = Pipeline(tmp_path, plain, topic)
    given = {
        **realm.properties(), "connector.auth.open": "true", "connector.kerberos.principal": f"ingest@{REALM}",
        "connector.kerberos.keytab": f"{scheme}{realm.folder}/ingest.keytab",
        "connector.kerberos.krb5": f"{scheme}{realm.folder}/krb5.conf",
    }  # fmt: skip
    del given["sasl.kerberos.keytab"], given["sasl.kerberos.principal"]
    lines = "\n".join(f"  properties.{name}: '{value}'" for name, value in given.items())
    text = pipeline.file.read_text()
    pipeline.file.write_text(text.replace(f"  properties.bootstrap.servers: {realm.plain}", lines))
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    nothing = {
        "KRB5_CONFIG": "/no-such-folder/krb5.conf",
        "KRB5CCNAME": f"FILE:{tmp_path}/cache",
        "TMPDIR": str(temporary),
    }
    done = pipeline.run(env=nothing)
    assert done.code == 0, done.err
    assert len(plain.table(pipeline.out("orders"))) == 5
    assert [path.name for path in temporary.iterdir() if not path.name.startswith("hsperfdata")] == []


def test_wrong_keytabs_are_one_clear_line(realm: Realm) -> None:
    for conf in (realm.properties(keytab="other.keytab"), realm.properties(principal=f"nobody@{REALM}")):
        (realm.folder / "cache").unlink(missing_ok=True)
        started = time.monotonic()
        with pytest.raises(AccessError) as caught:
            Cluster(conf).connect(20)
        assert time.monotonic() - started < 15
        assert "\n" not in caught.value.message
        assert "no Kerberos login" in caught.value.message
        assert "keytab" in caught.value.hint

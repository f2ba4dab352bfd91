"""Kerberos: a real KDC, a real broker that asks for tickets, and a pipeline that has a keytab.

Not part of `make test`: the published client cannot do it. `make kerberos` builds one that can, and runs this.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from harness import Kafka, Pipeline, free_port, message
from kdc import REALM

from ingest.errors import AccessError
from ingest.kafka.admin import Cluster
from ingest.kafka.diagnosis import has_feature
from ingest.sandbox import broker as sandbox

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kdc import Kdc

_LISTENER = """\
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller},KERBEROS://127.0.0.1:{kerberos}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},KERBEROS://127.0.0.1:{kerberos}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,KERBEROS:SASL_PLAINTEXT
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
def realm(kdc: Kdc) -> Iterator[Realm]:
    kerberos = free_port()
    extra = _LISTENER.format(
        port="{port}", controller="{controller}", kerberos=kerberos
    )  # the sandbox fills its own in
    folder = kdc.folder / "kafka"
    running = sandbox.up(folder, free_port(), heap="512m", extra=extra + kdc.listener("kerberos"))
    yield Realm(kdc.folder, running.bootstrap, f"127.0.0.1:{kerberos}")
    sandbox.down(folder, wipe=True)


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
        with pytest.raises(AccessError) as caught:
            Cluster(conf).connect(3600)  # longer than a test may take: it is not the end of patience
        assert "\n" not in caught.value.message
        assert "no Kerberos login" in caught.value.message
        assert "keytab" in caught.value.hint

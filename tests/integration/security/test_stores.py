"""Java's trust and key stores on a secured cluster: a pipeline reads them, and leaves nothing of them anywhere."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from commands import called
from harness import INGEST, Kafka, finished, message
from key_stores import KEY_PASSWORD, PASSWORD, key_store, trust_store
from secured import lines

from ingest.sandbox.secure import Authority, Secure, client_properties

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shared_java import SharedJava


class Cluster:
    """A secured broker, and stores of its certificates."""

    def __init__(self, secure: Secure, folder: Path) -> None:
        self.folder = folder
        self.plain = client_properties(secure)
        credentials = Path(secure.folder)
        authority = (credentials / "ca.pem").read_bytes()
        own = (credentials / "client.key").read_bytes(), (credentials / "client.pem").read_bytes()
        self.secrets = [PASSWORD, KEY_PASSWORD, *(line for line in own[0].decode().splitlines() if "-" not in line)]
        servers = self.plain["SSL"]["bootstrap.servers"]
        self.stores = {}
        for kind in ("JKS", "PKCS12"):
            trust = trust_store(self.folder / f"trust.{kind}", kind, authority)
            store = key_store(self.folder / f"own.{kind}", kind, *own)
            self.stores[kind] = {
                "bootstrap.servers": servers, "security.protocol": "SSL", "ssl.truststore.location": str(trust),
                "ssl.truststore.password": PASSWORD, "ssl.truststore.type": kind, "ssl.keystore.location": str(store),
                "ssl.keystore.password": PASSWORD, "ssl.key.password": KEY_PASSWORD if kind == "JKS" else PASSWORD,
            }  # fmt: skip


@pytest.fixture(scope="module")
def cluster(secure: Secure, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    return Cluster(secure, tmp_path_factory.mktemp("stores"))


class Work:
    """A pipeline between two topics of the cluster, with dead letters in a third."""

    def __init__(self, folder: Path, kafka: Kafka) -> None:
        self.folder, self.kafka = folder, kafka
        self.file = folder / "pipe.yaml"
        self.kafka.create(f"{self.kafka.name}.in", 1)
        rows = [message("c", None, {"id": i, "v": i}) for i in range(5)]
        self.kafka.send(f"{self.kafka.name}.in", *rows, (None, b"{"))

    def write(self, source: Mapping[str, str], sink: Mapping[str, str], letters: Mapping[str, str]) -> None:
        name = self.kafka.name
        self.file.write_text(
            f"source:\n  type: kafka\n  topic: {name}.in\n  scan.startup.mode: earliest-offset\n{lines(source)}"
            f"  ingestion.ignore-errors: true\nsink:\n  type: upsert-kafka\n{lines(sink)}"
            f"route:\n  - {{source-table: '\\.*', sink-table: {name}.out.<>, replace-symbol: <>}}\n"
            "pipeline:\n  dirty-data.collector.type: kafka\n"
            f"  dirty-data.collector.topic: {name}.dead\n{lines(letters, 'dirty-data.collector.')}"
        )

    def ingest(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "TMPDIR": str(self.temporary)}
        command = [INGEST, *arguments]
        return subprocess.run(command, check=False, capture_output=True, text=True, env=env, timeout=180)

    @property
    def temporary(self) -> Path:
        folder = self.folder / "tmp"
        folder.mkdir(exist_ok=True)
        return folder

    def command(self) -> list[str]:
        place = str(self.folder / "checkpoint")
        return [INGEST, "run", str(self.file), "--once", "--checkpoint", place, "--master", "local[2]"]

    def run(self) -> subprocess.CompletedProcess[str]:
        return self.ingest(*self.command()[1:])


@pytest.fixture
def work(tmp_path: Path, plain: Kafka) -> Work:
    return Work(tmp_path, plain)


@pytest.mark.parametrize(("source", "sink"), [("JKS", "PKCS12"), ("PKCS12", "JKS")])
def test_source_sink_and_dead_letters_with_stores(work: Work, cluster: Cluster, source: str, sink: str) -> None:
    work.write(cluster.stores[source], cluster.stores[sink], cluster.stores[source])
    done = work.run()
    assert done.returncode == 0, done.stderr
    assert len(work.kafka.table(f"{work.kafka.name}.out.orders")) == 5
    listed = work.ingest("letters", "list", str(work.file))
    assert "1 dead letter\n" in listed.stdout, listed.stderr
    seen = {"stdout": done.stdout, "stderr": done.stderr, "letters": listed.stdout + listed.stderr}
    for path in (work.folder / "checkpoint").rglob("*"):
        if path.is_file():
            seen[str(path)] = path.read_bytes().decode(errors="replace")
    assert any("runs/1" in name for name in seen)
    for where, text in seen.items():
        for secret in cluster.secrets:
            assert secret not in text, where
    assert [path.name for path in work.temporary.iterdir() if not path.name.startswith("hsperfdata")] == []


def test_stores_and_certificates_on_a_file_system_of_hadoop(
    work: Work, cluster: Cluster, tmp_path: Path, shared_java: SharedJava
) -> None:
    def remote(properties: Mapping[str, str]) -> dict[str, str]:
        return {n: v if ".location" not in n else f"file://{v}" for n, v in properties.items()}

    work.write(remote(cluster.stores["JKS"]), remote(cluster.plain["SSL"]), remote(cluster.stores["PKCS12"]))
    done = work.run()
    assert done.returncode == 0, done.stderr
    assert len(work.kafka.table(f"{work.kafka.name}.out.orders")) == 5
    listed = work.ingest("letters", "list", str(work.file))
    assert "1 dead letter\n" in listed.stdout, listed.stderr
    planned = work.ingest("plan", str(work.file), "--checkpoint", str(work.folder / "checkpoint"))
    assert planned.returncode == 0, planned.stderr
    assert [path.name for path in work.temporary.iterdir() if not path.name.startswith("hsperfdata")] == []
    for place, why in (
        ("obs://bucket/trust.jks", "Spark has no file system 'obs' here"),
        ("obs://bucket/trust.jks", "spark.jars.packages=org.apache.hadoop:hadoop-huaweicloud:3."),
        ("s3://bucket/trust.jks", "Hadoop's own scheme for S3 is s3a"),
        (f"file://{work.folder}/nope", f"cannot read file://{work.folder}/nope: there is no such file"),
    ):
        work.write({**cluster.stores["JKS"], "ssl.truststore.location": place}, cluster.plain["SSL"], {})
        refused = finished(work.command(), shared_java, tmp_path)
        assert refused.code == 78, refused.err
        assert why in refused.err


def test_each_wrong_store_is_one_clear_line(work: Work, cluster: Cluster, tmp_path: Path) -> None:
    jks = cluster.stores["JKS"]
    place = jks["ssl.truststore.location"]
    option = "cannot use source.properties.ssl.truststore.location"
    for wrong, why in (
        (
            {"ssl.truststore.password": "no-such-word"},
            f"{option}: {place}: the password is wrong, or the file is damaged",
        ),
        ({"ssl.key.password": "no-such-word"}, "the password of the private key is wrong"),
        (
            {"ssl.keystore.location": cluster.plain["SSL"]["ssl.certificate.location"]},
            "it is a PEM file, and the pipeline says JKS",
        ),
        ({"ssl.keystore.location": place}, "it holds 0 private keys"),
        ({"ssl.keystore.location": str(tmp_path / "nope")}, f"{tmp_path}/nope: there is no such file"),
    ):
        given = {**jks, "ssl.keystore.type": "JKS", **wrong}
        work.write(given, cluster.plain["SSL"], {})
        done = called("checkpoint", "show", str(work.file))
        assert done.code == 78, (wrong, done.err)
        assert why in done.err, wrong
        assert "no-such-word" not in done.out + done.err


def test_an_expired_certificate_is_told_before_the_broker_refuses_it(
    work: Work, cluster: Cluster, tmp_path: Path, shared_java: SharedJava
) -> None:
    old = key_store(work.folder / "old", "JKS", *Authority("other").issue("me", valid=dt.timedelta(days=-3)))
    given = {**cluster.stores["JKS"], "ssl.keystore.location": str(old)}
    work.write(given, given, {})
    done = finished(work.command(), shared_java, tmp_path)
    assert done.code == 78, done.err
    assert f"source.properties.ssl.keystore.location: {old}: the certificate of 'CN=me' expired on " in done.err
    assert "did not accept this client's certificate" in done.err

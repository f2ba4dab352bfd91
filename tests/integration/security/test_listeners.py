"""Pipelines on each listener of a secured cluster."""

from __future__ import annotations

import threading
import time
from http.server import HTTPServer
from typing import TYPE_CHECKING

import pytest
from secured import Tokens, feed, unsigned

from ingest.kafka import msk, reference
from ingest.kafka.properties import OAUTH_ALLOWED, translate

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from harness import Kafka
    from secured import Run

    from ingest.sandbox.secure import Secure


@pytest.mark.parametrize(
    ("source", "sink"), [("SASL_SSL", "SSL"), ("SSL", "SASL_PLAINTEXT"), ("SASL_PLAINTEXT", "SASL_SSL")]
)
def test_pipelines_run_on_each_listener(
    run: Run, plain: Kafka, clients: dict[str, dict[str, str]], source: str, sink: str
) -> None:
    feed(plain)
    done = run(clients[source], clients[sink])
    assert done.code == 0, done.err
    assert len(plain.table(f"{plain.name}.out.orders")) == 5


def test_dead_letters_go_where_only_those_get_in_who_may(
    tmp_path: Path, run: Run, plain: Kafka, secure: Secure, clients: dict[str, dict[str, str]]
) -> None:
    feed(plain)
    plain.send(f"{plain.name}.in", (None, b"{"))

    def collector(properties: Mapping[str, str]) -> str:
        return f"pipeline:\n  dirty-data.collector.type: kafka\n  dirty-data.collector.topic: {plain.name}.dead\n" + (
            "".join(f"  dirty-data.collector.properties.{name}: '{value}'\n" for name, value in properties.items())
        )

    scram = clients["SASL_SSL"]
    wrong = run(clients["SSL"], clients["SSL"], collector({**scram, "sasl.password": "no"}))
    assert wrong.code == 78, wrong.err
    last = [line for line in wrong.err.splitlines() if line and not line.startswith("{")]
    assert last[0].startswith("error: ")
    assert "uthenticat" in last[0]
    assert secure.password not in wrong.err
    done = run(clients["SSL"], clients["SSL"], collector(scram))
    assert done.code == 0, done.err
    assert [letter.value for letter in plain.read(f"{plain.name}.dead")] == [b"{"]
    plain.send(f"{plain.name}.in", (None, b"["))
    done = run(clients["SSL"], scram, collector({}))  # through the sink's producer
    assert done.code == 0, done.err
    assert sorted(letter.value or b"" for letter in plain.read(f"{plain.name}.dead")) == [b"[", b"{"]
    for note in (tmp_path / "checkpoint").rglob("runs/*"):
        assert secure.password not in note.read_text()


def test_properties_pasted_from_a_java_pipeline(
    run: Run, plain: Kafka, secure: Secure, clients: dict[str, dict[str, str]]
) -> None:
    feed(plain)
    java = {
        "bootstrap.servers": clients["SASL_SSL"]["bootstrap.servers"],
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": "org.apache.flink.kafka.shaded.org.apache.kafka.common.security.scram.ScramLoginModule "
        f'required username="{secure.user}" password="{secure.password}";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": f"{secure.folder}/ca.pem",
        "ssl.endpoint.identification.algorithm": "",
        "key.deserializer": "org.apache.kafka.common.serialization.ByteArrayDeserializer",
    }
    done = run(java, java)
    assert done.code == 0, done.err
    assert len(plain.table(f"{plain.name}.out.orders")) == 5


def test_tokens_of_msk_reach_every_client(
    run: Run, plain: Kafka, clients: dict[str, dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signer is one of the test's own, whose tokens this broker takes; Amazon's is tried in unit tests."""
    feed(plain)
    signer = tmp_path / "site" / "aws_msk_iam_sasl_signer" / "MSKAuthTokenProvider.py"
    signer.parent.mkdir(parents=True)
    (signer.parent / "__init__.py").touch()
    signer.write_text(
        "import pathlib, os, time\n"
        "def generate_auth_token(region):\n"
        f"    with open({str(tmp_path / 'asked')!r}, 'a') as file:\n"
        "        file.write(f'{region} {os.getpid()}\\n')\n"
        f"    return {unsigned(900)!r}, int(1000 * (time.time() + 900))\n"
    )
    amazon = {
        "bootstrap.servers": clients["SASL_SSL"]["bootstrap.servers"], "security.protocol": "SASL_SSL",
        "ssl.ca.location": clients["SASL_SSL"]["ssl.ca.location"], "sasl.mechanism": "AWS_MSK_IAM",
        "aws.region": "eu-central-1",
    }  # fmt: skip
    done = run(amazon, amazon, PYTHONPATH=str(tmp_path / "site"))
    assert done.code == 0, done.err
    assert len(plain.table(f"{plain.name}.out.orders")) == 5
    asked = [line.split() for line in (tmp_path / "asked").read_text().splitlines()]
    assert {region for region, _ in asked} == {"eu-central-1"}
    assert len({process for _, process in asked}) >= 2, "the driver, and a worker"

    token = msk.LoginToken(unsigned(900), int(1000 * (time.time() + 900)))
    monkeypatch.setattr(msk.Login, "_signed", lambda _: token)
    client = reference.Producer(msk.with_login({**translate(amazon), "log_level": 0}))
    assert client.partitions(f"{plain.name}.in", 20.0) == 1
    assert client.close(10.0)


def test_oauthbearer_only_with_an_allowed_endpoint(run: Run, plain: Kafka, clients: dict[str, dict[str, str]]) -> None:
    feed(plain)
    server = HTTPServer(("127.0.0.1", 0), Tokens)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        url = f"http://127.0.0.1:{server.server_port}/token"
        oauth = {
            "bootstrap.servers": clients["SASL_SSL"]["bootstrap.servers"], "security.protocol": "SASL_SSL",
            "ssl.ca.location": clients["SASL_SSL"]["ssl.ca.location"], "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc", "sasl.oauthbearer.client.id": "me",
            "sasl.oauthbearer.client.secret": "oauth-secret", "sasl.oauthbearer.token.endpoint.url": url,
        }  # fmt: skip
        denied = run(oauth, oauth)
        assert (denied.code, f"not an allowed endpoint: {url}" in denied.err) == (78, True), denied.err
        assert Tokens.asked == []
        done = run(oauth, oauth, **{OAUTH_ALLOWED: url})
        assert done.code == 0, done.err
        assert len(plain.table(f"{plain.name}.out.orders")) == 5
        assert Tokens.asked[0].startswith("me:oauth-secret ")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

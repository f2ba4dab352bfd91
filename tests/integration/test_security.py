"""Secured clusters: a real broker with TLS, SCRAM, mTLS, PLAIN and OAUTHBEARER listeners, and ACLs."""

from __future__ import annotations

import base64
import datetime as dt
import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from brokers import broker
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)
from harness import INGEST, Kafka, Pipeline, Result, finished, free_port, message, until

from ingest.errors import AccessError, ConfigError
from ingest.kafka.admin import Cluster
from ingest.kafka.properties import OAUTH_ALLOWED
from ingest.sandbox import broker as sandbox
from ingest.sandbox.secure import Authority, Secure, client_properties

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from shared_java import SharedJava

OAUTH = """\
listener.name.sasl_ssl.sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER
listener.name.sasl_ssl.oauthbearer.sasl.jaas.config=\
org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;
"""


@pytest.fixture(scope="module")
def secure(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    folder = tmp_path_factory.mktemp("secure")
    running = broker(folder, secure=True, extra=OAUTH)
    assert running.secure is not None
    yield Secure(running.secure, str(folder / "secure"))
    sandbox.down(folder, wipe=True)


@pytest.fixture
def plain(secure: Secure) -> Kafka:
    """The listener without security, for what the tests themselves do."""
    there = sandbox.status(Path(secure.folder).parent)
    assert there is not None
    return Kafka(there.bootstrap)


@pytest.fixture
def clients(secure: Secure) -> dict[str, dict[str, str]]:
    """Working properties by listener."""
    found = client_properties(secure)
    for properties in found.values():
        if "sasl.password" in properties:
            properties["sasl.password"] = secure.password
    return found


def lines(properties: Mapping[str, str]) -> str:
    return "".join(f"  properties.{name}: '{value}'\n" for name, value in properties.items())


Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, plain: Kafka, shared_java: SharedJava) -> Run:
    """A function that runs a pipeline from the topic `in` once, with other properties for source and sink."""

    def run(source: Mapping[str, str], sink: Mapping[str, str], more: str = "", **env: str) -> Result:
        """`more` is more of the pipeline's file."""
        file = tmp_path / "pipe.yaml"
        file.write_text(
            f"source:\n  type: kafka\n  topic: {plain.name}.in\n  scan.startup.mode: earliest-offset\n{lines(source)}"
            f"  ingestion.ignore-errors: {bool(more)}\n"
            f"sink:\n  type: upsert-kafka\n{lines(sink)}"
            f"route:\n  - {{source-table: '\\.*', sink-table: {plain.name}.out.<>, replace-symbol: <>}}\n{more}"
        )
        place = ["--checkpoint", str(tmp_path / "checkpoint"), "--master", "local[2]"]
        return finished([INGEST, "run", str(file), "--once", *place], None if env else shared_java, tmp_path, env)

    return run


def feed(kafka: Kafka) -> None:
    kafka.create(f"{kafka.name}.in", 1)
    kafka.send(f"{kafka.name}.in", *[message("c", None, {"id": i, "v": i}) for i in range(5)])


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


def refused(conf: dict[str, str]) -> str:
    """The one line that a connection with these properties is refused with."""
    started = time.monotonic()
    with pytest.raises((AccessError, ConfigError)) as caught:
        Cluster(conf).connect(20)
    assert time.monotonic() - started < 15
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


class Tokens(BaseHTTPRequestHandler):
    """An OAuth server's token endpoint; its tokens are not signed, which the test's broker accepts."""

    asked: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        Tokens.asked.append(base64.b64decode(self.headers["Authorization"].split()[1]).decode() + " " + body)
        now = int(time.time())

        def part(value: dict[str, Any]) -> str:
            return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

        token = f"{part({'alg': 'none', 'typ': 'JWT'})}.{part({'sub': 'ingest', 'iat': now, 'exp': now + 300})}."
        text = json.dumps({"access_token": token, "token_type": "bearer", "expires_in": 300}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        pass


def test_oauthbearer_only_with_an_allowed_endpoint(run: Run, plain: Kafka, clients: dict[str, dict[str, str]]) -> None:
    feed(plain)
    server = HTTPServer(("127.0.0.1", 0), Tokens)
    thread = threading.Thread(target=server.serve_forever)
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


def test_secrets_show_nowhere(
    tmp_path: Path, run: Run, plain: Kafka, secure: Secure, clients: dict[str, dict[str, str]]
) -> None:
    """Every output, log, plan, checkpoint and page of Spark's UI of a run, searched for its pipeline's secrets."""
    feed(plain)
    hidden = {"sandbox": secure.password, "user": "user-name-from-a-secret"}
    Cluster({"bootstrap.servers": plain.bootstrap}).set_scram(hidden["user"], hidden["sandbox"])
    properties = {
        **clients["SASL_SSL"],
        "sasl.password": "${secret_values.sandbox}",
        "sasl.username": "${secret_values.user}",
    }
    # One end has its password from a secret, the other in the file, as pasted pipelines do
    jaas = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="{user}" password="{sandbox}";'
    pasted = {k: v for k, v in clients["SASL_SSL"].items() if k not in {"sasl.username", "sasl.password"}}
    pasted["sasl.jaas.config"] = jaas.format(**hidden)
    port = free_port()
    file = tmp_path / "pipe.yaml"
    pipeline = Pipeline(tmp_path, plain, f"{plain.name}.in")
    file.write_text(
        f"source:\n  type: kafka\n  topic: {plain.name}.in\n  scan.startup.mode: earliest-offset\n{lines(pasted)}"
        f"sink:\n  type: upsert-kafka\n{lines(properties)}"
        f"route:\n  - {{source-table: '\\.*', sink-table: {plain.name}.out.<>, replace-symbol: <>}}\n"
    )
    events = tmp_path / "events"
    events.mkdir()
    process = pipeline.start(
        "--conf", "spark.ui.enabled=true", "--conf", f"spark.ui.port={port}", "--conf", "spark.eventLog.enabled=true",
        "--conf", f"spark.eventLog.dir=file://{events}",
        env={"INGEST_SECRET_SANDBOX": hidden["sandbox"], "INGEST_SECRET_USER": hidden["user"]},
    )  # fmt: skip
    seen: dict[str, str] = {}
    try:
        out = f"{plain.name}.out.orders"
        until(lambda: out in plain.cluster.names() and plain.end(out) >= 5, 90, process)
        arguments = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if readable(path)]
        seen["command lines"] = b"\n".join(arguments).decode(errors="replace")
        for page in ("jobs/", "stages/", "stages/stage/?id=0&attempt=0", "environment/", "executors/", "storage/",
                     "api/v1/applications"):  # fmt: skip
            seen[page] = fetch(f"http://127.0.0.1:{port}/{page}")
        assert "Spark" in seen["environment/"]
    finally:
        process.terminate()
        seen["stdout"], seen["stderr"] = process.communicate(timeout=60)
    assert process.returncode == 0, seen["stderr"]
    assert '"batch done"' in seen["stderr"]
    for path in [*pipeline.checkpoint.rglob("*"), *events.rglob("*")]:
        if path.is_file():
            seen[str(path)] = path.read_bytes().decode(errors="replace")
    assert any("runs/1" in name for name in seen)
    assert any("spark.log" in name for name in seen)
    for where, text in seen.items():
        for secret in hidden.values():
            assert secret not in text, where
    wrong = run(
        {**pasted, "sasl.jaas.config": jaas.format(user=hidden["user"], sandbox="a-wrong-password")},
        properties,
        INGEST_SECRET_SANDBOX=hidden["sandbox"],
        INGEST_SECRET_USER=hidden["user"],
    )
    assert wrong.code == 78
    assert "a-wrong-password" not in wrong.err + wrong.out
    assert hidden["user"] not in wrong.err + wrong.out


def readable(path: Path) -> bool:
    try:
        path.read_bytes()
    except OSError:
        return False
    return True


def fetch(url: str) -> str:
    import urllib.request

    with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310  (Spark's UI on loopback)
        text: str = answer.read().decode(errors="replace")
    return text

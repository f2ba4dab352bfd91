"""The pipelines of docs/from-sql.md, with a real broker on both sides: each in this process, two by the command.

Messages and results are in from-sql.yaml. Those with Kerberos are only read: the client that is installed has none.
"""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pytest
from from_sql import BLOCKS, KERBEROS, PAGE
from harness import Kafka, Pipeline, free_port
from key_stores import KEY_PASSWORD, PASSWORD, key_store, trust_store
from ruamel.yaml import YAML
from scenario_files import send
from schema_registry import record, written

from ingest.config.loader import load_text
from ingest.config.scenario import read
from ingest.driver.context import read_files
from ingest.driver.run_parts import Endpoints
from ingest.observe.events import Printed
from ingest.sandbox import broker as sandbox
from ingest.sandbox.secure import USER, Secure
from ingest.testing.in_memory_run import run_in_process

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shared_java import SharedJava

    from ingest.config.pipeline import Pipeline as LoadedPipeline
    from ingest.config.scenario import Scenario

CASES = YAML(typ="safe").load(Path(__file__).with_name("from-sql.yaml").read_text())
JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required"
EXTRA = f"""\
listener.name.sasl_ssl.sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512,PLAIN
listener.name.sasl_ssl.plain.sasl.jaas.config={JAAS} user_{USER}="{PASSWORD}";
listener.name.ssl.ssl.client.auth=none
"""
"""Listeners as the examples expect them: PLAIN over TLS, and TLS without a certificate of the client."""
Avro = dict[str, Any] | None


@pytest.fixture(scope="module")
def secure(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    folder = tmp_path_factory.mktemp("secure")
    running = sandbox.up(folder, free_port(), heap="384m", secure=True, extra=EXTRA)
    assert running.secure is not None
    own = Secure(running.secure, str(folder / "secure"))
    certificates = [(folder / "secure" / name).read_bytes() for name in ("ca.pem", "client.key", "client.pem")]
    trust_store(folder / "trust.jks", "JKS", certificates[0])
    key_store(folder / "own.jks", "JKS", *certificates[1:])
    yield own
    sandbox.down(folder, wipe=True)


@pytest.fixture
def broker(secure: Secure) -> Kafka:
    """The broker without any topic: the page names its topics as the references do."""
    running = sandbox.status(Path(secure.folder).parent)
    assert running is not None
    kafka = Kafka(running.bootstrap)
    kafka.clear()
    return kafka


@pytest.fixture
def variables(secure: Secure, broker: Kafka, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The variables of the page; the environment has its secrets."""
    folder = Path(secure.folder).parent
    for name, secret in (
        ("STORE", PASSWORD), ("KEY", KEY_PASSWORD), ("KAFKA", secure.password),
        ("DMS", json.dumps({"jaas": f'{JAAS} username="{USER}" password="{PASSWORD}";', "store": PASSWORD})),
    ):  # fmt: skip
        monkeypatch.setenv(f"INGEST_SECRET_{name}", secret)
    listeners = {name.lower(): address for name, address in secure.listeners.items()}
    stores = {"truststore": str(folder / "trust.jks"), "keystore": str(folder / "own.jks")}
    return {"bootstrap": broker.bootstrap, "user": USER, **listeners, **stores}


def test_each_pipeline_of_the_page_has_a_case() -> None:
    assert sorted(BLOCKS) == sorted([*CASES, *KERBEROS])
    assert PAGE.read_text().count("```yaml") == len(BLOCKS)


@pytest.mark.parametrize("title", CASES)
def test_pipeline_of_the_page(title: str, broker: Kafka, variables: dict[str, str], tmp_path: Path) -> None:
    case = CASES[title]
    scenario = scenario_of(title, variables, tmp_path)
    splits = send(broker, scenario)
    pipeline = readable(scenario)
    lines: list[str] = []

    def observe(event: Any) -> None:
        if isinstance(event, Printed):
            lines.extend(event.lines)

    endpoints = Endpoints(pipeline.source, pipeline.sink, pipeline.pipeline.collector)
    run = run_in_process(pipeline, endpoints, observe, look_ahead=999)
    assert run.error is None, run.error
    assert [f"{r.stage}/{r.code}" for r in run.rejects] == case.get("rejects", [])
    assert dict(run.summary.skipped) == case.get("skipped", {})
    expected = case.get("lines", [])
    if splits > 1:  # which of them is read first is not said
        lines, expected = sorted(lines), sorted(expected)
    assert lines == expected
    assert results(broker, scenario, case) == sorted(line.replace(', "', ',"') for line in case.get("records", []))


@pytest.mark.parametrize("title", KERBEROS)
def test_pipeline_with_kerberos_has_no_mistake(title: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INGEST_SECRET_DMS", json.dumps({"store": PASSWORD}))
    loaded = load_text("page.yaml", BLOCKS[title], "page", {}, Path())
    assert not loaded.diagnostics
    assert loaded.pipeline is not None


def test_changes_become_an_upsert_topic_and_that_a_table_by_the_command(
    broker: Kafka, variables: dict[str, str], tmp_path: Path, shared_java: SharedJava
) -> None:
    into, back = "Debezium's changes as an upsert topic", "The upsert topic as a table"
    send(broker, scenario_of(into, variables, tmp_path))
    pipeline = Pipeline(tmp_path, broker, "dbz_users", shared_java)
    for title in (into, back):
        pipeline.checkpoint = tmp_path / title
        pipeline.file.write_text(BLOCKS[title].replace("${bootstrap:-127.0.0.1:29092}", broker.bootstrap))
        done = pipeline.run()
        assert done.code == 0, done.err
    shown = [line for line in done.out.splitlines() if line.startswith("users> ")]
    # The row of user 103 has a region here; of different keys the order is not said
    assert sorted(shown) == sorted(line.replace("null", "Berlin") for line in CASES[back]["lines"])


def scenario_of(title: str, variables: dict[str, str], folder: Path) -> Scenario:
    """Return a pipeline of the page with its variables, and its messages."""
    block, case = BLOCKS[title], CASES[title]
    (folder / "page.yaml").write_text(block)
    used = {name: value for name, value in variables.items() if f"${{{name}:-" in block}
    messages = [encoded(case.get("read"), message) for message in case["messages"]]
    file = folder / "scenario.yaml"
    file.write_text(json.dumps({"pipeline": "page.yaml", "set": used, "messages": messages}))
    return read(file)


def encoded(fields: Avro, message: dict[str, Any]) -> dict[str, Any]:
    """Return a message whose value is a record of these fields in Avro, if there are any."""
    if fields is None or message["value"] is None:
        return message
    value = written(schema_of(fields), message["value"])
    others = {name: given for name, given in message.items() if name != "value"}
    return {**others, "value-base64": base64.b64encode(value).decode()}


def schema_of(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a record of these fields. In YAML the type `null` is a null."""
    kinds = {
        name: ["null" if one is None else one for one in kind] if isinstance(kind, list) else kind
        for name, kind in fields.items()
    }
    return record("org.apache.flink.avro.generated.record", **kinds)


def readable(scenario: Scenario) -> LoadedPipeline:
    """Return the pipeline with what is in its files. Messages are sent before it runs, so it reads older ones, too."""
    pipeline = scenario.loaded.pipeline
    assert pipeline is not None, scenario.loaded.diagnostics
    if pipeline.source.type == "kafka" and pipeline.source.startup_mode == "latest-offset":
        source = pipeline.source.model_copy(update={"startup_mode": "earliest-offset"})
        pipeline = pipeline.model_copy(update={"source": source})
    return read_files(pipeline, no_java, pytest.fail)


def no_java() -> tuple[Any, Any]:
    pytest.fail("a file of the page's variables is not a local one")


def results(broker: Kafka, scenario: Scenario, case: dict[str, Any]) -> list[str]:
    """Return what is in topics that the pipeline has made, a line for each record, sorted."""
    topics = set(broker.admin.list_topics(timeout=10).topics) - {m.topic for m in scenario.messages}
    avro = case.get("written", {})
    lines = []
    for topic in topics - {name for name in topics if name.startswith("__")}:
        for found in broker.read(topic):
            key, value = decoded(avro.get("key"), found.key), decoded(avro.get("value"), found.value)
            at = f" at {found.timestamp}" if any(" at " in line for line in case.get("records", [])) else ""
            lines.append(f"{topic} {'' if found.key is None else f'{key} '}{value}{at}")
    return sorted(lines)


def decoded(fields: Avro, content: bytes | None) -> str:
    """Return a key or value as text; a record of these fields as JSON. Every byte has to be of it."""
    if content is None or fields is None:
        return "null" if content is None else content.decode()
    file = io.BytesIO(content)
    row = fastavro.schemaless_reader(file, fastavro.parse_schema(schema_of(fields)), None)
    assert not file.read()
    return json.dumps(row, default=str, separators=(",", ":"))

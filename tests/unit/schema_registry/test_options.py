"""Options of formats with a schema registry: their names, what they become, and what is refused."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from key_stores import PASSWORD, key_store, trust_store

from ingest.component.files import Files
from ingest.config.loader import load, load_text
from ingest.config.redaction import is_secret, may_be_secret, secrets_in
from ingest.formats.avro.options import AvroConfluent
from ingest.sandbox.secure import Authority
from ingest.schema_registry.subjects import subject_of

if TYPE_CHECKING:
    from ingest.config.loader import Loaded

PIPELINE = """\
source:
  type: kafka
  properties.bootstrap.servers: h:1
  topic: t
  value.format: {name}
{options}
sink: {{type: print}}
"""
FOLDER = Path(__file__).parent / "files"
"""Pipelines with all options of a format."""
NAMES = (
    "avro-confluent", "debezium-avro-confluent", "protobuf-confluent", "json-confluent", "debezium-json-confluent",
)  # fmt: skip
FORMATS = pytest.mark.parametrize("name", NAMES)


@FORMATS
def test_all_options(name: str) -> None:
    loaded = load(FOLDER / f"{name}.yaml")
    assert loaded.pipeline is not None, loaded.diagnostics
    chosen = loaded.pipeline.source.format
    assert chosen.ignore_parse_errors
    assert chosen.client() == {
        "url": "https://one:8081,https://two:8081", "timeout": 3.0, "max.retries": 2, "retries.wait.ms": 200,
        "retries.max.wait.ms": 2000, "ssl.ca.location": "ca.pem", "ssl.certificate.location": "own.pem",
        "ssl.key.location": "own.pem", "ssl.key.password": "of-the-key", "basic.auth.user.info": "me:of-mine",
        "bearer.auth.token": "of-all", "bearer.auth.credentials.source": "STATIC_TOKEN",
        "bearer.auth.logical.cluster": "lsrc", "bearer.auth.identity.pool.id": "",
    }  # fmt: skip
    warned = [diagnostic.message for diagnostic in loaded.diagnostics]
    assert any(f"{name}.subject has no effect" in text for text in warned)
    assert any(f"{name}.ssl.truststore.password has no effect" in text for text in warned)


@FORMATS
def test_older_names_of_flink(name: str) -> None:
    text = PIPELINE.format(name=name, options=f"  {name}.schema-registry.url: http://h:1")
    loaded = load_text("p", text, "p")
    assert loaded.pipeline is not None, loaded.diagnostics
    assert loaded.pipeline.source.format.client()["url"] == "http://h:1"


@pytest.mark.parametrize(("options", "why"), [
    ("  avro-confluent.subject: s", "avro-confluent.url"),
    ("  avro-confluent.url: h:8081", "is no address of a registry"),
    (
        "  avro-confluent.url: http://h\n  avro-confluent.basic-auth.credentials-source: USER_INFO",
        "needs avro-confluent.basic-auth.user-info",
    ),
    ("  avro-confluent.url: http://h\n  avro-confluent.basic-auth.user-info: me", "is not user:password"),
    (
        "  avro-confluent.url: http://h\n  avro-confluent.bearer-auth.token: abc",
        "needs avro-confluent.bearer-auth.credentials-source",
    ),
    ("  avro-confluent.url: http://h\n  avro-confluent.properties.no.such: 1", "no such property"),
    ("  avro-confluent.url: http://h\n  avro-confluent.properties.timeout: soon", "is not a number"),
    ("  avro-confluent.url: http://h\n  avro-confluent.uri: 1", "avro-confluent.uri"),
    ("  avro-confluent.url: http://h\n  key.avro-confluent.url: http://h", "is not possible without key.format"),
    ("  avro-confluent.url: http://h\n  key.format: json\n  key.json.x: 1", "unknown option 'json.x' in key.json"),
    ("  avro-confluent.url: http://h\n  key.format: avro-confluent\n  key.avro-confluent.url: h", "no address of a"),
])  # fmt: skip
def test_what_is_refused(options: str, why: str) -> None:
    loaded = load_text("p", PIPELINE.format(name="avro-confluent", options=options), "p")
    assert loaded.pipeline is None
    assert any(why in diagnostic.message for diagnostic in loaded.diagnostics), loaded.diagnostics


def test_stores_are_read_once_and_go_with_the_options(java: None, tmp_path: Path) -> None:
    authority = Authority("one")
    key, chain = authority.issue("client")
    trust = trust_store(tmp_path / "trust.jks", "JKS", authority.pem)
    own = key_store(tmp_path / "own.p12", "PKCS12", key, chain)
    text = PIPELINE.format(name="avro-confluent", options=(
        f"  avro-confluent.url: https://h\n  avro-confluent.ssl.truststore.location: {trust}\n"
        f"  avro-confluent.ssl.truststore.password: {PASSWORD}\n"
        f"  avro-confluent.ssl.keystore.location: {own}\n  avro-confluent.ssl.keystore.password: {PASSWORD}\n"
        "  key.format: avro-confluent"
    ))  # fmt: skip
    loaded = load_text("p", text, "p")
    assert loaded.pipeline is not None, loaded.diagnostics
    assert not loaded.diagnostics
    source = loaded.pipeline.source.with_files_of_formats(Files("source", lambda _: b"", print))
    trust.unlink()
    for chosen in (source.format, source.extra.key_format):
        conf = pickle.loads(pickle.dumps(chosen)).client()  # noqa: S301  (our own)
        assert conf["ssl.ca.pem"] == authority.pem.decode()
        assert conf["ssl.certificate.pem"] == chain.decode()
        assert "BEGIN PRIVATE KEY" in conf["ssl.key.pem"]
        assert not [name for name in conf if name.endswith(".location")]
    (note,) = load_text("p", text.replace("  key.format: avro-confluent", ""), "p").diagnostics
    assert note.severity == "note"
    assert note.message == f"avro-confluent.ssl.truststore.location: {trust}: there is no such file"


@pytest.mark.parametrize(("options", "why"), [
    ("", "give either avro.schema or avro.schema-file"),
    ("  avro.schema: '{}'\n  avro.schema-file: a.avsc", "give either avro.schema or avro.schema-file"),
    ("  avro.schema-file: there-is-no-such.avsc", "avro.schema-file: the file cannot be read"),
    ("  avro.schema: '\"int\"'", "avro.schema: the schema cannot be used: it is of the type 'int'"),
])  # fmt: skip
def test_schemas_of_plain_avro_that_are_refused(options: str, why: str) -> None:
    loaded = load_text("p", PIPELINE.format(name="avro", options=options), "p")
    assert loaded.pipeline is None
    assert any(why in diagnostic.message for diagnostic in loaded.diagnostics), loaded.diagnostics


def test_a_schema_from_a_file_goes_to_workers_with_the_options(tmp_path: Path) -> None:
    file = tmp_path / "row.avsc"
    file.write_text('{"type":"record","name":"r","fields":[{"name":"id","type":"int"}]}')
    options = f"  avro.schema-file: {file}\n  avro.ignore-parse-errors: true"
    loaded = load_text("p", PIPELINE.format(name="avro", options=options), "p")
    assert loaded.pipeline is not None, loaded.diagnostics
    sent = pickle.dumps(loaded.pipeline.source.format)
    file.unlink()
    chosen = pickle.loads(sent)  # noqa: S301  (our own)
    assert chosen.ignore_parse_errors
    (found,) = chosen.decoder("t").decode([None], [b"\x02"])
    assert bytes(found[3]) == b'{"id":1}'


SINK = """\
source: {{type: file, path: "*.jsonl"}}
sink:
  type: {kind}
  properties.bootstrap.servers: h:1
{options}
"""


CONFLUENT = "  value.format: avro-confluent\n  avro-confluent.url: http://h\n"


def sink(options: str, kind: str = "upsert-kafka") -> Loaded:
    return load_text("p", SINK.format(kind=kind, options=options), "p")


def test_a_sink_takes_the_options_of_its_formats_in_flinks_spelling() -> None:
    loaded = sink(
        "  value.format: avro-confluent\n  value.avro-confluent.url: http://v:1\n  value.avro-confluent.subject: s\n"
        "  value.avro-confluent.properties.normalize.schemas: true\n  key.format: avro-confluent\n"
        "  key.avro-confluent.url: http://k:1\n  key.avro-confluent.bearer-auth.credentials-source: STATIC_TOKEN\n"
        "  key.avro-confluent.bearer-auth.token: of-all"
    )
    assert loaded.pipeline is not None, loaded.diagnostics
    assert not loaded.diagnostics
    chosen: Any = loaded.pipeline.sink
    assert (chosen.format.url, chosen.format.subject) == ("http://v:1", "s")
    assert chosen.format.switch("normalize.schemas", default=False)
    assert chosen.format.client()["url"] == "http://v:1"
    keys = chosen._key_options
    assert (keys.url, keys.subject, keys.bearer_token) == ("http://k:1", None, "of-all")


def test_keys_without_options_have_those_of_the_values_but_for_subject_and_schema() -> None:
    row = '{"type":"record","name":"r","fields":[]}'
    loaded = sink(
        "  value.format: avro-confluent\n  key.format: avro-confluent\n  avro-confluent.url: http://v:1\n"
        f"  avro-confluent.subject: s\n  avro-confluent.schema: '{row}'"
    )
    assert loaded.pipeline is not None, loaded.diagnostics
    keys: Any = loaded.pipeline.sink._key_options
    assert (keys.url, keys.subject, keys.schema_text) == ("http://v:1", None, None)


@pytest.mark.parametrize(("kind", "options", "why"), [
    ("upsert-kafka", "  value.format: avro-confluent", "avro-confluent.url"),
    ("upsert-kafka", "  value.format: debezium-avro-confluent", "value.format"),
    ("kafka", "  key.format: debezium-avro-confluent", "key.format"),
    ("kafka", "  value.format: avro\n  avro.schema: '{'", "avro.schema: the schema cannot be used"),
    ("kafka", "  value.format: avro\n  avro.schema: '{}'\n  avro.schema-file: a", "give either avro.schema or"),
    ("kafka", "  value.format: json\n  json.flatten: true", "json.flatten"),
    (
        "kafka", "  value.format: avro\n  value.avro.schema: '{}'\n  avro.schema: '{}'",
        "'value.avro.schema' and 'avro.schema' are one option",
    ),
    (
        "kafka",
        f"{CONFLUENT}  avro-confluent.schema: '{{'".replace("avro-confluent", "debezium-avro-confluent"),
        "debezium-avro-confluent.schema: the schema cannot be used",
    ),
    (
        "kafka", f"{CONFLUENT}  avro-confluent.properties.auto.register.schemas: maybe", "is neither true nor false",
    ),
    (
        "kafka", f"{CONFLUENT}  avro-confluent.properties.value.subject.name.strategy: Mine",
        "is none of TopicNameStrategy",
    ),
])  # fmt: skip
def test_what_a_sink_refuses(kind: str, options: str, why: str) -> None:
    loaded = sink(options, kind)
    assert loaded.pipeline is None
    assert any(why in diagnostic.message for diagnostic in loaded.diagnostics), loaded.diagnostics


def test_what_a_sink_does_not_use_is_said() -> None:
    loaded = sink(
        "  value.format: avro-confluent\n  avro-confluent.url: http://h\n  avro-confluent.ignore-parse-errors: true"
    )
    assert loaded.pipeline is not None
    (warned,) = [diagnostic.message for diagnostic in loaded.diagnostics]
    assert "avro-confluent.ignore-parse-errors has no effect for a sink" in warned


def test_subjects_by_their_strategies() -> None:
    def subject(**more: str) -> str:
        given = {"avro-confluent.url": "http://h", **{f"avro-confluent.{name}": value for name, value in more.items()}}
        return subject_of(AvroConfluent.model_validate(given), "t", "value", "ns.Record")

    strategy = "properties.value.subject.name.strategy"
    assert subject() == "t-value"
    assert subject(**{"subject": "mine", strategy: "RecordNameStrategy"}) == "mine"
    assert subject(**{strategy: "TopicNameStrategy"}) == "t-value"
    assert subject(**{strategy: "RecordNameStrategy"}) == "ns.Record"
    confluent = "io.confluent.kafka.serializers.subject.TopicRecordNameStrategy"
    assert subject(**{strategy: confluent}) == "t-ns.Record"


def test_placeholders_are_not_judged() -> None:
    options = "  avro-confluent.url: ${registry}\n  avro-confluent.basic-auth.user-info: ${secret_values.user}"
    loaded = load_text("p", PIPELINE.format(name="avro-confluent", options=options), "p")
    assert not [diagnostic for diagnostic in loaded.diagnostics if diagnostic.severity == "error"]


def test_secrets_are_masked() -> None:
    for option in (
        "avro-confluent.basic-auth.user-info", "avro-confluent.bearer-auth.token",
        "avro-confluent.ssl.keystore.password", "avro-confluent.properties.ssl.key.password",
        "debezium-avro-confluent.properties.basic.auth.user.info",
    ):  # fmt: skip
        for spelled in (option, f"value.{option}", f"key.{option}"):
            assert is_secret(spelled), spelled
            assert may_be_secret(spelled), spelled
    for spelled in ("value.avro-confluent.properties.any.thing", "key.avro-confluent.properties.any.thing"):
        assert may_be_secret(spelled), spelled
    options = "  avro-confluent.url: http://h\n  avro-confluent.basic-auth.user-info: hidden-words"
    loaded = load_text("p", PIPELINE.format(name="avro-confluent", options=options), "p")
    said = "".join(str(diagnostic) for diagnostic in loaded.diagnostics)
    assert "is not user:password" in said
    assert "hidden-words" not in said
    assert [*secrets_in("avro-confluent.basic-auth.credentials-source", "URL")] == []
    assert [*secrets_in("avro-confluent.basic-auth.user-info", "me:mine")] == ["me:mine", "me:mine", "mine"]


UNWANTED = ("fastavro", "google.protobuf", "confluent_kafka", "httpx2", "ingest.formats.protobuf.schema")
OF_AVRO = "ingest.formats.avro.schema"


def test_a_pipeline_without_avro_imports_nothing_of_it(tmp_path: Path) -> None:
    """Nor does a check of a pipeline with Avro talk to a registry, or load a client."""
    program = (
        f"import sys\nfrom ingest.config.loader import load, load_text\nNAMES = {UNWANTED}\n"
        "for name in sys.argv[1:]:\n"
        "    assert load_text('p', open(name).read(), 'p').pipeline\n"
        "    print([m for m in NAMES if m in sys.modules])\n"
        f"    print({OF_AVRO!r} in sys.modules)"
    )
    files = [(FOLDER / f"{name}.yaml").read_text() for name in NAMES]
    texts = [PIPELINE.format(name="json", options=""), *files]
    paths = [tmp_path / f"{number}.yaml" for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    command = [sys.executable, "-c", program, *map(str, paths)]
    found = subprocess.run(command, capture_output=True, text=True, check=True, env=dict(os.environ))
    first, *others = found.stdout.removesuffix("\n").split("\n")
    assert first == "[]"
    assert others[0] == "False"
    assert others[1::2] == ["[]"] * (len(texts) - 1)

"""Client properties, secrets, and the limits of the pipeline file."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from ingest.config.loader import load
from ingest.config.placeholders import Filled, Interpolation
from ingest.config.redaction import mask
from ingest.config.secrets import Secrets
from ingest.kafka.properties import PropertyError, translate
from ingest.sinks.topics.upsert_kafka import UpsertKafka

if TYPE_CHECKING:
    from pathlib import Path

SERVERS = {"bootstrap.servers": "h:1"}
GOOD = """\
source: {type: kafka, topic: t, properties.bootstrap.servers: "h:1"}
sink: {type: upsert-kafka, properties.bootstrap.servers: "h:1"}
"""


def test_java_properties_are_translated_or_refused() -> None:
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p\\"x";'
    assert translate({**SERVERS, "sasl.jaas.config": jaas, "key.deserializer": "x"}) == {
        **SERVERS, "sasl.username": "u", "sasl.password": 'p"x',
    }  # fmt: skip
    for name in ("buffer.memory", "enable.auto.commit", "plugin.library.paths", "ssl.truststore.type"):
        with pytest.raises(PropertyError) as caught:
            translate({**SERVERS, name: "1"})
        assert caught.value.problems[0][0] == name
    with pytest.raises(PropertyError, match=r"bootstrap\.servers"):
        translate({})


def test_order_per_key_holds_without_idempotence() -> None:
    def client(**more: str) -> dict[str, str]:
        return UpsertKafka.model_validate({"type": "upsert-kafka", "properties.*": {**SERVERS, **more}}).client("p")

    assert client()["enable.idempotence"] == "true"
    assert client(**{"enable.idempotence": "false"})["max.in.flight.requests.per.connection"] == "1"


def test_placeholders(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from-file\n")
    environment = {"INGEST_SECRET_DB_PASS": "s3cret", "HOME2": "/h", "INGEST_SECRETS_DIR": str(tmp_path)}
    fill = Interpolation({"a.b": "1", "empty": ""}, environment, Secrets(environment))
    filled = Filled("x 1 d  /h ${a}", ("1", "d", "", "/h"))
    assert fill.fill("x ${a.b} ${c:-d} ${empty:-z} ${env:HOME2} $${a}") == filled
    assert fill.fill("${secret_values.db.pass}/${secret_values.token}").text == "s3cret/from-file"
    assert fill.secrets.known == {"s3cret", "from-file"}
    assert fill.fill(f"${{file:{tmp_path / 'token'}}}").text == "from-file"
    left = fill.fill("${nope} ${secret_values.nope} ${env:NOPE} ${secret_values.../../etc/passwd}")
    assert left.text.startswith("${nope}")
    assert [(problem.at, problem.length) for problem in left.problems] == [(0, 7), (8, 21), (30, 11), (42, 33)]
    assert "INGEST_SECRET_NOPE" in left.problems[1].why
    assert str(tmp_path / "nope") in left.problems[1].why
    assert mask("password s3cret!", frozenset(fill.secrets.known)) == "password ********!"


def test_values_never_become_structure(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(
        GOOD + 'pipeline: {variables: {v: "x, topic: evil"}}\nroute:\n  - {source-table: "${v}", sink-table: y}\n'
    )
    loaded = load(file)
    assert loaded.pipeline is not None
    assert loaded.pipeline.route[0].source_table == "x, topic: evil"


def test_set_wins_over_variables_and_the_name_comes_from_the_file(tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    file.write_text(GOOD.replace("topic: t", 'topic: "${t}"') + "pipeline:\n  variables: {t: a}\n")
    first, second = load(file), load(file, {"t": "b"})
    assert first.pipeline is not None
    assert second.pipeline is not None
    assert (first.pipeline.source.topics, second.pipeline.source.topics) == (("a",), ("b",))
    assert first.pipeline.pipeline.name == "orders"


def test_nested_keys_under_pipeline(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(GOOD + "pipeline:\n  schema:\n    change:\n      behavior: exception\n  batch-interval: 2 s\n")
    loaded = load(file)
    assert loaded.pipeline is not None
    assert loaded.pipeline.pipeline.behavior == "exception"
    assert loaded.pipeline.pipeline.batch_interval == 2.0


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> float:
    """Processor seconds that a file takes that has a fifth of the values that one may have."""
    file = tmp_path_factory.mktemp("large") / "p.yaml"
    file.write_text("a: [" + ",".join("x" * 10_000) + "]\n")
    started = time.process_time()
    assert not any("values" in d.message for d in load(file).diagnostics)
    return time.process_time() - started


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(9)
)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x" * (1 << 21), "larger than"),
        (BOMB, "more than 50000 values"),
        ("[" * 100_000, "deeper than"),
        ("a:\n" + "".join(" " * i + f"k{i}:\n" for i in range(1, 900)), "deeper than"),
        ("- " * 20_000 + "x", "deeper than"),
        ("{a: " * 5000, "deeper than"),
        ("a: " + "[" * 20_000 + "]" * 20_000, "deeper than"),
        ("a: " + "{" * 20_000 + "}" * 20_000, "deeper than"),
        ("source: {type: kafka, topic: '" + "${x}" * 100_000 + "'}", "is missing"),
        ("%YAML 1.3\n---\na: b", "directive"),
        ('a: "\\UFFFFFFFF"', "not YAML"),
        ("source:\n  type: kafka\n" + "".join(f"  typ{i}: x\n" for i in range(5_000)), "more errors"),
        ("a: !!python/object/apply:os.system [id]", "tag"),
        ("a: &x {b: 1}\nc: {<<: *x}", "merge keys"),
        ("\x00", "not YAML"),
        ("a: b: c", "not YAML"),
        ("", "a pipeline file is a map"),
        ("- 1", "a pipeline file is a map"),
        ("a: *nope", "not YAML"),
    ],
)
def test_hostile_files_cost_no_more_than_large_ones(tmp_path: Path, large: float, text: str, says: str) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(text)
    for _ in range(4):  # another process or a collection of garbage may disturb one; the least is the file's own cost
        started = time.process_time()
        loaded = load(file)
        if (cost := time.process_time() - started) < 2 * large:
            break
    assert cost < 2 * large
    assert loaded.pipeline is None
    assert any(says in d.message for d in loaded.diagnostics), loaded.diagnostics
    assert all(d.line >= 1 and d.column >= 1 for d in loaded.diagnostics)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    assert "No such file" in load(tmp_path / "nope.yaml").diagnostics[0].message
    (tmp_path / "b.yaml").write_bytes(b"\xff\xfe")
    assert "not UTF-8" in load(tmp_path / "b.yaml").diagnostics[0].message

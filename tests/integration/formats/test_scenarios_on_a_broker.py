"""The scenarios once more, with a real broker on both sides: real topics, records, headers, positions.

Spark is left out, as it has no part in what an option means; the other tests of this folder have it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from scenario_files import FILES, name, send

from ingest.config.loader import load_text
from ingest.config.pipeline import Route
from ingest.config.scenario import read
from ingest.driver.run_parts import Endpoints
from ingest.observe.events import SchemaChanged
from ingest.testing.in_memory_run import run_in_process

if TYPE_CHECKING:
    from pathlib import Path

    from harness import Kafka

OF_ROWS = {
    "canal", "debezium", "debezium-types", "declared-types", "inference", "key-columns", "keys", "routes",
}  # fmt: skip
"""Topics of scenarios in which nothing depends on where messages come from."""
SERVERS = "memory:1"
"""What scenarios have for a broker's address."""


def about_options(file: Path) -> bool:
    """Whether a scenario is about options of a Kafka source, and its sink writes to Kafka by default.

    Those with a schema registry name one that is not there.
    """
    text = file.read_text()
    others = ("print", "file", "values", "kafka", "postgres", "hologres", "iceberg", "delta")
    other = any(f"type: {sink}" in text for sink in others)
    return not other and "-confluent.url" not in text and file.parent.name not in OF_ROWS


def without_nulls(line: str) -> str:
    """Which partition is read first decides which columns are known already: what they hold is the same."""
    topic, rest = line.split(" ", 1)
    end = json.JSONDecoder().raw_decode(rest)[1] if rest.startswith("{") else rest.index(" ")  # keys may have blanks
    key, value = rest[:end], rest[end + 1 :]
    if not value.startswith("{"):
        return line
    return f"{topic} {key} {json.dumps({k: v for k, v in json.loads(value).items() if v is not None})}"


@pytest.fixture
def empty(kafka: Kafka) -> Kafka:
    """The broker without any topic: scenarios name theirs as they like, and nobody needs those of other tests."""
    kafka.clear()
    return kafka


@pytest.mark.parametrize("file", [f for f in FILES if about_options(f)], ids=name)
def test_scenario_on_a_broker(file: Path, empty: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "ingest.config.scenario.load_text",
        lambda name, text, *rest: load_text(name, text.replace(SERVERS, empty.bootstrap), *rest),
    )
    scenario = read(file)
    pipeline = scenario.loaded.pipeline
    assert pipeline is not None
    source = pipeline.source.model_copy(update={"startup_mode": "earliest-offset"})
    # A pipeline must not write to the topics that it reads
    route = Route.model_validate({"source-table": r"(\.*)", "sink-table": "out.$1"})
    topics = {m.topic for m in scenario.messages}
    send(empty, scenario)

    changes: list[str] = []

    def observe(event: Any) -> None:
        if isinstance(event, SchemaChanged):
            changes.append(f"{event.table.removeprefix('out.')}> {event.change}")

    routed = pipeline.model_copy(update={"source": source, "route": pipeline.route or (route,)})
    endpoints = Endpoints(source, pipeline.sink, pipeline.pipeline.collector)
    run = run_in_process(routed, endpoints, observe, look_ahead=scenario.look_ahead - 1)
    expected = scenario.expected
    assert (run.error is None) == ("error" not in expected), run.error
    happened = []
    for topic in set(empty.admin.list_topics(timeout=10).topics) - topics:
        if topic.startswith("__") or topic == "dead":
            continue
        for record in empty.read(topic):
            value = "null" if record.value is None else record.value.decode()
            happened.append(f"{topic.removeprefix('out.')} {(record.key or b'').decode()} {value}")
    wanted = expected.get("records", [])
    if len({(m.topic, m.partition) for m in scenario.messages}) > 1:
        happened, wanted = [without_nulls(line) for line in happened], [without_nulls(line) for line in wanted]
    assert sorted(happened) == sorted(wanted)
    assert [f"{r.stage}/{r.code}" for r in run.rejects] == [r.split(" ")[1] for r in expected.get("rejects", [])]
    assert dict(run.summary.skipped) == expected.get("skipped", {})
    if "changes" in expected:
        assert changes == expected["changes"]
    if "letters" in expected:
        letters = empty.read("dead")
        assert [json.loads(json.dumps(x.value and x.value.decode())) for x in letters] == [
            letter["value"] for letter in expected["letters"]
        ]

"""`ingest tap` on a real broker: each record before and after, and nothing is written."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from harness import message

from ingest.config.scenario import read
from ingest.testing.scenario_runner import differences

if TYPE_CHECKING:
    from harness import Kafka, Pipeline

PASSWORD = "tapped-by-nobody"  # noqa: S105
SENT = [
    message("c", None, {"id": 1, "name": "a"}), message("u", {"id": 1, "name": "a"}, {"id": 2, "name": "b"}),
    message("d", {"id": 2, "name": "b"}, None), (b"x", b"not json \xff"), (b'{"id":1}', None),
    message("c", None, {"id": 7, "text": PASSWORD}, table="users"),
]  # fmt: skip


def tapped(pipeline: Pipeline, *arguments: str) -> str:
    """What the command says."""
    command = pipeline.command()
    done = pipeline.finished([command[0], "tap", *command[2:5], *arguments], pipeline.java)
    assert done.code == 0, done.err
    return done.out


def topics_of(kafka: Kafka) -> set[str]:
    """The broker's topics, without its own."""
    return {name for name in kafka.admin.list_topics(timeout=10).topics if not name.startswith("__")}


@pytest.mark.parametrize("sink", ["upsert-kafka", "iceberg"])
def test_each_record_is_shown_with_what_comes_of_it(kafka: Kafka, pipeline: Pipeline, sink: str) -> None:
    if sink == "iceberg":
        text = pipeline.file.read_text().partition("sink:\n")[0]
        lake = f"sink:\n  type: iceberg\n  catalog.properties.warehouse: {pipeline.file.parent / 'lake'}\n"
        pipeline.file.write_text(text + lake)
    kafka.send(pipeline.topic, *SENT)
    topics = topics_of(kafka)
    found: list[dict[str, Any]] = json.loads(tapped(pipeline, "--format", "json"))
    to = pipeline.out("orders") if sink == "upsert-kafka" else "shop.orders"
    assert [(one["offset"], one["key"], one["value"]) for one in found] == [
        (at, (key or b"").decode(), None if value is None else value.decode("utf-8", "backslashreplace"))
        for at, (key, value) in enumerate(SENT)
    ]
    rows = [
        [(row["to"], row["key"], row["value"] and json.loads(row["value"])) for row in one["rows"]] for one in found
    ]
    assert rows[:5] == [
        [(to, '{"id":1}', {"id": 1, "name": "a"})],
        [(to, '{"id":1}', None), (to, '{"id":2}', {"id": 2, "name": "b"})],
        [(to, '{"id":2}', None)],
        [],
        [],
    ]
    assert [(one["stage"], one["code"]) for one in found[3]["rejects"]] == [("decode", "malformed")]
    assert found[4]["skipped"] == ["tombstone"]
    assert [one["tables"] for one in found] == [["shop.orders"]] * 3 + [[], [], ["shop.users"]]
    assert topics_of(kafka) == topics
    assert not pipeline.checkpoint.exists()
    assert not (pipeline.file.parent / "lake").exists()


def test_some_tables_for_people_and_without_secrets(kafka: Kafka, pipeline: Pipeline) -> None:
    pipeline.write(sink=f"  properties.sasl.password: {PASSWORD}\n")
    kafka.send(pipeline.topic, *SENT)
    test = pipeline.file.parent / "test.yaml"
    shown = tapped(pipeline, "--table", "shop.users", "-n", "1", "--as-test", str(test))
    scenario = read(test)
    assert [one.topic for one in scenario.messages] == [pipeline.topic]
    assert (differences(scenario), len(scenario.expected["records"])) == ([], 1)
    assert PASSWORD not in test.read_text()
    assert shown.splitlines()[0].startswith(f"{pipeline.topic}[0] at offset 5, ")
    assert f"  -> {pipeline.out('users')}" in shown.splitlines()
    assert '    key:    {"id":7}' in shown.splitlines()
    assert PASSWORD not in shown
    assert tapped(pipeline, "--table", "shop.other") == "no record of table shop.other: 6 were sampled\n"
    assert len(json.loads(tapped(pipeline, "-n", "2", "--format", "json"))) == 2
    command = pipeline.command()
    wrong = pipeline.finished([command[0], "tap", *command[2:5], "--table", "a.("], pipeline.java)
    assert wrong.code == 2, wrong

"""Runs every scenario of this folder: messages in, records, rejects and schema changes out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from inmemory import run
from ruamel.yaml import YAML

from ingest.flow.route import KeyRule, RouteRule, Rules
from ingest.formats.debezium_json import DebeziumJson

FILES = sorted(Path(__file__).parent.glob("*.yaml"))
KNOWN = {"title", "rules", "options", "messages", "records", "rejects", "skipped", "changes", "look-ahead"}


def test_there_are_scenarios() -> None:
    assert len(FILES) >= 20


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_scenario(file: Path) -> None:
    scenario: dict[str, Any] = YAML(typ="safe").load(file)
    assert scenario.keys() <= KNOWN
    messages = [(_bytes(m.get("key")), _bytes(m.get("value"))) for m in scenario["messages"]]
    rules = scenario.get("rules", {})
    ran = run(
        messages,
        Rules(
            tuple(RouteRule(**r) for r in rules.get("routes", [])),
            rules.get("first_match", False),
            tuple(KeyRule(r["source_table"], tuple(r["primary_key"])) for r in rules.get("keys", [])),
        ),
        DebeziumJson(**scenario.get("options", {})),
        look_ahead=scenario.get("look-ahead", 1),
    )
    records = [" ".join([topic, key.decode(), "null" if v is None else v.decode()]) for topic, key, v in ran.records]
    assert records == scenario.get("records", [])
    assert [f"{i} {stage}/{code}" for i, stage, code in ran.rejects] == scenario.get("rejects", [])
    assert ran.skipped == scenario.get("skipped", {})
    if "changes" in scenario:
        assert ran.changes == scenario["changes"]


def _bytes(value: str | None) -> bytes | None:
    return None if value is None else value.encode()

"""A pipeline without Kafka and Spark, from a test's own words."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ingest.config.diagnostics import render
from ingest.config.loader import load_text
from ingest.testing.in_memory import MemoryRecord
from ingest.testing.in_memory_run import InMemoryRun, run_in_memory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingest.config.pipeline import Pipeline
    from ingest.model.schema import TableSchema

BASE: dict[str, dict[str, Any]] = {
    "source": {
        "type": "kafka", "properties.bootstrap.servers": "memory:1", "topic": "topic", "scan.max.pre.fetch.records": 0,
        "ingestion.ignore-errors": True,
    },
    "sink": {"type": "upsert-kafka", "properties.bootstrap.servers": "memory:1"},
}  # fmt: skip


@lru_cache(maxsize=100)
def _pipeline(text: str) -> Pipeline:
    loaded = load_text("pipeline.yaml", text, "test")
    assert loaded.pipeline is not None, render(loaded.diagnostics)
    return loaded.pipeline


def pipeline(**sections: Any) -> Pipeline:
    """A pipeline with these options in its sections, over `BASE`."""
    merged: dict[str, Any] = {**sections}
    for name, base in BASE.items():
        given = sections.get(name, {})
        merged[name] = given if given.get("type", base["type"]) != base["type"] else {**base, **given}
    return _pipeline(json.dumps(merged))


def records_of(messages: Sequence[tuple[bytes | None, bytes | None]]) -> list[MemoryRecord]:
    """Records of one split, from keys and values."""
    return [MemoryRecord(i, "topic", key, value) for i, (key, value) in enumerate(messages)]


def run(messages: Sequence[tuple[bytes | None, bytes | None]], look_ahead: int = 1, **sections: Any) -> InMemoryRun:
    """Run messages (key, value) of one split."""
    return run_in_memory(pipeline(**sections), records_of(messages), look_ahead=look_ahead)


def table(ran: InMemoryRun, name: str) -> TableSchema:
    """The sink's schema of a table."""
    assert ran.schemas is not None
    return ran.schemas.sinks[tuple(name.split("."))]

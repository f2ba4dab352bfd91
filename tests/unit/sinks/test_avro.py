"""Sinks that write Avro: what is cut is counted, what a key cannot say is a reject, and whose keys change is told."""

from __future__ import annotations

from typing import Any

import pytest
from inmemory import pipeline, run

from ingest.model import types
from ingest.model.schema import Column, TableSchema
from ingest.sinks.topics.coordinator import TopicsCoordinator

DDL = "CREATE TABLE topic (id TIMESTAMP(9), at TIMESTAMP_LTZ, r ROW<t TIMESTAMP>, t3 TIME(3), PRIMARY KEY (id))"
SOURCE = {"value.format": "json", "scan.value.initial-schemas.ddls": DDL}
AVRO = {"type": "upsert-kafka", "value.format": "avro"}


def fine(**values: str) -> bytes:
    """A row of which some times are other ones."""
    row = {"id": '"2020-01-31 00:00:00"', "at": "null", "r": "null", "t3": "null", **values}
    return ("{" + ",".join(f'"{name}":{value}' for name, value in row.items()) + "}").encode()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("at", '"2020-01-31 00:00:00.123456789Z"'),
        ("r", '{"t":"2020-01-31 00:00:00.1234567"}'),
        ("id", '"2020-01-31 00:00:00.1234567"'),
    ],
)
def test_what_is_cut_of_a_time_is_counted(name: str, value: str) -> None:
    ran = run([(None, fine(**{name: value}))], source=SOURCE, sink=AVRO)
    assert (ran.error, ran.rejects) == (None, [])
    assert ran.cut == {f"topic.{name}": 1}
    assert len(ran.records) == 1


def test_a_time_that_keys_cannot_say_is_a_reject() -> None:
    messages = [(None, fine(id='"2020-01-31 00:00:00.1234567"')), (None, fine(t3='"12:00:00.0001"')), (None, fine())]
    ran = run(messages, source=SOURCE, sink={**AVRO, "key.format": "avro"})
    assert ran.rejects == [(0, "conform", "type-mismatch"), (1, "conform", "type-mismatch")]
    assert len(ran.records) == 1


@pytest.mark.parametrize("kind", ["kafka", "upsert-kafka"])
def test_a_table_that_avro_cannot_say_is_rejects(kind: str) -> None:
    source = {
        "value.format": "json",
        "scan.value.initial-schemas.ddls": "CREATE TABLE topic (`a b` INT, PRIMARY KEY (`a b`))",
    }
    ran = run([(None, b'{"a b":1}')], source=source, sink={"type": kind, "value.format": "avro", **BROKER})
    assert ran.rejects == [(0, "conform", "unwritable-table")]


BROKER = {"properties.bootstrap.servers": "memory:1"}


def test_keys_of_another_schema_are_told_once() -> None:
    said: list[str] = []
    chosen: Any = pipeline(sink={**AVRO, "key.format": "avro"}).sink
    coordinator = TopicsCoordinator(chosen, "p", said.append)
    for kind in ("INT", "INT", "BIGINT", "BIGINT"):
        coordinator.declare({("t",): TableSchema((Column("id", types.parse(kind), nullable=False),), ("id",))})
    (text,) = said
    assert "table t: the schema of its keys changed from (id INT NOT NULL) to (id BIGINT NOT NULL)" in text

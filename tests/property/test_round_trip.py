"""What the kafka sink writes, our own source reads back to the same events.

With the schema envelope the columns have the same types; without it the rows have the same JSON text.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, time
from typing import Any

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from inmemory import run, table
from typed_rows import TYPED, typed_rows

from ingest.model import types

BROKER = {"properties.bootstrap.servers": "memory:1"}
Messages = Sequence[tuple[bytes | None, bytes | None]]
texts = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=8)
plain = (
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | texts
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.lists(st.integers(0, 9), max_size=3) | st.dictionaries(st.sampled_from(["x", "y"]), st.integers(0, 9))
)  # fmt: skip
rows = st.fixed_dictionaries({"id": st.integers(0, 3)}, optional=dict.fromkeys(["a", 'b"c', "ü"], plain))
changes = st.lists(st.tuples(st.sampled_from("cud"), rows, st.none() | rows), min_size=1, max_size=6)


def sent(op: str, after: dict[str, Any], before: dict[str, Any] | None, name: str) -> tuple[bytes, bytes]:
    """A change as Debezium sends it: a delete's row is the before image."""
    images = (
        {"before": after, "after": None} if op == "d" else {"before": before if op == "u" else None, "after": after}
    )
    parts = dict(zip(("db", "schema", "table")[-len(name.split(".")) :], name.split("."), strict=True))
    key = json.dumps({"id": after["id"]}).encode()
    return key, json.dumps({**images, "op": op, "source": parts}, ensure_ascii=False).encode()


def shown(messages: Messages, **source: Any) -> list[tuple[str, dict[str, Any]]]:
    """Every event that comes of messages, by table, with the JSON text of its images."""
    sink = {"type": "file", "path": "out", "value.format": "ogg-json"}  # it has one message for a change of the key
    ran = run(messages, 1000, source=source, sink=sink, transform=KEY)
    assert ran.error is None
    return [(topic, json.loads(value or b"", parse_float=str)) for topic, _, value in ran.records]


def through_kafka(messages: Messages, source: dict[str, Any], **sink: Any) -> Any:
    """What the kafka sink writes of messages."""
    ran = run(messages, 1000, source=source, sink={"type": "kafka", **BROKER, **sink}, transform=KEY)
    assert ran.error is None
    return ran


KEY = [{"source-table": r"\.*", "primary-keys": "id"}]


@pytest.mark.parametrize("name", ["orders", "shop.orders", "shop.public.orders"])
@pytest.mark.parametrize("wire", ["debezium-json", "canal-json", "maxwell-json", "ogg-json"])
@settings(max_examples=examples(40))
@given(changes)
def test_without_a_schema_the_rows_have_the_same_text(
    wire: str, name: str, changes: list[tuple[str, dict[str, Any], dict[str, Any] | None]]
) -> None:
    if wire == "debezium-json":  # a change of the key is two events in it: kafka-sink-debezium-key-changes
        changes = [(op, after, before and {**before, "id": after["id"]}) for op, after, before in changes]
    messages = [sent(op, after, before, name) for op, after, before in changes]
    events = shown(messages)
    written = through_kafka(messages, {}, **{"value.format": wire, "topic": "t"})
    again = shown([(None, value) for _, _, value in written.records], **{"value.format": wire})
    for _, event in events if wire in {"canal-json", "maxwell-json"} else ():
        if event["before"] and event["after"]:  # what it does not say of the row before is as in the row after
            event["before"] = {**event["after"], **event["before"]}
    assert again == events


@settings(max_examples=examples(40))
@given(st.lists(typed_rows, min_size=1, max_size=4))
def test_with_the_schema_the_columns_have_the_same_types_and_values(rows: list[dict[str, Any]]) -> None:
    fixed = ", ".join(f"{name} {sql}" for name, (sql, _) in TYPED.items())
    source = {"value.format": "json", "json.infer-schema.fixed-types": fixed}
    messages = [(None, json.dumps(row, ensure_ascii=False).encode()) for row in rows]
    written = through_kafka(messages, source, **{"debezium-json.include-schema.enabled": True})
    assert written.rejects == []
    values = [(None, value) for _, _, value in written.records]
    again = run(values, 1000, sink={"type": "kafka", **BROKER}, transform=KEY)
    assert again.rejects == []
    read = table(again, "topic")
    assert {column.name: types.name(column.type) for column in read.columns} == {
        name: sql.replace(", ", ",") if "(" in sql else sql for name, (sql, _) in TYPED.items()
    }
    for row, (_, _, value) in zip(rows, again.records, strict=True):
        after = json.loads(value or b"")["after"]
        for name, sent_value in row.items():
            assert meaning(name, after[name]) == meaning(name, sent_value), name


def meaning(name: str, value: Any) -> Any:
    """What a value means, however its zeros are written."""
    if value is None:
        return None
    if name == "ts":
        return datetime.fromisoformat(value)
    if name in {"t3", "t6"}:
        return time.fromisoformat(value)
    return value

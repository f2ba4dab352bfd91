"""Columns of keys in rows that are compact: the same as in any other rows."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.config.diagnostics import render
from ingest.config.loader import load_text
from ingest.formats.metadata_columns import ExtraColumns, MetadataColumns
from ingest.model import types
from ingest.model.change import Change, InlineSchema, Kind, Reject

VALUES = st.none() | st.booleans() | st.integers(0, 12) | st.sampled_from(["", "1", 'a"', "é"])
ROWS = st.dictionaries(st.sampled_from(["id", "n", 'q"', "m"]), VALUES, max_size=4)
DECLARED = InlineSchema({"id": types.BIGINT, "n": types.INT})
RECORD = '{"type":"record","name":"K","fields":[{"name":"a","type":"int"}]}'

PROTOBUF = {
    "key.format": "protobuf", "key.protobuf.message-class-name": "K",
    "key.protobuf.schema": 'syntax = "proto3"; message K { int32 a = 1; }',
}  # fmt: skip


class Message:
    """A record with a key."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def key(self) -> bytes:
        return self._key


def extended(key: dict[str, Any], row: dict[str, Any], *, compact: bool) -> list[Any]:
    extra = ExtraColumns(key=True, key_is_primary=True, compact=compact)
    change = Change(("t",), Kind.INSERT, None, msgspec.Raw(msgspec.json.encode(row)), None, DECLARED)
    messages: Any = [Message(msgspec.json.encode(key))] * 2
    out = MetadataColumns(extra).add([change, change], messages)
    return [
        one
        if not isinstance(one, tuple)
        else (*one[:3], bytes(one[3] or b""), one[4], one[5].types, one[5].primary_key)  # type: ignore[union-attr]
        for one in out
    ]


@given(ROWS, ROWS)
def test_compact_rows_get_the_columns_that_others_get(key: dict[str, Any], row: dict[str, Any]) -> None:
    assert extended(key, row, compact=True) == extended(key, row, compact=False)
    begins = {**key, **{name: value for name, value in row.items() if name not in key}}
    assert extended(key, begins, compact=True) == extended(key, begins, compact=False)


def test_a_row_that_begins_with_the_key_stays() -> None:
    (found, _) = extended({"id": 1}, {"id": 1, "n": 2}, compact=True)
    assert found[3] == b'{"id":1,"n":2}'
    assert found[6] == ("id",)
    (other, _) = extended({"id": 1}, {"id": 12, "n": 2}, compact=True)
    assert isinstance(other, Reject)
    (other, _) = extended({"id": 1}, {"n": 2}, compact=True)
    assert other[3] == b'{"id":1,"n":2}'


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"key.format": "raw", "key.fields": "a;b"}, "a raw key is one column, and these are 2"),
        ({"key.format": "raw", "key.fields": "a", "key.raw.column": "b"}, "the key has no field 'a' (its fields: b)"),
        (
            {"key.format": "csv", "key.fields": "k_c", "key.fields-prefix": "k_", "key.csv.columns": "a,b"},
            "the key has no field 'c' (its fields: a, b)",
        ),
        ({"key.format": "avro", "key.fields": "b", "key.avro.schema": RECORD}, "the key has no field 'b'"),
        (
            {
                "key.format": "avro-confluent", "key.fields": "b", "key.avro-confluent.schema": RECORD,
                "key.avro-confluent.url": "http://r:1",
            },
            "the key has no field 'b'",
        ),
        ({**PROTOBUF, "key.fields": "b"}, "the key has no field 'b' (its fields: a)"),
        (
            {
                "key.format": "csv", "key.fields": "a;x",
                "scan.value.initial-schemas.ddls": "CREATE TABLE t (a INT, b INT, PRIMARY KEY (a) NOT ENFORCED)",
            },
            "the initial schema of t has no column 'x' (its columns: a, b)",
        ),
        (
            {
                "key.format": "csv", "key.fields": "b;a",
                "scan.value.initial-schemas.ddls": "CREATE TABLE t (a INT, b INT, PRIMARY KEY (a, b) NOT ENFORCED)",
            },
            None,
        ),
        ({**PROTOBUF, "key.fields": "a"}, None),
        ({"key.format": "csv", "key.fields": "b", "key.csv.columns": "a,b"}, None),
        ({"key.format": "csv", "key.fields": "b;a"}, None),
        ({"key.format": "avro", "key.fields": "a", "key.avro.schema": RECORD}, None),
        ({"key.format": "json", "key.fields": "a"}, None),
    ],
)  # fmt: skip
def test_a_column_that_no_key_has_is_an_error_of_the_file(options: dict[str, str], why: str | None) -> None:
    source = {"type": "kafka", "properties.bootstrap.servers": "h:1", "topic": "t", "value.format": "json", **options}
    loaded = load_text("p.yaml", json.dumps({"source": source, "sink": {"type": "print"}}), "p")
    assert (loaded.pipeline is None) == (why is not None), render(loaded.diagnostics)
    assert why is None or f"key.fields: {why}" in render(loaded.diagnostics)

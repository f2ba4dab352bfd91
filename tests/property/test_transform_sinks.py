"""Native code writes what comes from expressions, and what passes them by, as the reference does, for every sink."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from bothways import both_ways, read
from examples import examples
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from inmemory import run
from shapes import DECLARED, a_message

from ingest.encode.change_encoder import ChangeEncoder
from ingest.encode.transform_input import TransformInputEncoder
from ingest.encode.upsert_encoder import UpsertEncoder
from ingest.transform.merging import ChunkMerger

pytestmark = [pytest.mark.usefixtures("java"), pytest.mark.compiled]
FEW = settings(max_examples=examples(12), deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""Each example is several jobs of Spark's."""
KAFKA, UPSERT = {"type": "kafka", "properties.bootstrap.servers": "memory:1"}, {"type": "upsert-kafka"}
SINKS: dict[str, dict[str, Any]] = {
    "upsert": UPSERT,
    "upsert-except-key": {**UPSERT, "value.fields-include": "EXCEPT_KEY"},
    "upsert-prefixed": {**UPSERT, "value.fields-include": "EXCEPT_KEY", "key.fields-prefix": "i"},
    "upsert-csv": {**UPSERT, "value.format": "csv"},
    "upsert-csv-key": {**UPSERT, "key.format": "csv"},
    "debezium": KAFKA,
    "debezium-key": {**KAFKA, "key.format": "json"},
    "debezium-hashed": {**KAFKA, "key.format": "csv", "partition.strategy": "hash-by-key"},
    "canal": {**KAFKA, "value.format": "canal-json", "key.format": "json"},
    "json": {**KAFKA, "value.format": "json"},
    "json-key": {**KAFKA, "value.format": "json", "key.format": "json"},
    "json-except-key": {**KAFKA, "value.format": "json", "key.format": "json", "value.fields-include": "EXCEPT_KEY"},
}
"""Sinks whose records are rows, or are put together of pieces."""
PYTHON_SINKS: dict[str, dict[str, Any]] = {
    "kafka-hashed": {**KAFKA, "partition.strategy": "hash-by-key"},
    "kafka-schema": {**KAFKA, "debezium-json.include-schema.enabled": True},
    "print": {"type": "print"},
    "file": {"type": "file", "path": "out", "file.envelope": True},
    "file-avro": {"type": "file", "path": "out", "file.envelope": True, "value.format": "avro"},
}
"""Sinks whose records are made in Python."""
RULES: dict[str, dict[str, str]] = {
    "columns": {"projection": r"\*, UPPER(name) AS loud, 10 / n AS part", "filter": "LENGTH(name) < 2 OR n > 1"},
    "a key that is made": {"projection": "name, id + n AS id, n", "filter": "name IS NOT NULL"},
    "another key": {"projection": r"\*", "filter": "n > 0", "primary-keys": "name"},
    "soft": {"projection": r"\*", "filter": "n > 0", "converter-after-transform": "SOFT_DELETE"},
    "no filter": {"projection": "id, name || n AS name"},
    "no numbers": {"projection": r"\*, SQRT(n) AS root", "filter": "n > -3"},
    "a name": {"projection": "id, name AS called, n"},
}
ROW = st.fixed_dictionaries({
    "id": st.integers(1, 3), "name": st.sampled_from(["a", "bb", "\u00e9", 'q"', None]),
    "n": st.sampled_from([-2, 0, 1, 2, None]),
})  # fmt: skip
CHANGES = st.lists(st.tuples(ROW, ROW, st.sampled_from("uuuucd"), st.sampled_from("tttu")), min_size=1, max_size=25)
FIRST = [({"id": 1, "name": "a", "n": 1}, {"id": 1, "name": "a", "n": 1}, "c", table) for table in "tu"]


def dense(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def debezium(before: Any, after: Any, op: str, table: str) -> tuple[bytes, bytes]:
    """A message of one of two tables."""
    images = {"u": (before, after), "c": (None, after), "d": (before, None)}[op]
    message = {"before": images[0], "after": images[1], "source": {"db": "d", "table": table}, "op": op}
    return dense({"id": (images[1] or images[0])["id"]}).encode(), dense(message).encode()


def canal(before: Any, after: Any, op: str, table: str) -> tuple[None, bytes]:
    """The same as Canal has it: of the row before an update only what has changed."""
    kind = {"u": "UPDATE", "c": "INSERT", "d": "DELETE"}[op]
    old = [{name: value for name, value in before.items() if value != after[name]}] if op == "u" else None
    message = {"data": [before if op == "d" else after], "database": "d", "old": old, "pkNames": ["id"]}
    return None, dense({**message, "table": table, "type": kind}).encode()


MAKE = {"debezium-json": debezium, "canal-json": canal}


def sections(form: str, sink: dict[str, Any], most: int, rule: dict[str, str], **source: Any) -> dict[str, Any]:
    """A pipeline with a rule for one of the two tables."""
    return {
        "source": {"value.format": form, "ingestion.error-tolerance.max-count": most, **source},
        "sink": sink,
        "transform": [{"source-table": "d.t", **rule}],
    }


@pytest.mark.parametrize("name", SINKS)
def test_each_sink_has_the_same_records(name: str) -> None:
    @FEW
    @given(CHANGES, st.sampled_from([*RULES]), st.sampled_from([*MAKE]), st.sampled_from([-1, 2]))
    @example(
        [({"id": 1, "name": "a", "n": -2}, {"id": 2, "name": "a", "n": 1}, "u", "t")], "no numbers", "debezium-json", -1
    )
    @example(
        [({"id": 1, "name": "a", "n": -2}, {"id": 2, "name": "a", "n": 1}, "d", "t")], "no numbers", "debezium-json", -1
    )
    def same(changes: list[tuple[Any, Any, str, str]], rule: str, form: str, most: int) -> None:
        messages = [MAKE[form](*change) for change in (*FIRST, *changes)]
        both_ways(messages, 1, exact=name != "upsert", **sections(form, SINKS[name], most, RULES[rule]))

    same()


@pytest.mark.parametrize("name", PYTHON_SINKS)
def test_each_sink_that_is_made_in_python_has_the_same_records(name: str) -> None:
    @settings(FEW, max_examples=examples(4))
    @given(CHANGES, st.sampled_from([*RULES]), st.sampled_from([*MAKE]))
    def same(changes: list[tuple[Any, Any, str, str]], rule: str, form: str) -> None:
        messages = [MAKE[form](*change) for change in (*FIRST, *changes)]
        both_ways(messages, 1, exact=True, **sections(form, PYTHON_SINKS[name], -1, RULES[rule]))

    same()


@pytest.mark.parametrize("name", SINKS)
def test_each_sink_is_native_on_both_sides_of_expressions(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    keyless = name == "json"  # a delete cannot be said, and that is for the reference
    rows = [{"id": 1, "name": "a", "n": n} for n in ((1, 2, 3) if keyless else (1, 2, 0, -1, 5))]
    changes: list[Any] = [(None, rows[0], "c"), *((a, b, "u") for a, b in itertools.pairwise(rows))]
    changes += [] if keyless else [(rows[-1], None, "d")]
    messages = [debezium(before or {}, after, op, table) for table in "tu" for before, after, op in changes]
    rule = {"projection": r"\*, n * 2 AS n2", "filter": "n > 0"}
    given_sections = sections("debezium-json", SINKS[name], -1, rule)
    expected = run(messages, 1, **given_sections).records
    monkeypatch.setattr(ChunkMerger, "_merge_message", None)
    for encoder in (TransformInputEncoder, ChangeEncoder, UpsertEncoder):
        monkeypatch.setattr(encoder, "upsert", None)
        monkeypatch.setattr(encoder, "delete", None)
    done = run(messages, 1, **given_sections)
    assert done.error is None
    assert done.records == expected
    assert done.records


@pytest.mark.parametrize("form", ["debezium-json", "canal-json", "json"])
def test_tables_that_keep_their_first_schema_have_the_same_records(form: str) -> None:
    rule = {"projection": r"\*, id % 2 AS odd, 10 / (id - 2) AS part", "filter": "id <> 3"}
    source = {"schema.inference.strategy": "static", **DECLARED}

    @FEW
    @given(st.lists(a_message(form), min_size=1, max_size=25), st.sampled_from([*SINKS]), st.sampled_from([-1, 2]))
    def same(messages: list[tuple[bytes | None, bytes | None]], sink: str, most: int) -> None:
        made = sections(form, SINKS[sink], most, rule, **source)
        made["transform"] = [{"source-table": r"\.*", "primary-keys": "id", **rule}]
        both_ways(messages, 1, exact=sink != "upsert", **made)

    same()


def test_tables_that_keep_their_first_schema_go_to_expressions_natively(monkeypatch: pytest.MonkeyPatch) -> None:
    ddl = "CREATE TABLE d.t (id BIGINT, name STRING, n INT, PRIMARY KEY (id) NOT ENFORCED)"
    rows = [{"id": 1, "name": "a", "n": n} for n in (1, 2, 0, 5)]
    messages = [debezium(a, b, "u", "t") for a, b in itertools.pairwise(rows)]
    rule = {"projection": r"\*, n * 2 AS n2", "filter": "n > 0"}
    source = {"schema.inference.strategy": "static", "scan.value.initial-schemas.ddls": ddl}
    monkeypatch.setattr(ChunkMerger, "_merge_message", None)
    monkeypatch.setattr(TransformInputEncoder, "upsert", None)
    done = run(messages, 1, **sections("debezium-json", UPSERT, -1, rule, **source))
    values = [read(value) and read(value)["n2"] for _, _, value in done.records]
    assert values == ["4", None, "10"]

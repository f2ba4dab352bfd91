"""What the sink `file` writes with envelopes, the source `file` reads back to the same rows, in each format."""

from __future__ import annotations

import json
import tempfile
from base64 import b64encode
from pathlib import Path
from typing import Any

import msgspec
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from line_files import lines_of, run_files, run_lines
from typed_rows import KINDS, TYPED, texts, typed_rows

from ingest.formats.avro.table_writer import derived
from ingest.model import types
from ingest.model.schema import Column

MORE = {"file.envelope": True}
KEYED = {"key.format": "json"}
DDL = f"CREATE TABLE t ({', '.join(f'{name} {sql}' for name, (sql, _) in TYPED.items())}, PRIMARY KEY (id))"
DECLARED = {"scan.value.initial-schemas.ddls": DDL}
_FIELDS = {
    "TINYINT": "int32", "SMALLINT": "int32", "INT": "int32", "BIGINT": "int64", "DOUBLE": "double", "BOOLEAN": "bool",
    "BYTES": "bytes",
}  # fmt: skip
PROTO = (
    'syntax = "proto3"; message Row { '
    + " ".join(f"optional {_FIELDS.get(kind, 'string')} {n} = {i};" for i, (n, kind) in enumerate(KINDS.items(), 1))
    + " }"
)
COLUMNS = {name: Column(name, types.parse(kind), nullable=name != "id") for name, kind in KINDS.items()}
CHANGES = ["debezium-json", "canal-json", "maxwell-json", "ogg-json"]
ROWS: dict[str, dict[str, str]] = {
    "json": {},
    "csv": {},
    "avro": {"avro.schema": derived(COLUMNS)},
    "protobuf": {"protobuf.schema": PROTO, "protobuf.message-class-name": "Row"},
}
"""Formats whose values are rows, with their options."""
changes = st.lists(st.tuples(st.sampled_from("cud"), typed_rows, st.none() | typed_rows), min_size=1, max_size=6)


def sent(op: str, row: dict[str, Any], before: dict[str, Any] | None) -> bytes:
    """A change as Debezium sends it, on a line: a delete's row is the one before."""
    images = (row, None) if op == "d" else (before if op == "u" else None, row)
    ordered = [image and {name: image[name] for name in TYPED} for image in images]
    change = {"before": ordered[0], "after": ordered[1], "op": op, "source": {"table": "t"}}
    return json.dumps(change, ensure_ascii=False).encode()


def rows(lines: list[bytes]) -> list[tuple[bytes, Any]]:
    """The keys of lines whose values are JSON, and what their rows say."""
    envelopes = [msgspec.json.decode(line, type=dict[str, msgspec.Raw]) for line in lines]
    return [
        (bytes(one["key"]), None if bytes(one["value"]) == b"null" else texts(bytes(one["value"]))) for one in envelopes
    ]


@pytest.mark.parametrize("wire", [*CHANGES, *ROWS])
@settings(max_examples=examples(25), deadline=None)
@given(changes)
def test_what_the_sink_writes_the_source_reads(
    wire: str, changes: list[tuple[str, dict[str, Any], dict[str, Any] | None]]
) -> None:
    of_rows = wire in ROWS
    chosen = {"value.format": wire, **ROWS.get(wire, {}), **MORE}
    in_json = {"value.format": "json", **MORE}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lines = [sent(*change) for change in changes]
        wanted = run_lines(folder, lines, DECLARED, in_json)
        expected = lines_of(folder / "out", "t")
        written = run_files(folder / "t.jsonl", folder / "written", DECLARED, chosen)
        back = run_files(
            folder / "written" / "t.*.jsonl", folder / "back",
            {**chosen, **DECLARED, **(KEYED if of_rows else {})}, in_json,
        )  # fmt: skip
        for ran in (wanted, written, back):
            assert (ran.error, ran.rejects) == (None, [])
        assert rows(lines_of(folder / "back", "t")) == rows(expected)
        found = [json.loads(line) for line in lines_of(folder / "written", "t")]
        spelling = "value-base64" if wire in {"avro", "protobuf"} else "value"
        assert all(line.keys() == {"key", spelling} for line in found if line.get("value", "") is not None)


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.binary(max_size=6)), min_size=1, max_size=6))
def test_raw_values_of_any_bytes_are_read_back(values: list[tuple[int, bytes]]) -> None:
    raw = {"value.format": "raw", **MORE, "scan.value.initial-schemas.ddls": "CREATE TABLE t (b BYTES)"}
    sink = {"value.format": "raw", **MORE}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        first = run_lines(folder, [{"value-base64": b64encode(value).decode()} for _, value in values], raw, sink)
        back = run_files(folder / "out" / "t.*.jsonl", folder / "back", raw, {"value.format": "json"})
        for ran in (first, back):
            assert (ran.error, ran.rejects) == (None, [])
        found = [json.loads(line) for line in lines_of(folder / "back", "t")]
        assert found == [{"b": b64encode(value).decode()} for _, value in values]


def test_a_key_that_its_row_spells_otherwise_is_read_for_both(tmp_path: Path) -> None:
    declared = {"scan.value.initial-schemas.ddls": "CREATE TABLE t (id TIMESTAMP, n INT, PRIMARY KEY (id))"}
    schema = derived({"id": Column("id", types.parse("TIMESTAMP"), nullable=False), "n": Column("n", types.INT)})
    avro = {"value.format": "avro", "avro.schema": schema, **MORE}
    line = b'{"op":"c","after":{"id":"2020-01-31 00:00:00.100","n":1},"source":{"table":"t"}}'
    assert run_lines(tmp_path, [line], declared, avro).rejects == []
    files = tmp_path / "out" / "t.*.jsonl"
    twice = run_files(files, tmp_path / "twice", {**avro, **KEYED}, {"value.format": "json"})
    assert [reject.code for reject in twice.rejects] == ["column-clash"]
    once = {"value.fields-include": "EXCEPT_KEY", **declared}
    back = run_files(files, tmp_path / "back", {**avro, **KEYED, **once}, {"value.format": "json"})
    assert (back.error, back.rejects) == (None, [])
    assert lines_of(tmp_path / "back", "t") == [b'{"id":"2020-01-31 00:00:00.100","n":1}']

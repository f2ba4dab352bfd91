"""Files whose values have schemas in a real registry: what is registered, written, read back, and refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from commands import called
from examples import own_name
from harness import free_port
from line_files import lines_of, run_files
from schema_registry import ask

if TYPE_CHECKING:
    from pathlib import Path

WIRES = ["avro-confluent", "protobuf-confluent", "debezium-avro-confluent"]
KEY = [{"source-table": r"\.*", "primary-keys": "id"}]


@pytest.fixture
def table() -> str:
    """A table that no other test has."""
    return own_name("t")


def events(table: str, *changes: tuple[str, dict[str, Any]]) -> bytes:
    """Lines of changes in Debezium's JSON."""
    return b"".join(
        json.dumps({"before" if op == "d" else "after": row, "op": op, "source": {"table": table}}).encode() + b"\n"
        for op, row in changes
    )


def options(wire: str, url: str, **more: str) -> dict[str, Any]:
    given = {f"{wire}.{name.replace('_', '-')}": value for name, value in more.items()}
    return {"value.format": wire, f"{wire}.url": url, "file.envelope": True, **given}


def write(folder: Path, table: str, name: str, sink: dict[str, Any], *changes: tuple[str, dict[str, Any]]) -> Any:
    (folder / f"{name}.jsonl").write_bytes(events(table, *changes))
    return run_files(folder / f"{name}.jsonl", folder / name, {}, sink, 1, transform=KEY)


@pytest.mark.parametrize("wire", WIRES)
def test_what_is_written_with_a_registry_is_read_back(tmp_path: Path, registry: str, table: str, wire: str) -> None:
    sink = options(wire, registry)
    changes: list[tuple[str, dict[str, Any]]] = [
        ("c", {"id": 1, "name": "a"}), ("u", {"id": 1, "name": None}), ("c", {"id": 2, "name": "b", "n": 1}),
        ("d", {"id": 1, "name": None}),
    ]  # fmt: skip
    done = write(tmp_path, table, "out", sink, *changes)
    assert (done.error, done.rejects) == (None, [])
    versions = f"{registry}/subjects/{table}-value/versions"
    assert ask(versions) == [1, 2], "one for each version of the table"
    assert ask(f"{registry}/subjects/{table}-key/versions") == 404, "keys are JSON"
    lines = [json.loads(line) for line in lines_of(tmp_path / "out", table)]
    assert [line["key"] for line in lines] == [{"id": 1}, {"id": 1}, {"id": 2}, {"id": 1}]

    keyed = {} if wire.startswith("debezium") else {"key.format": "json"}
    rules = [] if keyed else KEY
    back = run_files(
        tmp_path / "out" / "*.jsonl", tmp_path / "back", {**sink, **keyed},
        {"value.format": "json", "file.envelope": True}, transform=rules,
    )  # fmt: skip
    assert (back.error, back.rejects) == (None, [])
    rows = [json.loads(line) for line in lines_of(tmp_path / "back", table)]
    assert [(row["key"]["id"], row["value"] and {k: v for k, v in row["value"].items() if v}) for row in rows] == [
        (1, {"id": 1, "name": "a"}), (1, {"id": 1}), (2, {"id": 2, "name": "b", "n": 1}), (1, None),
    ]  # fmt: skip
    assert ask(versions) == [1, 2], "reading registers nothing"


def test_a_schema_that_the_registry_refuses_stops_the_run(tmp_path: Path, registry: str, table: str) -> None:
    sink = options("avro-confluent", registry)
    assert write(tmp_path, table, "first", sink, ("c", {"id": 1, "n": 1})).error is None
    ask(f"{registry}/config/{table}-value", {"compatibility": "BACKWARD"}, method="PUT")
    refused = write(tmp_path, table, "second", sink, ("c", {"id": 2, "n": 2}), ("c", {"id": 3, "n": "three"}))
    assert refused.error is not None
    assert refused.error.exit_code == 78
    assert f"refuses the schema for subject '{table}-value'" in refused.error.message
    assert [json.loads(line)["key"] for line in lines_of(tmp_path / "second", table)] == [{"id": 2}]
    assert ask(f"{registry}/subjects/{table}-value/versions") == [1]


def test_a_plan_names_the_subjects_and_registers_nothing(
    tmp_path: Path, registry: str, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.jsonl").write_bytes(events(table, ("c", {"id": 1})))
    pipeline = {
        "source": {"type": "file", "path": "in.jsonl"},
        "sink": {"type": "file", "path": "out", **options("avro-confluent", registry)},
    }
    (tmp_path / "p.yaml").write_text(json.dumps(pipeline))
    planned = called("plan", "p.yaml")
    assert planned.code == 0, planned.err
    assert f"\nwould be declared at the sink:\n    {table}-value\n" in planned.out
    assert ask(f"{registry}/subjects/{table}-value/versions") == 404
    assert not (tmp_path / "out").exists()
    pipeline["sink"]["avro-confluent.url"] = f"http://127.0.0.1:{free_port()}"
    (tmp_path / "p.yaml").write_text(json.dumps(pipeline))
    planned = called("plan", "p.yaml")
    assert planned.code == 75
    assert "no answer from the schema registry" in planned.err


@pytest.mark.parametrize("wire", WIRES)
def test_a_sink_that_may_not_register_needs_the_schema_there(
    tmp_path: Path, registry: str, table: str, wire: str
) -> None:
    sink = options(wire, registry) | {f"{wire}.properties.auto.register.schemas": "false"}
    done = write(tmp_path, table, "out", sink, ("c", {"id": 1}))
    assert done.error is not None
    assert done.error.exit_code == 78
    assert f"subject '{table}-value' of the schema registry" in done.error.message
    assert not [*(tmp_path / "out").iterdir()]


def test_a_table_has_a_subject_by_the_name_of_its_files(tmp_path: Path, registry: str, table: str) -> None:
    done = write(tmp_path, f"{table}/ü", "out", options("avro-confluent", registry), ("c", {"id": 1}))
    assert (done.error, done.rejects) == (None, [])
    (file,) = (tmp_path / "out").glob("*.jsonl")
    assert ask(f"{registry}/subjects/{file.name.removesuffix('.jsonl').rpartition('.')[0]}-value/versions") == [1]

"""What `ingest plan` says, without a broker: it ends as a run would end, and leaves nothing behind."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import inmemory
import pytest
from harness import debezium, free_port

from ingest.cli.app import main
from ingest.driver.context import Settings
from ingest.errors import Unavailable
from ingest.testing.capturing import Captured, capturing_sink
from ingest.testing.dry_run import dry_run
from ingest.testing.dry_run_report import DryRunReport
from ingest.testing.in_memory_run import by_split, run_in_memory
from ingest.testing.in_memory_source import InMemoryCoordinator, in_memory
from ingest.testing.records import MemoryRecord
from ingest.testing.sampling import MOST

if TYPE_CHECKING:
    from pathlib import Path

    from ingest.errors import IngestError

GOOD = debezium("c", None, {"id": 1, "t": "x"})
OTHER = debezium("c", None, {"id": 1}, table="users")
KEYLESS = debezium("c", None, {"id": 1}, table="audit")
Messages = Sequence[tuple[bytes | None, bytes | None]]
KEY = b'{"id":1}'
STOPS = {"ingestion.ignore-errors": False}
SKIPS = {**STOPS, "debezium-json.ignore-parse-errors": True}
TWO = {"ingestion.error-tolerance.max-count": 2}


def plan(folder: Path, messages: Messages, **sections: Any) -> Any:
    """What a plan says of these records, and what it ends with; then what a run ends with."""
    pipeline = inmemory.pipeline(**sections)
    records = [MemoryRecord(i, "topic", key, value) for i, (key, value) in enumerate(messages)]
    ran = run_in_memory(pipeline, records, look_ahead=1001)  # as a run does
    source = in_memory(pipeline.source, by_split(records) or {("topic", 0): []})
    sink = capturing_sink(pipeline.sink, Captured(), "test", print)
    found, error = dry_run(pipeline, Settings(str(folder / "checkpoint"), folder), source, sink)
    assert not (folder / "checkpoint").exists()
    return found, error, ran


CASES: list[tuple[str, Messages, dict[str, Any]]] = [
    ("nothing", [], {}),
    ("rows", [(KEY, GOOD), (KEY, OTHER)], {}),
    ("a reject that stops", [(KEY, GOOD), (KEY, b"{"), (KEY, OTHER)], {"source": STOPS}),
    ("only rejects, tolerated", [(KEY, b"{")] * 3, {}),
    ("as many as are tolerated", [(KEY, b"{")] * 2 + [(KEY, GOOD)], {"source": TWO}),
    ("more than are tolerated", [(KEY, b"{")] * 3 + [(KEY, GOOD)], {"source": TWO}),
    ("parse errors that do not count", [(KEY, b"{")] * 3, {"source": SKIPS}),
    ("no key", [(KEY, GOOD), (None, KEYLESS)], {}),
    ("no key, then a reject", [(None, KEYLESS), (KEY, b"{")], {"source": STOPS}),
    ("a reject, then no key", [(KEY, b"{"), (None, KEYLESS)], {"source": STOPS}),
    ("a change that is refused", [(KEY, GOOD)] * 1500 + [(KEY, debezium("u", None, {"id": 1, "more": 1}))],
     {"pipeline": {"schema.change.behavior": "exception"}}),
    ("two keys for one table", [(KEY, GOOD), (b'{"k":1}', debezium("c", None, {"k": 1}, table="users"))],
     {"route": [{"source-table": r"shop.\.*", "sink-table": "all"}]}),
]  # fmt: skip


NUMBERS = [b"0.5"] * 1500 + [b"9007199254740993.5"]


@pytest.mark.parametrize(
    ("values", "change"),
    [
        (NUMBERS, "ALTER COLUMN d DOUBLE -> STRING, for 9007199254740993.5; to keep a number"),
        (NUMBERS[-2:], "PRIMARY KEY (id)), with d STRING for 9007199254740993.5; to keep a number"),
    ],
)
def test_a_plan_names_the_number_that_makes_a_column_a_text(values: list[bytes], change: str, tmp_path: Path) -> None:
    source = {"value.format": "json", "key.format": "json"}
    messages = [(KEY, b'{"id":1,"d":%b,"t":7}' % value) for value in values]
    found, _, _ = plan(tmp_path, messages, source=source, sink={"type": "delta", "warehouse": "lake"})
    assert f"{change}, rounded, declare the column DOUBLE" in found.changes[-1]


@pytest.mark.parametrize(("messages", "sections"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_plan_ends_as_a_run_does(messages: Messages, sections: dict[str, Any], tmp_path: Path) -> None:
    found, error, ran = plan(tmp_path, messages, **sections)
    assert _ended(error) == _ended(ran.error)
    assert found.error == (
        None if error is None else {"exit_code": error.exit_code, "message": error.message, "hint": error.hint}
    )
    assert found.waiting == found.looked_at == len(messages)
    assert [reject["code"] for reject in found.rejects] == [*dict.fromkeys(code for _, _, code in ran.rejects)]


def _ended(error: IngestError | None) -> tuple[int, str]:
    return (0, "") if error is None else (error.exit_code, str(error))


def test_rejects_are_counted_by_code_each_with_an_example(tmp_path: Path) -> None:
    null_key = debezium("c", None, {"t": "no id"})
    found, error, _ = plan(
        tmp_path, [(KEY, GOOD), (KEY, b"{"), (KEY, null_key), *[(KEY, b"\x1b[31m")] * 300], source=STOPS
    )
    assert isinstance(found, DryRunReport)
    assert error.exit_code == 65
    by_code = {reject["code"]: reject for reject in found.rejects}
    assert {code: reject["count"] for code, reject in by_code.items()} == {"malformed": 301, "null-key": 1}
    example = by_code["null-key"]["example"]
    assert (example["topic"], example["partition"], example["offset"]) == ("topic", 0, 2)
    assert example["table"] == "shop.orders"
    assert "id" in example["message"]
    assert [table.table for table in found.tables] == ["shop.orders"], "what comes after the first reject shows, too"


def test_rejects_of_keys_and_of_values_count_as_their_formats_say(tmp_path: Path) -> None:
    source = {"value.format": "json", "key.format": "json", "key.json.ignore-parse-errors": True}
    messages = [(b"x", b'{"n":1}'), (KEY, b"{"), (KEY, b'{"n":1}')]
    found, error, _ = plan(tmp_path, messages, source=STOPS | source)
    assert error.exit_code == 65
    assert {reject["code"]: reject["counted"] for reject in found.rejects} == {
        "malformed-key": False,
        "malformed": True,
    }


@pytest.mark.parametrize("sections", [
    {"source": {"value.format": "avro-confluent", "avro-confluent.url": "URL"}},
    {"source": {"value.format": "json", "key.format": "protobuf-confluent", "key.protobuf-confluent.url": "URL"}},
    {"source": {"type": "upsert-kafka", "properties.bootstrap.servers": "memory:1", "topic": "topic",
                "value.format": "avro-confluent", "avro-confluent.url": "URL"}},
    {"source": {"type": "upsert-kafka", "properties.bootstrap.servers": "memory:1", "topic": "topic",
                "key.format": "avro-confluent", "key.avro-confluent.url": "URL"}},
    {"sink": {"value.format": "avro-confluent", "avro-confluent.url": "URL"}},
    {"sink": {"key.format": "avro-confluent", "key.avro-confluent.url": "URL"}},
])  # fmt: skip
def test_a_registry_that_does_not_answer_is_said_though_there_are_no_records(
    sections: dict[str, Any], tmp_path: Path
) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    given = {section: {k: url if v == "URL" else v for k, v in of.items()} for section, of in sections.items()}
    with pytest.raises(Unavailable, match=f"no answer from the schema registry {url}") as raised:
        plan(tmp_path, [], **given)
    assert "see whether it runs and can be reached" in raised.value.hint


def test_every_table_without_a_key_is_named(tmp_path: Path) -> None:
    later = [(None, debezium("c", None, {"n": 1}, table=f"t{i}")) for i in range(3)]
    found, error, _ = plan(tmp_path, [(KEY, GOOD), *later])
    assert error.exit_code == 78
    assert [text.split(" has no")[0] for text in found.without_key] == [f"table shop.t{i}" for i in range(3)]
    assert [table.table for table in found.tables] == ["shop.orders"]


def test_the_newest_records_are_looked_at_beside_the_first(tmp_path: Path) -> None:
    rows = [(KEY, GOOD)] * (3 * MOST)
    found, error, _ = plan(tmp_path, [*rows, (None, KEYLESS)])
    assert found.waiting == 3 * MOST + 1
    assert found.looked_at == 2 * MOST
    assert error.exit_code == 78
    assert "shop.audit" in found.without_key[0]


def test_entries_that_match_nothing_are_named(tmp_path: Path) -> None:
    found, error, _ = plan(
        tmp_path,
        [(KEY, GOOD)],
        route=[
            {"source-table": "shop.orders", "sink-table": "a.b"}, {"source-table": r"sh[o]p.ord", "sink-table": "c"},
        ],
        transform=[
            {"source-table": "shop.users", "primary-keys": "id"},
            {"source-table": r"shop.\.*", "primary-keys": "id"},
            {"source-table": "shop.orders", "primary-keys": "id"},
        ],
        sink={"type": "kafka", "properties.bootstrap.servers": "memory:1",
              "sink.tableId-to-topic.mapping": "shop.orders:t1;a.b:t2"},
    )  # fmt: skip
    assert error is None
    assert found.unmatched == [
        "route[1] (sh[o]p.ord) matches none of these tables",
        "transform[0] (shop.users) matches none of these tables",
        "transform[2] (shop.orders) matches only tables that an entry before it takes",
        "sink.tableId-to-topic.mapping t1 (shop.orders) matches none of these tables",
    ]


def command(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return int(ended.value.code or 0)


def test_the_command_says_so_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = tmp_path / "in.jsonl"
    lines.write_bytes(b"\n".join([GOOD, b"{\x1b", b"[]", GOOD, b""]))
    (tmp_path / "p.yaml").write_text(
        "source: {type: file, path: in.jsonl}\nsink: {type: file, path: out/rows}\n"
        "route: [{source-table: shop.user, sink-table: x}]\n"
    )
    before = sorted(path.name for path in tmp_path.rglob("*"))
    assert command("plan", "p.yaml") == 65
    said = capsys.readouterr()
    assert "in.jsonl[0] at offset 1" in said.err
    assert "decode/malformed: 2 records, the first in.jsonl[0] at offset 1" in said.out
    assert "route[0] (shop.user) matches none of these tables" in said.out
    assert "\x1b" not in said.out + said.err
    assert command("plan", "p.yaml", "--format", "json") == 65
    found = json.loads(capsys.readouterr().out)
    assert found["error"]["exit_code"] == 65
    assert sum(reject["count"] for reject in found["rejects"]) == 2
    assert sorted(path.name for path in tmp_path.rglob("*")) == before

    lines.write_bytes(b"{\n")
    assert command("plan", "p.yaml") == 65
    assert "no tables: none of the records became a row" in capsys.readouterr().out
    lines.write_bytes(b"")
    assert command("plan", "p.yaml") == 0
    assert "no tables: the source has no records" in capsys.readouterr().out
    lines.unlink()
    assert command("plan", "p.yaml") == 78
    assert "matches no file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("edit", "arguments", "why"),
    [
        ({"path: out": "path: in.jsonl/x"}, [], "in.jsonl is no directory"),
        ({}, ["--conf", "spark.speculation=true"], ""),
        ({}, ["--checkpoint", "old"], "of a pipeline with another source type: kafka, now file"),
    ],
)
def test_what_refuses_a_run_at_its_start_refuses_a_plan(
    edit: dict[str, str], arguments: list[str], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.jsonl").write_bytes(GOOD)
    (tmp_path / "old").mkdir()
    meta = {"format": 1, "id": "x", "fingerprint": {"source": {"type": "kafka"}, "sink": {"type": "file"}}}
    (tmp_path / "old" / "checkpoint.json").write_text(json.dumps(meta))
    text = "source: {type: file, path: in.jsonl}\nsink: {type: file, path: out}\n"
    for old, new in edit.items():
        text = text.replace(old, new)
    (tmp_path / "p.yaml").write_text(text)
    assert command("plan", "p.yaml", *arguments) == (78 if why else 0), "speculation matters to exactly-once only"
    assert why in capsys.readouterr().err


class AtTheEnd(InMemoryCoordinator):
    """A source whose pipeline starts behind all records, as with `latest-offset`."""

    def start(self, *_: Any) -> dict[tuple[str, int], int]:
        return self.ends({})


def test_records_that_a_run_would_not_read_show_tables_and_end_nothing(tmp_path: Path) -> None:
    pipeline = inmemory.pipeline(source=STOPS)
    records = by_split([MemoryRecord(i, "topic", KEY, value) for i, value in enumerate((GOOD, b"{", OTHER))])
    source = replace(in_memory(pipeline.source, records), side=AtTheEnd(records))
    sink = capturing_sink(pipeline.sink, Captured(), "test", print)
    found, error = dry_run(pipeline, Settings(str(tmp_path / "checkpoint"), tmp_path), source, sink)
    assert error is None
    assert (found.waiting, found.looked_at, found.error) == (0, 3, None)
    assert [table.table for table in found.tables] == ["shop.orders", "shop.users"]
    assert found.rejects[0]["example"]["offset"] == 1
    assert "a run that met records like the newest would end with exit code 65" in found.warnings[-1]

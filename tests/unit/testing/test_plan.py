"""What `ingest plan` says, without a broker: it ends as a run would end, and leaves nothing behind."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import inmemory
import pytest
from harness import debezium, free_port

from ingest.cli.app import main
from ingest.cli.plan import lines
from ingest.driver.context import Settings
from ingest.errors import Unavailable
from ingest.model import types
from ingest.schema.ddl import parse_tables
from ingest.testing.capturing import Captured, capturing_sink
from ingest.testing.dry_run import DryRunReport, TableReport, dry_run
from ingest.testing.in_memory import InMemoryCoordinator, MemoryRecord, in_memory
from ingest.testing.in_memory_run import by_split, run_in_memory
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
        "route[1] (sh[o]p.ord) matches none of these tables, did you mean sh[o]p.orders?",
        "transform[0] (shop.users) matches none of these tables, did you mean shop.orders?",
        "transform[2] (shop.orders) matches only tables that an entry before it takes",
        "sink.tableId-to-topic.mapping t1 (shop.orders) matches none of these tables (a.b)",
    ]


@pytest.mark.parametrize("route", [[], [{"source-table": r"shop.\.*", "sink-table": "ods.<>", "replace-symbol": "<>"}]])
def test_a_table_that_is_refused_matches_the_entries_that_name_it(route: list[dict[str, str]], tmp_path: Path) -> None:
    refused = {"source-table": "shop.orders", "primary-keys": "idd"}
    topics = {"type": "kafka", "properties.bootstrap.servers": "memory:1",
              "sink.tableId-to-topic.mapping": f"{'ods' if route else 'shop'}.orders:t1"}  # fmt: skip
    taken = {"source-table": "shop.users", "primary-keys": "id"}
    for sink in ({}, topics):
        found, error, _ = plan(
            tmp_path, [(KEY, GOOD), (KEY, OTHER)], transform=[refused, taken], route=route, sink=sink
        )
        assert (error.exit_code, found.unmatched) == (78, [])
        assert "primary-keys name 'idd'" in [*found.without_key, *found.refused][0]
    rejected, _, _ = plan(tmp_path, [(KEY, GOOD), (KEY, debezium("c", None, {"t": "x"}, table="users"))],
                          transform=[taken])  # fmt: skip
    assert rejected.rejects or rejected.without_key
    assert rejected.unmatched == [], "its records are rejects"


MANY = [
    (KEY, debezium("c", None, {f"c{n:02}": 1 for n in range(wide)} | {"id": 1}, table=f"orders_{i:02}"))
    for wide, tables in ((5, range(30)), (60, range(30, 60)))
    for i in tables
]


def shown(found: DryRunReport, **more: bool) -> list[str]:
    return "\n".join(lines(found, **more)).split("\n")


@pytest.mark.parametrize("messages", [MANY[:30], MANY[30:]], ids=["narrow", "wide"])
@pytest.mark.parametrize("sink", [{}, {"type": "kafka", "properties.bootstrap.servers": "memory:1"}])
def test_thirty_like_tables_fit_a_screen(
    messages: Messages, sink: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    route = [{"source-table": r"shop.\.*", "sink-table": "ods.<>", "replace-symbol": "<>"}]
    found, _, _ = plan(tmp_path, messages, route=route, sink=sink)
    found.new_topics = [name for table in found.tables for name in table.sink_tables]  # no broker lacks them here
    found.new_schemas = [f"{name}-value" for name in found.new_topics]
    said = shown(found)
    assert len(said) <= 24
    assert max(map(len, said)) <= 100
    assert "30 tables alike (new):" in said
    first = found.tables[0].table
    assert f"    {first} -> ods.{first.partition('.')[2]}, " in "\n".join(said)
    assert sum("ods.orders" in line and line.endswith(" more") for line in said) == 3
    columns = len(found.tables[0].columns)
    left_out = next((int(n) for line in said for n in re.findall(r"and (\d+) columns? more", line)), 0)
    assert "".join(said).count("BIGINT") + left_out == columns
    assert (left_out > 0) == (columns > 40)
    assert "".join(shown(found, chosen=True)).count("BIGINT") == columns
    assert "CREATE TABLE" not in "".join(said)


def test_statements_are_shown_on_request_and_can_be_read(tmp_path: Path) -> None:
    odd = {"id": 1, "a b`c": 1.5, "select": "x", "r": {"select": [1], "a b": 1}}
    found, _, _ = plan(tmp_path, [(KEY, debezium("c", None, odd, table="t x")), (KEY, GOOD)])
    said = shown(found, ddl=True)
    assert not [line for line in said if "primary key (" in line or line.startswith("schema changes")]
    for table in found.tables:
        (statement,) = table.ddl
        assert all(f"    {line}" in said for line in statement.split("\n"))
        ((name, schema),) = parse_tables(statement).items()
        assert name == tuple(table.table.split("."))
        assert [*schema.primary_key] == table.primary_key == ["id"]
        read = [{"name": c.name, "type": types.name(c.type), "nullable": c.nullable} for c in schema.columns]
        assert read == table.columns


def test_tables_of_more_than_ten_kinds_have_a_line_each(tmp_path: Path) -> None:
    many = [(KEY, debezium("c", None, {"id": 1, f"n{i}": 1}, table=f"t{i:02}")) for i in range(12)]
    found, _, _ = plan(tmp_path, many)
    said = shown(found)
    assert "    shop.t11 (new) -> shop.t11: 2 columns, primary key (id)" in said
    assert not [line for line in said if "BIGINT" in line]
    assert len([line for line in shown(found, chosen=True) if line.startswith("    n")]) == 12


def test_like_changes_of_tables_are_one_line(tmp_path: Path) -> None:
    found = DryRunReport("p", "c", "at-least-once", 1, 1, 1)
    found.tables = [TableReport(name, None, name != "n", [name], [], [], []) for name in ("a", "b> c", "d", "n", "m")]
    found.changes = ["a> ADD COLUMN x INT", "b> c> ADD COLUMN x INT", "d> ADD COLUMN y> INT", "n> CREATE TABLE (p INT)",
                     "m> CREATE TABLE (p INT)"]  # fmt: skip
    found.created = {"n": "with p STRING for 5.5", "m": ""}
    assert shown(found)[-5:] == [
        "schema changes:",
        "    n> CREATE TABLE (…), with p STRING for 5.5",
        "    2 tables, a the first> ADD COLUMN x INT",
        "    d> ADD COLUMN y> INT",
        "    m> CREATE TABLE (p INT)",
    ]
    found.without_key = [f"table t{i} has no primary key" for i in range(30)]
    assert shown(found)[-2:] == [
        "    table t2 has no primary key",
        "    and 27 more: --tables PATTERN chooses tables, --format json has all",
    ]


def command(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return int(ended.value.code or 0)


def test_the_command_says_so_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = tmp_path / "in.jsonl"
    text.write_bytes(b"\n".join([GOOD, b"{\x1b", b"[]", GOOD, b""]))
    (tmp_path / "p.yaml").write_text(
        "source: {type: file, path: in.jsonl}\nsink: {type: file, path: out/rows}\n"
        "route: [{source-table: shop.user, sink-table: x}]\n"
    )
    before = sorted(path.name for path in tmp_path.rglob("*"))
    assert command("plan", "p.yaml") == 65
    said = capsys.readouterr()
    assert "in.jsonl[0] at offset 1" in said.err
    assert "decode/malformed: 2 records, the first in.jsonl[0] at offset 1" in said.out
    assert "route[0] (shop.user) matches none of these tables, did you mean shop.orders?" in said.out
    assert "\x1b" not in said.out + said.err
    assert command("plan", "p.yaml", "--format", "json") == 65
    found = json.loads(capsys.readouterr().out)
    assert found["error"]["exit_code"] == 65
    assert sum(reject["count"] for reject in found["rejects"]) == 2
    assert sorted(path.name for path in tmp_path.rglob("*")) == before

    one = debezium("c", None, {"id": 1, "n": 1}, table="users")
    text.write_bytes(b"\n".join([GOOD, one, debezium("c", None, {"n": 1}, table="audit"), b""]))
    assert command("plan", "p.yaml", "--tables", r"shop.u\.*", "--format", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [table["table"] for table in found["tables"]] == ["shop.users"]
    assert [change.partition(">")[0] for change in found["changes"]] == ["shop.users"]
    assert (found["without_key"], [*found["created"]]) == ([], ["shop.users"])
    assert command("plan", "p.yaml", "--tables", "shop.users", "--rows", "9", "--format", "json") == 0
    assert [record["offset"] for record in json.loads(capsys.readouterr().out)["records"]] == [1]
    assert command("plan", "p.yaml", "--tables", "shop.uzers") == 0
    assert "--tables (shop.uzers) matches none of these tables, did you mean shop.users?" in capsys.readouterr().out
    assert command("plan", "p.yaml", "--tables", "[") == 2
    assert "--tables" in capsys.readouterr().err

    text.write_bytes(b"{\n")
    assert command("plan", "p.yaml") == 65
    assert "no tables: none of the records became a row" in capsys.readouterr().out
    text.write_bytes(b"")
    assert command("plan", "p.yaml") == 0
    assert "no tables: the source has no records" in capsys.readouterr().out
    text.unlink()
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
    other = {"source": {"type": "kafka"}, "sink": {"type": "file"}}
    meta = {"format": 1, "id": "x", "keys": 2, "fingerprint": other}
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

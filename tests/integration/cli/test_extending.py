"""Components of other packages, by their entry points. The package is the one that docs/extending.md shows."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
import tomllib
from contextlib import chdir, closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from commands import called, ran_here
from harness import INGEST, Result, finish, finished
from pairs_package import PAIRS

from ingest.component.plugins import ComponentError, Registry
from ingest.formats import FORMATS
from ingest.formats.format import FormatCapabilities
from ingest.sinks import SINKS
from ingest.sinks.sink import SinkCapabilities
from ingest.sources import SOURCES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from harness import Kafka, Pipeline
    from shared_java import SharedJava

DOCS = Path(__file__).parents[3] / "docs" / "extending.md"
PIPELINE = """\
source: {type: file, path: in.jsonl, value.format: databus-json, scan.max.pre.fetch.records: 0}
sink: {type: sqlite, path: out.db}
transform: [{source-table: \\.*, primary-keys: id}]
"""


def install(site: Path, package: str, entry_points: Mapping[str, Mapping[str, str]], code: str) -> None:
    """As pip leaves a package behind."""
    about = site / f"{package}-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    groups = (
        f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in named.items()) for group, named in entry_points.items()
    )
    (about / "entry_points.txt").write_text("\n".join(groups))
    (site / f"{package}.py").write_text(code)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    blocks = dict(re.findall(r"```(\w+)\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL))
    points = tomllib.loads(blocks["toml"])["project"]["entry-points"]
    install(tmp_path / "site", "acme_ingest", points, blocks["python"])
    return tmp_path / "site"


def ingest(folder: Path, site: Path, *args: str) -> Result:
    """The command in a process of its own, which finds the packages of a folder beside those of the environment."""
    command = ["env", f"PYTHONPATH={site}", INGEST, *args]
    return finish(subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))


def ingest_here(folder: Path, site: Path, *args: str, command: Callable[..., Result] = called) -> Result:
    """The same in this process, which forgets the packages again."""
    before = {*sys.modules}
    with chdir(folder), pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(site)
        for registry in (FORMATS, SINKS, SOURCES):
            patch.setattr(registry, "_others", None)  # a registry looks for packages once
        try:
            return command(*args)
        finally:
            for name in {*sys.modules} - before:
                if name.startswith("acme_"):
                    del sys.modules[name]


def databus(kind: str, table: str, data: dict[str, Any], old: dict[str, Any] | None = None) -> str:
    message = {"database": "shop", "table": table, "type": kind, "ts": 1, "data": data}
    return json.dumps(message | ({} if old is None else {"old": old})) + "\n"


def test_a_format_and_a_sink_of_another_package_run(tmp_path: Path, site: Path, shared_java: SharedJava) -> None:
    (tmp_path / "p.yaml").write_text(PIPELINE)
    source = tmp_path / "in.jsonl"
    source.write_text(
        databus("insert", "orders", {"id": 1, "n": 1})
        + databus("insert", "orders", {"id": 2, "n": 2})
        + databus("insert", "products", {"id": 1, "name": "tea"})
        + databus("update", "orders", {"id": 3, "n": 2}, {"id": 2})
    )

    def run() -> Result:
        command = [INGEST, "run", "p.yaml", "--once", "--checkpoint", "c", "--master", "local[2]"]
        return finished(command, shared_java, tmp_path, {"PYTHONPATH": str(site)}, tmp_path)

    ran = run()
    assert ran.code == 0, ran.err

    def rows() -> dict[str, dict[str, Any]]:
        with closing(sqlite3.connect(tmp_path / "out.db")) as database:
            return {key: json.loads(value) for key, value in database.execute("SELECT key, value FROM rows")}

    assert rows() == {
        '{"TableId":"shop.orders","id":1}': {"id": 1, "n": 1},
        '{"TableId":"shop.orders","id":3}': {"id": 3, "n": 2},
        '{"TableId":"shop.products","id":1}': {"id": 1, "name": "tea"},
    }
    with source.open("a") as more:
        more.write(databus("delete", "orders", {"id": 1, "n": 1}))
    assert run().code == 0
    assert '{"TableId":"shop.orders","id":1}' not in rows()

    with source.open("a") as more:
        more.write('{"database":"shop"}\n')
    bad = run()
    assert bad.code == 65, bad.err
    assert "not a message of the bus" in bad.err


def test_a_source_of_another_package_runs(tmp_path: Path, site: Path) -> None:
    pipeline, out = tmp_path / "p.yaml", tmp_path / "out"

    def run(count: int, *args: str) -> Result:
        pipeline.write_text(
            f"source: {{type: numbers, count: {count}}}\nsink: {{type: file, path: out, value.format: json}}\n"
        )
        return ingest_here(tmp_path, site, "p.yaml", "--checkpoint", "c", *args, command=ran_here)

    def rows() -> list[int]:
        return sorted(json.loads(line)["n"] for file in out.iterdir() for line in file.read_text().splitlines())

    refused = run(2500, "--from-timestamp", "0")
    assert refused.code == 78
    assert "numbers have no time" in refused.err
    for count in (2500, 2600, 2600):
        done = run(count)
        assert done.code == 0, done.err
        assert rows() == [*range(count)]
    for args in (["show"], ["reset", "--to", "offset:2599"]):
        done = ingest_here(tmp_path, site, "checkpoint", args[0], "p.yaml", "--checkpoint", "c", *args[1:])
        assert done.code == 0, done.err
    assert run(2600).code == 0
    assert rows() == [*range(2600), 2599]


def test_pipelines_with_them_are_tested_without_them(tmp_path: Path, site: Path) -> None:
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "a.yaml").write_text(
        "title: Databus into SQLite\n"
        "pipeline:\n"
        "  source: {value.format: databus-json}\n"
        "  sink: {type: sqlite, path: nowhere/out.db}\n"
        "  transform: [{source-table: shop.orders, primary-keys: id}]\n"
        "messages:\n"
        "  - {value: {database: shop, table: orders, type: insert, data: {id: 1}}}\n"
        "  - {value: {database: shop, table: orders, type: other, data: {id: 1}}}\n"
        "records:\n"
        '  - \'shop.orders {"TableId":"shop.orders","id":1} {"id":1}\'\n'
        "rejects:\n"
        "  - 1 decode/malformed\n"
    )
    tested = ingest(tmp_path, site, "test", "scenarios")
    assert tested.code == 0, tested.out + tested.err


def test_their_options_are_checked_as_ours_are(tmp_path: Path, site: Path) -> None:
    source = "source: {type: file, path: in.jsonl, value.format: databus-json, databus-json.ignore-parse-error: true}\n"
    (tmp_path / "a.yaml").write_text(source + "sink: {type: sqlite}\n")
    (tmp_path / "b.yaml").write_text(
        "source: {type: file, path: in.jsonl, value.format: databu-json}\nsink: {type: sqllite, path: out.db}\n"
    )
    (tmp_path / "c.yaml").write_text(
        "source: {type: file, path: in.jsonl, value.format: json, databus-json.ignore-parse-errors: true}\n"
        "sink: {type: file, path: out, value.format: databus-json}\n"
    )
    found = ingest_here(tmp_path, site, "check", "a.yaml", "b.yaml", "c.yaml")
    assert found.code == 78
    for text in (
        "a.yaml:1:66: error: unknown option 'databus-json.ignore-parse-error' in databus-json, did you mean",
        "a.yaml:2:7: error: option 'path' is missing in sink",
        "b.yaml:1:52: error: value.format: 'databu-json' is not possible, did you mean 'databus-json'?",
        "b.yaml:2:14: error: unknown sink type 'sqllite', did you mean 'sqlite'? (known: upsert-kafka, kafka, print,",
        ", sqlite)",
        "c.yaml:1:58: error: unknown option 'databus-json.ignore-parse-errors' in source",
        "c.yaml:2:45: error: value.format: 'databus-json' can be read, not written",
    ):
        assert text in found.out + found.err
    without = ingest_here(tmp_path, tmp_path / "nowhere", "check", "a.yaml")
    assert without.code == 78
    assert "unknown sink type 'sqlite'" in without.out + without.err


SCENARIO = """\
title: Databus into SQLite
pipeline:
  source: {value.format: databus-json}
  sink: {type: sqlite, path: nowhere/out.db}
  transform: [{source-table: shop.orders, primary-keys: id}]
messages:
  - {value: {database: shop, table: orders, type: insert, data: {id: 1}}}
  - {value: null}
records: []
"""
PACKAGE = "the package acme_ingest (format databus-json, sink sqlite, source numbers)"
DECODE = "return [TOMBSTONE if value is None else self._one(value) for value in values]"


@pytest.mark.parametrize(
    ("right", "wrong", "texts"),
    [
        (
            DECODE, "return [self._one(value) for value in values if value is not None]",
            ["the format 'databus-json' returned a list of 1 for 2 records of topic topic; it owes a list with one ",
             f"result for each: this is a bug of {PACKAGE}"],
        ),
        (
            DECODE, "return [TOMBSTONE for value in [*values, None]]",
            ["the format 'databus-json' returned a list of 3 for 2 records"],
        ),
        (
            DECODE, "return map(self._one, values)",
            ["the format 'databus-json' returned no list, but map, for 2 records"],
        ),
        (
            DECODE, "raise ValueError('no licence')",
            [f"{PACKAGE} failed in DatabusDecoder.decode: ValueError: no licence", "tell the authors of that package",
             "the stack trace is above", "Traceback (most recent call last)"],
        ),
        (
            "return Change(table, kind, old, message.data, declared=self.DECLARED)",
            "return (table, kind, old, message.data, None, self.DECLARED)",
            ["the format 'databus-json' returned tuple for a record of topic topic; it owes a Change, a list of them, ",
             f"a Skip or a Reject: this is a bug of {PACKAGE}"],
        ),
        (
            "return Change(table, kind, old, message.data, declared=self.DECLARED)",
            "return [(table, kind, old, message.data, None, self.DECLARED)]",
            ["the format 'databus-json' returned tuple for a record of topic topic"],
        ),
        ("def decode(self,", "def decodes(self,", [f"{PACKAGE} failed in DatabusDecoder: AttributeError: "]),
        ("to = show(target)", "to = show(None)", [f"{PACKAGE} failed in SqliteSink.encoder: TypeError: "]),
    ],
    ids=["too-few", "too-many", "no-list", "raises", "a-tuple", "tuples", "lacks-a-method", "sink-raises"],
)  # fmt: skip
def test_a_bug_of_a_package_is_said_to_be_one(
    tmp_path: Path, site: Path, right: str, wrong: str, texts: list[str]
) -> None:
    module = site / "acme_ingest.py"
    code = module.read_text()
    assert right in code
    module.write_text(code.replace(right, wrong))
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "a.yaml").write_text(SCENARIO)
    tested = ingest_here(tmp_path, site, "test", "scenarios")
    said = tested.out + tested.err
    assert tested.code == 1, said
    for text in texts:
        assert text in said
    for text in ("bug of ingest", "Spark's log"):
        assert text not in said


@pytest.mark.usefixtures("java")
def test_a_decoder_that_loses_records_ends_a_run(tmp_path: Path, site: Path) -> None:
    module = site / "acme_ingest.py"
    module.write_text(module.read_text().replace(DECODE, "return [self._one(value) for value in values][1:]"))
    (tmp_path / "p.yaml").write_text(PIPELINE)
    (tmp_path / "in.jsonl").write_text(databus("insert", "orders", {"id": 1}) + databus("insert", "orders", {"id": 2}))
    ran = ingest(tmp_path, site, "run", "p.yaml", "--once", "--checkpoint", "c", "--master", "local[1]")
    assert ran.code == 1, ran.err
    assert "error: the format 'databus-json' returned a list of 1 for 2 records of topic in;" in ran.err
    assert "bug of ingest" not in ran.err
    with closing(sqlite3.connect(tmp_path / "out.db")) as database:
        assert database.execute("SELECT count(*) FROM rows").fetchone() == (0,)


def test_a_component_that_lacks_an_attribute_is_refused_by_check(tmp_path: Path, site: Path) -> None:
    module = site / "acme_ingest.py"
    code = module.read_text().replace("    ignore_parse_errors: bool", "    ignore_errors: bool")
    module.write_text(code.replace('    type: Literal["sqlite"]', '    kind: Literal["sqlite"]'))
    (tmp_path / "p.yaml").write_text(PIPELINE)
    found = ingest_here(tmp_path, site, "check", "p.yaml")
    assert found.code == 78
    for text in (
        "'databus-json' of the package acme_ingest lacks ignore_parse_errors: acme_ingest:DatabusJson",
        "'sqlite' of the package acme_ingest lacks type: acme_ingest:SqliteSink",
    ):
        assert text in found.out + found.err


def test_a_format_that_lacks_the_method_of_a_capability_is_refused_by_check(tmp_path: Path) -> None:
    site = tmp_path / "site"
    code = PAIRS.replace("def reader_of(", "def reader(").replace("self.reader_of(", "self.reader(")
    install(site, "acme_pairs", {"ingest.formats": {"pairs": "acme_pairs:Pairs"}}, code)
    (tmp_path / "p.yaml").write_text(PIPELINE.replace("databus-json", "pairs"))
    found = ingest_here(tmp_path, site, "check", "p.yaml")
    assert found.code == 78
    text = "'pairs' of the package acme_pairs has the capability reads_keys, and lacks the method reader_of"
    assert text in found.out + found.err


@pytest.mark.parametrize("needs_key", [False, True])
def test_a_sink_that_says_nothing_of_keys_writes_those_that_it_needs(needs_key: bool) -> None:
    can = SinkCapabilities(needs_key=needs_key)
    assert can.writes_keys is needs_key
    assert replace(can, rest_s=1.0) == SinkCapabilities(needs_key=needs_key, writes_keys=needs_key, rest_s=1.0)
    assert SinkCapabilities(needs_key=needs_key, writes_keys=not needs_key).writes_keys is not needs_key


def test_keys_of_a_format_with_schemas_need_what_writes_rows() -> None:
    can = FormatCapabilities(writes_keys=True, table_schemas="changes")
    assert {*can.methods()} == {("table_schemas", "change_writer"), ("writes_keys", "row_writer")}


def test_a_package_that_is_broken_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "raise RuntimeError('no licence\\nfound')\n"
    install(tmp_path / "1", "broken", {"some.group": {"a": "broken:A", "print": "broken:Print"}}, code)
    install(
        tmp_path / "2", "plain", {"some.group": {"b": "plain:B", "c": "plain:C", "d": "plain:D"}}, "B = dict\nC = 1\n"
    )
    install(tmp_path / "3", "again", {"some.group": {"b": "again:B"}}, "")
    for part in "123":
        monkeypatch.syspath_prepend(str(tmp_path / part))
    registry: Registry[Any] = Registry(
        "some.group", "builtins:dict", ("get", "fetch"), {"print": "ingest.sinks.print:PrintSink"}
    )
    assert registry.names() == ["print", "a", "b", "c", "d"]
    assert list(registry) == ["print"]
    found = registry.find("print")
    assert found is not None
    assert found.__module__ == "ingest.sinks.print", "what comes with ingest is not replaced"
    assert registry.find("e") is None
    for name, text in {
        "a": "'a' of the package broken cannot be loaded: RuntimeError: no licence",
        "b": "'b' is in several packages: ",
        "c": "'c' of the package plain is no dict: plain:C",
        "d": "'d' of the package plain cannot be loaded: AttributeError: ",
    }.items():
        with pytest.raises(ComponentError, match=re.escape(text)) as caught:
            registry.find(name)
        assert "\n" not in str(caught.value)
    other: Registry[Any] = Registry("other.group", "builtins:dict", ("get", "fetch"), {})
    install(tmp_path / "4", "lacking", {"other.group": {"f": "lacking:F"}}, "F = dict\n")
    monkeypatch.syspath_prepend(str(tmp_path / "4"))
    with pytest.raises(ComponentError, match="'f' of the package lacking lacks fetch: lacking:F"):
        other.find("f")


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    install(tmp_path / "site", "acme_pairs", {"ingest.formats": {"pairs": "acme_pairs:Pairs"}}, PAIRS)
    return tmp_path / "site"


def test_a_format_of_keys_and_rows_reads_and_writes_upsert_topics(
    kafka: Kafka, pipeline: Pipeline, pairs: Path
) -> None:
    env = {"PYTHONPATH": str(pairs)}
    kafka.send(
        pipeline.topic,
        *[(b"id=%d;shop=eu" % i, b"n=%d;name=tea" % i) for i in range(20)],
        (b"id=3;shop=eu", None), (b"id=4;shop=eu", b"n=4;name=coffee"), (b"id", b"n=1;name=tea"),
    )  # fmt: skip
    pipeline.write(
        source="  format: pairs\n  key.format: pairs\n  ingestion.ignore-errors: true\n",
        sink="  format: pairs\n  key.format: pairs\n  key.pairs.sign: ':'\n",
    )
    done = pipeline.run(env=env)
    assert done.code == 0, done.err
    assert "malformed-key" in done.err
    records = kafka.read(pipeline.out(pipeline.topic))
    last = {record.key: record.value for record in records}
    assert last == {
        **{b"id:%d;shop:eu" % i: b"id=%d;shop=eu;n=%d;name=tea" % (i, i) for i in range(20)},
        b"id:3;shop:eu": None,
        b"id:4;shop:eu": b"id=4;shop=eu;n=4;name=coffee",
    }
    again = f"{kafka.name}.again"
    pipeline.file.write_text(
        f"source:\n  type: upsert-kafka\n  properties.bootstrap.servers: {kafka.bootstrap}\n"
        f"  topic: {pipeline.out(pipeline.topic)}\n  format: pairs\n  key.format: pairs\n  key.pairs.sign: ':'\n"
        f"pipeline: {{name: again}}\nsink:\n  type: kafka\n  properties.bootstrap.servers: {kafka.bootstrap}\n"
        f"  topic: {again}\n  format: pairs\n  key.format: pairs\n  key.fields: name;id\n"
        "  value.fields-include: EXCEPT_KEY\n"
    )
    pipeline.checkpoint = pipeline.checkpoint.with_name("again")
    done = pipeline.run(env=env)
    assert done.code == 0, done.err
    rows = {record.key: record.value for record in kafka.read(again)}
    assert rows == {
        **{b"name=tea;id=%d" % i: b"shop=eu;n=%d" % i for i in range(20) if i not in {3, 4}},
        b"name=coffee;id=4": b"shop=eu;n=4", b"name=tea;id=3": None, b"name=tea;id=4": None,
    }  # fmt: skip


def test_what_a_format_of_another_package_cannot_be_is_refused(tmp_path: Path, site: Path, pairs: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        'source: {type: upsert-kafka, properties.bootstrap.servers: "h:1", topic: t, format: databus-json}\n'
        'sink: {type: upsert-kafka, properties.bootstrap.servers: "h:1", key.format: databus-json, format: pair}\n'
    )
    (tmp_path / "b.yaml").write_text(
        'source: {type: kafka, properties.bootstrap.servers: "h:1", topic: t, key.format: pairs, key.pairs.sgn: x}\n'
        'sink: {type: kafka, properties.bootstrap.servers: "h:1", format: pairs, key.format: databus-json}\n'
    )
    (tmp_path / "c.yaml").write_text(
        'source: {type: kafka, properties.bootstrap.servers: "h:1", topic: t, key.format: pairs, key.pairs.sign: "~"}\n'
        'sink: {type: kafka, properties.bootstrap.servers: "h:1", format: pairs, key.format: pairs, pairs.sign: abc}\n'
    )
    assert site == pairs
    found = ingest_here(tmp_path, site, "check", "a.yaml", "b.yaml", "c.yaml")
    assert found.code == 78
    possible = "'json', 'csv', 'raw', 'avro', 'avro-confluent', 'protobuf', 'protobuf-confluent', 'json-confluent'"
    for text in (
        f"a.yaml:1:85: error: format: 'databus-json' is not possible (possible: {possible} or 'pairs')",
        f"a.yaml:2:77: error: key.format: 'databus-json' is not possible (possible: {possible} or 'pairs')",
        "a.yaml:2:99: error: format: 'pair' is not possible, did you mean 'pairs'?",
        "b.yaml:1:89: error: unknown option 'pairs.sgn' in key.pairs, did you mean 'pairs.sign'?",
        "b.yaml:2:85: error: key.format: 'databus-json' is not possible",
        "c.yaml:2:104: error: pairs.sign: ",
    ):
        assert text in found.out + found.err
    assert "c.yaml:1" not in found.out + found.err

"""What editors and shells complete by: the JSON Schema of the installed version, and the words of commands."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from commands import called
from harness import INGEST
from pages import ROOT
from ruamel.yaml import YAML

from ingest.checkpoint.checkpoint import Checkpoint, Progress
from ingest.checkpoint.storage import LocalStorage
from ingest.model import types
from ingest.model.schema import Column, TableSchema
from ingest.schema.evolve import Policy, Schemas, evolve
from ingest.schema.routes import RouteRule, Rules

if TYPE_CHECKING:
    from collections.abc import Callable


def test_the_schema_is_printed_and_is_beside_what_init_writes(tmp_path: Path) -> None:
    wanted = (ROOT / "schemas" / "pipeline.schema.json").read_text(encoding="utf-8")
    assert called("json-schema").out == wanted
    file = tmp_path / "p.yaml"
    given = ("--no-look", "--brokers", "b:9092", "--topic", "t", "--sink", "print", "--format", "json")
    assert called("init", str(file), *given).code == 0
    (tmp_path / "x.sql").write_text(
        "CREATE TABLE t (id INT) WITH ('connector' = 'kafka', 'topic' = 't', 'format' = 'json')"
    )
    assert called("init", str(tmp_path / "q.yaml"), "--from-sql", str(tmp_path / "x.sql")).code == 0
    assert called("init", str(tmp_path / "repo"), "--repo").code == 0
    for written in (file, tmp_path / "q.yaml", tmp_path / "repo" / "pipelines" / "orders.yaml"):
        line = next(one for one in written.read_text().splitlines() if "$schema=" in one)
        assert line.startswith("# yaml-language-server: $schema=")
        assert (written.parent / line.partition("=")[2]).read_text() == wanted
        YAML(typ="safe").load(written)
    assert json.loads(wanted)["properties"]


@pytest.fixture
def completed_by(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """What bash completes at the end of words, in a folder with a pipeline and its checkpoint."""
    monkeypatch.chdir(tmp_path)
    Path("p.yaml").write_text(
        "source: {type: kafka, topic: '${topic}', properties.bootstrap.servers: 'b:9', scan.startup.mode: '${mode}',\n"
        "  properties.security.protocol: ${protocol:-SSL}, properties.sasl.password: '${secret_values.pw}'}\n"
        "sink: {type: upsert-kafka, properties.bootstrap.servers: 'b:9', sink.topic.create: ${create}}\n"
    )
    Path("broken.yaml").write_text("source: [")

    def words(*given: str, of: str = "bash") -> list[str]:
        cut = [part for word in given for part in re.split("([=:]+)", word) if part] if of == "bash" else given
        number = len(cut)
        monkeypatch.setenv("_INGEST_COMPLETE", f"complete_{of}")
        monkeypatch.setenv("COMP_WORDS", "\n".join(["ingest", *cut]))
        monkeypatch.setenv("COMP_CWORD", str(number if given[-1] else number + 1))
        monkeypatch.setenv("_TYPER_COMPLETE_ARGS", " ".join(["ingest", *cut]))
        monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
        return called().out.split()

    return words


@pytest.mark.parametrize(("words", "completed"), [
    (["init", "--sink", "ice"], ["iceberg"]),
    (["init", "--sink=ice"], ["iceberg"]),
    (["init", "--format", "debezium-a"], ["debezium-avro-confluent"]),
    (["init", "--property", "security.pro"], ["security.protocol="]),
    (["init", "--property", "security.protocol="],
     ["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"]),
    (["init", "--property", "auto.offset.reset=ea"], ["earliest"]),
    (["explain", "malf"], ["malformed", "malformed-key"]),
    (["explain", "upsert-k"], ["upsert-kafka"]),
    (["explain", "scan.startup.m"], ["scan.startup.mode"]),
    (["check", "--format", "git"], ["github"]),
    (["check", "p.yaml", "--set", "mo"], ["mode="]),
    (["run", "p.yaml", "--set", ""], ["topic=", "mode=", "protocol=", "create="]),
    (["run", "p.yaml", "--set", "mode=ea"], ["earliest-offset"]),
    (["plan", "p.yaml", "--set", "create="], ["true", "false"]),
    (["run", "p.yaml", "--set", "topic="], []),
    (["run", "nothing.yaml", "--set", "x"], []),
    (["run", "broken.yaml", "--log-format", "j"], ["json"]),
    (["run", "p.yaml", "--master", "loc"], ["local[*]", "local[1]"]),
    (["replay", "p.yaml", "--code", "null-"], ["null-key"]),
    (["letters", "list", "p.yaml", "--code", "malformed-"], ["malformed-key"]),
    (["checkpoint", "reset", "p.yaml", "--to", "e"], ["earliest"]),
    (["tap", "p.yaml", "--table", "s"], []),
    (["json-s"], ["json-schema"]),
])  # fmt: skip
def test_shells_complete_names_and_values(
    words: list[str], completed: list[str], completed_by: Callable[..., list[str]]
) -> None:
    assert completed_by(*words) == completed


def test_shells_complete_what_a_checkpoint_knows(completed_by: Callable[..., list[str]]) -> None:
    checkpoint = Checkpoint(LocalStorage(Path(".ingest", "p")))
    checkpoint.bind({})
    checkpoint.begin({})
    seen = TableSchema((Column("id", types.BIGINT, nullable=False),), ("id",))
    checkpoint.store(evolve(Schemas(), [(("a", "b"), seen)], Rules((RouteRule("a.b", "out.b"),)), Policy()))
    progress = Progress(1, ids={"orders": "i"}, positions={("orders", 0): 3, ("orders", 1): 4, ("prices", 0): 1})
    checkpoint.done(progress, {})
    checkpoint.close()
    for words, completed in (
        (["backfill", "p.yaml", "--table", "a"], ["a.b"]),
        (["tap", "p.yaml", "--table", ""], ["a.b"]),
        (["tap", "p.yaml", "--at", "or"], ["orders:0:", "orders:1:"]),
        (["tap", "p.yaml", "--at", "orders:1"], ["1:"]),
        (["schema", "show", "p.yaml", "out"], ["out.b"]),
        (["schema", "show", ".ingest/p", "--observed", "a"], ["a.b"]),
        (["checkpoint", "reset", "p.yaml", "--topic", "p"], ["prices"]),
        (["replay", "p.yaml", "--checkpoint", ".ingest/p", "--table", "a"], ["a.b"]),
        (["replay", "p.yaml", "--checkpoint", "nowhere", "--table", "a"], []),
    ):
        assert completed_by(*words) == completed, words
    assert completed_by("tap", "p.yaml", "--at", "orders:1", of="fish") == ["orders:1:"]


def test_bash_itself_completes_a_value(tmp_path: Path) -> None:
    """The script that `--show-completion` prints, in a real bash, which takes `mode=ear` for three words."""
    (tmp_path / "p.yaml").write_text("source: {scan.startup.mode: '${mode}'}\n")
    known = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    script = subprocess.run(
        [INGEST, "--show-completion", "bash"], env=os.environ | known, check=True, capture_output=True, text=True
    ).stdout
    line = f"COMP_WORDS=(ingest plan p.yaml --set mode = ear); COMP_CWORD=6; _ingest_completion {INGEST}"
    done = subprocess.run(
        ["/bin/bash", "-c", f'{script}\n{line}; printf "%s\\n" "${{COMPREPLY[@]}}"'],
        cwd=tmp_path, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout == "earliest-offset\n", done.stderr

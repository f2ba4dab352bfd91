"""What editors and shells complete by: the JSON Schema of the installed version, and the words of commands."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING

import pytest
from commands import called
from harness import INGEST
from pages import ROOT
from ruamel.yaml import YAML

if TYPE_CHECKING:
    from pathlib import Path


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


@pytest.mark.parametrize(("words", "completed"), [
    (["init", "--sink", "ice"], "iceberg"),
    (["init", "--format", "debezium-a"], "debezium-avro-confluent"),
    (["explain", "malf"], "malformed"),
    (["explain", "upsert-k"], "upsert-kafka"),
    (["explain", "scan.startup.m"], "scan.startup.mode"),
    (["check", "--format", "git"], "github"),
    (["json-s"], "json-schema"),
])  # fmt: skip
def test_shells_complete_names_and_values(words: list[str], completed: str) -> None:
    asked = {
        "_INGEST_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(["ingest", *words]),
        "COMP_CWORD": str(len(words)),
    }
    done = subprocess.run([INGEST], env=os.environ | asked, check=False, capture_output=True, text=True)
    assert completed in done.stdout.split(), done.stderr

"""Golden files: what a person sees for each kind of mistake. UPDATE_GOLDEN=1 (`make golden`) rewrites them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import chdir
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from commands import called
from harness import INGEST, Result
from ruamel.yaml import YAML

from ingest.config.diagnostics import render
from ingest.config.loader import load
from ingest.formats import FORMATS
from ingest.sinks import SINKS
from ingest.sources import SOURCES

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
FILES = sorted((HERE / "files").glob("*.yaml"))
SCHEMA = ROOT / "schemas" / "pipeline.schema.json"


def test_there_are_files() -> None:
    assert len(FILES) >= 8


def without_names(text: str) -> str:
    """The text with `<all …>` for each list of all components, so that a new one changes no golden file."""
    *most, last = map(repr, FORMATS.names())
    text = text.replace(f"(possible: {', '.join(most)} or {last})", "(possible: <all formats>)")
    for what, names in {"sources": SOURCES.names(), "sinks": SINKS.names()}.items():
        text = text.replace(f"(known: {', '.join(names)})", f"(known: <all {what}>)")
    return text


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_golden(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent)
    monkeypatch.delenv("INGEST_SECRETS_DIR", raising=False)
    text = without_names(render(load(Path(file.name)).diagnostics)) + "\n"
    golden = file.with_suffix(".txt")
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(text)
    assert text == golden.read_text()


@cache
def validator() -> jsonschema.protocols.Validator:
    """Return the editor's schema, ready to validate; it is checked itself."""
    schema = json.loads(SCHEMA.read_text())
    found = jsonschema.validators.validator_for(schema)
    found.check_schema(schema)
    return found(schema)


@pytest.mark.parametrize("file", sorted((ROOT / "pipelines").glob("*.yaml")), ids=lambda file: file.stem)
def test_examples_are_right_and_carry_the_modeline(file: Path) -> None:
    assert load(file).diagnostics == []
    assert file.read_text().startswith("# yaml-language-server: $schema=../schemas/pipeline.schema.json\n")
    validator().validate(YAML(typ="safe").load(file))


def test_the_editor_schema_refuses_unknown_options() -> None:
    good: dict[str, Any] = {
        "source": {"type": "kafka", "topic": "t", "properties.bootstrap.servers": "h"},
        "sink": {"type": "upsert-kafka", "properties.bootstrap.servers": "${b}", "sink.topic.partitions": "${n}"},
        "pipeline": {"schema": {"change.behavior": "lenient"}, "parallelism": 3},
    }
    validator().validate(good)
    good["source"]["topicc"] = "x"
    with pytest.raises(jsonschema.ValidationError):
        validator().validate(good)


def command(*arguments: str) -> Result:
    with chdir(HERE / "files"):
        return called(*arguments)


def test_check_has_its_exit_codes_and_formats() -> None:
    good = str(ROOT / "pipelines" / "shop.yaml")
    assert command("check", good).code == 0
    check = [INGEST, "check", good, "unknown-keys.yaml"]
    bad = subprocess.run(check, check=False, capture_output=True, text=True, cwd=HERE / "files")
    assert bad.returncode == 78
    assert "unknown-keys.yaml:4:3: error: unknown option 'topicc' in source, did you mean 'topic'?" in bad.stdout
    found = json.loads(command("check", "--format", "json", "unknown-keys.yaml").out)
    assert {"file", "line", "column", "severity", "message"} <= found[0].keys()
    github = command("check", "--format", "github", "unknown-keys.yaml").out
    assert "::error file=unknown-keys.yaml,line=4,col=3::" in github


def test_unset_placeholders_are_notes_unless_denied_and_stop_a_run() -> None:
    assert command("check", "placeholders.yaml").code == 0
    assert command("check", "--deny-warnings", "placeholders.yaml").code == 78
    refused = command("run", "placeholders.yaml")
    assert refused.code == 78
    assert "looked in --set" in refused.err
    assert "Traceback" not in refused.err


def test_usage_errors_are_2_and_help_helps() -> None:
    assert command("run").code == 2
    assert command("nope").code == 2
    assert command("check", "--set", "x", "placeholders.yaml").code == 2
    assert "--checkpoint" in command("run", "--help").out


def test_the_golden_files_show_no_secret() -> None:
    assert "hunter" in (HERE / "files" / "secrets.yaml").read_text()
    for golden in (HERE / "files").glob("*.txt"):
        assert "hunter" not in golden.read_text(), golden


def test_unset_secrets_are_notes_that_stop_a_run_with_their_places() -> None:
    """Whatever option they stand in, and whatever else depends on it; the golden files have the notes."""
    for name in ("secrets-not-set.yaml", "secrets-from-a-manager.yaml"):
        assert {d.severity for d in load(HERE / "files" / name).diagnostics} == {"note"}
        for arguments in (["run", name], ["plan", name], ["check", "--deny-warnings", name]):
            refused = command(*arguments)
            assert refused.code == 78
            assert f"{name}:6:" in refused.out + refused.err
            assert ("error: " in refused.err) is (arguments[0] != "check")


def test_check_loads_nothing_that_it_does_not_need(tmp_path: Path) -> None:
    """No Kafka client, no Spark; a parser of expressions only where there are any. bench/check.py times it."""
    program = (
        "import sys\nfrom ingest.cli.app import main\nfor file in sys.argv[1:]:\n"
        "    try:\n        main(['check', file])\n    except SystemExit:\n        pass\n"
        "    print('loaded', *sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)\n"
    )
    slow = {"pyspark", "py4j", "pandas", "numpy", "pyarrow", "confluent_kafka", "rich", "structlog", "cryptography"}
    plain, broken = tmp_path / "plain.yaml", tmp_path / "broken.yaml"
    plain.write_text("source: {type: kafka, topic: t, properties.bootstrap.servers: h}\nsink: {type: print}\n")
    broken.write_text("source: {type: kafka, topicc: t, properties.sasl.jaas.config: x}\nsink: {type: print}\n")
    files = [plain, broken, ROOT / "pipelines" / "mask.yaml"]
    done = subprocess.run([sys.executable, "-c", program, *files], check=True, capture_output=True, text=True)
    said = [set(line.split()) for line in done.stderr.splitlines() if line.startswith("loaded ")]
    for file, loaded, allowed in zip(files, said, (set(), set(), {"sqlglot"}), strict=True):
        assert "pydantic" in loaded
        assert loaded & (slow | {"sqlglot"}) <= allowed, (file, loaded & slow)


def test_an_upsert_topic_is_not_read_from_a_time(tmp_path: Path) -> None:
    refused = command("run", "start-time.yaml", "--from-timestamp", "0", "--checkpoint", str(tmp_path))
    assert refused.code == 78
    assert "--from-timestamp is not possible: an upsert-kafka source is always read from its beginning" in refused.err


def test_settings_without_effect_are_warnings_unless_denied() -> None:
    found = command("check", "no-effect.yaml")
    assert found.code == 0
    assert "no-effect.yaml:12:3: warning: scan.startup.timestamp-millis has no effect without" in found.out
    assert command("check", "--deny-warnings", "no-effect.yaml").code == 78

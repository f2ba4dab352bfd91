"""`ingest init`: the formats that messages look like, files that are valid, and a repository that works as it is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from commands import called
from ruamel.yaml import YAML

from ingest import __version__
from ingest.cli.init import _with_format
from ingest.config.loader import load
from ingest.errors import ConfigError
from ingest.formats.appearance import REGISTERED, guessed, looks_like
from ingest.render.first_pipeline import SINKS, Answers
from ingest.testing.sampling import FirstLook

LIKE = {
    b'{"op":"c","before":null,"after":{"id":1}}': "debezium-json",
    b'{"schema":{"type":"struct"},"payload":{"op":"d","before":{"id":1},"after":null}}': "debezium-json",
    b'{"data":[{"id":"1"}],"database":"d","table":"t","type":"INSERT","isDdl":false,"es":1}': "canal-json",
    b'{"data":null,"database":"d","table":"t","type":"ALTER","isDdl":true}': "canal-json",
    b'{"database":"d","table":"t","type":"insert","ts":1,"data":{"id":1}}': "maxwell-json",
    b'{"table":"D.T","op_type":"I","after":{"id":1}}': "ogg-json",
    b'{"id":1,"type":"x","table":"y"}': "json",
    b"{}": "json",
    b"[1]": "raw",
    b"7": "raw",
    b"1,x,2": "csv",
    b"\0\0\0\0\1\2\3": REGISTERED,
    b"\0\0": "raw",
    b"\xff\xfe,": "raw",
    b"": "raw",
    b'{"op":': "raw",
}


@pytest.mark.parametrize("value", LIKE, ids=lambda value: value[:24].decode("ascii", "backslashreplace"))
def test_what_messages_look_like(value: bytes) -> None:
    assert looks_like(value) == LIKE[value]


def test_the_format_is_that_of_most_messages() -> None:
    found = guessed([b"{}", b"x", b"{}"])
    look = FirstLook(("t",), 1, 3, 3, found, json_keys=True)
    assert (look.format, found) == ("json", {"json": 2, "raw": 1})
    answers = Answers("b:9092", "t", None, "raw", "upsert-kafka")
    chosen = _with_format(answers, None, look)
    assert (chosen.format, chosen.key_format) == ("json", "json")
    for empty, why in ((FirstLook(("t",), 1, 0, 0, {}, json_keys=False), "no messages"), (None, "nobody looks")):
        with pytest.raises(ConfigError, match=why):
            _with_format(answers, None, empty)
    with pytest.raises(ConfigError, match="registry"):
        _with_format(answers, None, FirstLook(("t",), 1, 1, 1, {REGISTERED: 1}, json_keys=False))


FORMATS = (
    "debezium-json", "canal-json", "maxwell-json", "ogg-json", "json", "csv", "raw", "avro-confluent",
    "debezium-avro-confluent", "protobuf-confluent", "json-confluent", "debezium-json-confluent",
)  # fmt: skip


@pytest.mark.parametrize("sink", SINKS)
def test_every_answer_makes_a_file_that_is_valid(tmp_path: Path, sink: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INGEST_SECRET_POSTGRES", "none")
    for name in FORMATS:
        file = tmp_path / f"{name}.yaml"
        registry = ("--registry", "http://localhost:8081") if name.endswith("confluent") else ()
        done = called(
            "init", str(file), "--no-look", "--brokers", "b:9092", "--topic", "a;true",
            "--format", name, "--sink", sink, "--property", "security.protocol=SSL", *registry,
        )  # fmt: skip
        assert done.code == 0, done.err
        loaded = load(file)
        assert [one for one in loaded.diagnostics if one.severity != "warning"] == []
        assert loaded.pipeline is not None
        assert loaded.pipeline.source.topic == "a;true"
        assert loaded.pipeline.source.properties["security.protocol"] == "SSL"
        assert loaded.pipeline.sink.type == sink


def test_what_is_missing_or_there_is_said(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    given = ("--no-look", "--brokers", "b:9092", "--topic", "t", "--sink", "print")
    done = called("init", str(file), "--no-look", "--brokers", "b:9092")
    assert (done.code, "--topic" in done.err) == (2, True)
    assert (called("init", str(file), *given).code, file.exists()) == (78, False)
    assert (called("init", str(file), *given, "--format", "nope").code, file.exists()) == (78, False)
    done = called("init", str(file), *given, "--format", "json", "--registry", "http://localhost:1")
    assert (done.code, "--registry has no effect" in done.err, file.exists()) == (78, True, False)
    assert called("init", str(file), *given[:-1], "nope", "--format", "json").code == 2
    assert called("init", str(file), *given, "--topic-pattern", "x", "--format", "json").code == 2
    (tmp_path / "a-file").touch()
    done = called("init", str(tmp_path / "a-file" / "p.yaml"), *given, "--format", "json")
    assert (done.code, "cannot write" in done.err, "Traceback" in done.err) == (78, True, False)
    done = called("init", str(tmp_path / "a-file"), "--repo")
    assert (done.code, "cannot write" in done.err) == (78, True)
    file.write_text("mine")
    done = called("init", str(file), *given, "--format", "json")
    assert (done.code, file.read_text()) == (78, "mine")
    assert "is there already" in done.err


def test_a_repository_works_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "repo"
    assert called("init", str(folder), "--repo").code == 0
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert {"pipelines/orders.yaml", "k8s/orders.yaml", "k8s/kustomization.yaml", ".pre-commit-config.yaml"} <= files
    assert called("check", str(folder / "pipelines" / "orders.yaml"), "--deny-warnings").code == 0
    assert called("test", str(folder / "tests")).code == 0
    checked = called("check", str(folder / "pipelines"), "--deny-warnings")
    assert (checked.code, checked.err.strip()) == (0, "1 file checked: no errors")
    assert (folder / "requirements.txt").read_text() == f"ingest[all]=={__version__}\n"
    workflow = YAML(typ="safe").load(folder / ".github" / "workflows" / "pipelines.yaml")
    steps = [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]
    assert [step for step in steps if "ingest" in step and "ingest plan" not in step] == [
        "ingest check pipelines --deny-warnings --no-code", "ingest check pipelines --deny-warnings",
        "ingest test tests", "ingest render k8s pipelines --out k8s --check",
    ]  # fmt: skip
    guarded = [step["if"] for step in workflow["jobs"]["check"]["steps"] if "ingest " in step.get("run", "")]
    fork = "github.event.pull_request.head.repo.fork"
    assert guarded == [fork, *[f"${{{{ !{fork} }}}}"] * 3]  # the code of a fork is not run
    assert workflow["jobs"]["plan"]["if"].endswith(f"&& !{fork}")
    (folder / "README.md").write_text("mine")
    assert called("init", str(folder), "--repo").code == 78
    assert (folder / "README.md").read_text() == "mine"


def test_check_takes_directories_and_says_where_there_is_no_pipeline(tmp_path: Path) -> None:
    (tmp_path / "kubernetes.yaml").write_text("image: x\n")
    (tmp_path / "notes.txt").write_text("no pipeline\n")
    nothing = called("check", str(tmp_path))
    assert (nothing.code, "there is no pipeline in" in nothing.err) == (78, True)
    good = "source: {type: file, path: x, value.format: json}\nsink: {type: print}\n"
    (tmp_path / "a.yaml").write_text(good)
    (tmp_path / "b.yml").write_text(good.replace("path", "paht"))
    found = called("check", str(tmp_path), str(tmp_path / "a.yaml"))
    assert found.code == 78
    assert f"{tmp_path / 'b.yml'}:1:22: error: unknown option 'paht'" in found.out
    assert "3 files checked" in found.err


def test_the_hooks_of_a_repository_pass_and_find_a_mistake(tmp_path: Path) -> None:
    folder = tmp_path / "repo"
    assert called("init", str(folder), "--repo").code == 0
    bin_ = Path(sys.executable).parent
    env = {**os.environ, "PATH": f"{bin_}:{os.environ['PATH']}", "PRE_COMMIT_HOME": str(tmp_path / "home")}
    hooks = [str(bin_ / "pre-commit"), "run", "--all-files"]

    def ran(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)

    assert ran("git", "init", "-q").returncode == ran("git", "add", "-A").returncode == 0
    passed = ran(*hooks)
    assert passed.returncode == 0, passed.stdout + passed.stderr
    pipeline = folder / "pipelines" / "orders.yaml"
    pipeline.write_text(pipeline.read_text().replace("topic:", "topik:"))
    failed = ran(*hooks)
    assert failed.returncode == 1
    assert "topik" in failed.stdout

"""The commands themselves: what every one of them has, and what they refuse before anything is connected."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from harness import INGEST

from ingest import __version__
from ingest.cli.app import COMMANDS, app, main
from ingest.formats import FORMATS
from ingest.model.reject import CODES
from ingest.sinks import SINKS

ROOT = Path(__file__).parents[3]


def command(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return int(ended.value.code or 0)


GROUP: Any = typer.main.get_command(app)


def leaves(group: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The path of every command, groups included."""
    commands = {
        name: group.load(name) if group is GROUP else found for name, found in getattr(group, "commands", {}).items()
    }
    return [path, *(leaf for name, found in commands.items() for leaf in leaves(found, (*path, name)))]


@pytest.mark.parametrize("path", leaves(GROUP), ids=" ".join)
def test_every_command_has_a_short_help(path: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert command(*path, "-h") == 0
    short = capsys.readouterr().out
    assert command(*path, "--help") == 0
    assert short == capsys.readouterr().out != ""


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_has_the_short_help_of_each(name: str) -> None:
    assert GROUP.load(name).get_short_help_str(120) == COMMANDS[name]


@pytest.mark.parametrize(
    ("arguments", "loads"), [([], []), (["--help"], []), (["chek"], []), (["check", "-h"], ["check"])], ids=" ".join
)
def test_only_the_command_that_is_named_is_loaded(arguments: list[str], loads: list[str]) -> None:
    code = (
        "import sys\nfrom ingest.cli.app import COMMANDS, main\n"
        "try: main(sys.argv[1:])\nfinally: print(*(c for c in COMMANDS if f'ingest.cli.{c}' in sys.modules), sep='\\n')"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    assert [line for line in done.stdout.splitlines() if line in COMMANDS] == loads


def test_a_command_that_does_not_exist_is_said_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("chek") == 2
    assert "Did you mean 'check'" in capsys.readouterr().err


def test_the_version_and_the_completion_of_shells(capsys: pytest.CaptureFixture[str]) -> None:
    for option in ("-V", "--version"):
        assert command(option) == 0
        first, built, needs = capsys.readouterr().out.splitlines()
        assert first == f"ingest {__version__}"
        assert re.fullmatch("built from .*, with(out)? native code", built)
        assert re.match(r"Python 3\.\d+\.\d+, pyspark 4\.", needs)
    for words, wanted in (
        ("ingest ch", ["check", "checkpoint"]),
        ("ingest letters sh", ["show"]),
        ("ingest run --on", ["--once"]),
    ):
        at = str(words.count(" "))
        env = {**os.environ, "_INGEST_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": at}
        completed = subprocess.run([INGEST], env=env, capture_output=True, text=True, check=False)
        assert completed.stdout.split() == wanted, completed.stderr


GIVES_CODES = re.compile(r"\b(?:Reject|RowError)\(")
"""A module without this gives none, so that it need not be parsed."""


def codes_in(tree: ast.Module) -> set[str]:
    """The codes that a module gives to rejects, as texts or as its constants."""
    constants = {
        node.target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and isinstance(node.value, ast.Constant)
    }
    given = [
        node.args[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in {"Reject", "RowError"}
    ]
    found = [one.value if isinstance(one, ast.Constant) else constants.get(getattr(one, "id", "")) for one in given]
    return {str(code) for code in found if code is not None}


def test_every_code_of_a_reject_is_listed_where_it_belongs_and_documented() -> None:
    """Those of one format or sink are in its `codes`, or in those of a class that it derives from; others in CODES.

    What several formats share gives codes that each of them lists.
    """
    said = {
        (code, ".".join(file.relative_to(ROOT).with_suffix("").parts))
        for file in (ROOT / "ingest").rglob("*.py")
        if GIVES_CODES.search(text := file.read_text(encoding="utf-8"))
        for code in codes_in(ast.parse(text))
    }
    own = {
        (code, cls.__module__)
        for component in (*FORMATS.values(), *SINKS.values())
        for cls in component.__mro__
        for code in vars(cls).get("codes", ())
    }
    components = {module for _, module in own}
    assert {(code, module) for code, module in said if code not in CODES and module in components} <= own
    assert {code for code, _ in said} - CODES.keys() == {code for code, _ in own}
    assert CODES.keys() <= {code for code, _ in said}
    assert not CODES.keys() & {code for code, _ in own}
    pages = (ROOT / "docs" / "dirty-data.md").read_text()
    assert [code for code in sorted({code for code, _ in said}) if f"`{code}`" not in pages] == []


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["replay", "p.yaml", "--code", "type-mismach"], "did you mean 'type-mismatch'?"),
        (["replay", "p.yaml", "--dry-run", "--code", "null-key", "--code", "x"], "'x' is no code of rejects"),
        (["letters", "list", "p.yaml", "--code", "malformd"], "did you mean 'malformed'?"),
        (["letters", "list", "p.yaml", "--table", "("], "--table"),
        (["letters", "list", "p.yaml", "--since", "yesterday"], "--since"),
        (["letters", "show", "p.yaml", "12"], "'12' is not PARTITION:OFFSET"),
        (["letters", "show", "p.yaml", "1:\u0662"], "is not PARTITION:OFFSET"),
    ],
)
def test_what_a_command_line_says_wrong_is_refused(
    arguments: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(*arguments) == 2
    assert why in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("arguments", [["letters", "list"], ["letters", "show"], ["replay", "--dry-run"]], ids=" ".join)
def test_a_pipeline_without_dead_letters_has_none_to_look_at(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "p.yaml"
    file.write_text("source: {type: file, path: x}\nsink: {type: print}\n")
    more = ["0:1"] if arguments[-1] == "show" else []
    assert command(*arguments, str(file), *more) == 78
    assert "no topic of dead letters" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [["plan"], ["letters", "list"], ["letters", "show"], ["replay", "--dry-run"], ["checkpoint", "show"]],
    ids=" ".join,
)
def test_every_command_that_waits_for_a_broker_says_so(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for place in ("deadletter.source", "sources.kafka.coordinator", "sinks.topics.coordinator"):
        monkeypatch.setattr(f"ingest.{place}.CONNECT_S", 1.5)
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "p.yaml"
    file.write_text(
        "source: {type: kafka, topic: t, properties.bootstrap.servers: '127.0.0.1:1'}\n"
        "sink: {type: upsert-kafka, properties.bootstrap.servers: '127.0.0.1:1'}\n"
        "pipeline: {dirty-data.collector: {type: kafka, topic: dead}}\n"
    )
    if arguments[0] in {"replay", "checkpoint"}:  # they want one
        folder = tmp_path / ".ingest" / "p"
        folder.mkdir(parents=True)
        (folder / "checkpoint.json").write_text('{"format": 1, "id": "x", "keys": 2, "fingerprint": {}}')
    assert (
        command(*arguments, str(file), *(["0:1"] if arguments[-1] == "show" and arguments[0] == "letters" else []))
        == 75
    )
    said = capsys.readouterr().err
    assert (
        said.index("no answer from the broker at 127.0.0.1:1") < said.index("; trying until ") < said.index("error: ")
    )


@pytest.mark.parametrize(("arguments", "code", "says"), [
    (("top", "http://[::1", "--once"), 2, "is no URL of a server"),
    (("top", "http://h:99999", "--once"), 2, "is no URL of a server"),
    (("sandbox", "up", "--port", "99999", "--dir", "new"), 2, "65535"),
    (("sandbox", "up", "--heap", "abc", "--dir", "new"), 2, "no size like 512m"),
    (("sandbox", "up", "--dir", "a-file"), 2, "is a file"),
    (("sandbox", "up", "--dir", "a-file/below"), 78, "cannot write to"),
    (("sandbox", "status", "--dir", "a-file"), 2, "is a file"),
    (("check", "registry.yaml"), 78, "is no address of a registry"),
    (("check", "pipes"), 78, "there is no pipeline in pipes"),
    (("render", "k8s", "pipelines"), 78, "kubernetes.yaml: cannot be read: it is not UTF-8"),
    (("test", "tests"), 0, "1 test, 0 failed; no tests: manifests.yaml"),
    (("init", "new.yaml", "--no-look", "--brokers", "h:1", "--topic", "t", "--format", "json", "--sink", "print"), 0,
     "new.yaml is written. Next: ingest plan new.yaml"),
], ids=str)  # fmt: skip
def test_odd_places_are_said_in_a_line(
    arguments: tuple[str, ...], code: int, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    for folder in ("pipes", "pipelines", "tests"):
        Path(folder).mkdir()
    os.mkfifo("pipes/p.yaml")
    Path("a-file").write_text("")
    Path("registry.yaml").write_text(
        'source: {type: kafka, properties.bootstrap.servers: "h:1", topic: t, value.format: avro-confluent, '
        'value.avro-confluent.url: "http://[::1"}\nsink: {type: print}\n'
    )
    Path("pipelines/p.yaml").write_text("source: {type: file, path: x, value.format: json}\nsink: {type: print}\n")
    Path("pipelines/kubernetes.yaml").write_bytes(b"\xff")
    Path("tests/manifests.yaml").write_text("kind: Job\n---\nkind: Service\n")
    Path("tests/one.yaml").write_text("title: one\nmessages: []\n")
    assert command(*arguments) == code
    told = capsys.readouterr()
    assert says in told.out + told.err
    assert "Traceback" not in told.err

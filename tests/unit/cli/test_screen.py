"""What commands show on a terminal: help as a whole and in groups, and colours that NO_COLOR takes away."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any

import pytest
import typer
from commands import called
from harness import debezium
from terminals import on_terminal, plain

from ingest.cli.app import COMMANDS, GROUPS, app
from ingest.cli.screen import WIDEST_HELP, highlighted, with_headings

if TYPE_CHECKING:
    from pathlib import Path

GROUP: Any = typer.main.get_command(app)
LEAVES: list[tuple[str, ...]] = [
    (name, *more)
    for name in COMMANDS
    for more in [(), *((sub,) for sub in getattr(GROUP.load(name), "commands", {}))]
]  # fmt: skip


@pytest.mark.parametrize("width", [80, 120])
def test_help_is_whole_and_in_groups(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    text = called("--help").out
    assert max(map(len, text.splitlines())) <= width
    headings = re.findall(r"^([A-Z][a-z]+):$", text, re.MULTILINE)
    assert headings == ["Options", "Start", "Look", "Operate", "Develop"] == ["Options", *GROUPS]
    assert "..." not in text.replace("[ARGS]...", "")
    in_one_line = " ".join(text.split())
    for name, short in COMMANDS.items():
        assert f" {name} {short}" in in_one_line
    monkeypatch.setenv("COLUMNS", "300")
    assert max(map(len, called("--help").out.splitlines())) <= WIDEST_HELP


@pytest.mark.parametrize("path", LEAVES, ids=" ".join)
def test_each_option_says_what_it_does(path: tuple[str, ...]) -> None:
    command = GROUP.load(path[0])
    for name in path[1:]:
        command = command.commands[name]
    text = " ".join(called(*path, "--help").out.split())
    for name, sub in getattr(command, "commands", {}).items():
        assert f" {name} {' '.join(sub.help.split(chr(10) + chr(10))[0].split())}" in text
    for parameter in command.params:
        assert parameter.help, parameter.name
        assert parameter.help[0].isupper(), parameter.help
        assert parameter.metavar or parameter.is_flag or "|" in parameter.display_type(None), parameter.name


def test_help_and_errors_have_colours_on_a_terminal_only(tmp_path: Path) -> None:
    code, said = on_terminal("letters", "--help")
    assert code == 0
    assert said.startswith("\x1b[1mUsage:\x1b[0m")
    assert "\x1b[1mCommands:\x1b[0m" in said
    assert "\x1b[36mlist\x1b[0m" in said
    assert "\x1b" not in called("letters", "--help").out
    file = tmp_path / "p.yaml"
    file.write_text("source: {type: file, path: x}\nsink: {type: prin}\n")
    assert (coloured := on_terminal("check", str(file)))[0] == 78
    assert "\x1b[1merror:\x1b[0m" in coloured[1]
    assert "\x1b[31m^^^^\x1b[0m" in coloured[1]
    for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert on_terminal("check", str(file), env=env) == (78, plain(coloured[1]))
    assert "\x1b[1merror:\x1b[0m" in on_terminal("status", str(tmp_path))[1]


def test_colours_are_those_of_severities(monkeypatch: pytest.MonkeyPatch) -> None:
    class Screen:
        def isatty(self) -> bool:
            return True

    plan = (
        "pipeline p: at-least-once\n\nshop.a (new) -> x.a\n    id  BIGINT\n\nrejected:\n    decode/malformed: 1 record"
    )
    tap = "t[0] at offset 3\n    value:  a:\n  rejected, decode/malformed: x"
    text = "a b.yaml:1:2: warning: error: x\n    1 | s: ^\n      |    ^\n  hint: y\nerror: z\nthe error: is no head"
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    shown: Any = Screen()
    painted = highlighted(text, shown)
    assert plain(painted) == text
    for said, styled in ((plan, ["shop.a (new) -> x.a", "rejected:"]), (tap, ["  rejected, decode/malformed: x"])):
        assert plain(with_headings(said, shown)) == said
        assert re.findall(r"m([^\x1b]+)\x1b\[0m", with_headings(said, shown)) == styled
        assert with_headings(said, io.StringIO()) == said
    assert re.findall(r"m([^\x1b]+)\x1b\[0m", painted) == ["warning:", "^", "hint:", "error:"]


@pytest.mark.parametrize("command", [["plan"], ["plan", "--rows", "1"], ["tap"]])
def test_what_is_printed_on_a_terminal_has_no_live_line_within_it(command: list[str], tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_bytes(debezium("c", None, {"id": 1}) + b"\n")
    file = tmp_path / "p.yaml"
    file.write_text(f"source: {{type: file, path: {tmp_path}/in.jsonl}}\nsink: {{type: print}}\n")
    code, said = on_terminal(*command, str(file), env={"NO_COLOR": "1"})
    assert code == 0
    assert said.startswith("pipeline p: " if command[0] == "plan" else f"{tmp_path}/in.jsonl[0] at offset 0")
    assert "\x1b" not in said

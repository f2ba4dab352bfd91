"""What a terminal shows: colours where it has them, and help texts. Nothing here loads rich."""

from __future__ import annotations

import os
import re
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Final, TextIO

import typer
from typer.core import TyperGroup
from typer.main import get_command

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from typer._click import Command, Context, HelpFormatter

WIDEST_HELP: Final = 120
"""Characters of a line of help, at most: longer lines are hard to read."""
_STYLES: Final[dict[str, Any]] = {
    "error:": {"fg": "red", "bold": True},
    "warning:": {"fg": "yellow", "bold": True},
    "note:": {"fg": "cyan"},
    "hint:": {"fg": "green"},
    "more:": {"dim": True},
}
_SEVERITY: Final = re.compile(rf"^((?:.*?:\d+:\d+: )?| {{2}})({'|'.join(_STYLES)})", re.MULTILINE)
_CARETS: Final = re.compile(r"^( +\| +)(\^+)$", re.MULTILINE)
_SECTION: Final = re.compile(r"^(?!rejected:|warnings:)\S.*(?::$| -> .*)", re.MULTILINE)
"""A heading of a list, or a table and where it goes."""
_REJECTED: Final = re.compile(r"^(?:rejected:|warnings:|  rejected, .*)$", re.MULTILINE)
_HEADING: Final = re.compile(r"^[A-Z][a-z]+:")
_TERM: Final = re.compile(r"^  (?=\S)((?:(?!  ).)+)")
"""The first column of a list of arguments, options or commands."""


def has_colours(stream: TextIO) -> bool:
    """Return whether texts on a stream are coloured: on a terminal, unless NO_COLOR is set (https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, stream: TextIO, **style: Any) -> str:
    """Return a text with a style of `typer.style`, or as it is where the stream has no colours."""
    return typer.style(text, **style) if text and has_colours(stream) else text


def highlighted(text: str, stream: TextIO) -> str:
    """Return findings and errors for people, with the colours of their severities where the stream has any."""
    if not has_colours(stream):
        return text
    text = _SEVERITY.sub(lambda found: f"{found[1]}{typer.style(found[2], **_STYLES[found[2]])}", text)
    return _CARETS.sub(lambda found: f"{found[1]}{typer.style(found[2], fg='red')}", text)


def with_headings(text: str, stream: TextIO) -> str:
    """Return what `plan` and `tap` have found, with the headings of sections and what is rejected in colours."""
    if not has_colours(stream):
        return text
    text = _SECTION.sub(lambda found: typer.style(found[0], bold=True), text)
    return _REJECTED.sub(lambda found: typer.style(found[0], fg="yellow"), text)


class ScreenContext(typer.Context):
    """The context of each command: its help is coloured."""

    def get_help(self) -> str:
        """Return the help of the command."""
        text = super().get_help()
        return "\n".join(_coloured(text.split("\n"))) if has_colours(sys.stdout) else text


def _coloured(help_text: Iterable[str]) -> Iterator[str]:
    """Yield lines of help with bold headings, and the terms of lists in a colour."""
    in_list = False
    for line in help_text:
        heading = _HEADING.match(line)
        in_list = line == heading[0] if heading else in_list and bool(line)
        if heading:
            yield f"{typer.style(heading[0], bold=True)}{line[heading.end() :]}"
        else:
            yield _TERM.sub(lambda found: f"  {typer.style(found[1], fg='cyan')}", line) if in_list else line


class CommandGroup(TyperGroup):
    """A group of commands whose help has their short helps as a whole."""

    context_class = ScreenContext

    def sections(self) -> Iterable[tuple[str, list[str]]]:
        """Return headings, each with the names of its commands."""
        return [("Commands", list(self.commands))]

    def format_commands(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Write the commands in their sections. The short helps are wrapped, where click would cut them."""
        width = max(map(len, self.commands))
        for title, names in self.sections():
            found = ((name, self.get_command(ctx, name)) for name in names)
            rows = [(f"{name:<{width}}", _short_help(command)) for name, command in found if command is not None]
            with formatter.section(title):
                formatter.write_dl(rows)


def _short_help(command: Command) -> str:
    """Return the first paragraph of a command's help."""
    return " ".join((command.help or "").split("\n\n", 1)[0].split())


class LazyGroup(CommandGroup):
    """A group that begins with names and short helps: its own help, and the completion of shells, need no more."""

    modules: ClassVar[Mapping[str, str]]
    """By name of a command: the module that has it as `app`."""

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, Command | None, list[str]]:
        """Return the name of the command that the arguments begin with, that command, and the other arguments."""
        self.load(args[0])
        return super().resolve_command(ctx, args)

    def load(self, name: str) -> Command | None:
        """Return a command with its options, or None if there is none of that name."""
        if name in self.modules:
            self.commands[name] = command = get_command(import_module(self.modules[name]).app)
            for one in (command, *getattr(command, "commands", {}).values()):
                one.context_class = ScreenContext
        return self.commands.get(name)


def not_loaded() -> None:
    """Stand for a command until its module is loaded."""

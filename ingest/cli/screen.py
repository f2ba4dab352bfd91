"""What a terminal shows: colours, help texts, columns, and numbers with their nouns. Nothing here loads rich."""

from __future__ import annotations

import os
import re
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Final, TextIO

import typer
from typer.core import TyperGroup
from typer.main import get_command

from ingest.model.text import size

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

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


def command_group(text: str) -> typer.Typer:
    """Return a group of commands with this help."""
    return typer.Typer(cls=CommandGroup, help=text, no_args_is_help=True, add_completion=False, rich_markup_mode=None)


class LazyGroup(CommandGroup):
    """A group that begins with names and short helps: its own help, and the completion of shells, need no more."""

    modules: ClassVar[Mapping[str, str]]
    """By name of a command: the module that has it as `app`, or `module:name` where it has several."""

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, Command | None, list[str]]:
        """Return the name of the command that the arguments begin with, that command, and the other arguments."""
        self.load(args[0])
        return super().resolve_command(ctx, args)

    def load(self, name: str) -> Command | None:
        """Return a command with its options, or None if there is none of that name."""
        if name in self.modules:
            module, _, app = self.modules[name].partition(":")
            self.commands[name] = command = get_command(getattr(import_module(module), app or "app"))
            for shown in (command, *getattr(command, "commands", {}).values()):
                shown.context_class = ScreenContext
        return self.commands.get(name)


def not_loaded() -> None:
    """Stand for a command until its module is loaded."""


def rows_as_text(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield one line of text for each row. All columns are as wide as their longest text. `rows` must not be empty."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()


def length(seconds: float) -> str:
    """Return a length of time: `42 s`, `12 min`, `3 h 5 min`."""
    minutes = int(seconds // 60)
    if minutes < 1:
        return f"{max(seconds, 0):.0f} s"
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60:,} h {minutes % 60} min"


def lag_text(lag: Mapping[str, Any]) -> str:
    """Return what of a database waits: `3.4 MiB of the log, 12 s behind; about 40,000 rows of 3 tables`.

    `lag`: of `Standing.lag`.
    """
    parts = []
    if lag["bytes"]:
        behind = f", {length(lag['seconds'])} behind" if lag["seconds"] else ""  # else nobody knows since when it waits
        parts.append(f"{size(lag['bytes'])} of the log{behind}")
    if lag["tables"]:
        left = "" if lag["seconds_left"] is None else f", about {length(lag['seconds_left'])} left"
        parts.append(f"about {counted(lag['rows'], 'row')} of {counted(lag['tables'], 'table')}{left}")
    return "; ".join(parts) or "nothing"


def counted(count: int, what: str) -> str:
    """Return a number with the noun that it counts: `1 record`, `1,204 records`, `0 batches`."""
    many = f"{what}es" if what.endswith("ch") else f"{what}s"
    return f"{count:,} {what if count == 1 else many}"

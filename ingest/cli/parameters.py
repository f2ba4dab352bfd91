"""Options that many commands have, and how their texts are read."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated

import typer

from ingest.cli.completing import set_values
from ingest.model.table import Selector, SelectorError, selector
from ingest.sources.kafka.option_texts import parse_time


class OutputFormat(StrEnum):
    """The formats in which a command prints what it found."""

    TEXT = "text"
    JSON = "json"


FormatOption = Annotated[OutputFormat, typer.Option("--format", help="How to print it.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="A value for ${NAME}; may be repeated.", autocompletion=set_values
    ),
]
FilesConfOption = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="KEY=VALUE", help="A Spark setting, for files on Hadoop's file systems."),
]


def parse_variables(pairs: Iterable[str] | None) -> dict[str, str]:
    """Return pairs of the form `NAME=VALUE` as a dict. Raise typer.BadParameter (exit code 2) for anything else."""
    out = {}
    for number, pair in enumerate(pairs or (), 1):
        name, equals, value = pair.partition("=")
        if not equals or not name:
            msg = f"number {number} is not NAME=VALUE"  # the text itself is not shown: it may be a password
            raise typer.BadParameter(msg)
        out[name.strip()] = value
    return out


def parse_start(text: str | None, option: str) -> int | None:
    """Return a time of the command line, in ms since 1970. Raise typer.BadParameter (exit code 2) for anything else."""
    try:
        return None if text is None else parse_time(text)
    except ValueError as exc:
        raise typer.BadParameter(str(exc), param_hint=option) from None


def selector_of(text: str | None, option: str = "--table") -> Selector | None:
    """Return the selector of an option. Raise typer.BadParameter (exit code 2) if it is wrong."""
    try:
        return None if text is None else selector(text)
    except SelectorError as exc:
        raise typer.BadParameter(str(exc), param_hint=option) from None

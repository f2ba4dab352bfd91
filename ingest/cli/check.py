"""`ingest check FILE…`: reports all mistakes in pipeline files, without Java and without a broker."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path  # noqa: TC003  (typer reads the annotations)
from typing import TYPE_CHECKING, Annotated

import typer

from ingest.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ingest.config.diagnostics import Diagnostic


class Format(StrEnum):
    """The formats in which findings are printed."""

    TEXT = "text"
    JSON = "json"
    GITHUB = "github"


SetOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A value for ${NAME}; may be repeated.")
]


def check(
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", help="Pipeline files.")],
    variables: SetOption = None,
    form: Annotated[Format, typer.Option("--format", help="How to print what is found.")] = Format.TEXT,
    deny_warnings: Annotated[
        bool, typer.Option("--deny-warnings", help="Unset placeholders and warnings are errors, too.")
    ] = False,
) -> None:
    """Say what is wrong with pipeline files: exit code 0, or 78 when there is an error."""
    from ingest.config.loader import load  # noqa: PLC0415  (`--help` should not wait for it)

    found = [d for file in files for d in load(file, parse_variables(variables)).diagnostics]
    errors = [d for d in found if d.severity == "error" or deny_warnings]
    if form is Format.JSON:
        typer.echo(json.dumps([d.as_json() for d in found], indent=2))
    else:
        for diagnostic in found:
            typer.echo(diagnostic.github() if form is Format.GITHUB else diagnostic.text())
    if form is Format.TEXT:
        typer.echo(_summary(len(files), found, errors), err=True)
    if errors:
        raise typer.Exit(ConfigError.exit_code)


def _summary(files: int, found: list[Diagnostic], errors: list[Diagnostic]) -> str:
    checked = f"{files} file{'' if files == 1 else 's'} checked"
    counts = [(len(errors), "error")]
    counts += [(sum(d.severity == kind for d in found if d not in errors), kind) for kind in ("warning", "note")]
    said = [f"{count or 'no'} {kind}{'' if count == 1 else 's'}" for count, kind in counts if count or kind == "error"]
    return f"{checked}: {', '.join(said)}"


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

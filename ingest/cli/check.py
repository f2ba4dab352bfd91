"""`ingest check FILE…`: reports all mistakes in pipeline files, without Java and without a broker."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ingest.cli.parameters import SetOption, parse_variables
from ingest.cli.screen import counted, highlighted, paint
from ingest.config.deployment import pipelines_in
from ingest.config.loader import load
from ingest.errors import ConfigError

if TYPE_CHECKING:
    from ingest.config.diagnostics import Diagnostic


class FindingsFormat(StrEnum):
    """The formats in which findings are printed."""

    TEXT = "text"
    JSON = "json"
    GITHUB = "github"


app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def check(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE", help="Pipeline files, or directories: all pipelines in them.")
    ],
    variables: SetOption = None,
    form: Annotated[FindingsFormat, typer.Option("--format", help="How to print what is found.")] = FindingsFormat.TEXT,
    deny_warnings: Annotated[
        bool, typer.Option("--deny-warnings", help="Unset placeholders, missing packages and warnings are errors, too.")
    ] = False,
    no_code: Annotated[
        bool, typer.Option("--no-code", help="Import no module that a file names: for files of people you do not know.")
    ] = False,
) -> None:
    """Validate pipeline files: exit code 0, or 78 when there is an error."""
    values = parse_variables(variables)
    checked = [file for given in files for file in (pipelines_in(given) if given.is_dir() else [given])]
    findings = [d for file in checked for d in load(file, values, code=not no_code).diagnostics]
    errors = [d for d in findings if d.severity == "error" or deny_warnings]
    if form is FindingsFormat.JSON:
        typer.echo(json.dumps([d.as_json() for d in findings], indent=2))
    else:
        for diagnostic in findings:
            text = diagnostic.text()
            typer.echo(diagnostic.github() if form is FindingsFormat.GITHUB else highlighted(text, sys.stdout))
    if form is FindingsFormat.TEXT:
        summary = _summary(len(checked), findings, errors)
        typer.echo(paint(summary, sys.stderr, fg="red" if errors else "green"), err=True)
    if errors:
        raise typer.Exit(ConfigError.exit_code)


def _summary(files: int, findings: list[Diagnostic], errors: list[Diagnostic]) -> str:
    checked = f"{counted(files, 'file')} checked"
    counts = [(len(errors), "error")]
    counts += [(sum(d.severity == kind for d in findings if d not in errors), kind) for kind in ("warning", "note")]
    said = [counted(count, kind) if count else f"no {kind}s" for count, kind in counts if count or kind == "error"]
    return f"{checked}: {', '.join(said)}"

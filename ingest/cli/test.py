"""`ingest test DIR`: run tests of pipelines, without Kafka."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ingest.cli.screen import counted, paint
from ingest.config.scenario import NoTest, ScenarioError, accept, read
from ingest.testing.scenario_runner import compared

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(name="test")
def run_tests(
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH", help="Test files, or directories with them (docs/testing.md).")
    ],
    rewrite: Annotated[
        bool, typer.Option("--accept", help="Write what happens into the files, as what is expected from now on.")
    ] = False,
) -> None:
    """Run tests of pipelines: messages in, records out. No Kafka; Java only for expressions of transforms.

    --accept shows the differences, and writes the files: look at the change before you commit it.
    Exit codes: 0 all as expected, 1 differences, 78 a file that is no test.
    """
    tests, failed, left_out = 0, 0, []
    for file, searched in _files(paths):
        try:
            scenario = read(file)
        except NoTest:
            if not searched:
                raise
            left_out.append(file)  # pipelines and their tests may live together
            continue
        except ScenarioError as exc:
            if not searched:
                raise
            tests, failed = tests + 1, failed + 1
            typer.echo(f"{_painted('FAILED')} {exc}")
            continue
        differences = compared(scenario)
        how = "FAILED" if differences else "ok    "
        if rewrite and differences and all(difference.key is not None for difference in differences):
            accept(
                file, {difference.key: difference.happened for difference in differences if difference.key is not None}
            )
            how = "FAILED" if (left := compared(read(file))) else "accepted"
            differences = left or differences
        tests, failed = tests + 1, failed + (how == "FAILED")
        typer.echo(f"{_painted(how)} {file}: {scenario.title}")
        for difference in differences:
            typer.echo("    " + difference.text.replace("\n", "\n    "))
    if not tests:
        raise typer.BadParameter(f"no tests in {', '.join(map(str, paths))}")
    others = f"; no tests: {', '.join(file.name for file in left_out)}" if left_out else ""
    typer.echo(f"{counted(tests, 'test')}, {failed} failed{others}")
    if failed:
        raise typer.Exit(1)


def _painted(how: str) -> str:
    """Return a result in its colour."""
    return paint(how, sys.stdout, fg={"FAILED": "red", "accepted": "yellow"}.get(how, "green"))


def _files(paths: list[Path]) -> list[tuple[Path, bool]]:
    """Each file once, and whether it was found in a directory."""
    named = {path: False for path in paths if not path.is_dir()}
    searched = {f: True for path in paths if path.is_dir() for end in ("yaml", "yml") for f in path.rglob(f"*.{end}")}
    return sorted({**searched, **named}.items())

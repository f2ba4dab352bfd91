"""`ingest test DIR`: run tests of pipelines, without Kafka."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ingest.config.scenario import NoTest, ScenarioError, read
from ingest.testing.scenario_runner import differences

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def test(
    paths: Annotated[list[Path], typer.Argument(help="Test files, or directories with them (docs/testing.md).")],
) -> None:
    """Run tests of pipelines: messages in, what becomes of them out. No Kafka; Java only for expressions of transforms.

    Exit codes: 0 all as expected, 1 differences, 78 a file that is no test.
    """
    tests, failed, left_out = 0, 0, []
    for file, searched in _files(paths):
        try:
            scenario = read(file)
        except ScenarioError as exc:
            if not searched:
                raise
            if isinstance(exc, NoTest):
                left_out.append(file)  # pipelines and their tests may live together
                continue
            tests, failed = tests + 1, failed + 1
            typer.echo(f"FAILED {exc}")
            continue
        found = differences(scenario)
        tests, failed = tests + 1, failed + bool(found)
        typer.echo(f"{'FAILED' if found else 'ok    '} {file}: {scenario.title}")
        for text in found:
            typer.echo("    " + text.replace("\n", "\n    "))
    if not tests:
        msg = f"no tests in {', '.join(map(str, paths))}"
        raise typer.BadParameter(msg)
    others = f"; no tests: {', '.join(file.name for file in left_out)}" if left_out else ""
    typer.echo(f"{tests} tests, {failed} failed{others}")
    if failed:
        raise typer.Exit(1)


def _files(paths: list[Path]) -> list[tuple[Path, bool]]:
    """Each file once, and whether it was found in a directory."""
    named = {path: False for path in paths if not path.is_dir()}
    searched = {f: True for path in paths if path.is_dir() for end in ("yaml", "yml") for f in path.rglob(f"*.{end}")}
    return sorted({**searched, **named}.items())

"""`ingest test DIR`: run tests of pipelines, without Kafka and Spark."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003  (typer reads the annotations)
from typing import Annotated

import typer


def test(
    paths: Annotated[list[Path], typer.Argument(help="Test files, or directories with them (docs/testing.md).")],
) -> None:
    """Run tests of pipelines: messages in, what becomes of them out. Needs neither Kafka nor Java.

    Exit codes: 0 all as expected, 1 differences, 78 a file that is no test.
    """
    from ingest.engine.trial import differences  # noqa: PLC0415  (`--help` should not wait for any of this)
    from ingest.spec.scenario import read  # noqa: PLC0415

    files = sorted({file for path in paths for file in (path.rglob("*.yaml") if path.is_dir() else [path])})
    if not files:
        msg = f"no test files in {', '.join(map(str, paths))}"
        raise typer.BadParameter(msg)
    failed = 0
    for file in files:
        scenario = read(file)
        found = differences(scenario)
        failed += bool(found)
        typer.echo(f"{'FAILED' if found else 'ok    '} {file}: {scenario.title}")
        for text in found:
            typer.echo("    " + text.replace("\n", "\n    "))
    typer.echo(f"{len(files)} tests, {failed} failed")
    if failed:
        raise typer.Exit(1)

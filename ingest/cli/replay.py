"""`ingest replay FILE`: send dead letters back through their pipeline."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003  (typer reads the annotations)
from typing import Annotated

import typer

from ingest.cli.check import SetOption, parse_variables
from ingest.cli.run import CheckpointOption, ConfOption, MasterOption, parse_start, running


def replay(
    file: Annotated[Path, typer.Argument(help="The pipeline file.")],
    table: Annotated[str | None, typer.Option(metavar="SELECTOR", help="Only of these tables, as in a route.")] = None,
    code: Annotated[
        list[str] | None, typer.Option(metavar="CODE", help="Only rejected with this code; may be repeated.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only rejected then or later: ms since 1970, or ISO 8601 (UTC).")
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Only rejected before then.")] = None,
    variables: SetOption = None,
    checkpoint: CheckpointOption = None,
    master: MasterOption = "local[*]",
    conf: ConfOption = None,
) -> None:
    """Send dead letters back through their pipeline, once it or their cause is mended.

    The pipeline must not be running. A letter is replayed once; what is rejected again is a new letter. A letter may
    hold an older state of a row than the sink has by now: look before you replay.
    """
    from ingest.engine.replay import replay as run_replay  # noqa: PLC0415  (`--help` should not wait for any of this)
    from ingest.model.table import SelectorError, selector  # noqa: PLC0415
    from ingest.sources.letters import Selection  # noqa: PLC0415

    try:
        if table is not None:
            selector(table)
    except SelectorError as exc:
        raise typer.BadParameter(str(exc), param_hint="--table") from None
    selection = Selection(table, tuple(code or ()), parse_start(since, "--since"), parse_start(until, "--until"))
    values, spark = parse_variables(variables), parse_variables(conf)
    with running(file, values, spark, checkpoint, master, once=True, start=None) as (pipeline, settings, observer):
        run_replay(pipeline, settings, observer, selection)

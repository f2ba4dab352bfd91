"""`ingest verify FILE`: compare the sink's tables with the source's."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ingest.cli.completing_checkpoints import source_tables
from ingest.cli.parameters import FormatOption, OutputFormat, SetOption, parse_variables
from ingest.cli.run import CheckpointOption, ConfOption, looking
from ingest.cli.screen import counted, with_headings
from ingest.config.redaction import mask, masked
from ingest.errors import SinkDiffers
from ingest.model.text import one_line
from ingest.observe.events import Warned
from ingest.verify.verification import Verdict, Verification

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ingest.verify.rows import RowDifference, TableVerdict

app = typer.Typer(add_completion=False, rich_markup_mode=None)

_MAX_TEXT: Final = 200
"""Characters of a value that are shown."""
_MAX_COLUMNS: Final = 20
"""Columns of a row that are shown."""
_WORDS: Final = {
    "missing": "is missing in the sink",
    "extra": "is in the sink, and not at the source",
    "other": "differs",
    "duplicate": "is there more than once",
}


@app.command()
def verify(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The pipeline file.")],
    table: Annotated[
        list[str] | None,
        typer.Option(
            "--table",
            metavar="TABLE",
            help="Only this table: its id at the source, as shop.orders; may be repeated.",
            autocompletion=source_tables,
        ),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", min=0, max=10_000, metavar="N", help="Show N rows of each table that differ.")
    ] = 20,
    wait: Annotated[
        int,
        typer.Option(
            "--wait",
            min=0,
            max=86_400,
            metavar="SECONDS",
            help="Wait so long for a run to pass what differed at first.",
        ),
    ] = 300,
    variables: SetOption = None,
    form: FormatOption = OutputFormat.TEXT,
    checkpoint: CheckpointOption = None,
    conf: ConfOption = None,
) -> None:
    """Compare the sink's tables with the source, up to the pipeline's position. Writes nothing.

    All records of the source are read, from the first one on, as a run would read them. The pipeline may be running:
    what differs then is compared once more when it has passed that place. Exit code 66 means that the sink differs.
    """
    values, spark = parse_variables(variables), parse_variables(conf)
    with looking(file, values, spark, checkpoint) as (pipeline, settings, observer):

        def tell(text: str) -> None:
            observer(Warned(text))

        verdict = Verification(pipeline, settings, limit=limit, wait_s=wait, tell=tell).run(table or ())
        for text in verdict.warnings:
            tell(text)
        if form is OutputFormat.JSON:
            shown = {"equal": verdict.equal, **asdict(verdict)}
            typer.echo(json.dumps(masked(shown, pipeline.secrets), indent=2))
        else:
            typer.echo(with_headings(mask("\n".join(lines(verdict)), pipeline.secrets), sys.stdout))
        if not verdict.equal:
            raise _error_of(verdict)


def lines(report: Verdict) -> Iterator[str]:
    """Yield the lines about a comparison, as people read them."""
    for table in report.tables:
        yield from _about(table)
    if report.rejected:
        yield f"{counted(report.rejected, 'record')} of the source {_are(report.rejected)} rejected, and no rows"
    for reason, count in report.changed.items():
        yield f"{counted(count, 'value')} {_are(count)} {reason} in the sink, as its columns are: no differences"


def _about(table: TableVerdict) -> Iterator[str]:
    counts = table.counts
    head = f"{table.table} ({table.place})"
    if table.skipped:
        yield one_line(f"{head}: not compared: {table.skipped}")
        return
    if table.absent:
        yield one_line(f"{head}: it is not there")
    elif table.equal:
        yield one_line(f"{head}: equal, {counted(counts.compared, 'key')} compared")
    else:
        parts = [
            (counts.missing, "missing"),
            (counts.extra, "extra"),
            (counts.other, "different"),
            (counts.duplicate, "duplicate"),
        ]
        what = ", ".join(f"{count:,} {word}" for count, word in parts if count)
        yield one_line(f"{head}: {what or 'columns differ'}, {counted(counts.compared, 'key')} compared")
    if table.missing_columns:
        yield one_line(f"  the sink lacks the columns {', '.join(table.missing_columns)}")
    for difference in table.differences:
        yield from _row(difference)
    more = counts.different - len(table.differences)
    if more > 0:
        yield f"  and {counted(more, 'row')} more (--limit)"
    if counts.behind:
        yield f"  {counted(counts.behind, 'key')} {_are(counts.behind)} behind, by a batch that is not finished"
    if counts.open:
        of = counted(counts.open, "key")
        yield f"  {of} {_are(counts.open)} in several partitions of the source: the last state of any counts"
    if counts.unjudged:
        yield f"  {counted(counts.unjudged, 'row')} {_are(counts.unjudged)} unknown at the source, and not verified"
    for note in table.notes:
        yield one_line(f"  {note}")
    if not table.equal:
        yield one_line(f"  {table.repair}")


def _row(row: RowDifference) -> Iterator[str]:
    key = ", ".join(f"{name}={_shown(text)}" for name, text in row.key.items())
    many = f" ({row.rows} rows)" if row.kind == "duplicate" else ""
    yield one_line(f"  row {key} {_WORDS[row.kind]}{many}")
    for name, source, sink in row.cells[:_MAX_COLUMNS]:
        if row.kind in {"other", "duplicate"}:
            yield one_line(f"    {name}: source {_shown(source)}, sink {_shown(sink)}")
        elif name not in row.key:
            yield one_line(f"    {name}: {_shown(source if row.kind == 'missing' else sink)}")
    if len(row.cells) > _MAX_COLUMNS:
        yield f"    and {counted(len(row.cells) - _MAX_COLUMNS, 'column')} more"


def _shown(text: str | None) -> str:
    if text is None:
        return "null"
    short = text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}… ({len(text):,} characters)"
    return json.dumps(short, ensure_ascii=False)


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _error_of(verdict: Verdict) -> SinkDiffers:
    wrong = [one for one in verdict.tables if not one.equal]
    rows = sum(one.counts.different for one in wrong)
    what = f"{counted(len(wrong), 'table')} of the sink {'differs' if len(wrong) == 1 else 'differ'} from the source"
    return SinkDiffers(
        f"{what}, in {counted(rows, 'row')}", "the output has a command for each that reads it once more"
    )

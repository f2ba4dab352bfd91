"""`ingest plan FILE`: what a run would do, written nowhere."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from dataclasses import asdict, replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ingest.cli import tap as one_by_one
from ingest.cli.parameters import FormatOption, OutputFormat, SetOption, parse_variables, selector_of
from ingest.cli.run import CheckpointOption, ConfOption, looking
from ingest.cli.screen import counted, lag_text, with_headings
from ingest.config.redaction import mask, masked
from ingest.errors import IngestError
from ingest.model.text import one_line
from ingest.observe.events import Warned
from ingest.testing.dry_run import DryRunReport, TableReport, dry_run
from ingest.testing.tap import tap_sample

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ingest.testing.sample_run import SampleRun

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def plan(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The pipeline file.")],
    rows: Annotated[
        int, typer.Option("--rows", min=0, max=1000, metavar="N", help="Also show N records, as `ingest tap` does.")
    ] = 0,
    variables: SetOption = None,
    form: FormatOption = OutputFormat.TEXT,
    checkpoint: CheckpointOption = None,
    progress: Annotated[
        Path | None,
        typer.Option(metavar="EXPORT", help="Resume from this file, which `ingest checkpoint export` has written."),
    ] = None,
    conf: ConfOption = None,
    tables: Annotated[
        str | None,
        typer.Option("--tables", metavar="PATTERN", help="Only these source tables; written as `source-table` is."),
    ] = None,
    ddl: Annotated[
        bool, typer.Option("--ddl", help="Show the sink's tables as statements of Flink SQL, not as columns.")
    ] = False,
) -> None:
    """Show what a run would do: tables, routes, columns, topics, rejects. Reads a sample, and writes nothing.

    Tables that are alike are shown together, and of more than ten kinds a line each; --tables shows their columns.
    Ends as the run would end, as far as the sample shows: with the same exit code and error.
    """
    if progress is not None and checkpoint is not None:
        raise typer.BadParameter("give --checkpoint or --progress, not both")
    only = selector_of(tables, "--tables")
    values, spark = parse_variables(variables), parse_variables(conf)
    with looking(file, values, spark, checkpoint) as (pipeline, settings, observer):
        records: list[dict[str, Any]] = []

        def look(sample_run: SampleRun) -> None:
            if rows:
                tap_sample(sample_run, lambda tapped: records.append(one_by_one.about(tapped)), rows, only)

        going_on = replace(settings, progress=progress)
        report, error = dry_run(pipeline, going_on, tell=lambda text: observer(Warned(text)), then=look, only=only)
        if form is OutputFormat.JSON:
            shown = asdict(report) | ({"records": records} if rows else {})
            typer.echo(json.dumps(masked(shown, pipeline.secrets), indent=2))
        else:
            texts = [*lines(report, ddl=ddl, chosen=only is not None)]
            texts += (line for record in records for line in ("", *one_by_one.lines(record)))
            typer.echo(with_headings(mask("\n".join(texts), pipeline.secrets), sys.stdout))
        if error is not None:
            raise error


def show_plan(file: Path, variables: dict[str, str]) -> None:
    """Print what a run of a file would do, and the error that it would end with."""
    try:
        with looking(file, variables, {}, None) as (pipeline, settings, _):
            report, error = dry_run(pipeline, settings, tell=lambda text: typer.echo(f"warning: {text}", err=True))
            typer.echo(mask("\n".join(lines(report)), pipeline.secrets))
            if error is not None:
                raise error
    except IngestError as exc:
        hint = f"\n  hint: {exc.hint}" if exc.hint else ""
        typer.echo(f"\nA run would end with exit code {exc.exit_code}: {exc.message}{hint}", err=True)


MAX_BLOCKS: Final = 10
"""Blocks whose columns are shown; of more, each is a line."""
MAX_COLUMNS: Final = 8
"""Columns of a block that are lines of their own; more are side by side. Where there are other tables, also lines."""
MAX_LINES: Final = 6
"""Lines of a list that is shown as a whole."""
_SHOWN: Final = 3
"""Lines of a longer list, and lines with names of like tables."""


def lines(report: DryRunReport, *, ddl: bool = False, chosen: bool = False) -> Iterator[str]:
    """Yield what a dry run found. `ddl`: statements instead of columns. `chosen`: somebody has chosen the tables."""
    width = shutil.get_terminal_size((100, 24)).columns
    records = "of them" if report.waiting else "older ones" if report.standing is None else "rows"
    sample = f"{report.looked_at:,} {records} were sampled"
    going_on = "no checkpoint yet" if report.checkpoint is None else f"resumes from {report.checkpoint}"
    yield f"pipeline {report.pipeline}: {report.guarantee}, {going_on}"
    place, waiting = counted(report.splits, "split"), f"a backlog of {counted(report.waiting, 'record')}"
    if report.standing is not None:
        place = f"the log from {one_line(report.standing['file'])}:{report.standing['offset']} on"
        waiting = f"to read: {lag_text(report.standing['lag'])}"
    yield f"source: {place}, {waiting}{f'; {sample}' if report.looked_at else ''}"
    blocks = _blocks(report.tables)
    short = len(blocks) > MAX_BLOCKS and not chosen and not ddl
    if short:
        yield f"\n{counted(len(report.tables), 'table')} (columns: --tables PATTERN; statements: --ddl):"
    for block in blocks:
        if short:
            first = f", {one_line(block[0].table)} the first" if len(block) > 1 else ""
            yield f"    {_title(block)}{first}: {counted(len(block[0].columns), 'column')}, {_key(block[0])}"
            continue
        yield f"\n{_title(block)}{':' if len(block) > 1 else ''}"
        if len(block) > 1:
            ways = [f"{one_line(table.table)} -> {_targets(table)}" for table in block]
            yield from _cut(ways, width, _SHOWN)
        if ddl:
            statements = dict.fromkeys(statement for table in block for statement in table.ddl)
            yield from (f"    {one_line(line)}" for statement in statements for line in statement.split("\n"))
            continue
        yield from _columns(block[0], width, whole=chosen or len(report.tables) == 1)
        yield f"    {_key(block[0])}"
    yield from _lists(report, width)
    if not report.tables and not report.without_key and not report.refused and not chosen:
        why = "none of the records became a row" if report.looked_at else "the source has no records"
        yield f"\nno tables: {why}"


def _blocks(tables: Sequence[TableReport]) -> list[list[TableReport]]:
    """Return the tables with those together that have the same columns, key and rule, in the order of the first."""
    out: dict[str, list[TableReport]] = {}
    for table in tables:
        like = repr((table.columns, table.primary_key, table.rule, table.known, len(table.sink_tables)))
        out.setdefault(like, []).append(table)
    return [*out.values()]


def _title(block: Sequence[TableReport]) -> str:
    first = block[0]
    rule = f", {first.rule}" if first.rule else ""
    new = "" if first.known else " (new)"
    if len(block) == 1:
        return f"{one_line(first.table)}{new} -> {_targets(first)}{rule}"
    return f"{counted(len(block), 'table')} alike{new}{rule}"


def _targets(table: TableReport) -> str:
    return ", ".join(map(one_line, table.sink_tables))


def _cut(words: Sequence[str], width: int, most: int) -> Iterator[str]:
    """Yield words in so many lines of this width, and how many more there are."""
    number = len(words)
    while True:
        more = f" and {len(words) - number:,} more" if number < len(words) else ""
        # A word is in one line, whatever spaces it has
        text = ", ".join(word.replace(" ", "\N{NO-BREAK SPACE}") for word in words[:number]) + more
        wrapped = textwrap.wrap(
            text,
            max(width, 40),
            initial_indent="    ",
            subsequent_indent="    ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        if len(wrapped) <= most or number == 1:
            yield from (line.replace("\N{NO-BREAK SPACE}", " ") for line in wrapped)
            return
        number -= max(1, number // 10)


def _columns(table: TableReport, width: int, *, whole: bool) -> Iterator[str]:
    """Yield a line for each column, or several in a line where there are many; a few lines if not `whole`."""
    names = [one_line(column["name"]) for column in table.columns]
    longest = max(map(len, names), default=0)
    shown = [
        f"{name:<{longest}}  {column['type']}{'' if column['nullable'] else ' NOT NULL'}"
        for name, column in zip(names, table.columns, strict=True)
    ]
    side_by_side = 1
    wide = max(map(len, shown), default=0) + 3
    if len(shown) > MAX_COLUMNS:
        side_by_side = max(1, (width - 4) // wide)
    first = shown if whole else shown[: MAX_COLUMNS * side_by_side]
    rows = -(-len(first) // side_by_side)
    for row in range(rows):
        yield f"    {''.join(f'{one:<{wide}}' for one in first[row::rows])}".rstrip()
    if len(first) < len(shown):
        yield f"    and {counted(len(shown) - len(first), 'column')} more: --tables PATTERN shows all"


def _key(table: TableReport) -> str:
    key = ", ".join(map(one_line, table.primary_key))
    return f"primary key ({key})" if key else "no primary key"


def _lists(report: DryRunReport, width: int) -> Iterator[str]:
    skipped = [f"{reason}: {counted(number, 'record')}" for reason, number in sorted(report.skipped.items())]
    for title, entries, names in (
        ("changed since the last run", report.options, False),
        ("schema changes", [*_changes(report)], False),
        ("withheld from the sink", report.withheld, False),
        ("topics that would be created", report.new_topics, True),
        ("would be declared at the sink", report.new_schemas, True),
        ("rejected", [_reject(reject) for reject in report.rejects], False),
        ("skipped", skipped, False),
        ("tables without a primary key", report.without_key, False),
        ("tables that cannot be written", report.refused, False),
        ("marked tables, whose rows in the sink may differ", [*_marked(report)], False),
        ("entries without effect", report.unmatched, False),
        ("warnings", report.warnings, False),
    ):
        if not entries:
            continue
        yield f"\n{title}:"
        shown = [one_line(entry) for entry in entries]
        if len(shown) <= MAX_LINES:
            yield from (f"    {line}" for line in shown)
        elif names:
            yield from _cut(shown, width, 1)
        else:
            yield from (f"    {line}" for line in shown[:_SHOWN])
            yield f"    and {len(shown) - _SHOWN:,} more: --tables PATTERN chooses tables, --format json has all"


def _marked(report: DryRunReport) -> Iterator[str]:
    """Yield the tables whose rows a statement has changed without a log of them, and what reads them again."""
    for table, why in sorted(({} if report.standing is None else report.standing["marked"]).items()):
        yield f"{table}: {why} (ingest backfill FILE --table {quote(table)})"


def _changes(report: DryRunReport) -> Iterator[str]:
    """Yield the schema changes, like ones of several tables together; what new tables are like is shown before."""
    new = {name for table in report.tables if not table.known for name in table.sink_tables}
    tables = {name for table in report.tables for name in table.sink_tables}
    by_change: dict[str, list[str]] = {}
    for change in report.changes:
        ends = (at for at in range(len(change)) if change.startswith("> ", at) and change[:at] in tables)
        end = next(ends, None)
        table, what = ("", change) if end is None else (change[:end], change[end + 2 :])
        if table in new and what.startswith("CREATE TABLE"):
            if why := report.created.get(table):
                yield f"{table}> CREATE TABLE (…), {why}"
        else:
            by_change.setdefault(what, []).append(table)
    for what, of in by_change.items():
        head = f"{counted(len(of), 'table')}, {of[0]} the first> " if len(of) > 1 else f"{of[0]}> " if of[0] else ""
        yield f"{head}{what}"


def _reject(reject: dict[str, Any]) -> str:
    first = reject["example"]
    where = f"{first['topic']}[{first['partition']}] at offset {first['offset']}"
    table = f" (table {first['table']})" if first["table"] else ""
    tolerated = "" if reject["counted"] else " (skipped, as ignore-parse-errors says)"
    what = f"{reject['stage']}/{reject['code']}: {counted(reject['count'], 'record')}{tolerated}"
    return f"{what}, the first {where}: {first['message']}{table}; record: {first['record']}"

"""`ingest letters list | show`: shows the records that a pipeline rejected, from its dead-letter topic."""

from __future__ import annotations

import heapq
import json
import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ingest.cli.checkpoint import warner
from ingest.cli.completing_checkpoints import source_tables
from ingest.cli.parameters import (
    FilesConfOption,
    FormatOption,
    OutputFormat,
    SetOption,
    parse_start,
    parse_variables,
    selector_of,
)
from ingest.cli.screen import command_group, counted, rows_as_text
from ingest.config.diagnostics import did_you_mean
from ingest.config.loader import load_strictly
from ingest.deadletter.browse import about, find, letters, tally, whole
from ingest.deadletter.letter import Selection
from ingest.driver.context import with_files
from ingest.driver.replay import dead_letters_of
from ingest.formats import FORMATS
from ingest.model.reject import CODES
from ingest.model.text import one_line
from ingest.program import masked_errors
from ingest.sinks import SINKS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ingest.config.pipeline import Pipeline

app = command_group("List the records that a pipeline rejected, or look at one.")


def _codes() -> list[str]:
    """Return the codes of rejects."""
    return sorted({*CODES, *FORMATS.codes(), *SINKS.codes()})


FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="The pipeline file.")]
TableOption = Annotated[
    str | None,
    typer.Option(
        "--table", metavar="SELECTOR", help="Only of these tables, as in a route.", autocompletion=source_tables
    ),
]
CodeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--code", metavar="CODE", help="Only rejected with this code; may be repeated.", autocompletion=_codes
    ),
]
SinceOption = Annotated[
    str | None,
    typer.Option("--since", metavar="TIME", help="Only rejected then or later: ms since 1970, or ISO 8601 (UTC)."),
]
UntilOption = Annotated[str | None, typer.Option("--until", metavar="TIME", help="Only rejected before then.")]

SHOWN = 100
"""Number of letters that a list for people shows where the command line gives no limit."""


def selection_of(table: str | None, codes: list[str] | None, since: str | None, until: str | None) -> Selection:
    """Return the selection of letters that the command line asks for.

    Raise typer.BadParameter (exit code 2) if it is wrong.
    """
    selector_of(table)
    for code in codes or ():
        _check_code(code)
    return Selection(table, tuple(codes or ()), parse_start(since, "--since"), parse_start(until, "--until"))


def _check_code(code: str) -> None:
    if code in CODES:
        return
    known = {*CODES, *FORMATS.codes(), *SINKS.codes()}
    if code not in known:
        hint = did_you_mean(code, known) or f"; known: {', '.join(sorted(known))}"
        raise typer.BadParameter(f"{code[:60]!r} is no code of rejects{hint}", param_hint="--code")


@contextmanager
def _loaded(file: Path, variables: list[str] | None, conf: list[str] | None) -> Iterator[Pipeline]:
    pipeline = load_strictly(file, parse_variables(variables))
    with masked_errors(pipeline.secrets):
        yield with_files(pipeline, parse_variables(conf), warner(pipeline))


@app.command(name="list")
def list_(
    file: FileArgument,
    table: TableOption = None,
    code: CodeOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    limit: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Only the newest N. [default: 100; with --format json all]")
    ] = None,
    form: FormatOption = OutputFormat.TEXT,
    variables: SetOption = None,
    conf: FilesConfOption = None,
) -> None:
    """List dead letters, the newest last, and count them by table and code. Replayed ones stay in the topic."""
    selection = selection_of(table, code, since, until)
    most = limit or (SHOWN if form is OutputFormat.TEXT else None)
    newest: list[tuple[str, int, dict[str, Any]]] = []

    def kept(found: Iterator[Any]) -> Iterator[Any]:
        for number, letter in enumerate(found):
            shown = about(letter)
            entry = (shown["time"] or "", number, shown)
            if most is None or len(newest) < most:
                heapq.heappush(newest, entry)
            else:
                heapq.heappushpop(newest, entry)
            yield letter

    with _loaded(file, variables, conf) as pipeline:
        counts = tally(kept(letters(dead_letters_of(pipeline, selection), warner(pipeline))))
    entries = [shown for _, _, shown in sorted(newest, key=lambda entry: entry[:2])]
    if form is OutputFormat.JSON:
        typer.echo(json.dumps(entries, indent=2))
        return
    rows = [("letter", "time", "table", "code", "from", "message"), *map(_row, entries)]
    for line in rows_as_text(rows) if entries else ():
        typer.echo(line)
    total = sum(count["count"] for count in counts)
    left_out = f", the newest {len(entries)} are shown (--limit)" if total > len(entries) else ""
    typer.echo(f"{counted(total, 'dead letter')}{left_out}")
    for line in by_code(counts):
        typer.echo(f"    {line}")


def _row(shown: dict[str, Any]) -> tuple[str, ...]:
    at = f"{shown['topic']}[{shown['partition']}]@{shown['offset']}"
    code = f"{shown['stage']}/{shown['code']}"
    cells = (shown["letter"], shown["time"] or "?", shown["table"] or "-", code, at, shown["message"])
    return tuple(one_line(text) for text in cells)


def _left_out(shown: dict[str, Any]) -> str:
    now = "is not there any more" if shown.get("gone") else "is read from there"
    return f"{', '.join(shown['left_out'])}: the topic of dead letters did not take it; the record {now}"


def by_code(counts: list[dict[str, Any]]) -> list[str]:
    """Return a line of text for each table, reject code and source topic, with its number of dead letters."""
    return [
        one_line(
            f"{count['count']} of table {count['table'] or '(not known)'}, {count['stage']}/{count['code']}, "
            f"from topic {count['topic']}, rejected {count['first']} to {count['last']}"
        )
        for count in counts
    ]


@app.command()
def show(
    file: FileArgument,
    letter: Annotated[str, typer.Argument(metavar="PARTITION:OFFSET", help="Which one, as `list` names it.")],
    form: FormatOption = OutputFormat.TEXT,
    variables: SetOption = None,
    conf: FilesConfOption = None,
) -> None:
    """Show one dead letter: why it was rejected, and the record as it was. What is not printable is escaped."""
    place = re.fullmatch(r"(\d{1,9}):(\d{1,18})", letter, re.ASCII)
    if place is None:
        msg = f"{letter[:60]!r} is not PARTITION:OFFSET; `ingest letters list` shows them"
        raise typer.BadParameter(msg, param_hint="PARTITION:OFFSET")
    with _loaded(file, variables, conf) as pipeline:
        shown = whole(find(dead_letters_of(pipeline, Selection()), warner(pipeline), int(place[1]), int(place[2])))
    if form is OutputFormat.JSON:
        typer.echo(json.dumps(shown, indent=2))
        return
    for name, text in (
        ("letter", shown["letter"]),
        ("rejected", shown["time"]),
        ("table", shown["table"]),
        ("why", f"{shown['stage']}/{shown['code']}: {shown['message']}"),
        ("from", f"{shown['topic']}[{shown['partition']}] at offset {shown['offset']}"),
        *(("left out", _left_out(shown)) for _ in shown.get("left_out", ())[:1]),
        ("timestamp", shown["timestamp"]),
        *(("header", f"{h['name']}: {'null' if h['value'] is None else h['value']}") for h in shown["headers"]),
        ("key", "null" if shown["key"] is None else shown["key"]),
        ("value", "null" if shown["value"] is None else shown["value"]),
    ):
        typer.echo(f"{name + ':':<11}{one_line(text or '-')}")

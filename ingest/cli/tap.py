"""`ingest tap FILE`: records one by one, each before and after; nothing is written."""

from __future__ import annotations

import base64
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from ingest.cli.completing_checkpoints import records, source_tables
from ingest.cli.parameters import FormatOption, OutputFormat, SetOption, parse_variables, selector_of
from ingest.cli.run import CheckpointOption, ConfOption, looking
from ingest.cli.screen import counted, with_headings
from ingest.config.redaction import mask, masked
from ingest.config.scenario import ScenarioError, accept, read, write
from ingest.deadletter.browse import content, contents
from ingest.model.record import Split, offset_of
from ingest.model.table import show
from ingest.model.text import one_line
from ingest.observe.events import Warned
from ingest.testing.sampling import IN_LOG
from ingest.testing.scenario_runner import compared
from ingest.testing.tap import Tapped, tap

app = typer.Typer(add_completion=False, rich_markup_mode=None)

_PLACE: Final = re.compile(r"(.+):([0-9]{1,9}):([0-9]{1,18})")
_IN_LOG: Final = re.compile(r"(?:.*[\s(])?([^\s(:/\\]+\.[0-9]{6,19}):([0-9]{1,18})\)?(?::?\s.*)?", re.DOTALL)
_WRITTEN: Final = re.compile(r"(\S+)\[([0-9]{1,9})\](?:@|:| at offset )([0-9]{1,18})(?![0-9])")

SHOWN = 10
"""Number of records that are shown where the command line gives none."""


@app.command(name="tap")
def tap_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The pipeline file.")],
    number: Annotated[
        int, typer.Option("--number", "-n", min=1, max=1000, metavar="N", help="Show N records, at most.")
    ] = SHOWN,
    table: Annotated[
        str | None,
        typer.Option(
            "--table",
            metavar="SELECTOR",
            help="Only records of these source tables, as in a route.",
            autocompletion=source_tables,
        ),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            metavar="TOPIC:PARTITION:OFFSET",
            help="Only this record; 'TOPIC[0] at offset 12' of errors will do. Of a database's log: FILE:OFFSET.",
            autocompletion=records,
        ),
    ] = None,
    as_test: Annotated[
        Path | None,
        typer.Option("--as-test", metavar="TEST", help="Write a test with these records, and what becomes of them."),
    ] = None,
    variables: SetOption = None,
    form: FormatOption = OutputFormat.TEXT,
    checkpoint: CheckpointOption = None,
    conf: ConfOption = None,
) -> None:
    """Show the next records that a run would read, one by one, before and after. Writes nothing.

    For each: its topic, partition, offset and content; then the records that the sink would get, or why there are none.
    Where none is waiting, older ones are shown. --at shows the record that an error or a dead letter names. The test of
    --as-test begins without a schema, so that more may change in it than here.
    """
    chosen, place = selector_of(table), None if at is None else place_of(at)
    values, spark = parse_variables(variables), parse_variables(conf)
    reports: list[dict[str, Any]] = []
    messages: list[dict[str, Any]] = []
    if as_test is not None and as_test.exists():
        raise ScenarioError(f"{as_test} is there already", "give the test a name of its own")
    with looking(file, values, spark, checkpoint) as (pipeline, settings, observer):

        def shown(tapped: Tapped) -> None:
            reports.append(about(tapped))
            messages.append(message_of(tapped, pipeline.secrets))
            if form is OutputFormat.TEXT:
                typer.echo(with_headings(mask("\n".join(lines(reports[-1])), pipeline.secrets), sys.stdout))

        result = tap(pipeline, settings, shown, number, chosen, lambda text: observer(Warned(text)), place)
        if form is OutputFormat.JSON:
            typer.echo(json.dumps(masked(reports, pipeline.secrets), indent=2))
        elif not reports:
            of = "" if table is None else f" of table {one_line(table)}"
            were = "was" if result.records == 1 else "were"
            typer.echo(f"no record{of}: {result.records:,} {were} sampled")
        elif result.old:
            typer.echo(
                "there is no backlog: these records were read already, or come before the position where a run starts"
            )
        if as_test is not None and messages:
            write_test(as_test, file, {name: mask(text, pipeline.secrets) for name, text in values.items()}, messages)
        if result.error is not None:
            raise result.error


def write_test(file: Path, pipeline: Path, variables: Mapping[str, str], messages: Sequence[dict[str, Any]]) -> None:
    """Write a test of a pipeline with these messages, and with what happens in it as what is expected."""
    write(file, f"What becomes of {counted(len(messages), 'record')}", pipeline, variables, messages)
    differences = compared(read(file))
    for one in differences:
        if one.key is None:
            raise ScenarioError(f"{file}: {one.text}")
    accept(file, {one.key: one.happened for one in differences if one.key is not None})
    typer.echo(f"{file} written, a test of {counted(len(messages), 'record')}: ingest test {file}", err=True)


def message_of(tapped: Tapped, secrets: Iterable[str]) -> dict[str, Any]:
    """Return a record as a test has it: texts without secrets, and Base64 for what is no printable text."""
    (topic, partition), record = tapped.split, tapped.record
    out: dict[str, Any] = {"topic": topic, "partition": partition}
    for name, data in (("key", record.key()), ("value", record.value())):
        text = _text(data)
        if data is not None and text is not None:
            printable = text.isprintable() and text.encode("utf-8", "replace") == data
            out |= {name: mask(text, secrets)} if printable else {f"{name}-base64": base64.b64encode(data).decode()}
    headers = [
        [name, None if value is None else mask(_text(value) or "", secrets)] for name, value in record.headers() or ()
    ]
    kind, millis = record.timestamp()
    return out | ({"headers": headers} if headers else {}) | ({"timestamp": millis} if kind else {})


def place_of(text: str) -> tuple[Split, int]:
    """Return the split and the offset that a text names. Raise typer.BadParameter (exit code 2) if it names none.

    `TOPIC:0:12`, `TOPIC[0] at offset 12` of errors and of `letters show`, `TOPIC[0]@12` of `letters list`; words before
    and behind, as of a whole line of a log, are left out. `binlog.000004:1234` is a place in a database's log.
    """
    if (in_log := _IN_LOG.fullmatch(text.strip())) is not None:
        return (in_log[1], IN_LOG), int(in_log[2])
    match = _PLACE.fullmatch(text.strip()) or _WRITTEN.search(text)
    if match is None:
        msg = f"{text[:100]!r} is neither TOPIC:PARTITION:OFFSET nor FILE:OFFSET of a log"
        raise typer.BadParameter(msg, param_hint="--at")
    return (match[1], int(match[2])), int(match[3])


def about(tapped: Tapped) -> dict[str, Any]:
    """Return all about a record, as `--format json` shows it."""
    topic, partition = tapped.split
    return {
        "topic": topic,
        "partition": partition,
        "offset": offset_of(tapped.record),
        **({"place": tapped.place} if tapped.place else {}),
        **contents(tapped.record),
        **({} if tapped.value is None else content(tapped.value, "value")),
        "tables": [show(table) for table in tapped.tables],
        "schema_changes": tapped.schema_changes,
        "rows": [{"to": to, "key": _text(key), "value": _text(value)} for to, key, value in tapped.rows],
        "rejects": [
            {
                "stage": reject.stage,
                "code": reject.code,
                "message": reject.message,
                "table": None if reject.table is None else show(reject.table),
            }
            for reject in tapped.rejects
        ],
        "skipped": tapped.skipped,
    }


def lines(record: dict[str, Any]) -> Iterator[str]:
    """Yield the lines about a record, as people read them."""
    at = f"{record['topic']}[{record['partition']}] at offset {record['offset']}"
    at = f"{at} ({record['place']})" if "place" in record else at
    yield one_line(at if record["timestamp"] is None else f"{at}, {record['timestamp']}")
    for header in record["headers"]:
        yield one_line(f"    header: {header['name']}: {_shown(header['value'])}")
    yield one_line(f"    key:    {_shown(record['key'])}")
    yield one_line(f"    value:  {_shown(record['value'])}")
    for change in record["schema_changes"]:
        yield one_line(f"  schema: {change}")
    for row in record["rows"]:
        yield one_line(f"  -> {row['to'] or 'the sink'}{'' if row['value'] is not None else ' (deletion)'}")
        yield one_line(f"    key:    {_shown(row['key'])}")
        if row["value"] is not None:
            yield one_line(f"    value:  {row['value']}")
    for reject in record["rejects"]:
        table = "" if reject["table"] is None else f" (table {reject['table']})"
        yield one_line(f"  rejected, {reject['stage']}/{reject['code']}: {reject['message']}{table}")
    for reason in record["skipped"]:
        yield one_line(f"  skipped: {reason}")
    if not (record["rows"] or record["rejects"] or record["skipped"]):
        yield "  nothing comes of it"


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "backslashreplace")


def _shown(text: str | None) -> str:
    return "null" if text is None else text

"""`ingest top`: running pipelines at a glance, by their metrics."""

from __future__ import annotations

import json
import os
import select
import sys
import termios
import time
import tty
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final, Self
from urllib.parse import quote, urlsplit, urlunsplit

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from ingest.cli.parameters import FormatOption, OutputFormat, SetOption, parse_variables
from ingest.cli.screen import counted, length
from ingest.cli.summary import GAP, table_lines
from ingest.config.loader import load_checked
from ingest.errors import ConfigError, Unavailable
from ingest.model.text import one_line, size
from ingest.observe.scrape import CHANGES, Look, Watcher
from ingest.observe.serving import USER

HEADINGS: Final[tuple[str, ...]] = (
    "table",
    "changes/s",
    "inserted",
    "updated",
    "deleted",
    "rejected",
    "bytes in",
    "bytes out",
)
FIRST_OUT: Final = ("bytes out", "bytes in", "updated", "inserted", "deleted", "rejected", "changes/s")
"""The columns that a narrow terminal does not have, the first of them first: names come before all."""
FIXED: Final = ("heading of tables", "and more tables", "empty line")
"""Lines of each pipeline beside its summary and its tables."""
MARKED: Final = 5
"""Marked tables of a pipeline that are named."""
FOOTER: Final = "q: quit"
QUIT: Final = frozenset("qQ\x04")
"""Keys that end it; the last is Ctrl-D."""
MAX_PORT: Final = 65_535

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def top(
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="TARGET",
            help="A port, host:port or URL of a run's metrics, a file of --metrics-file, or a pipeline file.",
        ),
    ],
    once: Annotated[bool, typer.Option("--once", help="Look once, then exit.")] = False,
    interval: Annotated[float, typer.Option(min=0.2, metavar="SECONDS", help="The time between two looks.")] = 2.0,
    number: Annotated[
        int, typer.Option("--number", "-n", min=0, metavar="N", help="Show N tables of each pipeline, at most.")
    ] = 15,
    variables: SetOption = None,
    form: FormatOption = OutputFormat.TEXT,
) -> None:
    """Show running pipelines: rates, lag, rejects, and the busiest tables.

    Reads their metrics (--metrics PORT, pipeline.metrics.port), and nothing else. On a terminal q ends it. With --once,
    exit code 75 means that one of them did not answer.
    """
    values = parse_variables(variables)
    places = [place_of(target, values) for target in targets]
    watcher = Watcher()
    if once or form is OutputFormat.JSON:
        looks, failed = _look(places, watcher)
        if form is OutputFormat.JSON:
            typer.echo(json.dumps([asdict(look) for look in looks], indent=2))
        else:
            _print(shown(looks, failed, number, _width()))
        if failed:
            raise failed[0]
        return
    if not sys.stdout.isatty():
        while True:
            _print(shown(*_look(places, watcher), number, None))
            time.sleep(interval)
    with Keys() as keys, Live(console=_console(), screen=True, auto_refresh=False) as live:
        pressed = ""
        while pressed not in QUIT:
            looks, failed = _look(places, watcher)
            lines = shown(looks, failed, number, live.console.width, live.console.height)
            live.update(Group(*lines, Text(FOOTER, style="dim")), refresh=True)
            pressed = keys.pressed(interval)


class Keys:
    """Single keys of the terminal that standard input is, without a line's end; none where it is no terminal."""

    def __init__(self) -> None:
        self._before: list[Any] | None = None

    def __enter__(self) -> Self:
        """Let the terminal give each key at once."""
        if sys.stdin.isatty():
            self._before = termios.tcgetattr(sys.stdin)
            tty.setcbreak(sys.stdin)
        return self

    def __exit__(self, *_: object) -> None:
        """Give the terminal back as it was."""
        if self._before is not None:
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._before)

    def pressed(self, seconds: float) -> str:
        """Return the key that is pressed within a time, or a space after it."""
        if self._before is None:
            time.sleep(seconds)
            return " "
        ready, _, _ = select.select([sys.stdin], [], [], seconds)
        return os.read(sys.stdin.fileno(), 1).decode("ascii", "replace") if ready else " "


def place_of(target: str, variables: dict[str, str]) -> str:
    """Return the URL of metrics, or the path of their file, that a target means.

    Raises ConfigError for a pipeline file without a port, typer.BadParameter (exit code 2) for what is neither.
    """
    if target.startswith(("http://", "https://")):
        try:
            url = urlsplit(target)
            is_url = bool(url.hostname) and url.port != 0
        except ValueError:  # a bracket without its other one, or a port that is none
            is_url = False
        if not is_url:
            raise typer.BadParameter(f"{one_line(target)} is no URL of a server", param_hint="TARGET")
        return urlunsplit((url.scheme, url.netloc, url.path if url.path.strip("/") else "/metrics", url.query, ""))
    path = Path(target)
    if path.suffix in {".yaml", ".yml"}:
        options = load_checked(path, variables).pipeline
        if not options.metrics_port:
            msg = f"{target} has no pipeline.metrics.port"
            raise ConfigError(msg, "give host:port, as the run says it when it starts")
        host = "localhost" if options.metrics_host in {"0.0.0.0", "::"} else options.metrics_host  # noqa: S104
        return _url(host, options.metrics_port, options.metrics_password)
    host, _, port = target.rpartition(":")
    if port.isascii() and port.isdigit() and "/" not in host:
        if not 0 < int(port) <= MAX_PORT:
            raise typer.BadParameter(f"{port} is no port: a number from 1 to {MAX_PORT}", param_hint="TARGET")
        return _url(host.strip("[]") or "localhost", int(port))
    if path.exists() or path.suffix == ".prom":
        return target
    raise typer.BadParameter(f"{one_line(target)} is no port, no host:port, no URL, and no file", param_hint="TARGET")


def _url(host: str, port: int, password: str | None = None) -> str:
    login = "" if password is None else f"{USER}:{quote(password, safe='')}@"
    return f"http://{login}{f'[{host}]' if ':' in host else host}:{port}/metrics"


def _look(places: list[str], watcher: Watcher) -> tuple[list[Look], list[Unavailable]]:
    """Return a look at each pipeline, and what does not answer."""
    looks: list[Look] = []
    failed = []
    for place in places:
        try:
            looks += watcher.looks(place)
        except Unavailable as exc:
            failed.append(exc)
    return looks, failed


def _console() -> Console:
    return Console(highlight=False)


def _width() -> int | None:
    return _console().width if sys.stdout.isatty() else None


def _print(lines: list[Text]) -> None:
    console = _console()
    for line in lines:
        console.print(line, soft_wrap=True)


def shown(
    looks: list[Look], failed: list[Unavailable], number: int, width: int | None, height: int | None = None
) -> list[Text]:
    """Return the lines of a screen. `number`: tables of each pipeline, fewer where `height` has no room for them."""
    heads = [_summary(look, width) for look in looks]
    troubles = [Text(one_line(exc.message), style="red", overflow="fold") for exc in failed]
    if height is not None and looks:
        taken = sum(map(len, heads)) + len(troubles) + len(FIXED) * len(looks) + 1
        number = min(number, max(0, (height - taken) // len(looks)))
    parts: list[Text] = []
    for look, head in zip(looks, heads, strict=True):
        parts += [*head, *_tables(look, number, width), Text("")]
    return [*parts, *troubles]


def _summary(look: Look, width: int | None) -> list[Text]:
    numbers = look.numbers
    state = "ready" if numbers.get("ready") else "not ready"
    if look.away:
        state = f"{state}: the {' and the '.join(look.away)} {'do' if len(look.away) > 1 else 'does'} not answer"
    if not numbers.get("live", 1):
        state = "STALLED: no batch completes"
    if "exit_code" in numbers:
        state = f"ended with exit code {numbers['exit_code']:.0f}"
    bad = state not in {"ready", "ended with exit code 0"}
    head = [(one_line(look.pipeline), "bold"), (state, "red" if bad else "green")]
    if look.silent_s is not None:
        head.append((f"its file was last written {length(look.silent_s)} ago", "red"))
    head.append((counted(int(look.commits.get("succeeded", 0)), "batch"), ""))
    if failures := look.commits.get("failed", 0):
        head.append((f"{failures:,.0f} with failed tasks", "yellow"))
    if "start_time_seconds" in numbers and "exit_code" not in numbers and look.silent_s is None:
        head.append((f"for {length(time.time() - numbers['start_time_seconds'])}", ""))
    rates = look.rates
    parts = [
        (f"in {rates['records_in']:,.0f}/s ({size(rates['bytes_in'])}/s)", ""),
        (f"out {rates['records_out']:,.0f}/s ({size(rates['bytes_out'])}/s)", ""),
        *_backlog(look),
    ]
    for name, text in (("fetch_event_time_lag_seconds", "fetch lag"), ("emit_event_time_lag_seconds", "emit lag")):
        if name in numbers:
            parts.append((f"{text} {numbers[name]:,.1f} s", ""))
    if "worker_memory_bytes" in numbers:
        parts.append((f"worker memory {size(numbers['worker_memory_bytes'])}", ""))
    if look.rejects:
        parts.append((f"rejected {look.rejects:,.0f}", "yellow"))
    marks = [(f"marked: {one_line(table)}, whose rows may differ (ingest status)", "yellow") for table in look.marked]
    shown = marks[:MARKED] + ([(f"and {len(marks) - MARKED:,} more", "yellow")] if len(marks) > MARKED else [])
    return [*_flowed(head, width), *_flowed(parts, width), *(line for mark in shown for line in _flowed([mark], width))]


def _backlog(look: Look) -> list[tuple[str, str]]:
    """Return the backlog, with its unit where it is not in records."""
    numbers = look.numbers
    if "pending_bytes" not in numbers:
        return [(f"backlog {look.pending:,.0f}{_left(look)}", "")]
    behind = size(numbers["pending_bytes"])
    parts = [(f"log {behind} behind, {length(numbers.get('log_lag_seconds', 0.0))}{_left(look)}", "")]
    if look.position:
        parts.append((f"at {one_line(look.position)}", ""))
    found = look.snapshot
    if tables := found.get("tables_left", 0):
        left = numbers.get("snapshot_left_seconds")
        rows = found.get("rows_done", 0.0), found.get("rows_done", 0.0) + found.get("rows_left", 0.0)
        text = f"snapshot of {counted(int(tables), 'table')}: {rows[0]:,.0f} of about {rows[1]:,.0f} rows"
        parts.append((f"{text}{'' if left is None else f', about {length(left)} left'}", ""))
    return parts


def _left(look: Look) -> str:
    return "" if look.seconds_left is None else f", about {length(look.seconds_left)} left"


def _tables(look: Look, number: int, width: int | None) -> list[Text]:
    rows = [HEADINGS]
    for one in look.tables[:number]:
        rate = "" if one.rate is None else f"{one.rate:,.1f}"
        counts = (f"{one.counts.get(change, 0):,}" for change in CHANGES)
        rows.append((one_line(one.table), rate, *counts, size(one.bytes_in), size(one.bytes_out)))
    heading, *lines = table_lines(rows, width, FIRST_OUT)
    heading.stylize("bold")
    more = len(look.tables) - number
    return [heading, *lines, *([Text(f"and {more:,} more", style="dim")] if more > 0 else [])]


def _flowed(parts: Sequence[tuple[str, str]], width: int | None) -> Iterator[Text]:
    """Yield texts with their styles side by side, in as many lines as they need."""
    line = Text(overflow="fold")
    for text, style in parts:
        if line and width is not None and len(line) + len(GAP) + len(text) > width:
            yield line
            line = Text(overflow="fold")
        if line:
            line.append(GAP)
        line.append(text, style=style)
    yield line

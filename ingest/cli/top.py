"""`ingest top`: running pipelines at a glance, by their metrics."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import quote, urlsplit, urlunsplit

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ingest.cli.parameters import FormatOption, OutputFormat, SetOption, parse_variables
from ingest.cli.table import counted, length
from ingest.config.loader import load_checked
from ingest.errors import ConfigError, Unavailable
from ingest.model.text import one_line
from ingest.observe.scrape import CHANGES, read
from ingest.observe.serving import USER

if TYPE_CHECKING:
    from collections.abc import Callable

    from ingest.observe.scrape import Look, Scrape

WIDE: Final = 100
"""Characters of a line from which on a table's bytes are shown, too: names of tables come first."""

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

    Reads their metrics (--metrics PORT, pipeline.metrics.port), and nothing else. With --once, exit code 75 means that
    one of them did not answer.
    """
    values = parse_variables(variables)
    places = [place_of(target, values) for target in targets]
    before: dict[tuple[str, str], Scrape] = {}
    if once or form is OutputFormat.JSON:
        looks, failed = _look(places, before)
        if form is OutputFormat.JSON:
            typer.echo(json.dumps([asdict(look) for look in looks], indent=2))
        else:
            _console().print(_shown(looks, failed, number))
        if failed:
            raise failed[0]
        return
    if not sys.stdout.isatty():
        _forever(places, before, interval, number, _console().print)
        return
    with Live(console=_console(), screen=True, auto_refresh=False) as live:
        _forever(places, before, interval, number, lambda shown: live.update(shown, refresh=True))


def place_of(target: str, variables: dict[str, str]) -> str:
    """Return the URL of metrics, or the path of their file, that a target means.

    Raises ConfigError for a pipeline file without a port, typer.BadParameter (exit code 2) for what is neither.
    """
    if target.startswith(("http://", "https://")):
        url = urlsplit(target)
        return urlunsplit((url.scheme, url.netloc, url.path if url.path.strip("/") else "/metrics", url.query, ""))
    path = Path(target)
    if path.suffix in {".yaml", ".yml"}:
        options = load_checked(path, variables).pipeline
        if not options.metrics_port:
            msg = f"{target} has no pipeline.metrics.port"
            raise ConfigError(msg, "give host:port, as the run says it when it starts")
        host = "localhost" if options.metrics_host in {"0.0.0.0", "::"} else options.metrics_host  # noqa: S104
        return _url(host, options.metrics_port, options.metrics_password)
    host, colon, port = target.rpartition(":")
    if colon and port.isdigit() and "/" not in host:
        return _url(host.strip("[]") or "localhost", int(port))
    if path.exists() or path.suffix == ".prom":
        return target
    msg = f"{one_line(target)} is no host:port, no URL, and no file"
    raise typer.BadParameter(msg, param_hint="TARGET")


def _url(host: str, port: int, password: str | None = None) -> str:
    login = "" if password is None else f"{USER}:{quote(password, safe='')}@"
    return f"http://{login}{f'[{host}]' if ':' in host else host}:{port}/metrics"


def _forever(
    places: list[str], before: dict[tuple[str, str], Scrape], interval: float, number: int, show: Callable[[Any], None]
) -> None:
    while True:
        looks, failed = _look(places, before)
        show(_shown(looks, failed, number))
        time.sleep(interval)


def _look(places: list[str], before: dict[tuple[str, str], Scrape]) -> tuple[list[Look], list[Unavailable]]:
    """Return a look at each pipeline, and what does not answer. `before` has the last scrapes, and gets these."""
    looks, failed = [], []
    for place in places:
        try:
            found = read(place)
        except Unavailable as exc:
            failed.append(exc)
            continue
        for pipeline, scrape in found.items():
            looks.append(scrape.look(pipeline, before.get((place, pipeline))))
            before[place, pipeline] = scrape
    return looks, failed


def _console() -> Console:
    return Console(highlight=False, width=None if sys.stdout.isatty() else 140)


def _shown(looks: list[Look], failed: list[Unavailable], number: int) -> Group:
    wide = _console().width >= WIDE
    parts: list[Any] = []
    for look in looks:
        parts += [*_summary(look), _tables(look, number, wide=wide), Text("")]
    parts += [Text(one_line(exc.message), style="red") for exc in failed]
    return Group(*parts)


def _summary(look: Look) -> list[Text]:
    numbers = look.numbers
    state = "ready" if numbers.get("ready") else "not ready"
    if not numbers.get("live", 1):
        state = "DOES NOT GET ON"
    if "exit_code" in numbers:
        state = f"ended with exit code {numbers['exit_code']:.0f}"
    bad = state not in {"ready", "ended with exit code 0"}
    batches = counted(int(look.commits.get("succeeded", 0)), "batch")
    failures = look.commits.get("failed", 0)
    head = Text(one_line(look.pipeline), style="bold")
    head.append(f"  {state}", style="red" if bad else "green")
    head.append(f"  {batches}{f', {failures:,.0f} with failed tasks' if failures else ''}", style="")
    if "start_time_seconds" in numbers:
        head.append(f"  for {length(time.time() - numbers['start_time_seconds'])}", style="")
    parts = [
        f"in {numbers.get('records_in_per_second', 0):,.0f}/s ({_size(numbers.get('bytes_in_per_second', 0))}/s)",
        f"out {numbers.get('records_out_per_second', 0):,.0f}/s ({_size(numbers.get('bytes_out_per_second', 0))}/s)",
        f"waiting {look.pending:,.0f}",
    ]
    for name, text in (("fetch_event_time_lag_seconds", "fetch lag"), ("emit_event_time_lag_seconds", "emit lag")):
        if name in numbers:
            parts.append(f"{text} {numbers[name]:,.1f} s")
    if "worker_memory_bytes" in numbers:
        parts.append(f"worker memory {_size(numbers['worker_memory_bytes'])}")
    line = Text("  ".join(parts))
    if look.rejects:
        line.append(f"  rejects {look.rejects:,.0f}", style="yellow")
    return [head, line]


def _tables(look: Look, number: int, *, wide: bool) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("table")
    sizes = ("bytes in", "bytes out") if wide else ()
    for column in ("changes/s", "inserted", "updated", "deleted", "rejected", *sizes):
        table.add_column(column, justify="right")
    for one in look.tables[:number]:
        rate = "" if one.rate is None else f"{one.rate:,.1f}"
        counts = (f"{one.counts.get(change, 0):,}" for change in CHANGES)
        bytes_of = (_size(one.bytes_in), _size(one.bytes_out)) if wide else ()
        table.add_row(Text(one_line(one.table)), rate, *counts, *bytes_of)
    if len(look.tables) > number:
        table.add_row(Text(f"and {len(look.tables) - number:,} more", style="dim"))
    return table


def _size(count: float) -> str:
    """Return a number of bytes in a few characters."""
    for bound, unit in ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= bound:
            return f"{count / bound:.1f} {unit}"
    return f"{count:.0f} B"

"""`ingest status [DIR]`: what the pipelines of a folder do, from their checkpoints alone."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer

from ingest.checkpoint.inspect import opened
from ingest.checkpoint.run_status import FAILED_START, status
from ingest.cli.parameters import FilesConfOption, FormatOption, OutputFormat, parse_variables
from ingest.cli.screen import counted, lag_text, length, paint
from ingest.errors import CheckpointError
from ingest.model.text import one_line
from ingest.paths import CHECKPOINTS, is_remote

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(name="status")
def status_(
    place: Annotated[
        str, typer.Argument(metavar="DIR", help="A folder with checkpoints, or one checkpoint, also hdfs://….")
    ] = str(CHECKPOINTS),
    form: FormatOption = OutputFormat.TEXT,
    conf: FilesConfOption = None,
) -> None:
    """Show the state of pipelines: runs, lag, the last batch and the last error.

    It reads checkpoints alone: no broker, no metrics. A run counts its backlog after each batch and every 30 seconds.
    Exit code 78 means that there is no checkpoint, or one that cannot be read.
    """
    statuses, failed = [], []
    for where in checkpoints(place):
        try:
            with opened(where, parse_variables(conf), write=False, begun=False) as checkpoint:
                statuses.append({"pipeline": where.rstrip("/").rpartition("/")[2], **status(checkpoint)})
        except CheckpointError as exc:
            failed.append(exc)
    if form is OutputFormat.JSON:
        typer.echo(json.dumps(statuses, indent=2))
    else:
        typer.echo("\n\n".join(_text(report) for report in statuses))
    if failed:
        raise failed[0]


def checkpoints(place: str) -> list[str]:
    """Return the paths of the checkpoints in a folder, or the folder's own if it is one.

    Raise CheckpointError for none.
    """
    if is_remote(place):
        return [place]
    folder = Path(place)
    for within in (folder, folder / CHECKPOINTS):
        if _is_one(within):
            return [str(within)]
        if several := sorted(str(one) for one in within.glob("*/") if _is_one(one)):
            return several
    msg = f"there is no checkpoint in {one_line(place)}"
    hint = f"give the folder that has them: {CHECKPOINTS} where a pipeline was started, or what its --checkpoint says"
    raise CheckpointError(msg, hint)


def _is_one(folder: Path) -> bool:
    """Tell whether a folder is a checkpoint, if only of starts that have failed."""
    return any((folder / name).exists() for name in ("checkpoint.json", "starts", FAILED_START))


def lines(report: dict[str, Any], now: float) -> Iterator[str]:
    """Yield the lines about a checkpoint, as people read them. `now`: seconds since 1970."""
    yield one_line(f"{report['pipeline']}: {_state(report, now)}")
    for name, text in (
        ("last batch", _last_batch(report, now)),
        ("backlog", _backlog(report, now)),
        ("log", _log(report, now)),
        ("snapshot", _snapshot(report)),
        ("in work", _in_work(report, now)),
        ("rejected", counted(report["rejected"], "record")),
        ("last error", _error(report["last_error"], now)),
        ("last write", _ago(report["last_write"], now) or "not known"),
    ):
        if text:
            yield one_line(f"  {name + ':':<12}{text}")
    for table, why in report["marked"].items():
        again = f"ingest backfill FILE --table {quote(table)}"
        yield one_line(f"  {'marked:':<12}{table}, whose rows may differ: {why} ({again})")


def _text(report: dict[str, Any]) -> str:
    """Return a checkpoint's status as a text for the terminal, its state in a colour."""
    first, *more = lines(report, time.time())
    name = one_line(f"{report['pipeline']}: ")
    style = {"running": "green", "failed": "red", "killed": "red", "not started": "red"}.get(report["state"])
    state = paint(first.removeprefix(name), sys.stdout, fg=style)
    return "\n".join((f"{paint(name, sys.stdout, bold=True)}{state}", *more))


def _state(report: dict[str, Any], now: float) -> str:
    run = "" if report["run"] is None else f"run {report['run']}, {report['command']}"
    if report["state"] == "running":
        if report["started"] is None or report["ended"] is not None:
            return f"in use by process {report['process']}, which has noted no start"
        process = f"process {report['process']} on {report['host']}"
        return f"running for {length(now - _seconds(report['started']))} ({run}, {process})"
    if report["state"] == "not started":
        error = report["last_error"]
        last = f" (the last one that did: {run}, {_ago(report['started'], now)})" if run else ""
        return f"FAILED {_ago(error['time'], now)} with exit code {error['exit_code']}, before a run began{last}"
    if report["state"] in {"ended", "failed"}:
        how, code = (
            ("ended", "") if report["state"] == "ended" else ("FAILED", f" with exit code {report['exit_code']}")
        )
        return f"{how} {_ago(report['ended'], now)}{code} ({run})"
    if report["state"] == "killed":
        return f"KILLED: nothing runs, and the run that began {_ago(report['started'], now)} has noted no end ({run})"
    if report["started"] is None:
        return "nothing runs here" if not is_remote(report["checkpoint"]) else "no run has noted a start"
    began = f"began {_ago(report['started'], now)} and has noted no end"
    return f"{began}: it runs, or was killed ({run} on {report['host']})"


def _last_batch(report: dict[str, Any], now: float) -> str:
    if report["last_batch"] is None:
        return "none yet"
    stored = "" if report["last_batch_stored"] is None else f", stored {_ago(report['last_batch_stored'], now)}"
    return f"{report['last_batch']}{stored}"


def _backlog(report: dict[str, Any], now: float) -> str:
    """Return the stored backlog and its age as a text; no broker is asked."""
    if report["waiting"] is None and report["lag"] is None:
        return "" if report["last_batch"] is None else "not known"
    ago = _ago(report["waiting_counted"], now)
    when = {
        "run": f"counted {ago}",
        "batch": f"after the last batch{ago and f', {ago}'}",
        "end": f"when the run ended, {ago}",
    }
    what = counted(report["waiting"], "record") if report["lag"] is None else lag_text(report["lag"])
    return f"{what}, {when[report['waiting_counted_by']]}"


def _log(report: dict[str, Any], now: float) -> str:
    """Return where in a database's log reading stands."""
    if report["position"] is None or not report["position"]["file"]:
        return ""
    read = "" if report["read_time"] is None else f"; what was read last was logged {_ago(report['read_time'], now)}"
    return f"read up to {report['position']['file']}:{report['position']['offset']}{read}"


def _snapshot(report: dict[str, Any]) -> str:
    """Return how far the rows of a database's tables are read."""
    snapshot = report["snapshot"]
    if snapshot is None:
        return ""
    done, tables = snapshot["tables_done"], snapshot["tables_done"] + len(snapshot["tables"])
    of = f"about {snapshot['rows_read'] + snapshot['rows_left']:,}"
    return f"{snapshot['rows_read']:,} of {of} rows read; {done:,} of {counted(tables, 'table')} done"


def _in_work(report: dict[str, Any], now: float) -> str:
    if report["batch_in_work"] is None:
        return ""
    at = report["batch_in_work_planned"]
    planned = "" if at is None else f", planned {_ago(at, now)}"
    again = "" if report["state"] == "running" else "; the next run does it again"
    return f"batch {report['batch_in_work']}{planned}{again}"


def _error(error: dict[str, Any] | None, now: float) -> str:
    if error is None:
        return "none noted"
    text = error["message"].split("\n", 1)[0]
    run = "before a run began" if error["run"] is None else f"run {error['run']}"
    return f"{_ago(error['time'], now)}, {run}, exit code {error['exit_code']} ({error['code']}): {text}"


def _ago(moment: str | None, now: float) -> str:
    return "" if moment is None else f"{length(now - _seconds(moment))} ago"


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()

"""`ingest status [DIR]`: what the pipelines of a folder do, from their checkpoints alone."""

from __future__ import annotations

import json
import sys
import time
from datetime import datetime
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ingest.checkpoint.inspect import opened
from ingest.checkpoint.run_status import FAILED_START, status
from ingest.cli.parameters import FilesConfOption, FormatOption, OutputFormat, parse_variables
from ingest.cli.screen import counted, lag_text, length, paint
from ingest.errors import CheckpointError
from ingest.model.text import one_line
from ingest.paths import CHECKPOINTS, is_remote

if TYPE_CHECKING:
    from collections.abc import Iterator

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(name="status")
def status_(
    place: Annotated[
        str, typer.Argument(metavar="DIR", help="A folder with checkpoints, or one checkpoint, also hdfs://….")
    ] = str(CHECKPOINTS),
    form: FormatOption = OutputFormat.TEXT,
    conf: FilesConfOption = None,
) -> None:
    """Show what runs, since when, how far behind it is, the last batch and the last error.

    It reads checkpoints alone: no broker, no metrics. A run counts what waits after each batch and every half a minute.
    Exit code 78 means that there is no checkpoint, or one that cannot be read.
    """
    found, failed = [], []
    for where in checkpoints(place):
        try:
            with opened(where, parse_variables(conf), write=False, begun=False) as checkpoint:
                found.append({"pipeline": where.rstrip("/").rpartition("/")[2], **status(checkpoint)})
        except CheckpointError as exc:
            failed.append(exc)
    if form is OutputFormat.JSON:
        typer.echo(json.dumps(found, indent=2))
    else:
        typer.echo("\n\n".join(_text(one) for one in found))
    if failed:
        raise failed[0]


def checkpoints(place: str) -> list[str]:
    """Return the places of the checkpoints in a folder, or of the one that it is. Raise CheckpointError without any."""
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


def lines(one: dict[str, Any], now: float) -> Iterator[str]:
    """Yield the lines about a checkpoint, as people read them. `now`: seconds since 1970."""
    yield one_line(f"{one['pipeline']}: {_state(one, now)}")
    for name, text in (
        ("last batch", _last_batch(one, now)),
        ("waiting", _waiting(one, now)),
        ("log", _log(one, now)),
        ("snapshot", _snapshot(one)),
        ("in work", _in_work(one, now)),
        ("rejected", counted(one["rejected"], "record")),
        ("last error", _error(one["last_error"], now)),
        ("last write", _ago(one["last_write"], now) or "not known"),
    ):
        if text:
            yield one_line(f"  {name + ':':<12}{text}")
    for table, why in one["marked"].items():
        again = f"ingest backfill FILE --table {quote(table)}"
        yield one_line(f"  {'marked:':<12}{table}, whose rows may differ: {why} ({again})")


def _text(one: dict[str, Any]) -> str:
    """Return what is shown of a checkpoint, its state in a colour."""
    first, *more = lines(one, time.time())
    name = one_line(f"{one['pipeline']}: ")
    style = {"running": "green", "failed": "red", "killed": "red", "not started": "red"}.get(one["state"])
    state = paint(first.removeprefix(name), sys.stdout, fg=style)
    return "\n".join((f"{paint(name, sys.stdout, bold=True)}{state}", *more))


def _state(one: dict[str, Any], now: float) -> str:
    run = "" if one["run"] is None else f"run {one['run']}, {one['command']}"
    if one["state"] == "running":
        if one["started"] is None or one["ended"] is not None:
            return f"in use by process {one['process']}, which has noted no start"
        return (
            f"running for {length(now - _seconds(one['started']))} ({run}, process {one['process']} on {one['host']})"
        )
    if one["state"] == "not started":
        error = one["last_error"]
        last = f" (the last one that did: {run}, {_ago(one['started'], now)})" if run else ""
        return f"FAILED {_ago(error['time'], now)} with exit code {error['exit_code']}, before a run began{last}"
    if one["state"] in {"ended", "failed"}:
        how, code = ("ended", "") if one["state"] == "ended" else ("FAILED", f" with exit code {one['exit_code']}")
        return f"{how} {_ago(one['ended'], now)}{code} ({run})"
    if one["state"] == "killed":
        return f"KILLED: nothing runs, and the run that began {_ago(one['started'], now)} has noted no end ({run})"
    if one["started"] is None:
        return "nothing runs here" if not is_remote(one["checkpoint"]) else "no run has noted a start"
    return f"began {_ago(one['started'], now)} and has noted no end: it runs, or was killed ({run} on {one['host']})"


def _last_batch(one: dict[str, Any], now: float) -> str:
    if one["last_batch"] is None:
        return "none yet"
    stored = "" if one["last_batch_stored"] is None else f", stored {_ago(one['last_batch_stored'], now)}"
    return f"{one['last_batch']}{stored}"


def _waiting(one: dict[str, Any], now: float) -> str:
    """Return how many records wait, and in words how old that is: nobody is asked."""
    if one["waiting"] is None and one["lag"] is None:
        return "" if one["last_batch"] is None else "not known"
    ago = _ago(one["waiting_counted"], now)
    when = {
        "run": f"counted {ago}",
        "batch": f"after the last batch{ago and f', {ago}'}",
        "end": f"when the run ended, {ago}",
    }
    what = counted(one["waiting"], "record") if one["lag"] is None else lag_text(one["lag"])
    return f"{what}, {when[one['waiting_counted_by']]}"


def _log(one: dict[str, Any], now: float) -> str:
    """Return where in a database's log reading stands."""
    if one["position"] is None or not one["position"]["file"]:
        return ""
    read = "" if one["read_time"] is None else f"; what was read last was logged {_ago(one['read_time'], now)}"
    return f"read up to {one['position']['file']}:{one['position']['offset']}{read}"


def _snapshot(one: dict[str, Any]) -> str:
    """Return how far the rows of a database's tables are read."""
    found = one["snapshot"]
    if found is None:
        return ""
    done, tables = found["tables_done"], found["tables_done"] + len(found["tables"])
    of = f"about {found['rows_read'] + found['rows_left']:,}"
    return f"{found['rows_read']:,} of {of} rows read; {done:,} of {counted(tables, 'table')} done"


def _in_work(one: dict[str, Any], now: float) -> str:
    if one["batch_in_work"] is None:
        return ""
    planned = "" if one["batch_in_work_planned"] is None else f", planned {_ago(one['batch_in_work_planned'], now)}"
    return f"batch {one['batch_in_work']}{planned}{'' if one['state'] == 'running' else '; the next run does it again'}"


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

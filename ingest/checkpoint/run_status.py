"""The status of runs: when each began and how it ended, for `ingest status`.

    starts/N       when run N took its number, as which command, by which process of which host
    ends/N         when it ended, with which exit code and error, and with which backlog
    waiting        the backlog, and when it was counted: every 30 seconds, also while no batch completes
    failed-start   the last error of a run that had not taken its number

They are for people: no run goes by them. A run that was killed leaves no end.
Rules: docs/spec/command-line.md (M24).
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

import orjson

from ingest.checkpoint.checkpoint import KEEP_RUNS, Checkpoint, Progress
from ingest.checkpoint.storage import LocalStorage, Storage, holder
from ingest.model.standing import Standing

FAILED_START: Final = "failed-start"
_WAITING: Final = "waiting"
MAX_TEXT: Final = 2_000
"""Characters of an error that are kept."""
_Note = TypeVar("_Note", "RunStart", "RunEnd", "Waiting")


@dataclass(frozen=True, slots=True)
class RunStart:
    """The start of a run."""

    time: int
    """Milliseconds since 1970."""
    kind: str
    """The command: `run`, `run --once`, `replay` or `backfill`."""
    process: int
    host: str


@dataclass(frozen=True, slots=True)
class RunEnd:
    """The end of a run."""

    time: int
    """Milliseconds since 1970."""
    exit_code: int
    code: str
    """Name of the error in docs/errors.md; an empty text where there was none."""
    message: str
    """The error, without secrets."""
    waiting: int | None
    """The backlog in records; None where it is unknown, and for a database."""
    lag: Mapping[str, Any] | None = None
    """The lag behind a database (`Standing.lag`)."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """The backlog at a moment."""

    time: int
    """Milliseconds since 1970."""
    records: int | None
    """None of a database."""
    lag: Mapping[str, Any] | None = None
    """The lag behind a database (`Standing.lag`)."""


def now_ms() -> int:
    """Return the time, in milliseconds since 1970."""
    return int(time.time() * 1000)


def note_start(checkpoint: Checkpoint, kind: str) -> None:
    """Store a run's start under its number. Raise CheckpointError."""
    start = RunStart(now_ms(), kind, os.getpid(), socket.gethostname())
    checkpoint.storage.write(f"starts/{checkpoint.run}", orjson.dumps(asdict(start)))
    if checkpoint.run > KEEP_RUNS:
        for folder in ("starts", "ends"):
            checkpoint.storage.remove(f"{folder}/{checkpoint.run - KEEP_RUNS}")


def note_end(checkpoint: Checkpoint, end: RunEnd) -> None:
    """Store a run's end under its number. Raise CheckpointError."""
    checkpoint.storage.write(f"ends/{checkpoint.run}", _kept(end))


def note_failed_start(storage: Storage, end: RunEnd) -> None:
    """Store the error of a run that failed before it had a number. Raise CheckpointError."""
    storage.write(FAILED_START, _kept(end))


def _kept(end: RunEnd) -> bytes:
    return orjson.dumps(asdict(end) | {"message": end.message[:MAX_TEXT]})


def note_waiting(checkpoint: Checkpoint, records: int | None, lag: Mapping[str, Any] | None = None) -> None:
    """Store the current backlog: records, or the lag behind a database. Raise CheckpointError."""
    checkpoint.storage.write(_WAITING, orjson.dumps(asdict(Waiting(now_ms(), records, lag))))


def has_notes(checkpoint: Checkpoint) -> bool:
    """Return whether any run has begun, or failed to. Raises CheckpointError."""
    return bool(checkpoint.storage.names("starts")) or checkpoint.storage.read(FAILED_START) is not None


def _notes(checkpoint: Checkpoint, folder: str, kind: type[_Note]) -> dict[int, _Note]:
    """Return the notes of runs in a folder, by run number in ascending order."""
    out: dict[int, _Note] = {}
    for name in checkpoint.storage.names(folder):
        if not name.isdigit():
            continue
        note = _note(checkpoint, f"{folder}/{name}", kind)
        if note is not None:  # else it has just been removed
            out[int(name)] = note
    return dict(sorted(out.items()))


def _note(checkpoint: Checkpoint, name: str, kind: type[_Note]) -> _Note | None:
    """Return a stored note, or None if it does not exist."""
    data = checkpoint.storage.read(name)
    if data is None:
        return None
    try:
        stored = orjson.loads(data)
        return kind(**{field: stored[field] for field in kind.__dataclass_fields__})
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        raise checkpoint.damaged(name, exc) from exc


def used_by(checkpoint: Checkpoint) -> str | None:
    """Return the id of the process that holds the checkpoint, None where none does, or where there are no locks."""
    return holder(Path(checkpoint.where)) if isinstance(checkpoint.storage, LocalStorage) else None


def standing_of(checkpoint: Checkpoint, progress: Progress) -> Standing | None:
    """Return the stored reading position and lag of a database source; None for another source."""
    if progress.source_state is None:
        return None
    from ingest.sources.mysql.state import LOG, State  # noqa: PLC0415  (few checkpoints have a state)

    try:
        at = progress.positions.get(LOG, 0)
        return State.from_json(progress.source_state).standing(at, at)
    except ValueError as exc:
        raise checkpoint.damaged("batches", exc) from exc


def status(checkpoint: Checkpoint) -> dict[str, Any]:
    """Return the state of a pipeline: run, lag, last batch and last error, in plain values.

    Times are in ISO 8601 (UTC). None stands for what a checkpoint does not say. Raises CheckpointError.
    """
    starts, ends = _notes(checkpoint, "starts", RunStart), _notes(checkpoint, "ends", RunEnd)
    run = max(starts, default=None)
    start, end = (None, None) if run is None else (starts[run], ends.get(run))
    held = used_by(checkpoint)
    progress, unfinished = checkpoint.progress()
    stored, left, lag_left = checkpoint.last_done()
    # By the clock, not by the number: the error of a start has none
    errors = [(run_end.time, number, run_end) for number, run_end in ends.items() if run_end.exit_code]
    failed_start = _note(checkpoint, FAILED_START, RunEnd)
    if failed_start is not None and (
        len(starts) < KEEP_RUNS or failed_start.time >= min(run_start.time for run_start in starts.values())
    ):
        errors.append((failed_start.time, 0, failed_start))
    failed_at, failed_run, failed = max(errors, default=(0, 0, None))
    counted = _note(checkpoint, _WAITING, Waiting)
    counts: list[tuple[int, str | None, int | None, Mapping[str, Any] | None]] = [
        (stored or 0, "batch", left, lag_left),
        *([] if end is None else [(end.time, "end", end.waiting, end.lag)]),
        *([] if counted is None else [(counted.time, "run", counted.records, counted.lag)]),
    ]
    known = [count for count in counts if count[2] is not None or count[3] is not None]
    counted_at, counted_by, waiting, lag = max(known, key=lambda count: count[:2], default=(0, None, None, None))
    standing = standing_of(checkpoint, progress)
    times = [
        stored,
        None if unfinished is None else unfinished.time or None,
        None if start is None else start.time,
        None if end is None else end.time,
    ]
    not_started = (
        failed is not None and not failed_run and failed_at >= max((moment or 0 for moment in times[2:]), default=0)
    )
    state = _state(start, end, held, locked=isinstance(checkpoint.storage, LocalStorage))
    return {
        "checkpoint": checkpoint.where,
        "marked": {} if standing is None else dict(sorted(standing.marked.items())),
        "state": "not started" if not_started and held is None else state,
        "run": run,
        "command": None if start is None else start.kind,
        "process": held or (None if start is None else str(start.process)),
        "host": None if start is None else start.host,
        "started": None if start is None else iso(start.time),
        "ended": None if end is None else iso(end.time),
        "exit_code": None if end is None else end.exit_code,
        "last_batch": progress.batch or None,
        "last_batch_stored": None if stored is None or not progress.batch else iso(stored),
        "waiting": waiting,
        "lag": lag,
        "position": None if standing is None else {"file": standing.file, "offset": standing.offset},
        "read_time": None if standing is None or not standing.read_time else iso(1000 * standing.read_time),
        "snapshot": None if standing is None or not standing.tables else snapshot_json(standing),
        "waiting_counted": iso(counted_at) if counted_at else None,
        "waiting_counted_by": counted_by,
        "batch_in_work": None if unfinished is None else unfinished.number,
        "batch_in_work_planned": None if unfinished is None or not unfinished.time else iso(unfinished.time),
        "rejected": progress.errors,
        "last_error": None
        if failed is None
        else {
            "run": failed_run or None,
            "time": iso(failed.time),
            "exit_code": failed.exit_code,
            "code": failed.code,
            "message": failed.message,
        },
        "last_write": max((iso(moment) for moment in times if moment is not None), default=None),
    }


def snapshot_json(standing: Standing) -> dict[str, Any]:
    """Return how far the rows of a database's tables are read, in plain values."""
    return {
        "tables_done": standing.tables_done,
        "rows_read": standing.rows_read,
        "rows_left": standing.rows_left,
        "tables": {name: asdict(table) for name, table in sorted(standing.tables.items())},
    }


def _state(start: RunStart | None, end: RunEnd | None, held: str | None, *, locked: bool) -> str:
    """Return `running`, `ended`, `failed`, `killed`, or `unknown`.

    `locked`: whether the place of the checkpoint shows who uses it.
    """
    if held is not None:
        return "running"
    if end is not None:
        return "failed" if end.exit_code else "ended"
    if start is None or not locked:
        return "unknown"  # it goes on elsewhere, or was killed
    return "killed"


def iso(ms: int) -> str:
    """Return a time in ISO 8601, to the second, in UTC."""
    return datetime.fromtimestamp(ms // 1000, UTC).isoformat().replace("+00:00", "Z")

"""Directories of a run on a cluster: the driver and every executor must see the same ones.

In: the paths that options name. Out: marks that the driver has left there, of which it knows that executors see them;
workers that come later look for them, too. Rules: docs/spec/delivery.md#on-a-cluster.
"""

from __future__ import annotations

import glob
import os
import socket
import uuid
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ingest.errors import ConfigError, is_denied
from ingest.model.shared_place import SharedMark, unseen, unshared
from ingest.model.text import reason_of
from ingest.paths import is_remote
from ingest.spark.session import SUBMITTED, is_local

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ingest.driver.context import RunContext
    from ingest.driver.spark_engine import SparkEngine
    from ingest.model.shared_place import SharedPlace
    from ingest.spark.session import Session

MARK: Final = ".ingest-mark-"
"""The beginning of the names of marks. No pattern of files that does not name the dot matches them."""
_LOOKS: Final = 3
"""Jobs that look for marks, until all executors have."""
_WHOLE: Final = "write the whole path of a directory that the driver and every executor have"


@contextmanager
def seen_by_all(context: RunContext, engine: SparkEngine, lock: int | None) -> Iterator[None]:
    """Let a run on a cluster begin only where the driver and all executors see its directories. Raise ConfigError.

    Java starts here where it is not known otherwise where tasks run, or something is to be looked for. `lock`: a
    descriptor for child processes to hold.
    """
    settings, submitted = context.settings, SUBMITTED in os.environ
    places = [*context.pipeline.source.shared_places(), *context.pipeline.sink.shared_places()]
    if not submitted:
        if is_local(settings.master):
            yield
            return
        refuse_relative(places, settings.master)
    session = engine.start(lock) if places or submitted else None
    if session is None or is_local(session.master):
        yield
        return
    refuse_relative(places, session.master)
    if session.driver_is_placed:
        refuse_relative_checkpoint(settings.checkpoint)
    with left(places) as marks:
        if marks:
            look(session, marks)
        context.marks = marks
        yield


def refuse_relative(places: Iterable[SharedPlace], master: str) -> None:
    """Raise ConfigError for a path that each process would look for in a directory of its own."""
    for place in places:
        if not os.path.isabs(place.path):  # noqa: PTH117  (a pattern is no path)
            msg = (
                f"{place.option}: {place.path} is a relative path, and tasks run on {master}: each executor has a"
                " directory of its own, where it would look for it"
            )
            raise ConfigError(msg, _WHOLE)


def refuse_relative_checkpoint(where: str) -> None:
    """Raise ConfigError for a checkpoint in the directory of a driver for which the cluster chooses one each time."""
    if not (is_remote(where) or Path(where).is_absolute()):
        msg = (
            f"the checkpoint {where} is a relative path, and the cluster chooses where the driver runs: its next start"
            " would have another directory, and find no checkpoint"
        )
        raise ConfigError(msg, "give --checkpoint as a URI (hdfs://…, s3a://…), or a whole path that every driver has")


@contextmanager
def left(places: Sequence[SharedPlace]) -> Iterator[tuple[SharedMark, ...]]:
    """Leave marks while the block runs. Raise ConfigError where a directory cannot be made or written to."""
    made: list[Path] = []
    try:
        yield tuple(_mark(place, made) for place in places)
    finally:
        for path in made:
            with suppress(OSError):
                path.unlink()


def _mark(place: SharedPlace, made: list[Path]) -> SharedMark:
    """Return what executors are to look for, and leave it there where files are written."""
    if place.kind == "pattern":
        parts = Path(place.path).parts
        fixed = next((i for i, part in enumerate(parts) if glob.has_magic(part)), len(parts) - 1)
        first = next(glob.iglob(place.path, recursive=True), "")  # noqa: PTH207  (the whole pattern is the user's)
        return SharedMark(place.option, first or str(Path(*parts[:fixed])), "")
    folder = Path(place.path) if place.kind == "folder" else Path(place.path).parent
    path = folder / f"{MARK}{uuid.uuid4().hex}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.touch()
    except OSError as exc:
        hint = "let this user write there, or choose another directory"
        if not is_denied(exc):
            hint = "see whether there is room, and whether its disk answers, or choose another directory"
        msg = f"cannot leave a mark for the executors in {folder} ({place.option}): {reason_of(exc)}"
        raise ConfigError(msg, hint) from exc
    made.append(path)
    return SharedMark(place.option, str(path), str(folder))


def look(session: Session, marks: tuple[SharedMark, ...]) -> None:
    """Let a task on each executor look for the marks. Raise ConfigError that names a host which does not see one."""
    seen: set[tuple[str, str]] = set()
    for _ in range(_LOOKS):
        for host, folder, faults in session.run(_look_there, [marks] * max(session.slots, session.executors)):
            if faults:
                raise unshared(host, faults)
            seen.add((host, folder))
        if len(seen) >= session.executors:
            return


def _look_there(tasks: Iterable[tuple[SharedMark, ...]]) -> Iterator[tuple[str, str, list[str]]]:
    """Yield, for each task, the host, the executor's directory, and what is wrong there."""
    for marks in tasks:
        yield socket.gethostname(), os.getcwd(), unseen(marks)  # noqa: PTH109

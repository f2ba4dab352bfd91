"""What the first stage of a task hands to the second one beside Spark: files on the disk that both have.

Spark gets of a row what expressions need. All else (its text, records that are ready, what a chunk was) would only
travel to Java and back, and both stages of a task run on one machine: so it waits there, a file for each chunk, in a
folder of the attempt's own in Spark's scratch directory. A file is complete before the rows of its chunk go; it is read
and removed when the first of them comes back. As many rows come back as went, in their order.
"""

from __future__ import annotations

import os
import pickle
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark import TaskContext

from ingest.errors import Unavailable
from ingest.model.record import origin

if TYPE_CHECKING:
    from ingest.kafka.admin import Split
    from ingest.model.change import Bad
    from ingest.model.record import Headers, Record
    from ingest.native.native import Target
    from ingest.transform.rows import Stayed


@dataclass(slots=True)
class Rejected:
    """A record that was rejected before its row came to an expression, as it was."""

    stage: str
    bad: Bad
    at: int
    key_bytes: bytes | None
    value_bytes: bytes | None
    sent: Headers | None
    time: tuple[int, int]
    place: tuple[str | None, int | None]
    origin: Rejected
    """Where it was first, as the record itself says; only its place is of interest."""

    def key(self) -> bytes | None:
        """Its key."""
        return self.key_bytes

    def value(self) -> bytes | None:
        """Its value."""
        return self.value_bytes

    def topic(self) -> str | None:
        """Where it was."""
        return self.place[0]

    def partition(self) -> int | None:
        """Where it was."""
        return self.place[1]

    def offset(self) -> int | None:
        """Where it was."""
        return self.at

    def timestamp(self) -> tuple[int, int]:
        """Kind, and milliseconds."""
        return self.time

    def headers(self) -> Headers | None:
        """Its headers."""
        return self.sent

    def leader_epoch(self) -> int | None:
        """Not kept."""
        return None


def rejected(message: Record, stage: str, bad: Bad) -> Rejected:
    """A rejected record on its way to the second stage."""
    kept = Rejected(
        stage, bad, message.offset(), message.key(), message.value(), message.headers(), message.timestamp(),  # type: ignore[arg-type]  # only error events have no offset
        (message.topic(), message.partition()), None,  # type: ignore[arg-type]  # it is set below
    )  # fmt: skip
    first = origin(message)
    kept.origin = kept if first is message else rejected(first, stage, bad)
    return kept


@dataclass(slots=True)
class Ended:
    """What a chunk was, beside its rows."""

    split: Split
    end: int
    """Where the split stands after it."""
    read: int
    offsets: list[range]
    """Of all its records that were read."""
    known: int
    """How many heads of chunks before it still count: all of them, or none, as their numbers begin anew."""
    heads: list[Target]
    """Where ready-made records go, each with the changes that are done then: those that are new with this chunk."""
    rejects: list[Rejected]
    skipped: list[tuple[int, str]]
    """Offsets of records that are no rows, each with the reason."""


@dataclass(slots=True)
class Left:
    """A chunk; or the end, with what the first stage says of itself."""

    said: object
    """An `Ended`; or what the first stage says of itself, which comes last."""
    rows: Stayed
    sent: int
    """How many of its rows went to expressions."""
    marks: int
    """How many rows come after them that only say that it ends."""


class Handover:
    """The files of one attempt of a task; either stage has its own view of them."""

    def __init__(self, folder: Path) -> None:
        """Make the folder, if the other stage has not."""
        self._folder = folder
        self._number = 0
        folder.mkdir(mode=0o700, exist_ok=True)

    def leave(self, left: Left) -> None:
        """Put down the next chunk; raises Unavailable where the disk does not take it."""
        try:
            with self._next().open("wb") as file:
                pickle.dump(left, file, protocol=5)
        except OSError as exc:
            msg = f"rows on their way to transforms cannot wait in {self._folder}: {exc.strerror or exc}"
            raise Unavailable(msg, "make room there, or let spark.local.dir of --conf be elsewhere") from exc

    def find(self) -> Left:
        """Take up the next chunk."""
        path = self._next()
        with path.open("rb") as file:
            left: Left = pickle.load(file)  # noqa: S301  (made by the first stage)
        path.unlink()
        return left

    def pass_over(self) -> None:
        """Remove what nobody will take up."""
        for path in self._folder.iterdir():
            path.unlink(missing_ok=True)

    def close(self) -> None:
        """Remove all of it."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _next(self) -> Path:
        self._number += 1
        return self._folder / str(self._number)


def of_this_attempt() -> Handover:
    """That of the attempt that this worker is a stage of."""
    context = TaskContext.get()
    assert context is not None
    # It is the executor's own, and gone with it
    scratch = os.environ["SPARK_LOCAL_DIRS"].split(",")[0]
    return Handover(Path(scratch) / f"ingest-{context.taskAttemptId()}")

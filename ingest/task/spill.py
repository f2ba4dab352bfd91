"""Data that goes from the first stage of a transform to the second one beside Spark: files on the disk that both have.

Spark gets of a row what expressions need. All else (its text, records that are ready, what a chunk was) would only
travel to Java and back, and both stages of a task run on one machine: so it waits there, in files of some chunks each,
in a folder of the attempt's own in Spark's scratch directory. A chunk is complete in its file before its rows go. It is
read when the first of them comes back, and its file is removed with the last chunk in it. As many rows come back as
went, in their order.
"""

from __future__ import annotations

import os
import pickle
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark import TaskContext

from ingest.errors import AccessError, Unavailable, is_denied
from ingest.model.record import kept_of, offset_of, origin
from ingest.model.text import reason_of

if TYPE_CHECKING:
    from io import FileIO

    from ingest.model.change import Reject
    from ingest.model.record import Headers, Record, Split
    from ingest.native.native import Target
    from ingest.task.result import TaskResult
    from ingest.transform.rows import RetainedColumns


@dataclass(slots=True)
class SpilledReject:
    """A copy of a record that was rejected before its row came to an expression, and why."""

    stage: str
    reason: Reject
    at: int
    key_bytes: bytes | None
    value_bytes: bytes | None
    sent: Headers | None
    time: tuple[int, int]
    place: tuple[str | None, int | None]
    origin: SpilledReject
    """The record at its original position, as the record itself says it; only its place is of interest."""
    missing: str = ""
    """What of the record a dead letter does not have."""

    def key(self) -> bytes | None:
        """Return the key's bytes."""
        return self.key_bytes

    def value(self) -> bytes | None:
        """Return the value's bytes."""
        return self.value_bytes

    def topic(self) -> str | None:
        """Return the topic."""
        return self.place[0]

    def partition(self) -> int | None:
        """Return the partition."""
        return self.place[1]

    def offset(self) -> int | None:
        """Return the offset."""
        return self.at

    def timestamp(self) -> tuple[int, int]:
        """Return the timestamp's kind, and milliseconds."""
        return self.time

    def headers(self) -> Headers | None:
        """Return the headers."""
        return self.sent

    def leader_epoch(self) -> int | None:
        """Return None: it is not kept."""
        return None


def rejected(message: Record, stage: str, reason: Reject) -> SpilledReject:
    """Return a copy of a rejected record, for the second stage."""
    message = kept_of(message)
    kept = SpilledReject(
        stage, reason, offset_of(message), message.key(), message.value(), message.headers(), message.timestamp(),
        (message.topic(), message.partition()), None,  # type: ignore[arg-type]  # it is set below
        getattr(message, "missing", ""),
    )  # fmt: skip
    first = origin(message)
    kept.origin = kept if first is message else rejected(first, stage, reason)
    return kept


@dataclass(slots=True)
class ChunkManifest:
    """All that there is to say of a chunk, beside its rows."""

    split: Split
    end: int
    """The position of the split after it."""
    offsets: list[range]
    """The offsets of its records that were read."""
    known: int
    """The number of targets of earlier chunks that still count: all of them, or none, as their numbers begin anew."""
    targets: list[Target]
    """Destinations of ready-made records, each with the changes that are done then: those that are new here."""
    rejects: list[SpilledReject]
    skipped: list[tuple[int, str]]
    """Offsets of records that stand for no row, each with the reason."""
    more: bool = False
    """True if more records of the position `end` follow: the split stays at it until all are there."""
    place: Any = None
    """What the source says of the place of its records, beside their offsets."""

    @property
    def within(self) -> bool:
        """True if its last record has one position with others, and not all of them were read."""
        return bool(self.offsets) and self.offsets[-1].stop > self.end


@dataclass(slots=True)
class Spilled:
    """The content of one file: a chunk; or the end, with the result of the first stage."""

    content: ChunkManifest | TaskResult
    """The result comes last."""
    rows: RetainedColumns
    """The columns of the chunk's rows that Spark does not get."""
    sent: int
    """The number of its rows that went to expressions."""
    padding: int
    """The number of rows after them that only say that it ends."""


FILE_BYTES: Final = 4 << 20
"""The size at which a file has its last chunk. To make a file and to remove it costs more than to write a chunk."""


class SpillStore:
    """The files of one attempt at a task. Each stage counts them by itself: one writes them, the other one reads."""

    def __init__(self, folder: Path) -> None:
        """Make the folder, if the other stage has not."""
        self._folder = folder
        self._number = 1
        self._file: FileIO | None = None
        """The file with this number, once there is something to do with it."""
        folder.mkdir(mode=0o700, exist_ok=True)

    def put(self, spilled: Spilled) -> None:
        """Write the next chunk, as a whole; raises Unavailable if the disk does not take it."""
        left = memoryview(pickle.dumps(spilled, protocol=5))
        try:
            file = self._file = self._file or self._path.open("wb", buffering=0)
            begin = file.tell()
            try:
                while left:
                    left = left[file.write(left) :]
            except OSError:  # the result that says so comes where the chunk began
                with suppress(OSError):
                    file.truncate(begin)
                    file.seek(begin)
                raise
            if file.tell() >= FILE_BYTES:
                self._end_file()
        except OSError as exc:
            msg = f"rows on their way to transforms cannot wait in {self._folder}: {reason_of(exc)}"
            if is_denied(exc):
                raise AccessError(msg, "let spark.local.dir of --conf be a folder that can be written to") from exc
            raise Unavailable(msg, "make room there, or let spark.local.dir of --conf be elsewhere") from exc

    def take(self) -> Spilled:
        """Return the next chunk, and remove its file if that was the last one in it."""
        # Without a buffer, which could hold the begin of a chunk that the disk does not take
        file = self._file = self._file or self._path.open("rb", buffering=0)
        spilled: Spilled = pickle.load(file)  # noqa: S301  (made by the first stage)
        if file.tell() >= FILE_BYTES:
            self._path.unlink()
            self._end_file()
        return spilled

    def clear(self) -> None:
        """Remove the files that nobody will take."""
        for path in self._folder.iterdir():
            path.unlink(missing_ok=True)

    def let_go(self) -> None:
        """Close the file in hand."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def close(self) -> None:
        """Remove the folder with all files."""
        self.let_go()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def _path(self) -> Path:
        return self._folder / str(self._number)

    def _end_file(self) -> None:
        """Go on in the next file: both stages do so behind the same chunk."""
        self.let_go()
        self._number += 1


def store_of_attempt() -> SpillStore:
    """Return the store of the attempt at a task that this worker is a stage of."""
    context = TaskContext.get()
    assert context is not None
    # It is the executor's own, and gone with it
    scratch = os.environ["SPARK_LOCAL_DIRS"].split(",")[0]
    return SpillStore(Path(scratch) / f"ingest-{context.taskAttemptId()}")

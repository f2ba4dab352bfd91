"""The stages that every task has which reads records: read, decode, encode, and when it ends."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ingest.model.client_report import reports
from ingest.task.changelog import Changelog
from ingest.task.decoding import ChunkDecoder
from ingest.task.drift import LookAhead, SchemaObserver
from ingest.task.encoding import ChunkEncoder
from ingest.task.reading import RangeReading
from ingest.task.tombstones import LoneTombstones

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from ingest.encode.upsert_encoder import Record as Written
    from ingest.model.record import Split
    from ingest.task.assignment import Task
    from ingest.task.encoded import EncodedPart
    from ingest.task.native_stage import NativeStage
    from ingest.task.reading import ReadChunk
    from ingest.task.rejects import RejectLimit
    from ingest.task.result import TaskResult
    from ingest.task.worker import WorkerState


class SourceSide:
    """A shard's reader, its decoders and encoders, and the rows of its changelog."""

    def __init__(
        self,
        task: Task,
        state: WorkerState,
        native: NativeStage | None,
        limit: RejectLimit,
        result: TaskResult,
        deadline: float,
        *,
        marked: bool,
        refused: Callable[[Sequence[Written]], str | None] | None = None,
    ) -> None:
        """`deadline`: when the task ends, in seconds of the monotonic clock.

        `marked`, `refused`: see `ChunkEncoder`.
        """
        setup, reader, progress = state.setup, state.clients.reader(), result.progress
        decoder = ChunkDecoder(setup.source, state.columns)
        self._task = task
        self._state = state
        self._result = result
        self._deadline = deadline
        self._reader = reader
        self._tombstones = LoneTombstones(setup)
        self.within = False
        """True if what was read last has one position with what follows, so that a commit would be no progress."""
        self._reading = RangeReading(reader, setup.source.wanted, result.telemetry)
        self.changelog = Changelog(setup.scope, task.ids, reader, decoder) if setup.changelog else None
        """None if inserts and updates need not be told apart."""
        self._ahead = LookAhead(SchemaObserver(setup, state.schemas, progress), limit, setup.look_ahead, progress)
        self._encoder = ChunkEncoder(
            native, decoder, self.changelog, state.records.cache, self._ahead, limit, marked=marked,
            refused=refused,
        )  # fmt: skip

    def prepare(self, positions: dict[Split, int]) -> None:
        """Bring the changelog to where the task begins. That may take long, and does not count. Raises IngestError."""
        if self.changelog is not None:
            self.changelog.prepare(positions)
            self._deadline = time.monotonic() + self._task.seconds

    def read(self, positions: Mapping[Split, int], ends: Mapping[Split, int]) -> Generator[ReadChunk | None]:
        """Yield chunks from positions on up to others, and None when nothing came for a moment. Raises IngestError."""
        return self._reading.chunks({split: (positions[split], end) for split, end in ends.items()})

    def encode(self, chunk: ReadChunk) -> Generator[EncodedPart]:
        """Yield what becomes of a chunk, part by part: see `ChunkEncoder.parts`."""
        self.within = chunk.more
        for part in self._encoder.parts(chunk):
            self._tombstones.tell(chunk, part)
            if part.changes:
                taken = part.stop - part.start
                messages = part.messages[part.start : part.stop]
                self._result.telemetry.decoded(messages, part.changes[:taken], self._state.schemas.sources)
            yield part

    @property
    def stopped(self) -> bool:
        """True if a split has stopped before the end of its range, at a reject or at a drift."""
        return self._result.progress.stopped_by_reject or bool(self._ahead.stopped)

    def ended(self) -> bool:
        """Return whether the task is to end here: at a reject too many, at its time, or when nothing more is new."""
        now = time.monotonic()
        late = now > self._deadline and not self.within
        return self._result.progress.stopped_by_reject or late or self._ahead.ended(now)

    def pass_gaps(self, positions: dict[Split, int]) -> None:
        """Move the positions over gaps at the end of ranges: no record there shows how far they were read."""
        if self._result.progress.stopped_by_reject:
            return
        for split, position in positions.items():
            if split not in self._ahead.stopped:
                positions[split] = max(position, self._reading.position(split))

    def keep_rows(self, positions: dict[Split, int]) -> None:
        """Keep the rows of the changelog up to these positions, if there is one. Raises Unavailable."""
        if self.changelog is not None:
            self.changelog.commit(positions)

    def close(self) -> None:
        """Close the changelog; what of it was not committed is forgotten. Keep the reports of the reader's client."""
        self._result.telemetry.reports += reports(self._reader)
        if self.changelog is not None:
            self.changelog.close()

"""Writing: encoded records go to the sink's writer, and what else became of messages is counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingest.errors import PartitionerError
from ingest.model.commit import RowsRefused
from ingest.model.record import offset_of

if TYPE_CHECKING:
    from ingest.model.record import Split
    from ingest.sinks import Writer
    from ingest.task.encoded import EncodedPart
    from ingest.task.reading import ReadChunk
    from ingest.task.rejects import Rejects
    from ingest.task.result import TaskResult


class WriteStage:
    """The way of encoded parts to the sink."""

    def __init__(
        self, writer: Writer, rejects: Rejects, left_out: str, positions: dict[Split, int], result: TaskResult
    ) -> None:
        """`left_out`: the reason that records are counted by which the pipeline does not want.

        `positions`: how far each split is written; this stage keeps them.
        """
        self._writer = writer
        self._rejects = rejects
        self._left_out = left_out
        self._positions = positions
        self._counters, self._telemetry = result.counters, result.telemetry
        self.within: set[Split] = set()
        """Splits of which records are written whose position others have as well that are not: a commit is no progress
        there, and would leave in the sink what is read again."""

    def write(self, split: Split, part: EncodedPart) -> None:
        """Write the records of a part, and account for the rest. Raises IngestError."""
        self._telemetry.sent(part.records)
        try:
            self._writer.write(part.records)
            for reject in part.rejects:
                self._rejects.add(split, reject)
        except PartitionerError as exc:
            raise exc.read_from(*split, self._first(part), part.position) from exc
        except RowsRefused:
            self._positions[split] = max(part.position, part.end)  # those at fault are before it
            raise
        for reason, count in part.skipped.items():
            self._counters.skip(reason, count)
        self._counters.read += part.stop - part.start
        self._positions[split] = part.position
        if part.within:
            self.within.add(split)
        elif part.stop > part.start:
            self.within.discard(split)

    @staticmethod
    def _first(part: EncodedPart) -> int:
        """Return the offset of the first message of a part."""
        return offset_of(part.messages[part.start]) if part.start < part.stop else part.position - 1

    def leave_out(self, chunk: ReadChunk) -> None:
        """Account for the records of a chunk that are not wanted, as far as its split is written."""
        count = len(chunk.left_out_before(self._positions[chunk.split]))
        self._counters.skip(self._left_out, count)
        self._counters.read += count

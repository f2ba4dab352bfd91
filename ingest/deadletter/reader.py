"""A task's side of dead letters as a source: reads ranges of their topic, and gives what is selected."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from ingest.deadletter.dead_letter import DeadLetter
from ingest.deadletter.letter import PREFIX

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from ingest.deadletter.source import LetterSource
    from ingest.kafka.admin import Split
    from ingest.kafka.reader import RangeReader
    from ingest.model.client_report import ClientReport
    from ingest.model.record import Record


@dataclass(slots=True)
class LetterChunk:
    """Consecutive selected letters of one split whose originals were of one topic."""

    split: Split
    topic: str
    messages: list[DeadLetter]


@dataclass(slots=True)
class LetterReader:
    """Reads ranges of the topic, and gives what is selected."""

    source: LetterSource
    reader: RangeReader

    def read(self, ranges: Mapping[Split, tuple[int, int]]) -> Generator[LetterChunk | None]:
        """Yield chunks of selected letters, and None when there is none among those that came."""
        reading = self.reader.read(ranges)
        try:
            for chunk in reading:
                if chunk is None:
                    yield None
                    continue
                found = [letter for m in chunk.messages if (letter := self._selected(chunk.split, m)) is not None]
                if not found:
                    yield None
                for topic, group in groupby(found, key=DeadLetter.topic):
                    yield LetterChunk(chunk.split, topic, [*group])
        finally:
            reading.close()

    def _selected(self, split: Split, message: Record) -> DeadLetter | None:
        reject = {
            name.removeprefix(PREFIX): (value or b"").decode("utf-8", "replace")
            for name, value in message.headers() or []
            if name.startswith(PREFIX)
        }
        source = self.source
        if reject.get("pipeline", source.pipeline) != source.pipeline or "topic" not in reject:
            return None
        offset = message.offset() or 0
        if not source.selection.matches(reject) or any(replay.has(split, offset, reject) for replay in source.earlier):
            return None
        return DeadLetter(message, reject)

    def position(self, split: Split) -> int:
        """Return the next position that this split's range would give."""
        return self.reader.position(split)

    def report(self) -> ClientReport | None:
        """Return what the client told since the last call; None where that is nothing."""
        return self.reader.report()

    def first(self, split: Split) -> int:
        """Return the first position that a split still has."""
        return self.reader.first(split)

    def close(self) -> None:
        """Let go of the connections."""
        self.reader.close()

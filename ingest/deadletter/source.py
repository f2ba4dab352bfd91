"""Dead letters as a source: the records that a pipeline rejected, as they were, back on their way.

In: the topic of dead letters, and which of them. Out: records that say of themselves what the original ones did; only
their position is the letter's. Rules: docs/spec/dirty-data.md#replays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ingest.deadletter.coordinator import LetterCoordinator
from ingest.deadletter.reader import LetterReader, Originals
from ingest.kafka.reader import RangeReader
from ingest.model.change import NOT_SELECTED
from ingest.sources.derived import DerivedSource
from ingest.sources.stateful import with_letters_of_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ingest.deadletter.selection import Replayed, Selection
    from ingest.formats import Decoder
    from ingest.model.record import Split


@dataclass(frozen=True)
class LetterSource(DerivedSource):
    """The pipeline's source, but for where its records come from."""

    letters_topic: str
    conf: Mapping[str, str]
    pipeline: str
    selection: Selection
    earlier: tuple[Replayed, ...] = ()

    left_out: ClassVar[str] = NOT_SELECTED
    only: ClassVar[None] = None
    upserts: ClassVar[bool] = False
    rate_limit: ClassVar[None] = None
    wanted: ClassVar[None] = None
    tolerated: ClassVar[int] = 1 << 62
    """The number of rejects that a replay tolerates: any, as what is rejected again is a new letter."""

    def decoder(self, split: Split, topic: str) -> Decoder:
        """Return the pipeline's decoder for records of a topic. Raise IngestError."""
        return self.source.decoder(split, topic)

    def coordinator(self, _pipeline: str, warn: Callable[[str], None]) -> LetterCoordinator:
        """Return the driver's side; `warn` gets to know that the cluster does not answer yet."""
        return LetterCoordinator(self, warn)

    def reader(self, _pipeline: str) -> LetterReader:
        """Return a task's side."""
        rows = with_letters_of_rows(self.source)
        if rows is not None:
            return LetterReader(self, RangeReader(self.conf), None, rows.letter_rows().of)
        return LetterReader(self, RangeReader(self.conf), Originals(lambda: self.source.reader(self.pipeline)))

    def lister(self) -> LetterReader:
        """Return a reader of letters as their topic has them."""
        return LetterReader(self, RangeReader(self.conf), None)

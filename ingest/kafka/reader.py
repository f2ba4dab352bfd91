"""Pulls ranges of splits, for one shard at a time, in one consumer that a worker keeps.

In: ranges. Out: chunks, each of one split, in order, cut at the range's end. A range ends by the consumer's position,
never by counting: compaction, transaction markers and aborted records leave gaps. Commits nothing, decodes nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from typing import Final, Self

from confluent_kafka import KafkaError, KafkaException

from ingest.errors import DataLoss, TopicMissing
from ingest.kafka.failures import explain, is_access, is_away, refuse
from ingest.kafka.handle import make_consumer
from ingest.kafka.properties import BOOTSTRAP, LOG_LEVEL
from ingest.model.commit import ClientReport
from ingest.model.record import Chunk, Record, Split, offset_of

CHUNK: Final = 1_000
"""Records pulled at a time, at most: few enough to be in the processor's cache until they are written."""
FIRST_S: Final = 20.0
WAIT_MS: Final = 100
"""The time that a pull waits for records, in milliseconds."""
CLOSE_S: Final = 10.0

DEFAULTS: Final = {
    "fetch.message.max.bytes": "524288",
    "fetch.max.bytes": "8388608",
    "queued.max.messages.kbytes": "4096",
    "queued.min.messages": "100000",
    "fetch.queue.backoff.ms": "5",
    "fetch.wait.max.ms": "10",
    "isolation.level": "read_committed",
}
"""Properties of a consumer where the pipeline does not say otherwise.

Small fetches and a short queue: what is prefetched past a range's end is thrown away, and records that are still in
the processor's cache are decoded twice as fast (bench/README.md). A short wait: a fetch that waits at the end of one
range keeps the next batch's first fetch back.
"""


class RangeReader:
    """One consumer; `read` may be called again and again, for other ranges each time."""

    stateful: None = None
    is_sample = False

    def __init__(self, conf: Mapping[str, str], metadata: Collection[str] = ()) -> None:
        """Make the consumer; raises ConfigError for properties that librdkafka does not take.

        `metadata`: what native code will ask of records, beside keys and values (`metadata.list`).
        """
        self._metadata = metadata
        self._servers = conf[BOOTSTRAP]
        self._last: KafkaError | None = None
        try:
            self.consumer = make_consumer(
                {
                    **DEFAULTS,
                    **conf,
                    "enable.auto.commit": False,
                    "enable.auto.offset.store": False,
                    "auto.offset.reset": "error",
                    **LOG_LEVEL,
                }
            )
        except (KafkaException, ValueError, TypeError) as exc:
            raise refuse(exc, "source", self._servers) from exc

    def read(self, ranges: Mapping[Split, tuple[int, int]]) -> Generator[Chunk | None]:
        """Yield chunks until every range is read, and None when nothing came for a moment. Raises IngestError.

        The caller may stop early; `stop` ends one range, `position` says how far one was read.
        """
        self._ends = {split: end for split, (start, end) in ranges.items() if start < end}
        starts = {split: ranges[split][0] for split in self._ends}
        self._position = {split: start for split, (start, _) in ranges.items()}
        self._last = None
        self.consumer.assign(starts)
        try:
            while self._ends:
                yield from self._pull()
        finally:
            self._ends.clear()
            self.consumer.unassign()

    def _pull(self) -> Iterator[Chunk | None]:
        left = sum(end - self._position[split] for split, end in self._ends.items())
        by_split = self._take(min(CHUNK, max(left, 1)))
        for split, records in by_split.items():
            end = self._ends.get(split)
            if end is None:
                continue
            last = offset_of(records[-1])
            if last >= end:
                records = records[: bisect_left(records, end, key=offset_of)]  # noqa: PLW2901
            if records:
                self._position[split] = offset_of(records[-1]) + 1
                yield Chunk(split, split[0], records)
            if last >= end - 1:
                self.stop(split)
                self._position[split] = max(self._position[split], end) if split in self._position else end
        if sum(map(len, by_split.values())) < CHUNK:
            self._pass_gaps()
        if not by_split:
            if self._last is not None and (is_access(self._last) or not is_away(self._last)):
                raise explain(self._last, "read", self._servers)
            yield None

    def _take(self, most: int) -> Mapping[Split, Sequence[Record]]:
        """Return records that have come, of each split in order; raises IngestError for an error among them."""
        batches, failed = self.consumer.consume(most, WAIT_MS, self._metadata)
        for error in self.consumer.errors():
            self._last = error
        if batches:
            self._last = None  # whatever it was is over
        for topic, partition, error in failed:
            self._check(error, (topic, partition))
        return {(topic, partition): records for topic, partition, records in batches}

    def _pass_gaps(self) -> None:
        """End the ranges whose last offsets hold no record."""
        if not self._ends:
            return
        for split, offset in self.consumer.positions(list(self._ends)).items():
            if offset >= self._ends[split]:
                self._position[split] = self._ends[split]
                self.stop(split)

    def _check(self, error: KafkaError, split: Split) -> None:
        if is_away(error):
            self._last = error
            return
        position = self._position.get(split)
        where = "" if position is None else f" at offset {position}"
        failed = explain(error, f"read {split[0]}[{split[1]}]{where}", self._servers)
        if isinstance(failed, TopicMissing):  # it was there when its range was planned
            hint = "the topic was deleted while it was read; set scan.on-data-loss to earliest or latest to go on"
            raise DataLoss(failed.message, hint) from failed
        raise failed

    def stop(self, split: Split) -> None:
        """Pull no more of this split."""
        if self._ends.pop(split, None) is not None:
            self.consumer.remove(*split)

    def position(self, split: Split) -> int:
        """Return the next offset that this split's range would give."""
        return self._position[split]

    def first(self, split: Split) -> int:
        """Return the first offset that a split still has; raises IngestError."""
        try:
            return self.consumer.watermarks(*split, FIRST_S)[0]
        except KafkaException as exc:
            raise explain(exc, f"ask for the first offset of {split[0]}[{split[1]}]", self._servers) from exc

    @property
    def reporting(self) -> Self:
        """Itself: its client has logs and statistics."""
        return self

    def report(self) -> ClientReport | None:
        """Return what the client told since the last call; None where that is nothing."""
        return ClientReport.of(self.consumer, "consumer")

    def close(self) -> None:
        """Release the connections. Records that were read may be there for longer."""
        self.consumer.close(CLOSE_S)

"""The numbers of partitions over which a sink hashes keys: a topic's own, when the checkpoint first wrote to it.

In: the sink's topics as they are now, and the numbers that the checkpoint has. Out: the numbers that workers go by, and
a warning where a topic has more partitions by now. Rules: docs/spec/sinks.md#topics-of-the-sinks-in-kafka.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from ingest.checkpoint.checkpoint import KeptPartitions
from ingest.errors import IngestError
from ingest.model.record import NO_ID, is_another
from ingest.observe.events import TopicGrown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ingest.checkpoint.checkpoint import Checkpoint
    from ingest.driver.context import RunContext
    from ingest.kafka.admin import Topic
    from ingest.model.table import TableId
    from ingest.sinks import SinkCoordinator

LOOK_S: Final = 60.0
"""How often a run looks whether topics have grown, in seconds."""


class KeyPartitions:
    """The numbers of one run, by topic."""

    def __init__(
        self,
        context: RunContext,
        sink: SinkCoordinator,
        checkpoint: Checkpoint,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Know no topic yet. `clock`: returns seconds."""
        self._context = context
        self._sink = sink
        self._checkpoint = checkpoint
        self._clock = clock
        self._looked = clock()
        self._tables: set[TableId] = set()
        self._grown: dict[str, int] = {}
        """By topic: the partitions that were told of."""
        self.counts: dict[str, int] = {}
        """By topic: over how many partitions keys are hashed. It is replaced where it changes."""

    def take(self, tables: Iterable[TableId]) -> None:
        """Take the numbers of tables' topics from the checkpoint, and store those of new ones; raises IngestError."""
        wanted = {*tables}
        self._tables |= wanted
        self._compare(self._sink.hashed(wanted))

    def look(self) -> None:
        """Look now and then whether a topic has grown, or was made again, as far as the cluster answers."""
        now = self._clock()
        if now - self._looked < LOOK_S or not self.counts:
            return
        self._looked = now
        try:
            found = self._sink.hashed(self._tables, again=True)
        except IngestError:
            return  # the batch that comes next says more
        self._compare(found)

    def _compare(self, found: Mapping[str, Topic]) -> None:
        if not found:
            return
        stored = self._checkpoint.partitions()
        new = {}
        for name, topic in found.items():
            known = stored.get(name)
            # A topic never loses partitions: with fewer it is another one, whatever its id says
            if known is None or is_another(known.id, topic.id) or topic.partitions < known.partitions:
                new[name] = KeptPartitions(topic.id, topic.partitions)
            elif topic.id not in {known.id, NO_ID}:
                new[name] = KeptPartitions(topic.id, known.partitions)
        if new:
            self._checkpoint.keep_partitions({**stored, **new})
        counts = {name: (new.get(name) or stored[name]).partitions for name in found}
        if any(self.counts.get(name) != count for name, count in counts.items()):
            self.counts = {**self.counts, **counts}
        for name, topic in sorted(found.items()):
            self._tell(name, counts[name], topic.partitions)

    def _tell(self, topic: str, used: int, there: int) -> None:
        """Say where a topic has got partitions, or has not any more, since that was said last."""
        if self._grown.get(topic, used) == there:
            return
        self._grown[topic] = there
        self._context.observer(TopicGrown(topic, there - used))
        if there > used:
            self._context.warn(
                f"topic {topic} has {there} partitions by now, and keys go to the first {used}, which it had when this "
                f"checkpoint first wrote to it: so each key stays in its partition. Readers that rely on "
                f"co-partitioning with a topic of {there} partitions do not find its keys where they look. To use all "
                f"{there}: ingest checkpoint reset FILE --partitions {topic}; new records of a key may then be in "
                "another partition than its older ones"
            )

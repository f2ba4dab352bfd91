"""The sink's tables: made ready, told of changes and comments; over how many partitions keys go; which lack rows.

`KeyPartitions`: a topic's keys go to as many partitions as it had when the checkpoint first wrote to it, and a warning
tells where it has more by now (docs/spec/sinks.md#topics-of-the-sinks-in-kafka). `TablePlaces`: a route, or an option
of the sink, may give a table another place while the checkpoint stays. The pipeline goes on where it was, so that the
new place begins without the earlier rows (docs/spec/delivery.md#backfills).
"""

from __future__ import annotations

import time
from shlex import quote
from typing import TYPE_CHECKING, Any, Final

from ingest.checkpoint.backfills import backfill_notes
from ingest.checkpoint.checkpoint import Checkpoint, KeptPartitions, KeptPlaces, Place
from ingest.errors import ConfigError, IngestError
from ingest.model.record import NO_ID, is_another
from ingest.model.table import TableId, TableLayout, show
from ingest.model.text import one_line
from ingest.observe.events import Observer, Printed, TopicGrown, Warned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ingest.config.pipeline import Pipeline
    from ingest.driver.context import RunContext
    from ingest.kafka.admin import Topic
    from ingest.model.schema import SchemaChange, StoredTypes, TableComments, TableSchema
    from ingest.schema.evolve import Schemas, SourceTable
    from ingest.sinks import Announcer, SinkCoordinator
    from ingest.sources import SourceCoordinator


class SinkTables:
    """The sink, as far as its tables go."""

    def __init__(
        self,
        sink: SinkCoordinator,
        source: SourceCoordinator,
        observer: Observer,
        keys: KeyPartitions,
        *,
        same_cluster: bool,
    ) -> None:
        """`same_cluster`: whether the source could read what the sink writes."""
        self.keys = keys
        self.comments = SinkComments(sink, observer)
        self._sink = sink
        self._source = source
        self._observer = observer
        self._same_cluster = same_cluster

    def prepare(self, tables: Iterable[TableId]) -> None:
        """Make sure that tables can be written to; raises ConfigError where the pipeline would read what it writes."""
        wanted, topics = list(tables), self._sink.topics
        if self._same_cluster and topics is not None:
            for topic in topics.topics_of(wanted):
                if self._source.reads(topic):
                    msg = f"the pipeline reads what it writes: topic {topic} is one of its source's and of its sink's"
                    raise ConfigError(msg, "route its tables to other topics, or change source.topic or topic-pattern")
        if self._sink.places is not None:
            self._sink.places.prepare(wanted, dry_run=False)
        self.keys.take(wanted)

    def vanished(self, tables: Iterable[TableId]) -> set[str]:
        """Return what does not exist of tables that were written before, each with a word for what it is.

        Raise TopicMissing for a topic that may not be created.
        """
        if self._sink.topics is not None:
            return {f"topic {topic}" for topic in self._sink.topics.missing(tables)}
        return set() if self._sink.batches is None else self._sink.batches.vanished(tables)

    def arrange(self, layouts: Mapping[TableId, TableLayout]) -> None:
        """Tell the sink how tables are laid out that it creates."""
        if self._sink.tables is not None:
            self._sink.tables.arrange(layouts)

    def declare(self, schemas: Mapping[TableId, TableSchema]) -> StoredTypes:
        """Create or change the schemas of tables, before their rows are written; raises IngestError.

        Returns by which types its tables keep numbers, where these are others.
        """
        if self._sink.schemas is not None:
            self._sink.schemas.declare(schemas)
        return {} if self._sink.tables is None else self._sink.tables.stored

    def additions(self, delivered: Sequence[Any]) -> list[Any] | None:
        """Return what the driver is to commit for a batch; None where there is nothing."""
        return None if self._sink.batches is None else self._sink.batches.additions(delivered)

    def add(self, scope: str, batch: int, additions: list[Any]) -> Mapping[str, int]:
        """Commit these additions to tables that do not have them yet; raises IngestError.

        Returns, by reason, how many changes were left out.
        """
        return {} if self._sink.batches is None else self._sink.batches.add(scope, batch, additions)

    def empty(self, table: TableId) -> bool:
        """Delete all rows of a table; returns False where the sink cannot. Raise IngestError."""
        return self._sink.rows is not None and self._sink.rows.empty(table)

    def keep_only(self, table: TableId, schema: TableSchema, keys: Iterator[Sequence[bytes]]) -> int | None:
        """Delete all rows of a table but those of these keys; returns how many, None where the sink cannot.

        Raise IngestError.
        """
        return None if self._sink.rows is None else self._sink.rows.keep_only(table, schema, keys)

    def marks(self) -> list[Any]:
        """Return what the checkpoint is to keep of the tables that were written to."""
        return [] if self._sink.batches is None else self._sink.batches.marks()

    def show_changes(self, events: Iterable[SchemaChange]) -> None:
        """Show lines for schema changes, where the sink has any."""
        if self._sink.announcer is not None:
            self._show(self._sink.announcer, self._sink.announcer.changed(events))

    def show_rows(self, delivered: Iterable[Any]) -> None:
        """Show lines for what a task delivered, where the sink has any."""
        if self._sink.announcer is not None:
            self._show(self._sink.announcer, self._sink.announcer.lines(delivered))

    def _show(self, announcer: Announcer, lines: list[str]) -> None:
        if lines:
            self._observer(Printed(announcer.stream, tuple(lines)))


def filled_places(sink: SinkCoordinator, tables: Iterable[TableId]) -> set[str] | None:
    """Return what has rows of these tables, each with a word for what it is; None where the sink does not know."""
    keeper = sink.places or sink.tables
    return None if keeper is None else keeper.filled(tables)


class SinkComments:
    """The comments of one run's tables."""

    def __init__(self, sink: SinkCoordinator, observer: Observer) -> None:
        self._sink = sink
        self._observer = observer
        self._known: dict[TableId, TableComments] = {}
        self._changed: set[TableId] = set()
        """Source tables that have changed since comments were given on."""
        self._told: set[str] = set()

    def changed(self, tables: Iterable[TableId]) -> None:
        """Note that tables have changed: the sink's may have been rewritten, without comments."""
        self._changed.update(tables)

    def give(self, comments: Iterable[tuple[TableId, TableComments]], schemas: Schemas) -> None:
        """Let sink tables have the comments of their source tables, where these or the tables have changed.

        One with rows of several source tables has none. Raise IngestError.
        """
        new = dict(comments)
        self._known |= new
        wanted, self._changed = {*new, *self._changed} & self._known.keys(), set()
        for table in sorted(wanted):
            source, comment = schemas.sources.get(table), self._known[table]
            for target in () if source is None else source.targets:
                shared = any(target in other.targets for name, other in schemas.sources.items() if name != table)
                schema = schemas.sinks.get(target)
                if schema is None or (comment.table is None and not comment.columns):
                    continue
                if shared or self._sink.comments is None:
                    self._tell(target, "rows of other tables are there, too" if shared else "the sink keeps none")
                else:
                    self._sink.comments.comment(target, schema, comment)

    def _tell(self, target: TableId, why: str) -> None:
        if why not in self._told:
            self._told.add(why)
            text = f"comments of {show(target)} and its columns are left out: {why} (said once)"
            self._observer(Warned(text))


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
        """`clock`: returns seconds."""
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
        if self._sink.topics is not None:
            self._compare(self._sink.topics.hashed(wanted))

    def look(self) -> None:
        """Look now and then whether a topic has grown, or was made again, as far as the cluster answers."""
        now = self._clock()
        if now - self._looked < LOOK_S or not self.counts or self._sink.topics is None:
            return
        self._looked = now
        try:
            topics = self._sink.topics.hashed(self._tables, again=True)
        except IngestError:
            return  # the batch that comes next says more
        self._compare(topics)

    def _compare(self, topics: Mapping[str, Topic]) -> None:
        if not topics:
            return
        stored = self._checkpoint.partitions()
        new = {}
        for name, topic in topics.items():
            existing = stored.get(name)
            # A topic never loses partitions: with fewer it is another one, whatever its id says
            if existing is None or is_another(existing.id, topic.id) or topic.partitions < existing.partitions:
                new[name] = KeptPartitions(topic.id, topic.partitions)
            elif topic.id not in {existing.id, NO_ID}:
                new[name] = KeptPartitions(topic.id, existing.partitions)
        if new:
            self._checkpoint.keep_partitions({**stored, **new})
        counts = {name: (new.get(name) or stored[name]).partitions for name in topics}
        if any(self.counts.get(name) != count for name, count in counts.items()):
            self.counts = {**self.counts, **counts}
        for name, topic in sorted(topics.items()):
            self._tell(name, counts[name], topic.partitions)

    def _tell(self, topic: str, used: int, count: int) -> None:
        """Say where a topic has got partitions, or has not any more, since that was said last."""
        if self._grown.get(topic, used) == count:
            return
        self._grown[topic] = count
        self._context.observer(TopicGrown(topic, count - used))
        if count > used:
            self._context.warn(
                f"topic {topic} has {count} partitions by now, and keys go to the first {used}, which it had when this "
                f"checkpoint first wrote to it: so each key stays in its partition. Readers that rely on "
                f"co-partitioning with a topic of {count} partitions do not find its keys where they look. To use all "
                f"{count}: ingest checkpoint reset FILE --partitions {topic}; new records of a key may then be in "
                "another partition than its older ones"
            )


_TOLD: Final = 20
"""Number of tables that lack rows for which a warning of their own is shown."""


class TablePlaces:
    """The places of the tables of one checkpoint."""

    def __init__(self, context: RunContext, checkpoint: Checkpoint) -> None:
        self._context = context
        self._checkpoint = checkpoint
        self._known: dict[str, KeptPlaces] = {}
        self._stored: dict[str, KeptPlaces] = {}

    def take_over(self, stored: Schemas) -> None:
        """Read what the checkpoint has. Of what it lacks, sink tables that it knows are where they were.

        Raises CheckpointError.
        """
        self._stored = self._checkpoint.places()
        self._known = dict(self._stored)
        for table, source in stored.sources.items():
            if show(table) not in self._known:
                known = [target for target in source.targets if target in stored.sinks]
                self._known[show(table)] = KeptPlaces(self._places(known), [])

    def settle(self, sources: Mapping[TableId, SourceTable]) -> None:
        """Take the places that tables have now, tell those that lack rows, and store all. Raises CheckpointError.

        A run tells those that it is the first to see, a plan all of them.
        """
        newly_lacking: list[tuple[TableId, Place]] = []
        for table, source in sources.items():
            now, before = self._places(source.targets), self._known.get(show(table))
            if before is None:
                self._known[show(table)] = KeptPlaces(now, [])
                continue
            lacking = [place for place in now if place not in before.whole]
            again = self._checkpoint.untouched
            newly_lacking += [(table, place) for place in lacking if again or place not in before.lacking]
            self._known[show(table)] = KeptPlaces([place for place in now if place in before.whole], lacking)
        self._tell(newly_lacking)
        self.store()

    def _tell(self, lacking: Sequence[tuple[TableId, Place]]) -> None:
        for table, (target, place) in lacking[:_TOLD]:
            where = target if place in {"", target} else f"{target} ({place})"
            self._context.warn(
                f"table {where} lacks the rows of {show(table)} that were read before: it is new to them, and this "
                f"pipeline goes on where it was. What brings them: {command(self._context.pipeline, [table])}"
            )
        if len(lacking) > _TOLD:
            more = f"{len(lacking) - _TOLD} more tables lack the rows that were read before"
            self._context.warn(f"{more}: ingest checkpoint show {quoted(self._context.pipeline.file)}")

    def tell_unfinished(self) -> None:
        """Warn of backfills that were begun and not finished: rows may be older than they were."""
        for note in backfill_notes(self._checkpoint).values():
            if not note.finished:
                again = command(self._context.pipeline, note.tables)
                self._context.warn(
                    f"a backfill of {', '.join(map(show, note.tables))} has not come to its end, so that rows may be "
                    f"older than they were before it: go on with {again}"
                )

    def have_all(self, sources: Mapping[TableId, SourceTable]) -> None:
        """Note that all places of these tables have all of their rows, and store that. Raises CheckpointError."""
        self._known.update({show(t): KeptPlaces(self._places(of.targets), []) for t, of in sources.items()})
        self.store()

    def store(self) -> None:
        """Store what is known, where that is new. Raises CheckpointError."""
        if self._known != self._stored:
            self._checkpoint.keep_places(self._known)
            self._stored = dict(self._known)

    def _places(self, targets: Iterable[TableId]) -> list[Place]:
        return [(show(table), self._context.pipeline.sink.place_of(table)) for table in targets]


def command(pipeline: Pipeline, tables: Iterable[TableId]) -> str:
    """Return the command that brings the rows of tables."""
    # A table may have any name, and people copy commands
    return f"ingest backfill {quoted(pipeline.file)} " + " ".join(f"--table {quoted(show(table))}" for table in tables)


def quoted(name: str) -> str:
    """Return a name as one word of a command."""
    return quote(one_line(name))


def remedy(pipeline: Pipeline, tables: Iterable[TableId]) -> str:
    """Return what reads the rows of source tables again, where those of a sink table are gone."""
    known = [*tables]
    if not known:
        return "to have them, start over with another --checkpoint"
    if pipeline.sink.capabilities.keeps_states:
        return f"to have them, empty the table; then {command(pipeline, known)} reads all of its rows again"
    return f"{command(pipeline, known)} reads them again"

"""One file per sink: its options, its writer, its table evolution.

A writer lives in a task, for one shard. Data and progress commit together: see `Writer`.
Third parties add theirs under the entry point `ingest.sinks`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol, Self

from ingest.component.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from ingest.encode.upsert_encoder import Record, TableEncoder
    from ingest.kafka.admin import Topic
    from ingest.model.commit import CommitScope, ResumePoint
    from ingest.model.layout import TableLayout
    from ingest.model.numbers import Numbers
    from ingest.model.probe import SideProbe
    from ingest.model.record import Split
    from ingest.model.schema import SchemaChange, StoredTypes, TableComments, TableSchema
    from ingest.model.table import TableId
    from ingest.schema.evolve import SourceTable
    from ingest.schema.infer import Inference
    from ingest.sinks.sink import SinkOptions


class Writer(Protocol):
    """Writes the records of one shard. After `commit` returned, a crash loses none of what was written before it."""

    @property
    def failures(self) -> int:
        """Records that were lost, which only the guarantee `none` goes on after."""

    def begin(self, scope: CommitScope) -> ResumePoint | None:
        """Get ready to write; return how far an earlier attempt at the scope came, if that is known (exactly-once)."""

    def write(self, records: Sequence[Record]) -> None:
        """Take records, or none; blocks while too much is under way. Raises IngestError, also for records before.

        Raises RowsRefused as `commit` does.
        """

    def commit(self, positions: Mapping[Split, int], metadata: bytes, *, final: bool) -> None:
        """Make durable all that was written up to these positions. Raises IngestError; then the outcome is unknown.

        Raises RowsRefused where nothing of it is committed because of records that are at fault themselves. After that
        `abort` is called, and records come again from the last commit on, without another `begin`.

        `metadata`: the counters so far, at most 1,000 bytes of text, for whoever resumes. `final`: the task ends here,
        wherever that is.
        """

    def delivered(self) -> list[Any]:
        """Return the part of what was committed that the driver is to get; once."""

    def abort(self) -> None:
        """Give up what was written since the last commit, as far as the guarantee allows."""


class SinkCoordinator(Protocol):
    """The driver's side of a sink. Raises IngestError only."""

    stream: Literal["out", "err"]
    """The stream that lines to show belong to."""

    def connect(self) -> str:
        """Return an identity of where records go."""

    def fingerprint(self, identity: str) -> dict[str, Any]:
        """Return what a checkpoint of this sink depends on."""

    def topics(self, tables: Iterable[TableId]) -> set[str]:
        """Return the topics that rows of these tables go to."""

    def hashed(self, tables: Iterable[TableId], *, again: bool = False) -> dict[str, Topic]:
        """Return those of these topics over whose partitions keys are hashed, as they were when they were looked at.

        `again`: look at them now.
        """

    def missing(self, tables: Iterable[TableId]) -> set[str]:
        """Return those of these topics that are not there."""

    def vanished(self, tables: Iterable[TableId]) -> set[str]:
        """Return what is not there of tables that were written before, each with a word for what it is."""

    def filled(self, tables: Iterable[TableId]) -> set[str] | None:
        """Return what has rows of these tables, each with a word for what it is; None: nobody knows. Makes nothing."""

    def check(self, tables: Iterable[TableId]) -> None:
        """Raise what `prepare` would raise for these tables, and warn as it would; changes nothing."""

    def prepare(self, tables: Iterable[TableId]) -> None:
        """Make sure that these tables can be written to. Idempotent: a crash may repeat it."""

    def unfit(self, table: TableId, schema: TableSchema) -> Mapping[str, str]:
        """Return the columns that its table cannot take as a schema has them, each with the reason. Changes nothing."""

    def beyond(self, table: TableId, schema: TableSchema, names: Sequence[str]) -> Collection[str]:
        """Return those of the columns that its table has as BIGINT and that hold an integer beyond ±2^53.

        Raise IngestError.
        """

    def arrange(self, layouts: Mapping[TableId, TableLayout]) -> None:
        """Take the layouts of tables that `declare` may have to make."""

    @property
    def stored(self) -> StoredTypes:
        """By table: what `declare` or `undeclared` has seen last of the types by which it keeps numbers."""

    def declare(self, schemas: Mapping[TableId, TableSchema]) -> None:
        """Tell whoever keeps them the schemas of tables, before their rows are written. Idempotent."""

    def undeclared(self, schemas: Mapping[TableId, TableSchema]) -> set[str]:
        """Return what `declare` would do, an entry each; raise what it would raise.

        Of a registry these are the subjects that get a schema, of a database the statements.
        """

    def resume(self, checkpoint: str, marks: list[Any], remedy: Callable[[TableId | None], str]) -> None:
        """Take what the checkpoint has kept of what `marks` returned, before anything else is asked of tables.

        `remedy` says what reads the rows of a sink table again, where they are not there any more.
        """

    def marks(self) -> list[Any]:
        """Return what the checkpoint is to keep of the tables that were written to, as JSON has values."""

    def acquire(self, checkpoint: str, run: int) -> None:
        """Become the only run that writes there (exactly-once)."""

    def recover_in_doubt(
        self, scope: str, number: int, planned: int, starts: Mapping[int, Mapping[Split, int]], age_s: float
    ) -> dict[int, ResumePoint]:
        """Return how far each shard has written a batch whose end no driver saw, as far as it is known (exactly-once).

        `starts`: where the ranges of each shard begin; `planned`: the run that planned the batch, `age_s` ago. Nothing
        of an older run is committed after this. Raises DataLoss where it cannot be known any more.
        """

    def begin_batch(self, batch: int, shards: int) -> None:
        """Say that a batch is about to be written; raises Fenced where a newer run has begun (exactly-once)."""

    def additions(self, delivered: Sequence[Any]) -> list[Any] | None:
        """Return what a batch adds to the sink's tables, made of what its tasks delivered, as JSON has values.

        None where tasks commit by themselves, or nothing is to be added. It is stored before `add` is called.
        """

    def add(self, scope: str, batch: int, additions: list[Any]) -> Mapping[str, int]:
        """Commit what a batch adds to tables, to those that do not have it yet (exactly-once). A crash may repeat it.

        `scope`: the owner of progress at the sink. Returns, by reason, how many changes were left out.
        """

    def empty(self, table: TableId, partitions: Mapping[str, int]) -> bool:
        """Delete all rows of a table, between two batches. A crash may repeat it.

        `partitions`: by topic, over how many partitions keys are hashed. Returns False where the sink keeps rows that
        are gone, and all are to stay: the caller says so.
        """

    def keep_only(self, table: TableId, schema: TableSchema, keys: Iterator[Sequence[bytes]]) -> int | None:
        """Delete all rows of a table but those of these keys, between two batches. A crash may repeat it.

        Tables lose them in one commit. `schema`: that of the sink table; `keys`: as an encoder makes them, some at a
        time. Returns how many rows are deleted; None where the sink keeps rows that are gone, and all are to stay.
        """

    def comment(self, table: TableId, schema: TableSchema, comments: TableComments) -> bool:
        """Let a table and its columns have comments, between two batches; returns False where the sink keeps none."""

    def changed(self, events: Iterable[SchemaChange]) -> list[str]:
        """Return lines to show for schema changes."""

    def lines(self, delivered: Iterable[Any]) -> list[str]:
        """Return lines to show for what the tasks delivered."""

    def probe(self) -> SideProbe | None:
        """Return a question that shows whether the sink answers; None where there is nothing that could be away."""

    def close(self) -> None:
        """Let go of what it holds."""


class Sink(Protocol):
    """The options model of a sink: what it offers beside what all of them have (`SinkOptions`)."""

    @property
    def needs_key(self) -> bool:
        """True if only tables with a primary key can be written."""

    @property
    def writes_keys(self) -> bool:
        """True if records are found again by their key, so that a row has to keep it."""

    @property
    def infinite_times(self) -> bool:
        """True if the sink's times have `infinity` and `-infinity`."""

    @property
    def most_per_batch(self) -> int | None:
        """Records of a shard in one batch, where the sink cannot take any number."""

    @property
    def rest_s(self) -> float:
        """The time in seconds between two batches that begin when all was read."""

    @property
    def parallelism(self) -> int | None:
        """The number of tasks that write at once, at most."""

    @property
    def numbers(self) -> Numbers:
        """What becomes of a number that no binary number is."""

    @property
    def changelog(self) -> bool:
        """True if an insert is written otherwise than an update, or the row before a change is shown."""

    @property
    def supersedes(self) -> bool:
        """True if a row that comes again takes the place of the one that is there, so that the last state stays."""

    @property
    def writes_parts(self) -> bool:
        """True if of a row it writes the columns that came, and leaves the others as they are."""

    def prefix(self, pipeline: str) -> str | None:
        """Return what the names of its transactions begin with; None where it has none."""

    def unregistered(self) -> Self:
        """Return these options for rows that are written nowhere: no schema registry is asked."""

    def encoder(
        self, table: TableId, source: SourceTable, target: TableId, sink: TableSchema, inference: Inference
    ) -> TableEncoder:
        """Return how rows of a source table are written; raises RowError for a table that cannot be."""

    def coordinator(self, pipeline: str, warn: Callable[[str], None]) -> SinkCoordinator:
        """Return the driver's side."""

    def writer(self, pipeline: str, run: int) -> Writer:
        """Return a task's side."""


SINKS: Registry[SinkOptions] = Registry(
    "ingest.sinks",
    "ingest.sinks.sink:SinkOptions",
    ("type", "encoder", "coordinator", "writer"),
    {
        "upsert-kafka": "ingest.sinks.topics.upsert_kafka:UpsertKafka",
        "kafka": "ingest.sinks.topics.kafka:KafkaSink",
        "print": "ingest.sinks.print:PrintSink",
        "values": "ingest.sinks.print:PrintSink",
        "file": "ingest.sinks.file:FileSink",
        "postgres": "ingest.sinks.postgres.postgres:PostgresSink",
        "hologres": "ingest.sinks.postgres.hologres:HologresSink",
        "iceberg": "ingest.sinks.iceberg.options:IcebergSink",
        "delta": "ingest.sinks.delta.options:DeltaSink",
    },
)
"""The sinks that come with the package, by their `type`."""

"""One file per sink: its options, its writer, its table evolution.

A writer lives in a task, for one shard. Data and progress commit together: see `Writer`.
Third parties add theirs under the entry point `ingest.sinks`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self

from ingest.component.plugins import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from ingest.encode.upsert_encoder import Record, TableEncoder
    from ingest.kafka.admin import Topic
    from ingest.model.commit import ByOne, CommitScope, LeavingOut, Reporting, ResumePoint
    from ingest.model.probe import SideProbe
    from ingest.model.record import Split
    from ingest.model.schema import SchemaChange, StoredTypes, TableComments, TableSchema
    from ingest.model.table import TableId, TableLayout
    from ingest.schema.evolve import SourceTable
    from ingest.schema.infer import Inference
    from ingest.sinks.sink import SinkCapabilities, SinkOptions


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

    def close(self) -> None:
        """Release connections and files, and give up what was not committed."""

    @property
    def leaving_out(self) -> LeavingOut | None:
        """The part that leaves changes out; None where all are written."""

    @property
    def by_one(self) -> ByOne | None:
        """The part that looks for refused records in small commits only; None where each commit finds them."""

    @property
    def reporting(self) -> Reporting | None:
        """The client that has something to tell; None where there is none."""


class TopicOwner(Protocol):
    """The driver's side of a sink whose tables are topics."""

    def topics_of(self, tables: Iterable[TableId]) -> set[str]:
        """Return the topics that rows of these tables go to."""

    def missing(self, tables: Iterable[TableId]) -> set[str]:
        """Return those of these topics that do not exist. Raise TopicMissing where the sink may create none."""

    def hashed(self, tables: Iterable[TableId], *, again: bool = False) -> dict[str, Topic]:
        """Return those of these topics over whose partitions keys are hashed, as they were when they were looked at.

        `again`: look at them now.
        """


class PlaceKeeper(Protocol):
    """The driver's side of a sink that makes a place for each table by its name alone: a topic, a directory."""

    def prepare(self, tables: Iterable[TableId], *, dry_run: bool) -> None:
        """Make sure that these tables can be written to. Idempotent: a crash may repeat it.

        `dry_run`: raise and warn as without it, but change nothing.
        """

    def filled(self, tables: Iterable[TableId]) -> set[str] | None:
        """Return the places of these tables that have rows, each with a word for what it is; None: nobody knows."""


class SchemaKeeper(Protocol):
    """The driver's side of a sink that has a schema for each table: in a database, a catalog or a schema registry."""

    def declare(self, schemas: Mapping[TableId, TableSchema]) -> None:
        """Create or change the schemas of tables, before their rows are written. Idempotent."""

    def undeclared(self, schemas: Mapping[TableId, TableSchema]) -> set[str]:
        """Return what `declare` would do, an entry each; raise what it would raise.

        Of a registry these are the subjects that get a schema, of a database the statements.
        """


class TableKeeper(Protocol):
    """The driver's side of a sink whose tables have columns with types, as those of databases and lakes."""

    @property
    def stored(self) -> StoredTypes:
        """By table: what `declare` or `undeclared` has seen last of the types by which it keeps numbers."""

    def filled(self, tables: Iterable[TableId]) -> set[str]:
        """Return the tables that have rows, each with a word for what it is."""

    def arrange(self, layouts: Mapping[TableId, TableLayout]) -> None:
        """Take the layouts of tables that `declare` may have to create."""

    def unfit(self, table: TableId, schema: TableSchema) -> Mapping[str, str]:
        """Return the columns that its table cannot take as a schema has them, each with the reason. Changes nothing."""

    def beyond(self, table: TableId, schema: TableSchema, names: Sequence[str]) -> Collection[str]:
        """Return those of the columns that its table has as BIGINT and that hold an integer beyond ±2^53."""


class TableCommenter(Protocol):
    """The driver's side of a sink whose tables and columns have comments."""

    def comment(self, table: TableId, schema: TableSchema, comments: TableComments) -> None:
        """Set the comments of a table and its columns, between two batches."""


class RowRemover(Protocol):
    """The driver's side of a sink that can delete rows, between two batches. A crash may repeat it."""

    def empty(self, table: TableId) -> bool:
        """Delete all rows of a table; return False where the sink keeps rows that are gone."""

    def keep_only(self, table: TableId, schema: TableSchema, keys: Iterator[Sequence[bytes]]) -> int | None:
        """Delete all rows of a table but those of these keys.

        Tables lose them in one commit. `schema`: that of the sink table; `keys`: as an encoder makes them, some at a
        time. Return how many rows are deleted; None where the sink keeps rows that are gone.
        """


class TransactionOwner(Protocol):
    """The driver's side of a sink that keeps progress with the rows, in one transaction (exactly-once)."""

    def acquire(self, checkpoint: str, run: int) -> None:
        """Become the only run that writes there."""

    def recover_in_doubt(
        self, scope: str, number: int, planned: int, starts: Mapping[int, Mapping[Split, int]], age_s: float
    ) -> dict[int, ResumePoint]:
        """Return how far each shard has written a batch whose end no driver saw, as far as it is known.

        `starts`: where the ranges of each shard begin; `planned`: the run that planned the batch, `age_s` ago. Nothing
        of an older run is committed after this. Raise DataLoss where it cannot be known any more.
        """

    def begin_batch(self, batch: int, shards: int) -> None:
        """Announce that a batch is about to be written. Raise Fenced where a newer run has begun."""


class BatchCommitter(Protocol):
    """The driver's side of a sink whose tasks write files, which the driver commits batch by batch (exactly-once)."""

    def resume(self, checkpoint: str, marks: list[Any], remedy: Callable[[TableId | None], str]) -> None:
        """Load the marks that the checkpoint has stored. Called before all other methods about tables.

        `remedy` returns the text that says how lost rows of a sink table are read again.
        """

    def vanished(self, tables: Iterable[TableId]) -> set[str]:
        """Return those of these tables, written before, that do not exist; each with a word for what it is."""

    def marks(self) -> list[Any]:
        """Return marks of the tables that were written to, which the checkpoint stores, as JSON values."""

    def additions(self, delivered: Sequence[Any]) -> list[Any] | None:
        """Return what a batch adds to the sink's tables, from what its tasks delivered, as JSON values.

        None where it adds nothing. It is stored in the checkpoint before `add` is called.
        """

    def add(self, scope: str, batch: int, additions: list[Any]) -> Mapping[str, int]:
        """Commit what a batch adds to tables, to those that do not have it yet. A crash may repeat it.

        `scope`: the owner of progress at the sink. Return, by reason, how many changes were left out.
        """


class Announcer(Protocol):
    """The driver's side of a sink that shows lines."""

    stream: Literal["out", "err"]

    def changed(self, events: Iterable[SchemaChange]) -> list[str]:
        """Return lines to show for schema changes."""

    def lines(self, delivered: Iterable[Any]) -> list[str]:
        """Return lines to show for what the tasks delivered."""


class SinkCoordinator(ABC):
    """The driver's side of a sink: a destination, and the roles that it has. Methods raise IngestError only.

    A role is an attribute, None where the sink does not have it. A coordinator that plays one itself says so in its
    constructor: `self.tables = self`.
    """

    topics: TopicOwner | None = None
    places: PlaceKeeper | None = None
    schemas: SchemaKeeper | None = None
    tables: TableKeeper | None = None
    comments: TableCommenter | None = None
    rows: RowRemover | None = None
    transactions: TransactionOwner | None = None
    batches: BatchCommitter | None = None
    announcer: Announcer | None = None
    probe: SideProbe | None = None
    """A question that shows whether the sink answers; None where there is nothing that could be away."""

    @abstractmethod
    def connect(self) -> str:
        """Return an identity of where records go. Changes nothing: `ingest plan` connects, too."""

    @abstractmethod
    def fingerprint(self, identity: str) -> dict[str, Any]:
        """Return what a checkpoint of this sink depends on."""

    @abstractmethod
    def close(self) -> None:
        """Release connections."""


class Sink(Protocol):
    """The options model of a sink: what it offers beside what all of them have (`SinkOptions`)."""

    @property
    def capabilities(self) -> SinkCapabilities:
        """What the sink does, by its options."""

    @property
    def parallelism(self) -> int | None:
        """The number of tasks that write at once, at most."""

    def prefix(self, pipeline: str) -> str | None:
        """Return what the names of its transactions begin with; None where it has none."""

    def unregistered(self) -> Self:
        """Return these options for rows that are written nowhere: no schema registry is asked."""

    def encoder(
        self, table: TableId, source: SourceTable, target: TableId, sink: TableSchema, inference: Inference
    ) -> TableEncoder:
        """Return how rows of a source table are written; raises RowError for a table that cannot be."""

    def coordinator(self, pipeline: str, warn: Callable[[str], None]) -> SinkCoordinator:
        """Return the coordinator that the driver asks about the sink."""

    def writer(self, pipeline: str, run: int) -> Writer:
        """Return the writer that a task writes to the sink with."""


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
        "postgres": "ingest.sinks.postgres.options:PostgresSink",
        "hologres": "ingest.sinks.postgres.options:HologresSink",
        "iceberg": "ingest.sinks.iceberg.options:IcebergSink",
        "delta": "ingest.sinks.delta.options:DeltaSink",
    },
)
"""The sinks that come with the package, by their `type`."""

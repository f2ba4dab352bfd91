"""What happens in a run, as values. The engine tells; an `Observer` shows, logs or counts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from ingest.model.commit import ClientReport
from ingest.model.standing import Standing


@dataclass(frozen=True, slots=True)
class RunStarted:
    """Everything is connected; the first batch comes next."""

    pipeline: str
    run: int
    checkpoint: str
    splits: int
    resumed: bool
    lag: int | None
    """The backlog in records; None of a database."""
    native: bool
    """True if native code has the records in the workers, from one Kafka client to the other, but for a few."""
    in_python: tuple[str, ...] = ()
    """Why it has not."""
    waiting: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """The backlog of each split, in records."""
    standing: Standing | None = None
    """Where the reading of a database stands; None where the source has records. So it is in the other events."""


@dataclass(frozen=True, slots=True)
class OptionChanged:
    """The pipeline file says something else than at the last run. None: the option is not there."""

    option: str
    before: str | None
    now: str | None

    def __str__(self) -> str:
        """Return `sink.topic.create: not set -> true`."""
        before, now = ("not set" if value is None else value for value in (self.before, self.now))
        return f"{self.option}: {before} -> {now}"


@dataclass(frozen=True, slots=True)
class BatchDone:
    """One batch is over and its progress stored. Times in seconds."""

    batch: int
    records: int
    seconds: float
    lag: int | None
    """The backlog in records; None of a database."""
    rejected: int
    cpu_s: float
    worker_rss_kib: int
    first_ack: float | None
    """When the first record was acknowledged, in seconds since the epoch."""
    standing: Standing | None = None


class TableChanges(Protocol):
    """Numbers of a table's changes and rejects."""

    read: int
    inserted: int
    updated: int
    deleted: int
    rejected: int


@dataclass(frozen=True, slots=True)
class BatchMeasured:
    """Numbers of one batch, for whoever counts. It comes before the `BatchDone` of the batch. Times in seconds."""

    records_in: int
    bytes_in: int
    records_out: int
    bytes_out: int
    tables: Mapping[str, TableChanges]
    """Changes by table, of the tables that the batch had any of."""
    table_bytes: Mapping[str, Sequence[int]]
    """By table: bytes of the messages that have its rows, and of the records that came of these rows."""
    rejects: Mapping[tuple[str, str], int]
    """Rejects by stage and code."""
    skipped: Mapping[str, int]
    """Records that stand for no row, by reason, of the run so far."""
    positions: Mapping[tuple[str, int], int]
    """The next offset to read of each split."""
    waiting: Mapping[tuple[str, int], int]
    """The backlog of each split, in records."""
    fetch_lag_s: float | None
    """How old the newest record was when it was read; None where records have no times."""
    emit_lag_s: float | None
    """How old it was when what came of it was acknowledged."""
    send_s: float
    """How long the sink took to acknowledge what was sent last."""
    commit_s: float
    """How long the driver took to add the batch to the sink's tables; zero where tasks do that."""
    failed: bool
    """True if one of its tasks has failed."""
    standing: Standing | None = None


SideName: TypeAlias = Literal["source", "sink"]


@dataclass(frozen=True, slots=True)
class SideAnswers:
    """Whether the source or the sink answers: told every few seconds, by a thread of its own."""

    side: SideName
    answers: bool
    why: str = ""
    """Why it does not."""
    away_s: float = 0.0
    """For how long it has not answered, or had not, in seconds."""
    news: bool = False
    """True if somebody should read it: it ceased to answer, another minute has passed, or it answers again."""


@dataclass(frozen=True, slots=True)
class Pending:
    """The backlog by split, in records: counted every few seconds, also while a batch runs."""

    waiting: Mapping[tuple[str, int], int]
    standing: Standing | None = None

    @property
    def records(self) -> int | None:
        """The records of all splits; None of a database."""
        return sum(self.waiting.values()) if self.standing is None else None


@dataclass(frozen=True, slots=True)
class Serving:
    """Metrics and health can be asked for."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Alive:
    """The run makes progress: told about every second, while it waits for records, or for a broker, too."""


@dataclass(frozen=True, slots=True)
class SchemaChanged:
    """A sink's table changed."""

    table: str
    change: str
    why: str = ""
    """The value that gave a column another type, and how a number stays one; an empty text where nobody knows."""

    def __str__(self) -> str:
        """Return `shop.orders> ALTER COLUMN n BIGINT -> DOUBLE, for 0.5`."""
        return f"{self.table}> {self.change}{f', {self.why}' if self.why else ''}"


@dataclass(frozen=True, slots=True)
class TopicGrown:
    """A topic of the sink has other partitions than those over which keys are hashed; a warning says so, too."""

    topic: str
    unused: int
    """Partitions that get no records by their keys."""


@dataclass(frozen=True, slots=True)
class RejectEvent:
    """A record could not go on."""

    table: str
    text: str
    stage: str
    code: str


@dataclass(frozen=True, slots=True)
class DirtyRecord:
    """A record that could not go on, for the logger of dirty data: everything about it, key and value cut short."""

    topic: str
    partition: int
    offset: int
    stage: str
    code: str
    message: str
    table: str
    key: str
    value: str
    passed: bool
    """Whether the run went on after it."""


@dataclass(frozen=True, slots=True)
class Printed:
    """Lines that the sink shows, on standard output or error."""

    stream: Literal["out", "err"]
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Warned:
    """A warning: the run goes on."""

    text: str


@dataclass(frozen=True, slots=True)
class ClientLogged:
    """A line that librdkafka logged in a worker: a warning or an error that it deals with itself."""

    client: str
    level: int
    """Syslog's: 3 is an error, 4 a warning."""
    facility: str
    text: str


@dataclass(frozen=True, slots=True)
class ClientStatistics:
    """Statistics of a client in a worker (`properties.statistics.interval.ms`), as librdkafka's own JSON."""

    client: str
    json: bytes


@dataclass(frozen=True, slots=True)
class Stopping:
    """A signal asked the run to end: the batch in progress is finished first.

    With `now` it was the second one, and the process ends when the observer returns. That event comes in a signal
    handler: the observer must not take a lock, as whoever was interrupted may hold it.
    """

    signal: str
    now: bool


@dataclass(slots=True)
class TableSummary:
    """One table's counters over a run."""

    read: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    rejected: int = 0
    schema_changes: int = 0


@dataclass(slots=True)
class RunEnded:
    """The closing summary."""

    pipeline: str
    batches: int = 0
    records: int = 0
    seconds: float = 0.0
    rejected: int = 0
    tables: dict[str, TableSummary] = field(default_factory=dict)
    skipped: Mapping[str, int] = field(default_factory=dict)
    withheld: Mapping[str, int] = field(default_factory=dict)
    """By table and column: values that did not get into the sink, because its table was not to have the column."""
    cut: Mapping[str, int] = field(default_factory=dict)
    """By table and column: times that were taken without what is finer than a microsecond."""
    unread: Mapping[str, int] = field(default_factory=dict)
    """By table and column: values of rows before a change that could not be read."""
    rounded: Mapping[str, int] = field(default_factory=dict)
    """By table and column: numbers that no binary number is, and that became the nearest one."""
    stopped: str = ""
    """Why it ended: `drained`, `signal`, or the error."""
    exit_code: int = 0
    code: str = ""
    """Name of the error in docs/errors.md; an empty text where there was none."""
    left: Mapping[str, int] | None = None
    """Records that are there and were not read, by topic, as far as positions tell; None where nobody knows."""
    standing: Standing | None = None


def client_events(reports: Iterable[ClientReport]) -> Iterator[ClientLogged | ClientStatistics]:
    """Return the events of the logs and statistics of workers' Kafka clients."""
    for report in reports:
        for level, facility, text in report.lines:
            yield ClientLogged(report.client, level, facility, text)
        if report.lost:
            yield ClientLogged(report.client, 4, "LOST", f"{report.lost} lines before these were not kept")
        if report.statistics is not None:
            yield ClientStatistics(report.client, report.statistics)


Event: TypeAlias = (
    RunStarted
    | OptionChanged
    | BatchMeasured
    | BatchDone
    | SideAnswers
    | Pending
    | Alive
    | Serving
    | SchemaChanged
    | TopicGrown
    | RejectEvent
    | DirtyRecord
    | Printed
    | Warned
    | ClientLogged
    | ClientStatistics
    | Stopping
    | RunEnded
)


class Observer(Protocol):
    """Gets every event, in order, on the driver's main thread or its planning thread.

    `Stopping`, `SideAnswers` and `Pending` come on threads of their own, beside others.
    """

    def __call__(self, event: Event, /) -> None:
        """Show, log or count it; must not raise."""

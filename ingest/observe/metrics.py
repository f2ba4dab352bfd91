"""The metrics of a run, under the names of the reference's metrics in Prometheus' form.

In: events of the run. Out: families of samples, made when somebody asks. Names of tables, partitions, reasons and codes
come from messages, so each label has a limit: what is past it is counted together.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson
from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from ingest import __version__
from ingest.model.cache import count_up
from ingest.observe import events
from ingest.observe.serving import Family

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from ingest.model.standing import Standing
    from ingest.observe.observers import Health

OTHERS: Final = "(others)"
"""The label of what is past a limit."""
MAX_SPLITS: Final = 5_000
"""Partitions that have samples of their own."""
MAX_REASONS: Final = 200
"""Reasons of skipped records, and codes of rejects, that have samples of their own."""
MAX_NAMES: Final = 100_000
"""Tables that are counted, at most."""
MAX_CLEAN: Final = 20_000
"""Labels that need not be cleaned again."""
SIDES: Final[tuple[events.SideName, ...]] = ("source", "sink")
WINDOW_S: Final = 60.0
"""The time that rates are of, in seconds."""
BUCKETS: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Upper bounds of the histograms of times, in seconds."""


@dataclass(slots=True)
class TableCounts:
    """Numbers of a table's changes since the run began."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    rejected: int = 0
    bytes_in: int = 0
    bytes_out: int = 0


class Times:
    """A histogram of times."""

    def __init__(self) -> None:
        self.sum = 0.0
        self._counts = [0] * (len(BUCKETS) + 1)

    def add(self, seconds: float) -> None:
        """Count a time."""
        self.sum += seconds
        self._counts[sum(bound < seconds for bound in BUCKETS)] += 1

    def buckets(self) -> list[tuple[str, float]]:
        """Return how many times were at most as long as each bound."""
        total, out = 0, []
        for bound, count in zip((*map(str, BUCKETS), "+Inf"), list(self._counts), strict=True):
            total += count
            out.append((bound, float(total)))
        return out


@dataclass(slots=True)
class Flow:
    """Records or bytes on one side."""

    total: int = 0
    _recent: deque[tuple[float, int]] = field(default_factory=deque)
    """When a batch ended, and the total before it."""
    _lock: Lock = field(default_factory=Lock)
    """Held by batches and by whoever asks, who may be several."""

    def add(self, count: int, now: float) -> None:
        """Count what a batch brought that ended now."""
        with self._lock:
            self._forget(now)  # also where nobody ever asks
            self._recent.append((now, self.total))
            self.total += count

    def per_second(self, now: float, since: float) -> float:
        """Return the mean rate of the last `WINDOW_S`, or since the run began where that is shorter."""
        with self._lock:
            self._forget(now)
            before = self._recent[0][1] if self._recent else self.total
            return (self.total - before) / max(min(WINDOW_S, now - since), 0.001)

    def _forget(self, now: float) -> None:
        while self._recent and self._recent[0][0] < now - WINDOW_S:
            self._recent.popleft()


class Metrics(Collector):
    """An observer that counts. Its samples may be asked for in any thread."""

    def __init__(self, pipeline: str, max_tables: int, health: Health, clean: Callable[[str], str] = str) -> None:
        """`max_tables`: tables that have samples of their own. `clean` removes secrets from a label's text."""
        self._pipeline = pipeline
        self._max_tables = max_tables
        self._health = health
        self._clean = lru_cache(MAX_CLEAN)(clean)
        self._since = self._last_record = time.time()
        self._last_batch = 0.0
        self._flows = {name: Flow() for name in ("records_in", "bytes_in", "records_out", "bytes_out")}
        self._tables: dict[str, TableCounts] = {}
        self._names: set[int] = set()
        """Hashes of the names of all tables with changes."""
        self._schema_changes: dict[str, int] = {}
        self._rejects: dict[tuple[str, str], int] = {}
        self._measured: events.BatchMeasured | None = None
        self._outcomes = {"succeeded": 0, "failed": 0}
        self._batch_times, self._commit_times = Times(), Times()
        self._cpu_s, self._rss_kib = 0.0, 0
        self._waiting: Mapping[tuple[str, int], int] = {}
        self._standing: Standing | None = None
        """Where the reading of a database stands."""
        self._waiting_since: float | None = None
        """Since when there is a backlog, in seconds since 1970; None where there is none."""
        self._clients = NewestNumbers()
        self._exit_code: int | None = None
        self._warnings = 0
        self._unused: dict[str, int] = {}

    def __call__(self, event: events.Event) -> None:
        """Count the event."""
        match event:
            case events.RunStarted() | events.Pending():
                self._wait(event.waiting, event.standing)
            case events.BatchMeasured():
                self._measure(event)
            case events.BatchDone():
                self._last_batch = time.time()
                self._batch_times.add(event.seconds)
                self._cpu_s += event.cpu_s
                self._rss_kib = event.worker_rss_kib
            case events.ClientStatistics():
                self._clients.tell(event.client, event.json)
            case events.SchemaChanged():
                count_up(self._schema_changes, self._clean(event.table), 1, OTHERS, self._max_tables)
            case events.TopicGrown():
                self._unused[event.topic] = event.unused
            case events.Warned():
                self._warnings += 1
            case events.RunEnded():
                self._exit_code = event.exit_code
            case _:
                pass

    def _measure(self, event: events.BatchMeasured) -> None:
        now = time.time()
        for name, flow in self._flows.items():
            flow.add(getattr(event, name), now)
        if event.records_in:
            self._last_record = now
        for name, changes in event.tables.items():
            counts = self._counts_of(name)
            counts.inserted += changes.inserted
            counts.updated += changes.updated
            counts.deleted += changes.deleted
            counts.rejected += changes.rejected
        for name, (read, written) in event.table_bytes.items():
            counts = self._counts_of(name)
            counts.bytes_in += read
            counts.bytes_out += written
        for code, count in event.rejects.items():
            count_up(self._rejects, code, count, (OTHERS, OTHERS), MAX_REASONS)
        self._outcomes["failed" if event.failed else "succeeded"] += 1
        if event.commit_s:
            self._commit_times.add(event.commit_s)
        self._measured = event
        self._wait(event.waiting, event.standing)

    def _wait(self, waiting: Mapping[tuple[str, int], int], standing: Standing | None) -> None:
        """Take the backlog as it is now."""
        self._waiting, self._standing = waiting, standing
        if not any(waiting.values()) and (standing is None or not standing.waits):
            self._waiting_since = None
        elif self._waiting_since is None:
            self._waiting_since = time.time()

    def _stalled_s(self, now: float) -> float:
        """Return the time since the last completed batch while there is a backlog, in seconds."""
        since = self._waiting_since
        return 0.0 if since is None or self._exit_code is not None else max(0.0, now - max(since, self._last_batch))

    def _counts_of(self, name: str) -> TableCounts:
        """Return the counters of a table; past the limit, those of all others."""
        table = self._clean(name)
        if len(self._names) < MAX_NAMES:
            self._names.add(hash(table))
        if table not in self._tables and len(self._tables) >= self._max_tables:
            table = OTHERS
        return self._tables.setdefault(table, TableCounts())

    def collect(self) -> Iterator[Metric]:
        """Yield all families with their samples."""
        yield from self._run()
        yield from self._source()
        yield from self._database()
        yield from self._sink()
        yield from self._batches()
        yield from self._kafka_clients()

    def _run(self) -> Iterator[Metric]:
        yield self._gauge("build_info", "Version of ingest.", [((__version__,), 1)], "version")
        ready, live = int(not self._health.unready()), int(not self._health.dead())
        yield self._gauge("ready", "Readiness: 1 while source and sink answer, as /readyz reports.", [((), ready)])
        sides = [((side,), int(not self._health.away(side))) for side in SIDES]
        yield self._gauge(
            "side_answers",
            "Availability of the source or the sink: 1 while it answers. Asked every two seconds.",
            sides,
            "side",
        )
        yield self._gauge("live", "Liveness: 1 while the run makes progress, as /livez reports.", [((), live)])
        yield self._gauge("start_time_seconds", "Start time of the run.", [((), self._since)])
        codes = [] if self._exit_code is None else [((), self._exit_code)]
        yield self._gauge("exit_code", "Exit code of a run that has ended.", codes)
        yield self._counter("warnings", "Warnings of the run.", [((), self._warnings)])

    def _source(self) -> Iterator[Metric]:
        now, measured = time.time(), self._measured
        yield from self._flow("records_in", "numRecordsIn", "numRecordsInPerSecond", "Records read", now)
        yield from self._flow(
            "bytes_in", "numBytesIn", "numBytesInPerSecond", "Bytes of keys and values read, including retries", now
        )
        fetch, emit = (None, None) if measured is None else (measured.fetch_lag_s, measured.emit_lag_s)
        for name, text, lag in (
            ("fetch", "currentFetchEventTimeLag: event-time lag of the newest record when it was read.", fetch),
            ("emit", "currentEmitEventTimeLag: its event-time lag when the sink had acknowledged it.", emit),
        ):
            yield self._gauge(f"{name}_event_time_lag_seconds", text, [] if lag is None else [((), lag)])
        idle = [((), max(0.0, now - self._last_record))]
        yield self._gauge("source_idle_seconds", "sourceIdleTime: time since the last record was read.", idle)
        yield self._gauge(
            "pending_records",
            "pendingRecords: the backlog in records, including the batch in progress.",
            self._by_split(self._waiting, together=True),
            "topic",
            "partition",
        )
        stalled = [((), self._stalled_s(now))]
        yield self._gauge("stalled_seconds", "Time since the last completed batch while there is a backlog.", stalled)
        positions = {} if measured is None else measured.positions
        yield self._gauge(
            "offset",
            "currentOffset, committedOffset: the next offset to read; all earlier ones are committed.",
            self._by_split(positions, together=False),
            "topic",
            "partition",
        )
        skipped: dict[str, int] = {}
        for reason, count in ({} if measured is None else measured.skipped).items():
            count_up(skipped, reason, count, OTHERS, MAX_REASONS)
        yield self._counter(
            "skipped_records",
            "Records skipped because they stand for no row.",
            [((r,), n) for r, n in skipped.items()],
            "reason",
        )
        yield self._counter("rejects", "Rejected records.", list(self._rejects.items()), "stage", "code")

    def _database(self) -> Iterator[Metric]:
        standing = self._standing
        lag: list[tuple[tuple[str, ...], float]] = [] if standing is None else [((), standing.lag_bytes)]
        yield self._gauge("pending_bytes", "pendingBytes: the backlog in a database's log, in bytes.", lag)
        lag = [] if standing is None else [((), standing.lag_s)]
        text = "Lag behind a database's log: 0 while there is no backlog in it."
        yield self._gauge("log_lag_seconds", text, lag)
        place = [] if standing is None or not standing.file else [((standing.file,), standing.offset)]
        text = "Position in a database's log: the offset in the current file."
        yield self._gauge("log_offset", text, place, "file")
        tables = {} if standing is None else standing.tables
        states = [] if standing is None else [(("done",), standing.tables_done), (("left",), len(tables))]
        text = "Tables of the snapshot of a database: done, and left."
        yield self._gauge("snapshot_tables", text, states, "state")
        for name, unit, attributes in (
            ("snapshot_rows", "Rows", ("read", "rows")),
            ("snapshot_chunks", "Chunks", ("chunks_read", "chunks")),
        ):
            sums: dict[tuple[str, str], int] = {}
            for table, snapshot in sorted(tables.items()):
                done, of_all = (getattr(snapshot, attribute) for attribute in attributes)
                for state, count in (("done", done), ("left", of_all - done)):
                    count_up(sums, (self._clean(table), state), count, (OTHERS, state), 2 * self._max_tables)
            text = f"{unit} of the tables in the snapshot; the number left is an estimate."
            yield self._gauge(name, text, sums.items(), "table", "state")
        left = [] if standing is None or standing.seconds_left is None else [((), standing.seconds_left)]
        text = "Estimated time until the snapshot is complete, at the throughput of the last minute."
        yield self._gauge("snapshot_left_seconds", text, left)
        marked: dict[str, int] = {}
        for table in {} if standing is None else sorted(standing.marked):
            count_up(marked, self._clean(table), 1, OTHERS, self._max_tables)
        text = (
            "Marked tables: their rows in the sink may differ, as a statement has changed rows without a log of them."
        )
        yield self._gauge("table_marked", text, [((table,), count) for table, count in marked.items()], "table")

    def _sink(self) -> Iterator[Metric]:
        now, measured = time.time(), self._measured
        yield from self._flow("records_out", "numRecordsOut", "numRecordsOutPerSecond", "Records sent to the sink", now)
        yield from self._flow("bytes_out", "numBytesOut", "numBytesOutPerSecond", "Bytes of their keys and values", now)
        sent = [] if measured is None else [((), measured.send_s)]
        text = "currentSendTime: time that the sink took to acknowledge the last records sent."
        yield self._gauge("send_seconds", text, sent)
        changes = [
            ((table, change), getattr(counts, attribute))
            for table, counts in list(self._tables.items())
            for change, attribute in (
                ("insert", "inserted"),
                ("update", "updated"),
                ("delete", "deleted"),
                ("reject", "rejected"),
            )
        ]
        yield self._counter("table_changes", "Changes and rejected records of each table.", changes, "table", "change")
        sizes = [
            ((table, direction), getattr(counts, attribute))
            for table, counts in list(self._tables.items())
            for direction, attribute in (("in", "bytes_in"), ("out", "bytes_out"))
        ]
        text = "numBytesIn, numBytesOut of each source table: its messages, and the records written for its rows."
        yield self._counter("table_bytes", text, sizes, "table", "direction")
        changed = [((table,), count) for table, count in list(self._schema_changes.items())]
        yield self._counter("schema_changes", "Schema changes of tables in the sink.", changed, "table")
        unused: dict[str, int] = {}
        for topic, count in list(self._unused.items()):
            count_up(unused, self._clean(topic), count, OTHERS, self._max_tables)
        topics = [((topic,), count) for topic, count in unused.items()]
        text = "Partitions added to a topic of the sink to which no keys are hashed."
        yield self._gauge("sink_unused_partitions", text, topics, "topic")
        yield self._gauge("tables", "Tables with changes.", [((), len(self._names))])

    def _batches(self) -> Iterator[Metric]:
        outcomes = [((outcome,), count) for outcome, count in self._outcomes.items()]
        text = "commitsSucceeded, commitsFailed: batches whose progress is stored, and batches with a failed task."
        yield self._counter("commits", text, outcomes, "outcome")
        yield self._times("batch_seconds", "Duration of batches.", self._batch_times)
        text = "Time that the driver took to commit a batch to the sink's tables, where it does that."
        yield self._times("commit_seconds", text, self._commit_times)
        last = [((), self._last_batch)] if self._last_batch else []
        yield self._gauge("last_batch_time_seconds", "Time of the last completed batch.", last)
        yield self._counter("worker_cpu_seconds", "CPU time of all workers.", [((), self._cpu_s)])
        text = "Peak memory of a worker."
        yield self._gauge("worker_memory_bytes", text, [((), self._rss_kib << 10)] if self._rss_kib else [])

    def _kafka_clients(self) -> Iterator[Metric]:
        newest = list(self._clients.newest.items())
        of_whom = "of the client that reported last, where properties.statistics.interval.ms is set."
        for name, text, attribute in (
            ("queued_records", "Records queued in a Kafka client,", "queued"),
            ("round_trip_seconds", "Mean round-trip time to the slowest broker,", "round_trip_s"),
            ("throttled_seconds", "Throttle time by a quota,", "throttled_s"),
            ("retries", "Requests retried or timed out,", "retries"),
            ("errors", "Connection errors,", "errors"),
        ):
            samples = [((self._clean(kind),), getattr(numbers, attribute)) for kind, numbers in newest]
            yield self._gauge(f"client_{name}", f"{text} {of_whom}", samples, "client")

    def _flow(self, name: str, total: str, rate: str, text: str, now: float) -> Iterator[Metric]:
        flow = self._flows[name]
        yield self._counter(name, f"{total}: {text[0].lower()}{text[1:]}.", [((), flow.total)])
        text = f"{rate}: mean of the last minute; 0 for a run that has ended."
        mean = (
            flow.per_second(now, self._since) if self._exit_code is None else 0.0
        )  # a push gateway keeps the last one
        yield self._gauge(f"{name}_per_second", text, [((), mean)])

    def _by_split(
        self, numbers: Mapping[tuple[str, int], int], *, together: bool
    ) -> list[tuple[tuple[str, str], float]]:
        """Return a sample for each partition up to `MAX_SPLITS`. `together`: the others have a sum, by topic."""
        out: dict[tuple[str, str], float] = {}
        rest: dict[str, int] = {}
        for (topic, partition), number in sorted(numbers.items()):
            if len(out) < MAX_SPLITS:
                out[self._clean(topic), str(partition)] = number
            elif together:
                count_up(rest, self._clean(topic), number, OTHERS, MAX_REASONS)
        return [*out.items(), *(((topic, OTHERS), number) for topic, number in rest.items())]

    def _gauge(self, name: str, text: str, samples: Iterable[tuple[tuple[str, ...], float]], *labels: str) -> Family:
        return self._family("gauge", name, text, samples, labels)

    def _counter(self, name: str, text: str, samples: Iterable[tuple[tuple[str, ...], float]], *labels: str) -> Family:
        return self._family("counter", name, text, samples, labels)

    def _family(
        self, kind: str, name: str, text: str, samples: Iterable[tuple[tuple[str, ...], float]], labels: tuple[str, ...]
    ) -> Family:
        family = Family(kind, f"ingest_{name}", text, ("pipeline", *labels))
        family.numbers = [((self._pipeline, *values), number) for values, number in samples]
        return family

    def _times(self, name: str, text: str, times: Times) -> HistogramMetricFamily:
        family = HistogramMetricFamily(f"ingest_{name}", text, labels=("pipeline",))
        family.add_metric((self._pipeline,), times.buckets(), times.sum)
        return family


MAX_KINDS: Final = 20
"""Kinds of clients that are kept."""


class ClientNumbers(NamedTuple):
    """Numbers of a client that help to see why a run is slow."""

    queued: int
    """Records queued in it: to be sent, or to be processed."""
    round_trip_s: float
    """The mean time of a request to the slowest broker, in seconds."""
    throttled_s: float
    """How long a broker makes it wait for a quota, in seconds."""
    retries: int
    """Requests that were sent again, or had no answer in time, since the client began."""
    errors: int
    """Failures of connections since the client began."""


class NewestNumbers:
    """The newest numbers of each kind of client."""

    def __init__(self) -> None:
        self.newest: dict[str, ClientNumbers] = {}

    def tell(self, kind: str, statistics: bytes) -> None:
        """Read the statistics of a client; what is no JSON object says nothing."""
        try:
            decoded = orjson.loads(statistics)
        except orjson.JSONDecodeError:
            return
        if isinstance(decoded, dict) and (kind in self.newest or len(self.newest) < MAX_KINDS):
            self.newest[kind] = numbers_of(decoded)


def numbers_of(statistics: dict[str, Any]) -> ClientNumbers:
    """Return the numbers of one client's statistics."""
    brokers = [broker for broker in _maps(statistics, "brokers") if broker.get("nodeid", -1) != -1]  # -1: a bootstrap
    partitions = [partition for topic in _maps(statistics, "topics") for partition in _maps(topic, "partitions")]
    return ClientNumbers(
        int(_number(statistics.get("msg_cnt")) + sum(_number(partition.get("fetchq_cnt")) for partition in partitions)),
        max((_mean(broker, "rtt") for broker in brokers), default=0) / 1e6,  # microseconds
        max((_mean(broker, "throttle") for broker in brokers), default=0) / 1e3,  # milliseconds
        int(sum(_number(broker.get(name)) for broker in brokers for name in ("txretries", "req_timeouts"))),
        int(sum(_number(broker.get(name)) for broker in brokers for name in ("txerrs", "rxerrs"))),
    )


def _maps(statistics: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the maps that are the values of a map of the statistics."""
    value = statistics.get(name)
    return [item for item in value.values() if isinstance(item, dict)] if isinstance(value, dict) else []


def _mean(broker: dict[str, Any], name: str) -> float:
    window = broker.get(name)
    return _number(window.get("avg")) if isinstance(window, dict) else 0.0


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0

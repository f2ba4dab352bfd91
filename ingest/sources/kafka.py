"""Records of Kafka topics. A split is a partition, a position is an offset.

On the driver: which partitions there are, where each starts and ends, and whether what should be read is still there.
In a task: a reader of ranges. Reference: alibaba-kafka.txt, "Data ingestion"; decisions, "Sources".
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from pydantic import Field, field_validator

from ingest.errors import CheckpointError, ConfigError, DataLoss, TopicMissing, Unavailable
from ingest.formats.debezium_json import DebeziumJson
from ingest.formats.options import Duration, Options
from ingest.kafka.properties import check, translate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ingest.kafka.admin import Cluster, Split
    from ingest.kafka.reader import RangeReader

CONNECT_S: Final = 20.0
"""How long a start waits for the broker, in seconds."""


class KafkaSource(Options):
    """Options of `source:` with `type: kafka`."""

    formats: ClassVar[str] = "value.format"

    type: Literal["kafka"]
    """`kafka`."""

    name: str | None = None
    """A label for logs and metrics."""

    properties: dict[str, str] = Field(alias="properties.*")
    """Options of the Kafka client, `properties.bootstrap.servers` among them."""

    topic: str
    """The topics to read, separated by `;`."""

    value_format: Literal["debezium-json"] = Field("debezium-json", alias="value.format")
    """The format of the records' values."""

    startup_mode: Literal["earliest-offset", "latest-offset", "group-offsets"] = Field(
        "group-offsets", alias="scan.startup.mode"
    )
    """Where to start where the checkpoint does not say: at the first offset, at the end, or where the consumer group
    `properties.group.id` stands. A group without an offset follows `properties.auto.offset.reset`."""

    discovery_interval: Duration = Field(300.0, alias="scan.topic-partition-discovery.interval")
    """How often to look for new partitions. Zero or less: never."""

    on_data_loss: Literal["fail", "earliest", "latest"] = Field("fail", alias="scan.on-data-loss")
    """What to do when records that were to be read next are gone, or a topic was deleted or recreated: stop, or go on
    at the earliest or latest offset."""

    inference: Literal["continuous"] = Field("continuous", alias="schema.inference.strategy")
    """`continuous`: every record may change its table's schema."""

    ignore_errors: bool = Field(False, alias="ingestion.ignore-errors")
    """Count records that cannot be taken, instead of stopping at the first."""

    max_errors: int = Field(-1, alias="ingestion.error-tolerance.max-count", ge=-1)
    """With `ingestion.ignore-errors`: stop when there are more than this many, over all runs. -1: never."""

    format: DebeziumJson = Field(default_factory=DebeziumJson.model_construct, alias="*format", exclude=True)
    """Filled in from the options that start with the format's name."""

    _check_properties = field_validator("properties")(check)

    @field_validator("topic")
    @classmethod
    def _check_topic(cls, value: str) -> str:
        if not any(part.strip() for part in value.split(";")):
            msg = "names no topic"
            raise ValueError(msg)
        return value

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics to read, each once."""
        return tuple(dict.fromkeys(part.strip() for part in self.topic.split(";") if part.strip()))

    @property
    def tolerated(self) -> int:
        """How many rejects the pipeline tolerates over all runs."""
        return 0 if not self.ignore_errors else (1 << 62 if self.max_errors < 0 else self.max_errors)

    def client(self, pipeline: str) -> dict[str, str]:
        """Librdkafka's configuration; the group is the pipeline's where the file names none."""
        conf = translate(self.properties)
        conf.pop("auto.offset.reset", None)
        return {"group.id": f"ingest.{pipeline}", "client.id": f"ingest.{pipeline}", **conf}

    def control(self, pipeline: str, warn: Callable[[str], None]) -> KafkaControl:
        """The driver's side."""
        return KafkaControl(self, pipeline, warn)

    def reader(self, pipeline: str) -> RangeReader:
        """A task's side."""
        from ingest.kafka.reader import RangeReader  # noqa: PLC0415  (the client is slow to import; `check` needs none)

        return RangeReader(self.client(pipeline))


class KafkaControl:
    """What the driver asks and decides about the source. Raises IngestError only."""

    def __init__(self, options: KafkaSource, pipeline: str, warn: Callable[[str], None]) -> None:
        """Connect to nothing yet."""
        self.options = options
        self.ids: dict[str, str] = {}
        self._pipeline = pipeline
        self._conf = options.client(pipeline)
        self._warn = warn
        self._committed = self._conf.get("isolation.level", "read_committed") == "read_committed"
        self._cluster: Cluster | None = None
        self._discovered = 0.0
        self._commit_failed = False

    def connect(self) -> str:
        """The cluster's id; raises Unavailable when it does not answer."""
        from ingest.kafka.admin import Cluster  # noqa: PLC0415  (as above)

        self._cluster = Cluster(self._conf)
        cluster_id = self._cluster.connect(CONNECT_S)
        self.options.reader(
            self._pipeline
        ).close()  # a property that a consumer does not take shows here, not in a task
        return cluster_id

    @property
    def cluster(self) -> Cluster:
        """The connection that `connect` made."""
        assert self._cluster is not None
        return self._cluster

    def start(self, stored: Mapping[Split, int], ids: Mapping[str, str]) -> dict[Split, int]:
        """The position to start from in every split: the checkpoint's, else what the options say."""
        found = self.cluster.topics(self.options.topics)
        missing = [name for name in self.options.topics if name not in found]
        lost = [name for name in missing if name in ids]
        if missing and len(lost) < len(missing):
            name = next(name for name in missing if name not in ids)
            msg = f"topic {name!r} of source.topic does not exist at {self.cluster.servers}"
            raise TopicMissing(msg, "create it, or correct the name")
        positions = {split: at for split, at in stored.items() if split[0] in found}
        for name in lost:
            self._loss(f"topic {name} was deleted", "it is read no more")
        for name, topic in found.items():
            if name in ids and ids[name] != topic.id:
                self._loss(f"topic {name} was deleted and created again since the last run", "it is read afresh")
                positions = {split: at for split, at in positions.items() if split[0] != name}
                reset = "earliest-offset" if self.options.on_data_loss != "latest" else "latest-offset"
                positions.update(self._initial([(name, p) for p in range(topic.partitions)], reset))
            gone = [split for split in positions if split[0] == name and split[1] >= topic.partitions]
            for split in gone:
                self._loss(f"partition {split[1]} of topic {name} is gone", "it is read no more")
                del positions[split]
        new = [(n, p) for n, t in found.items() for p in range(t.partitions) if (n, p) not in positions]
        # A partition that joined a topic we already read is read from its beginning
        positions.update(self._initial([s for s in new if s[0] not in ids], self.options.startup_mode))
        positions.update(self._initial([s for s in new if s[0] in ids], "earliest-offset"))
        self.ids = {name: topic.id for name, topic in found.items()}
        self._discovered = time.monotonic()
        return self.check(positions)

    def _initial(self, splits: list[Split], mode: str) -> dict[Split, int]:
        if not splits:
            return {}
        if mode == "earliest-offset":
            return self.cluster.earliest(splits)
        if mode == "latest-offset":
            return self.cluster.latest(splits, committed=self._committed)
        group = self._conf["group.id"]
        found = self.cluster.group_offsets(group, splits)
        earliest, latest = self.cluster.earliest(splits), self.cluster.latest(splits, committed=False)
        reset = self.options.properties.get("auto.offset.reset")
        positions = {}
        for split in splits:
            at = found.get(split)
            if at is not None and earliest[split] <= at <= latest[split]:
                positions[split] = at
            elif reset in {"earliest", "smallest", "beginning"}:
                positions[split] = earliest[split]
            elif reset in {"latest", "largest", "end"}:
                positions[split] = latest[split]
            else:
                why = "has no offset" if at is None else f"stands at offset {at}, which is out of range,"
                msg = f"consumer group {group!r} {why} in {split[0]}[{split[1]}], and nothing says where to start"
                hint = "set scan.startup.mode to earliest-offset or latest-offset, or properties.auto.offset.reset"
                raise ConfigError(msg, hint)
        return positions

    def _loss(self, what: str, then: str) -> None:
        if self.options.on_data_loss == "fail":
            hint = "set scan.on-data-loss to earliest or latest to go on without, or use another pipeline.name"
            raise DataLoss(f"data loss: {what}", hint)
        self._warn(f"data loss: {what}; {then}, as scan.on-data-loss is {self.options.on_data_loss!r}")

    def check(self, positions: Mapping[Split, int]) -> dict[Split, int]:
        """The positions, where what they point at is still there; otherwise as `scan.on-data-loss` says."""
        earliest = self.cluster.earliest(positions)
        latest = self.cluster.latest(positions, committed=False)
        out = dict(positions)
        for split, at in positions.items():
            first, end = earliest[split], latest[split]
            if first <= at <= end:
                continue
            to = end if self.options.on_data_loss == "latest" else first
            self._loss(
                f"{split[0]}[{split[1]}] should be read from offset {at}, but the topic holds {first} to {end}",
                f"reading goes on at {to}",
            )
            out[split] = to
        return out

    def ends(self, positions: Mapping[Split, int]) -> dict[Split, int]:
        """Where each split ends now: for readers of committed records, the last stable offset."""
        return self.cluster.latest(positions, committed=self._committed)

    def discover(self, positions: Mapping[Split, int]) -> dict[Split, int]:
        """The starts of partitions that are new since the last look, when it is time to look."""
        interval = self.options.discovery_interval
        if interval <= 0 or time.monotonic() - self._discovered < interval:
            return {}
        self._discovered = time.monotonic()
        found = self.cluster.topics(self.ids)
        for name, known in self.ids.items():
            if name not in found or found[name].id != known:
                msg = (
                    f"data loss: topic {name} was deleted{' and created again' if name in found else ''} during the run"
                )
                raise DataLoss(msg, "see scan.on-data-loss for how to go on")
        new = [(n, p) for n, t in found.items() for p in range(t.partitions) if (n, p) not in positions]
        return self._initial(new, "earliest-offset")

    def commit(self, positions: Mapping[Split, int]) -> None:
        """Show the positions as the consumer group's offsets. Only for monitoring: a failure is a warning, once."""
        try:
            self.cluster.commit(self._conf["group.id"], positions)
            self._commit_failed = False
        except Unavailable:
            return
        except (ConfigError, DataLoss, CheckpointError) as exc:
            self._complain(str(exc))

    def _complain(self, text: str) -> None:
        if not self._commit_failed:
            self._commit_failed = True
            self._warn(f"{text}; the group's offsets do not show this run's progress, nothing else is affected")

    def fingerprint(self, cluster_id: str) -> dict[str, Any]:
        """What a checkpoint of this source depends on."""
        return {"type": "kafka", "cluster": cluster_id, "value.format": self.options.value_format}

    def close(self) -> None:
        """Let go of the connections."""
        if self._cluster is not None:
            self._cluster.close()

"""Administration of a Kafka cluster: topics, their ids and offsets, and the offsets of consumer groups.

In: names and positions. Out: plain values. Runs on the driver, never in a task. Every call is one request for all
partitions, has a timeout, and raises only IngestError.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar, cast

from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from ingest.errors import AccessError, ConfigError, IngestError, TopicMissing, Unavailable
from ingest.kafka.diagnosis import own_certificate, refuse_advertised, usable, why_untrusted, wrong_address
from ingest.kafka.failures import LocalError, error_of, is_away, is_settling, refuse
from ingest.kafka.failures import explain as explained
from ingest.kafka.msk import with_login
from ingest.kafka.properties import BOOTSTRAP, CREATE, FALSE, shared
from ingest.kafka.reference import note_of
from ingest.kafka.waiting import close
from ingest.model.probe import PROBE_S

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from concurrent.futures import Future

    from ingest.model.record import Split

REQUEST_S: Final = 10.0
"""Longest time of a request, in seconds."""
PATIENCE_S: Final = 4.0
"""Longest time of one try to connect, in seconds."""
SETTLE_S: Final = 15.0
"""Time in seconds that a broker gets to answer after it was started, or after a partition's leader moved."""
_T = TypeVar("_T")
_P = ParamSpec("_P")


def _settled(ask: Callable[_P, _T]) -> Callable[_P, _T]:
    """Return a method that calls `ask` again while the broker starts or a leader moves.

    It gives up after the cluster's `settle_s` seconds, and raises the last Unavailable.
    """

    @wraps(ask)
    def patiently(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        deadline = time.monotonic() + getattr(args[0], "settle_s", SETTLE_S)
        while True:
            try:
                return ask(*args, **kwargs)
            except Unavailable as exc:
                if not is_settling(exc.__cause__) or time.monotonic() > deadline:
                    raise
            time.sleep(0.2)

    return patiently


class AdminConnection:
    """Connection to a cluster, and the admin client that asks it."""

    def __init__(self, conf: Mapping[str, str]) -> None:
        """`conf` has properties of librdkafka. The admin client uses only those that every kind of client knows."""
        self.conf = dict(conf)
        self.servers = conf[BOOTSTRAP]
        self.last_error: KafkaError | None = None
        self._shared = {
            "socket.connection.setup.timeout.ms": "10000",
            **shared(conf),
            "log_level": 0,
            "error_cb": self.note,
        }
        self._client: AdminClient | None = None

    @property
    def client(self) -> AdminClient:
        """Return the admin client.

        After a failure it is a new client: the old one may still use an outdated epoch of a leader.
        """
        if self._client is None:
            try:
                self._client = AdminClient(with_login(self._shared))
            except (KafkaException, ValueError, TypeError) as exc:
                raise refuse(exc, "the connection", self.servers) from exc
        return self._client

    def note(self, error: KafkaError) -> None:
        """Keep an error of the connection: it says more than a time that ran out."""
        if error.code() != LocalError.ALL_BROKERS_DOWN or self.last_error is None:
            self.last_error = error

    def explain(self, exc: Exception | KafkaError, what: str) -> IngestError:
        """Return the error for a failed request; `what` names the request in its message."""
        if self._client is not None:
            self._client.poll(0)  # deliver the connection's own errors, which wait in the client
        if isinstance(exc, (KafkaException, KafkaError)):
            if is_away(exc):
                self._client = None
            # "timed out" tells less than the error that the connection reported meanwhile
            better, self.last_error = self.last_error, None
            if better is not None and is_away(exc):
                return self._closer(explained(better, what, self.servers), better)
            return explained(exc, what, self.servers)
        self._client = None
        return Unavailable(
            f"cannot {what}: no answer from the broker at {self.servers} in time: {exc}", "run again later"
        )

    def _closer(self, error: IngestError, cause: KafkaError) -> IngestError:
        """Return the error with details about the certificates, where a look at them gives any."""
        if isinstance(error, AccessError):
            about_broker = "is not trusted" in error.message
            more = why_untrusted(self.servers, self.conf) if about_broker else ""
            if "certificate" in cause.str() and not about_broker:
                more = own_certificate(self.conf)
            if more:
                hint = "use a name that the certificate is for" if "mismatch" in more else error.hint
                return AccessError(f"{error.message} ({more})", hint)
        return error

    def get(self, future: Future[_T], what: str) -> _T:
        """Return the result of a request; `what` names the request in errors. Raise IngestError."""
        try:
            return future.result(REQUEST_S + 2)
        except (KafkaException, TimeoutError) as exc:
            raise self.explain(exc, what) from exc

    def connect(self, within_s: float, tell: Callable[[str], None] | None = None) -> str:
        """Return the cluster's id, once the cluster answers.

        Raise Unavailable after `within_s` seconds. Raise errors that another try cannot fix: AccessError, and
        ConfigError for an address at which nothing can answer. `tell` is called with a message for people when
        there is no answer yet, and with another one when there is.
        """
        usable(self.conf)
        deadline = time.monotonic() + within_s
        patience = 1.0  # in seconds; short at first, so that a refused login shows soon
        suspect: ConfigError | None = None
        told = False
        while True:
            try:
                metadata = self.client.list_topics(timeout=min(patience, max(0.1, deadline - time.monotonic())))
            except KafkaException as exc:
                error = self.explain(exc, "connect")
                left = deadline - time.monotonic()
                final = left <= 0 or not isinstance(error, Unavailable)
                if tell is not None and not told and not final:
                    until = time.strftime("%H:%M:%S UTC", time.gmtime(time.time() + left))
                    tell(f"{error.message.partition(': ')[2]}; trying until {until}")
                before = suspect
                suspect = wrong_address(self.conf, "connect") if final or not told or before is not None else None
                if suspect is not None and (final or before is not None):  # a stopping broker looks the same briefly
                    raise suspect from exc
                if final:
                    raise error from exc
                told = True
                patience = min(2 * patience, PATIENCE_S)
                time.sleep(0.2)
            else:
                brokers = [(str(broker.host), broker.port) for broker in metadata.brokers.values()]
                refuse_advertised(brokers, self.servers)
                if told and tell is not None:
                    tell(f"the broker at {self.servers} answers again")
                return str(metadata.cluster_id)


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as the cluster has it. A topic that was deleted and created again has another id."""

    name: str
    id: str
    partitions: int
    internal: bool = False


class Cluster:
    """A cluster: its topics, their offsets, its consumer groups."""

    def __init__(self, conf: Mapping[str, str], request_s: float = REQUEST_S, settle_s: float = SETTLE_S) -> None:
        """`conf`: as of `AdminConnection`.

        `request_s`: the longest time of a question for offsets or for the cluster, in seconds. `settle_s`: the time
        that a broker gets that has just been started.
        """
        self._link = AdminConnection(conf)
        self.conf, self.servers = self._link.conf, self._link.servers
        self.settle_s = settle_s
        self._request_s = request_s
        self._committer: Consumer | None = None
        self._commit_failed: KafkaError | None = None

    def _committed(self, error: KafkaError | None, _: object) -> None:
        self._commit_failed = error

    def connect(self, within_s: float, tell: Callable[[str], None] | None = None) -> str:
        """Return the cluster's id, once the cluster answers; see `AdminConnection.connect`."""
        return self._link.connect(within_s, tell)

    def ping(self) -> None:
        """Return once any broker has answered. Raise IngestError."""
        future: Future[Any] = cast("Any", self._link.client.describe_cluster(request_timeout=self._request_s))
        self._link.get(future, "ask the cluster")

    def names(self) -> set[str]:
        """Return the names of all topics that this user may see. Raise IngestError."""
        try:
            return set(self._link.client.list_topics(timeout=REQUEST_S).topics)
        except KafkaException as exc:
            raise self._link.explain(exc, "list topics") from exc

    @_settled
    def topics(self, names: Iterable[str]) -> dict[str, Topic]:
        """Return the existing topics among these names, by name.

        Raise AccessError for a topic that this user may not describe.
        """
        out = {}
        wanted = list(names)
        futures = (
            self._link.client.describe_topics(TopicCollection(wanted), request_timeout=REQUEST_S) if wanted else {}
        )
        for name, future in futures.items():
            try:
                description = self._link.get(future, f"describe topic {name}")
            except TopicMissing:
                continue
            out[name] = Topic(
                name, str(description.topic_id), len(description.partitions), bool(description.is_internal)
            )
        return out

    @_settled
    def offsets(self, splits: Iterable[Split], spec: OffsetSpec, *, committed: bool = True) -> dict[Split, int]:
        """Return the offset that `spec` means in each split.

        With `committed`, the end of a split is its last stable offset. Raise IngestError where a leader does not
        answer.
        """
        request = {TopicPartition(topic, partition): spec for topic, partition in splits}
        if not request:
            return {}
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        futures: Mapping[TopicPartition, Future[Any]] = self._link.client.list_offsets(
            request, isolation_level=level, request_timeout=self._request_s
        )
        out = {}
        for tp, future in futures.items():
            what = f"ask for the offsets of {tp.topic}[{tp.partition}]"
            offset = out[tp.topic, tp.partition] = int(self._link.get(future, what).offset)
            if offset == OFFSET_INVALID:  # the client returns this value without an error where no leader answered
                cause = KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
                raise self._link.explain(cause, what) from cause
        return out

    def earliest(self, splits: Iterable[Split]) -> dict[Split, int]:
        """Return the first offset that each split still has."""
        return self.offsets(splits, OffsetSpec.earliest())

    def latest(self, splits: Iterable[Split], *, committed: bool = True) -> dict[Split, int]:
        """Return the end of each split: the offset after the last record, or after the last committed record."""
        return self.offsets(splits, OffsetSpec.latest(), committed=committed)

    def at_time(self, splits: Iterable[Split], millis: int) -> dict[Split, int]:
        """Return the offset of each split's first record at or after a time, or -1 where all records are older.

        `millis` is the time in milliseconds since 1970.
        """
        return self.offsets(splits, OffsetSpec.for_timestamp(millis))

    def group_offsets(self, group: str, splits: Iterable[Split]) -> dict[Split, int]:
        """Return the offsets that the consumer group committed. Splits without a committed offset are left out."""
        return {split: at for split, (at, _) in self.group_commits(group, splits).items()}

    @_settled
    def group_commits(self, group: str, splits: Iterable[Split]) -> dict[Split, tuple[int, str]]:
        """Return the offsets that the consumer group committed, each with the note that was committed with it.

        Splits without a committed offset are left out. The request is made by a consumer: librdkafka's admin request
        for it crashes while the group's coordinator is loading.
        """
        what = f"read the offsets of group {group}"
        try:
            committed = self._member(group).committed([TopicPartition(*split) for split in splits], timeout=REQUEST_S)
        except KafkaException as exc:
            raise self._link.explain(exc, what) from exc
        for tp in committed:
            if tp.error is not None:
                raise self._link.explain(tp.error, what) from KafkaException(tp.error)
        return {(tp.topic, tp.partition): (tp.offset, note_of(tp)) for tp in committed if tp.offset >= 0}

    def _member(self, group: str) -> Consumer:
        """Return a consumer with this group id. It never joins the group and reads nothing."""
        if self._committer is None:
            quiet = {
                "enable.auto.commit": False,
                "log_level": 0,
                "error_cb": self._link.note,
                "on_commit": self._committed,
            }
            try:
                self._committer = Consumer(with_login({**self.conf, "group.id": group, **quiet}))
            except (KafkaException, ValueError, TypeError) as exc:
                raise refuse(exc, "the connection", self.servers) from exc
        return self._committer

    @_settled
    def members(self, group: str) -> list[str]:
        """Return the client ids of a consumer group's members."""
        asked: Mapping[str, Future[Any]] = self._link.client.describe_consumer_groups(
            [group], request_timeout=REQUEST_S
        )
        (future,) = asked.values()
        description = self._link.get(future, f"describe consumer group {group}")
        return [str(member.client_id) for member in description.members or []]

    def commit(self, group: str, positions: Mapping[Split, int], note: str = "", *, wait: bool = True) -> None:
        """Commit positions to a consumer group, each with a note, for monitoring tools. Raise IngestError.

        Without `wait`, the call returns at once, and the next call raises the error of a failed commit.
        """
        offsets = [TopicPartition(topic, partition, offset, note) for (topic, partition), offset in positions.items()]
        try:
            member = self._member(group)
            member.poll(0)  # deliver the result of the commit before
            if wait:
                member.commit(offsets=offsets, asynchronous=False)
            else:
                member.commit(offsets=offsets, asynchronous=True)
        except KafkaException as exc:
            raise self._link.explain(exc, f"commit offsets to group {group}") from exc
        failed, self._commit_failed = self._commit_failed, None
        if failed is not None:
            raise self._link.explain(failed, f"commit offsets to group {group}")

    def create(
        self,
        names: Collection[str],
        partitions: int,
        replication: int,
        config: Mapping[str, str],
        *,
        dry_run: bool = False,
    ) -> set[str]:
        """Create topics, and return the names of the created ones. Existing topics stay as they are.

        With `dry_run`, brokers only check the request, and a refusal raises the same error. Raise TopicMissing where
        `properties.allow.auto.create.topics` is false, and another IngestError where the brokers refuse.
        """
        if self.conf.get(CREATE, "").lower() in FALSE and (first := min(names, default=None)) is not None:
            msg = f"topic {first!r} does not exist at {self.servers}, and properties.{CREATE} is false"
            how = " and ".join(f"{key}={value}" for key, value in config.items())
            raise TopicMissing(msg, f"create it{f' with {how}' if how else ''}, or leave that property out")
        new = [NewTopic(name, partitions, replication, config=dict(config)) for name in names]
        created = set()
        asked = self._link.client.create_topics(new, request_timeout=REQUEST_S, validate_only=dry_run) if new else {}
        for name, future in asked.items():
            try:
                future.result(REQUEST_S + 2)
                created.add(name)
            except KafkaException as exc:
                if error_of(exc).code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise self._link.explain(exc, f"create topic {name}") from exc
        return created

    def widen(self, name: str, partitions: int) -> None:
        """Add partitions to a topic until it has at least this number. Do nothing where the topic does not exist."""
        topic = self.topics([name]).get(name)
        if topic is None or topic.partitions >= partitions:
            return
        (future,) = self._link.client.create_partitions(
            [NewPartitions(name, partitions)], request_timeout=REQUEST_S
        ).values()
        self._link.get(future, f"add partitions to topic {name}")
        self.wait_until(lambda: self.topics([name])[name].partitions >= partitions, 10)

    def topic_config(self, name: str, key: str) -> str | None:
        """Return one setting of a topic. Return None where this user may not read it, or the topic does not have it."""
        resource = ConfigResource(ConfigResource.Type.TOPIC, name)
        (future,) = self._link.client.describe_configs([resource], request_timeout=REQUEST_S).values()
        try:
            entry = self._link.get(future, f"read the settings of topic {name}").get(key)
        except IngestError:
            return None
        return None if entry is None else str(entry.value)

    def broker_config(self, key: str) -> str | None:
        """Return one setting of the brokers.

        Return None where this user may not read it, or the brokers do not have it.
        """
        try:
            brokers = self._link.client.list_topics(timeout=REQUEST_S).brokers
            resource = ConfigResource(ConfigResource.Type.BROKER, str(min(brokers)))
            (future,) = self._link.client.describe_configs([resource], request_timeout=REQUEST_S).values()
            entry = self._link.get(future, "read the settings of the brokers").get(key)
        except (IngestError, KafkaException, ValueError):
            return None
        return None if entry is None else str(entry.value)

    def set_scram(self, user: str, password: str) -> None:
        """Set a user's password for SCRAM-SHA-256 and SCRAM-SHA-512."""
        changes = [
            UserScramCredentialUpsertion(user, ScramCredentialInfo(mechanism, 4096), password.encode())
            for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
        ]
        # One request for each mechanism: a request may change each user only once
        for change in changes:
            (future,) = self._link.client.alter_user_scram_credentials([change], request_timeout=REQUEST_S).values()
            self._link.get(future, f"set the password of user {user}")

    def wait_until(self, condition: Callable[[], bool], within_s: float) -> bool:
        """Wait until the condition is true, and tell whether that happened in time.

        It is for changes that need a moment to reach all brokers, like a new topic.
        """
        deadline = time.monotonic() + within_s
        while not condition():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True

    def close(self) -> None:
        """Close the consumer that reads and commits offsets of groups, if there is one."""
        if self._committer is not None:
            close(self._committer)
            self._committer = None


class ClusterProbe:
    """Probe of a cluster with a client of its own and a short timeout."""

    def __init__(
        self, conf: Mapping[str, str], ends: Callable[[Cluster, Iterable[Split]], Mapping[Split, int]] | None = None
    ) -> None:
        """`ends` asks for the ends of splits; without it, the probe only pings the cluster."""
        self._conf = conf
        self._ends = ends
        self._cluster: Cluster | None = None

    def ask(self, positions: Mapping[Split, int]) -> Mapping[Split, int] | None:
        """Return the ends of these splits; None if the probe only pings. Raise IngestError."""
        if self._cluster is None:
            self._cluster = Cluster(self._conf, PROBE_S, settle_s=0.0)
        if self._ends is None or not positions:  # before the source knows its splits any answer will do
            self._cluster.ping()
            return None
        return self._ends(self._cluster, positions)

    def close(self) -> None:
        """Release the connection."""
        if self._cluster is not None:
            self._cluster.close()

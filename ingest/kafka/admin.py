"""Questions to a cluster and changes of it: topics, their ids and ends, groups' offsets.

Runs on the driver. Every call is one request for all partitions, has a timeout, and raises IngestError only.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Final, ParamSpec, TypeAlias, TypeVar

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
from ingest.kafka.client import close, usable
from ingest.kafka.failures import error_of, explain, is_away, is_settling, refuse
from ingest.kafka.probe import refuse_advertised, wrong_address
from ingest.kafka.properties import BOOTSTRAP, CREATE, FALSE, shared
from ingest.kafka.tls import own_certificate, why_untrusted

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from concurrent.futures import Future

Split: TypeAlias = tuple[str, int]
"""Topic and partition."""

REQUEST_S: Final = 10.0
PATIENCE_S: Final = 4.0
"""How long one try to connect lasts, at most, in seconds."""
SETTLE_S: Final = 15.0
"""How long a broker that was just started, or a leader that just moved, is given to answer, in seconds."""
_T = TypeVar("_T")
_P = ParamSpec("_P")


def _settled(ask: Callable[_P, _T]) -> Callable[_P, _T]:
    """Ask again while the broker that answers needs a moment."""

    @wraps(ask)
    def patiently(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        deadline = time.monotonic() + SETTLE_S
        while True:
            try:
                return ask(*args, **kwargs)
            except Unavailable as exc:
                if not is_settling(exc.__cause__) or time.monotonic() > deadline:
                    raise
            time.sleep(0.2)

    return patiently


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as the cluster has it: a recreated one has another id."""

    name: str
    id: str
    partitions: int
    internal: bool = False


class Cluster:
    """One cluster, asked through one admin client."""

    def __init__(self, conf: Mapping[str, str]) -> None:
        """`conf` is librdkafka's; of a consumer's or producer's only what any client knows is used."""
        self.conf = dict(conf)
        self.servers = conf[BOOTSTRAP]
        self.last_error: KafkaError | None = None
        self._shared = {
            "socket.connection.setup.timeout.ms": "10000",
            **shared(conf),
            "log_level": 0,
            "error_cb": self._note,
        }
        self._client: AdminClient | None = None
        self._committer: Consumer | None = None
        self._commit_failed: KafkaError | None = None

    @property
    def _admin(self) -> AdminClient:
        """The admin client; a new one after a failure, as the old one may ask with a leader's epoch that is past."""
        if self._client is None:
            try:
                self._client = AdminClient(self._shared)
            except (KafkaException, ValueError, TypeError) as exc:
                raise refuse(exc, "the connection", self.servers) from exc
        return self._client

    def _note(self, error: KafkaError) -> None:
        if error.code() != KafkaError._ALL_BROKERS_DOWN or self.last_error is None:  # noqa: SLF001
            self.last_error = error

    def _committed(self, error: KafkaError | None, _: object) -> None:
        self._commit_failed = error

    def _explain(self, exc: Exception | KafkaError, what: str) -> IngestError:
        if self._client is not None:
            self._client.poll(0)  # what the connection itself reported waits to be called back with
        if isinstance(exc, (KafkaException, KafkaError)):
            if is_away(exc):
                self._client = None
            # "timed out" says less than what the connection itself reported meanwhile
            better, self.last_error = self.last_error, None
            if better is not None and is_away(exc):
                return self._closer(explain(better, what, self.servers), better)
            return explain(exc, what, self.servers)
        self._client = None
        return Unavailable(
            f"cannot {what}: no answer from the broker at {self.servers} in time: {exc}", "run again later"
        )

    def _closer(self, error: IngestError, cause: KafkaError) -> IngestError:
        """The same error, with what a look at the certificates adds."""
        if isinstance(error, AccessError):
            about_broker = "is not trusted" in error.message
            more = why_untrusted(self.servers, self.conf) if about_broker else ""
            if "certificate" in cause.str() and not about_broker:
                more = own_certificate(self.conf)
            if more:
                hint = "use a name that the certificate is for" if "mismatch" in more else error.hint
                return AccessError(f"{error.message} ({more})", hint)
        return error

    def _get(self, future: Future[_T], what: str) -> _T:
        try:
            return future.result(REQUEST_S + 2)
        except (KafkaException, TimeoutError) as exc:
            raise self._explain(exc, what) from exc

    def connect(self, within_s: float, tell: Callable[[str], None] | None = None) -> str:
        """The cluster's id, once it answers.

        Raises Unavailable after `within_s` seconds, and at once what trying again does not mend: AccessError, and
        ConfigError for an address at which nobody can answer. `tell` gets to know, once, that there is no answer yet.
        """
        usable(self.conf)
        deadline = time.monotonic() + within_s
        patience = 1.0  # short at first, so that a refused login shows soon
        suspect: ConfigError | None = None
        told = False
        while True:
            try:
                metadata = self._admin.list_topics(timeout=min(patience, max(0.1, deadline - time.monotonic())))
            except KafkaException as exc:
                error = self._explain(exc, "connect")
                left = deadline - time.monotonic()
                final = left <= 0 or not isinstance(error, Unavailable)
                if tell is not None and not told and not final:
                    until = time.strftime("%H:%M:%S UTC", time.gmtime(time.time() + left))
                    tell(f"{error.message.partition(': ')[2]}; trying until {until}")
                before = suspect
                suspect = wrong_address(self.conf, "connect") if final or not told or before is not None else None
                if suspect is not None and (final or before is not None):  # a broker that stops looks so for a moment
                    raise suspect from exc
                if final:
                    raise error from exc
                told = True
                patience = min(2 * patience, PATIENCE_S)
                time.sleep(0.2)
            else:
                brokers = [(str(broker.host), broker.port) for broker in metadata.brokers.values()]
                refuse_advertised(brokers, self.servers)
                return str(metadata.cluster_id)

    def names(self) -> set[str]:
        """All topics that this user may see."""
        try:
            return set(self._admin.list_topics(timeout=REQUEST_S).topics)
        except KafkaException as exc:
            raise self._explain(exc, "list topics") from exc

    @_settled
    def topics(self, names: Iterable[str]) -> dict[str, Topic]:
        """Those of the topics that exist; raises AccessError where one may not be described."""
        out = {}
        wanted = list(names)
        futures = self._admin.describe_topics(TopicCollection(wanted), request_timeout=REQUEST_S) if wanted else {}
        for name, future in futures.items():
            try:
                found = self._get(future, f"describe topic {name}")
            except TopicMissing:
                continue
            out[name] = Topic(name, str(found.topic_id), len(found.partitions), bool(found.is_internal))
        return out

    @_settled
    def offsets(self, splits: Iterable[Split], spec: OffsetSpec, *, committed: bool = True) -> dict[Split, int]:
        """The offset that `spec` means in each split; with `committed` the end is the last stable offset."""
        request = {TopicPartition(topic, partition): spec for topic, partition in splits}
        if not request:
            return {}
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        futures = self._admin.list_offsets(request, isolation_level=level, request_timeout=REQUEST_S)
        out = {}
        for tp, future in futures.items():
            what = f"ask for the offsets of {tp.topic}[{tp.partition}]"
            offset = out[tp.topic, tp.partition] = int(self._get(future, what).offset)  # type: ignore[attr-defined]
            if offset == OFFSET_INVALID:  # what the client gives, without an error, where no leader answered
                cause = KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
                raise self._explain(cause, what) from cause
        return out

    def earliest(self, splits: Iterable[Split]) -> dict[Split, int]:
        """The first offset that each split still has."""
        return self.offsets(splits, OffsetSpec.earliest())

    def latest(self, splits: Iterable[Split], *, committed: bool = True) -> dict[Split, int]:
        """The end of each split: one past the last record, or past the last committed one."""
        return self.offsets(splits, OffsetSpec.latest(), committed=committed)

    def at_time(self, splits: Iterable[Split], millis: int) -> dict[Split, int]:
        """The first offset of each split that is not older than a time, -1 where all are older."""
        return self.offsets(splits, OffsetSpec.for_timestamp(millis))

    def group_offsets(self, group: str, splits: Iterable[Split]) -> dict[Split, int]:
        """What the consumer group committed; splits without are left out."""
        return {split: at for split, (at, _) in self.group_commits(group, splits).items()}

    @_settled
    def group_commits(self, group: str, splits: Iterable[Split]) -> dict[Split, tuple[int, str]]:
        """What the consumer group committed, with the note that came with it; splits without are left out.

        Asks as a consumer: librdkafka's admin request for this crashes while the group's coordinator is loading.
        """
        what = f"read the offsets of group {group}"
        try:
            found = self._member(group).committed([TopicPartition(*split) for split in splits], timeout=REQUEST_S)
        except KafkaException as exc:
            raise self._explain(exc, what) from exc
        for tp in found:
            if tp.error is not None:
                raise self._explain(tp.error, what) from KafkaException(tp.error)
        return {(tp.topic, tp.partition): (tp.offset, tp.metadata or "") for tp in found if tp.offset >= 0}

    def _member(self, group: str) -> Consumer:
        """A consumer of this group; it joins nothing and reads nothing."""
        if self._committer is None:
            quiet = {
                "enable.auto.commit": False, "log_level": 0, "error_cb": self._note, "on_commit": self._committed,
            }  # fmt: skip
            try:
                self._committer = Consumer({**self.conf, "group.id": group, **quiet})
            except (KafkaException, ValueError, TypeError) as exc:
                raise refuse(exc, "the connection", self.servers) from exc
        return self._committer

    @_settled
    def members(self, group: str) -> list[str]:
        """The client ids of a consumer group's members."""
        (future,) = self._admin.describe_consumer_groups([group], request_timeout=REQUEST_S).values()
        found = self._get(future, f"describe consumer group {group}")
        return [str(member.client_id) for member in found.members or []]  # type: ignore[attr-defined]

    def commit(self, group: str, positions: Mapping[Split, int], note: str = "", *, wait: bool = True) -> None:
        """Commit positions to a consumer group, for monitoring, each with a note; raises IngestError.

        Without `wait`, a failure is raised by the next call.
        """
        offsets = [TopicPartition(topic, partition, offset, note) for (topic, partition), offset in positions.items()]
        try:
            member = self._member(group)
            member.poll(0)  # what became of the commit before
            if wait:
                member.commit(offsets=offsets, asynchronous=False)
            else:
                member.commit(offsets=offsets, asynchronous=True)
        except KafkaException as exc:
            raise self._explain(exc, f"commit offsets to group {group}") from exc
        failed, self._commit_failed = self._commit_failed, None
        if failed is not None:
            raise self._explain(failed, f"commit offsets to group {group}")

    def create(
        self,
        names: Collection[str],
        partitions: int,
        replication: int,
        config: Mapping[str, str],
        *,
        dry_run: bool = False,
    ) -> set[str]:
        """Create topics; those that exist already are left as they are. Returns the created ones.

        `dry_run`: only ask the brokers whether they would; what they refuse raises as if they were created.
        Raises TopicMissing where `properties.allow.auto.create.topics` is false.
        """
        if self.conf.get(CREATE, "").lower() in FALSE and (first := min(names, default=None)) is not None:
            msg = f"topic {first!r} does not exist at {self.servers}, and properties.{CREATE} is false"
            how = " and ".join(f"{key}={value}" for key, value in config.items())
            raise TopicMissing(msg, f"create it{f' with {how}' if how else ''}, or leave that property out")
        new = [NewTopic(name, partitions, replication, config=dict(config)) for name in names]
        created = set()
        asked = self._admin.create_topics(new, request_timeout=REQUEST_S, validate_only=dry_run) if new else {}
        for name, future in asked.items():
            try:
                future.result(REQUEST_S + 2)
                created.add(name)
            except KafkaException as exc:
                if error_of(exc).code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise self._explain(exc, f"create topic {name}") from exc
        return created

    def widen(self, name: str, partitions: int) -> None:
        """See to it that a topic has so many partitions at least."""
        found = self.topics([name]).get(name)
        if found is None or found.partitions >= partitions:
            return
        (future,) = self._admin.create_partitions([NewPartitions(name, partitions)], request_timeout=REQUEST_S).values()
        self._get(future, f"add partitions to topic {name}")
        self.wait_until(lambda: self.topics([name])[name].partitions >= partitions, 10)

    def topic_config(self, name: str, key: str) -> str | None:
        """One setting of a topic, None where it may not be read."""
        resource = ConfigResource(ConfigResource.Type.TOPIC, name)
        (future,) = self._admin.describe_configs([resource], request_timeout=REQUEST_S).values()
        try:
            entry = self._get(future, f"read the settings of topic {name}").get(key)
        except IngestError:
            return None
        return None if entry is None else str(entry.value)

    def broker_config(self, key: str) -> str | None:
        """One setting of the brokers, None where it may not be read."""
        try:
            brokers = self._admin.list_topics(timeout=REQUEST_S).brokers
            resource = ConfigResource(ConfigResource.Type.BROKER, str(min(brokers)))
            (future,) = self._admin.describe_configs([resource], request_timeout=REQUEST_S).values()
            entry = self._get(future, "read the settings of the brokers").get(key)
        except (IngestError, KafkaException, ValueError):
            return None
        return None if entry is None else str(entry.value)

    def set_scram(self, user: str, password: str) -> None:
        """Give a user a password for SCRAM-SHA-256 and SCRAM-SHA-512."""
        changes = [
            UserScramCredentialUpsertion(user, ScramCredentialInfo(mechanism, 4096), password.encode())
            for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
        ]
        # One at a time: a request may change each user once only
        for change in changes:
            (future,) = self._admin.alter_user_scram_credentials([change], request_timeout=REQUEST_S).values()
            self._get(future, f"set the password of user {user}")

    def wait_until(self, condition: Callable[[], bool], within_s: float) -> bool:
        """Poll until true; a created topic takes a moment to be known everywhere."""
        deadline = time.monotonic() + within_s
        while not condition():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True

    def close(self) -> None:
        """Let go of the connections."""
        if self._committer is not None:
            close(self._committer)
            self._committer = None

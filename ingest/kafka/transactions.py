"""Exactly-once into Kafka: a shard's records and its progress, committed in one transaction every few seconds.

    transactional ids   <prefix>/<shard>, <prefix>/driver   a newer producer of an id fences the older one
    progress            <prefix>/<scope>                    a consumer group's offsets; what they say is in their notes
    ownership           <prefix>/driver                     see ownership.py

The order matters. A new producer asks for its id first, which ends what an older one left open and fences it for good,
and only then reads how far the shard was written. Nobody can move that any more but this producer itself. Whatever
goes wrong in a commit, the producer is thrown away: the next one reads the truth.
"""

from __future__ import annotations

import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import msgspec
from confluent_kafka import KafkaException

from ingest.errors import CommitOutcomeUnknown, Fenced, IngestError, Unavailable
from ingest.kafka import progress
from ingest.kafka.failures import error_of, explain, is_away, is_fenced, is_settling
from ingest.kafka.handle import make_consumer
from ingest.kafka.progress import ProgressNote, group_of, transactional_id
from ingest.kafka.properties import BOOTSTRAP, LOG_LEVEL, shared
from ingest.kafka.waiting import in_time
from ingest.kafka.writer import FLUSH_S, KafkaWriter, narrower
from ingest.model.commit import RowsRefused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ingest.kafka.handle import EncodedRecords
    from ingest.kafka.refusals import Letter
    from ingest.model.client_report import ClientReport
    from ingest.model.commit import CommitScope, ResumePoint
    from ingest.model.record import Split

REQUEST_S: Final = 20.0
"""The time that a step of a transaction may take, in seconds; less than a transaction may take."""
GRACE_S: Final = 5.0
"""The time after that until the client is given up, in seconds: it does not always keep that deadline itself."""
_given_up: list[Any] = []
"""Clients that hang in a call: to release them could hang as well."""
SETTLE_S: Final = 30.0
"""The time that a coordinator that has just moved is given to answer, in seconds."""
CLOSE_S: Final = 10.0
PATIENCE_S: Final = 120.0
"""The time that a broker that went away is waited for, in seconds."""
_T = TypeVar("_T")


class Notes:
    """The notes that are committed under one consumer group. It joins nothing and reads no records."""

    def __init__(self, conf: Mapping[str, str], group: str) -> None:
        """Connect when somebody asks."""
        quiet = {"enable.auto.commit": False, "isolation.level": "read_committed", **LOG_LEVEL}
        self._servers = conf[BOOTSTRAP]
        self._group = group
        self.consumer = make_consumer({**shared(conf), **quiet, "group.id": group})
        """The client, which a transaction commits the group's offsets for."""

    def read(self, shard: int) -> str:
        """Return the note of a shard, empty where there is none; raises IngestError."""
        deadline = time.monotonic() + SETTLE_S
        while True:
            try:
                offset, note = self.consumer.committed(progress.TOPIC, shard, REQUEST_S)
            except KafkaException as exc:
                if not is_settling(exc) or time.monotonic() > deadline:
                    raise explain(exc, f"read the progress of consumer group {self._group}", self._servers) from exc
            else:
                return note if offset >= 0 else ""
            time.sleep(0.05)

    def close(self) -> None:
        """Release the connections."""
        self.consumer.close(CLOSE_S)


def persistently(step: Callable[[], _T]) -> _T:
    """Try a step again for a while whose outcome was not known, or whose broker is away."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return step()
        except Unavailable:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.5)


class Channel:
    """One transactional id: what is written under it, and notes that are committed together with that."""

    def __init__(self, conf: Mapping[str, str], prefix: str, who: int | str) -> None:
        """Connect, fence whoever had the id before, and end what they left open. Raises IngestError."""
        self._servers = conf[BOOTSTRAP]
        self._what = f"transactional id {transactional_id(prefix, who)}"
        self.writer = KafkaWriter({**conf, "transactional.id": transactional_id(prefix, who)}, checked=True)
        self._producer = self.writer.producer
        self._hangs = False
        try:
            self._ask_metadata()
            self._in_time(self._producer.init_transactions, REQUEST_S)
        except CommitOutcomeUnknown:
            self.close()
            raise
        except KafkaException as exc:
            self.close()
            raise explain(exc, f"take {self._what}", self._servers) from exc

    def _ask_metadata(self) -> None:
        """Ask the cluster for metadata, which makes what follows several times faster."""
        try:
            self._producer.partitions(progress.TOPIC, REQUEST_S)
        except KafkaException as exc:
            if error_of(exc).code() < 0:  # librdkafka's own codes: there was no answer
                raise

    def _in_time(self, call: Callable[..., object], *arguments: object) -> None:
        """Make a call that blocks; raises what it raises, and CommitOutcomeUnknown where it does not come back."""
        if not in_time(REQUEST_S + GRACE_S, call, *arguments):
            self._hangs = True
            msg = f"the Kafka client hangs in {call.__name__} of {self._what} at {self._servers}"
            raise CommitOutcomeUnknown(msg, "nothing is lost: a new client finds out how far it came")

    def begin(self) -> None:
        """Begin a transaction."""
        try:
            self._producer.begin_transaction()
        except KafkaException as exc:
            raise explain(exc, f"begin a transaction of {self._what}", self._servers) from exc

    def commit(self, shard: int, notes: Sequence[tuple[Notes, str]], number: int) -> None:
        """Commit what was written since `begin`, and notes; raises CommitOutcomeUnknown where nobody knows whether."""
        self.writer.check()
        what = f"commit a transaction of {self._what}"
        try:
            split = (progress.TOPIC, shard)
            for group, note in notes:
                self._in_time(self._producer.send_offset, split, number, note, group.consumer, REQUEST_S)
            self._in_time(self._producer.commit_transaction, REQUEST_S)
        except KafkaException as exc:
            with suppress(KafkaException):
                self._producer.flush(FLUSH_S)
            if not is_fenced(exc):  # or the client has dropped its records for that
                self.writer.check()  # a record that the broker does not take says more
            raise self._again(exc, what) from exc

    def _again(self, exc: KafkaException, what: str) -> IngestError:
        error = explain(exc, what, self._servers)
        inner = error_of(exc)
        if is_away(inner) or inner.txn_requires_abort() or type(error) is IngestError:
            return CommitOutcomeUnknown(error.message, error.hint)
        return error

    def abort(self) -> None:
        """End the open transaction without what was written, if that is still ours to do."""
        if self._hangs:
            return
        with suppress(KafkaException, CommitOutcomeUnknown):
            self._producer.purge()
            self._in_time(self._producer.abort_transaction, REQUEST_S / 2)

    def close(self) -> None:
        """Release the connections. A transaction that is open is left to the next producer of the id, or to time."""
        if self._hangs:
            _given_up.append(self.writer)
            return
        with suppress(KafkaException, RuntimeError):
            self.writer.close()


class Groups:
    """The groups of one scope, by number; those that were used once stay connected."""

    def __init__(self, conf: Mapping[str, str], prefix: str, scope: str) -> None:
        """Connect to none yet."""
        self._conf, self._prefix, self.scope = conf, prefix, scope
        self._known: list[Notes] = []

    def notes(self, count: int) -> list[Notes]:
        """Return the notes of the first so many groups."""
        while len(self._known) < count:
            name = group_of(self._prefix, self.scope, len(self._known))
            self._known.append(Notes(self._conf, name))
        return self._known[:count]

    def read(self, shard: int, count: int) -> list[ProgressNote | None]:
        """Return the first so many notes of a shard; raises IngestError."""
        out = []
        for i, notes in enumerate(self.notes(count)):
            text = notes.read(shard)
            out.append(progress.read_note(text, group_of(self._prefix, self.scope, i)) if text else None)
        return out

    def close(self) -> None:
        """Release the connections."""
        for notes in self._known:
            notes.close()
        self._known = []


class TransactionalWriter:
    """A task's side: writes one shard at a time, in transactions."""

    failures = 0

    leaving_out: None = None

    def __init__(self, conf: Mapping[str, str], prefix: str) -> None:
        """Connect to nothing yet."""
        self._conf = conf
        self._prefix = prefix
        self._channel: Channel | None = None
        self._groups: Groups | None = None
        self._of: tuple[str, int, int] | None = None
        """Scope, run and shard of the channel."""
        self._scope: CommitScope
        self._begun = False
        self._started_over = False
        """True if nothing was written since a transaction that was given up for records that are refused."""

    def begin(self, scope: CommitScope) -> ResumePoint | None:
        """Take the shard over, unless it is ours already, and see how far an earlier attempt came.

        Raises Fenced where a newer run has taken it over.
        """
        self._scope = scope
        of = (scope.owner, scope.run, scope.shard)
        if scope.kept and self._channel is not None and self._of == of:
            self._channel.writer.begin(scope)
            return None
        self._close()
        return progress.unpack(self._take_over(), scope.starts, scope.batch, scope.planned)

    def _take_over(self) -> list[ProgressNote | None]:
        """Make a producer of the shard, and read how far the shard is written; raises Fenced as `begin` does."""
        scope = self._scope
        if self._groups is None or self._groups.scope != scope.owner:
            self._groups = Groups(self._conf, self._prefix, scope.owner)
        groups = self._groups
        self._channel = persistently(lambda: Channel(self._conf, self._prefix, scope.shard))
        self._channel.writer.begin(scope)
        self._of = (scope.owner, scope.run, scope.shard)
        notes = persistently(lambda: groups.read(scope.shard, progress.parts(scope.starts)))
        head = notes[0]
        if head is not None and (head.run, head.batch) > (scope.run, scope.batch):
            msg = (
                f"run {scope.run} of the pipeline was to write shard {scope.shard}, which has been taken over by "
                f"run {head.run}, batch {head.batch}"
            )
            raise Fenced(msg, "nothing is lost; see that only one run of a pipeline is started")
        return notes

    @property
    def by_one(self) -> Self:
        """Itself: chunks are committed by themselves where it is told so."""
        return self

    def apart(self, *, on: bool) -> None:
        """See `ByOne`: hold what is written until the commit, or send it at once."""
        assert self._channel is not None
        self._channel.writer.apart(on=on)

    def _start_over(self) -> KafkaWriter:
        """Give up the open transaction with its producer; returns another one, whose transaction has begun."""
        assert self._channel is not None
        self._channel.abort()
        self._close()
        self._take_over()
        writer = self._writer()
        writer.apart(on=True)
        return writer

    @contextmanager
    def _starting_over(self) -> Iterator[None]:
        """Begin another transaction where a topic does not take a record that is written in the block."""
        try:
            yield
        except RowsRefused:
            self._start_over()
            self._started_over = True
            raise

    def _writer(self) -> KafkaWriter:
        assert self._channel is not None
        self._started_over = False
        if not self._begun:
            self._channel.begin()
            self._begun = True
        return self._channel.writer

    def write(self, records: EncodedRecords) -> None:
        """Queue records in the open transaction; raises IngestError when one before failed."""
        if records:
            with self._starting_over():
                self._writer().write(records)

    def partitions(self, topic: str) -> int:
        """Return how many partitions a topic has; raises IngestError."""
        return self._writer().partitions(topic)

    def send(self, letter: Letter) -> None:
        """Queue one record with headers and a time, in the open transaction; raises as `write` does."""
        with self._starting_over():
            self._writer().send(letter)

    def commit(self, positions: Mapping[Split, int], metadata: bytes, *, final: bool) -> None:
        """Commit what was written and that it was; raises CommitOutcomeUnknown where the outcome is not known."""
        scope, writer = self._scope, self._writer()
        assert self._channel is not None
        assert self._groups is not None
        note = ProgressNote(scope.run, scope.batch, scope.planned, final=final, tally=msgspec.Raw(metadata))
        texts = progress.pack(note, scope.starts, positions)
        notes = [*zip(self._groups.notes(len(texts)), texts, strict=True)]
        with self._starting_over():
            narrow = writer.deliver_held(self._start_over, atomic=True)
            self._channel.commit(scope.shard, notes, scope.batch)
        self._begun = False
        if narrow:
            self._conf = narrower(self._conf)
            self._close()
            self._take_over()
            self.apart(on=True)

    def delivered(self) -> list[Any]:
        """Return nothing for the driver: it is in Kafka."""
        return []

    @property
    def reporting(self) -> Self:
        """Itself: its client has logs and statistics."""
        return self

    def report(self) -> ClientReport | None:
        """Return what the client told since the last call; None where that is nothing."""
        return None if self._channel is None else self._channel.writer.report()

    def abort(self) -> None:
        """Give up what was written since the last commit, and the producer: it may be in any state.

        After records that are refused it is in none but that, and another transaction has begun.
        """
        if self._started_over:
            self._started_over = False
            return
        self.close()

    def close(self) -> None:
        """Give up what was written since the last commit, and the connections."""
        self._started_over = False
        if self._channel is not None and self._begun:
            self._channel.abort()
        self._close()
        groups, self._groups = self._groups, None
        if groups is not None:
            groups.close()

    def _close(self) -> None:
        channel, self._channel, self._begun = self._channel, None, False
        if channel is not None:
            channel.close()

"""A transactional id of Kafka: what is written under it and notes with offsets, committed together.

The order matters. A new producer asks for its id first, which ends what an older one left open and fences it for good,
and only then are notes read: nobody can move them any more but this producer itself. Whatever goes wrong in a commit,
the producer is thrown away: the next one reads the truth.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaException

from ingest.errors import CommitOutcomeUnknown, IngestError, Unavailable
from ingest.kafka.failures import error_of, explain, is_away, is_fenced, is_settling
from ingest.kafka.handle import make_consumer
from ingest.kafka.properties import BOOTSTRAP, LOG_LEVEL, shared
from ingest.kafka.waiting import in_time
from ingest.kafka.writer import FLUSH_S, KafkaWriter

NOTES_TOPIC: Final = "ingest-progress"
"""Holds no record: an offset can only be committed for a partition that exists on the sink's cluster."""
REQUEST_S: Final = 20.0
"""The time that a step of a transaction may take, in seconds; less than a transaction may take."""
GRACE_S: Final = 5.0
"""The time after that until the client is given up, in seconds: it does not always keep that deadline itself."""
_given_up: list[Any] = []
"""Clients that hang in a call: to release them could hang as well."""
SETTLE_S: Final = 30.0
"""How long a transaction or group coordinator that moves to another broker may take to answer, in seconds."""
CLOSE_S: Final = 10.0
PATIENCE_S: Final = 120.0
"""The time that a broker that went away is waited for, in seconds."""
_T = TypeVar("_T")


class Notes:
    """Reader of the notes that are committed as offsets of one consumer group. It never joins the group."""

    def __init__(self, conf: Mapping[str, str], group: str) -> None:
        quiet = {"enable.auto.commit": False, "isolation.level": "read_committed", **LOG_LEVEL}
        self._servers = conf[BOOTSTRAP]
        self._group = group
        self.consumer = make_consumer({**shared(conf), **quiet, "group.id": group})
        """The client, which a transaction commits the group's offsets for."""

    def read(self, shard: int) -> str:
        """Return the committed note of a shard, or an empty text. Raise IngestError."""
        deadline = time.monotonic() + SETTLE_S
        while True:
            try:
                offset, note = self.consumer.committed(NOTES_TOPIC, shard, REQUEST_S)
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
    """Retry a step for a while as long as it raises Unavailable: unknown outcome, or no broker."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return step()
        except Unavailable:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.5)


class Channel:
    """Transactional producer of one id: commits records and notes in one transaction."""

    def __init__(self, conf: Mapping[str, str], name: str) -> None:
        """Connect, fence earlier producers of the id, and abort their open transaction. Raise IngestError."""
        self._servers = conf[BOOTSTRAP]
        self._what = f"transactional id {name}"
        self.writer = KafkaWriter({**conf, "transactional.id": name}, checked=True)
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
        """Ask the cluster for metadata, which makes the next calls several times faster."""
        try:
            self._producer.partitions(NOTES_TOPIC, REQUEST_S)
        except KafkaException as exc:
            if error_of(exc).code() < 0:  # librdkafka's own codes: there was no answer
                raise

    def _in_time(self, call: Callable[..., object], *arguments: object) -> None:
        """Make a blocking call with a time limit. Raise its error, or CommitOutcomeUnknown after the limit."""
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
        """Commit the records since `begin` with these notes. Raise CommitOutcomeUnknown if the outcome is unknown."""
        self.writer.check()
        what = f"commit a transaction of {self._what}"
        try:
            split = (NOTES_TOPIC, shard)
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
        """Abort the open transaction, with all queued records. Errors are ignored: the transaction is ended without us.

        That is done by the next producer of the id, or by the broker after the transaction's timeout.
        """
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

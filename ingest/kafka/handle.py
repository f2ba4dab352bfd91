"""A consumer and a producer as readers, writers and transactions need them: one interface, two implementations.

`make_consumer` and `make_producer` choose. The native implementation (ingest/kafka/native) calls librdkafka directly,
and passes records without a Python object for each. The reference (reference.py) does the same with confluent_kafka's
own classes, where the package was installed without a compiler, where librdkafka is of a version that was not tested,
and where `INGEST_NATIVE=off` is set in the environment.

A client belongs to the process that makes it, and is made by the worker that uses it: it does not survive a fork. What
librdkafka's threads meet is never called back with; it waits in the client until somebody asks (`errors`, `failures`,
`log`, `statistics`). Every method raises KafkaException for what librdkafka refuses, and RuntimeError for a client that
is closed.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from ingest import compiled
from ingest.kafka import msk, reference
from ingest.model.commit import LoggingClient

if compiled.BUILT:
    from ingest.kafka.native import consumer, library, producer

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from confluent_kafka import KafkaError

    from ingest.model.record import Headers, Record, Split

Conf: TypeAlias = "Mapping[str, Any]"
"""Librdkafka's configuration: names, and texts, numbers or truth values."""
EncodedRecords: TypeAlias = "Sequence[tuple[Any, bytes | None, Any]]"
"""Records to be written: destination, key, value. A destination is a topic, headers or None, and a partition: -1 for
that of the key, four bytes for that of a hash. That of one record alone also has its time in milliseconds since 1970,
or None. Native code's `EncodedBatch` is one."""


class Client(LoggingClient, Protocol):
    """The common part of a consumer and a producer. It has statistics where `statistics.interval.ms` is set."""

    def errors(self) -> list[KafkaError]:
        """Return what librdkafka's threads have met since the last call; only the newest few are kept."""

    def close(self, seconds: float, /) -> bool:
        """End the client; return whether that came to its end within so many seconds.

        librdkafka may never return from it (docs/adr/2026-11-22-the-client-may-hang-when-closed.md). Such a client is
        left as it is, and ends with the process. Raises RuntimeError while another call is under way.
        """


class Consumer(Client, Protocol):
    """Reads splits that it is told to read. It joins no group and commits nothing."""

    @property
    def group(self) -> str:
        """The consumer group whose commits `committed` returns."""

    def assign(self, starts: Mapping[Split, int], /) -> None:
        """Read these splits from these offsets on, and no others."""

    def unassign(self) -> None:
        """Read nothing."""

    def remove(self, topic: str, partition: int, /) -> None:
        """Read no more of a split."""

    def consume(
        self, most: int, millis: int, metadata: Collection[str] = (), /
    ) -> tuple[list[tuple[str, int, Sequence[Record]]], list[tuple[str, int, KafkaError]]]:
        """Take at most so many records (a million), waiting for so many milliseconds at most.

        `metadata`: which of `METADATA` (model/record.py) native code will ask of them, beside keys and values.
        Returns (topic, partition, records) for each split, in order, and (topic, partition, error) for each error.
        """

    def positions(self, splits: Iterable[Split], /) -> dict[Split, int]:
        """Return the offset that each split is read at next; splits of which nothing was read yet are left out."""

    def watermarks(self, topic: str, partition: int, seconds: float, /) -> tuple[int, int]:
        """Return the first offset of a split and the one after its last."""

    def committed(self, topic: str, partition: int, seconds: float, /) -> tuple[int, str]:
        """Return the offset that the group committed for a split, negative where there is none, and its note.

        The note is what was committed with the offset, up to a zero byte.
        """


class Producer(Client, Protocol):
    """Writes records, also in transactions.

    While a record is written, `write`, `send` and `close` raise RuntimeError: other threads, and what is called back
    (a destination's `__hash__`, a value's buffer), stay out.
    """

    def write(self, records: EncodedRecords, start: int = 0, /) -> int:
        """Queue records from the one at `start` on. Waits while the queue is full.

        Returns the place of the first record that is not queued. Where that is not the end, `errors` or `failures` have
        something that may make it useless to wait. Raises ClientError for a record that librdkafka does not take.
        """

    def send(
        self, topic: str, key: bytes | None, value: bytes | None, headers: Headers | None, millis: int | None, /
    ) -> bool:
        """Queue one record with headers and a time in milliseconds since 1970, or None for either.

        Returns whether it is queued; where it is not, look at `errors` and `failures`, as after `write`.
        """

    def poll(self) -> None:
        """Let librdkafka say what became of records, for `errors` and `failures`."""

    def flush(self, seconds: float, /) -> int:
        """Wait until all is delivered or has failed, for so many seconds at most; return how many records are left."""

    def queued(self) -> int:
        """Return how many records are not delivered yet."""

    def purge(self) -> None:
        """Drop what is queued and under way."""

    def failures(self) -> tuple[int, tuple[KafkaError, str, int] | None]:
        """Return how many deliveries have failed; and error, topic and partition of the first since the last call."""

    def refusal(self) -> tuple[KafkaError, str, int] | None:
        """Return error, topic and partition of the first record since the last call that its topic does not take.

        None if there is none. See `is_refusal` of failures.py; these records are none of `failures`.
        """

    def keep_partitions(self, counts: dict[str, int], /) -> None:
        """Hash the keys of these topics over so many partitions, however many the topics have.

        Of other topics it is the number that they have. `counts` is kept: whoever changes it gives another one.
        """

    def partitions(self, topic: str, seconds: float, /) -> int:
        """Return how many partitions a topic has."""

    def init_transactions(self, seconds: float, /) -> None:
        """Take the transactional id over, and end what another producer left open under it."""

    def begin_transaction(self) -> None:
        """Begin a transaction."""

    def send_offset(self, split: Split, offset: int, note: str, consumer: Any, seconds: float, /) -> None:
        """Commit an offset with a note for the group of a consumer, in the open transaction."""

    def commit_transaction(self, seconds: float, /) -> None:
        """Commit what was written and sent since the transaction began."""

    def abort_transaction(self, seconds: float, /) -> None:
        """End the open transaction without what was written in it."""


@cache
def unusable() -> str:
    """Return why librdkafka cannot be called directly in this process; empty where it can."""
    if not compiled.USED:
        return compiled.ABSENT
    try:
        library.load()
    except LookupError as exc:
        return f"the Kafka client cannot be called directly: {exc.args[0]}"
    return ""


def make_consumer(conf: Conf) -> Consumer:
    """Return a new consumer; raises KafkaException for a configuration that librdkafka does not take.

    Raises IngestError where it cannot log in to MSK.
    """
    if unusable():
        return reference.Consumer(msk.with_login(conf))
    return msk.made(consumer.Consumer, conf)


def make_producer(conf: Conf) -> Producer:
    """Return a new producer; raises as `make_consumer` does."""
    if unusable():
        return reference.Producer(msk.with_login(conf))
    return msk.made(producer.Producer, conf)

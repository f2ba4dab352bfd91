"""The transactions that a cluster knows, as its own log of them tells: the topic `__transaction_state`.

The client has no request for this, so the log is read; its records' form is Kafka's own (TransactionLogKey.json and
TransactionLogValue.json in its sources, versions 0 and 1). To end a transaction is what a new producer of its id does.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from ingest.errors import TopicMissing, Unavailable
from ingest.kafka.failures import explain
from ingest.kafka.msk import with_login
from ingest.kafka.properties import BOOTSTRAP, shared
from ingest.kafka.waiting import close
from ingest.kafka.writer import KafkaWriter

TOPIC: Final = "__transaction_state"
REQUEST_S: Final = 20.0
READ_S: Final = 120.0
_STATES: Final = ("empty", "open", "committing", "aborting", "committed", "aborted", "dead", "fencing")
OPEN: Final = frozenset({"open", "committing", "aborting", "fencing"})
"""Readers of committed records wait for these to end."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """The last that is known of a transactional id."""

    id: str
    state: str
    producer: int
    epoch: int
    timeout_ms: int
    partitions: tuple[tuple[str, int], ...]
    started: int
    """The time when it was begun, in milliseconds since 1970; -1 where none is under way."""
    updated: int


class _Bytes:
    """A record of Kafka's own, field by field."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def number(self, size: int) -> int:
        self._at += size
        if self._at > len(self._data):
            raise ValueError("a record ends too soon")
        return int.from_bytes(self._data[self._at - size : self._at], "big", signed=True)

    def varint(self) -> int:
        out = shift = 0
        while True:
            byte = self.number(1) & 0xFF
            out |= (byte & 0x7F) << shift
            if byte < 0x80:
                return out
            shift += 7

    def count(self, *, flexible: bool, size: int) -> int:
        return self.varint() - 1 if flexible else self.number(size)

    def text(self, *, flexible: bool) -> str:
        length = max(0, self.count(flexible=flexible, size=2))
        self._at += length
        return self._data[self._at - length : self._at].decode("utf-8", "replace")

    def skip_tags(self) -> None:
        for _ in range(self.varint()):
            self.varint()
            self._at += self.varint()


def read_key(data: bytes) -> str:
    """Return the transactional id of a record; raises ValueError."""
    fields = _Bytes(data)
    if fields.number(2) != 0:
        raise ValueError("a key of an unknown version")
    return fields.text(flexible=False)


def read_value(name: str, data: bytes) -> Transaction:
    """Parse a record's value: the state of the transaction of the id `name`. Raise ValueError."""
    fields = _Bytes(data)
    version = fields.number(2)
    if version not in {0, 1}:
        raise ValueError(f"a record of version {version}")
    flexible = version == 1
    producer, epoch, timeout, state = fields.number(8), fields.number(2), fields.number(4), fields.number(1)
    partitions: list[tuple[str, int]] = []
    for _ in range(max(0, fields.count(flexible=flexible, size=4))):
        topic = fields.text(flexible=flexible)
        count = max(0, fields.count(flexible=flexible, size=4))
        partitions += [(topic, fields.number(4)) for _ in range(count)]
        if flexible:
            fields.skip_tags()
    updated, started = fields.number(8), fields.number(8)
    said = _STATES[state] if 0 <= state < len(_STATES) else f"state {state}"
    return Transaction(name, said, producer, epoch, timeout, tuple(partitions), started, updated)


def transactions(conf: Mapping[str, str], prefix: str | None = None) -> list[Transaction]:
    """Return the transactional ids that begin with `prefix` and a slash, or all; raises IngestError."""
    servers = conf[BOOTSTRAP]
    quiet = {"enable.auto.commit": False, "isolation.level": "read_uncommitted", "log_level": 0}
    reads = {"group.id": "ingest-transactions", "auto.offset.reset": "error"}
    reader = Consumer(with_login({**shared(conf), **quiet, **reads}))
    by_id: dict[str, Transaction] = {}
    try:
        metadata = reader.list_topics(TOPIC, timeout=REQUEST_S).topics[TOPIC]
        if metadata.error is not None or not metadata.partitions:
            return []  # made with the first transaction
        ends = {}
        for partition in metadata.partitions:
            split = TopicPartition(TOPIC, partition)
            first, end = reader.get_watermark_offsets(split, timeout=REQUEST_S)
            if first < end:
                ends[partition] = (first, end)
        reader.assign([TopicPartition(TOPIC, partition, first) for partition, (first, _) in ends.items()])
        deadline = time.monotonic() + READ_S
        while ends:
            if time.monotonic() > deadline:
                msg = f"cannot read the transactions in {TOPIC}: no answer from the broker at {servers} in time"
                raise Unavailable(msg, "run again later")
            for message in reader.consume(10_000, 1.0):
                if message.error() is not None:
                    raise KafkaException(message.error())  # noqa: TRY301  (handled as all others)
                _take(message.key(), message.value(), prefix, by_id)
            places = reader.position([TopicPartition(TOPIC, partition) for partition in ends])
            ends = {tp.partition: ends[tp.partition] for tp in places if tp.offset < ends[tp.partition][1]}
    except KafkaException as exc:
        error = explain(exc, f"read the transactions in {TOPIC}", servers)
        if isinstance(error, TopicMissing):
            return []
        raise error from exc
    except ValueError as exc:
        msg = f"cannot read the transactions in {TOPIC} at {servers}: {exc}"
        raise Unavailable(msg, "this broker writes them in a form that this version does not know") from exc
    finally:
        close(reader)
    return sorted(by_id.values(), key=lambda transaction: transaction.id)


def _take(key: bytes | None, value: bytes | None, prefix: str | None, by_id: dict[str, Transaction]) -> None:
    if key is None:
        return
    name = read_key(key)
    if prefix is not None and not name.startswith(f"{prefix}/"):
        return
    if value is None:
        by_id.pop(name, None)
    else:
        by_id[name] = read_value(name, value)


def abort(conf: Mapping[str, str], name: str) -> None:
    """Abort the open transaction of a transactional id, and fence the producer that has it. Raise IngestError."""
    writer = KafkaWriter({**conf, "transactional.id": name}, checked=True)
    try:
        writer.producer.init_transactions(REQUEST_S)
    except KafkaException as exc:
        raise explain(exc, f"end the transaction of {name}", conf[BOOTSTRAP]) from exc
    finally:
        writer.close()

"""The reference implementation of handle.py: confluent_kafka's own classes. Slow, and the same in every result.

Each record is an object of Python's here. Where librdkafka calls back, confluent_kafka calls Python from within a
method of the client; what it is called with is kept until somebody asks.
"""

from __future__ import annotations

import json
import logging
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, cast

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from ingest.kafka.failures import ClientError, is_refusal
from ingest.kafka.waiting import METADATA_S, in_time

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from ingest.kafka.handle import Conf, EncodedRecords
    from ingest.model.record import Headers, Record, Split

MAX_ERRORS: Final = 8
MAX_LINES: Final = 32
_MURMUR_M: Final = 0x5BD1E995
_MURMUR_SEED: Final = 0x9747B28C
FULL_S: Final = 0.05
"""The time that one look at a full queue waits, in seconds."""
_end_of = json.JSONDecoder().raw_decode
_LEVELS: Final = {logging.CRITICAL: 2, logging.ERROR: 3, logging.WARNING: 4, logging.INFO: 6, logging.DEBUG: 7}


def murmur2(data: bytes) -> int:
    """Return the hash by which Kafka's Java client chooses the partition of a key, as 32 bits."""
    out = _MURMUR_SEED ^ len(data)
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * _MURMUR_M & 0xFFFFFFFF
        k = (k ^ k >> 24) * _MURMUR_M & 0xFFFFFFFF
        out = (out * _MURMUR_M & 0xFFFFFFFF) ^ k
    if rest := data[whole:]:
        out = (out ^ int.from_bytes(rest, "little")) * _MURMUR_M & 0xFFFFFFFF
    out = (out ^ out >> 13) * _MURMUR_M & 0xFFFFFFFF
    return out ^ out >> 15


def note_of(offset: TopicPartition) -> str:
    """Return the note of a committed offset, empty where there is none.

    confluent_kafka reads a note up to a zero byte, which librdkafka does not always put behind it. What follows a note
    of ours, which is a JSON text, is therefore cut off.
    """
    try:
        text = offset.metadata or ""
    except UnicodeDecodeError as exc:
        text = exc.object[: exc.start].decode()
    try:
        _, end = _end_of(text)
    except ValueError:
        return text
    return text[:end]


class _Lines(logging.Handler):
    """Keeps the newest log lines."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: deque[tuple[int, str, str]] = deque(maxlen=MAX_LINES)
        self.lost = 0

    def emit(self, record: logging.LogRecord) -> None:
        facility, _, text = record.getMessage().partition(" ")
        self.lost += len(self.lines) == MAX_LINES
        self.lines.append((_LEVELS.get(record.levelno, 6), facility, text))


class _Events:
    """Errors, delivery failures and statistics that librdkafka has reported, until they are read."""

    def __init__(self) -> None:
        self._errors: deque[KafkaError] = deque(maxlen=MAX_ERRORS)
        self._failed = 0
        self._failure: tuple[KafkaError, str, int] | None = None
        self._refusal: tuple[KafkaError, str, int] | None = None
        self._statistics: bytes | None = None
        self._lines = _Lines()

    def callbacks(self) -> dict[str, Any]:
        """Return the configuration with librdkafka's callbacks."""
        logger = logging.Logger("ingest.kafka.client")  # noqa: LOG001  (it goes with its client, and prints nothing)
        logger.addHandler(self._lines)
        return {"error_cb": self._errors.append, "stats_cb": self._keep_statistics, "logger": logger}

    def _keep_statistics(self, text: str) -> None:
        self._statistics = text.encode()

    def delivered(self, error: KafkaError | None, message: Message) -> None:
        """Keep that a delivery failed."""
        if error is None:
            return
        failure = (error, message.topic() or "", message.partition() or 0)
        if is_refusal(error):
            self._refusal = self._refusal or failure
            return
        self._failed += 1
        self._failure = self._failure or failure

    def news(self) -> bool:
        """Return whether an error or a failed delivery is pending."""
        return bool(self._errors) or self._failure is not None or self._refusal is not None

    def errors(self) -> list[KafkaError]:
        out = [*self._errors]
        self._errors.clear()
        return out

    def failures(self) -> tuple[int, tuple[KafkaError, str, int] | None]:
        out, self._failure = self._failure, None
        return self._failed, out

    def refusal(self) -> tuple[KafkaError, str, int] | None:
        out, self._refusal = self._refusal, None
        return out

    def log(self) -> tuple[list[tuple[int, str, str]], int]:
        out = [*self._lines.lines], self._lines.lost
        self._lines.lines.clear()
        self._lines.lost = 0
        return out

    def statistics(self) -> bytes | None:
        out, self._statistics = self._statistics, None
        return out


class Consumer(_Events):
    """See handle.Consumer."""

    def __init__(self, conf: Conf) -> None:
        """Make the client; raises KafkaException for a configuration that librdkafka does not take."""
        super().__init__()
        self.group = str(conf["group.id"])
        self.client = confluent_kafka.Consumer({**conf, **self.callbacks()})

    def assign(self, starts: Mapping[Split, int]) -> None:
        self.client.assign([TopicPartition(topic, partition, at) for (topic, partition), at in starts.items()])

    def unassign(self) -> None:
        self.client.unassign()

    def remove(self, topic: str, partition: int) -> None:
        self.client.incremental_unassign([TopicPartition(topic, partition)])

    def consume(
        self, most: int, millis: int, _metadata: Collection[str] = ()
    ) -> tuple[list[tuple[str, int, Sequence[Record]]], list[tuple[str, int, KafkaError]]]:
        by_split: dict[Split, list[Record]] = {}
        failed = []
        for message in self.client.consume(most, millis / 1000):
            topic, partition = message.topic() or "", message.partition() or 0
            if (error := message.error()) is not None:
                failed.append((topic, partition, error))
            else:
                by_split.setdefault((topic, partition), []).append(cast("Record", message))
        return [(*split, records) for split, records in by_split.items()], failed

    def positions(self, splits: Iterable[Split]) -> dict[Split, int]:
        places = self.client.position([TopicPartition(*split) for split in splits])
        return {(tp.topic, tp.partition): tp.offset for tp in places if tp.offset >= 0}

    def watermarks(self, topic: str, partition: int, seconds: float) -> tuple[int, int]:
        first, end = self.client.get_watermark_offsets(TopicPartition(topic, partition), timeout=seconds)
        return first, end

    def committed(self, topic: str, partition: int, seconds: float) -> tuple[int, str]:
        (offset,) = self.client.committed([TopicPartition(topic, partition)], timeout=seconds)
        if offset.error is not None:
            raise KafkaException(offset.error)
        return offset.offset, note_of(offset)

    def close(self, seconds: float) -> bool:
        with suppress(KafkaException, RuntimeError):
            return in_time(seconds, self.client.close)
        return True


class Producer(_Events):
    """See handle.Producer."""

    def __init__(self, conf: Conf) -> None:
        """Make the client; raises KafkaException for a configuration that librdkafka does not take."""
        super().__init__()
        self.client = confluent_kafka.Producer({**conf, "on_delivery": self.delivered, **self.callbacks()})
        self._partitions: dict[str, int] = {}
        self._kept_partitions: dict[str, int] = {}

    def write(self, records: EncodedRecords, start: int = 0) -> int:
        for at in range(start, len(records)):
            (topic, headers, partition, *rest), key, value = records[at]
            more: dict[str, Any] = {"partition": self._partition(topic, partition, key)}
            more["headers"] = None if headers is None else [*headers]
            if rest and rest[0] is not None:
                more["timestamp"] = rest[0]
            if not self._produce(topic, value, key, **more):
                return at
        return len(records)

    def keep_partitions(self, counts: dict[str, int]) -> None:
        self._kept_partitions = counts

    def _partition(self, topic: str, wanted: int | bytes, key: bytes | None) -> int:
        """Return the partition of a record, -1 where the client chooses it. How many a topic has is asked once."""
        kept = self._kept_partitions.get(topic)
        if not isinstance(wanted, bytes):
            return wanted if wanted >= 0 or kept is None or key is None else (murmur2(key) & 0x7FFFFFFF) % kept
        count = kept or self._partitions.get(topic)
        if count is None:
            try:
                count = self._partitions[topic] = max(1, self.partitions(topic, METADATA_S))
            except KafkaException as exc:
                raise ClientError(exc, f"ask for the partitions of {topic}") from exc
        return int.from_bytes(wanted, "big") % count

    def _produce(self, topic: str, value: Any, key: bytes | None, **more: Any) -> bool:
        while True:
            try:
                self.client.produce(topic, value, key, **more)
            except BufferError:
                self.client.poll(FULL_S)
                if self.news():
                    return False
            except KafkaException as exc:
                raise ClientError(exc, f"write a record of {len(value or b'')} bytes to {topic}") from exc
            else:
                return True

    def send(
        self, topic: str, key: bytes | None, value: bytes | None, headers: Headers | None, millis: int | None
    ) -> bool:
        more = {} if millis is None else {"timestamp": millis}
        return self._produce(topic, value, key, headers=headers, **more)

    def poll(self) -> None:
        self.client.poll(0)

    def flush(self, seconds: float) -> int:
        return self.client.flush(seconds)

    def queued(self) -> int:
        return len(self.client)

    def purge(self) -> None:
        self.client.purge()

    def partitions(self, topic: str, seconds: float) -> int:
        topic_metadata = self.client.list_topics(topic, timeout=seconds).topics[topic]
        if topic_metadata.error is not None:
            raise KafkaException(topic_metadata.error)
        return len(topic_metadata.partitions)

    def init_transactions(self, seconds: float) -> None:
        self.client.init_transactions(seconds)

    def begin_transaction(self) -> None:
        self.client.begin_transaction()

    def send_offset(self, split: Split, offset: int, note: str, consumer: Consumer, seconds: float) -> None:
        group: Any = consumer.client.consumer_group_metadata()
        self.client.send_offsets_to_transaction([TopicPartition(*split, offset, note)], group, seconds)

    def commit_transaction(self, seconds: float) -> None:
        self.client.commit_transaction(seconds)

    def abort_transaction(self, seconds: float) -> None:
        self.client.abort_transaction(seconds)

    def close(self, seconds: float) -> bool:
        end = getattr(self.client, "close", None)  # confluent-kafka 2.11 has none: a client ends when it is forgotten
        with suppress(KafkaException, RuntimeError):
            if end is not None:
                return in_time(seconds, end, 1)
            del self.client
        return True

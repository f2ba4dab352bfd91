"""The keys of a topic that has rows: which have one, and tombstones for them.

A key is looked for where it is, so that a topic that got more partitions loses its older rows as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingest.kafka.properties import idle
from ingest.kafka.reader import RangeReader
from ingest.kafka.writer import KafkaWriter

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from ingest.kafka.admin import Cluster

_AT_ONCE = 10_000


def live_keys(cluster: Cluster, conf: Mapping[str, str], topic: str) -> Iterator[tuple[int, list[bytes]]]:
    """Yield for each partition of a topic the keys whose last record has a value. Raise IngestError.

    `conf`: librdkafka's configuration for a producer.
    """
    found = cluster.topics([topic])
    partitions = found[topic].partitions if topic in found else 0
    unknown = {*idle(conf, "C")}
    consumer = {**{name: value for name, value in conf.items() if name not in unknown}, "group.id": "ingest-keys"}
    splits = [(topic, partition) for partition in range(partitions)]
    starts, ends = cluster.earliest(splits), cluster.latest(splits)
    reader = RangeReader(consumer)
    try:
        for split in splits:
            keys: dict[bytes, None] = {}
            for chunk in reader.read({split: (starts[split], ends[split])}):
                for record in () if chunk is None else chunk.messages:
                    key = record.key()
                    if key is None:
                        continue
                    if record.value() is None:
                        keys.pop(key, None)
                    else:
                        keys[key] = None
            yield split[1], list(keys)
    finally:
        reader.close()


def delete_keys(cluster: Cluster, conf: Mapping[str, str], topic: str, kept: AbstractSet[bytes] = frozenset()) -> int:
    """Write a tombstone for each key of a topic that has a row, but those that are kept; returns how many.

    Raise IngestError.
    """
    count = 0
    writer = KafkaWriter(conf, checked=True)
    try:
        for partition, live in live_keys(cluster, conf, topic):
            keys = [key for key in live if key not in kept]
            for begin in range(0, len(keys), _AT_ONCE):
                writer.write([((topic, None, partition), key, None) for key in keys[begin : begin + _AT_ONCE]])
            count += len(keys)
        writer.flush()
    finally:
        writer.close()
    return count

"""The messages of the benchmarks: a shop's tables through Debezium, with updates, deletes and drift in them.

Written with templates, because making JSON of two million rows would take longer than what is measured.
"""

from __future__ import annotations

import random
from multiprocessing import get_context

from confluent_kafka import Producer

TABLES = 5
KEYS = 200_000
_STATUS = ("NEW", "PAID", "SHIPPED", "DONE")
_NOTE = "customer asked for gift wrap, delivery before noon, ring twice"
_SOURCE = (
    '{"version":"2.7.0.Final","connector":"mysql","name":"shop","ts_ms":%d,"snapshot":"false","db":"inventory",'
    '"sequence":null,"table":"t%d","server_id":223344,"gtid":null,"file":"mysql-bin.000003","pos":%d,"row":0,'
    '"thread":7,"query":null}'
)
_ROW = (
    '{"id":%d,"customer_id":%d,"status":"%s","amount":%.2f,"quantity":%d,"sku":%s,"note":"%s","created_at":%d,'
    '"updated_at":%d,"active":%s,"address":"%d Main Street, Springfield"%s}'
)
_MESSAGE = '{"before":%s,"after":%s,"source":%s,"op":"%s","ts_ms":%d,"transaction":null}'
_NOW = 1_700_000_000_000


def write(bootstrap: str, topic: str, count: int, partitions: int, processes: int = 2) -> None:
    """Write `count` messages, spread over the partitions by primary key."""
    spawn = get_context("spawn")  # Kafka clients do not survive a fork
    each = [
        spawn.Process(target=_write, args=(bootstrap, topic, count, partitions, i, processes)) for i in range(processes)
    ]
    for process in each:
        process.start()
    for process in each:
        process.join()
        if process.exitcode:
            raise SystemExit(process.exitcode)


def _write(bootstrap: str, topic: str, count: int, partitions: int, part: int, parts: int) -> None:
    """One process's part: the partitions whose number modulo `parts` is `part`, so that order per key is kept."""
    random_ = random.Random(7 + part)  # noqa: S311  (the same messages every time)
    producer = Producer({
        "bootstrap.servers": bootstrap, "linger.ms": 50, "batch.size": 1_000_000, "compression.type": "lz4",
        "queue.buffering.max.messages": 500_000,
    })  # fmt: skip
    own = [p for p in range(partitions) if p % parts == part]
    last: dict[tuple[int, int], tuple[str, int]] = {}
    mine = count // parts
    for n in range(mine):
        key = random_.randrange(KEYS // partitions) * partitions + own[n % len(own)]
        table = random_.randrange(TABLES)
        now = _NOW + n
        # Drift: after a third of the messages t1 has a column more, after a half t2's number is a text
        extra = ',"channel":"web"' if table == 1 and n * 3 > mine else ""
        sku = f'"S{key}"' if table == 2 and n * 2 > mine else str(key)
        known = last.get((table, key))
        before = "null" if known is None else known[0]
        version = 0 if known is None else known[1] + 1
        source = _SOURCE % (now, table, n)
        if known is not None and random_.random() < 0.1:
            value = _MESSAGE % (before, "null", source, "d", now)
            del last[table, key]
        else:
            row = _ROW % (
                key, key % 9973, _STATUS[version % 4], (key % 100_000) / 100 + version, n % 19, sku,
                _NOTE[: 5 + key % 50], _NOW + key, now, "true" if version % 2 else "false", key % 999, extra,
            )  # fmt: skip
            value = _MESSAGE % (before, row, source, "c" if known is None else "u", now)
            last[table, key] = (row, version)
        while True:
            try:
                producer.produce(topic, value, b'{"id":%d}' % key, partition=key % partitions)
            except BufferError:
                producer.poll(0.1)
                continue
            break
        if not n % 1000:
            producer.poll(0)
    producer.flush()

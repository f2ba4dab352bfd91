"""The messages of the benchmarks: a shop's tables through Debezium, Canal or as they are, with updates, deletes, drift.

Written with templates, because making JSON of two million rows would take longer than what is measured.
"""

from __future__ import annotations

import base64
import json
import random
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from typing import Any

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
_TYPED_KEY = (
    b'{"schema":{"type":"struct","fields":[{"type":"int64","optional":false,"field":"id"}],"optional":false,'
    b'"name":"shop.inventory.Key"},"payload":{"id":%d}}'
)
_TYPED_ROW = _ROW.replace("%.2f", '"%s"')
_MESSAGE = '{"before":%s,"after":%s,"source":%s,"op":"%s","ts_ms":%d,"transaction":null}'
_NOW = 1_700_000_000_000
_CANAL = (
    '{"data":[%s],"database":"inventory","es":%d,"gtid":"","id":%d,"isDdl":false,"mysqlType":{"id":"bigint(20)",'
    '"customer_id":"bigint(20)","status":"varchar(20)","amount":"decimal(12,2)","quantity":"int(11)","sku":"varchar(20)",'
    '"note":"varchar(200)","created_at":"bigint(20)","updated_at":"bigint(20)","active":"varchar(5)",'
    '"address":"varchar(200)"},"old":%s,"pkNames":["id"],"sql":"","sqlType":{"id":-5,"customer_id":-5,"status":12,'
    '"amount":3,"quantity":4,"sku":12,"note":12,"created_at":-5,"updated_at":-5,"active":12,"address":12},'
    '"table":"t%d","ts":%d,"type":"%s"}'
)
_CANAL_ROW = (
    '{"id":"%d","customer_id":"%d","status":"%s","amount":"%.2f","quantity":"%d","sku":"%s","note":"%s","created_at":"%d",'
    '"updated_at":"%d","active":"%s","address":"%d Main Street, Springfield"%s}'
)
_MAXWELL = (
    '{"database":"inventory","table":"t%d","type":"%s","ts":%d,"xid":%d,"commit":true,"primary_key_columns":["id"],'
    '"data":%s%s}'
)
_CSV = '%d,%d,%s,%.2f,%d,%s,"%s",%d,%d,%s,"%d Main Street, Springfield"%s'
CSV_TABLE = (
    "CREATE TABLE csv (id BIGINT, customer_id BIGINT, status STRING, amount DECIMAL(12, 2), quantity INT, sku BIGINT, "
    "note STRING, created_at BIGINT, updated_at BIGINT, active BOOLEAN, address STRING, PRIMARY KEY (id) NOT ENFORCED)"
)
"""The columns of the rows in a topic `csv`."""
_ROW_TYPES: dict[str, Any] = {
    "id": {"type": "int64"}, "customer_id": {"type": "int64"}, "status": {"type": "string"},
    "amount": {
        "type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "version": 1,
        "parameters": {"scale": "2", "connect.decimal.precision": "12"},
    },
    "quantity": {"type": "int32"}, "sku": {"type": "int32"}, "note": {"type": "string"},
    "created_at": {"type": "int64", "name": "io.debezium.time.Timestamp", "version": 1},
    "updated_at": {"type": "int64", "name": "io.debezium.time.MicroTimestamp", "version": 1},
    "active": {"type": "boolean"}, "address": {"type": "string"},
}  # fmt: skip
_SOURCE_TYPES = {
    "version": "string", "connector": "string", "name": "string", "ts_ms": "int64", "snapshot": "string",
    "db": "string", "sequence": "string", "table": "string", "server_id": "int64", "gtid": "string", "file": "string",
    "pos": "int64", "row": "int32", "thread": "int64", "query": "string",
}  # fmt: skip
_TRANSACTION_TYPES = {"id": "string", "total_order": "int64", "data_collection_order": "int64"}


@cache
def _schema(table: int) -> str:
    """What Debezium says of a table in each message, where Connect's converter writes schemas."""
    row = [{**said, "optional": name != "id", "field": name} for name, said in _ROW_TYPES.items()]
    source = [{"type": type_, "optional": name != "table", "field": name} for name, type_ in _SOURCE_TYPES.items()]
    order = [{"type": type_, "optional": False, "field": name} for name, type_ in _TRANSACTION_TYPES.items()]
    name = f"shop.inventory.t{table}"
    fields = [
        {"type": "struct", "fields": row, "optional": True, "name": f"{name}.Value", "field": "before"},
        {"type": "struct", "fields": row, "optional": True, "name": f"{name}.Value", "field": "after"},
        {
            "type": "struct", "fields": source, "optional": False, "name": "io.debezium.connector.mysql.Source",
            "field": "source",
        },
        {"type": "string", "optional": False, "field": "op"},
        {"type": "int64", "optional": True, "field": "ts_ms"},
        {
            "type": "struct", "fields": order, "optional": True, "name": "event.block", "version": 1,
            "field": "transaction",
        },
    ]  # fmt: skip
    said = {"type": "struct", "fields": fields, "optional": False, "name": f"{name}.Envelope", "version": 2}
    return json.dumps(said, separators=(",", ":"))


def _amount(cents: int) -> str:
    """A DECIMAL as Connect writes it."""
    return base64.b64encode(cents.to_bytes(cents.bit_length() // 8 + 1, "big")).decode()


@dataclass(frozen=True)
class Load:
    """What messages there are to be."""

    form: str = "debezium"
    """`debezium`; `schema`, which is the same with the schema envelope; `canal`; `maxwell`; `json` and `csv`: rows as
    they are, and no deletes."""
    tables: int = TABLES
    drift: bool = True
    """Whether t1 gets a column after a third and t2's number becomes a text after a half."""
    column_every: int = 0
    """After so many messages each, t0 gets one more column."""
    late_tables: int = 0
    """So many tables appear at once after a half."""


def write(
    bootstrap: str, topic: str, count: int, partitions: int, processes: int = 2, load: Load | None = None
) -> None:
    """Write `count` messages, spread over the partitions by primary key."""
    spawn = get_context("spawn")  # Kafka clients do not survive a fork
    each = [
        spawn.Process(target=_write, args=(bootstrap, topic, count, partitions, i, processes, load or Load()))
        for i in range(processes)
    ]
    for process in each:
        process.start()
    for process in each:
        process.join()
        if process.exitcode:
            raise SystemExit(process.exitcode)


def _write(bootstrap: str, topic: str, count: int, partitions: int, part: int, parts: int, load: Load) -> None:
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
        late = load.late_tables and n * 2 > mine and random_.random() < 0.1
        table = load.tables + random_.randrange(load.late_tables) if late else random_.randrange(load.tables)
        now = _NOW + n
        # Drift: after a third of the messages t1 has a column more, after a half t2's number is a text
        extra = ',"channel":"web"' if load.drift and table == 1 and n * 3 > mine else ""
        if load.column_every and table == 0:
            extra = "".join(f',"new{i}":{i}' for i in range(n * parts // load.column_every))
        text = load.drift and table == 2 and n * 2 > mine
        typed = load.form == "schema"
        sku = (f"S{key}" if text else str(key)) if load.form == "canal" else (f'"S{key}"' if text else str(key))
        known = last.get((table, key))
        before = "null" if known is None else known[0]
        version = 0 if known is None else known[1] + 1
        source = _SOURCE % (now, table, n)
        gone = known is not None and random_.random() < 0.1
        if load.form in {"canal", "maxwell", "json", "csv"}:
            columns = (
                key, key % 9973, _STATUS[version % 4], (key % 100_000) / 100 + version, n % 19, sku,
                _NOTE[: 5 + key % 50], _NOW + key, now, "true" if version % 2 else "false", key % 999, extra,
            )  # fmt: skip
            kind = "DELETE" if gone else "INSERT" if known is None else "UPDATE"
            value = _other_form(load.form, columns, kind, table, n, _STATUS[(version - 1) % 4])
            last[table, key] = ("", version)
            if gone and load.form in {"canal", "maxwell"}:
                del last[table, key]
        elif gone:
            value = _MESSAGE % (before, "null", source, "d", now)
            del last[table, key]
        else:
            row = (_TYPED_ROW if typed else _ROW) % (
                key, key % 9973, _STATUS[version % 4],
                _amount(key % 100_000 + version * 100) if typed else (key % 100_000) / 100 + version, n % 19, sku,
                _NOTE[: 5 + key % 50], _NOW + key, now * 1000 if typed else now, "true" if version % 2 else "false",
                key % 999, extra,
            )  # fmt: skip
            value = _MESSAGE % (before, row, source, "c" if known is None else "u", now)
            last[table, key] = (row, version)
        if typed:
            value = f'{{"schema":{_schema(table)},"payload":{value}}}'
        _send(producer, topic, value, (_TYPED_KEY if typed else b'{"id":%d}') % key, key % partitions)
        if not n % 1000:
            producer.poll(0)
    producer.flush()


def _other_form(form: str, columns: tuple[Any, ...], kind: str, table: int, number: int, status: str) -> str:
    """Return a message that is not Debezium's. `status`: the one that an update has changed."""
    if form in {"json", "csv"}:
        return (_ROW if form == "json" else _CSV) % columns
    now = columns[8]
    changed = f'"status":"{status}","updated_at":'
    if form == "maxwell":
        old = f',"old":{{{changed}{now}}}' if kind == "UPDATE" else ""
        return _MAXWELL % (table, kind.lower(), now // 1000, number, _ROW % columns, old)
    old = f'[{{{changed}"{now}"}}]' if kind == "UPDATE" else "null"
    return _CANAL % (_CANAL_ROW % columns, now, number, old, table, now, kind)


def _send(producer: Producer, topic: str, value: str, key: bytes, partition: int) -> None:
    """Give a message to the client; waits while it has no room."""
    while True:
        try:
            producer.produce(topic, value, key, partition=partition)
        except BufferError:
            producer.poll(0.1)
        else:
            return

"""Runs on a real broker, in Spark's workers: messages of Maxwell and of GoldenGate, to upserts and back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from commands import run_here

if TYPE_CHECKING:
    from harness import Kafka, Pipeline

OF_MAXWELL = [
    ("insert", 1, '{"orderId":1,"n":1,"at":"2016-10-21 05:33:37.523000"}', ""),
    ("bootstrap-start", 0, "{}", ""),
    ("bootstrap-insert", 2, '{"orderId":2,"n":2,"at":null}', ""),
    ("update", 3, '{"orderId":3,"n":2,"at":null}', ',"old":{"orderId":2}'),
    ("update", 1, '{"orderId":1,"n":1.50,"at":null}', ',"old":{"n":1,"at":"2016-10-21 05:33:37.523000"}'),
    ("insert", 4, '{"orderId":4,"n":4,"at":null}', ""),
    ("delete", 4, '{"orderId":4,"n":4,"at":null}', ""),
]
OF_GOLDENGATE = [
    ("I", "null", '{"ID":1,"N":"a"}'),
    ("I", "null", '{"ID":2,"N":"b"}'),
    ("U", '{"ID":1,"N":"a"}', '{"ID":3}'),
    ("D", '{"ID":2,"N":"b"}', "null"),
    ("T", "null", "null"),
]


def test_changes_of_maxwell_become_upserts(kafka: Kafka, pipeline: Pipeline) -> None:
    pipeline.write(source="  value.format: maxwell-json\n  ingestion.ignore-errors: true\n")
    for type_, key, row, old in OF_MAXWELL:
        value = f'{{"database":"shop","table":"orders","type":"{type_}","ts":1477053217,"xid":1,"data":{row}{old}}}'
        kafka.send(
            pipeline.topic, (f'{{"database":"shop","table":"orders","pk.orderid":{key}}}'.encode(), value.encode())
        )
    kafka.send(pipeline.topic, (None, b'{"type":"table-drop","database":"shop","table":"x"}'), (None, b"{}"))
    done = run_here(pipeline)
    assert done.code == 0, done.err
    values = {record.key: record.value for record in kafka.read(pipeline.out("orders"))}
    assert values == {
        b'{"orderId":1}': b'{"orderId":1,"n":1.50,"at":null}',
        b'{"orderId":2}': None,
        b'{"orderId":3}': b'{"orderId":3,"n":2,"at":null}',
        b'{"orderId":4}': None,
    }
    assert done.events[-1]["rejected"] == 1
    assert "skipped: 1 bootstrap, 1 ddl" in done.out


def test_changes_of_goldengate_become_upserts(kafka: Kafka, pipeline: Pipeline) -> None:
    pipeline.write(source="  value.format: ogg-json\n  ingestion.ignore-errors: true\n")
    message = '{{"table":"HR.EMP","op_type":"{}","primary_keys":["ID"],"before":{},"after":{}}}'
    kafka.send(pipeline.topic, *((None, message.format(*change).encode()) for change in OF_GOLDENGATE))
    kafka.send(pipeline.topic, (None, message.format("U", "null", '{"ID":3}').encode()))
    done = run_here(pipeline)
    assert done.code == 0, done.err
    values = {record.key: json.loads(record.value or b"null") for record in kafka.read(pipeline.out("EMP"))}
    assert values == {b'{"ID":1}': None, b'{"ID":2}': None, b'{"ID":3}': {"ID": 3, "N": "a"}}
    assert done.events[-1]["rejected"] == 1
    assert "skipped: 1 truncate" in done.out

"""Headers and times of records from columns of rows: which columns can be one, and what becomes of their values."""

from __future__ import annotations

from typing import Any

import pytest

from ingest.encode.change_encoder import RowChange
from ingest.encode.record_metadata import RecordMetadata
from ingest.encode.upsert_encoder import Record
from ingest.model import types
from ingest.model.change import Kind
from ingest.model.reject import RowError
from ingest.model.schema import Column, TableSchema
from ingest.sinks.topics.options import TopicDestination

TO = TopicDestination("t", (("origin", b"shop"),), 0)
RECORD = Record(TO, b"k", b"v")


def schema(**columns: str) -> TableSchema:
    return TableSchema(tuple(Column(name, types.parse(kind)) for name, kind in columns.items()), ())


def placed(table: TableSchema, before: Any, after: Any, kind: Kind = Kind.INSERT) -> tuple[Any, ...]:
    metadata = RecordMetadata(("headers", "timestamp"), table)
    (record,) = metadata.placed(RowChange(kind, before, after, {}, {}), [RECORD])
    assert record[1:] == (b"k", b"v")
    placed_at: Any = record.destination
    return tuple(placed_at)


@pytest.mark.parametrize(
    ("kind", "text", "headers"),
    [
        ("MAP<STRING, BYTES>", b'{"a":"/wA=","b":null,"c":""}', (("a", b"\xff\0"), ("b", None), ("c", b""))),
        ("MAP<STRING, STRING>", '{"a":"é","b":null}'.encode(), (("a", "é".encode()), ("b", None))),
        ("MAP<VARCHAR(9), VARCHAR(9)>", b'{"a":"x"}', (("a", b"x"),)),
        ("MAP<STRING, BYTES>", b"null", ()),
        ("MAP<STRING, BYTES>", b"{}", ()),
    ],
)
def test_headers_come_after_those_of_the_table(kind: str, text: bytes, headers: Any) -> None:
    table = schema(id="BIGINT", headers=kind)
    assert placed(table, None, {"id": b"1", "headers": text}) == ("t", (("origin", b"shop"), *headers), 0, None)
    assert placed(table, {"headers": text}, None, Kind.DELETE) == ("t", (("origin", b"shop"), *headers), 0, None)


@pytest.mark.parametrize(
    ("kind", "text", "millis"),
    [
        ("TIMESTAMP_LTZ", b'"2023-11-14 22:13:20.123456Z"', 1_700_000_000_123),
        ("TIMESTAMP", b'"2023-11-14T22:13:20"', 1_700_000_000_000),
        ("TIMESTAMP_LTZ", b"null", None),
    ],
)
def test_times_are_milliseconds(kind: str, text: bytes, millis: int | None) -> None:
    table = schema(timestamp=kind)
    assert placed(table, None, {"timestamp": text}) == ("t", (("origin", b"shop"),), 0, millis)
    assert placed(table, {}, None, Kind.DELETE)[3] is None


@pytest.mark.parametrize(
    ("columns", "row", "why"),
    [
        ({"headers": "STRING"}, None, "the column 'headers' is STRING; headers of records are a MAP<STRING, BYTES or"),
        ({"headers": "MAP<STRING, INT>"}, None, "the column 'headers' is MAP<STRING, INT>"),
        ({"timestamp": "BIGINT"}, None, "the column 'timestamp' is BIGINT; the time of a record is a TIMESTAMP or"),
        ({"headers": "MAP<STRING, BYTES>"}, {"headers": b'{"a":"?"}'}, "the column 'headers' is no map of texts or"),
        ({"headers": "MAP<STRING, STRING>"}, {"headers": b"[1]"}, "the column 'headers' is no map of texts or bytes"),
        ({"timestamp": "TIMESTAMP"}, {"timestamp": b'"1970-01-01 00:00:00"'}, "the time of a record is after 1970"),
        ({"timestamp": "TIMESTAMP"}, {"timestamp": b'"soon"'}, "the column 'timestamp' is no time"),
    ],
)
def test_what_cannot_be_one_is_a_reject(columns: Any, row: Any, why: str) -> None:
    with pytest.raises(RowError) as caught:
        placed(schema(**columns), None, row)
    assert caught.value.code == "bad-metadata"
    assert why in str(caught.value)


def test_a_table_without_the_columns_has_records_without_them() -> None:
    assert placed(schema(id="BIGINT"), None, {"id": b"1"}) == ("t", (("origin", b"shop"),), 0, None)

"""Counters of encoders come to a task's result once."""

from __future__ import annotations

import msgspec
from inmemory import pipeline

from ingest.encode.encode import EncoderCache
from ingest.model import types
from ingest.model.change import Change, Kind
from ingest.model.schema import Column, TableSchema
from ingest.schema.evolve import Schemas, SourceTable
from ingest.task.task import UNREPRESENTABLE, Counters, TableCounters, TaskProgress, TaskResult, add_counts
from ingest.task.write_half import EncoderCounters

T = ("d", "t")
SCHEMA = TableSchema((Column("id", types.BIGINT, nullable=False), Column("n", types.BIGINT)), ("id",))


def test_tables_that_are_shown_alike_are_counted_together() -> None:
    counts = {("a", "b.c"): TableCounters(inserted=1), ("a.b", "c"): TableCounters(deleted=2), ("d",): TableCounters()}
    assert Counters(tables=counts).by_name() == {"a.b.c": TableCounters(3, 1, 0, 2, 0), "d": TableCounters()}


def test_what_encoders_count_is_moved_and_not_copied() -> None:
    # Deletes cannot be told in lines of JSON that have neither key nor kind
    sink = {"type": "kafka", "properties.bootstrap.servers": "memory:1", "value.format": "json", "topic": "t"}
    made = pipeline(sink=sink)
    cache = EncoderCache(made.sink.encoder, made.source.inference(10))
    cache.renew(Schemas(1, {T: SourceTable(SCHEMA, (T,), key_from_message=True)}, {T: SCHEMA}), None)
    result = TaskResult(0, TaskProgress({}))
    counters = EncoderCounters(cache, None, result)
    encoder = cache.find(T)
    row = msgspec.Raw(b'{"id":1,"n":1}')
    for kind in (Kind.INSERT, Kind.INSERT, Kind.UPDATE):
        encoder.upsert(Change(T, kind, None, row), lambda _: None)
    encoder.delete(Change(T, Kind.DELETE, row, None), lambda _: None)
    counters.collect()
    assert result.counters.tables == {T: TableCounters(0, 2, 1, 0, 0)}
    assert result.counters.skipped == {UNREPRESENTABLE: 1}
    counters.collect()
    assert (result.counters.tables[T].inserted, result.counters.skipped) == (2, {UNREPRESENTABLE: 1})


def test_counts_are_added_by_key() -> None:
    counts = {"a": 1}
    add_counts(counts, {"a": 2, "b": 3})
    assert counts == {"a": 3, "b": 3}

"""Tombstones at the beginning of what a task reads: the records before them say whether they repeat a delete."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ingest.errors import DataLoss, IngestError, Unavailable
from ingest.formats.debezium.options import DebeziumJson
from ingest.formats.json.options import Json
from ingest.task.encoding import EncodedPart
from ingest.task.read_half import LoneTombstones, ReadChunk
from ingest.testing.in_memory import MemoryRecord

SPLIT = ("t", 0)
DELETE, INSERT = b'{"op":"d","before":{"id":1}}', b'{"op":"c","after":{"id":1}}'
IN_AVRO = b"\0\0\0\0\1\2\2\0\2d\0"
KEY, OTHER = b'{"id":1}', b'{"id":2}'


def record(at: int, key: bytes | None, value: bytes | None) -> MemoryRecord:
    return MemoryRecord(at, "t", key, value, position=at)


class Log:
    """A source with the records before a task's first one. `oldest`: the first offset that is there."""

    def __init__(self, *records: MemoryRecord, oldest: int = 0, failure: IngestError | None = None) -> None:
        self.format, self.is_sample = DebeziumJson(), False
        self._records, self._oldest, self._failure = records, oldest, failure

    def reader(self, _pipeline: str) -> Any:
        return self

    def close(self) -> None:
        """Nothing to close."""

    def read(self, ranges: dict[Any, tuple[int, int]]) -> Any:
        (first, end), failure = ranges[SPLIT], self._failure
        if failure is not None or first < self._oldest:
            raise failure or DataLoss("gone", "")
        found = [one for one in self._records if first <= one.offset() < end]
        yield None
        yield SimpleNamespace(messages=found)


def skipped(log: Any, *chunks: list[MemoryRecord]) -> list[dict[str, int]]:
    """What of each chunk is skipped, by its reasons."""
    tombstones, out = LoneTombstones(SimpleNamespace(source=log, pipeline="p")), []  # type: ignore[arg-type]
    for messages in chunks:
        skips = [(at, "tombstone") for at, one in enumerate(messages) if one.value() is None]
        part = EncodedPart(messages, 0, len(messages), 0, skipped={"tombstone": len(skips)}, skips=skips)
        tombstones.tell(ReadChunk(SPLIT, "t", messages, 0), part)
        assert sum(part.skipped.values()) == len(part.skips)
        out.append(part.skipped)
    return out


@pytest.mark.parametrize(("before", "alone"), [
    (Log(record(8, KEY, DELETE)), False), (Log(record(8, KEY, IN_AVRO)), False), (Log(record(7, KEY, DELETE)), False),
    (Log(record(8, KEY, INSERT)), True), (Log(record(7, KEY, DELETE), record(8, KEY, INSERT)), True),
    (Log(record(8, OTHER, DELETE)), True), (Log(), True), (Log(oldest=9), True),
    (Log(record(8, KEY, DELETE), oldest=8), False),
    (Log(failure=Unavailable("away", "")), False), (Log(record(8, b'{"id": 1}', DELETE)), False),
])  # fmt: skip
def test_the_first_record_of_a_task(before: Log, alone: bool) -> None:
    assert skipped(before, [record(9, KEY, None)]) == [{"lone-tombstone" if alone else "tombstone": 1}]


def test_of_the_first_record_of_a_sample_nobody_knows_what_was_before_it() -> None:
    log = Log()
    log.is_sample = True
    assert skipped(log, [record(9, KEY, None)]) == [{"tombstone": 1}]


def test_the_first_record_that_a_topic_ever_had_deletes_nothing() -> None:
    assert skipped(Log(), [record(0, KEY, None), record(1, KEY, None)]) == [{"tombstone": 2}]


def test_the_first_record_of_a_later_chunk() -> None:
    log = Log(failure=Unavailable("nobody asks", ""))
    chunks = [record(9, KEY, DELETE)], [record(10, KEY, None), record(11, OTHER, None)], [record(12, OTHER, None)]
    assert skipped(log, *chunks)[1:] == [{"tombstone": 1, "lone-tombstone": 1}, {"tombstone": 1}]


def test_a_format_whose_tombstones_repeat_nothing_is_left_as_it_is() -> None:
    assert skipped(SimpleNamespace(format=Json()), [record(9, KEY, None)]) == [{"tombstone": 1}]

"""Chunks of the records that a pipeline wants, with what is known of the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from inmemory import pipeline

from ingest.errors import InternalError
from ingest.model.record import offset_of
from ingest.task.read_half import RangeReading, read_again
from ingest.task.task import Telemetry
from ingest.testing.in_memory import MemoryRecord, in_memory

if TYPE_CHECKING:
    from ingest.model.record import Headers
    from ingest.sources import Reader

SPLIT = ("topic", 0)


def a_reader(count: int) -> Reader:
    records = [
        MemoryRecord(i, "topic", b"%d" % i, b"{}", position=i, sent=[("kind", b"odd" if i % 2 else b"even")])
        for i in range(count)
    ]
    made: Any = in_memory(pipeline().source, {SPLIT: records}).reader("p")
    return made  # type: ignore[no-any-return]  # its chunks are lists, which the protocol does not ask for


def is_even(headers: Headers | None) -> bool:
    return ("kind", b"even") in (headers or [])


def test_all_records_are_wanted_without_a_condition() -> None:
    reading = RangeReading(a_reader(5), None, Telemetry())
    (chunk,) = reading.chunks({SPLIT: (1, 4)})
    assert chunk is not None
    assert [offset_of(message) for message in chunk.messages] == [1, 2, 3]
    assert (chunk.split, chunk.topic, chunk.end, chunk.left_out) == (SPLIT, "topic", 4, [])
    assert [chunk.position(index) for index in range(4)] == [1, 2, 3, 4]
    assert reading.position(SPLIT) == 4


def test_records_that_are_not_wanted_are_left_out_and_known() -> None:
    (chunk,) = RangeReading(a_reader(6), is_even, Telemetry()).chunks({SPLIT: (0, 6)})
    assert chunk is not None
    assert [offset_of(message) for message in chunk.messages] == [0, 2, 4]
    assert chunk.end == 6, "also where the last record is not wanted"
    found = {at: [offset_of(message) for message in chunk.left_out_before(at)] for at in (0, 1, 2, 5, 6)}
    assert found == {0: [], 1: [], 2: [1], 5: [1, 3], 6: [1, 3, 5]}
    assert chunk.position(3) == 6


def test_a_record_is_read_again_or_that_is_an_error() -> None:
    assert read_again(a_reader(5), SPLIT, 3).key() == b"3"
    with pytest.raises(InternalError, match=r"topic\[0\]: the record at offset 9 could not be read again"):
        read_again(a_reader(5), SPLIT, 9)

"""Holding upserts back: the last change of each key wins, in the order of the last changes."""

from __future__ import annotations

from typing import Any

from ingest.encode.upsert_encoder import Record
from ingest.sinks.topics.options import TopicDestination
from ingest.sinks.topics.writer import Buffer

A = TopicDestination("a", None)


class Kept:
    """A writer that keeps what it gets."""

    failures = 0

    def __init__(self) -> None:
        self.written: list[Any] = []
        self.commits = 0

    def write(self, records: list[Any]) -> None:
        self.written += [(to.topic, key, value) for to, key, value in records]

    def commit(self, _positions: Any, _metadata: Any, *, final: bool) -> None:
        self.commits += 1

    def abort(self) -> None:
        self.written = []


def buffer(most: int, seconds: float) -> tuple[Buffer, Kept]:
    kept = Kept()
    return Buffer(kept, most, seconds), kept  # type: ignore[arg-type]


def test_the_last_change_of_a_key_is_written_when_there_are_enough_keys() -> None:
    held, kept = buffer(3, 60)
    held.write([Record(A, b"1", b"x"), Record(A, b"2", b"x"), Record(A, b"1", b"y")])
    assert kept.written == []
    held.write([Record(A, b"3", b"z")])
    assert kept.written == [("a", b"2", b"x"), ("a", b"1", b"y"), ("a", b"3", b"z")]


def test_an_insert_and_its_delete_leave_a_tombstone_and_topics_are_apart() -> None:
    held, kept = buffer(10, 60)
    held.write([Record(A, b"1", b"x"), Record(A, b"1", None), Record(TopicDestination("b", None), b"1", b"x")])
    held.commit({}, b"", final=True)
    assert kept.written == [("a", b"1", None), ("b", b"1", b"x")]
    assert kept.commits == 1


def test_time_flushes_too_and_an_abort_forgets() -> None:
    held, kept = buffer(10, 0.000001)
    held.write([Record(A, b"1", b"x")])
    held.write([Record(A, b"2", b"x")])
    assert ("a", b"1", b"x") in kept.written
    held, kept = buffer(10, 60)
    held.write([Record(A, b"1", b"x")])
    held.abort()
    held.commit({}, b"", final=True)
    assert kept.written == []

"""The search for records that a topic does not take: all others arrive in order, and letters lose their values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError
from hypothesis import given
from hypothesis import strategies as st

from ingest.errors import ConfigError
from ingest.kafka.failures import REFUSED
from ingest.kafka.refusals import Letter, deliver, refused
from ingest.model.commit import RowsRefused
from ingest.sinks.topics.options import TopicDestination

if TYPE_CHECKING:
    from ingest.kafka.refusals import Held

TO = TopicDestination("t", None)
TOO_LARGE = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)


@dataclass
class Broker:
    """A producer to a topic that takes records of so many bytes, and requests of so many; all that is sent is one."""

    most: int
    most_in_all: int
    atomic: bool
    taken: list[Any] = field(default_factory=list)
    waiting: list[Any] = field(default_factory=list)
    aborted: bool = False

    def queue(self, held: Held) -> None:
        assert not self.aborted, "a transaction takes no more after a refusal"
        if isinstance(held, Letter):
            self.waiting.append((held.key, held.value, held.headers))
        else:
            self.waiting += [(key, value, None) for _, key, value in held]

    def wait(self) -> None:
        sizes = [len(key or b"") + len(value or b"") for key, value, _ in self.waiting]
        fits = max(sizes, default=0) <= self.most and sum(sizes) <= self.most_in_all
        if fits:
            self.taken += self.waiting
        self.waiting = []
        if not fits:
            self.aborted = self.atomic
            raise refused(TOO_LARGE, "t")

    def start_over(self) -> Broker:
        self.waiting = []
        if self.atomic:
            self.taken, self.aborted = [], False
        return self


ROWS = st.lists(st.tuples(st.just(TO), st.binary(max_size=3), st.none() | st.binary(max_size=12)), max_size=12)
LETTERS = st.builds(
    lambda key, value: Letter("dead", key, value, [("h", b"")], None, [(key, [("left-out", b"value")])]),
    st.binary(max_size=3), st.binary(max_size=12),
)  # fmt: skip


def size_of(one: Any) -> int:
    """The bytes of a record or a letter."""
    key, value = (one.key, one.value) if isinstance(one, Letter) else one[1:]
    return len(key or b"") + len(value or b"")


def taken_of(one: Any, most: int) -> list[Any]:
    """What the topic takes of a record or letter alone."""
    key, value = (one.key, one.value) if isinstance(one, Letter) else one[1:]
    fits = len(key or b"") + len(value or b"") <= most
    if isinstance(one, Letter):
        return [(key, value, one.headers) if fits else (key, None, [("left-out", b"value")])]
    return [(key, value, None)] if fits else []


@given(st.lists(ROWS | LETTERS, max_size=5), st.integers(3, 12), st.integers(12, 60), st.booleans())
def test_what_is_refused_alone_is_found_and_all_else_arrives(
    held: list[Any], most: int, most_in_all: int, atomic: bool
) -> None:
    broker = Broker(most, most_in_all, atomic)
    singles = [one for some in held for one in ([some] if isinstance(some, Letter) else some)]
    at_fault = [one for one in singles if not isinstance(one, Letter) and not taken_of(one, most)]
    if at_fault:
        with pytest.raises(RowsRefused) as caught:
            deliver(held, broker, broker.start_over, atomic=atomic)
        assert [row[:3] for row in caught.value.rows] == at_fault
        for row in caught.value.rows:
            size = len(row.key or b"") + len(row.value or b"")
            assert row.reason == f"topic t does not take {REFUSED[10]}: {TOO_LARGE.str()} ({size:,} bytes)"
        assert not (atomic and broker.taken), "what was written is given up"
        assert not broker.aborted
        return
    sizes = [size_of(one) for one in singles]
    too_much = sum(sizes) > most_in_all and max(sizes, default=0) <= most
    assert deliver(held, broker, broker.start_over, atomic=atomic) is too_much
    expected = [made for one in singles for made in taken_of(one, most)]
    if atomic:
        assert broker.taken == expected
    else:
        assert broker.taken[-len(expected) or len(broker.taken) :] == expected


def test_a_letter_that_is_refused_for_its_time_keeps_it_in_a_header() -> None:
    early = refused(KafkaError(KafkaError.INVALID_TIMESTAMP), "dead")
    time = ("timestamp", b"5")
    letter = Letter("dead", b"key", b"v", [("h", b"")], 5, [(b"key", [("h", b""), time])], [time])
    untimed = letter.shorter(early)
    assert (untimed.value, untimed.timestamp, untimed.headers) == (b"v", None, [("h", b""), time])
    shorter = letter.shorter(refused(TOO_LARGE, "dead"))
    assert (shorter.value, shorter.timestamp, shorter.headers) == (None, 5, [("h", b""), time])
    assert shorter.shorter(early).headers == [("h", b""), time]
    with pytest.raises(ConfigError, match="nothing can be left out any more"):
        shorter.shorter(early).shorter(early)


def test_a_letter_of_which_nothing_can_be_left_out_any_more_ends_the_run() -> None:
    broker = Broker(2, 100, atomic=False)
    letter = Letter("dead", b"key", b"v", [], None, [(b"key", [("left-out", b"value")])])
    with pytest.raises(ConfigError, match="it was a dead letter, of which nothing can be left out any more"):
        deliver([letter], broker, broker.start_over, atomic=False)

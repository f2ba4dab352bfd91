"""Recorded logs of real servers, damaged: native code and the reference say the same, and what they say is clear.

The checksum of a damaged event is made right, so that the bytes reach what decodes them.
"""

from __future__ import annotations

import zlib
from struct import pack
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from mysql_events import Stream, framed
from picking import pick
from recorded_logs import RECORDED, events_of, recorded, replay, without_end
from replay_server import _fake_format

from ingest.errors import IngestError
from ingest.model.record import offset_of
from ingest.sources.mysql.log_model import NO_TRANSACTIONS, LogPlace
from ingest.sources.mysql.log_reader import LogReader
from ingest.sources.mysql.reader import _Tables
from ingest.sources.mysql.server import MySqlServer

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn

pytestmark = pytest.mark.compiled
LOGS = sorted(path.name for path in RECORDED.iterdir())


class Recording:
    """A log's first file, its events, and the tables that its statements make."""

    def __init__(self, name: str) -> None:
        file, data = next(iter(recorded(name)[0].items()))
        self.data = without_end(data)
        self.events = [event for _, _, event in events_of(self.data)]
        self.tables: Any = _Tables(replay({file: self.data}, native=False).schemas)
        self.by_kind: dict[int, list[int]] = {}
        for at, event in enumerate(self.events):
            self.by_kind.setdefault(event[4], []).append(at)

    def outcome(self, events: list[bytes], *, native: bool) -> object:
        """What comes of events: all of it, or the error."""
        server = MySqlServer("127.0.0.1", 1, "nobody", None)
        opened: Any = lambda: Served(events)  # noqa: E731  (its type)
        reader = LogReader(server, 1, self.tables, native=native, open_stream=opened)
        records: list[tuple[bytes | None, int, str]] = []
        try:
            for chunk in reader.read(LogPlace("binlog.000001", 4, 0), len(self.data)):
                messages = chunk.messages if chunk is not None else ()
                named = chunk.transactions if chunk is not None else NO_TRANSACTIONS
                records += [(record.value(), at := offset_of(record), named.gtid(at)) for record in messages]
        except IngestError as exc:
            return type(exc), str(exc)
        except AssertionError as exc:  # the stream has no more
            return str(exc)
        gtids = {
            (run.source, number)
            for run in reader.gtids
            for number in range(run.first, min(run.last, run.first + 99) + 1)
        }
        return records, gtids, reader.place, reader.statement, dict(reader.invalid)


class Served(Stream):
    """Serves events from a place on, as a server does."""

    def __init__(self, events: list[bytes]) -> None:
        super().__init__(b"")
        self.events = events

    def start(self, file: str, offset: int) -> None:
        super().start(file, offset)
        begin = 4
        sent = [] if offset == begin else [_fake_format(self.events[0])]
        for event in self.events:
            sent += [event] if begin >= offset else []
            begin += len(event)
        self.data, self.at = b"".join(framed(b"\0" + event) for event in sent), 0


RECORDINGS: dict[str, Recording] = {}


@pytest.fixture(scope="module", autouse=True)
def recordings() -> None:
    """All of them are read before examples are made, which has to be fast."""
    RECORDINGS.update({name: Recording(name) for name in LOGS})


class Damaged(NamedTuple):
    """A log of which one event is not as it was."""

    name: str
    what: str
    events: list[bytes]

    def __repr__(self) -> str:
        """Without the events, which are long."""
        return f"{self.name}: {self.what}"


@st.composite
def damages(draw: DrawFn) -> Damaged:
    """A log with an event that is damaged, cut, left out, there twice or at another place."""
    name = pick(draw, LOGS)
    found = RECORDINGS[name]
    events, has_sums = list(found.events), found.events[0][-5] == 1
    at = pick(draw, found.by_kind[pick(draw, sorted(found.by_kind))])
    way = pick(draw, ("bytes", "bytes", "bytes", "cut", "out", "twice", "moved", "kind"))
    event = bytearray(events[at][: -4 if has_sums else None])
    what = f"event {at} of the kind {event[4]}, {way}"
    if way == "out":
        del events[at]
        return Damaged(name, what, events)
    if way in {"twice", "moved"}:
        other = draw(st.integers(1, len(events) - 1))
        events.insert(other, events[at] if way == "twice" else events.pop(at))
        return Damaged(name, f"{what} to {other}", events)
    if way == "cut":
        del event[draw(st.integers(19, max(19, len(event) - 1))) :]
    elif way == "kind":
        event[4] = draw(st.integers(0, 175))
    else:
        for _ in range(draw(st.integers(1, 3))):
            event[draw(st.integers(0, len(event) - 1))] = pick(draw, (0, 1, 127, 128, 250, 251, 252, 254, 255, 3, 9))
    event[9:13] = pack("<I", len(event) + (4 if has_sums else 0))
    events[at] = bytes(event) + (pack("<I", zlib.crc32(bytes(event))) if has_sums else b"")
    return Damaged(name, f"{what}: {event.hex()[:200]}", events)


@settings(max_examples=examples(400), deadline=None)
@given(damages())
def test_a_damaged_log_of_a_server_is_a_clear_stop_or_the_same(made: Damaged) -> None:
    outcomes = (RECORDINGS[made.name].outcome(made.events, native=native) for native in (True, False))
    by_native, by_reference = outcomes
    assert by_native == by_reference


@pytest.mark.parametrize("name", LOGS)
def test_what_is_not_damaged_is_read(name: str) -> None:
    recording = RECORDINGS[name]
    found = recording.outcome(recording.events, native=True)
    assert isinstance(found, tuple)
    assert len(found[0]) > 20
    assert found == recording.outcome(recording.events, native=False)

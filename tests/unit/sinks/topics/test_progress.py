"""Notes of how far a shard has written: what is packed is read again, by whoever has the same plan."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.errors import ConfigError
from ingest.sinks.topics.progress import ProgressNote, pack, parts, read_note, read_owner, unpack
from ingest.task.task import MAX_COUNTER_BYTES, Counters, TableCounters

LIMIT = 4096
"""What brokers take of an offset's metadata, unless they are told otherwise."""


@given(st.integers(1, 700), st.integers(0, 1 << 40), st.integers(0, 9_999_999), st.booleans())
def test_what_is_packed_is_read_again_and_fits(count: int, start: int, distance: int, final: bool) -> None:
    starts = {(f"topic-{i % 7}", i): start + i for i in range(count)}
    positions = {split: at + (distance + i) % 10_000_000 for i, (split, at) in enumerate(starts.items())}
    tables: dict[tuple[str, ...], TableCounters] = {
        ("shop", f"t{i}"): TableCounters(0, i, i, i, i) for i in range(count)
    }
    tally = Counters(5, 3, tables).text()
    assert len(tally) <= MAX_COUNTER_BYTES
    texts = pack(ProgressNote(9, 7, 8, final=final, tally=msgspec.Raw(tally)), starts, positions)
    assert len(texts) == parts(starts)
    assert max(map(len, texts)) < LIMIT
    notes = [read_note(text, "g") for text in texts]
    assert {(note.run, note.batch, note.planned, note.final) for note in notes} == {(9, 7, 8, final)}
    found = unpack(notes, starts, 7, 8)
    assert found is not None
    assert found.positions == positions
    assert found.final == final
    again = Counters.read_from(found.metadata)[0]
    assert (again.read, again.rejected) == (5, 3)
    assert unpack(notes, starts, 8, 8) is None, "of another batch"
    assert unpack(notes, starts, 7, 9) is None, "planned by another run"


def test_nothing_is_known_where_nothing_was_noted() -> None:
    assert unpack([None], {("t", 0): 5}, 1, 1) is None
    assert Counters.read_from(b"") == (Counters(), None)


def test_what_is_not_ours_is_said_to_be() -> None:
    with pytest.raises(ConfigError, match="something else than this tool's notes"):
        read_note("hello", "g")
    with pytest.raises(ConfigError, match="something else"):
        read_owner('{"run":1}', "g")

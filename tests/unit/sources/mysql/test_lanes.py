"""Which chunks are read next, when tables change and when they are read again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from ingest.sources.mysql.history import History, SchemaEntry
from ingest.sources.mysql.lanes import Lanes
from ingest.sources.mysql.log_model import LogFiles, LogPlace, ServerIdentity
from ingest.sources.mysql.options import MySqlSource
from ingest.sources.mysql.state import (
    LANES,
    LOG,
    MOST_BYTES,
    SNAPSHOT,
    ChunkNote,
    LogNote,
    State,
    TaskNotes,
    commit_note_of,
    note_size,
    packed_chunks,
    unpacked_chunks,
)
from ingest.sources.mysql.types import Column, Table

if TYPE_CHECKING:
    from collections.abc import Callable

NAME = ("shop", "t")
ID, CODE = Column("id", "int", nullable=False), Column("code", "varchar", 9, nullable=False, collation="latin1_bin")
TABLE = Table("shop", "t", (ID, CODE), ("id",))
START = {LOG: 0, **{(SNAPSHOT, lane): 0 for lane in range(LANES)}}


@pytest.fixture
def lanes() -> Lanes:
    return Lanes(MySqlSource.model_validate({
        "type": "mysql", "hostname": "h", "username": "u", "password": "p", "tables": r"shop.\.*",
    }))  # fmt: skip


@pytest.fixture
def state() -> State:
    files = LogFiles((ServerIdentity(1, "u", None),))
    return State(files, LogPlace("b.1", 4, 0), planned=[0] * LANES, lanes=[[] for _ in range(LANES)])


def planned(lanes: Lanes, state: State, table: Table = TABLE) -> list[tuple[int, int, Any, Any, bool]]:
    """What is planned next of a table with bounds 10, 20, 30: lane, position, bounds, and whether it is passed over."""
    bounds = iter([("10",), ("20",), ("30",), None])

    def ask(_question: Callable[..., Any]) -> Any:
        return next(bounds)

    entry = SchemaEntry(1, 0, NAME, table, read=True, booleans=False)
    lanes.plan(state, History((entry,)), START, ask)
    return [
        (k, one.position, one.lower, one.upper, one.stale) for k, of in enumerate(state.lanes) for one in of
    ]  # fmt: skip


def test_a_table_is_cut_once(lanes: Lanes, state: State) -> None:
    lanes.begin(state, [NAME])
    assert planned(lanes, state) == [
        (0, 0, None, ("10",), False), (1, 0, ("10",), ("20",), False), (2, 0, ("20",), ("30",), False),
        (3, 0, ("30",), None, False),
    ]  # fmt: skip
    assert not state.snapshots[0].rest
    assert len(planned(lanes, state)) == 4
    for lane in range(4):
        lanes.mark(state, lane, 0, 100 + lane)
    assert state.snapshots[0].read


def test_all_changes_follow_a_chunk_whose_mark_died_with_its_task(lanes: Lanes, state: State) -> None:
    lanes.begin(state, [NAME])
    planned(lanes, state)
    lanes.mark(state, 1, 0, 700)
    state.place = LogPlace("b.1", 500, 0)
    lanes.forget(state, {**START, LOG: 500, (SNAPSHOT, 0): 1, (SNAPSHOT, 1): 1})
    assert [piece.mark for piece in state.snapshots[0].pieces] == [500, 700, None, None]
    assert [len(lane) for lane in state.lanes[:4]] == [0, 0, 1, 1]


def test_bounds_that_mean_nothing_any_more(lanes: Lanes, state: State) -> None:
    """With another key the table is read from its first row on; its rows so far are in the sink, so nothing is kept."""
    lanes.begin(state, [NAME])
    planned(lanes, state)
    lanes.mark(state, 0, 0, 100)
    wider = Table("shop", "t", (CODE, Column("id", "bigint", nullable=False)), ("id",))
    lanes.follow(state, NAME, TABLE, wider)
    assert [piece.mark for piece in state.snapshots[0].pieces] == [100, None, None, None]
    lanes.follow(state, NAME, TABLE, Table("shop", "t", (ID, CODE), ("code",)))
    assert (state.snapshots[0].pieces, state.snapshots[0].rest, state.snapshots[0].again) == ([], True, True)
    assert all(one.stale for lane in state.lanes for one in lane)
    # What was read meanwhile by the former bounds counts for nothing, and takes nothing away
    lanes.mark(state, 1, 0, 120)
    lanes.mark(state, 2, 0, None)
    assert state.snapshots[0].pieces == []
    found = planned(lanes, state)
    assert [one[4] for one in found].count(False) == 4
    assert State.from_json(state.to_json()) == state


def test_a_table_is_read_again(lanes: Lanes, state: State) -> None:
    """A table that is read, or being read, is begun from its first row on, and says that the sink has rows of it."""
    lanes.begin(state, [NAME])
    planned(lanes, state)
    lanes.begin(state, [NAME])
    assert len(state.snapshots[0].pieces) == 4
    for lane in range(4):
        lanes.mark(state, lane, 0, 100)
    lanes.begin(state, [NAME], again=True)
    assert [(one.again, one.rest, one.pieces) for one in state.snapshots] == [(True, True, [])]


def test_a_commit_keeps_notes_of_chunks_in_few_bytes() -> None:
    def note(lane: int, at: int, file: str = "mysql-bin.000123", low_file: str = "mysql-bin.000123") -> ChunkNote:
        return ChunkNote(lane, at, file, 900_000_000 + 40_000 * at, 8096 - at, low_file, 899_990_000 + 40_000 * at)

    chunks = [*(note(0, at) for at in range(7, 60)), *(note(3, at) for at in range(50)), ChunkNote(3, 50, "", 0)]
    chunks += [note(5, 2), note(5, 3, "mysql-bin.000124"), note(5, 4, "mysql-bin.000124", "mysql-bin.000124")]
    assert [*unpacked_chunks(packed_chunks(reversed(chunks)))] == chunks
    assert note_size(packed_chunks(chunks)) < 20 * len(chunks)
    log = LogNote(LogPlace("mysql-bin.000123", 4, 0), gtids="0-1-5")
    both = msgspec.convert(commit_note_of(log, chunks[:60]), TaskNotes)
    assert (both.log, both.all_chunks) == (log, chunks[:60])
    long = msgspec.structs.replace(log, parents=[("d" * 64, "t" * 64, "c" * 64, at) for at in range(20)])
    assert note_size(long) > MOST_BYTES
    assert msgspec.convert(commit_note_of(long, chunks), TaskNotes) == TaskNotes(packed=packed_chunks(chunks))
    assert commit_note_of(long, []) is None
    former = {"chunks": [[1, 2, "f.1", 9, 3]], "changed": False}  # as earlier versions have it
    assert msgspec.convert(former, TaskNotes).all_chunks == [ChunkNote(1, 2, "f.1", 9, 3)]

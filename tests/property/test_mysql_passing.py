"""A snapshot beside the log, against a model: whatever is read when, the sink has the table's rows in the end.

The model keeps the table's state after each change. A chunk is read at any state; its rows replace nothing, and each
change of the log is judged by `passing` alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from mysql_tables import shrunk

from ingest.sources.mysql.chunks import TableChunk
from ingest.sources.mysql.log_records import LogRecord
from ingest.sources.mysql.snapshot_log import NULL, LoggedChange, Passing, Region, merge, passed
from ingest.sources.mysql.types import Column, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

COLUMNS = (Column("k", "int", nullable=False), Column("v", "varchar"))
TABLE = Table("shop", "t", COLUMNS, ("k",))
KEY = COLUMNS[:1]
SOURCE = msgspec.Raw(b'{"db":"shop","table":"t"}')
KEYS = range(8)

State = dict[int, int]
Step = tuple[int, int]
"""A key and another one: the row moves there. The same one twice: it is changed, or made, or deleted."""


def never(sql: str) -> Sequence[object]:
    raise AssertionError(f"the server was asked: {sql}")


def image(key: int, value: int) -> msgspec.Raw:
    return msgspec.Raw(b'{"k":%d,"v":"%d"}' % (key, value))


def history(steps: Sequence[tuple[int, int, bool]]) -> tuple[list[State], list[LoggedChange]]:
    """The table's states, and the change from each to the next."""
    states: list[State] = [{key: 0 for key in KEYS if key % 2}]
    changes = []
    for at, (key, other, delete) in enumerate(steps, 1):
        now = dict(states[-1])
        if key not in now:
            now[key] = at
            changes.append(LoggedChange(NULL, image(key, at), SOURCE, "c"))
        elif delete:
            changes.append(LoggedChange(image(key, now.pop(key)), NULL, SOURCE, "d"))
        else:
            to = key if other in now else other
            before = image(key, now.pop(key))
            now[to] = at
            changes.append(LoggedChange(before, image(to, at), SOURCE, "u"))
        states.append(now)
    return states, changes


STEPS = st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from(KEYS), st.booleans()), max_size=25)
BOUNDS = st.sets(st.sampled_from(KEYS), max_size=4).map(sorted)


def record(at: int, *changes: LoggedChange) -> LogRecord:
    text = msgspec.json.encode(changes if len(changes) > 1 else changes[0])
    return LogRecord(b"\0\0\0\0\x07" + text, at, 0)


def changes_of(records: Sequence[Any]) -> list[LoggedChange]:
    out: list[LoggedChange] = []
    for one in records:
        text = one.value()[5:]
        many = text if text[:1] == b"[" else b"[" + text + b"]"
        out += msgspec.json.decode(many, type=list[LoggedChange])
    return out


def apply(sink: State, change: LoggedChange) -> None:
    """Write a change as an upsert sink does."""
    before, after = change.row(before=True), change.row(before=False)
    if before is not None:
        sink.pop(before["k"], None)
    if after is not None:
        sink[after["k"]] = int(after["v"])


@given(STEPS, BOUNDS, st.data())
def test_snapshot_beside_log(steps: list[tuple[int, int, bool]], bounds: list[int], data: st.DataObject) -> None:
    """Chunks are read at states of their own, in any order, while the log is read batch by batch.

    Position p of the log is the change from state p to state p + 1: a chunk that was read at state m has mark m.
    """
    states, changes = history(steps)
    end = len(changes)
    uppers: list[int | None] = [*bounds, None]
    marks: list[int | None] = [None] * len(uppers)
    sink: State = {}
    position = 0
    while position < end or None in marks:
        # The log's range of a batch ends at or below the server's position at planning; so does no chunk's mark
        stop = data.draw(st.integers(position, end), label="stop")
        planned = data.draw(st.sets(st.sampled_from(range(len(uppers)))), label="chunks")
        if position == end:
            planned = set(range(len(uppers)))
        planned = {number for number in planned if marks[number] is None}
        regions = [
            Region(None if upper is None else (str(upper),), mark) for upper, mark in zip(uppers, marks, strict=True)
        ]
        if data.draw(st.booleans(), label="shrunk"):
            regions = shrunk(regions, position)
        records = [record(at, changes[at]) for at in range(position, stop)]
        written = passed(records, {7: Passing(KEY, regions, never, 2)})
        rows: State = {}
        for number in planned:
            mark = data.draw(st.integers(stop, end), label="mark")
            low = -1 if number == 0 else bounds[number - 1]
            high = uppers[number]
            rows |= {k: v for k, v in states[mark].items() if low < k and (high is None or k <= high)}
            marks[number] = mark
        # Which of both is written first is not known
        first = data.draw(st.booleans(), label="rows first")
        if first:
            sink |= rows
        for change in changes_of(written):
            apply(sink, change)
        if not first:
            sink |= rows
        position = stop
    assert sink == states[-1]


@given(STEPS, BOUNDS, st.data())
def test_each_change_once(steps: list[tuple[int, int, bool]], bounds: list[int], data: st.DataObject) -> None:
    """Rows of finished chunks with the changes that pass give each row its changes after the mark, and no other."""
    _states, changes = history(steps)
    uppers: list[int | None] = [*bounds, None]
    marks = [data.draw(st.integers(0, len(changes)) | st.none()) for _ in uppers]
    regions = [
        Region(None if upper is None else (str(upper),), mark) for upper, mark in zip(uppers, marks, strict=True)
    ]
    tables = {7: Passing(KEY, regions, never, 2)}
    single = changes_of(passed([record(at, change) for at, change in enumerate(changes)], tables))
    expected = []
    for at, change in enumerate(changes):
        halves = []
        for row in (change.row(before=True), change.row(before=False)):
            number = None if row is None else sum(row["k"] > bound for bound in bounds)
            mark = None if number is None else marks[number]
            halves.append(row is not None and mark is not None and at >= mark)
        if any(halves):
            before, after = change.before if halves[0] else NULL, change.after if halves[1] else NULL
            whole = (before, after) == (change.before, change.after)
            expected.append(LoggedChange(before, after, SOURCE, change.op if whole else "c" if halves[1] else "d"))
    assert msgspec.json.encode(single) == msgspec.json.encode(expected)
    # Several changes in a record, each with an id of its own; another table's pass as they are
    if changes:
        many = [LoggedChange(c.before, c.after, c.source, c.op, 7 if i % 2 else 8) for i, c in enumerate(changes)]
        got = changes_of(passed([LogRecord(b"\0\0\0\0\x08" + msgspec.json.encode(many), 10**6, 0)], tables))
        others = [msgspec.json.encode([c for c in cs if c.id == 8]) for cs in (got, many)]
        assert others[0] == others[1]


@given(STEPS, BOUNDS, st.data(), st.booleans())
def test_merging(steps: list[tuple[int, int, bool]], bounds: list[int], data: st.DataObject, partial: bool) -> None:
    """Rows that were seen between two points are those of the second point, whenever they were seen."""
    states, changes = history(steps)
    low = data.draw(st.integers(0, len(changes)))
    seen = data.draw(st.integers(low, len(changes)))
    high = data.draw(st.integers(seen, len(changes)))
    first, *rest = [None, *bounds, None][data.draw(st.integers(0, len(bounds))) :]
    chunk = TableChunk(None if first is None else (str(first),), None if rest[0] is None else (str(rest[0]),))

    def inside(state: State) -> set[bytes]:
        low, high = chunk.lower, chunk.upper
        return {
            bytes(image(k, v))[1:-1] for k, v in state.items()
            if (low is None or k > int(low[0])) and (high is None or k <= int(high[0]))
        }  # fmt: skip

    between = changes[low:high]
    if partial:
        between = [noblob(change) for change in between]
    rows = merge(TABLE, KEY, chunk, sorted(inside(states[seen])), between, never)
    assert len(rows) == len(set(rows))
    assert set(rows) == inside(states[high])


def noblob(change: LoggedChange) -> LoggedChange:
    """A change whose row before has its key only."""
    row = change.row(before=True)
    if row is None:
        return change
    return LoggedChange(msgspec.Raw(b'{"k":%d}' % row["k"]), change.after, change.source, change.op)

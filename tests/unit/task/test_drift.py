"""Looking ahead ends, and a message that fits no schema leaves no trace."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec
from inmemory import pipeline

from ingest.model.change import Change, Kind, Reject
from ingest.model.reject import IgnoredErrors
from ingest.schema.evolve import Schemas
from ingest.task import read_half
from ingest.task.read_half import LookAhead, SchemaObserver
from ingest.task.rejects import RejectLimit
from ingest.task.task import Setup, TaskProgress, TaskResult

if TYPE_CHECKING:
    import pytest

SPLIT = ("topic", 0)


def a_change(table: str, row: bytes = b'{"id":1}') -> Change:
    return Change((table,), Kind.INSERT, None, msgspec.Raw(row), b'{"id":1}')


def made(max_tables: int = 10) -> tuple[SchemaObserver, TaskResult, Setup]:
    options = pipeline()
    inference = options.source.inference(3)
    setup = Setup("c", 1, "p", options.source, options.sink, None, inference, max_tables, options.rules, look_ahead=5)
    result = TaskResult(0, TaskProgress({}))
    return SchemaObserver(setup, Schemas(), result.progress), result, setup


def test_what_is_seen_is_new_once() -> None:
    observer, result, _ = made()
    assert observer.see([a_change("a")]) is True
    assert observer.see([a_change("a")]) is False
    assert observer.see([a_change("a"), a_change("a", b'{"id":1,"n":2}')]) is True
    assert {table: len(schema.columns) for table, schema in result.progress.observed.items()} == {("a",): 2}


def test_of_a_message_that_fits_no_schema_nothing_is_observed() -> None:
    observer, result, _ = made()
    observer.see([a_change("a")])
    before = dict(result.progress.observed)
    bad = observer.see([a_change("b"), a_change("c", b'{"id":1,"x":1,"y":1,"z":1}')])
    assert isinstance(bad, Reject)
    assert (bad.code, bad.table) == ("too-many-columns", ("c",))
    assert result.progress.observed == before
    bad = made(0)[0].see([a_change("a")])
    assert isinstance(bad, Reject)
    assert bad.code == "too-many-tables"


def test_looking_ahead_ends_when_nothing_is_new_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    observer, result, setup = made()
    ahead = LookAhead(observer, RejectLimit(0, result.counters, IgnoredErrors()), setup.look_ahead, result.progress)
    assert not ahead.ended(time.monotonic() + 100), "nothing has stopped"
    assert ahead.stop(SPLIT, None, [a_change("a")]) is None  # type: ignore[arg-type]  # it is for rejects only
    now = time.monotonic()
    assert (ahead.stopped, result.progress.drifted, ahead.ended(now)) == ({SPLIT}, True, False)
    ahead.look([a_change("a")] * 4)
    assert not ahead.ended(now)
    ahead.look([a_change("b"), *[a_change("a")] * 4])
    assert not ahead.ended(now), "b was new"
    assert ahead.ended(now + read_half.QUIET_S + 1), "time passes"
    monkeypatch.setattr(read_half, "QUIET_S", 100.0)
    assert not ahead.ended(now + read_half.LOOK_S - 0.5)
    assert ahead.ended(now + read_half.LOOK_S + 1), "whatever is new"
    ahead.look([a_change("a")])
    assert ahead.ended(now)
    ahead.look([a_change("a"), a_change("c")])
    assert ("c",) not in result.progress.observed

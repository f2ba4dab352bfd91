"""How many rejects a task may pass, and what is known of them then."""

from __future__ import annotations

from typing import Any

import pytest
from inmemory import pipeline

from ingest.model.change import Reject
from ingest.model.reject import IgnoredErrors
from ingest.task.rejects import MAX_KEPT, MAX_REJECTS, RecordReject, RejectLimit, Rejects
from ingest.task.task import Setup, TaskProgress, TaskResult
from ingest.testing.in_memory import MemoryRecord

SPLIT = ("topic", 0)
RECORD = MemoryRecord(0, "topic", b"k" * MAX_KEPT * 2, b"{", position=7)


def a_setup(**collector: Any) -> Setup:
    made = pipeline(pipeline={"name": "p", **{f"dirty-data.collector.{k}": v for k, v in collector.items()}})
    options = made.pipeline
    return Setup("c", 1, "p", made.source, made.sink, options.collector, made.source.inference(10), 10, made.rules)


def a_reject(*, stage: str = "conform", passed: bool = True, table: Any = ("t",)) -> RecordReject:
    return RecordReject(RECORD, stage, Reject("malformed", "x" * MAX_KEPT * 2, table), passed)


def test_rejects_pass_up_to_the_limit() -> None:
    result = TaskResult(0, TaskProgress({}))
    limit = RejectLimit(2, result.counters, IgnoredErrors(values=True))
    rejects = Rejects(a_setup(), limit, None, 0, result)
    bad = a_reject().reason
    assert [limit.left, *(limit.allows("conform", bad, before) for before in (0, 1, 2))] == [2, True, True, False]
    rejects.add(SPLIT, a_reject())
    rejects.add(SPLIT, a_reject())
    assert (limit.left, limit.allows("conform", bad)) == (0, False)
    assert limit.allows("decode", bad), "what cannot be decoded does not count"
    rejects.add(SPLIT, a_reject(stage="decode"))
    assert (result.counters.rejected, result.counters.skipped, result.progress.stopped_by_reject) == (
        2,
        {"parse-error": 1},
        False,
    )
    rejects.add(SPLIT, a_reject(passed=False))
    assert result.progress.stopped_by_reject
    assert result.counters.rejected == 2, "the last one does not pass: it would count again in every new run"
    assert result.counters.tables["t",].rejected == 4


@pytest.mark.parametrize("ignored", [IgnoredErrors(keys=True), IgnoredErrors(values=True)])
def test_a_reject_counts_by_what_is_said_of_the_key_or_of_the_value(ignored: IgnoredErrors) -> None:
    result = TaskResult(0, TaskProgress({}))
    limit = RejectLimit(1, result.counters, ignored)
    rejects = Rejects(a_setup(), limit, None, 0, result)
    of_key, of_value = (Reject("unknown-schema", "none", of_key=of_key) for of_key in (True, False))
    assert [limit.counts("decode", of_key), limit.counts("decode", of_value)] == [not ignored.keys, not ignored.values]
    for bad in (of_key, of_value, of_value if ignored.values else of_key):
        rejects.add(SPLIT, RecordReject(RECORD, "decode", bad, limit.allows("decode", bad)))
    assert (result.counters.rejected, result.counters.skipped, result.progress.stopped_by_reject) == (
        1,
        {"parse-error": 2},
        False,
    )


def test_the_first_rejects_are_kept_whole_and_no_more_than_is_shown_of_each() -> None:
    result = TaskResult(0, TaskProgress({}))
    rejects = Rejects(a_setup(), RejectLimit(1 << 62, result.counters, IgnoredErrors()), None, 0, result)
    for _ in range(MAX_REJECTS + 5):
        rejects.add(SPLIT, a_reject(table=None))
    assert (len(result.progress.rejects), result.counters.rejected) == (MAX_REJECTS, MAX_REJECTS + 5)
    kept = result.progress.rejects[0]
    assert (kept.topic, kept.partition, kept.offset, kept.stage, kept.code) == (*SPLIT, 7, "conform", "malformed")
    assert (len(kept.message), len(kept.key or b""), kept.value) == (MAX_KEPT, MAX_KEPT, b"{")
    assert not rejects.full, "only rejects that are all logged need room"


def test_a_task_ends_when_it_has_no_room_for_rejects_that_are_logged() -> None:
    result = TaskResult(0, TaskProgress({}))
    setup = a_setup(type="logger")
    rejects = Rejects(setup, RejectLimit(1 << 62, result.counters, IgnoredErrors()), None, 0, result)
    for _ in range(9_999):
        rejects.add(SPLIT, a_reject(table=None))
    assert not rejects.full
    rejects.add(SPLIT, a_reject(table=None))
    assert rejects.full


class KeptLetters:
    """Dead letters that are kept."""

    def __init__(self) -> None:
        self.added: list[str] = []

    def add(self, _record: Any, stage: str, bad: Reject) -> None:
        self.added.append(f"{stage}/{bad.code}")


def test_only_rejects_that_pass_become_dead_letters() -> None:
    result, letters = TaskResult(0, TaskProgress({})), KeptLetters()
    limit = RejectLimit(1 << 62, result.counters, IgnoredErrors())
    rejects = Rejects(a_setup(), limit, letters, 0, result)  # type: ignore[arg-type]  # what of it is needed
    rejects.add(SPLIT, a_reject(stage="decode"))
    rejects.add(SPLIT, a_reject(passed=False))
    assert letters.added == ["decode/malformed"]

"""How often records that the sink refuses wait for the other tasks of a batch."""

from __future__ import annotations

from ingest.checkpoint.checkpoint import Batch
from ingest.driver.dispatcher import MAX_WAITS, _Refusals
from ingest.task.task import TaskProgress, TaskResult

ONE, OTHER = ("t", 0), ("t", 1)


def batch(start: int, other: int = 0) -> Batch:
    return Batch(1, 1, {}, {ONE: (start, 100), OTHER: (other, 100)}, 1, {ONE: 0, OTHER: 1})


def waited(refusals: _Refusals, start: int, other: int, *, got_on: bool = True) -> bool:
    """Let a task wait where it began; return whether the next one may."""
    results = [
        TaskResult(0, TaskProgress({ONE: start}, waited=True)),
        TaskResult(1, TaskProgress({OTHER: other + got_on})),
    ]
    refusals.learn(batch(start, other), results)
    return refusals.may_wait({ONE: (start, 200)})


def test_records_wait_while_others_get_on() -> None:
    refusals = _Refusals()
    assert refusals.may_wait({ONE: (0, 100)})
    assert [waited(refusals, 0, at) for at in range(MAX_WAITS)] == [True] * (MAX_WAITS - 1) + [False]
    assert not refusals.may_wait({ONE: (99, 200)}), "in the range of the first one"
    assert refusals.may_wait({ONE: (100, 200)})
    assert refusals.may_wait({OTHER: (0, 100)}), "it has not waited"


def test_records_do_not_wait_for_tasks_that_get_nowhere() -> None:
    refusals = _Refusals()
    assert not waited(refusals, 0, 5, got_on=False)


def test_a_task_looks_for_what_was_refused_up_to_there() -> None:
    refusals = _Refusals()
    refusals.learn(
        batch(0),
        [TaskResult(0, TaskProgress({ONE: 0}, refused_before={ONE: 50})), TaskResult(1, TaskProgress({OTHER: 9}))],
    )
    assert refusals.apart({ONE: (49, 100), OTHER: (0, 9)}) == {ONE: 50}
    assert refusals.apart({ONE: (50, 100)}) == {}

"""What ends a run after a batch, and what does not."""

from __future__ import annotations

from typing import Any

import pytest
from driverparts import A, Hands, Told, backlog, context, coordinator, patience

from ingest.driver.books import Merged
from ingest.driver.error_budget import ErrorBudget
from ingest.driver.guard import Guard
from ingest.driver.losses import Losses
from ingest.driver.patience import PATIENCE_S
from ingest.errors import DataLoss, DirtyData, InternalError, Unavailable
from ingest.model.reject import RejectedRecord
from ingest.task.assignment import TaskResult

REJECT = RejectedRecord("t", 0, 4, "decode", "malformed", "no JSON", None, b"k", b"v")
STRICT: dict[str, Any] = {"source": {"ingestion.ignore-errors": False}}


def guard(
    told: Told, at: int = 0, tolerated: int = 0, errors: int = 0, hands: Hands | None = None, **sections: Any
) -> Guard:
    some = backlog({A: at}, {A: 10}, errors=errors)
    about = context(told, hands, **sections)
    losses = Losses(coordinator({A: 10}), some, patience(told))
    return Guard(about, some, ErrorBudget(about, some.progress, tolerated), losses)


def merged(failure: Any = None) -> Merged:
    return Merged({A: 0}, [], failure)


def test_a_batch_that_got_on_is_all_right() -> None:
    assert guard(Told(), at=5).check(merged(), [TaskResult(0, {A: 5})], evolved=False)
    assert guard(Told()).check(merged(), [TaskResult(0, {A: 0})], evolved=True), "a new schema is progress, too"


def test_the_first_reject_ends_a_strict_run_and_is_told() -> None:
    stopped = TaskResult(0, {A: 0}, rejects=[REJECT], stopped_by_reject=True)
    with pytest.raises(DirtyData, match=r"a record was rejected: .*no JSON") as found:
        guard(Told(), **STRICT).check(merged(), [stopped], evolved=False)
    assert "ingestion.ignore-errors: true" in found.value.hint


def test_more_rejects_than_tolerated_end_a_run_whichever_batch_they_are_of() -> None:
    sections: dict[str, Any] = {"source": {"ingestion.error-tolerance.max-count": 2}}
    assert guard(Told(), 5, tolerated=2, errors=2, **sections).check(merged(), [TaskResult(0, {})], evolved=False)
    with pytest.raises(DirtyData, match=r"more records were rejected than tolerated \(.*max-count: 2\)"):
        guard(Told(), 5, tolerated=2, errors=3, **sections).check(merged(), [TaskResult(0, {})], evolved=False)


def test_what_is_left_of_the_tolerance_is_never_negative() -> None:
    some = backlog({}, {}, errors=3)
    assert ErrorBudget(context(Told()), some.progress, 5).left() == 2
    assert ErrorBudget(context(Told()), some.progress, 2).left() == 0


def test_rejects_end_a_run_before_lost_data_is_looked_at() -> None:
    with pytest.raises(DirtyData):
        guard(Told(), errors=1).check(merged(DataLoss("gone")), [], evolved=False)


def test_a_failure_that_is_no_loss_ends_the_run() -> None:
    with pytest.raises(Unavailable, match="away"):
        guard(Told()).check(merged(Unavailable("away")), [], evolved=False)


def test_a_batch_without_progress_is_tried_again_for_a_while() -> None:
    told, hands = Told(), Hands()
    seen = guard(told, hands=hands)
    for _ in range(3):
        assert seen.check(merged(), [TaskResult(0, {A: 0})], evolved=False)
        hands.move(PATIENCE_S / 3)
    assert told.warnings == ["there are records, but none could be read; trying on"]
    assert seen.check(merged(), [TaskResult(0, {A: 0})], evolved=False)
    hands.move(0.1)
    with pytest.raises(Unavailable, match="nothing could be read"):
        seen.check(merged(), [TaskResult(0, {A: 0})], evolved=False)


def test_a_schema_that_takes_a_row_and_yet_does_not_is_a_bug() -> None:
    with pytest.raises(InternalError, match=r"t\[0\] at offset 0"):
        guard(Told()).check(merged(), [TaskResult(0, {A: 0}, drifted=True)], evolved=False)

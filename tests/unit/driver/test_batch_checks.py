"""What ends a run after a batch, and what does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from driverparts import A, Hands, Told, backlog, context, coordinator, retries

from ingest.driver.availability import GIVE_UP_S
from ingest.driver.batch_checks import BatchChecks, DataLossCheck, ErrorBudget
from ingest.driver.ledger import Merged
from ingest.errors import DataLoss, DirtyData, InternalError, Unavailable
from ingest.model.reject import RejectedRecord
from ingest.task.task import TaskProgress, TaskResult

REJECT = RejectedRecord("t", 0, 4, "decode", "malformed", "no JSON", None, b"k", b"v")
STRICT: dict[str, Any] = {"source": {"ingestion.ignore-errors": False}}


def checks(
    told: Told, at: int = 0, tolerated: int = 0, errors: int = 0, hands: Hands | None = None, **sections: Any
) -> BatchChecks:
    some = backlog({A: at}, {A: 10}, errors=errors)
    about = context(told, hands, **sections)
    data_loss = DataLossCheck(coordinator({A: 10}), some, retries(told))
    return BatchChecks(about, some, ErrorBudget(about, some.progress, tolerated), data_loss)


def merged(failure: Any = None) -> Merged:
    return Merged({A: 0}, [], failure)


def test_a_batch_that_got_on_is_all_right() -> None:
    assert checks(Told(), at=5).passed(merged(), [TaskResult(0, TaskProgress({A: 5}))], evolved=False)
    assert checks(Told()).passed(merged(), [TaskResult(0, TaskProgress({A: 0}))], evolved=True), (
        "a new schema is progress, too"
    )


def test_the_first_reject_ends_a_strict_run_and_is_told() -> None:
    stopped = TaskResult(0, TaskProgress({A: 0}, rejects=[REJECT], stopped_by_reject=True))
    with pytest.raises(DirtyData, match=r"a record was rejected: .*no JSON") as found:
        checks(Told(), **STRICT).passed(merged(), [stopped], evolved=False)
    assert "ingestion.ignore-errors: true" in found.value.hint


LIKE = {
    "canal-json": b'{"data":[{"id":"1"}],"type":"INSERT","table":"t","database":"d","isDdl":false}',
    "json": b'{"id":1}', "csv": b"1,a", "a registry": b"\0\0\0\0\1xyz",
}  # fmt: skip


@pytest.mark.parametrize("looks", LIKE)
@pytest.mark.parametrize("tolerant", [False, True])
def test_where_no_record_could_be_taken_the_hint_says_what_they_look_like(looks: str, *, tolerant: bool) -> None:
    sections: dict[str, Any] = {"source": {"ingestion.ignore-errors": tolerant}}
    reject = replace(REJECT, value=LIKE[looks])
    told = backlog({A: 0}, {A: 10}, errors=int(tolerant))
    budget = ErrorBudget(context(Told(), **sections), told.progress, 0, lambda: True)
    with pytest.raises(DirtyData, match=r"rejected.*: .*no JSON") as found:
        budget.check([TaskResult(0, TaskProgress({A: 0}, rejects=[reject], stopped_by_reject=not tolerant))])
    assert "ignore" not in found.value.hint
    assert "max-count" not in found.value.hint
    if looks == "a registry":
        assert "set value.format to avro-confluent, debezium-avro-confluent or" in found.value.hint
    else:
        assert found.value.hint == f"they look like {looks}, not like debezium-json: set value.format: {looks}"


def test_where_the_only_reject_looks_as_it_should_it_may_be_an_exception() -> None:
    right = replace(REJECT, value=b'{"op":"x","after":{}}')
    some = backlog({A: 0}, {A: 10})
    budget = ErrorBudget(context(Told(), **STRICT), some.progress, 0, lambda: True)
    with pytest.raises(DirtyData) as found:
        budget.check([TaskResult(0, TaskProgress({A: 0}, rejects=[right], stopped_by_reject=True))])
    assert "ingestion.ignore-errors" in found.value.hint
    with pytest.raises(DirtyData) as found:
        budget.check([TaskResult(0, TaskProgress({A: 0}, rejects=[right, right], stopped_by_reject=True))])
    assert found.value.hint == "no record has become a row yet: ingest tap shows them one by one"


def test_more_rejects_than_tolerated_end_a_run_whichever_batch_they_are_of() -> None:
    sections: dict[str, Any] = {"source": {"ingestion.error-tolerance.max-count": 2}}
    assert checks(Told(), 5, tolerated=2, errors=2, **sections).passed(
        merged(), [TaskResult(0, TaskProgress({}))], evolved=False
    )
    with pytest.raises(DirtyData, match=r"more records were rejected than tolerated \(.*max-count: 2\)"):
        checks(Told(), 5, tolerated=2, errors=3, **sections).passed(
            merged(), [TaskResult(0, TaskProgress({}))], evolved=False
        )


def test_what_is_left_of_the_tolerance_is_never_negative() -> None:
    some = backlog({}, {}, errors=3)
    assert ErrorBudget(context(Told()), some.progress, 5).left() == 2
    assert ErrorBudget(context(Told()), some.progress, 2).left() == 0


def test_rejects_end_a_run_before_lost_data_is_looked_at() -> None:
    with pytest.raises(DirtyData):
        checks(Told(), errors=1).passed(merged(DataLoss("gone")), [], evolved=False)


def test_a_failure_that_is_no_loss_ends_the_run() -> None:
    with pytest.raises(Unavailable, match="away"):
        checks(Told()).passed(merged(Unavailable("away")), [], evolved=False)


def test_a_batch_without_progress_is_tried_again_for_a_while() -> None:
    told, hands = Told(), Hands()
    seen = checks(told, hands=hands)
    for _ in range(3):
        assert seen.passed(merged(), [TaskResult(0, TaskProgress({A: 0}))], evolved=False)
        hands.move(GIVE_UP_S / 3)
    assert told.warnings == ["there are records, but none could be read; trying on"]
    assert seen.passed(merged(), [TaskResult(0, TaskProgress({A: 0}))], evolved=False)
    hands.move(0.1)
    with pytest.raises(Unavailable, match="nothing could be read"):
        seen.passed(merged(), [TaskResult(0, TaskProgress({A: 0}))], evolved=False)


def test_a_schema_that_takes_a_row_and_yet_does_not_is_a_bug() -> None:
    with pytest.raises(InternalError, match=r"t\[0\] at offset 0"):
        checks(Told()).passed(merged(), [TaskResult(0, TaskProgress({A: 0}, drifted=True))], evolved=False)

"""What an observer is told of batches, rejects and counters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from driverparts import A, Told, backlog, context, coordinator

from ingest import compiled
from ingest.checkpoint.checkpoint import Batch, Checkpoint
from ingest.checkpoint.storage import MemoryStorage
from ingest.driver.context import MAX_WARNED
from ingest.driver.ledger import Ledger, RunCounters
from ingest.driver.reports import FIRST, Reports, tell_rejects
from ingest.driver.schemas import SchemaRules, SchemaStore, policy_of, warn_withheld
from ingest.driver.sink_tables import KeyPartitions, SinkTables
from ingest.driver.source_state import SourceMemory
from ingest.driver.startup import Start
from ingest.errors import Unavailable
from ingest.model.reject import RejectedRecord
from ingest.observe.events import DirtyRecord, Printed, RejectEvent, RunEnded, RunStarted
from ingest.schema.evolve import Schemas
from ingest.sinks.print import PrintCoordinator, PrintSink
from ingest.task.task import Counters, TableCounters, TaskProgress, TaskResult

REJECT = RejectedRecord("t", 0, 4, "decode", "malformed", "no JSON", ("shop", "orders"), b"k", b"v")
BATCH = Batch(3, 1, {"t": "id"}, {A: (0, 9)}, 0, {A: 0})


def result(counters: Counters | None = None, **more: Any) -> TaskResult:
    return TaskResult(0, TaskProgress({A: 5}, **more), counters or Counters(5))


def test_rejects_are_told_in_a_line_or_in_full_as_the_collector_says() -> None:
    told = Told()
    tell_rejects(context(told))(REJECT)
    (event,) = told.events
    assert isinstance(event, RejectEvent)
    assert event.table == "shop.orders"
    told = Told()
    tell_rejects(context(told, pipeline={"dirty-data.collector": {"type": "logger"}}))(REJECT)
    (event,) = told.events
    assert isinstance(event, DirtyRecord)
    assert (event.offset, event.key, event.value) == (4, "k", "v")


def test_where_a_topic_has_them_the_first_rejects_of_each_code_are_told_without_their_records() -> None:
    told = Told()
    about = context(told, pipeline={"dirty-data.collector": {"type": "kafka", "topic": "dead"}})
    tell = tell_rejects(about)
    for number in range(20):
        for code in ("a", "b"):
            tell(replace(REJECT, offset=number, code=code))
    told_of = [(event.code, event.text) for event in told.events if isinstance(event, RejectEvent)]
    assert [code for code, _ in told_of] == ["a", "b"] * FIRST
    assert len(told.events) == len(told_of)
    assert all("record" not in text for _, text in told_of)
    assert told_of[0][1] == replace(REJECT, offset=0, code="a").without_record
    assert [text.endswith("; more of this code are in topic dead only") for _, text in told_of[-3:]] == [
        False,
        True,
        True,
    ]
    tell(replace(REJECT, offset=99, code="a", passed=False))
    assert isinstance(event := told.events[-1], RejectEvent)
    assert "; record: " in event.text, "the one that ends the run is no letter"


def test_a_warning_that_repeats_itself_is_told_once_and_remembered_within_limits() -> None:
    told = Told()
    about = context(told)
    about.warn_once("a")
    about.warn_once("a")
    about.warn("a")
    assert told.warnings == ["a", "a"]
    for number in range(2 * MAX_WARNED):
        about.warn_once(f"{number}")
    assert len(told.warnings) == MAX_WARNED + 1


def test_counters_add_up_and_end_in_the_summary() -> None:
    summary = RunEnded("p")
    counters = RunCounters(summary, 10)
    for _ in range(2):
        counters.add(
            result(
                Counters(
                    5,
                    1,
                    {("s", "t"): TableCounters(inserted=2, deleted=1, rejected=1)},
                    skipped={"tombstone": 2},
                    withheld={(("s", "t"), "c"): 3},
                    cut={(("s", "t"), "at"): 1},
                ),
                stopped_by_reject=True,
            )
        )
    counters.add_schema_changes(("s", "t"), 2)
    assert counters.by_table() == {"s.t": [4, 0, 2, 2]}
    counters.summarise({"t": 9})
    assert (summary.records, summary.rejected, summary.left) == (10, 4, {"t": 9})
    line = summary.tables["s.t"]
    assert (line.read, line.inserted, line.deleted, line.rejected, line.schema_changes) == (8, 4, 2, 2, 2)
    assert (summary.skipped, summary.withheld, summary.cut) == ({"tombstone": 4}, {"s.t.c": 6}, {"s.t.at": 2})


def ledger(told: Told) -> tuple[Ledger, Any, Checkpoint]:
    some, checkpoint = backlog({A: 0}, {A: 9}), Checkpoint(MemoryStorage())
    sink = PrintCoordinator(PrintSink(type="print"))
    about = context(told)
    tables = SinkTables(sink, coordinator({A: 9}), told, KeyPartitions(about, sink, checkpoint), same_cluster=False)
    return (
        Ledger(
            about, checkpoint, some.progress, RunCounters(RunEnded("p"), 10), tables, SourceMemory(coordinator({A: 9}))
        ),
        some,
        checkpoint,
    )


def test_a_batch_becomes_progress_and_its_lines_are_shown() -> None:
    told = Told()
    kept, some, checkpoint = ledger(told)
    seen: dict[Any, Any] = {("b",): 1, ("a",): 2}
    merged = kept.merge(BATCH, [result(Counters(5, 1, lost_deliveries=2), observed=seen, delivered=[b"t> +I[1]"])])
    assert (merged.before, merged.failure) == ({A: 0}, None)
    assert [table for table, _ in merged.observed] == [("a",), ("b",)], "in a fixed order"
    assert told.events[0] == Printed("out", ("t> +I[1]",))
    assert told.warnings == ["batch 3: 2 records were lost on their way to the sink (sink.delivery-guarantee)"]
    assert checkpoint.progress()[0].batch == 0, "nothing is stored yet"
    kept.store(some.lag())
    assert checkpoint.last_done()[1] == 4
    stored, unfinished = checkpoint.progress()
    assert (stored.batch, stored.positions, stored.ids, stored.errors) == (3, {A: 5}, {"t": "id"}, 1)
    assert unfinished is None
    assert some.lag() == 4


def test_schemas_of_a_batch_that_failed_are_not_taken_but_its_progress_is() -> None:
    kept, some, _ = ledger(Told())
    seen: dict[Any, Any] = {("a",): 2}
    merged = kept.merge(BATCH, [result(observed=seen), TaskResult(1, TaskProgress({}, failure=Unavailable("away")))])
    assert isinstance(merged.failure, Unavailable)
    assert merged.observed == []
    assert some.positions == {A: 5}


@pytest.mark.parametrize(
    ("reasons", "mend"),
    [
        ([[]], None),
        ([["records are not read from Kafka"]], None),
        (
            [[compiled.NOT_BUILT, "another"], [compiled.NOT_BUILT]],
            "install a C compiler (gcc) and Python's headers, then",
        ),
        ([[], [compiled.UNWANTED]], "unset it in the workers' environment"),
    ],
)
def test_workers_without_native_code_are_warned_of_with_what_to_do(reasons: list[list[str]], mend: str | None) -> None:
    told = Told()
    about = context(told)
    pipeline, counters, checkpoint = about.pipeline, RunCounters(RunEnded("p"), 10), Checkpoint(MemoryStorage())
    checkpoint.bind({})
    sink = PrintCoordinator(PrintSink(type="print"))
    tables = SinkTables(sink, coordinator({A: 9}), told, KeyPartitions(about, sink, checkpoint), same_cluster=False)
    rules = SchemaRules(pipeline.rules, policy_of(pipeline), pipeline.source.inference(100))
    store = SchemaStore(about, rules, tables, checkpoint, counters, warn_withheld(about))
    start = Start(checkpoint, pipeline.source, backlog({A: 0}, {A: 9}), tables, store, Schemas())
    Reports(about, start, counters, lambda _: None, lambda: reasons).run_started()
    (began,) = [event for event in told.events if isinstance(event, RunStarted)]
    assert began.in_python == tuple(dict.fromkeys(reason for some in reasons for reason in some))
    assert began.native == (not began.in_python)
    assert len(told.warnings) == (mend is not None)
    assert all("many times slower" in text and mend is not None and mend in text for text in told.warnings)

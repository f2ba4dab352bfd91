"""Runs with native code and without, which have to come to the same."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest
from inmemory import pipeline, records_of

from ingest.driver.ledger import RunCounters
from ingest.native import native
from ingest.task.encoding import ChunkDecoder
from ingest.testing.in_memory_run import run_in_memory
from ingest.transform.compiler import TransformCompiler
from ingest.transform.runner import LocalTransformRunner

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from ingest.config.pipeline import Pipeline
    from ingest.encode.compiled_transform import CompiledTransforms
    from ingest.model.table import TableId
    from ingest.task.task import TaskResult
    from ingest.testing.in_memory import MemoryRecord
    from ingest.testing.in_memory_run import InMemoryRun
    from ingest.transform.rules import CompiledRule

BOUND: Final[dict[Any, CompiledRule]] = {}
"""Rules bound to tables, of all runs in this process."""
REASONS: Final[dict[tuple[str, str], str]] = {}
"""Why expressions fail for some values, likewise."""


def read(value: bytes | None) -> Any:
    """A row without regard to white space; digits count."""
    return None if value is None else json.loads(value, parse_float=str, parse_int=str)


def both_ways(
    messages: Sequence[tuple[bytes | None, bytes | None]],
    look_ahead: int,
    *,
    exact: bool = False,
    **given_sections: Any,
) -> InMemoryRun:
    """Run a pipeline with native code, and without: the same has to come out. `exact`: also of white space."""
    return both_ways_of(records_of(messages), look_ahead, exact=exact, **given_sections)


def both_ways_of(
    records: Sequence[MemoryRecord], look_ahead: int, *, exact: bool = False, **given_sections: Any
) -> InMemoryRun:
    """Do the same with records of which more is given than keys and values."""
    made = pipeline(**given_sections)
    with pytest.MonkeyPatch.context() as asked:
        ask_spark_once(asked)
        return _both_ways(made, records, look_ahead, exact=exact)


def _both_ways(made: Pipeline, records: Sequence[MemoryRecord], look_ahead: int, *, exact: bool) -> InMemoryRun:
    with pytest.MonkeyPatch.context() as patch:
        bytes_with_it = bytes_by_table(patch)
        with_it = run_in_memory(made, records, look_ahead=look_ahead)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "BUILT", False)
        bytes_without = bytes_by_table(patch)
        without = run_in_memory(made, records, look_ahead=look_ahead)
    same(with_it, without, exact=exact)
    assert {t: both[0] for t, both in bytes_with_it.items()} == {t: both[0] for t, both in bytes_without.items()}
    if exact:
        assert bytes_with_it == bytes_without
    return with_it


def ask_spark_once(patch: pytest.MonkeyPatch) -> None:
    """Keep what Spark has answered: about a rule bound to a table, why an expression fails, and of a task's rows.

    Both runs ask it the same where they agree, and to answer is most of what they cost.
    """
    compiled, why, computed = TransformCompiler._compiled, TransformCompiler._why, LocalTransformRunner.computed
    answers: list[tuple[Any, Any, Any]] = []

    def bound(self: TransformCompiler, *of: Any) -> CompiledRule:
        if self._analyser.functions:  # which have the names of others, in another pipeline
            return compiled(self, *of)
        key = (self._analyser._zone, *of)
        if key not in BOUND:
            BOUND[key] = compiled(self, *of)
        return BOUND[key]

    def reason(self: TransformCompiler, sql: str, values: Any) -> str:
        key = (sql, repr(values))
        if key not in REASONS:
            REASONS[key] = why(self, sql, values)
        return REASONS[key]

    def of_rows(self: LocalTransformRunner, transforms: CompiledTransforms, rows: pa.Table) -> pa.Table:
        known = next((answer for of, asked, answer in answers if of == transforms and asked.equals(rows)), None)
        if known is None:
            known = computed(self, transforms, rows)
            answers.append((transforms, rows, known))
        return known

    patch.setattr(TransformCompiler, "_compiled", bound)
    patch.setattr(TransformCompiler, "_why", reason)
    patch.setattr(LocalTransformRunner, "computed", of_rows)


def bytes_by_table(patch: pytest.MonkeyPatch) -> dict[TableId, list[int]]:
    """By table, bytes of messages and of what came of them, as the tasks of a run count them from now on."""
    found: dict[TableId, list[int]] = {}
    add = RunCounters.add

    def counted(self: RunCounters, result: TaskResult) -> None:
        add(self, result)
        traffic = result.telemetry
        for table, (read, made) in traffic.table_bytes.items():
            both = found.setdefault(table, [0, 0])
            both[0] += read
            both[1] += made
        assert sum(read for read, _ in traffic.table_bytes.values()) <= traffic.bytes_in
        assert sum(made for _, made in traffic.table_bytes.values()) == traffic.bytes_out

    patch.setattr(RunCounters, "add", counted)
    return found


def left_to_the_reference(patch: pytest.MonkeyPatch) -> list[int]:
    """A list that gets the number of messages, each time the reference decodes some."""
    decoded: list[int] = []
    decode = ChunkDecoder.decode

    def counted(self: ChunkDecoder, split: Any, topic: str, messages: Any) -> Any:
        decoded.append(len(messages))
        return decode(self, split, topic, messages)

    patch.setattr(ChunkDecoder, "decode", counted)
    return decoded


def same(with_it: InMemoryRun, without: InMemoryRun, *, exact: bool) -> None:
    """Compare a run with native code and one without. `exact`: also the white space of values."""
    if exact:
        assert with_it.records == without.records
    assert [(t, k) for t, k, _ in with_it.records] == [(t, k) for t, k, _ in without.records]
    if not exact:
        assert [read(v) for _, _, v in with_it.records] == [read(v) for _, _, v in without.records]
    assert with_it.rejects == without.rejects
    assert (with_it.skipped, with_it.withheld) == (without.skipped, without.withheld)
    assert with_it.tables == without.tables
    assert (with_it.cut, with_it.unread) == (without.cut, without.unread)
    assert with_it.rounded == without.rounded
    assert with_it.lines == without.lines
    assert with_it.letters == without.letters
    assert with_it.warnings == without.warnings
    assert with_it.changes == without.changes
    assert with_it.schemas == without.schemas
    assert str(with_it.error) == str(without.error)

"""From changes to a sink's records, by the plans of their tables.

The hot loop. In: the changes of one chunk of one split. Out: records, as far as the first change that does not fit
the schema. A message of several rows is taken as a whole or not at all.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import length_hint
from typing import TYPE_CHECKING

from ingest.encode.conform import Drift, KeyChanged
from ingest.model.change import Bad, Kind
from ingest.model.reject import RowError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingest.encode.plan import Plan, Record
    from ingest.encode.plans import Plans
    from ingest.model.change import Change, Decoded

_DELETE = Kind.DELETE


@dataclass(slots=True)
class Encoded:
    """What became of a chunk. `stop` is the index of the first change that was not taken, or the chunk's length."""

    records: list[Record] = field(default_factory=list)
    stop: int = 0
    why: Drift | KeyChanged | None = None
    """What the change at `stop` came with, where it is not a reject."""
    rejects: list[tuple[int, str, Bad]] = field(default_factory=list)
    """Index, stage, and why."""
    skipped: dict[str, int] = field(default_factory=dict)
    marks: list[int] | None = None
    """How many records there were before each change, where that is asked for."""


def encode(
    changes: Sequence[Decoded], plans: Plans, tolerated: int, *, ignore_decode: bool = False, marked: bool = False
) -> Encoded:
    """Encode up to the first drift, or up to the first reject past `tolerated` ones (it is in `rejects` then).

    With `ignore_decode`, records that could not be decoded are rejects that do not count. With `marked`, the result
    tells which records are of which change.
    """
    result = Encoded(marks=[] if marked else None)
    marks = result.marks
    emit = result.records.append
    compiled = plans.compiled.get
    remaining = iter(changes)
    counted = 0
    for change in remaining:
        if marks is not None:
            marks.append(len(result.records))
        if type(change) is tuple or type(change) is list:
            try:
                if type(change) is tuple:
                    table, kind, before, after, key, declared = change
                    plan = compiled(table) or plans.find(table)
                    if kind is _DELETE:
                        plan.delete(before, key, declared, emit)
                    else:
                        plan.upsert(kind, before, after, key, declared, emit)  # type: ignore[arg-type]  # it has one
                    continue
                failed = _encode_all(change, plans, result.records)  # type: ignore[arg-type]  # a list
                if failed is None:
                    continue
                bad = failed
            except RowError as exc:
                bad = Bad(exc.code, str(exc), table)
            except (Drift, KeyChanged) as exc:
                result.stop = len(changes) - length_hint(remaining) - 1
                result.why = exc
                return result
        elif type(change) is Bad:
            bad = change
        else:
            result.skipped[change.reason] = result.skipped.get(change.reason, 0) + 1  # type: ignore[union-attr]
            continue
        index = len(changes) - length_hint(remaining) - 1
        stage = "decode" if type(change) is Bad else stage_of(bad)
        result.rejects.append((index, stage, bad))
        counted += not (ignore_decode and stage == "decode")
        if counted > tolerated:
            result.stop = index
            return result
    result.stop = len(changes)
    return result


def stage_of(bad: Bad) -> str:
    """Where a row was refused: what is not JSON at all is the format's affair, whoever notices."""
    return "decode" if bad.code == "malformed" else "conform"


def _encode_all(changes: list[Change], plans: Plans, records: list[Record]) -> Bad | None:
    """Encode the rows of one message, all or none; returns why not. Raises Drift or KeyChanged, having emitted none."""
    mark = len(records)
    done: list[tuple[Plan, int, int, int]] = []
    complete = False
    try:
        for table, kind, before, after, key, declared in changes:
            plan = plans.compiled.get(table) or plans.find(table)
            done.append((plan, plan.inserted, plan.updated, plan.deleted))
            if kind is _DELETE:
                plan.delete(before, key, declared, records.append)
            else:
                plan.upsert(kind, before, after, key, declared, records.append)  # type: ignore[arg-type]  # it has one
        complete = True
    except RowError as exc:
        return Bad(exc.code, str(exc), table)
    finally:
        if not complete:
            del records[mark:]
            for plan, inserted, updated, deleted in reversed(done):
                plan.inserted, plan.updated, plan.deleted = inserted, updated, deleted
    return None

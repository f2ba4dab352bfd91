"""From changes to the records of an upsert sink: one keyed row per insert or update, a tombstone per delete.

The hot loop. In: the changes of one chunk of one split. Out: records, as far as the first change that does not fit
the schema. An update that changes the primary key deletes the old key first. Reference: decisions, "Sinks".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import length_hint
from typing import TYPE_CHECKING

from ingest.flow.plan import Drift, KeyChanged
from ingest.model.event import Bad, Kind
from ingest.model.reject import RowError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingest.flow.plan import Record
    from ingest.flow.plans import Plans
    from ingest.model.event import Change, Skip

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


def encode_upserts(
    changes: Sequence[Change | Skip | Bad],
    message_keys: Sequence[bytes | None],
    plans: Plans,
    tolerated: int,
    *,
    ignore_decode: bool = False,
) -> Encoded:
    """Encode up to the first drift, or up to the first reject past `tolerated` ones (it is in `rejects` then).

    With `ignore_decode`, records that could not be decoded are rejects that do not count.
    """
    result = Encoded()
    emit = result.records.append
    compiled = plans.compiled.get
    remaining = iter(changes)
    counted = 0
    for change, message_key in zip(remaining, message_keys, strict=True):
        if type(change) is tuple:
            table, kind, before, after = change
            try:
                plan = compiled(table) or plans.find(table)
                if kind is _DELETE:
                    plan.delete(before, message_key, emit)
                else:
                    plan.upsert(kind, before, after, message_key, emit)  # type: ignore[arg-type]  # it has one
            except RowError as exc:
                bad, stage = Bad(exc.code, str(exc), table), "conform"
            except (Drift, KeyChanged) as exc:
                result.stop = len(changes) - length_hint(remaining) - 1
                result.why = exc
                return result
            else:
                continue
        elif type(change) is Bad:
            bad, stage = change, "decode"
        else:
            result.skipped[change.reason] = result.skipped.get(change.reason, 0) + 1  # type: ignore[union-attr]
            continue
        index = len(changes) - length_hint(remaining) - 1
        result.rejects.append((index, stage, bad))
        counted += not (ignore_decode and stage == "decode")
        if counted > tolerated:
            result.stop = index
            return result
    result.stop = len(changes)
    return result

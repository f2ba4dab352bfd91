"""From changes to the records of an upsert sink: one keyed row per insert or update, a tombstone per delete.

The hot loop. In: the changes of one chunk of one split. Out: records, as far as the first change that does not fit
the schema. An update that changes the primary key deletes the old key first. Reference: decisions, "Sinks".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from ingest.flow.plan import Drift, KeyChanged
from ingest.model.event import Bad, Change, Kind
from ingest.model.reject import RowError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import msgspec

    from ingest.flow.plan import Refused, TablePlan
    from ingest.model.event import Skip
    from ingest.model.table import TableId

Record: TypeAlias = "tuple[Any, bytes, bytes | msgspec.Raw | None]"
"""Destination (the sink's own), key, and value; no value is a tombstone."""

_DELETE = Kind.DELETE
_UPDATE = Kind.UPDATE


@dataclass(slots=True)
class Encoded:
    """What became of a chunk. `stop` is the index of the first change that was not taken, or the chunk's length."""

    records: list[Record] = field(default_factory=list)
    stop: int = 0
    drift: bool = False
    rejects: list[tuple[int, str, Bad]] = field(default_factory=list)
    """Index, stage, and why."""
    skipped: dict[str, int] = field(default_factory=dict)
    key_changed: tuple[TableId, tuple[str, ...], tuple[str, ...]] | None = None
    """Table, its primary key, and the other one that the change at `stop` came with."""


def encode_upserts(
    changes: Sequence[Change | Skip | Bad],
    message_keys: Sequence[bytes | None],
    plans: Mapping[TableId, Sequence[TablePlan | Refused]],
    tolerated: int,
) -> Encoded:
    """Encode up to the first drift, or up to the first reject past `tolerated` ones (it is in `rejects` then)."""
    result = Encoded()
    out = result.records
    emit = out.append
    for i, (change, message_key) in enumerate(zip(changes, message_keys, strict=True)):
        if type(change) is not Change:
            if type(change) is not Bad:
                result.skipped[change.reason] = result.skipped.get(change.reason, 0) + 1  # type: ignore[union-attr]
                continue
            result.rejects.append((i, "decode", change))
        else:
            mark = len(out)
            try:
                kind = change.kind
                targets = plans.get(change.table)
                if targets is None:
                    raise Drift  # noqa: TRY301  (one way out of the loop for both kinds)
                for plan in targets:
                    if kind is _DELETE:
                        key = plan.delete_key(change.before, message_key)
                        if message_key is not None and message_key != key and plan.key_from_message:
                            plan.check_message_key(message_key)
                        emit((plan.destination, key, None))
                        plan.deleted += 1
                        continue
                    key, value = plan.upsert(change.after)  # type: ignore[arg-type]  # formats see to that
                    if message_key is not None and message_key != key and plan.key_from_message:
                        plan.check_message_key(message_key)
                    if kind is _UPDATE:
                        if change.before is not None:
                            old = plan.key(change.before)
                            if old is not None and old != key:
                                emit((plan.destination, old, None))
                        plan.updated += 1
                    else:
                        plan.inserted += 1
                    emit((plan.destination, key, value))
            except Drift:
                del out[mark:]
                result.stop, result.drift = i, True
                return result
            except KeyChanged as exc:
                del out[mark:]
                result.stop = i
                result.key_changed = (change.table, plan.primary_key, exc.names)  # type: ignore[union-attr]
                return result
            except RowError as exc:
                del out[mark:]
                result.rejects.append((i, "conform", Bad(exc.code, str(exc), change.table)))
            else:
                continue
        if len(result.rejects) > tolerated:
            result.stop = i
            return result
    result.stop = len(changes)
    return result

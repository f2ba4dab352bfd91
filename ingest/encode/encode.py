"""Encoding of changes as a sink's records, by the encoders of their tables.

In: the changes of one chunk of one split. Out: records, up to the first change that does not fit
its table's schema. All rows of one message are encoded, or none of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from ingest.encode.coercer import OTHERS, Drift, KeyChanged
from ingest.encode.upsert_encoder import bytes_of
from ingest.model.cache import count_up
from ingest.model.change import Kind, Reject, Skip
from ingest.model.reject import IgnoredErrors, LeftForLater, RowError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ingest.encode.encoder_cache import EncoderCache
    from ingest.encode.upsert_encoder import Record, TableEncoder
    from ingest.model.change import Change, Decoded

Counts: TypeAlias = "tuple[dict[str, int], dict[str, int]]"
"""Counts by column, and what they were before a message."""
_NONE_IGNORED: Final = IgnoredErrors()
_STAGES: Final = {"malformed": "decode", "refused": "write"}
"""The stages of rejects by their codes, but for `conform`, which is that of all others."""


@dataclass(slots=True)
class Encoded:
    """Result of encoding a chunk.

    `stop` is the index of the first change that was not encoded, or the chunk's length.
    """

    records: list[Record] = field(default_factory=list)
    stop: int = 0
    why: Drift | KeyChanged | None = None
    """The exception that the change at `stop` raised. None where it is a reject or waits, or where nothing stopped."""
    rejects: list[tuple[int, str, Reject]] = field(default_factory=list)
    """The rejects: the index of the change, the stage, and the reason."""
    skipped: dict[str, int] = field(default_factory=dict)
    marks: list[int] | None = None
    """The number of records before each change; None unless `encode` was called with `marked`."""


def encode(
    changes: Sequence[Decoded],
    cache: EncoderCache,
    tolerated: int,
    ignored: IgnoredErrors = _NONE_IGNORED,
    *,
    marked: bool = False,
    refused: Callable[[Sequence[Record]], str | None] | None = None,
) -> Encoded:
    """Encode changes up to the first drift, or up to the first reject after `tolerated` ones.

    The reject that stops the loop is in `rejects`, too. Rejects that `ignored` covers do not count.
    With `marked`, `marks` of the result says which records belong to which change: these are yet to be made into what
    the sink gets, so that their bytes are not counted. `refused` says why the sink does not take the records of a
    message, if it is known not to; the loop ends where it raises LeftForLater. Raises nothing for the content of a
    record.
    """
    result = Encoded(marks=[] if marked else None)
    counted = 0
    for index, change in enumerate(changes):
        if result.marks is not None:
            result.marks.append(len(result.records))
        if isinstance(change, Skip):
            result.skipped[change.reason] = result.skipped.get(change.reason, 0) + 1
            continue
        if isinstance(change, Reject):
            stage, reject = "decode", change
        else:
            rows = change if isinstance(change, list) else [change]
            before = len(result.records)
            try:
                failed = _encode_all(rows, cache, result.records, refused)
            except (Drift, KeyChanged) as exc:
                result.stop, result.why = index, exc
                return result
            except LeftForLater:
                result.stop = index
                return result
            if failed is None:
                for row in rows:
                    declared = row.declared
                    if declared is not None and (declared.unread or declared.left_out):
                        encoder = cache.compiled[row.table]
                        _count(declared.unread, encoder.unread)
                        _count(declared.left_out, encoder.withheld)
                if rows and not marked:
                    cache.compiled[rows[0].table].bytes_out += bytes_of(result.records[before:])
                continue
            stage, reject = stage_of(failed), failed
        result.rejects.append((index, stage, reject))
        counted += not ignored.covers(stage, of_key=reject.of_key)
        if counted > tolerated:
            result.stop = index
            return result
    result.stop = len(changes)
    return result


def _count(names: Iterable[str], counts: dict[str, int]) -> None:
    for name in names:
        count_up(counts, name, 1, OTHERS)


def stage_of(reject: Reject) -> str:
    """Return the stage that a row's reject belongs to.

    A text that is not JSON is an error of the format, so its stage is "decode", although encoding found it.
    """
    return _STAGES.get(reject.code, "conform")


def _encode_all(
    changes: list[Change],
    cache: EncoderCache,
    records: list[Record],
    refused: Callable[[Sequence[Record]], str | None] | None,
) -> Reject | None:
    """Encode the rows of one message: all of them or none.

    Return the reject where a row is refused, else None. Raise Drift, KeyChanged or LeftForLater. Where a row is refused
    or an error is raised, `records` and the encoders' counters are as they were before.
    """
    mark = len(records)
    done: list[tuple[TableEncoder, int, int, int]] = []
    counts: list[Counts] = []
    complete = False
    try:
        for change in changes:
            table = change.table
            encoder = cache.compiled.get(table) or cache.find(table)
            done.append((encoder, encoder.inserted, encoder.updated, encoder.deleted))
            counts += counts_by_column(encoder)
            if change.kind is Kind.DELETE:
                encoder.delete(change, records.append)
            else:
                encoder.upsert(change, records.append)
        why = None if refused is None else refused(records[mark:])
        complete = why is None
        if why is not None:
            return Reject("refused", why, changes[0].table)
    except RowError as exc:
        return Reject(exc.code, str(exc), table)
    finally:
        if not complete:
            del records[mark:]
            for encoder, inserted, updated, deleted in reversed(done):
                encoder.inserted, encoder.updated, encoder.deleted = inserted, updated, deleted
            take_back(counts)
    return None


def counts_by_column(encoder: TableEncoder) -> list[Counts]:
    """Return the counters of values by column, each with what it is now: a message may become a reject."""
    parts: Iterable[TableEncoder] = getattr(encoder, "parts", (encoder,))
    return [(of, of.copy()) for one in parts for of in (one.rounded, one.cut, one.withheld, one.unread)]


def take_back(counts: Iterable[Counts]) -> None:
    """Let counters be what they were, as a reject counts nothing else (docs/spec/types.md#numbers-of-tables, Y46)."""
    for of, before in reversed([*counts]):
        of.clear()
        of.update(before)

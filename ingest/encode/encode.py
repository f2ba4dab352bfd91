"""Encoding of changes as a sink's records, by the encoders of their tables.

In: the changes of one chunk of one split. Out: records, up to the first change that does not fit
its table's schema. All rows of one message are encoded, or none of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from ingest.encode.coercer import OTHERS, Drift, KeyChanged
from ingest.encode.upsert_encoder import Record, TableEncoder, bytes_of
from ingest.model.cache import count_up
from ingest.model.change import Change, Decoded, Kind, Reject, Skip
from ingest.model.reject import IgnoredErrors, LeftForLater, RowError
from ingest.schema.evolve import Schemas, SourceTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ingest.model.schema import TableSchema
    from ingest.model.table import TableId
    from ingest.schema.infer import Inference

    MakeEncoder: TypeAlias = Callable[[TableId, SourceTable, TableId, TableSchema, Inference], TableEncoder]
    """A sink's way to write rows: source table, what is known of it, sink table, its schema, and how values read."""
    from collections.abc import Callable


class RejectingEncoder:
    """The encoder of a table whose rows cannot be written at all, e.g. for its name: each is a reject."""

    inserted = updated = deleted = unrepresentable = bytes_in = bytes_out = 0

    def __init__(self, table: TableId, code: str, message: str) -> None:
        """Keep the reject's code and text."""
        self.table = table
        self.withheld: dict[str, int] = {}
        self.cut: dict[str, int] = {}
        self.unread: dict[str, int] = {}
        self.rounded: dict[str, int] = {}
        self._error = (code, message)

    def upsert(self, *_: object) -> None:
        """Raise RowError."""
        raise RowError(*self._error)

    def delete(self, *_: object) -> None:
        """Raise RowError."""
        raise RowError(*self._error)


class FanOutEncoder:
    """The encoder of a source table that goes to several sink tables: all of them take a change, or none."""

    def __init__(self, table: TableId, encoders: Sequence[TableEncoder]) -> None:
        """`encoders`: one for each sink table."""
        self.table = table
        self.inserted = self.updated = self.deleted = self.unrepresentable = 0
        self.bytes_in = self.bytes_out = 0
        self.parts = self._encoders = encoders
        """The encoders, whose counters by column these are."""
        self._withheld: dict[str, int] = {}
        self._unread: dict[str, int] = {}

    @property
    def withheld(self) -> dict[str, int]:
        """By column: values that did not get into the sink, of the table and of the encoders."""
        return _added(self._withheld, _taken(encoder.withheld for encoder in self._encoders))

    @property
    def cut(self) -> dict[str, int]:
        """By column: times that the encoders cut since the last time that this was asked for."""
        return _taken(encoder.cut for encoder in self._encoders)

    @property
    def unread(self) -> dict[str, int]:
        """By column: values of rows before a change that are not known, of the table and of the encoders."""
        return _added(self._unread, _taken(encoder.unread for encoder in self._encoders))

    @property
    def rounded(self) -> dict[str, int]:
        """By column: numbers that the encoders rounded since the last time that this was asked for."""
        return _taken(encoder.rounded for encoder in self._encoders)

    def upsert(self, change: Change, emit: Callable[[Record], None]) -> None:
        """Emit the records for all sink tables; raises as the encoders do, having emitted nothing."""
        made: list[Record] = []
        for encoder in self._encoders:
            encoder.upsert(change, made.append)
        if change.kind is Kind.UPDATE:
            self.updated += 1
        else:
            self.inserted += 1
        for record in made:
            emit(record)

    def delete(self, change: Change, emit: Callable[[Record], None]) -> None:
        """Emit the tombstones for all sink tables; raises as the encoders do, having emitted nothing."""
        made: list[Record] = []
        for encoder in self._encoders:
            encoder.delete(change, made.append)
        if made:
            self.deleted += 1
        else:
            self.unrepresentable += 1
        for record in made:
            emit(record)


def _taken(all_counts: Iterable[dict[str, int]]) -> dict[str, int]:
    """Return the sum of counters by column, and reset the counters."""
    out: dict[str, int] = {}
    for counts in all_counts:
        for column, count in counts.items():
            out[column] = out.get(column, 0) + count
        counts.clear()
    return out


def _added(to: dict[str, int], counts: Mapping[str, int]) -> dict[str, int]:
    """Add counts by column to `to`, and return it."""
    for column, count in counts.items():
        to[column] = to.get(column, 0) + count
    return to


class EncoderCache:
    """The encoders of all tables; a table's are made when its first record comes."""

    def __init__(self, make: MakeEncoder, inference: Inference) -> None:
        """`make`: the sink's own; raises RowError for a table it cannot take."""
        self._make = make
        self._inference = inference
        self.schemas = Schemas()
        self.compiled: dict[TableId, TableEncoder] = {}
        self.transform_input: Callable[[TableId, SourceTable], TableEncoder] | None = None
        """The maker of encoders for tables whose rows a transform changes first; None if rows were changed before."""

    def find(self, table: TableId) -> TableEncoder:
        """Compile and keep the encoder of a table; raises Drift where the table is not known."""
        source = self.schemas.sources.get(table)
        if source is None:
            raise Drift
        inference = self._inference
        if source.output is not None:
            if self.transform_input is not None:
                encoder = self.compiled[table] = self.transform_input(table, source)
                return encoder
            passed = frozenset(name for name, _ in source.copies)
            source = source.after()
            inference = inference.after(table, source.schema, passed)
        encoders = [self._compile(table, source, target, inference) for target in source.targets]
        encoder = self.compiled[table] = encoders[0] if len(encoders) == 1 else FanOutEncoder(table, encoders)
        return encoder

    def _compile(self, table: TableId, source: SourceTable, target: TableId, inference: Inference) -> TableEncoder:
        try:
            return self._make(table, source, target, self.schemas.sinks[target], inference)
        except RowError as exc:
            return RejectingEncoder(table, exc.code, str(exc))

    def renew(self, schemas: Schemas, changed: set[TableId] | None) -> None:
        """Work with other schemas from here on; encoders of the source or sink tables that changed (None: all) go."""
        self.schemas = schemas
        for table in list(self.compiled):
            source = schemas.sources.get(table)
            if changed is None or source is None or table in changed or not changed.isdisjoint(source.targets):
                del self.compiled[table]


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
    """Return an encoder's counters by column, each with a copy that `take_back` restores."""
    parts: Iterable[TableEncoder] = getattr(encoder, "parts", (encoder,))
    return [
        (counter, counter.copy()) for part in parts for counter in (part.rounded, part.cut, part.withheld, part.unread)
    ]


def take_back(counts: Iterable[Counts]) -> None:
    """Restore counters of a message that became a reject (docs/spec/types.md#numbers-of-tables, Y46)."""
    for counter, before in reversed([*counts]):
        counter.clear()
        counter.update(before)

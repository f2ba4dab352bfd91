"""The encoders of all tables, and those for tables that are refused or that go to several sink tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ingest.encode.coercer import Drift
from ingest.model.change import Kind
from ingest.model.reject import RowError
from ingest.schema.evolve import Schemas

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ingest.encode.upsert_encoder import Record, TableEncoder
    from ingest.model.change import Change
    from ingest.model.schema import TableSchema
    from ingest.model.table import TableId
    from ingest.schema.evolve import SourceTable
    from ingest.schema.infer import Inference

    MakeEncoder: TypeAlias = Callable[[TableId, SourceTable, TableId, TableSchema, Inference], TableEncoder]
    """A sink's way to write rows: source table, what is known of it, sink table, its schema, and how values read."""


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
        """Keep the encoders, one for each sink table."""
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
    """Return the sum of counts by column, and empty them."""
    out: dict[str, int] = {}
    for counts in all_counts:
        for column, count in counts.items():
            out[column] = out.get(column, 0) + count
        counts.clear()
    return out


def _added(to: dict[str, int], counts: Mapping[str, int]) -> dict[str, int]:
    """Return counts by column to which others were added."""
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

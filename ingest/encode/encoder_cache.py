"""The plans of all tables, and the plans that are not of one plain table: refused ones, and those of several sinks."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ingest.encode.coercer import Drift
from ingest.model.change import Kind
from ingest.model.reject import RowError
from ingest.schema.evolve import Schemas

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import msgspec

    from ingest.encode.upsert_encoder import Record, TableEncoder
    from ingest.model.change import InlineSchema
    from ingest.model.schema import TableSchema
    from ingest.model.table import TableId
    from ingest.schema.evolve import SourceTable
    from ingest.schema.infer import Inference

    MakeEncoder: TypeAlias = Callable[[TableId, SourceTable, TableId, TableSchema, Inference], TableEncoder]
    """A sink's way to write rows: source table, what is known of it, sink table, its schema, and how values read."""

_UPDATE = Kind.UPDATE


class RejectingEncoder:
    """The plan of a table whose rows cannot be written at all, e.g. for its name: each is a reject."""

    inserted = updated = deleted = unrepresentable = 0

    def __init__(self, table: TableId, code: str, message: str) -> None:
        """Keep the reject's code and text."""
        self.table = table
        self.withheld: dict[str, int] = {}
        self._error = (code, message)

    def upsert(self, *_: object) -> None:
        """Raise RowError."""
        raise RowError(*self._error)

    def delete(self, *_: object) -> None:
        """Raise RowError."""
        raise RowError(*self._error)


class FanOutEncoder:
    """The plan of a source table that goes to several sink tables: all of them take a change, or none."""

    def __init__(self, table: TableId, plans: Sequence[TableEncoder]) -> None:
        """Keep the plans, one for each sink table."""
        self.table = table
        self.inserted = self.updated = self.deleted = self.unrepresentable = 0
        self._plans = plans

    @property
    def withheld(self) -> dict[str, int]:
        """What all plans withheld since the last time."""
        out: dict[str, int] = {}
        for plan in self._plans:
            for column, count in plan.withheld.items():
                out[column] = out.get(column, 0) + count
            plan.withheld.clear()
        return out

    def upsert(
        self,
        kind: Kind,
        before: msgspec.Raw | None,
        after: msgspec.Raw,
        message_key: bytes | None,
        declared: InlineSchema | None,
        emit: Callable[[Record], None],
    ) -> None:
        """Emit the records for all sink tables; raises as the plans do, having emitted nothing."""
        made: list[Record] = []
        for plan in self._plans:
            plan.upsert(kind, before, after, message_key, declared, made.append)
        if kind is _UPDATE:
            self.updated += 1
        else:
            self.inserted += 1
        for record in made:
            emit(record)

    def delete(
        self,
        before: msgspec.Raw | None,
        message_key: bytes | None,
        declared: InlineSchema | None,
        emit: Callable[[Record], None],
    ) -> None:
        """Emit the tombstones for all sink tables; raises as the plans do, having emitted nothing."""
        made: list[Record] = []
        for plan in self._plans:
            plan.delete(before, message_key, declared, made.append)
        if made:
            self.deleted += 1
        else:
            self.unrepresentable += 1
        for record in made:
            emit(record)


class EncoderCache:
    """The plans of all tables; a table's are made when its first record comes."""

    def __init__(self, make: MakeEncoder, inference: Inference) -> None:
        """`make`: the sink's own; raises RowError for a table it cannot take."""
        self._make = make
        self._inference = inference
        self.schemas = Schemas()
        self.compiled: dict[TableId, TableEncoder] = {}
        self.feed: Callable[[TableId, SourceTable], TableEncoder] | None = None
        """What makes the plans of tables whose rows a transform changes first; without it, they were changed before."""

    def find(self, table: TableId) -> TableEncoder:
        """Compile and keep the plan of a table; raises Drift where the table is not known."""
        source = self.schemas.sources.get(table)
        if source is None:
            raise Drift
        inference = self._inference
        if source.output is not None:
            if self.feed is not None:
                plan = self.compiled[table] = self.feed(table, source)
                return plan
            source = source.after()
            inference = inference.after(table, source.schema)
        plans = [self._compile(table, source, target, inference) for target in source.targets]
        plan = self.compiled[table] = plans[0] if len(plans) == 1 else FanOutEncoder(table, plans)
        return plan

    def _compile(self, table: TableId, source: SourceTable, target: TableId, inference: Inference) -> TableEncoder:
        try:
            return self._make(table, source, target, self.schemas.sinks[target], inference)
        except RowError as exc:
            return RejectingEncoder(table, exc.code, str(exc))

    def renew(self, schemas: Schemas, changed: set[TableId] | None) -> None:
        """Work with other schemas from here on; plans of the source or sink tables that changed (None: all) go."""
        self.schemas = schemas
        for table in list(self.compiled):
            source = schemas.sources.get(table)
            if changed is None or source is None or table in changed or not changed.isdisjoint(source.targets):
                del self.compiled[table]

"""Evolution of the schemas of all tables.

In: the present schemas, the schemas that tasks observed, and the rules. Out: the next version, and the schema changes
that the sink has to apply before it gets rows of that version. Runs on the driver, and changes nothing outside of its
result.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from ingest.errors import ConfigError, NoPrimaryKey, SchemaChangeRefused, TransformError
from ingest.model import types
from ingest.model.numbers import FLOATS, is_number
from ingest.model.schema import (
    NO_ORDER,
    AddColumn,
    AlterColumnType,
    Column,
    CreateTable,
    Misfit,
    SchemaChange,
    StoredTypes,
    TableSchema,
    changes,
)
from ingest.model.table import TableId, show
from ingest.model.types import BIGINT, DOUBLE, STRING, DataType, DecimalType, DoubleType, FloatType

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from ingest.schema.routes import Rules


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A table of the source, and the sink tables that its rows go to."""

    schema: TableSchema
    targets: tuple[TableId, ...]
    key_from_message: bool
    output: TableSchema | None = None
    """Schema of the table's rows after their transform; None where no transform changes them."""
    copies: tuple[tuple[str, str], ...] = ()
    """The columns that a transform passes on: the name in its result, and the name in the table."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Return a few plain values for pickling. There may be tens of thousands of tables."""
        return SourceTable, (self.schema, self.targets, self.key_from_message, self.output, self.copies)

    def written_as(self, name: str) -> list[str]:
        """Return the columns of the sink tables that have the values of a column."""
        return [name] if self.output is None else [result for result, of in self.copies if of == name]

    @property
    def key_columns(self) -> frozenset[str]:
        """The table's columns that are columns of its rows' key, under whatever name a transform passes them on."""
        if self.output is None:
            return frozenset(self.schema.primary_key)
        return frozenset(name for result, name in self.copies if result in self.output.primary_key)

    def after(self) -> SourceTable:
        """Return the table as it is after its transform."""
        return SourceTable(self.written, self.targets, key_from_message=False)

    @property
    def written(self) -> TableSchema:
        """Schema of the rows that reach the sink tables."""
        return self.schema if self.output is None else self.output

    def to_json(self) -> dict[str, Any]:
        """Return plain values for JSON. Targets and output are not stored, because they follow from the rules."""
        return {**self.schema.to_json(), "key_from_message": self.key_from_message}


_ROUNDING: Final = (types.FLOAT, types.DOUBLE, types.STRING)
"""Types by which numbers are kept, from the one that rounds most."""


@dataclass(frozen=True, slots=True)
class Schemas:
    """One version of the schemas of all source and sink tables."""

    version: int = 0
    sources: Mapping[TableId, SourceTable] = field(default_factory=dict)
    sinks: Mapping[TableId, TableSchema] = field(default_factory=dict)

    def number_types(self, table: TableId) -> dict[str, DataType]:
        """Return the types by which a source table's sink tables keep numbers, of columns that may round some.

        Of several it is the one that rounds most. Of what a transform computes, nothing is said.
        """
        out: dict[str, DataType] = {}
        source = self.sources.get(table)
        of = None if source is None or source.output is None else dict(source.copies)
        for target in () if source is None else source.targets:
            for column in self.sinks[target].columns if target in self.sinks else ():
                kept, name = column.number_type, column.name if of is None else of.get(column.name)
                if name is not None and (isinstance(column.type, FLOATS) or isinstance(kept, FLOATS)):
                    out[name] = min(out.get(name, kept), kept, key=_ROUNDING.index)
        return out

    def with_stored(self, stored: StoredTypes, tables: Iterable[TableId]) -> Schemas:
        """Return the same with the types by which these tables of the sink keep numbers."""
        sinks = {table: self.sinks[table].with_stored(stored.get(table, {})) for table in tables}
        return replace(self, sinks={**self.sinks, **sinks})


class Shaped(NamedTuple):
    """The rows of a table after their transform."""

    schema: TableSchema
    copies: tuple[tuple[str, str], ...] = ()
    """See `SourceTable`."""


Shape: TypeAlias = "Callable[[TableId, TableSchema], Shaped | None]"
"""Function that returns what a table's rows are after their transform, or None where no transform changes them.

It raises TransformError.
"""


def unchanged(_table: TableId, _schema: TableSchema) -> None:
    """Return None: the `Shape` of a pipeline without transforms."""


Unfit: TypeAlias = "Callable[[TableId, TableSchema], Mapping[str, str]]"
"""Function that returns the columns that the sink cannot take of a sink table's schema, each with the reason.

A reason that is a `Misfit` may tell the type that the column has there.
It raises IngestError.
"""
_NUMBERS: Final = (*types.INTEGERS, DecimalType, FloatType, DoubleType)
WANTED: Final = "as the pipeline says"
"""Reason why a change is withheld that the sink could do."""


def all_fit(_table: TableId, _schema: TableSchema) -> Mapping[str, str]:
    """Return nothing: the `Unfit` of a run that stops at what the sink cannot take."""
    return {}


Beyond: TypeAlias = "Callable[[TableId, TableSchema, Sequence[str]], Collection[str]]"
"""Function that returns those of a sink table's columns that hold an integer beyond ±2^53. It raises IngestError."""


def none_beyond(_table: TableId, _schema: TableSchema, _names: Sequence[str]) -> Collection[str]:
    """Return nothing: the `Beyond` of a sink whose tables hold no binary numbers."""
    return ()


Widening: TypeAlias = "Mapping[tuple[TableId, str], bytes]"


@dataclass(frozen=True, slots=True)
class StoredNumbers:
    """What a sink says of the numbers in its tables. Rules: docs/spec/types.md#numbers-of-tables."""

    beyond: Beyond = none_beyond
    unfit: Unfit = all_fit
    widening: Widening = field(default_factory=dict)
    """By source table and column: a value that gave it another type, or its first type where that is not of numbers."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Rules of a pipeline about schema changes: those that reach the sink, and those that stop the run."""

    behavior: str = "lenient"
    """Value of the option `pipeline.schema.change.behavior`."""
    include: frozenset[str] = frozenset()
    """Kinds and families of the changes that reach the sink. Empty means all."""
    exclude: frozenset[str] = frozenset()
    """Kinds and families of the changes that never reach the sink."""
    max_tables: int = 10_000
    needs_key: bool = True
    """True if the sink takes only tables with a primary key."""
    sequence: str | None = None
    """The column by which the sink tells which of two changes of a row is the newer one."""

    def allows(self, event: SchemaChange) -> bool:
        """Tell whether a change reaches the sink."""
        return self.allows_kind(KINDS[type(event)])

    def allows_kind(self, kind: str) -> bool:
        """Tell whether changes of a kind reach the sink."""
        families = {kind, "all", *kind.split(".")[:2]}
        if self.behavior == "ignore" and kind != KINDS[CreateTable]:
            return False
        return (not self.include or not families.isdisjoint(self.include)) and families.isdisjoint(self.exclude)


KINDS = {CreateTable: "create.table", AddColumn: "add.column", AlterColumnType: "alter.column.type"}


def column_of(event: SchemaChange) -> str | None:
    """Return the column that a change is about; None where it is about a table."""
    if isinstance(event, CreateTable):
        return None
    return event.column.name if isinstance(event, AddColumn) else event.name


@dataclass(frozen=True, slots=True)
class Evolution:
    """Result of an evolution.

    `schemas` is the next version; `sources` and `sinks` are the tables that changed in it; `events` are the changes
    that the sink has to apply.
    """

    schemas: Schemas
    sources: dict[TableId, SourceTable]
    sinks: dict[TableId, TableSchema]
    events: tuple[SchemaChange, ...]
    withheld: Mapping[SchemaChange, str] = field(default_factory=dict)
    """Changes that do not reach the sink, each with the reason."""
    kept: Mapping[SchemaChange, str] = field(default_factory=dict)
    """Changes of columns of binary numbers that the sink cannot do, each with the reason: their numbers are rounded."""
    causes: Mapping[SchemaChange, Mapping[str, bytes]] = field(default_factory=dict)
    """By change and column: the value that gave it its type, as far as it is known, cut short."""

    def with_stored(self, stored: StoredTypes) -> Evolution:
        """Return the same with the types by which the sink's tables keep numbers."""
        schemas = self.schemas.with_stored(stored, self.sinks)
        return replace(self, sinks={table: schemas.sinks[table] for table in self.sinks}, schemas=schemas)


def evolve(
    before: Schemas,
    observed: Iterable[tuple[TableId, TableSchema]],
    rules: Rules,
    policy: Policy,
    initial: Mapping[TableId, TableSchema] | None = None,
    shape: Shape = unchanged,
    unfit: Unfit = all_fit,
    numbers: StoredNumbers | None = None,
) -> Evolution:
    """Return the next version, with the observed schemas merged in.

    `initial` has the schemas that tables had before their first record; they are already part of `observed`. New tables
    over the limit `max_tables` are left out. `numbers`: of a sink whose tables store numbers. Raise NoPrimaryKey,
    TransformError, ConfigError or SchemaChangeRefused.
    """
    sources: dict[TableId, SourceTable] = {}
    for table, seen in observed:
        known = sources.get(table) or before.sources.get(table)
        if known is None:
            if len(before.sources) + len(sources) >= policy.max_tables:
                continue
            initial_schema = (initial or {}).get(table)
            sources[table] = _new_table(
                table, seen, rules, policy, given_key=initial_schema is not None and bool(initial_schema.primary_key)
            )
        else:
            schema = known.schema.merge(seen)
            if schema != known.schema or schema.bare_numbers != known.schema.bare_numbers:
                sources[table] = SourceTable(schema, known.targets, known.key_from_message)
    sources = _shaped(sources, shape, policy, before.version + 1)
    sinks, events, withheld, kept = _sinks(sources, before, policy, unfit, numbers)
    if policy.behavior == "exception":
        for event in (*events, *withheld):
            if not isinstance(event, CreateTable):
                msg = f"table {show(event.table)} changed: {event}, and pipeline.schema.change.behavior is 'exception'"
                raise SchemaChangeRefused(msg, "apply the change downstream, then allow it with 'lenient' or 'evolve'")
    version = before.version + bool(sources or sinks)
    after = Schemas(version, {**before.sources, **sources}, {**before.sinks, **sinks})
    causes = {} if numbers is None else _causes(sources, (*events, *kept), numbers.widening)
    return Evolution(after, sources, sinks, events, withheld, kept, causes)


def _causes(
    sources: Mapping[TableId, SourceTable], events: Iterable[SchemaChange], widening: Widening
) -> dict[SchemaChange, dict[str, bytes]]:
    """Return the values by column that are known to be the reason of changes."""
    of_targets: dict[TableId, dict[str, bytes]] = {}
    for (table, column), value in widening.items():
        source = sources.get(table)
        if source is not None:
            values = dict.fromkeys(source.written_as(column), value)
            for target in source.targets:
                of_targets.setdefault(target, {}).update(values)
    return {
        event: by_column
        for event in events
        if (by_column := {n: v for n, v in of_targets.get(event.table, {}).items() if column_of(event) in {None, n}})
    }


def _shaped(
    sources: Mapping[TableId, SourceTable], shape: Shape, policy: Policy, version: int
) -> dict[TableId, SourceTable]:
    """Return the tables with the schemas after their transforms. Raise TransformError or NoPrimaryKey."""
    out = {}
    for table, source in sources.items():
        try:
            shaped = shape(table, source.schema)
        except TransformError as exc:
            again = TransformError(f"{exc.message}\n  in version {version} of the schemas", exc.hint)
            again.place = exc.place
            raise again from exc
        output, copies = (None, ()) if shaped is None else shaped
        if output is not None and not output.primary_key and policy.needs_key:
            msg = f"table {show(table)} has no primary key: its messages tell none, and its transform names none"
            raise NoPrimaryKey(msg, "add `primary-keys: COLUMN` to its transform")
        same = (output, copies) == (source.output, source.copies)
        out[table] = source if same else replace(source, output=output, copies=copies)
    return out


def reroute(
    before: Schemas,
    rules: Rules,
    policy: Policy,
    initial: Mapping[TableId, TableSchema] | None = None,
    shape: Shape = unchanged,
    unfit: Unfit = all_fit,
    numbers: StoredNumbers | None = None,
) -> Evolution:
    """Return the changes that follow from new rules for known schemas, for example sink tables of a new route.

    `initial` has the schemas that the pipeline file gives tables. `numbers`: see `evolve`. Raise ConfigError where a
    known table gets another primary key.
    """
    for table, source in before.sources.items() if policy.needs_key else ():
        if rules.changes_rows(table):
            continue
        initial_schema = (initial or {}).get(table)
        configured = rules.primary_key(table) or (() if initial_schema is None else initial_schema.primary_key)
        known = source.schema.primary_key
        if configured != known and (configured or not source.key_from_message):
            now = f"({', '.join(configured)})" if configured else "none"
            msg = f"the primary key that the file gives table {show(table)} changed: ({', '.join(known)}), now {now}"
            raise ConfigError(msg, "rows written under the old key cannot be found again: use another pipeline.name")
    sources = _shaped(before.sources, shape, policy, before.version)
    sinks, events, withheld, kept = _sinks(sources, before, policy, unfit, numbers)
    after = Schemas(before.version + bool(sinks), sources, {**before.sinks, **sinks})
    return Evolution(after, {}, sinks, events, withheld, kept)


def _sinks(
    sources: Mapping[TableId, SourceTable], before: Schemas, policy: Policy, unfit: Unfit, numbers: StoredNumbers | None
) -> tuple[dict[TableId, TableSchema], tuple[SchemaChange, ...], dict[SchemaChange, str], dict[SchemaChange, str]]:
    """Return the sink tables that must change to take the rows of these source tables, and how they change.

    The second part has the changes that reach the sink. The third part has those that do not, with the reasons: in
    these, the sink's tables stay as they are. So they do in the fourth part, where numbers are rounded.
    """
    kept: dict[SchemaChange, str] = {}
    sinks: dict[TableId, TableSchema] = {}
    withheld: dict[SchemaChange, str] = {}
    for table, source in sources.items():
        for target in source.targets:
            sink = sinks.get(target) or before.sinks.get(target)
            written = source.written
            if sink is not None and sink.primary_key != written.primary_key:
                msg = (
                    f"table {show(table)} has the primary key ({', '.join(written.primary_key)}), "
                    f"but {show(target)}, where it is routed, has ({', '.join(sink.primary_key)})"
                )
                raise ConfigError(msg, "route it elsewhere, or give both the same `primary-keys` in `transform`")
            merged = written if sink is None else sink.merge(written)
            if sink is not None and merged != sink:
                refused = [event for event in changes(target, sink, merged) if not policy.allows(event)]
                withheld.update(dict.fromkeys(refused, WANTED))
                merged = _without(merged, sink, refused)
            if merged != sink and numbers is not None:
                values = {
                    result: is_number(value)
                    for (of, name), value in numbers.widening.items()
                    if of == table
                    for result in source.written_as(name)
                }
                merged, stay = _of_numbers(values, target, sink, merged, numbers)
                kept.update(stay)
                known = _sequence_type(target, sink, merged, policy.sequence, numbers)
                if known is not None and policy.sequence is not None:
                    event = AlterColumnType(target, policy.sequence, known, STRING)
                    rounds = isinstance(known, FLOATS) and values.get(policy.sequence, True)
                    (kept if rounds else withheld)[event] = NO_ORDER
                    merged = _retyped(merged, {policy.sequence: known})
            if merged != sink:
                merged, beyond = _fitting(target, sink, merged, unfit)
                withheld.update(beyond)
            if merged != sink:
                sinks[target] = merged
    events = [event for table, schema in sinks.items() for event in changes(table, before.sinks.get(table), schema)]
    withheld.update(dict.fromkeys((event for event in events if not policy.allows(event)), WANTED))
    return sinks, tuple(event for event in events if event not in withheld), withheld, kept


def _sequence_type(
    target: TableId, sink: TableSchema | None, merged: TableSchema, name: str | None, numbers: StoredNumbers
) -> DataType | None:
    """Return the type that the column keeps which orders changes; None where a sink table may change it as merged.

    Texts have another order than what they are made of. A table of which nothing is known may be there already.
    """
    if name is None or name in merged.primary_key:
        return None
    schemas = ((() if of is None else of.columns) for of in (sink, merged))
    known, wanted = (
        next((column.type for column in columns if column.name == name), types.NULL) for columns in schemas
    )
    if wanted != STRING:
        return None
    if known == types.NULL:
        why = numbers.unfit(target, merged).get(name)
        known = why.there if isinstance(why, Misfit) and why.there is not None else known
    return None if known == types.NULL or types.is_text(known) else known


def _of_numbers(
    values: Mapping[str, bool], target: TableId, sink: TableSchema | None, merged: TableSchema, numbers: StoredNumbers
) -> tuple[TableSchema, dict[SchemaChange, str]]:
    """Return the merged schema as a table has it that holds numbers, and the changes that it cannot do.

    A change for a value that is no number is not one of these: without it the value cannot be written. `values`: for
    columns that got another type, whether it was for a number.
    """
    known = {} if sink is None else {column.name: column.number_type for column in sink.columns}
    whole = [column.name for column in merged.columns if known.get(column.name) == BIGINT and column.type == DOUBLE]
    large = numbers.beyond(target, merged, whole) if whole else ()
    merged = _retyped(merged, dict.fromkeys(large, STRING))
    binary = {
        column.name
        for column in merged.columns
        if (
            isinstance(known.get(column.name), FLOATS)
            and column.type != known[column.name]
            and values.get(column.name, True)
        )
        or (column.name not in known and column.type == STRING and values.get(column.name, False))
    }
    reasons = numbers.unfit(target, merged) if binary else {}
    existing_types = {name: why.there for name in binary if isinstance(why := reasons.get(name), Misfit)}
    stay = {name: kind for name, kind in existing_types.items() if isinstance(kind, FLOATS)}
    merged_types = {column.name: column.type for column in merged.columns}
    kept: dict[SchemaChange, str] = {
        AlterColumnType(target, name, kind, merged_types[name]): reasons[name] for name, kind in stay.items()
    }
    return _retyped(merged, stay), kept


def _retyped(schema: TableSchema, kinds: Mapping[str, DataType]) -> TableSchema:
    """Return a schema with other types of columns."""
    columns = (
        replace(column, type=kinds[column.name]) if column.name in kinds else column for column in schema.columns
    )
    return TableSchema(tuple(columns), schema.primary_key)


def _fitting(
    target: TableId, sink: TableSchema | None, merged: TableSchema, unfit: Unfit
) -> tuple[TableSchema, dict[SchemaChange, str]]:
    """Return as much of the merged schema as the sink can take, and the changes that it cannot do, with the reasons.

    Columns of the key are not left out: no row is written without them. A column that the sink's table has already
    takes the values of its own type.
    """
    reasons = {name: why for name, why in unfit(target, merged).items() if name not in merged.primary_key}
    if not reasons:
        return merged, {}
    known = {} if sink is None else {column.name: column for column in sink.columns}
    kept: list[Column] = []
    for column in merged.columns:
        why = reasons.get(column.name)
        existing_type = why.there if isinstance(why, Misfit) else None
        if column.name in known:
            kept.append(known[column.name])
        elif existing_type is not None and _have_values_in_common(existing_type, column.type):
            kept.append(replace(column, type=existing_type))
        elif sink is None and why is None:
            kept.append(column)
    start = TableSchema(tuple(kept), merged.primary_key)
    refused = {
        event: f"which cannot do it: {reasons[name]}"
        for event in changes(target, start, merged)
        if (name := column_of(event)) in reasons
    }
    return _without(merged, start, refused), refused


def _have_values_in_common(existing: DataType, wanted: DataType) -> bool:
    """Return whether a value of one type may fit the other one."""
    return types.merge(existing, wanted) == wanted or (isinstance(existing, _NUMBERS) and isinstance(wanted, _NUMBERS))


def _without(merged: TableSchema, sink: TableSchema, refused: Iterable[SchemaChange]) -> TableSchema:
    """Return the merged schema without these changes."""
    added = {event.column.name for event in refused if isinstance(event, AddColumn)}
    altered = {event.name for event in refused if isinstance(event, AlterColumnType)}
    known = {column.name: column for column in sink.columns}
    columns = (known[c.name] if c.name in altered else c for c in merged.columns if c.name not in added)
    return TableSchema(tuple(columns), merged.primary_key)


def _new_table(table: TableId, seen: TableSchema, rules: Rules, policy: Policy, *, given_key: bool) -> SourceTable:
    shaped = rules.changes_rows(table)
    configured = rules.primary_key(table)
    if shaped and configured:
        # The key is that of the result, so another key in the messages does not matter
        columns = tuple(replace(column, nullable=True) for column in seen.columns)
        return SourceTable(TableSchema(columns, ()), rules.targets(table), key_from_message=False)
    key = configured or seen.primary_key
    names = [column.name for column in seen.columns]
    hint = (
        "give it one in the pipeline file: transform: [{source-table: "
        f"{show(table)}, projection: \\*, primary-keys: COLUMN}}]"
    )
    if not key and policy.needs_key and not shaped:
        why = "its messages tell none, and no transform names one"
        raise NoPrimaryKey(f"table {show(table)} has no primary key: {why}", hint)
    unknown = [name for name in key if name not in names]
    if unknown and not configured and not policy.needs_key:
        key = ()
    elif unknown:
        where = "the transform's primary-keys name" if configured else "the primary key has"
        msg = f"table {show(table)}: {where} {unknown[0]!r}, but its rows have only {', '.join(names) or 'no column'}"
        raise NoPrimaryKey(msg, hint)
    columns = tuple(replace(column, nullable=column.name not in key) for column in seen.columns)
    return SourceTable(TableSchema(columns, key), rules.targets(table), not configured and not given_key)

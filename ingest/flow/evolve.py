"""How the schemas of all tables grow from what tasks observed.

In: the schemas as they are, what each task saw, the rules. Out: the next version, and the schema change events that
the sink has to apply before a row of that version is written. Runs on the driver; touches nothing outside.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ingest.errors import ConfigError, NoPrimaryKey, SchemaChangeRefused
from ingest.model.schema import Column, CreateTable, SchemaChange, TableSchema, changes
from ingest.model.table import TableId, show

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ingest.flow.route import Rules


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A table as its messages show it, and where it goes."""

    schema: TableSchema
    targets: tuple[TableId, ...]
    key_from_message: bool

    def to_json(self) -> dict[str, Any]:
        """Plain values; the targets follow from the rules and are not stored."""
        return {**self.schema.to_json(), "key_from_message": self.key_from_message}


@dataclass(frozen=True, slots=True)
class Schemas:
    """One version of the schemas of all source and sink tables."""

    version: int = 0
    sources: Mapping[TableId, SourceTable] = field(default_factory=dict)
    sinks: Mapping[TableId, TableSchema] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Evolution:
    """The next version; what changed in it against the one before; what the sink has to apply."""

    schemas: Schemas
    sources: dict[TableId, SourceTable]
    sinks: dict[TableId, TableSchema]
    events: tuple[SchemaChange, ...]


def evolve(
    before: Schemas, observed: Iterable[tuple[TableId, TableSchema]], rules: Rules, *, behavior: str, max_tables: int
) -> Evolution:
    """Merge what was observed; raises NoPrimaryKey, ConfigError or SchemaChangeRefused."""
    sources: dict[TableId, SourceTable] = {}
    for table, seen in observed:
        known = sources.get(table) or before.sources.get(table)
        if known is None:
            if len(before.sources) + len(sources) >= max_tables:
                continue
            sources[table] = _new_table(table, seen, rules)
        else:
            schema = known.schema.merge(seen)
            if schema != known.schema:
                sources[table] = SourceTable(schema, known.targets, known.key_from_message)
    sinks = _sinks(sources, before)
    events = _events(sinks, before)
    if behavior == "exception":
        for event in events:
            if not isinstance(event, CreateTable):
                msg = f"table {show(event.table)} changed: {event}, and pipeline.schema.change.behavior is 'exception'"
                raise SchemaChangeRefused(msg, "apply the change downstream, then allow it with 'lenient' or 'evolve'")
    version = before.version + bool(sources or sinks)
    after = Schemas(version, {**before.sources, **sources}, {**before.sinks, **sinks})
    return Evolution(after, sources, sinks, events)


def reroute(before: Schemas, rules: Rules) -> Evolution:
    """What changes when the rules are not those that the schemas were made with: sink tables that a new route names.

    Raises ConfigError where a transform gives a known table another primary key.
    """
    for table, source in before.sources.items():
        configured = rules.primary_key(table)
        known = source.schema.primary_key
        if configured != known and (configured or not source.key_from_message):
            now = f"({', '.join(configured)})" if configured else "none"
            msg = f"the primary-keys of transform changed for table {show(table)}: ({', '.join(known)}), now {now}"
            raise ConfigError(msg, "rows written under the old key cannot be found again: use another pipeline.name")
    sinks = _sinks(before.sources, before)
    after = Schemas(before.version + bool(sinks), before.sources, {**before.sinks, **sinks})
    return Evolution(after, {}, sinks, _events(sinks, before))


def _sinks(sources: Mapping[TableId, SourceTable], before: Schemas) -> dict[TableId, TableSchema]:
    """The sink tables that have to change so that they take the rows of these source tables."""
    sinks: dict[TableId, TableSchema] = {}
    for table, source in sources.items():
        for target in source.targets:
            sink = sinks.get(target) or before.sinks.get(target)
            if sink is not None and sink.primary_key != source.schema.primary_key:
                msg = (
                    f"table {show(table)} has the primary key ({', '.join(source.schema.primary_key)}), "
                    f"but {show(target)}, where it is routed, has ({', '.join(sink.primary_key)})"
                )
                raise ConfigError(msg, "route it elsewhere, or give both the same `primary-keys` in `transform`")
            merged = source.schema if sink is None else sink.merge(source.schema)
            if merged != sink:
                sinks[target] = merged
    return sinks


def _events(sinks: Mapping[TableId, TableSchema], before: Schemas) -> tuple[SchemaChange, ...]:
    return tuple(event for table, schema in sinks.items() for event in changes(table, before.sinks.get(table), schema))


def _new_table(table: TableId, seen: TableSchema, rules: Rules) -> SourceTable:
    configured = rules.primary_key(table)
    key = configured or seen.primary_key
    names = [column.name for column in seen.columns]
    hint = (
        "give it one in the pipeline file: transform: [{source-table: "
        f"{show(table)}, projection: \\*, primary-keys: COLUMN}}]"
    )
    if not key:
        why = "its messages have no JSON object as key, and no transform names one"
        msg = f"table {show(table)} has no primary key: {why}"
        raise NoPrimaryKey(msg, hint)
    unknown = [name for name in key if name not in names]
    if unknown:
        where = "the transform's primary-keys name" if configured else "the message key has"
        msg = f"table {show(table)}: {where} {unknown[0]!r}, but its rows have only {', '.join(names) or 'no column'}"
        raise NoPrimaryKey(msg, hint)
    columns = tuple(Column(c.name, c.type, c.name not in key) for c in seen.columns)
    return SourceTable(TableSchema(columns, key), rules.targets(table), not configured)

"""The schemas of all tables on the driver: evolved by what tasks observed, applied to the sink, then stored."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from ingest.driver.sink_tables import KeyPartitions, SinkTables, TablePlaces, command
from ingest.errors import ConfigError
from ingest.model import types
from ingest.model.jsontext import says_number
from ingest.model.numbers import FLOATS, Numbers, is_number
from ingest.model.schema import AlterColumnType, CreateTable, TextNumbers, changes
from ingest.model.table import TableId, TableLayout, show
from ingest.model.text import one_line
from ingest.model.types import INTEGERS, NUMBERS, STRING, DataType, is_text
from ingest.observe.events import SchemaChanged
from ingest.schema.evolve import Policy, Schemas, all_fit, evolve, reroute, unchanged
from ingest.schema.infer import MAX_NAMED, Inference, unmatched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ingest.checkpoint.checkpoint import Checkpoint
    from ingest.config.pipeline import Pipeline
    from ingest.driver.context import RunContext
    from ingest.driver.ledger import RunCounters
    from ingest.model.schema import Column, SchemaChange, TableComments, TableSchema
    from ingest.schema.evolve import Evolution, Shape, SourceTable, StoredNumbers, Unfit, Widening
    from ingest.schema.routes import Rules

_SIGNALS: Final = frozenset({"id", "type", "data"})
"""Columns of the table in which Debezium's connectors look for signals."""
_KEYS_OF_TEXTS: Final = (None, "json", "csv")
"""Formats of keys in which a number and its text are two keys whatever their column's type is; None: JSON, too."""

_REMEDY: Final = (
    "To have each row once: ingest checkpoint reset, and write to new topics from the beginning; or delete the old "
    'keys (docs/schemas.md, "Keys"). This is said once'
)
"""What to do where a row has a second record under another key."""
_NONE: Final[Widening] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class SchemaRules:
    """All that decides how schemas evolve in a pipeline."""

    rules: Rules
    policy: Policy
    inference: Inference
    shape: Shape = unchanged
    unfit: Unfit = all_fit
    numbers: StoredNumbers | None = None

    def evolve(
        self, before: Schemas, observed: Iterable[tuple[TableId, TableSchema]], widening: Widening = _NONE
    ) -> Evolution:
        """Merge what was observed; raises ConfigError. `widening`: values that gave columns other types."""
        numbers = None if self.numbers is None else replace(self.numbers, widening=widening)
        return evolve(
            before, observed, self.rules, self.policy, self.inference.initial, self.shape, self.unfit, numbers
        )

    def reroute(self, stored: Schemas) -> Evolution:
        """Give the tables of a checkpoint the targets that the rules give them now; raises ConfigError."""
        initial = self.inference.initial
        return reroute(stored, self.rules, self.policy, initial, self.shape, self.unfit, self.numbers)


def policy_of(pipeline: Pipeline) -> Policy:
    """Return which schema changes a pipeline wants, and which it stops at."""
    options, sink = pipeline.pipeline, pipeline.sink
    included, excluded = frozenset(sink.include), frozenset(sink.exclude)
    can = sink.capabilities
    return Policy(options.behavior, included, excluded, options.max_tables, can.needs_key, can.sequence_by)


class SchemaStore:
    """The schemas of one run. A change reaches the sink first, then the checkpoint: a crash may repeat both."""

    def __init__(
        self,
        context: RunContext,
        rules: SchemaRules,
        tables: SinkTables,
        checkpoint: Checkpoint,
        counters: RunCounters,
        withheld: Callable[[SchemaChange, str], None],
    ) -> None:
        """`withheld` gets each change that the sink is not to see, and the reason."""
        self.schemas = Schemas()
        self._context = context
        self._rules = rules
        self._tables = tables
        self._checkpoint = checkpoint
        self._counters = counters
        self._withheld = withheld
        self._told_unmatched = False
        self._layouts: dict[TableId, TableLayout] = {}
        self.places = TablePlaces(context, checkpoint)

    @property
    def keys(self) -> KeyPartitions:
        """The partitions over which keys of the sink's topics are hashed."""
        return self._tables.keys

    def take_over(self) -> Schemas:
        """Take the checkpoint's schemas over, with the targets that the rules give the tables now.

        Returns the schemas as the checkpoint had them. Raises IngestError.
        """
        stored = self._checkpoint.schemas(self._rules.rules)
        self.places.take_over(stored)
        self.places.store()  # before there are sink tables of new routes
        rerouted = self._rules.reroute(stored)
        self._tell_withheld(rerouted)
        self._arrange(rerouted.schemas.sources)
        self._prepare_known(stored, rerouted.schemas)
        if rerouted.sinks:
            rerouted = self._apply(rerouted)
        others = {table: sink for table, sink in rerouted.schemas.sinks.items() if table not in rerouted.sinks}
        kept = self._tables.declare(others)  # a table may not be as the options say now
        self.schemas = rerouted.schemas.with_stored(kept, others)
        return stored

    def _prepare_known(self, stored: Schemas, now: Schemas) -> None:
        """Make the sink ready for the tables that rows go to by the rules of now, and warn of topics that are gone.

        Raises IngestError.
        """
        wanted = {target: now.sinks[target] for source in now.sources.values() for target in source.targets}
        known = [table for table, schema in wanted.items() if self._rules.policy.allows(CreateTable(table, schema))]
        written = [table for table in known if table in stored.sinks]
        gone: dict[str, set[TableId]] = {}
        for target in written if self._tables.vanished(written) else ():
            for what in self._tables.vanished([target]):
                sources = {table for table, source in now.sources.items() if target in source.targets}
                gone.setdefault(what, set()).update(sources)
        for what, sources in sorted(gone.items()):
            self._context.warn(
                f"{what} is not there, although its table was written before: it is made now, without these "
                f"rows (what brings them: {command(self._context.pipeline, sorted(sources))})"
            )
        self._tables.prepare(known)

    def evolve(self, observed: Iterable[tuple[TableId, TableSchema]], widening: Widening = _NONE) -> Evolution | None:
        """Merge what tasks observed, and apply and store what changed; returns it, None where nothing changed.

        `widening`: by table and column, values that gave columns another type. Raises IngestError.
        """
        evolution = self._rules.evolve(self.schemas, observed, widening)
        self._tell_withheld(evolution)
        if evolution.schemas.version == self.schemas.version:
            return None
        self._warn_of_other_keys(evolution, widening)
        evolution = self._apply(evolution)
        self.places.have_all({t: of for t, of in evolution.sources.items() if t not in self.schemas.sources})
        for table, source in evolution.sources.items():
            known = self.schemas.sources.get(table)
            count = len([*changes(table, None if known is None else known.schema, source.schema)])
            self._counters.add_schema_changes(table, count)
            if known is None:
                self._tell_signals(table, source.schema)
        self.schemas = evolution.schemas
        self._tables.comments.changed(evolution.sources)
        return evolution

    def beside(self, table: TableId) -> dict[TableId, TableId]:
        """Return the sink tables of a source table that have rows of others, each with one of these."""
        known = self.schemas.sources
        targets = known[table].targets if table in known else ()
        others = sorted(
            ((to, name) for name, source in known.items() for to in source.targets if name != table), reverse=True
        )
        return {to: name for to, name in others if to in targets}

    def comment(self, comments: Iterable[tuple[TableId, TableComments]]) -> None:
        """Give comments of source tables on, unless the pipeline ignores changes of schemas. Raise IngestError."""
        if self._rules.policy.behavior != "ignore":
            self._tables.comments.give(comments, self.schemas)

    def empty(self, emptied: Iterable[TableId]) -> dict[TableId, str]:
        """Delete the rows of source tables that were emptied, where they are all that a sink table has.

        Rows stay where the sink keeps those that are gone, where other tables' rows are among them, and where the
        pipeline leaves `truncate.table` out. Returns the tables whose rows stay only because of others, each with what
        is wrong of them. Raises IngestError.
        """
        left: dict[TableId, str] = {}
        for table in emptied:
            source, beside = self.schemas.sources.get(table), self.beside(table)
            for target in () if source is None else source.targets:
                why = ""
                if target in beside:
                    why = f"rows of {show(beside[target])} are there, too"
                    left[table] = f"it was emptied; its rows stay in {show(target)}: {why}"
                if not self._rules.policy.allows_kind("truncate.table"):
                    why = "the pipeline leaves truncate.table out"
                if not why and not self._tables.empty(target):
                    why = "the sink keeps rows that are gone"
                if why:
                    self._context.warn(f"table {show(table)} was emptied; its rows stay in {show(target)}: {why}")
        return left

    def _tell_signals(self, table: TableId, schema: TableSchema) -> None:
        """Warn of a new table that looks like Debezium's signal table. Its name is the user's choice."""
        debezium = str(self._context.pipeline.source.format.name).startswith("debezium")
        if debezium and {column.name for column in schema.columns} == _SIGNALS and schema.primary_key == ("id",):
            self._context.warn(
                f"table {show(table)} has the columns of Debezium's signal table (id, type, data): its rows are "
                "written as those of any table; if they are signals to the connector, a transform with filter: FALSE "
                "keeps them out"
            )

    def _warn_of_other_keys(self, evolution: Evolution, widening: Widening) -> None:
        """Warn of columns whose values are other keys from now on. Rules: docs/spec/keys.md, K30 and K31."""
        sink = self._context.pipeline.sink.capabilities
        key_format = sink.key_format
        as_texts = key_format not in _KEYS_OF_TEXTS or self._rules.inference.reading.as_string
        if not sink.writes_keys or sink.numbers is Numbers.STORED or (as_texts and key_format != "raw"):
            return
        for table, source in evolution.sources.items():
            known = self.schemas.sources.get(table)
            before = {} if known is None else {column.name: column.type for column in known.schema.columns}
            for column in source.schema.columns:
                if column.name not in source.key_columns:
                    continue
                was, value = before.get(column.name), widening.get((table, column.name))
                if key_format == "raw":
                    why = _other_bytes(was, column.type)
                else:
                    # Of a new table, the values that a task looked at ahead tell that there were numbers, too
                    had_numbers = value is not None if known is None else isinstance(was, NUMBERS)
                    why = _other_texts(column, value) if had_numbers else ""
                if why:
                    self._context.warn(
                        f"table {show(table)}: column {one_line(column.name)!r} of the key {why} stays there when its "
                        f"row changes or is deleted. {_REMEDY}"
                    )

    def _tell_withheld(self, evolution: Evolution) -> None:
        for event, why in evolution.withheld.items():
            self._withheld(event, why)
        for event, why in evolution.kept.items():
            cause = "".join(f", for {_shown(value)}," for value in evolution.causes.get(event, {}).values())
            self._context.warn_once(
                f"table {show(event.table)}: {event}{cause} cannot be done in the sink, so the column stays as it is, "
                f"and its numbers are rounded and counted: {why}"
            )

    def _arrange(self, sources: Mapping[TableId, SourceTable]) -> None:
        """Tell the sink how the tables are laid out that rows go to. Raise ConfigError for two layouts of one."""
        rules = self._rules.rules
        if not any(rule.layout for rule in rules.layouts):
            return
        layouts: dict[TableId, TableLayout] = {}
        for table, source in sources.items():
            layout = rules.layout(table)
            for target in source.targets:
                layouts[target] = layout
                if self._layouts.setdefault(target, layout) != layout:
                    msg = f"tables that go to {show(target)} have other partition-keys or table-options"
                    raise ConfigError(msg, "give them the same in `transform`, or route them to tables of their own")
        self._tables.arrange(layouts)

    def tell_unmatched(self) -> None:
        """Warn, once there are tables, of what the options declare for others."""
        if not self._told_unmatched and self.schemas.sources:
            self._told_unmatched = True
            sources = {table: found.schema for table, found in self.schemas.sources.items()}
            for text in unmatched(self._rules.inference, sources):
                self._context.warn(text)

    def _apply(self, evolution: Evolution) -> Evolution:
        """Let the sink take a version of the schemas, then store it; returns it with what the sink's tables are."""
        self._tables.prepare(event.table for event in evolution.events if isinstance(event, CreateTable))
        self._arrange(evolution.sources)
        evolution = evolution.with_stored(self._tables.declare(evolution.sinks))
        self._checkpoint.store(evolution)
        for event in evolution.events:
            self._context.observer(SchemaChanged(show(event.table), str(event), _reason(event, evolution.causes)))
        self._tables.show_changes(evolution.events)
        return evolution


def _other_texts(column: Column, value: bytes | None) -> str:
    """Return how keys change of a column that had a type of numbers; nothing where they stay.

    `value`: what gave it its type; None: a statement of the source.
    """
    if not is_text(column.type) or column.text_numbers is TextNumbers.BARE:
        return ""
    if value is not None and not (value[:1] == b'"' and says_number(value)):
        return ""
    shown = "" if value is None else f" ({_shown(value)})"
    return f'gets its numbers as texts now{shown}, and "5" is another key than 5: what was written under a number'


def _other_bytes(before: DataType | None, now: DataType) -> str:
    """Return how keys change that have the bytes of their column's type; nothing where they stay."""
    if before is None or before in {now, types.NULL} or (is_text(before) and is_text(now)):
        return ""
    names = types.name(before), types.name(now)
    return f"becomes {names[1]} now, which has other bytes in a raw key: what was written as {names[0]}"


def _shown(value: bytes) -> str:
    """Return a value that gave a column another type, for people."""
    return one_line(value.decode(errors="replace"))


def _reason(event: SchemaChange, causes: Mapping[SchemaChange, Mapping[str, bytes]]) -> str:
    """Return why a column got another type than that of a number's, and how a number stays one."""
    values = causes.get(event, {})
    if isinstance(event, AlterColumnType):
        known = {event.name: event.after} if isinstance(event.before, (*INTEGERS, *FLOATS)) else {}
        what = "".join(f"for {_shown(value)}" for value in values.values())
    else:
        known = {
            column.name: column.type
            for column in (event.schema.columns if isinstance(event, CreateTable) else [event.column])
        }
        values = {name: value for name, value in values.items() if known.get(name) == STRING and is_number(value)}
        shown = [f"{one_line(name)} STRING for {_shown(value)}" for name, value in [*values.items()][:MAX_NAMED]]
        what = f"with {', '.join(shown)}" if shown else ""
    to_text = any(known.get(name) == STRING and is_number(value) for name, value in values.items())
    return what + ("; to keep a number, rounded, declare the column DOUBLE" if to_text else "")


def warn_withheld(context: RunContext) -> Callable[[SchemaChange, str], None]:
    """Return what warns, once each, of changes that the sink is not to see."""

    def withhold(event: SchemaChange, why: str) -> None:
        context.warn_once(f"table {show(event.table)}: {event} is withheld from the sink, {why}")

    return withhold

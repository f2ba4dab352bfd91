"""Route and transform rules, as they bear on whole tables: where a table goes, and which primary key it has.

Rules: docs/spec/tables.md#routes and docs/spec/keys.md#primary-key.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ingest.expressions.clauses import ALL, Expression, Item
from ingest.model.table import PLAIN, TableId, TableLayout, selector, table_id

_GROUP = re.compile(r"\$(\d)")


@dataclass(frozen=True, slots=True)
class RouteRule:
    """One entry of `route:`."""

    source_table: str
    sink_table: str
    replace_symbol: str | None = None


@dataclass(frozen=True, slots=True)
class KeyRule:
    """One entry of `transform:` that gives its tables a primary key (or, without one, only ends the search)."""

    source_table: str
    primary_key: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LayoutRule:
    """One entry of `transform:`, as it bears on the tables that a sink makes."""

    source_table: str
    layout: TableLayout


@dataclass(frozen=True, slots=True)
class TransformRule:
    """One entry of `transform:`, as it bears on rows."""

    number: int
    """Which entry it is, from 0."""
    source_table: str
    projection: tuple[Item, ...] = ()
    """Empty: all columns."""
    filter: Expression | None = None
    primary_key: tuple[str, ...] = ()
    soft_delete: bool = False

    @property
    def place(self) -> str:
        """What to call it."""
        return f"transform[{self.number}]"

    @property
    def plain(self) -> bool:
        """Whether rows stay as they are."""
        columns = not self.projection or [item.name for item in self.projection] == [ALL]
        return columns and self.filter is None and not self.soft_delete


def rule_of(rules: Sequence[TransformRule], table: TableId) -> TransformRule | None:
    """The first rule that matches a table; None where none does, or where it leaves rows as they are."""
    for rule in rules:
        if selector(rule.source_table).match(table) is not None:
            return None if rule.plain else rule
    return None


@dataclass(frozen=True, slots=True)
class Rules:
    """All rules of a pipeline that bear on whole tables."""

    routes: tuple[RouteRule, ...] = ()
    first_match: bool = False
    keys: tuple[KeyRule, ...] = ()
    transforms: tuple[TransformRule, ...] = ()
    layouts: tuple[LayoutRule, ...] = ()

    def targets(self, table: TableId) -> tuple[TableId, ...]:
        """The sink tables of a source table, in the order of the rules, each once; its own id where no rule matches."""
        targets: list[TableId] = []
        for rule in self.routes:
            groups = selector(rule.source_table).match(table)
            if groups is None:
                continue
            target = table_id(_expand(rule, groups, table[-1]))
            if target not in targets:
                targets.append(target)
            if self.first_match:
                break
        return tuple(targets) or (table,)

    def primary_key(self, table: TableId) -> tuple[str, ...]:
        """The primary key that the first matching transform gives; empty where none does."""
        for rule in self.keys:
            if selector(rule.source_table).match(table) is not None:
                return rule.primary_key
        return ()

    def layout(self, table: TableId) -> TableLayout:
        """The layout that the first matching transform gives the tables that a table's rows go to."""
        for rule in self.layouts:
            if selector(rule.source_table).match(table) is not None:
                return rule.layout
        return PLAIN

    def changes_rows(self, table: TableId) -> bool:
        """Whether a transform makes other rows of a table's."""
        return rule_of(self.transforms, table) is not None

    @property
    def change_rows(self) -> bool:
        """Whether any transform makes other rows."""
        return not all(rule.plain for rule in self.transforms)


def _expand(rule: RouteRule, groups: tuple[str, ...], name: str) -> str:
    """Return the sink table of a rule, with the groups and the name of the source table in their places.

    All are inserted in one pass: a text that comes from a message is never expanded itself.
    """

    def group(match: re.Match[str]) -> str:
        index = int(match.group(1))
        return groups[index] if index < len(groups) else match.group(0)

    if not rule.replace_symbol:
        return _GROUP.sub(group, rule.sink_table)
    return name.join(_GROUP.sub(group, part) for part in rule.sink_table.split(rule.replace_symbol))

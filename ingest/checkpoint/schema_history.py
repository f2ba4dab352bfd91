"""The schemas that a checkpoint holds: as they are now, version by version, and what changed between two of them.

In: an open checkpoint. Out: values to print. Rules: docs/spec/command-line.md#commands.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ingest.errors import ConfigError
from ingest.model import types
from ingest.model.schema import SchemaChange, TableSchema, changes
from ingest.model.table import TableId, show

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ingest.checkpoint.checkpoint import Checkpoint


@dataclass(frozen=True, slots=True)
class Version:
    """A table's schema from one version of all schemas on."""

    table: TableId
    version: int
    millis: int
    """The time when it was stored, in milliseconds since 1970."""
    schema: TableSchema

    def to_json(self) -> dict[str, Any]:
        """Plain values, types by their Flink SQL names."""
        return {
            "table": show(self.table),
            "version": self.version,
            "columns": [
                {"name": c.name, "type": types.name(c.type), "nullable": c.nullable} for c in self.schema.columns
            ],
            "primary_key": [*self.schema.primary_key],
        }


def history(checkpoint: Checkpoint, *, observed: bool, table: str | None = None) -> list[Version]:
    """Return every version of every table, in order: of the sink's tables, or of the source's as they were `observed`.

    Raises ConfigError where a `table` is asked for and there is none of that name.
    """
    last: dict[TableId, TableSchema] = {}
    out = []
    for number, millis, sources, sinks in checkpoint.versions():
        for name, schema in (sources if observed else sinks).items():
            if last.get(name) != schema:
                last[name] = schema
                out.append(Version(name, number, millis, schema))
    if table is None:
        return out
    of_table = [version for version in out if show(version.table) == table]
    if not of_table:
        known = ", ".join(sorted(show(name) for name in last)[:20]) or "none"
        msg = f"checkpoint {checkpoint.where} knows no {'source' if observed else 'sink'} table {table!r}"
        raise ConfigError(msg, f"known: {known}")
    return of_table


def told(versions: Iterable[Version]) -> Iterator[tuple[Version, SchemaChange]]:
    """Yield each change of each table, with the version that has it first."""
    before: dict[TableId, TableSchema] = {}
    for version in versions:
        for change in changes(version.table, before.get(version.table), version.schema):
            yield version, change
        before[version.table] = version.schema


def current(versions: Iterable[Version], at: int | None = None) -> list[Version]:
    """Return the newest version of each table, or the one that it had at a version of all schemas; sorted by table."""
    newest = {version.table: version for version in versions if at is None or version.version <= at}
    return [newest[table] for table in sorted(newest)]


def check_version(checkpoint: Checkpoint, version: int, *, least: int = 1) -> None:
    """Raise ConfigError where the schemas have no such version; `least` is the first that counts as one."""
    numbers = checkpoint.version_numbers()
    if version not in numbers and not (numbers and version == least == 0):
        which = f"it has {numbers[0]} to {numbers[-1]}" if numbers else "it has none yet"
        if numbers and len(numbers) != numbers[-1] - numbers[0] + 1:
            which = f"it has {', '.join(map(str, numbers[-20:]))}"
        msg = f"checkpoint {checkpoint.where} has no version {version} of the schemas"
        raise ConfigError(msg, f"{which}; see what changed in each: ingest schema history")


def difference(versions: Sequence[Version], first: int, last: int) -> list[tuple[TableId, list[str]]]:
    """Return what changed from one version to another, as schema change events; sorted by table."""
    before = {version.table: version.schema for version in current(versions, first)}
    after = {version.table: version.schema for version in current(versions, last)}
    out = []
    for table in sorted(after):
        events = [str(event) for event in changes(table, before.get(table), after[table])]
        if events:
            out.append((table, events))
    return out

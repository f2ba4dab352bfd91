"""Changes after which a table of a lake takes rows.

In: the table that rows need, and the columns of the one that is there. Out: changes, or the reason why none will do,
and statements that show changes to people. A change may be repeated.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ingest.model import types

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ingest.model.table import PartitionKey, TableLayout
    from ingest.model.types import DataType
    from ingest.sinks.lake.table import LakeTable


class LakeChangeError(ValueError):
    """Error about a change that a lake cannot do. Its text says which."""


@dataclass(slots=True)
class Changes:
    """The changes after which a table takes rows."""

    added: dict[str, DataType] = field(default_factory=dict)
    """New columns with their types."""
    widened: dict[str, DataType] = field(default_factory=dict)
    """Columns whose type becomes a wider one by the table's metadata alone."""
    rewritten: dict[str, DataType] = field(default_factory=dict)
    """Columns whose type becomes one that no metadata makes of theirs: the table is rewritten."""

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return bool(self.added or self.widened or self.rewritten)


class ExistingColumn(NamedTuple):
    """A column of a table that is there."""

    type: DataType | None
    """Its type as we have it; None for a type that no column of ours has."""
    shown: str
    """Its type as the lake writes it."""
    required: bool


def changes_of(
    table: LakeTable,
    existing: Mapping[str, ExistingColumn],
    stored: Callable[[DataType], Any],
    promotes: Callable[[Any, Any], bool],
    *,
    has_rows: bool,
) -> Changes:
    """Return the changes after which a table that is there takes rows. Raise LakeChangeError where none will do.

    `stored`: returns a type as the lake has it. `promotes`: tells whether the lake reads values of one of its types as
    those of another, after a change of metadata alone. `has_rows`: whether the table may have any.
    """
    check_required(table.key, existing)
    deleted = table.deleted
    flag = None if deleted is None else existing.get(deleted)
    if deleted is not None and flag is not None and flag.type != types.BOOLEAN:
        raise LakeChangeError(f"its column {deleted!r} is {flag.shown}, and says of no row that it is deleted")
    out = Changes()
    for name, kind in ((one.name, one.type) for one in table.columns):
        if name not in existing and name in table.key and has_rows:
            raise LakeChangeError(f"its column {name!r} of the key is gone, and rows that are there could not be found")
        if name not in existing:
            out.added[name] = kind
            continue
        current = existing[name].type
        if current is None:
            raise LakeChangeError(f"its column {name!r} is {existing[name].shown}, and rows have {types.name(kind)}")
        to = types.merge(current, kind)
        if stored(to) != stored(current):
            # A FLOAT of 0.1 would be read as 0.10000000149011612, and keys are 0.1
            changes_keys = name in table.key and current == types.FLOAT
            place = out.widened if promotes(stored(current), stored(to)) and not changes_keys else out.rewritten
            place[name] = to
    return out


def check_required(key: Sequence[str], existing: Mapping[str, ExistingColumn]) -> None:
    """Raise LakeChangeError for a table with a required column that is not in the key."""
    for name, one in existing.items():
        if one.required and name not in key:
            raise LakeChangeError(f"its column {name!r} is required, and is no column of the key ({', '.join(key)})")


def statements(table: LakeTable, changes: Changes | None) -> Iterator[str]:
    """Yield changes as statements of SQL, for people; None: the table is not there."""
    name = ".".join(map(_quoted, table.id))
    if changes is None:
        parts = [*_columns((one.name, one.type) for one in table.columns)]
        if table.unique:
            parts.append(f"PRIMARY KEY ({_listed(table.key)})")
        yield f"CREATE TABLE {name} ({', '.join(parts)}){_layout(table.layout)}"
        return
    for part in _columns(changes.added.items()):
        yield f"ALTER TABLE {name} ADD COLUMN {part}"
    for column, kind in changes.widened.items():
        yield f"ALTER TABLE {name} ALTER COLUMN {_quoted(column)} TYPE {types.name(kind)}"
    for column, kind in changes.rewritten.items():
        yield f"ALTER TABLE {name} ALTER COLUMN {_quoted(column)} TYPE {types.name(kind)} (rewrites the table)"


def _layout(layout: TableLayout) -> str:
    out = f" PARTITIONED BY ({', '.join(map(_partition, layout.partitions))})" if layout.partitions else ""
    options = ", ".join(f"{_literal(name)} = {_literal(value)}" for name, value in layout.options)
    return f"{out} TBLPROPERTIES ({options})" if options else out


def _partition(key: PartitionKey) -> str:
    return str(key._replace(column=_quoted(key.column)))


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _columns(columns: Iterable[tuple[str, DataType]]) -> Iterator[str]:
    return (f"{_quoted(name)} {types.name(kind)}" for name, kind in columns)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(_quoted, names))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'

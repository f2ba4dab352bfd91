"""Warnings of keys that an older version wrote: those had the text of their column's type.

In: a checkpoint's history of schemas. Out: texts for people. Rules: docs/spec/keys.md#kept-pipelines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ingest.checkpoint.schema_history import history
from ingest.model import types
from ingest.model.data_type import DecimalType, DoubleType, FloatType
from ingest.model.table import show
from ingest.model.text import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingest.checkpoint.checkpoint import Checkpoint
    from ingest.model.data_type import DataType
    from ingest.model.table import TableId

MAX_TOLD: Final = 20
"""Tables that are named one by one."""
REMEDY: Final = (
    "To have each row once: ingest checkpoint reset, and write to new topics from the beginning; or delete the old "
    'keys (docs/schemas.md, "Keys"). This is said once'
)
"""What to do where a row has a second record under another key."""


def old_keys(checkpoint: Checkpoint) -> list[str]:
    """Return warnings about tables that have, or may have, rows under keys that are written otherwise now."""
    kinds: dict[TableId, dict[str, list[DataType]]] = {}
    for version in history(checkpoint, observed=False):
        had = kinds.setdefault(version.table, {})
        for column in version.schema.columns:
            known = had.setdefault(column.name, [])
            if column.name in version.schema.primary_key and column.type not in known:
                known.append(column.type)
    sure, possible = [], []
    for table, columns in sorted(kinds.items()):
        changed = [f"{one_line(name)} {_steps(of)}" for name, of in columns.items() if _is_written_otherwise(of)]
        if changed:
            sure.append(f"{one_line(show(table))} ({', '.join(changed)})")
        elif any(types.is_text(data_type) for of in columns.values() for data_type in of):
            possible.append(one_line(show(table)))
    told = []
    rule = "keys have the text of their values now, whatever their columns' types are"
    if sure:
        told.append(
            f"{rule}; before, the types decided. Rows may stand under an older key beside the new one, as "
            f'{{"id":"41"}} beside {{"id":41}}, in the topics of {_some(sure)}. {REMEDY}'
        )
    if possible:
        told.append(
            f'{rule}: a number in a key column of type STRING is written as {{"id":41}}, before as {{"id":"41"}}. If '
            f"messages of these tables have numbers or booleans in their keys, the same holds for them: "
            f"{_some(possible)}. {REMEDY}"
        )
    return told


def _some(tables: Sequence[str]) -> str:
    more = f" and {len(tables) - MAX_TOLD} more" if len(tables) > MAX_TOLD else ""
    return ", ".join(tables[:MAX_TOLD]) + more


def _steps(of: Sequence[DataType]) -> str:
    return " -> ".join(types.name(data_type) for data_type in of)


def _is_written_otherwise(of: Sequence[DataType]) -> bool:
    """Tell whether values of a key column that had these types may have had another text."""
    if len({types.sort_of(data_type) for data_type in of if types.name(data_type) != "NULL"}) > 1:
        return True
    return any(isinstance(t, (FloatType, DoubleType)) or (isinstance(t, DecimalType) and t.scale > 0) for t in of)

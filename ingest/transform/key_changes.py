"""Changes of a table's schema that could give rows other keys than before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingest.errors import TransformError
from ingest.model import types
from ingest.model.data_type import NullType
from ingest.model.table import show

if TYPE_CHECKING:
    from ingest.model.data_type import DataType
    from ingest.model.schema import TableSchema
    from ingest.schema.routes import TransformRule
    from ingest.transform.compiled_rule import CompiledRule


def check_key(
    rule: TransformRule, before: CompiledRule, after: CompiledRule, was: TableSchema, now: TableSchema
) -> None:
    """Raise TransformError where a computed key could have another text than before for the same row.

    The result of any function may depend on the type of its argument. So no column that a key is computed from may get
    another type, unless the expression takes it as text.
    """
    known = {output.name: output.type for output in before.transform.outputs if output.copy_of is None}
    types_were = {column.name: column.type for column in was.columns}
    types_are = {column.name: column.type for column in now.columns}
    for output in after.transform.outputs:
        if output.name not in after.transform.key or output.copy_of is not None or output.name not in known:
            continue
        moved = [(name, types_were[name], types_are[name]) for name in sorted(output.needs & types_were.keys())]
        moved = [step for step in moved if not _is_steady(*step[1:], as_text=step[0] in output.as_texts)]
        if not moved and types.sort_of(known[output.name]) != types.sort_of(output.type):
            moved = [(output.name, known[output.name], output.type)]
        for name, old, new in moved[:1]:
            msg = (
                f"{rule.place}, table {show(after.transform.table)}: the key column {output.name!r} is computed by "
                f"{output.text}, and {name!r} was {types.name(old)} and is now {types.name(new)}: rows that were "
                "written before could get other keys"
            )
            hint = f"take it as CAST({name} AS STRING), which is one text for whole numbers and texts, and start anew"
            if name in output.as_texts:  # a number with a fraction has another text in each type
                hint = f"declare {name} STRING in scan.value.initial-schemas.ddls, and start anew"
            elif name == output.name:
                hint = f"make its result a text, CAST({output.text} AS STRING), and start anew"
            raise TransformError(msg, hint)


def _is_steady(old: DataType, new: DataType, *, as_text: bool) -> bool:
    """Tell whether an expression gives the same result for a value after the type of its column changed."""
    if old == new or isinstance(old, NullType) or (types.is_text(old) and types.is_text(new)):
        return True
    return as_text and all(types.is_text(t) or types.is_whole(t) for t in (old, new))

"""The schema that one change shows: its columns with the types of their values, and its primary key.

In: a change that does not fit, the message key beside it, and the table's schema if there is one. Out: a schema that
takes the row. Types of values that already fit stay what they are. Rules: decisions, "Types and merging".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingest.flow.rowtext import key_image, parse_row
from ingest.model import types
from ingest.model.reject import RowError
from ingest.model.schema import Column, TableSchema

if TYPE_CHECKING:
    from ingest.model.event import Change

EMPTY = TableSchema((), ())


def observe(change: Change, message_key: bytes | None, known: TableSchema | None, max_columns: int) -> TableSchema:
    """What the table must be like for this change; raises RowError for a row that no schema takes."""
    _, _, before, after = change
    image = before if after is None else after
    row = {} if image is None else parse_row(image)
    key_row: dict[str, bytes] = {}
    if message_key is not None and (found := key_image(message_key)) is not None:
        key_row = parse_row(found)
    if image is None:
        row = key_row
    expected = {} if known is None else {column.name: column.type for column in known.columns}
    new = row.keys() - expected.keys()
    if len(expected) + len(new) > max_columns:
        raise RowError(
            "too-many-columns",
            f"the table would have {len(expected) + len(new)} columns, more than pipeline.max-columns ({max_columns})",
        )
    columns = []
    for name, value in row.items():
        column_type = expected.get(name)
        if column_type is None or not types.fits(column_type, value):
            column_type = types.infer(value)
        columns.append(Column(name, column_type, name not in key_row))
    return TableSchema(tuple(columns), tuple(key_row))

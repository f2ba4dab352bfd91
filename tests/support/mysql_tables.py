"""Tables of a test's server, as the catalogue gives them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ingest.sources.mysql.columns import Column, Table

if TYPE_CHECKING:
    import pymysql


def table_now(connection: pymysql.Connection[Any], database: str, name: str) -> Table | None:
    """A table by information_schema, with what the snapshot asks of it."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT column_name, data_type, column_type, character_maximum_length, numeric_precision, numeric_scale, "
            "datetime_precision, character_set_name, collation_name, is_nullable, column_key "
            "FROM information_schema.columns WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position",
            (database, name),
        )
        rows = cursor.fetchall()
        cursor.execute(
            "SELECT index_name, column_name, non_unique FROM information_schema.statistics "
            "WHERE table_schema = %s AND table_name = %s ORDER BY index_name, seq_in_index",
            (database, name),
        )
        keys = cursor.fetchall()
        cursor.execute(
            "SELECT engine FROM information_schema.tables WHERE table_schema = %s AND table_name = %s", (database, name)
        )
        engine = cursor.fetchone()
    if not rows or engine is None:
        return None
    columns = []
    for row in rows:
        kind, full = row[1], row[2]
        width = re.search(r"\((\d+)\)", full)
        length = int(width[1]) if kind in {"bit", "tinyint"} and width else row[3]
        labels = (
            tuple(s.replace("''", "'") for s in re.findall(r"'((?:[^']|'')*)'", full))
            if kind in {"enum", "set"}
            else ()
        )
        given = kind == "decimal" or (kind in {"float", "double"} and row[5] is not None)
        columns.append(Column(
            row[0], kind, length, row[4] if given else None, row[5] if given else None, row[6] or 0, "unsigned" in full,
            row[7], row[8], labels, nullable=row[9] == "YES",
        ))  # fmt: skip
    named: dict[str, list[str]] = {}
    for index, column, non_unique in keys:
        if not non_unique:
            named.setdefault(index, []).append(column)
    primary = tuple(named.pop("PRIMARY", ()))
    return Table(database, name, tuple(columns), primary, tuple(map(tuple, named.values())), engine=str(engine[0]))

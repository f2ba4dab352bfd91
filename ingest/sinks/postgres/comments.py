"""Comments of tables of a database and of their columns: what is there, and the statements that change it.

Apart from `tables.py`, as rows need no comment: a table is never made or refused for one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from psycopg import sql

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ingest.model.schema import TableComments
    from ingest.sinks.postgres.connection import Connection

_KNOWN: Final = """
SELECT a.attname, coalesce(col_description(c.oid, a.attnum), ''), coalesce(obj_description(c.oid, 'pg_class'), '')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid
WHERE n.nspname = %s AND c.relname = %s AND a.attnum > 0 AND NOT a.attisdropped
"""
"""Each column of a table, its comment, and the comment of the table."""


def comment_statements(
    connection: Connection, schema: str, name: str, comments: TableComments
) -> Iterator[sql.Composed]:
    """Yield the statements by which a table and its columns have comments, where they have others. Raise psycopg.Error.

    A comment is a literal, whatever is in it; a NUL, which no text may have here, is left out.
    """
    rows = connection.execute(_KNOWN, (schema, name)).fetchall()
    for _, _, known in rows[:1] if comments.table is not None else ():
        text = (comments.table or "").replace("\0", "")
        if text != known:
            yield sql.SQL("COMMENT ON TABLE {} IS {}").format(sql.Identifier(schema, name), sql.Literal(text or None))
    for column, known, _ in rows:
        text = comments.columns.get(column, known).replace("\0", "")
        if text != known:
            what = sql.Identifier(schema, name, column)
            yield sql.SQL("COMMENT ON COLUMN {} IS {}").format(what, sql.Literal(text or None))

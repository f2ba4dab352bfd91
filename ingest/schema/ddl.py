"""Flink SQL's DDL in a pipeline file: tables, or columns with their types; and the DDL of a table, to be shown.

In: text from a pipeline file. Out: schemas by table id, or types by name. Raises TextError with the place in the text.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from ingest.model import types
from ingest.model.table import ByName, TableId
from ingest.model.text import TextError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ingest.model.schema import TableSchema
    from ingest.model.types import DataType
    from ingest.schema.ddl_parser import Statements

_PREFIX: Final = "CREATE TABLE t ("


@lru_cache(maxsize=64)
def parse_tables(text: str) -> Mapping[TableId, TableSchema]:
    """Return the tables of `CREATE TABLE a.b (id BIGINT, PRIMARY KEY (id) NOT ENFORCED); …`, by id. Raise TextError."""
    return ByName(_statements(text).tables())


@lru_cache(maxsize=64)
def remarks(text: str, *, columns: bool = False) -> tuple[TextError, ...]:
    """Return a remark for each type whose default size is seldom meant. Raise TextError where the text is wrong.

    The text is one for `parse_columns` with `columns`, else one for `parse_tables`.
    """
    statements = _statements(text, columns=columns)
    statements.tables()
    return tuple(statements.remarks)


@lru_cache(maxsize=64)
def parse_columns(text: str) -> Mapping[str, DataType]:
    """Return the types of the columns in `id BIGINT, name VARCHAR(10)`, by name. Raise TextError."""
    if not text.strip():
        raise TextError("no column is named: write id BIGINT, name VARCHAR(10)", 0, len(text))
    tables = _statements(text, columns=True).tables()
    schema = tables.get(("t",))
    if schema is None or len(tables) != 1 or schema.primary_key:
        raise TextError("write columns with their types only: id BIGINT, name VARCHAR(10)", 0, len(text))
    return {column.name: column.type for column in schema.columns}


def create_statement(table: TableId, schema: TableSchema) -> str:
    """Return the statement of a table, which `parse_tables` reads, with a line for each column."""
    lines = [
        f"  {_quoted(column.name)} {types.name(column.type)}{'' if column.nullable else ' NOT NULL'}"
        for column in schema.columns
    ]
    if schema.primary_key:
        lines.append(f"  PRIMARY KEY ({', '.join(map(_quoted, schema.primary_key))}) NOT ENFORCED")
    return "\n".join((f"CREATE TABLE {'.'.join(map(_quoted, table))} (", ",\n".join(lines), ");"))


def _quoted(name: str) -> str:
    """Return a name in backticks: it may be a word of SQL."""
    return f"`{name.replace('`', '``')}`"


def _statements(text: str, *, columns: bool = False) -> Statements:
    from ingest.schema.ddl_parser import Statements  # noqa: PLC0415  (sqlglot is slow to import, and few pipelines need it)

    return Statements(f"{_PREFIX}{text}\n)", len(_PREFIX)) if columns else Statements(text, 0)

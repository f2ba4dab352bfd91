"""Answers of a person to statements of the log that nothing else explains: what a table was after one.

`ingest schema set` keeps an answer as a document of the source's state; the coordinator takes each for one statement,
in the order in which they were given. Rule: docs/spec/mysql.md#statements.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ingest.errors import ConfigError
from ingest.model.table import show, table_in
from ingest.sources.mysql.ddl import apply
from ingest.sources.mysql.tokens import ServerRules

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ingest.sources.mysql.columns import Table
    from ingest.sources.mysql.effects import TableName

_NAME: Final = re.compile(r"answer-([0-9]{1,9})")


def new_answer(table: str, statement: str, documents: Collection[str]) -> tuple[str, dict[str, Any]]:
    """Return an answer's document, and a name for it that no document has. Raise ConfigError.

    `table`: its id, as shop.orders. `statement`: CREATE TABLE, as SHOW CREATE TABLE prints it; its name counts for
    nothing.
    """
    _parsed(statement, ("", ""), ServerRules(), {})
    numbers = [int(found[1]) for name in documents if (found := _NAME.fullmatch(name)) is not None]
    return f"answer-{max(numbers, default=0) + 1}", {"table": table, "statement": statement}


def answer_to(
    table: TableName,
    documents: Mapping[str, Any],
    used: Collection[str],
    *,
    server: ServerRules,
    databases: Mapping[str, str],
) -> tuple[str, Table] | None:
    """Return the oldest answer about a table that was not used yet, by its name; None where there is none.

    Raises ConfigError.
    """
    wanted = show(table_in(*table))
    names = [name for name in documents if _NAME.fullmatch(name) and name not in used]
    for name in sorted(names, key=lambda one: int(one.partition("-")[2])):
        if documents[name]["table"] == wanted:
            return name, _parsed(documents[name]["statement"], table, server, databases)
    return None


def _parsed(statement: str, table: TableName, server: ServerRules, databases: Mapping[str, str]) -> Table:
    """Return the table of a CREATE TABLE under a name. Raise ConfigError."""
    effect = apply({}, statement, default_database=table[0], server=server, databases=databases)
    made = next((found for found in effect.tables.values() if found is not None), None)
    if made is None or len(effect.made) != 1:
        why = effect.doubt or "it makes no table with columns of its own"
        msg = f"the statement is not understood: {why}"
        raise ConfigError(msg, "give CREATE TABLE with all columns, as SHOW CREATE TABLE prints it")
    return replace(made, database=table[0], name=table[1])

"""Statements that tasks have met in the log become entries of the history of schemas.

In: a statement at its position, and what is known of tables there. Out: entries, and what else it does. What is not
known, and what the parser does not understand, is asked of the server. Rules: docs/spec/mysql.md#statements.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ingest.errors import ConfigError
from ingest.model.table import table_in
from ingest.model.text import one_line
from ingest.sources.mysql import catalogue, ddl
from ingest.sources.mysql.answers import answer_to
from ingest.sources.mysql.history import SchemaEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from ingest.model.table import TableId
    from ingest.sources.mysql.columns import Table
    from ingest.sources.mysql.connection import Connection
    from ingest.sources.mysql.effects import Effect
    from ingest.sources.mysql.history import History, Name
    from ingest.sources.mysql.reader import StatementNote
    from ingest.sources.mysql.tokens import ServerRules


@dataclass(slots=True)
class Applied:
    """What became of a statement."""

    entries: list[SchemaEntry] = field(default_factory=list)
    effect: Effect | None = None
    """All that it does; None where nothing is known of it but columns that the server was asked for."""
    answers: list[str] = field(default_factory=list)
    """Names of the answers that were used."""


class StatementHistory:
    """Applies statements, in the order of the log."""

    def __init__(
        self, about: ServerRules, databases: Mapping[str, str], reads: Callable[[TableId], bool], *, booleans: bool
    ) -> None:
        """`about`: the server, `databases`: their default character sets, `reads`: whether a table is read."""
        self._about = about
        self._databases = dict(databases)
        self._reads = reads
        self._booleans = booleans

    def apply(
        self,
        history: History,
        note: StatementNote,
        first: int,
        ask: Connection,
        answers: Mapping[str, Any],
        used: Collection[str],
    ) -> Applied:
        """Return what a statement does; entries get ids from `first` on. Raise ConfigError, and what PyMySQL raises.

        `answers`: documents with what a person has said of tables; `used`: names of those that were used before.
        """
        tables = self._tables(history, note.position)
        effect = ddl.apply(
            tables, note.text, default_database=note.database, sql_mode=note.sql_mode, server=self._about,
            databases=self._databases,
        )  # fmt: skip
        for database, charset in effect.databases.items():
            if charset is None:
                self._databases.pop(database, None)
            else:
                self._databases[database] = charset
        changed: dict[Name, Table | None] = dict(effect.tables)
        taken: list[str] = []
        if effect.doubt is not None:
            wanted = {name for name in effect.touches if self.reads(name)}
            answered = {
                name: found for name in sorted(wanted)
                if (found := answer_to(name, answers, used, server=self._about, databases=self._databases)) is not None
            }  # fmt: skip
            taken = [name for name, _ in answered.values()]
            changed.update({name: table for name, (_, table) in answered.items()})
            changed.update(self._asked(wanted - answered.keys(), note, effect.doubt, ask))
        if unknown := {name for name in effect.unknown if self.reads(name)}:
            changed.update(self._asked(unknown, note, "", ask))
        entries: list[SchemaEntry] = []
        for name, table in changed.items():
            known = tables.get(name)
            if table is None and known is None:
                continue
            entries.append(
                SchemaEntry(first + len(entries), note.position, name, table, self.reads(name), self._booleans)
            )
        return Applied(entries, effect, taken)

    def reads(self, name: Name) -> bool:
        """Return whether a table is read."""
        return self._reads(table_in(*name))

    @staticmethod
    def _tables(history: History, position: int) -> dict[Name, Table]:
        found = {entry.name: history.at(entry.name, position) for entry in history.entries}
        return {name: one.table for name, one in found.items() if one is not None and one.table is not None}

    def _asked(
        self, wanted: Collection[Name], note: StatementNote, doubt: str, ask: Connection
    ) -> dict[Name, Table | None]:
        """Return the columns that the server has now. Raise ConfigError where a table is not there any more."""
        found = catalogue.tables(ask, wanted, self._about)
        gone = sorted(name for name in wanted if name not in found)
        if gone and doubt:
            shown = ".".join(gone[0])
            msg = (
                f"a statement of the log is not understood ({doubt}), and {shown} is gone: {one_line(note.text)[:300]}"
            )
            hint = f"say what the table was after it: ingest schema set FILE --table {shown} 'CREATE TABLE …'"
            raise ConfigError(msg, hint)
        return {name: found.get(name) for name in wanted}

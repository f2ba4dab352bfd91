"""Tables as this run has seen them, by which one that somebody has put in the place of another is known.

In: a table each time that it is looked up. A table that was removed and made anew has another id, and one of which
versions were taken away has an earlier version: the rows that this run has written are not in it, so it stops.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ingest.errors import ConfigError
from ingest.model.table import show

if TYPE_CHECKING:
    from collections.abc import Callable

    from deltalake import DeltaTable


class _Seen(NamedTuple):
    id: str
    version: int


class SeenTables:
    """The tables that a run has seen."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        """Know no table yet."""
        self._warn = warn
        self._tables: dict[tuple[str, ...], _Seen] = {}

    def checked(self, name: tuple[str, ...], table: DeltaTable) -> DeltaTable:
        """Return a table. Raise ConfigError where it is not the one that was seen before, or an earlier state of it.

        Warn where somebody has restored an earlier version of it since then.
        """
        now = _Seen(str(table.metadata().id), table.version())
        before = self._tables.get(name, now)
        if now.id != before.id:
            raise _other(name, "somebody has made it anew")
        if now.version < before.version:
            raise _other(name, f"it is at version {now.version}, and was at {before.version}")
        count = now.version - before.version
        if count and any(one.get("operation") == "RESTORE" for one in table.history(count)):
            self._warn(
                f"table {show(name)}: somebody has restored an earlier version of it while this run went on: rows of "
                "batches after that version are not in it (to have them, begin anew with another --checkpoint)"
            )
        self._tables[name] = now
        return table

    def committed(self, name: tuple[str, ...], version: int) -> None:
        """Know that this run has made a version of a table that was seen."""
        self._tables[name] = self._tables[name]._replace(version=version)

    def missing(self, name: tuple[str, ...]) -> None:
        """Raise ConfigError for a table that is not there, if it was seen before."""
        if name in self._tables:
            raise _other(name, "it is gone")


def _other(name: tuple[str, ...], why: str) -> ConfigError:
    msg = f"the table {show(name)} is not what this run has written to: {why}, so rows of earlier batches are not there"
    return ConfigError(msg, "restore it; or begin anew with another --checkpoint, and all rows are written again")

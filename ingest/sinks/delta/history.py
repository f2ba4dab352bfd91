"""Tables as this run has seen them, by which one that somebody has put in the place of another is known.

In: a table each time that it is looked up, and what the checkpoint knows of it. Out: what somebody has taken away of
its rows. While a run goes on, a table that was created again, or lost versions, stops it:
such a table has another id, or an earlier version. A restored version is a new one, and its history says so.
Rules: docs/spec/delta.md#what-others-do.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from deltalake.exceptions import DeltaError

from ingest.errors import ConfigError
from ingest.model.table import show
from ingest.sinks.lake.files import Mark, TakenAway

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from deltalake import DeltaTable


BATCH: Final = "ingest-batch"
CHECKPOINT: Final = "ingest-checkpoint"
"""Words by which a version says what batch it is of, and who owns the progress."""
RESTORED: Final = "somebody has restored an earlier version of it"


class _Seen(NamedTuple):
    id: str
    version: int


class SeenTables:
    """The tables that a run has seen."""

    def __init__(self) -> None:
        """Know no table yet."""
        self._tables: dict[tuple[str, ...], _Seen] = {}

    def checked(self, name: tuple[str, ...], table: DeltaTable) -> DeltaTable:
        """Return a table. Raise ConfigError where it is not the one that was seen before, or an earlier state of it."""
        now = _Seen(str(table.metadata().id), table.version())
        before = self._tables.get(name, now)
        if now.id != before.id:
            raise _other(name, "somebody has created it again")
        if now.version < before.version:
            raise _other(name, f"it is at version {now.version}, and was at {before.version}")
        self._tables[name] = now
        return table

    def committed(self, name: tuple[str, ...], version: int) -> None:
        """Know that this run has made a version of a table that was seen."""
        self._tables[name] = self._tables[name]._replace(version=version)

    def mark(self, name: tuple[str, ...], batch: int) -> Mark:
        """Return the mark of a table as it was seen last, which has this batch."""
        return Mark(batch, tuple(self._tables[name]))

    def missing(self, name: tuple[str, ...]) -> None:
        """Raise ConfigError for a table that is not there, if it was seen before."""
        if name in self._tables:
            raise _other(name, "it is gone")


def _other(name: tuple[str, ...], why: str) -> ConfigError:
    msg = f"the table {show(name)} is not what this run has written to: {why}, so rows of earlier batches are not there"
    return ConfigError(msg, "restore it; or start over with another --checkpoint, and all rows are written again")


def taken_away(table: DeltaTable, mark: Mark, checkpoint: str, load: Callable[[int], DeltaTable]) -> TakenAway | None:
    """Return what somebody has taken away of the rows of a checkpoint since a mark; None where nothing is gone.

    `load` returns an older version of the table. Raise what the library raises.
    """
    of, at = mark.state
    now = table.version()
    if str(table.metadata().id) != of:
        return _found("somebody has created it again", table.transaction_version(checkpoint) or 0, mark)
    if now < at:
        return _found("somebody has put an earlier state of it back", table.transaction_version(checkpoint) or 0, mark)
    history: list[dict[str, Any]] = table.history(now - at) if now > at else []
    if not any(one.get("operation") == "RESTORE" for one in history):
        return None  # as it mostly is
    versions = {int(one["version"]): one for one in history}
    line: set[int] = set()
    place: int | None = now
    while place is not None and place > at:
        line.add(place)
        entry = versions.get(place, {})
        place = _restored(entry, history) if entry.get("operation") == "RESTORE" else place - 1
    gone = [one for version, one in versions.items() if version not in line and _owner(one).startswith(checkpoint)]
    batches = [int(one[BATCH]) for one in gone if _owner(one) == checkpoint]
    kept = mark.batch if place == at else _batch_at(place, checkpoint, load)
    later = [int(one[BATCH]) for version, one in versions.items() if version in line and _owner(one) == checkpoint]
    others = any(_owner(one) != checkpoint for one in gone)
    return _found(RESTORED, max([kept, *later]) if kept is not None else None, mark, batches, others=others)


def _found(
    how: str, kept: int | None, mark: Mark, batches: list[int] | None = None, *, others: bool = False
) -> TakenAway | None:
    found = TakenAway(how, kept, max([mark.batch, *(batches or ())]), others)
    return found if found.rows else None


def _owner(entry: Mapping[str, Any]) -> str:
    """Return the owner of the progress that a version belongs to; nothing where it does not say so."""
    return str(entry.get(CHECKPOINT, "")) if str(entry.get(BATCH, "")).isdecimal() else ""


def _restored(entry: Mapping[str, Any], history: list[dict[str, Any]]) -> int | None:
    """Return the version that a restore has brought back; None where it is none of those that are known."""
    told: Mapping[str, Any] = entry.get("operationParameters") or {}
    version = str(told.get("version", ""))
    if version.isdecimal():
        return int(version)
    with suppress(ValueError):
        time = datetime.fromisoformat(str(told.get("datetime") or told.get("timestamp") or "").strip('"'))
        before = [int(one["version"]) for one in history if one.get("timestamp", 0) <= time.timestamp() * 1000]
        return max((one for one in before if one < int(entry["version"])), default=None)
    return None


def _batch_at(version: int | None, checkpoint: str, load: Callable[[int], DeltaTable]) -> int | None:
    """Return the last batch of a checkpoint that a version has; None where that is not known any more."""
    try:
        return None if version is None else load(version).transaction_version(checkpoint) or 0
    except (DeltaError, OSError):
        return None

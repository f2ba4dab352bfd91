"""Choices of dead letters, and which of them were replayed before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ingest.model.table import selector, table_id

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ingest.model.record import Split


@dataclass(frozen=True, slots=True)
class Selection:
    """A choice of letters: all that match everything that is given."""

    table: str | None = None
    """A selector of table ids; a letter whose table is not known does not match."""
    codes: tuple[str, ...] = ()
    since: int | None = None
    """Rejected at this time or later, in milliseconds since 1970."""
    until: int | None = None
    """Rejected before this time."""

    def matches(self, reject: Mapping[str, str]) -> bool:
        """Return whether a letter of such a reject is selected."""
        if self.codes and reject.get("code") not in self.codes:
            return False
        if self.table is not None:
            table = reject.get("table")
            if not table or selector(self.table).match(table_id(table)) is None:
                return False
        time = reject.get("time", "")
        at = int(time) if time.isdigit() else 0
        return (self.since is None or at >= self.since) and (self.until is None or at < self.until)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"table": self.table, "codes": [*self.codes], "since": self.since, "until": self.until}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Selection:
        """Undo `to_json`."""
        return cls(value["table"], tuple(value["codes"]), value["since"], value["until"])


@dataclass(frozen=True, slots=True)
class Replayed:
    """An earlier replay: its selection, and the range that it read of each split."""

    selection: Selection
    ranges: Mapping[Split, tuple[int, int]]

    def has(self, split: Split, offset: int, reject: Mapping[str, str]) -> bool:
        """Return whether a letter was replayed by it."""
        start, end = self.ranges.get(split, (0, 0))
        return start <= offset < end and self.selection.matches(reject)

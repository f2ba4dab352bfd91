"""What a task has counted, as the short text that a sink commits together with what it wrote.

Whoever resumes goes on counting from there. Where tables are many, their counters are left out: rejects never are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import orjson

from ingest.model.table import MAX_ID, show

if TYPE_CHECKING:
    from ingest.model.table import TableId

MAX_BYTES: Final = 1000


@dataclass(slots=True)
class Counts:
    """What happened to one table's records."""

    read: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    rejected: int = 0


OTHERS: Final = ("(other tables)",)
"""Tables of rejects, past those that are counted one by one."""


def counts_for(counts: dict[TableId, Counts], table: TableId, most: int) -> Counts:
    """The counters of a table, among at most so many: rejects may name any."""
    found = counts.get(table)
    if found is None:
        few = len(counts) < most and len(show(table)) <= MAX_ID
        found = counts.setdefault(table if few else OTHERS, Counts())
    return found


@dataclass(slots=True)
class Tally:
    """Counters of a task, or of several."""

    read: int = 0
    rejected: int = 0
    """Those that count against the tolerance."""
    tables: dict[TableId, Counts] = field(default_factory=dict)

    def text(self) -> bytes:
        """As a sink keeps it."""
        tables = [[list(t), c.inserted, c.updated, c.deleted, c.rejected] for t, c in self.tables.items()]
        text = orjson.dumps({"read": self.read, "rejected": self.rejected, "tables": tables})
        if len(text) > MAX_BYTES:
            text = orjson.dumps({"read": self.read, "rejected": self.rejected, "tables": []})
        return text

    @staticmethod
    def read_from(text: bytes) -> Tally:
        """What a sink kept; nothing counted, where it kept nothing."""
        if not text:
            return Tally()
        found = orjson.loads(text)
        tables = {tuple(t): Counts(0, i, u, d, r) for t, i, u, d, r in found["tables"]}
        return Tally(found["read"], found["rejected"], tables)

"""Upkeep of a Delta table: small files become few, and files of old versions are removed, by the library's own ways.

Every batch adds files, and the search for keys reads their footers. Versions of upkeep have the same rows. They leave
notes of batches as they are, but cannot have any: the version of a batch notes that upkeep is due, and follows it.
Rules: docs/spec/delta.md#upkeep.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from deltalake.exceptions import DeltaError

from ingest.delta.change import ALONE, COMPRESSION

if TYPE_CHECKING:
    from deltalake import DeltaTable

COMPACTED: Final = "ingest-compacted"
"""Name under which a version has the number of the newest one that upkeep follows."""
_DAY_H: Final = 24
"""The shortest retention of a vacuum in hours: files that tasks are about to hand over are in no version, too."""


def is_due(table: DeltaTable, interval: int) -> bool:
    """Return whether the next version is this many versions after the last one that upkeep followed."""
    return table.version() + 1 - (table.transaction_version(COMPACTED) or 0) >= interval


def compact(table: DeltaTable) -> None:
    """Write small files of a table anew, as few ones. Raise CommitFailedError where another writer was faster."""
    table.optimize.compact(commit_properties=ALONE, writer_properties=COMPRESSION)


def vacuum(table: DeltaTable) -> None:
    """Remove files that no version has, or only versions older than the table's own retention, a day at least.

    Raise what the library raises.
    """
    for hours in (_DAY_H, None):
        try:
            found = table.vacuum(hours, full=True)  # a list only
        except DeltaError as exc:
            if hours is None or "retention" not in str(exc):
                raise
            continue  # the table's own is longer
        if found:
            table.vacuum(hours, dry_run=False, full=True)
        return

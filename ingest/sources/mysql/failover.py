"""Goes on with another server than before: its log from the first transaction on that was not read of the former one.

Rules: docs/spec/mysql.md#another-server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ingest.errors import DataLoss
from ingest.sources.mysql.gtids import GtidSet, canonical
from ingest.sources.mysql.log_model import LogPlace
from ingest.sources.mysql.positions import FIRST, WAYS, LogFiles, ServerIdentity

if TYPE_CHECKING:
    from collections.abc import Callable

    from ingest.sources.mysql.log_model import PartOfTransaction
    from ingest.sources.mysql.log_search import LogSearch


def excluded_sources(text: str | None) -> Callable[[str], bool]:
    """Return whether transactions of a source do not count, by `gtid.source.excludes`. Raise ValueError."""
    names = {canonical(name.strip()) for name in (text or "").split(",") if name.strip()}
    return names.__contains__


class Followed(NamedTuple):
    """Where another server's log is read on."""

    files: LogFiles
    place: LogPlace
    skip: GtidSet
    """Transactions behind the place that were read of a former server."""


def follow(
    search: LogSearch,
    files: LogFiles,
    delivered: str,
    about: ServerIdentity,
    excluded: Callable[[str], bool],
    inside: PartOfTransaction | None = None,
) -> Followed:
    """Return the place in another server's log where reading goes on.

    `delivered`: the GTIDs of all transactions that were read. `inside`: one of which a part was read. Raise DataLoss
    where the server lacks one of them, or the log of one that follows.
    """
    if not delivered:
        msg = f"the server is {about.name} now, and the log that was read, of {files.identity.name}, has no GTIDs"
        raise DataLoss(msg, f"a place in another server's log is found by GTIDs only (gtid_mode = ON): {WAYS}")
    partly = GtidSet({} if inside is None else {inside.source: [(inside.number, inside.number)]})
    found = search.find_gtids(GtidSet.parse(delivered), excluded, partly)
    moved = files.moved(about).grown(search.listing(), found.file)
    base = moved.position(found.file, FIRST) - FIRST
    moved = moved.timed(found.file, search.head(found.file).first_time)
    return Followed(moved, LogPlace(found.file, found.offset, base), found.skip)


def passed_over(skip: str, excludes: str | None) -> Callable[[str, int], bool] | None:
    """Return whether a transaction is left out, by its source and number; None where none is."""
    known, sources = GtidSet.parse(skip), excluded_sources(excludes)
    if not known and not excludes:
        return None
    return lambda source, number: known.has(source, number) or sources(source.partition(":")[0])

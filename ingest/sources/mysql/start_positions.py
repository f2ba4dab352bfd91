"""Where in a log reading starts: in a first run, and at another server than before, as after a failover.

In: the options, and ways to ask the server. Out: a place of the log, the transactions before it, definitions of tables
that belong to it. Rules: docs/spec/mysql.md#positions, #schemas and #another-server.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

from ingest.errors import DataLoss, Unavailable
from ingest.model.table import table_in
from ingest.sources.mysql import catalogue
from ingest.sources.mysql.checks import check_readable
from ingest.sources.mysql.gtids import GtidSet, canonical
from ingest.sources.mysql.log_model import FIRST, WAYS, LogFiles, LogPlace, PartOfTransaction, ServerIdentity
from ingest.sources.mysql.log_search import LogSearch, log_listing, log_status

if TYPE_CHECKING:
    from collections.abc import Callable

    from ingest.sources.mysql.history import History
    from ingest.sources.mysql.options import MySqlSource
    from ingest.sources.mysql.types import Table, TableName

_T = TypeVar("_T")
_TRIES: Final = 20
"""Times that definitions of tables are asked for, until no statement came in between."""


class Ask(Protocol):
    """Asks the server over the coordinator's connection. Raises IngestError."""

    def __call__(self, what: str, question: Callable[[Any], _T], /) -> _T:
        """Return the result of a query; `what` names the query in errors."""


def first_place(
    options: MySqlSource, search: LogSearch, ask: Ask, excluded: Callable[[str], bool]
) -> tuple[str, int, GtidSet | None]:
    """Return the log position of a run without a checkpoint, and the GTIDs of the transactions before it.

    None: the log says so, if it has GTIDs. Raise IngestError.
    """
    if options.startup_mode == "earliest-offset":
        return ask("list its log files", log_listing)[0][0], FIRST, None
    if options.startup_mode == "specific-offset" and options.startup_gtids is not None:
        place = search.find_gtids(GtidSet.parse(options.startup_gtids), excluded)
        return place.file, place.offset, None
    if options.startup_mode == "specific-offset" and options.startup_file is not None:
        return options.startup_file, options.startup_position or FIRST, None
    if options.startup_mode == "timestamp":
        place = search.find_time((options.startup_timestamp or 0) / 1000)
        return place.file, place.offset, None
    status = ask("ask for the log's position", log_status)
    return status.file, status.offset, status.executed


def place_of_tables(
    options: MySqlSource, ask: Ask, place: Callable[[], _T], history: History
) -> tuple[_T, dict[TableName, Table]]:
    """Return a place of the log, and the definitions there of tables that `history` lacks.

    A statement may be committed between two questions: definitions that are the same before and after it was asked
    for the place are those of the place. Raise Unavailable where they never are.
    """
    before = _tables_beside(options, ask, history)
    for _ in range(_TRIES):
        found = place()
        after = _tables_beside(options, ask, history)
        if after == before:
            ask("ask for rights", partial(check_readable, wanted=after, server=options.server))
            return found, after
        before = after
    msg = f"tables of {options.server.name} change faster than they can be asked for"
    raise Unavailable(msg, "start the run when no statements change tables")


def _tables_beside(options: MySqlSource, ask: Ask, history: History) -> dict[TableName, Table]:
    """Return the current definitions of the pipeline's tables, except tables already known."""
    names = ask("list its tables", catalogue.names)
    known = {entry.name for entry in history.newest() if entry.read}
    wanted = [name for name in names if name not in known and options.reads(table_in(*name))]
    server = ask("ask for its version", catalogue.server)
    return dict(ask("ask for columns", lambda connection: catalogue.tables(connection, wanted, server)))


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

"""Where in the log a pipeline starts that no checkpoint says where, and how its tables are defined there.

In: the options, and ways to ask the server. Out: a place of the log, the transactions before it, definitions of tables
that belong to it. Rules: docs/spec/mysql.md#positions and docs/spec/mysql.md#schemas.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from ingest.errors import Unavailable
from ingest.model.table import table_in
from ingest.sources.mysql import catalogue
from ingest.sources.mysql.checks import check_readable
from ingest.sources.mysql.gtids import GtidSet
from ingest.sources.mysql.log_search import log_listing, log_status
from ingest.sources.mysql.positions import FIRST

if TYPE_CHECKING:
    from collections.abc import Callable

    from ingest.sources.mysql.history import History, Name
    from ingest.sources.mysql.log_search import LogSearch
    from ingest.sources.mysql.options import MySqlSource
    from ingest.sources.mysql.types import Table

_T = TypeVar("_T")
_TRIES: Final = 20
"""Times that definitions of tables are asked for, until no statement came in between."""


class Ask(Protocol):
    """Asks the server over the coordinator's connection. Raises IngestError."""

    def __call__(self, what: str, question: Callable[[Any], _T], /) -> _T:
        """Return what a question gives; `what`: what is done, for errors."""


def first_place(
    options: MySqlSource, search: LogSearch, ask: Ask, excluded: Callable[[str], bool]
) -> tuple[str, int, GtidSet | None]:
    """Return the place where a run starts that no checkpoint says where, and which transactions are before it.

    None: the log says so, if it has GTIDs. Raise IngestError.
    """
    if options.startup_mode == "earliest-offset":
        return ask("list its log files", log_listing)[0][0], FIRST, None
    if options.startup_mode == "specific-offset" and options.startup_gtids is not None:
        found = search.find_gtids(GtidSet.parse(options.startup_gtids), excluded)
        return found.file, found.offset, None
    if options.startup_mode == "specific-offset" and options.startup_file is not None:
        return options.startup_file, options.startup_position or FIRST, None
    if options.startup_mode == "timestamp":
        found = search.find_time((options.startup_timestamp or 0) / 1000)
        return found.file, found.offset, None
    status = ask("ask for the log's position", log_status)
    return status.file, status.offset, status.executed


def place_of_tables(
    options: MySqlSource, ask: Ask, place: Callable[[], _T], history: History
) -> tuple[_T, dict[Name, Table]]:
    """Return a place of the log, and how tables that `history` does not know are defined there.

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


def _tables_beside(options: MySqlSource, ask: Ask, history: History) -> dict[Name, Table]:
    """Return the tables that are read as the server has them now, without those that are known."""
    names = ask("list its tables", catalogue.names)
    known = {entry.name for entry in history.newest() if entry.read}
    wanted = [name for name in names if name not in known and options.reads(table_in(*name))]
    server = ask("ask for its version", catalogue.server)
    return dict(ask("ask for columns", lambda connection: catalogue.tables(connection, wanted, server)))

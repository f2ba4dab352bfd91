"""Log lines and statistics of a client, as values that a task returns for whoever observes the run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ClientReport:
    """Log lines and statistics of one client, since its report before."""

    client: str
    """The kind of client: `consumer` or `producer`."""
    lines: tuple[tuple[int, str, str], ...]
    """Level (syslog's: 3 is an error, 4 a warning), facility, text; only the newest are kept."""
    lost: int
    """How many lines there were that were not kept."""
    statistics: bytes | None
    """The newest ones, as the client's own JSON, where it was asked for them."""


class Reporting(Protocol):
    """The part of a reader or writer whose client has something to tell."""

    def report(self) -> ClientReport | None:
        """Return what the client told since the last call; None where that is nothing."""


def reports(*clients: Reporting | None) -> list[ClientReport]:
    """Return what clients have to tell, as far as there are any."""
    return [report for client in clients if client is not None and (report := client.report()) is not None]

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
    """A reader or writer whose client has something to tell. Those of other sources and sinks need not be such."""

    def report(self) -> ClientReport | None:
        """Return what the client told since the last call; None where that is nothing."""


def reports(*clients: object) -> list[ClientReport]:
    """Return what those of some readers and writers have to tell that are `Reporting`."""
    asked = [report for client in clients if (report := getattr(client, "report", None)) is not None]
    return [found for report in asked if (found := report()) is not None]

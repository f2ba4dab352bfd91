"""Questions that show whether a source or a sink answers: coordinators make them, `driver/availability.py` asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ingest.model.record import Split

PROBE_S: Final = 3.0
"""The time that a question may take, in seconds, where the client has a limit for it."""


class SideProbe(Protocol):
    """A probe whether a side answers, on a connection of its own: a thread calls it beside the coordinator."""

    def ask(self, positions: Mapping[Split, int]) -> Mapping[Split, int] | None:
        """Return the current ends of these splits; None for a side without splits. Raise IngestError."""

    def close(self) -> None:
        """Release the connection."""


class Connects(Protocol):
    """A coordinator, as far as `ConnectProbe` uses it."""

    def connect(self) -> str:
        """Return an identity. Raise IngestError."""

    def close(self) -> None:
        """Release the connection."""


class ConnectProbe:
    """A probe of a side without a lasting connection: each call connects a new coordinator."""

    def __init__(self, make: Callable[[], Connects]) -> None:
        """Create no coordinator yet."""
        self._make = make

    def ask(self, _positions: Mapping[Split, int]) -> None:
        """Connect. Raise IngestError."""
        coordinator = self._make()
        try:
            coordinator.connect()
        finally:
            coordinator.close()

    def close(self) -> None:
        """Release nothing: no connection stays open."""

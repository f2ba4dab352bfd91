"""Questions that show whether a source or a sink answers: coordinators make them, `driver/availability.py` asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ingest.model.record import Split

PROBE_S: Final = 3.0
"""The time that a question may take, in seconds, where the client has a limit for it."""


class SideProbe(Protocol):
    """A question by a connection of its own: a thread asks it while others work with the coordinator."""

    def ask(self, positions: Mapping[Split, int]) -> Mapping[Split, int] | None:
        """Return where these splits end now; None where that is no question to this side. Raise IngestError."""

    def close(self) -> None:
        """Release the connection."""


class Connects(Protocol):
    """A coordinator, as far as a question needs it."""

    def connect(self) -> str:
        """Return an identity. Raise IngestError."""

    def close(self) -> None:
        """Release the connection."""


class ConnectProbe:
    """A question for what is asked by requests, without a connection that lasts: coordinators of its own connect."""

    def __init__(self, make: Callable[[], Connects]) -> None:
        """Make none yet."""
        self._make = make

    def ask(self, _positions: Mapping[Split, int]) -> None:
        """Connect. Raise IngestError."""
        coordinator = self._make()
        try:
            coordinator.connect()
        finally:
            coordinator.close()

    def close(self) -> None:
        """Do nothing: nothing is held."""

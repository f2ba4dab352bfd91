"""The size of a fault, the broker that it has, and the report of what became of it."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from brokers import broker as small_broker

from ingest.sandbox import broker as sandbox

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@dataclass
class Report:
    """What became of a fault."""

    fault: str
    guarantee: str
    sent: int = 0
    struck: int = 0
    """How often the fault happened."""
    missing: int = 0
    twice: int = 0
    disorder: int = 0
    wrong: int = 0
    """What else was not as the fault wants it; `notes` say what."""
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)

    @property
    def survived(self) -> bool:
        """Whether the guarantee held, under faults that did happen."""
        exact = self.guarantee != "exactly-once" or not (self.twice or self.disorder)
        return bool(self.struck) and not self.missing and not self.wrong and exact


@dataclass(frozen=True)
class Scale:
    """How large a suite is."""

    changes: int
    moments: int
    seed: int


SHARED: str | None = None
"""The address of a broker that faults share which do nothing to it; None where each has its own."""


@contextmanager
def broker(folder: Path, extra: str = "") -> Iterator[str]:
    """A broker that nothing happens to, or one of the fault's own; `extra`: lines of its properties."""
    if SHARED is not None and not extra:
        yield SHARED
        return
    place = folder / "kafka"
    try:
        yield small_broker(place, extra=extra).bootstrap
    finally:
        sandbox.down(place, wipe=True)

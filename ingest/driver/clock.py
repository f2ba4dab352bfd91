"""The clock of a run: what waits goes by it, so that tests wait for nothing."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Clock:
    """A clock that never goes back."""

    now: Callable[[], float] = time.monotonic
    """The seconds since some moment."""
    sleep: Callable[[float], None] = time.sleep
    """Lets so many seconds pass."""


CLOCK: Final = Clock()
"""The machine's."""

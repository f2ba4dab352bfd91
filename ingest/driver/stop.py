"""The signals that end a run: the first one finishes the batch in hand, the second one ends at once."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager
from queue import SimpleQueue
from threading import Thread, current_thread, main_thread
from typing import TYPE_CHECKING, Final, Protocol

from ingest.errors import INTERRUPTED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class Stop(Protocol):
    """Tells a run whether to end."""

    @property
    def asked(self) -> bool:
        """True if somebody asked the run to end."""

    def installed(self) -> AbstractContextManager[object]:
        """Listen while the block runs."""

    def listen(self) -> None:
        """Listen again, where somebody else may have taken the signals meanwhile."""


class StopSignal:
    """SIGTERM and SIGINT. The first one finishes the batch in hand, the second one ends the process at once.

    At once is as after `kill -9`: what is under way is not finished, and done again by the next run.
    """

    def __init__(self, tell: Callable[[str, bool], None]) -> None:
        """Listen to nothing yet; `tell` gets each signal's name, and whether the process ends now."""
        self.asked = False
        # In a program of somebody else's the run may be in another thread than the main one, where nobody can listen
        self._numbers = _SIGNALS if current_thread() is main_thread() else ()
        self._tell = tell
        self._signals: SimpleQueue[str] = SimpleQueue()  # a handler may put into it, whatever it has interrupted

    def __call__(self, number: int, _frame: object) -> None:
        """Handle SIGTERM or SIGINT."""
        name = signal.Signals(number).name
        if self.asked:
            self._tell(name, True)
            os._exit(INTERRUPTED)
        self.asked = True
        self._signals.put(name)

    @contextmanager
    def installed(self) -> Iterator[StopSignal]:
        """Listen while the block runs; the first signal is told by a thread, as a handler must not wait for a lock."""
        before = {number: signal.getsignal(number) for number in self._numbers}
        announcing = Thread(target=self._announce, daemon=True)
        announcing.start()
        self.listen()
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            self._signals.put("")
            announcing.join(1)

    def listen(self) -> None:
        """Take the signals, also from whoever took them meanwhile."""
        for number in self._numbers:
            signal.signal(number, self)

    def _announce(self) -> None:
        while name := self._signals.get():
            self._tell(name, False)

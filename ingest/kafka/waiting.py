"""How long calls of the Kafka client are waited for: some never come back, whatever time limit they are given.

See docs/adr/2026-11-22-the-client-may-hang.md.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

METADATA_S: Final = 10.0
"""The time that a question for the partitions of a topic may take, in seconds."""


def in_time(seconds: float, call: Callable[..., object], *arguments: object) -> bool:
    """Make a call that blocks, in a thread; whether it came back within so many seconds. Raises what it raises."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            call(*arguments)
        except BaseException as exc:  # noqa: BLE001  (raised where the call was made)
            failed.append(exc)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        return False
    if failed:
        raise failed[0]
    return True

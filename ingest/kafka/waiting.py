"""Calls of the Kafka client with a time limit: some never come back, whatever time limit they are given.

See docs/adr/2026-11-22-the-client-may-hang.md.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from confluent_kafka import Consumer, KafkaException

METADATA_S: Final = 10.0
"""The time that a question for the partitions of a topic may take, in seconds."""
CLOSE_S: Final = 10.0


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


def close(consumer: Consumer) -> None:
    """Close a consumer. One that does not come back is left as it is, and ends with the process.

    With its broker gone, `close` may wait without end for an answer to what was asked before
    (docs/adr/2026-11-22-the-client-may-hang-when-closed.md). Nothing is lost by leaving it: what was committed is
    known, and sessions of groups are not used.
    """
    with suppress(KafkaException, RuntimeError):
        in_time(CLOSE_S, consumer.close)

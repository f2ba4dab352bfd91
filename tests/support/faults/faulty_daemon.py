"""PySpark's daemon, whose workers die or stop at a given point: `INGEST_FAULT=point:nth:folder`.

Points are those of `Channel.commit`: `before-commit` (all is written, nothing committed), `after-commit` (committed,
and nobody knows). `nth` counts the commits of all workers. Each fault strikes once: the folder remembers.
"""

import os
import signal
from pathlib import Path
from typing import Any

from ingest.kafka import transactions

POINT, NTH, FOLDER = os.environ["INGEST_FAULT"].split(":", 2)
_commit = transactions.Channel.commit


def _count() -> int:
    """How many commits there have been, this one included."""
    number = 1
    while True:
        try:
            (Path(FOLDER) / f"commit-{number}").touch(exist_ok=False)
        except FileExistsError:
            number += 1
        else:
            return number


def _strike(point: str, number: int) -> None:
    if point == POINT and number == int(NTH):
        (Path(FOLDER) / "struck").write_text(str(os.getpid()))
        os.kill(os.getpid(), signal.SIGKILL)


def commit(self: transactions.Channel, *arguments: Any) -> None:
    """Commit, and die before or after."""
    number = _count()
    if POINT == "before-commit":
        self.writer.flush()
    _strike("before-commit", number)
    _commit(self, *arguments)
    _strike("after-commit", number)


if __name__ == "__main__":
    transactions.Channel.commit = commit  # type: ignore[assignment, method-assign]
    from pyspark.daemon import manager

    manager()

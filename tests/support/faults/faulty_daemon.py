"""PySpark's daemon, whose workers die or stop at a given point: `INGEST_FAULT=point:nth:folder`.

Points are those of the transactions of Kafka and of PostgreSQL: `before-commit` (all is written, nothing committed),
`after-commit` (committed, and nobody knows). `nth` counts the commits of all workers. Each fault strikes once: the
folder remembers.
"""

import os
import signal
from pathlib import Path
from typing import Any

from ingest.kafka import transactions
from ingest.sinks.postgres.writer import PostgresWriter

POINT, NTH, FOLDER = os.environ["INGEST_FAULT"].split(":", 2)
_commit = transactions.Channel.commit
_write_rows, _commit_rows = PostgresWriter._write_rows, PostgresWriter._commit
_numbers: list[int] = []
"""Of the commit of rows that is under way, the number."""


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


def write_rows(self: PostgresWriter, *arguments: Any) -> None:
    """Write rows of a transaction, and die before its end."""
    _write_rows(self, *arguments)
    _strike("before-commit", _numbers[-1])


def commit_rows(self: PostgresWriter, *arguments: Any, **more: Any) -> None:
    """Write and commit rows, and die after that."""
    _numbers.append(_count())
    _commit_rows(self, *arguments, **more)
    _strike("after-commit", _numbers[-1])


if __name__ == "__main__":
    PostgresWriter._write_rows = write_rows  # type: ignore[assignment, method-assign]
    PostgresWriter._commit = commit_rows  # type: ignore[method-assign]
    transactions.Channel.commit = commit  # type: ignore[assignment, method-assign]
    from pyspark.daemon import manager

    manager()

"""The command `ingest` with batches of one size: `sized_batches.py RECORDS run …`, records of a task in each batch.

The command itself makes batches as large as about five seconds of work; a peer that is told a size is compared with
batches of that size.
"""

from __future__ import annotations

import sys

from ingest.driver import pacing


class SizedBudget(pacing.Budget):
    """A budget that learns nothing."""

    def learn(self, records: float, seconds: float) -> None:
        """Stay as it is."""


def main() -> None:
    """Run the command."""
    records = int(sys.argv.pop(1))
    setattr(pacing, "Budget", lambda most: SizedBudget(records, most))  # noqa: B010  (mypy takes no other class there)
    from ingest.cli.app import main as command

    command()


if __name__ == "__main__":
    main()

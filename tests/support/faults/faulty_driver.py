"""The command `ingest`, which dies at a given point: `INGEST_DRIVER_FAULT=point:nth`.

Points: `before-done` (a batch's tasks are over, its done is not stored), `after-plan` (a plan is stored, no task has
started), `before-store` and `after-store` (of a version of the schemas).
"""

import os
import signal
from typing import Any

from ingest.checkpoint.checkpoint import Checkpoint

POINT, _, NTH = os.environ.get("INGEST_DRIVER_FAULT", "never:1").partition(":")
_left = iter(range(int(NTH) - 1))


def _strike(point: str) -> None:
    if point == POINT and next(_left, None) is None:
        os.kill(os.getpid(), signal.SIGKILL)


def _around(name: str, before: str, after: str) -> None:
    wrapped = getattr(Checkpoint, name)

    def method(self: Checkpoint, *arguments: Any) -> None:
        _strike(before)
        wrapped(self, *arguments)
        _strike(after)

    setattr(Checkpoint, name, method)


if __name__ == "__main__":
    _around("done", "before-done", "after-done")
    _around("plan", "before-plan", "after-plan")
    _around("store", "before-store", "after-store")
    from ingest.cli.app import main

    main()

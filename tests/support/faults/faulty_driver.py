"""The command `ingest`, which dies at a given point: `INGEST_DRIVER_FAULT=point:nth`.

Points: `before-done` (a batch's tasks are over, its done is not stored), `after-plan` (a plan is stored, no task has
started), `before-store` and `after-store` (of a version of the schemas), `before-decide` and `after-decide` (of what a
batch adds to tables of a lake), `before-add` and `after-add` (of the commit of one such table).
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


def _around(owner: Any, name: str, before: str, after: str) -> None:
    wrapped = getattr(owner, name)

    def method(*arguments: Any) -> Any:
        _strike(before)
        found = wrapped(*arguments)
        _strike(after)
        return found

    setattr(owner, name, method)


if __name__ == "__main__":
    _around(Checkpoint, "done", "before-done", "after-done")
    _around(Checkpoint, "plan", "before-plan", "after-plan")
    _around(Checkpoint, "store", "before-store", "after-store")
    _around(Checkpoint, "decide", "before-decide", "after-decide")
    if POINT.endswith("-add"):
        from ingest.sinks.delta import coordinator as delta
        from ingest.sinks.iceberg import coordinator as iceberg

        for coordinator in (delta, iceberg):
            _around(coordinator, "add_files", "before-add", "after-add")
    from ingest.cli.app import main

    main()

"""How many examples a property tries: the number that its test says, times INGEST_EXAMPLES.

`make test` tries that number, `make test-fast` a tenth of it; a night may try a hundred times as many.
"""

from __future__ import annotations

import os

_TIMES = float(os.environ.get("INGEST_EXAMPLES", "1"))


def examples(count: int) -> int:
    """Return how many examples to try where `make test` tries `count`; at least five."""
    return max(min(count, 5), round(count * _TIMES))

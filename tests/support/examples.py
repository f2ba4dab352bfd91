"""How many examples a property tries: the number that its test says, times INGEST_EXAMPLES.

`make test` tries half of that number, `make test-fast` a tenth, `make nightly` four times as many.
"""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")
_TIMES = float(os.environ.get("INGEST_EXAMPLES", "1"))


def examples(count: int) -> int:
    """Return how many examples to try of `count`; at least five."""
    return max(min(count, 5), round(count * _TIMES))


def some(every: Sequence[T]) -> Sequence[T]:
    """Return all of these; for `make test-fast` a tenth at random: a failure has to name its one."""
    return every if _TIMES >= 0.5 else random.sample(every, examples(len(every)))

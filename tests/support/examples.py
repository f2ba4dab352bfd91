"""How many examples a property tries: the number that its test says, times INGEST_EXAMPLES.

`make test` tries a quarter of that number, `make test-fast` a tenth, `make nightly` four times as many.
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
    """Return all of these, or that share of them at random, the same ones on CI: a failure has to name its one."""
    chosen = random.Random(7 if "CI" in os.environ else None)  # noqa: S311  (a sample, no secret)
    return every if _TIMES >= 1 else chosen.sample(every, examples(len(every)))

"""What tests try that no one of them says: how many examples of a property, values by chance, names.

A property tries the number of examples that its test says, times INGEST_EXAMPLES: `make test` tries a quarter of it,
`make test-fast` a tenth, `make nightly` four times as many. CI tries the same values each time, as a change is judged
by itself there; `tests/unit/test_schedule.py` looks for tests that draw in another way.
"""

from __future__ import annotations

import os
import random
import uuid
from collections import Counter
from hashlib import sha256
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")
_TIMES = float(os.environ.get("INGEST_EXAMPLES", "1"))
_NAMED: Counter[str] = Counter()
"""How many names each test has."""


def examples(count: int) -> int:
    """Return how many examples to try of `count`; at least five."""
    return max(min(count, 5), round(count * _TIMES))


def some(every: Sequence[T]) -> Sequence[T]:
    """Return all of these, or that share of them by chance: a failure has to name its one."""
    chosen = random.Random(seed())
    return every if _TIMES >= 1 else chosen.sample(every, examples(len(every)))


def seed() -> int:
    """Return what a test draws by, the same number on CI: a failure has to name it."""
    return 7 if "CI" in os.environ else random.SystemRandom().randrange(1 << 30)


def own_name(prefix: str) -> str:
    """Return a name of these letters and ten hexadecimal digits that nothing else on a server has.

    A test has the same names whenever it runs.
    """
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
    if not test:  # a tool, whose server may have been there before
        return prefix + uuid.uuid4().hex[:10]
    _NAMED[test] += 1
    return prefix + sha256(f"{test} {_NAMED[test]}".encode()).hexdigest()[:10]

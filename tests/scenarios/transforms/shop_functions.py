"""Functions for scenarios."""

from __future__ import annotations

from decimal import Decimal  # noqa: TC003  (annotations are read)
from typing import Annotated

import pandas as pd  # noqa: TC002  (as above)
import pyarrow as pa
import pyarrow.compute as pc


def mask(text: str) -> str:
    return f"{text[0]}***"


def half(n: int) -> int | None:
    return None if n % 2 else n // 2


def strict(n: int) -> int:
    return 10 // (n - 2)


def shout(text: pa.Array) -> Annotated[pa.Array, "STRING"]:
    return pc.utf8_upper(text)


def not_three(n: Annotated[pd.Series, "BIGINT"]) -> Annotated[pd.Series, "BIGINT"]:
    if (n == 3).any():
        msg = "a three"
        raise ValueError(msg)
    return n + 100


def third(n: Decimal, times: int = 1) -> Annotated[Decimal, "DECIMAL(10,2)"]:
    return n * times / 3


def told(text: str | None) -> str:
    return "nothing" if text is None else text


def constant() -> str:
    return "c"


def words(text: str) -> list[str]:
    return text.split()

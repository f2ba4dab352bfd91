"""Numbers of 32 bits as the number of the fewest digits that reads back to them: 0.1, and not 0.10000000149011612."""

from __future__ import annotations

from struct import Struct
from typing import Final

_FLOAT: Final = Struct("<f")
_NORMAL: Final = 2.0**-126
"""The smallest float that has all its bits. Six digits tell any two of those apart; smaller ones may need fewer."""


def shortest(value: float) -> float:
    """Return the number of the fewest digits that is this one in 32 bits. `value` is finite, and has 32 bits."""
    piece = _FLOAT.pack(value)
    for digits in range(6 if abs(value) >= _NORMAL else 1, 9):
        short = float(f"{value:.{digits}g}")
        if short == value:
            return short
        try:
            if _FLOAT.pack(short) == piece:
                return short
        except OverflowError:  # the digits were rounded to more than a float can be
            continue
    return float(f"{value:.9g}")

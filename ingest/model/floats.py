"""Binary numbers: their reading, and those of 32 bits as the number of the fewest digits that reads back to them.

0.1 is 0.1, and not 0.10000000149011612.
"""

from __future__ import annotations

from math import isfinite
from struct import Struct
from typing import Final

_FLOAT: Final = Struct("<f")
_DOUBLE: Final = Struct("<d")
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


class NotANumber(ValueError):
    """Error about a number that JSON cannot say."""


def read_float(data: bytes, at: int) -> tuple[float, int]:
    """Read a number of 32 bits, as the number of the fewest digits that reads back to it. Raise NotANumber."""
    piece = data[at : at + 4]
    if len(piece) < 4:
        raise IndexError
    return shortest(finite(_FLOAT.unpack(piece)[0])), at + 4


def read_double(data: bytes, at: int) -> tuple[float, int]:
    """Read a number of 64 bits. Raise NotANumber."""
    piece = data[at : at + 8]
    if len(piece) < 8:
        raise IndexError
    return finite(_DOUBLE.unpack(piece)[0]), at + 8


def finite(value: float) -> float:
    """Return a number as it is. Raise NotANumber for NaN and infinite ones."""
    if not isfinite(value):
        raise NotANumber(f"{value}, which JSON cannot say")
    return value

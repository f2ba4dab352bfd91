"""Draws from a few values inside of composite strategies, where Hypothesis does not show each draw.

A strategy is made for a number of values, not for the values, and kept: to make and validate one costs more than a draw
of it, and a composite strategy draws many times for each example.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Sequence


def pick(draw: Any, values: Sequence[Any]) -> Any:
    """Draw one of the values; simpler ones come first."""
    return values[draw(_place(len(values)))]


def pick_some(draw: Any, values: Sequence[Any], min_size: int = 0, max_size: int | None = None) -> list[Any]:
    """Draw some of the values, each at most once."""
    return [values[at] for at in draw(_places(len(values), min_size, max_size))]


def shuffle(draw: Any, values: Sequence[Any]) -> list[Any]:
    """Draw an order of the values."""
    return [values[at] for at in draw(_order(len(values)))]


@cache
def _place(count: int) -> Any:
    return st.sampled_from(range(count))


@cache
def _places(count: int, min_size: int, max_size: int | None) -> Any:
    return st.lists(_place(count), min_size=min_size, max_size=max_size, unique=True)


@cache
def _order(count: int) -> Any:
    return st.permutations(range(count))

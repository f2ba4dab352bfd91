from typing import Any, TypeAlias

Parts: TypeAlias = tuple[bytes | None, bytes | None, bytes]
"""A column as Arrow has it: validity, offsets, data."""

class TransformRows:
    """Rows on their way to expressions. Raises RuntimeError where a call of it is not done yet."""

    def __init__(self, kinds: bytes, /) -> None:
        """`kinds`: those of the slots: `s` texts, `l` integers, `d` floating-point numbers, `b` truth values."""

    def add(self, meta: tuple[Any, ...], values: tuple[Any, ...], /) -> None:
        """Add a row: transform, target, offset, what it is, text, key; and the values of its slots, or none at all.

        It goes to expressions if its transform is not negative.
        """

    def mark(self, code: int, count: int, /) -> None:
        """Add rows that only go to expressions, with this in the place of a transform."""

    def size(self) -> tuple[int, int]:
        """Return how many rows go to expressions, and how many bytes the texts have that stay."""

    def take(self) -> tuple[int, list[Parts], int, list[Parts]]:
        """Return how many rows there are, and what stays of them; how many go to expressions, and what goes.

        That is their transforms and their slots. None are left.
        """

"""An option whose text has a grammar of its own: what is wrong with it, and where in it."""

from __future__ import annotations


class TextError(ValueError):
    """What is wrong with an option's text, at which character of it, counted from 0."""

    def __init__(self, why: str, at: int, length: int = 1) -> None:
        """Keep the place, so that a pipeline file's line can be marked there."""
        super().__init__(f"{why} (at character {at + 1})")
        self.at = at
        self.length = max(1, length)

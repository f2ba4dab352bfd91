"""An option whose text has a grammar of its own: what is wrong with it, and where in it."""

from __future__ import annotations


def one_line(text: str) -> str:
    """On one line, whatever it holds: names and values come from messages."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in text)


class TextError(ValueError):
    """What is wrong with an option's text, at which character of it, counted from 0."""

    def __init__(self, why: str, at: int, length: int = 1) -> None:
        """Keep the place, so that a pipeline file's line can be marked there."""
        super().__init__(f"{why} (at character {at + 1})")
        self.at = at
        self.length = max(1, length)

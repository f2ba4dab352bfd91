"""Texts for people on one line, and the error about an option whose text has its own grammar."""

from __future__ import annotations


def one_line(text: str) -> str:
    """Return a text on one line, with other characters than printable ones escaped.

    Names and values come from messages.
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in text)


class TextError(ValueError):
    """Error at a position in an option's text. Positions are characters, counted from 0."""

    def __init__(self, why: str, at: int, length: int = 1) -> None:
        """Keep the position, so that the loader can mark it in the pipeline file."""
        super().__init__(f"{why} (at character {at + 1})")
        self.at = at
        self.length = max(1, length)

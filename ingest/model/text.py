"""Texts for people: on one line, without words of Python. And the error about an option that has its own grammar."""

from __future__ import annotations

import json
import re
from typing import Final

_NUMBER: Final = re.compile(r"\[Errno -?\d+\] ")
"""How Python writes the number of an error of the system."""
_CONNECTION: Final = re.compile(r"\bHTTPS?Connection\(host='([^']*)', port=(\d+)\)")
"""How urllib3 writes which connection it is about."""


def one_line(text: str) -> str:
    """Return a text on one line, with other characters than printable ones escaped.

    Names and values come from messages.
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in text)


def size(count: float) -> str:
    """Return a number of bytes in a few characters: `812 B`, `3.4 MiB`."""
    for bound, unit in ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= bound:
            return f"{count / bound:.1f} {unit}"
    return f"{count:.0f} B"


def yaml_text(value: object) -> str:
    """Return a value as a pipeline file would have it: `true`, `null`, a text as it is, a map or a list as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if value is None or isinstance(value, bool | dict | list | tuple):
        return json.dumps(value, ensure_ascii=False, default=yaml_text)
    return str(value)


def reason_of(exc: BaseException) -> str:
    """Return why a file or a connection failed, without the number of the error.

    Errors of `urllib`, `urllib3` and `requests` have that error inside.
    """
    for inner in (getattr(exc, "reason", None), *exc.args[:1]):
        if isinstance(inner, BaseException):
            return reason_of(inner)
    said = exc.strerror if isinstance(exc, OSError) else None
    return said or _CONNECTION.sub(r"\1:\2", _NUMBER.sub("", str(exc))) or type(exc).__name__


def reason_and_file(exc: BaseException) -> str:
    """Return why something failed, and with which file where the error names one."""
    file = exc.filename if isinstance(exc, OSError) else None
    return reason_of(exc) if file is None else f"{reason_of(exc)}: {file}"


class TextError(ValueError):
    """Error at a position in an option's text. Positions are characters, counted from 0."""

    def __init__(self, why: str, at: int, length: int = 1) -> None:
        """Keep the position, so that the loader can mark it in the pipeline file."""
        super().__init__(f"{why} (at character {at + 1})")
        self.at = at
        self.length = max(1, length)

"""Regular expressions of pipeline files, for whole names that come from messages and topics.

They run on RE2, whose time is linear in its input: no pattern and no name can make it slow.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import re2

if TYPE_CHECKING:
    from collections.abc import Callable


class PatternError(ValueError):
    """Error about a text that is no regular expression. Its text says why, in one line."""


@lru_cache(maxsize=1024)
def whole(text: str) -> Callable[[str], re2._Match | None]:
    """Return a function that matches whole names. It is compiled once in a process. Raise PatternError."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 8 << 20
    try:
        found: Callable[[str], re2._Match | None] = re2.compile(f"(?s:{text})", options).fullmatch
    except re2.error as exc:
        reason = exc.args[0].decode() if exc.args and isinstance(exc.args[0], bytes) else str(exc)
        raise PatternError(reason.partition(": (?s:")[0]) from exc
    return found


def checked(text: str | None) -> str | None:
    """Return the text unchanged, for the check of an option. Raise ValueError where it is no regular expression."""
    if text is not None:
        try:
            whole(text)
        except PatternError as exc:
            msg = f"not a regular expression: {exc}"
            raise ValueError(msg) from None
    return text

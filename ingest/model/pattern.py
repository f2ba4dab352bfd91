"""Regular expressions that pipeline files hold, to match names from messages and topics: whole names, on RE2.

RE2's time is linear in its input: neither a file nor a name can make it explode.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import re2

if TYPE_CHECKING:
    from collections.abc import Callable


class PatternError(ValueError):
    """A text that is no regular expression; says why, in one line."""


@lru_cache(maxsize=1024)
def whole(text: str) -> Callable[[str], re2._Match | None]:
    """What matches whole names, compiled once per process; raises PatternError."""
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
    """The same text, for options; raises ValueError where it is no regular expression."""
    if text is not None:
        try:
            whole(text)
        except PatternError as exc:
            msg = f"not a regular expression: {exc}"
            raise ValueError(msg) from None
    return text

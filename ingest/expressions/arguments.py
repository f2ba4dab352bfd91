"""Arguments of a call in an expression, as tokens, and the kinds of translations that take them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ingest.expressions.words import kind
from ingest.model.text import TextError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ingest.expressions.words import Words

Say: TypeAlias = "Callable[[Words], str]"
"""Function that translates tokens to Spark SQL."""
Translation: TypeAlias = "Callable[[list[Words], Say], str | None]"
"""Function that translates the arguments of a call to Spark SQL.

It returns None where Spark's own meaning is right. It raises TextError, with advice, where there is no translation.
"""
Made: TypeAlias = "str | Translation"
"""A translation, or Spark SQL with `{0}` for the first argument."""


def literal(value: str) -> str:
    """Return a text as a string literal of Spark SQL."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def refused(why: str) -> Translation:
    """Return the translation of a call that is an error, for this reason."""

    def refuse(arguments: list[Words], _: Say) -> str | None:
        first, last = arguments[0][0], arguments[-1][-1]
        raise TextError(why, first.start, last.end - first.start + 1)

    return refuse


def is_number(words: Words) -> bool:
    """Tell whether an argument is a number literal. Such a literal is never negative."""
    return len(words) == 1 and kind(words[0]) == "NUMBER"


def is_fixed(words: Words) -> bool:
    """Tell whether an argument is a literal."""
    return len(words) == 1 and kind(words[0]) in {"NUMBER", "STRING"}

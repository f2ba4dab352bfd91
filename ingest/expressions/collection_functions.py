"""Functions of Flink SQL on arrays and structs, and of many arguments, as Spark SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingest.expressions.arguments import is_fixed, literal
from ingest.expressions.words import is_word, kind
from ingest.model.text import TextError

if TYPE_CHECKING:
    from ingest.expressions.arguments import Say, Translation
    from ingest.expressions.words import Words


def of_all(function: str) -> Translation:
    """Return the translation of `GREATEST(a, b)` or LEAST.

    The result is NULL where one argument is NULL, as in Flink.
    """

    def made(arguments: list[Words], say: Say) -> str | None:
        given = [say(a) for a in arguments]
        known = [f"({a}) IS NOT NULL" for a, words in zip(given, arguments, strict=True) if not is_fixed(words)]
        call = f"{function}({', '.join(given)})"
        return f"CASE WHEN {' AND '.join(known)} THEN {call} END" if known else call

    return made


def sort(arguments: list[Words], say: Say) -> str | None:
    """Translate `ARRAY_SORT(a)`, `ARRAY_SORT(a, ascending)` and `ARRAY_SORT(a, ascending, nulls_first)`.

    NULLs come first, or last in descending order, unless `nulls_first` says it. Return None for a call with a lambda,
    which Spark has. Raise TextError where an order is not a literal.
    """
    if any(kind(token) == "ARROW" for token in arguments[-1]):
        return None
    value, *order = (say(a) for a in arguments)
    if len(order) < 2 or order[0].upper() == order[1].upper():
        return f"sort_array({', '.join((value, *order[:1]))})"
    for words, given in zip(arguments[1:], order, strict=True):
        if given.upper() not in {"TRUE", "FALSE"}:
            raise TextError("ARRAY_SORT takes TRUE or FALSE here", words[0].start, words[-1].end - words[0].start + 1)
    known = f"array_compact({value})"
    nulls, values = f"array_repeat(NULL, size({value}) - size({known}))", f"sort_array({known}, {order[0]})"
    return f"concat({nulls}, {values})" if order[1].upper() == "TRUE" else f"concat({values}, {nulls})"


def contains(arguments: list[Words], say: Say) -> str:
    """Translate `ARRAY_CONTAINS(a, x)`. In Flink a NULL can be searched for like any other value."""
    value, wanted = (say(a) for a in arguments)
    known = f"array_compact({value})"
    null, found = f"(size({value}) > size({known}))", f"array_contains({known}, {wanted})"
    if wanted.upper() == "NULL":
        return null
    return found if is_fixed(arguments[1]) else f"IF(({wanted}) IS NULL, {null}, {found})"


def struct(arguments: list[Words], say: Say) -> str:
    """Translate `ROW(a, b + 1)` to a struct.

    A field is named like its column; another expression is named by its position, as Spark does it. The names are given
    explicitly, because Spark would take the names of the slots that stand for columns.
    """
    fields = []
    for i, words in enumerate(arguments):
        last = words[-1]
        if len(words) > 2 and kind(words[-2]) == "ALIAS":
            name, value = last.text, words[:-2]
        else:
            path = all(kind(w) == "DOT" if j % 2 else is_word(w) for j, w in enumerate(words))
            name, value = last.text if path and len(words) % 2 else f"col{i + 1}", words
        fields.append(f"{literal(name)}, {say(value)}")
    return f"named_struct({', '.join(fields)})"

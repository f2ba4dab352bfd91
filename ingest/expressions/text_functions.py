"""Functions of Flink SQL on texts, as Spark SQL."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from ingest.expressions.arguments import is_fixed, is_number, literal
from ingest.expressions.words import TEXTS, kind, outside
from ingest.model.text import TextError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ingest.expressions.arguments import Say
    from ingest.expressions.words import Words

_NO_REGEX: Final = re.compile(r"[^\\\[\](){}.*+?^$|]+")
_MAX_GROUPS: Final = 1000
INITCAP: Final = (
    "replace(initcap(regexp_replace({0}, '([^\\\\p{{L}}\\\\p{{N}}]+)(?=[\\\\p{{L}}\\\\p{{N}}])', '$1\\u0001 ')), "
    "'\\u0001 ', '')"
)
"""Translation of INITCAP.

Spark begins words only after blanks, so each word gets a blank before it, which is then removed.
"""


def _counted(words: Words, say: Say) -> str:
    """Return SQL for a length. A negative length becomes NULL, as in Flink."""
    given = say(words)
    return given if is_number(words) else f"nullif(greatest({given}, -1), -1)"


def pad(function: str) -> Callable[[list[Words], Say], str]:
    """Return the translation of `LPAD(s, n, fill)` or RPAD.

    The result is NULL for a negative length and for an empty fill text, as in Flink.
    """

    def made(arguments: list[Words], say: Say) -> str:
        value, length, fill = arguments
        given = say(fill)
        if not (is_fixed(fill) and fill[0].text):
            given = f"nullif({given}, '')"
        return f"{function}({say(value)}, {_counted(length, say)}, {given})"

    return made


def substring(arguments: list[Words], say: Say) -> str | None:
    """Translate `SUBSTRING(s, from, n)` and `SUBSTRING(s FROM from FOR n)`.

    The result is empty where the start is before the text, as in Flink.
    """
    if len(arguments) == 1:
        words = arguments[0]
        places = [*outside(words, "FROM", "FOR")]
        if not places or words[places[0]].text.upper() != "FROM":
            return None
        ends = [-1, *places, len(words)]
        arguments = [words[a + 1 : b] for a, b in pairwise(ends)]
    if not 2 <= len(arguments) <= 3 or not all(arguments):
        return None
    value, start, *length = arguments
    if all(map(is_number, (start, *length))):
        return f"substring({', '.join(say(a) for a in arguments)})"
    given, begin = say(value), say(start)
    whole = f"substring({', '.join((given, begin, *(_counted(n, say) for n in length)))})"
    if is_number(start):
        return whole
    return f"IF({begin} < -char_length({given}), left({given}, 0), {whole})"


def split(arguments: list[Words], _: Say) -> str | None:
    """Refuse `SPLIT(s, '.')` with TextError. Flink splits at a text, Spark at a regular expression.

    Return None where the delimiter means the same in both.
    """
    by = arguments[1]
    if len(by) == 1 and kind(by[0]) == "STRING" and _NO_REGEX.fullmatch(by[0].text):
        return None
    why = "SPLIT has a text in Flink, a regular expression in Spark: write SPLIT(s, 'pattern', -1); '\\\\.' is a dot"
    raise TextError(why, by[0].start, by[-1].end - by[0].start + 1)


def split_index(arguments: list[Words], say: Say) -> str:
    r"""Translate `SPLIT_INDEX(s, '.', 1)`.

    A number as delimiter is the character with that code. An empty delimiter is any white space. A `\E` in the
    delimiter is escaped, because it would end the quotation in the regular expression.
    """
    value, by, index = (say(a) for a in arguments)
    space, given = "'\\\\p{javaWhitespace}'", arguments[1][0].text
    if is_number(arguments[1]):
        by = f"chr({by})" if given.isdecimal() and 0 < int(given) < 256 else "CAST(NULL AS STRING)"
    plain = is_fixed(arguments[1]) and "\\" not in by
    quoted = by if plain else f"replace({by}, '\\\\E', '\\\\E\\\\\\\\E\\\\Q')"
    pattern = f"'\\\\Q' || {quoted} || '\\\\E'"
    if not is_fixed(arguments[1]):
        pattern = f"IF({by} = '', {space}, {pattern})"
    return f"get(split(nullif({value}, ''), {pattern if given else space}, -1), {index})"


def group(call: str) -> Callable[[list[Words], Say], str]:
    """Return the translation of a function that takes a pattern and the number of a group.

    The result is NULL where the pattern has no group of that number, as in Flink. SQL cannot count the groups of a
    pattern. So `n` empty groups are added behind it in a second alternative, with a reference to group `n`. An empty
    text matches this if and only if group `n` is an added one, that is, if the pattern lacks it.
    """

    def made(arguments: list[Words], say: Say) -> str:
        value, pattern, n = (*map(say, arguments), "1")[:3]
        found = call.format(value, pattern, n)
        words = arguments[1]
        if n == "0":
            return found
        if n.isdecimal() and len(words) == 1 and kind(words[0]) in TEXTS:  # tested once, not for each row
            count = min(int(n), _MAX_GROUPS)
            test = f"(?!)(?:{words[0].text}\n)|{'()' * count}\\{count}"
            return f"IF('' RLIKE {literal(test)}, NULL, {found})"
        some = f"least(greatest({n}, 1), {_MAX_GROUPS})"
        test = f"'(?!)(?:' || {pattern} || '\\n)|' || repeat('()', {some}) || '\\\\' || {some}"
        return f"CASE WHEN {n} = 0 OR ({n} > 0 AND NOT '' RLIKE ({test})) THEN {found} END"

    return made


def position(arguments: list[Words], say: Say) -> str | None:
    """Translate `POSITION(a IN b FROM n)`. Return None for the form without FROM, which Spark has."""
    words = arguments[0]
    places = [*outside(words, "IN", "FROM")]
    if [words[i].text.upper() for i in places] != ["IN", "FROM"]:
        return None
    part, whole, start = words[: places[0]], words[places[0] + 1 : places[1]], words[places[1] + 1 :]
    return f"locate({say(part)}, {say(whole)}, {say(start)})"

"""Units of time in expressions: `FLOOR(t TO DAY)`, `EXTRACT(DOW FROM t)`, `TIMESTAMPADD(HOUR, 1, t)`.

In: arguments as tokens. Out: Spark SQL, or None where Spark's own meaning is right, or a TextError that lists the
possible units. The check is needed because Spark accepts any word as a unit: for an unknown one it gives NULL, or fails
only when it runs.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ingest.expressions.words import Words, kind
from ingest.model.text import TextError

if TYPE_CHECKING:
    from collections.abc import Collection

    from sqlglot.tokenizer_core import Token

    from ingest.expressions.rewrites import Say, Translation

_SHORT: Final = ("HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")
_LONG: Final = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY")
_YEARS: Final = {"DECADE": (10, 0), "CENTURY": (100, 99), "MILLENNIUM": (1000, 999)}
"""Units of many years: the number of years, and the distance in years between the year 0 and the start of its unit."""
_MONTHS: Final = ("YYYY", "YY", "MON", "MM")


def refuse(token: Token, what: str, units: Collection[str]) -> None:
    """Raise TextError where a word is none of the units."""
    if token.text.upper() not in units:
        why = f"{what} has no unit {token.text!r}: there are {', '.join(units)}"
        raise TextError(why, token.start, token.end - token.start + 1)


# -- FLOOR and CEIL --------------------------------------------------------------------------------------------------


def _rounded(words: Words, what: str) -> str | None:
    """Return the unit of `t TO DAY`. Return None for a number. Raise TextError for an unknown unit."""
    if len(words) < 3 or words[-2].text.upper() != "TO":
        return None
    refuse(words[-1], what, (*_YEARS, *_LONG, *_SHORT))
    return words[-1].text.upper()


NO_TIME_OF_DAY: Final = "CAST(NULL AS TIMESTAMP)"
"""SQL that cannot be compared with a TIME, so that Spark refuses the expression."""
_OF_TIME: Final = re.compile(r"\b(?:FLOOR|CEIL|CEILING)\s*\(.*\bTO\s+(\w+)\s*\)", re.IGNORECASE | re.DOTALL)


def _no_time_of_day(value: str) -> str:
    """Return SQL for the same value, which Spark refuses where the value is a TIME.

    Without this, Spark would take a TIME for a time of the current day.
    """
    return f"nullif({value}, {NO_TIME_OF_DAY})"


def of_a_time(text: str) -> str:
    """Return why an expression with a TIME has no result, and what the author can write instead."""
    match = _OF_TIME.search(text)
    if match is None:
        return "TIMESTAMPADD has no result of a TIME: write t + INTERVAL '1' HOUR"
    return f"FLOOR and CEIL have no result of a TIME: write TIME_TRUNC('{match[1].upper()}', t)"


def _truncated(unit: str, value: str) -> str:
    """Return SQL that rounds a time down to a unit.

    A week begins on Sunday in Flink, and on Monday in Spark. A century begins with the year 1.
    """
    if unit == "WEEK":
        return f"(date_trunc('WEEK', {value} + INTERVAL '1' DAY) - INTERVAL '1' DAY)"
    if unit in _YEARS:
        years, before = _YEARS[unit]
        return f"timestampadd(YEAR, -pmod(year({value}) + {before}, {years}), date_trunc('YEAR', {value}))"
    return f"date_trunc('{unit}', {value})"


def floor(arguments: list[Words], say: Say) -> str | None:
    """Translate `FLOOR(t TO DAY)`. Return None for FLOOR of a number."""
    unit = _rounded(arguments[0], "FLOOR")
    return None if unit is None else _truncated(unit, _no_time_of_day(say(arguments[0][:-2])))


def ceil(arguments: list[Words], say: Say) -> str | None:
    """Translate `CEIL(t TO DAY)`. Return None for CEIL of a number.

    The result is the microsecond before the time, plus one unit, rounded down.
    """
    unit = _rounded(arguments[0], "CEIL")
    if unit is None:
        return None
    before = f"{_no_time_of_day(say(arguments[0][:-2]))} - INTERVAL '0.000001' SECOND"
    step = f"YEAR, {_YEARS[unit][0]}" if unit in _YEARS else f"{unit}, 1"
    return _truncated(unit, f"timestampadd({step}, {before})")


# -- EXTRACT ---------------------------------------------------------------------------------------------------------

_PART: Final = "extract(SECOND FROM {0}) % 1"
_YEAR: Final = "((year({0}) + IF(year({0}) > 0, {1}, -{1})) DIV {2})"
_EPOCH: Final = (
    "IF(typeof({0}) = 'timestamp', unix_seconds(CAST({0} AS TIMESTAMP)), CAST(unix_date(CAST({0} AS DATE)) AS BIGINT)"
    " * 86400 + hour({0}) * 3600 + minute({0}) * 60 + second({0}))"
)
"""SQL for the seconds since 1970. A time without a zone counts as UTC."""
_FIELDS: Final = {
    **dict.fromkeys(("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DOW", "DOY", "HOUR", "MINUTE")),
    "SECOND": "second({0})",
    "MILLISECOND": f"CAST({_PART} * 1000 AS INT)",
    "MICROSECOND": f"CAST({_PART} * 1000000 AS INT)",
    "NANOSECOND": f"(CAST({_PART} * 1000000 AS INT) * 1000)",
    "ISODOW": "extract(DAYOFWEEK_ISO FROM {0})",
    "ISOYEAR": "extract(YEAROFWEEK FROM {0})",
    "EPOCH": _EPOCH,
    **{unit: _YEAR.replace("{1}", str(before)).replace("{2}", str(n)) for unit, (n, before) in _YEARS.items()},
}
"""The units that EXTRACT has in Flink, with their translation. None where Spark's own meaning is right."""
_OF_SPARK: Final = frozenset({
    "Y", "YEARS", "YR", "YRS", "YEAROFWEEK", "QTR", "MON", "MONS", "MONTHS", "W", "WEEKS", "D", "DAYS", "DAYOFWEEK",
    "DAYOFWEEK_ISO", "DOW_ISO", "H", "HOURS", "HR", "HRS", "M", "MIN", "MINS", "MINUTES", "S", "SEC", "SECONDS", "SECS",
})  # fmt: skip
"""Names of units that only Spark has."""


def extract(arguments: list[Words], say: Say) -> str | None:
    """Translate `EXTRACT(SECOND FROM t)`, whose result is a whole number in Flink. Return None for other forms."""
    words = arguments[0]
    if len(words) < 3 or kind(words[1]) != "FROM":
        return None
    unit = words[0].text.upper()
    if unit in _OF_SPARK:
        return None
    refuse(words[0], "EXTRACT", _FIELDS)
    template = _FIELDS[unit]
    return None if template is None else template.format(say(words[2:]))


# -- where Spark's meaning stays -------------------------------------------------------------------------------------


def _quoted(what: str, at: int, units: Collection[str], known: Collection[str] = ()) -> Translation:
    """Return a check of a Spark function that has a unit in quotes. `known` has other names of units.

    The check raises TextError for an unknown unit, and returns None, as Spark's own meaning is right.
    """

    def checked(arguments: list[Words], _: Say) -> None:
        unit_words = arguments[at]
        if len(unit_words) == 1 and kind(unit_words[0]) == "STRING" and unit_words[0].text.upper() not in known:
            refuse(unit_words[0], what, units)

    return checked


def _bare(what: str) -> Translation:
    """Return the translation of `TIMESTAMPADD(DAY, 1, t)` and similar functions.

    SQL_TSI_DAY is another name for DAY.
    """

    def checked(arguments: list[Words], say: Say) -> str | None:
        unit_words, *rest = arguments
        if len(unit_words) != 1:
            return None
        unit = unit_words[0].text.upper().removeprefix("SQL_TSI_")
        if unit not in _STEPS:
            refuse(unit_words[0], what, _STEPS[:-1])
        values = [say(words) for words in rest]
        if what == "TIMESTAMPADD":
            values[1] = _no_time_of_day(values[1])
        elif unit == unit_words[0].text.upper():
            return None
        return f"{what}({', '.join((unit, *values))})"

    return checked


_STEPS: Final = (*_LONG, *_SHORT, "DAYOFYEAR")
_INTERVALS: Final = ("YEAR", "MONTH", "WEEK", "DAY", *_SHORT)


def interval(tokens: Words, i: int) -> tuple[None, None]:
    """Raise TextError where `INTERVAL '1' DAY` at the token `i` has an unknown unit.

    The result stands for no translation.
    """
    i += 1 + (i + 1 < len(tokens) and kind(tokens[i + 1]) == "DASH")
    if i + 1 < len(tokens) and kind(tokens[i]) in {"STRING", "NUMBER"} and kind(tokens[i + 1]) == "VAR":
        unit = tokens[i + 1]
        if unit.text.upper().removesuffix("S") not in _INTERVALS:
            refuse(unit, "INTERVAL", _INTERVALS)
    return None, None


CALLS: Final[dict[tuple[str, int], Translation]] = {
    ("FLOOR", 1): floor,
    ("CEIL", 1): ceil,
    ("CEILING", 1): ceil,
    ("EXTRACT", 1): extract,
    **{
        (name, 3): _bare(name)
        for name in ("TIMESTAMPADD", "TIMESTAMPDIFF", "DATEADD", "DATE_ADD", "DATEDIFF", "DATE_DIFF", "TIMEDIFF")
    },
    ("DATE_TRUNC", 2): _quoted("DATE_TRUNC", 0, (*_LONG, *_SHORT), (*_MONTHS, "DD")),
    ("TRUNC", 2): _quoted("TRUNC", 1, _LONG[:-1], _MONTHS),
    ("TIME_TRUNC", 2): _quoted("TIME_TRUNC", 0, _SHORT),
    ("TIME_DIFF", 3): _quoted("TIME_DIFF", 0, _SHORT),
    ("DATE_PART", 2): _quoted("DATE_PART", 0, (*_LONG, "DOW", "DOY", *_SHORT[:3]), _OF_SPARK),
    ("DATEPART", 2): _quoted("DATEPART", 0, (*_LONG, "DOW", "DOY", *_SHORT[:3]), _OF_SPARK),
}

"""Functions of Flink SQL that read times, as Spark SQL."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ingest.expressions.arguments import is_number
from ingest.expressions.words import kind
from ingest.model.text import TextError

if TYPE_CHECKING:
    from ingest.expressions.arguments import Made, Say, Translation
    from ingest.expressions.words import Words

_UNITS: Final = {"0": "timestamp_seconds", "3": "timestamp_millis", "6": "timestamp_micros"}
_QUOTED: Final = re.compile(r"'[^']*'")
_OF_WEEKS: Final = re.compile(r"[YuwWec]")


def instant(arguments: list[Words], say: Say) -> str:
    """Translate `TO_TIMESTAMP_LTZ(n, 3)` and `TO_TIMESTAMP_LTZ(text, format, zone)`.

    The second argument of a number is its unit: 0 for seconds, 3 for milliseconds, 6 for microseconds. A number alone
    counts milliseconds. A text alone has Spark's own format.
    """
    value, *more = (say(a) for a in arguments)
    if not more:
        if kind(arguments[0][0]) == "STRING":
            return f"to_timestamp_ltz({value})"
        count = f"timestamp_millis(TRY_CAST(CAST({value} AS STRING) AS BIGINT))"
        if is_number(arguments[0]):
            return f"timestamp_millis({value})"
        whole = "'tinyint', 'smallint', 'int', 'bigint'"
        return f"IF(typeof({value}) IN ({whole}), {count}, to_timestamp_ltz(CAST({value} AS STRING)))"
    if len(more) == 1 and is_number(arguments[1]):
        unit = _UNITS.get(arguments[1][0].text)
        if unit is None:
            why = "TO_TIMESTAMP_LTZ counts seconds (0), milliseconds (3) or microseconds (6)"
            raise TextError(why, arguments[1][0].start, len(arguments[1][0].text))
        return f"{unit}({value})"
    zone = more[1] if len(more) > 1 else "'UTC'"
    return f"to_timestamp_ltz({value} || ' ' || {zone}, {more[0]} || ' VV')"


def pattern(made: Made | None = None) -> Translation:
    """Return the translation of a function whose second argument is a pattern of times.

    Raise TextError for letters of weeks: Spark refuses them for each row, so all rows would be rejected.
    """

    def checked(arguments: list[Words], say: Say) -> str | None:
        given = arguments[1][0]
        wrong = _OF_WEEKS.search(_QUOTED.sub("", given.text)) if kind(given) == "STRING" else None
        if wrong is not None:
            why = f"{wrong[0]!r} is no letter of patterns here: y is the year, E the day's name"
            raise TextError(why, given.start, given.end - given.start + 1)
        if made is None or isinstance(made, str):
            return None if made is None else made.format(*map(say, arguments))
        return made(arguments, say)

    return checked

"""Errors of Spark in a form for people: the message on one line, without classes, plans and stack traces.

In: an exception of Spark. Out: one or two sentences. Names of slots are replaced by the names of columns.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from ingest.errors import ConfigError, IngestError, Unavailable, kinds_of_errors
from ingest.model.text import one_line

MOST: Final = 500
_ENDS: Final = re.compile(
    r"\s*(SQLSTATE: \w+|\n+== |\n+JVM stacktrace|; line \d+ pos \d+|\(line \d+, pos \d+\)|\n\s*at [\w.$/]+\("
    r"|\n'?\w+ \[)"
)
"""Start of the part of a message that only Spark's own developers need."""
_NOISE: Final = re.compile(
    r"^An error occurred while calling \S+\s+: |\b([\w$]+\.)+\w*(Exception|Error): |\[[A-Z_.0-9]+\] "
    r"| on search path \[[^]]*\]| Please, refer to '[^']*' for a fix\."
    r"| If necessary set \S+ to \S+ to bypass this error\.| If you have to cast .* you can set \S+ as '?false'?\."
    r"| Correct the value as per the syntax, or change its target type\."
    r"|You may get a different result due to the upgrading to Spark >= [\d.]+:\s+"
    r"|1\) You can set .*? before Spark 3\.0\.\s+2\) ",
    re.DOTALL,
)
"""Parts about settings that users do not have, and about Spark's internals."""
_PARSED: Final = re.compile(r"\(line 1, pos (\d+)\)")
_HINTS: Final = {
    "Use `try_cast` to tolerate malformed input and return NULL instead.": "TRY_CAST gives NULL instead.",
    "Use `try_divide` to tolerate divisor being 0 and return NULL instead.": "TRY_DIVIDE gives NULL instead.",
    "Use `try_mod` to tolerate divisor being 0 and return NULL instead.": "TRY_MOD gives NULL instead.",
}


_TRACE: Final = re.compile(r"Traceback \(most recent call last\):\n(.*?)(?=\n\s+at [\w.$/]+\(|\Z)", re.DOTALL)
"""A trace of Python within one of Java."""
_LOST: Final = re.compile(r"Lost task [^\n]*?\((?:[^\s()]+ )?executor [^()]*\): ([^\n]+)")
"""The reason that Spark has for a task that it lost, of the last one that it tried."""
_STATE: Final = re.compile(r"\s*SQLSTATE: \w+\s*")
"""The line that Spark puts below a trace of Python."""
_KIND: Final = re.compile(r"^ingest(?:\.\w+)*\.(\w+): ", re.MULTILINE)
_OURS: Final = re.compile(r"^ingest(?:\.\w+)*\.\w+: ")
_CALLED: Final = re.compile(
    r"^(?:An error occurred while calling [^\n]*\n)?(?:: )?(?:org\.apache\.spark\.SparkException: )?"
)


def kind_given_up(text: str) -> type[IngestError]:
    """Return the class of the error that ends a run after Spark gave up on a task: a ConfigError if it names one.

    An attempt can report it only by failing, so that Spark tries the task again before it gives up.
    """
    kinds = {kind.__name__: kind for kind in kinds_of_errors().values() if issubclass(kind, ConfigError)}
    return next((kinds[name] for name in _KIND.findall(text) if name in kinds), Unavailable)


def why_given_up(text: str) -> str:
    """Return the error of the task that failed, from Spark's text about the failed job: Python's error, or Java's."""
    trace = _TRACE.search(text)
    if trace is not None:
        lines = [line for line in trace[1].splitlines() if line.strip() and not _STATE.fullmatch(line)]
        said: list[str] = []
        while lines and not lines[-1].startswith(" "):
            said.insert(0, lines.pop().strip())
        if said:
            return one_line(_OURS.sub("", " ".join(said)))[:MOST]
    lost = _LOST.search(text)
    why = lost[1] if lost is not None else _CALLED.sub("", text.strip()).partition("\n")[0]
    return one_line(why.strip())[:MOST]


def readable(exc: BaseException, names: Mapping[str, str] | None = None) -> str:
    """Return the message of an error of Spark.

    `names` maps each text that stands for a column in SQL to the column's name. The result has at most MOST characters,
    plus "…" where it was cut.
    """
    text = str(exc)
    if "[PARSE_SYNTAX_ERROR]" in text:
        syntax = re.search(r"Syntax error at or near (.*?)[.:]?( SQLSTATE|\n| \(line|$)", text)
        place = "its end" if syntax is None or "end of input" in syntax[1] else syntax[1]
        return f"syntax error at {one_line(place)}"
    said = _NOISE.sub("", _ENDS.split(text.strip(), maxsplit=1)[0])
    for given, better in _HINTS.items():
        said = said.replace(given, better)
    said = one_line(" ".join(said.split())) or type(exc).__name__
    if names:
        slots = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
        said = re.sub(rf"(?<![\w.])({slots})(?!\w)", lambda syntax: one_line(names[syntax[1]]), said)
    return said if len(said) <= MOST else f"{said[:MOST]}…"


def place_of(exc: BaseException) -> int | None:
    """Return the character position where Spark's parser stopped in a text of one line, or None for any other error."""
    position = _PARSED.search(str(exc))
    return None if position is None else int(position[1])

"""Flink SQL's expressions in Spark SQL's words.

In: words. Out: Spark SQL that means the same. A function's name that both have means what it means in Flink: what Spark
does otherwise is translated, or refused with what to write instead, or said in docs/transforms.md. Operators,
subscripts, casts and names that only Spark has are Spark's. Rules: docs/spec/expressions.md#meaning.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ingest.expressions.rewrites import CALLS, INSTANT, LOCAL, TIME_OF_DAY, TODAY, literal
from ingest.expressions.units import interval
from ingest.expressions.words import RESERVED, Words, arguments_of, closing, is_plain, is_word, kind, opens, outside
from ingest.model.text import TextError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlglot.tokenizer_core import Token


MAX_LENGTH: Final = 1_000_000
"""How long an expression may be in Spark's words."""


def translated(tokens: Words, text: str) -> str:
    """Return the text of these words as Spark has it; untouched where it is Spark's already. Raises TextError."""
    if not tokens:
        return ""
    out: list[str] = []
    at = tokens[0].start
    i = 0
    while i < len(tokens):
        new = last = None
        called = kind(tokens[i]) == "IDENTIFIER" and opens(tokens, i)  # `LTRIM`(s, x) is LTRIM(s, x)
        if (called or is_plain(tokens[i])) and not (i and kind(tokens[i - 1]) == "DOT"):
            new, last = _rewritten(tokens, i, text)
        if new is None or last is None:
            i += 1
            continue
        out += (text[at : tokens[i].start], new)
        at = tokens[last].end + 1
        i = last + 1
    sql = "".join((*out, text[at : tokens[-1].end + 1]))
    if len(sql) > MAX_LENGTH:  # what stands for a call may have its arguments twice, and theirs have again
        raise TextError("calls in one another make this too long for Spark", tokens[0].start)
    return sql


def _rewritten(tokens: Words, i: int, text: str) -> tuple[str | None, int | None]:
    """Return the SQL that replaces the word at `i` with its arguments, and the index of the last word that it replaces.

    None for both where the text stays as it is.
    """
    word = tokens[i].text.upper()
    if word == "SIMILAR TO":  # a bracket may follow, and it is no call
        return _similar(tokens, i)
    if word == "ESCAPE" and i and _ends_operand(tokens[i - 1]):
        return _escape(tokens, i)
    if opens(tokens, i):
        close = closing(tokens, i + 1)
        inner = tokens[i + 2 : close]
        if word in CASTS and is_plain(tokens[i]):
            return _cast(word, inner, text), close
        arguments = arguments_of(inner, text)
        rewrite = CALLS.get((word, len(arguments))) or CALLS.get((word, -1))
        if rewrite is None:
            return None, None
        if not isinstance(rewrite, str):
            return rewrite(arguments, lambda words: translated(words, text)), close
        number = str(tokens[i].start)
        return rewrite.format(*(translated(a, text) for a in arguments), number=number), close
    if word in BRACKETS and i + 1 < len(tokens) and kind(tokens[i + 1]) == "L_BRACKET":
        close = closing(tokens, i + 1)
        return f"{word.lower()}({translated(tokens[i + 2 : close], text)})", close
    if word in BARE:
        return BARE[word], i
    if word in _OPERATORS:
        return _OPERATORS[word](tokens, i)
    return None, None


# -- operators -------------------------------------------------------------------------------------------------------


def _similar(tokens: Words, i: int) -> tuple[str, int]:
    """`a SIMILAR TO 'x%' ESCAPE '!'`: the whole text is like the pattern."""
    if i + 1 == len(tokens) or kind(tokens[i + 1]) != "STRING":
        why = "SIMILAR TO takes a text in quotes here: for another pattern write a RLIKE b, a regular expression"
        raise TextError(why, tokens[i].start, len(tokens[i].text))
    last = i + 1
    while last + 1 < len(tokens) and kind(tokens[last + 1]) == "STRING":
        last += 1  # two quotes in a text are one
    pattern = "'".join(token.text for token in tokens[i + 1 : last + 1])
    escape = ""
    if last + 1 < len(tokens) and kind(tokens[last + 1]) == "ESCAPE":
        escape_token = tokens[last + 2] if last + 2 < len(tokens) else tokens[last + 1]
        if kind(escape_token) != "STRING" or len(escape_token.text) != 1:
            raise TextError(
                "ESCAPE takes one character in quotes", escape_token.start, escape_token.end - escape_token.start + 1
            )
        escape = escape_token.text
        last += 2
    try:
        regex = _regex(pattern, escape)
    except ValueError as exc:
        at = tokens[i + 1]
        raise TextError(f"not a pattern of SIMILAR TO: {exc}", at.start, tokens[last].end - at.start + 1) from None
    return f"RLIKE {literal(regex)}", last


_TIMES: Final = re.compile(r"\{\d+(,\d*)?\}")
_POSIX: Final = re.compile(r"\[:(ALPHA|DIGIT|UPPER|LOWER|ALNUM|SPACE|WHITESPACE):\]", re.IGNORECASE)


def _regex(pattern: str, escape: str) -> str:
    """Return the regular expression of a SIMILAR TO pattern; raises ValueError.

    `%` and `_` are its wildcards, line ends included; brackets, repetition and `|` mean what they mean there.
    """
    out: list[str] = []
    i, depth, inside = 0, 0, False
    while i < len(pattern):
        c = pattern[i]
        named = _POSIX.match(pattern, i) if inside else None
        if escape and c == escape:
            i += 1
            if i == len(pattern):
                raise ValueError(f"nothing follows {escape!r}")
            out.append(re.escape(pattern[i]))
        elif named is not None:
            name = named[1].capitalize()
            out.append(f"\\p{{{'Space' if name == 'Whitespace' else name}}}")
            i = named.end() - 1
        elif inside:
            inside = c != "]"
            out.append(f"\\{c}" if c in "\\[&" else c)
        else:
            inside = c == "["
            depth += (c == "(") - (c == ")")
            repeats = c in "*+?{"
            if depth < 0 or (repeats and (not out or out[-1] in {"(", "|"})):
                raise ValueError(f"{c!r} at character {i + 1} follows nothing")
            if c == "{" and not _TIMES.match(pattern, i):
                raise ValueError(f"'{{' at character {i + 1} is followed by no number and '}}'")
            out.append({"%": ".*", "_": "."}.get(c) or (f"\\{c}" if c in ".^$\\" else c))
        i += 1
    if inside or depth:
        raise ValueError("a bracket is not closed")
    return f"(?s)\\A(?:{''.join(out)})\\z"


def _escape(tokens: Words, i: int) -> tuple[None, None]:
    """The ESCAPE of a LIKE, which Spark takes as one character in quotes only. That of SIMILAR TO is in `_similar`."""
    escape_token = tokens[min(i + 1, len(tokens) - 1)]
    if kind(escape_token) != "STRING" or len(escape_token.text) != 1:
        why = "ESCAPE takes one character in quotes here, not a column or another expression"
        raise TextError(why, escape_token.start, escape_token.end - escape_token.start + 1)
    return None, None


_OPERANDS: Final = frozenset({"IDENTIFIER", "STRING", "NUMBER", "R_PAREN", "R_BRACKET", "END", "NULL"})
"""Tokens that may end an operand, beside names: a name may be a word of SQL, as `list` and `date` are."""


def _ends_operand(token: Token) -> bool:
    return kind(token) in _OPERANDS or (is_word(token) and token.text.upper() not in RESERVED)


def _between(tokens: Words, i: int) -> tuple[str | None, int | None]:
    """`BETWEEN ASYMMETRIC` is what BETWEEN is without it; the other one is refused."""
    word = tokens[i + 1].text.upper() if i + 2 < len(tokens) and tokens[i + 2].text.upper() != "AND" else ""
    if word == "SYMMETRIC":
        why = "BETWEEN SYMMETRIC is not there: write a BETWEEN LEAST(b, c) AND GREATEST(b, c)"
        raise TextError(why, tokens[i + 1].start, len(word))
    return ("BETWEEN", i + 1) if word == "ASYMMETRIC" else (None, None)


def _is_json(tokens: Words, i: int) -> tuple[None, None]:
    after = [token.text.upper() for token in tokens[i + 1 : i + 3]]
    if "JSON" in (after if after[:1] == ["NOT"] else after[:1]):
        why = "IS JSON is not there: write TRY_PARSE_JSON(s) IS NOT NULL"
        raise TextError(why, tokens[i].start, tokens[i + len(after) - 1].end - tokens[i].start + 1)
    return None, None


_WITHOUT_ZONE: Final = re.compile(r"\s*\d{4,6}-\d\d?-\d\d?([ T]\d\d?:\d\d?(:\d\d?(\.\d*)?)?)?\s*")


def _timestamp(tokens: Words, i: int) -> tuple[str | None, int | None]:
    """`TIMESTAMP '2020-01-01 00:00:00'` has no zone, unless it names one."""
    literal_token = tokens[i + 1] if i + 1 < len(tokens) else None
    if literal_token is None or kind(literal_token) != "STRING" or not _WITHOUT_ZONE.fullmatch(literal_token.text):
        return None, None
    return "TIMESTAMP_NTZ", i


_OPERATORS: Final[dict[str, Callable[[Words, int], tuple[str | None, int | None]]]] = {
    "BETWEEN": _between,
    "IS": _is_json,
    "TIMESTAMP": _timestamp,
    "INTERVAL": interval,
}


# -- types -----------------------------------------------------------------------------------------------------------


def _cast(name: str, inner: Words, text: str) -> str:
    """`CAST(x AS BYTES)` with the type in Spark's words."""
    for j in outside(inner, "AS"):
        if j + 1 < len(inner):
            return _as(name, translated(inner[:j], text), inner[j + 1 :], text)
    return f"{name}({translated(inner, text)})"


def _as(name: str, value: str, tokens: Words, text: str) -> str:
    """A cast. Spark does not cut texts at the length of VARCHAR(n), nor fill them up to that of CHAR(n)."""
    length = tokens[2].text if len(tokens) == 4 and kind(tokens[2]) == "NUMBER" else None
    word = tokens[0].text.upper()
    if length is not None and word == "VARCHAR":
        return f"left({name}({value} AS STRING), {length})"
    if length is not None and word == "CHAR":
        return f"rpad({name}({value} AS STRING), {length}, ' ')"
    return f"{name}({value} AS {_type(tokens, text)})"


def _type(tokens: Words, text: str) -> str:
    """Return a type's name. Spark keeps one precision of times, and Flink's VARCHAR without a length is any text."""
    type_name = text[tokens[0].start : tokens[-1].end + 1]
    words = type_name.upper().replace("(", " ").split()
    if words[0] in {"TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ"}:
        local = words[0] == "TIMESTAMP_LTZ" or "LOCAL" in words
        return "TIMESTAMP" if local else "TIMESTAMP_NTZ"
    if words[0] in {"BYTES", "VARBINARY"}:
        return "BINARY"
    if len(words) == 1 and words[0] in {"VARCHAR", "CHAR"}:
        return "STRING"
    return "DOUBLE" if words == ["DOUBLE", "PRECISION"] else type_name


BARE: Final = {
    "LOCALTIMESTAMP": LOCAL,
    "CURRENT_TIMESTAMP": INSTANT,
    "CURRENT_DATE": TODAY,
    "CURRENT_TIME": TIME_OF_DAY,
    "LOCALTIME": TIME_OF_DAY,
}
CASTS: Final = frozenset({"CAST", "TRY_CAST"})
BRACKETS: Final = frozenset({"ARRAY", "MAP"})

"""Projections and filters, as far as their text alone tells: what they compute, in Spark SQL.

In: the text of a rule. Out: its items. Raises TextError with the place in the text. Spark analyses names and types when
it knows a table; here is what can be said without it, and what it must never be given: anything but a scalar
expression, and functions that reach outside of the row (`lint`). What Flink SQL has otherwise than Spark is put into
Spark's words (`dialect`); all else stays the author's own text. Rules: docs/spec/expressions.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from ingest.expressions.dialect import translated
from ingest.expressions.lint import check
from ingest.expressions.words import (
    CLOSE,
    LITERALS,
    OPEN,
    RESERVED,
    arguments_of,
    closing,
    is_word,
    kind,
    opens,
    split,
    tokens_of,
)
from ingest.model.text import TextError

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from sqlglot.tokenizer_core import Token

ALL: Final = "*"


@dataclass(frozen=True, slots=True)
class Expression:
    """One Spark SQL expression."""

    sql: str
    text: str
    """As its author wrote it."""
    at: int
    """Where that begins in the option's text."""


@dataclass(frozen=True, slots=True)
class Item:
    """One item of a projection: all columns (`name` is `*`), a column as it is (no expression), or a computed one."""

    name: str
    expression: Expression | None
    at: int


@lru_cache(maxsize=1024)
def projection(text: str) -> tuple[Item, ...]:
    r"""The items of `\*, UPPER(name) AS name, id`; raises TextError."""
    items: list[Item] = []
    names: set[str] = set()
    for part in split(tokens_of(text), text):
        item = _item(part, text)
        if item.name in names:
            what = "all columns are" if item.name == ALL else f"column {item.name!r} is"
            raise TextError(f"{what} there twice", part[0].start, part[-1].end - part[0].start + 1)
        names.add(item.name)
        items.append(item)
    return tuple(items)


@lru_cache(maxsize=1024)
def condition(text: str) -> Expression:
    """The filter `n > 5 AND name IS NOT NULL`; raises TextError."""
    parts = [*split(tokens_of(text), text)]
    if len(parts) > 1:
        raise TextError("a filter is one condition", parts[1][0].start)
    return _expression(parts[0], text)


def _item(part: list[Token], text: str) -> Item:
    kinds = [kind(token) for token in part]
    if kinds in (["STAR"], ["BACKSLASH", "STAR"]):
        return Item(ALL, None, part[0].start)
    last = part[-1]
    if "ALIAS" not in kinds:
        check(part)  # where an expression ends too early says more than that it has no name
    if len(part) == 1 and is_word(last) and kind(last) not in {"NULL", "TRUE", "FALSE"}:
        return Item(last.text, None, last.start)
    if len(part) > 2 and kinds[-2] == "ALIAS" and is_word(last):
        return Item(last.text, _expression(part[:-2], text), part[0].start)
    for token in part[1:]:
        if kind(token) == "ALIAS" and not _inside(part, token):
            raise TextError("after AS comes one name; others than letters, digits and _ in backquotes", token.start, 2)
    if len(part) > 1 and _is_name(last) and _ends(part[-2]):
        return Item(last.text, _expression(part[:-1], text), part[0].start)  # AS may be left out
    length = last.end - part[0].start + 1
    raise TextError("a computed column needs a name: … AS name", part[0].start, length)


def _inside(part: Sequence[Token], at: Token) -> bool:
    depth = 0
    for token in part:
        if token is at:
            break
        depth += (kind(token) in OPEN) - (kind(token) in CLOSE)
    return bool(depth)


_WORDS: Final = frozenset({"IDENTIFIER", "VAR"})
_ENDS: Final = frozenset({"R_PAREN", "R_BRACKET", "STRING", "NUMBER", "END", "NULL", "TRUE", "FALSE", *_WORDS})


def _ends(token: Token) -> bool:
    """Whether an operand may end with this word, so that a name may follow."""
    return kind(token) in _ENDS or (kind(token) == "VAR" and token.text.upper() not in RESERVED)


def _is_name(token: Token) -> bool:
    """Whether a word may be a column's name; words that the tokenizer knows may be, too, unless they are reserved."""
    return is_word(token) and (kind(token) == "IDENTIFIER" or token.text.upper() not in RESERVED)


def _expression(tokens: Sequence[Token], text: str) -> Expression:
    check(tokens)
    begin, end = tokens[0].start, tokens[-1].end + 1
    sql = translated(tokens, text)
    try:
        tokens_of(sql)  # as plans read it: what stands for a call may have its arguments several times
    except TextError as exc:
        raise TextError("calls in one another make this too long for Spark", begin, end - begin) from exc
    return Expression(sql, text[begin:end], begin)


# -- literals and calls ----------------------------------------------------------------------------------------------


_OPERATORS: Final = frozenset(
    {"PLUS", "DASH", "STAR", "SLASH", "PERCENT", "MOD", "EQ", "NEQ", "LT", "LTE", "GT", "GTE"}
)
_BEFORE: Final = frozenset({"L_PAREN", "COMMA", "THEN", "ELSE", "AND", "OR", "WHEN", "NOT", "DPIPE", *_OPERATORS})
_AFTER: Final = frozenset({"R_PAREN", "COMMA", "THEN", "ELSE", "AND", "OR", "WHEN", "END", "DPIPE", *_OPERATORS})
_MOST: Final = 1 << 31
NUMBER: Final = "__ingest.int."
TEXT: Final = "__ingest.string."
"""Columns that stand for a literal; a number follows."""


@lru_cache(maxsize=4096)
def template(sql: str) -> tuple[str, tuple[tuple[str, str | int], ...]]:
    """Return an expression with columns in place of literals, and the name and literal of each such column.

    So rules that differ in their literals only share one expression of a plan. Only literals are replaced that surely
    mean the same as a column of their type: whole numbers that are operands, and texts that are concatenated.
    """
    tokens = tokens_of(sql)
    out: list[str] = []
    literals: list[tuple[str, str | int]] = []
    at = 0
    for i, token in enumerate(tokens):
        before = kind(tokens[i - 1]) if i else "COMMA"
        after = kind(tokens[i + 1]) if i + 1 < len(tokens) else "COMMA"
        if before not in _BEFORE or after not in _AFTER:
            continue
        if kind(token) == "NUMBER" and token.text.isdecimal() and int(token.text) < _MOST:
            name = f"{NUMBER}{len(literals)}" if {before, after} & _OPERATORS else ""
        else:
            plain = kind(token) == "STRING" and "\\" not in sql[token.start : token.end + 1]
            name = f"{TEXT}{len(literals)}" if plain and "DPIPE" in {before, after} else ""
        if name:
            out += (sql[at : token.start], f"`{name}`")
            at = token.end + 1
            literals.append((name, int(token.text) if name.startswith(NUMBER) else token.text))
    return "".join((*out, sql[at:])), tuple(literals)


@dataclass(frozen=True, slots=True)
class Call:
    """Where an expression calls a function of the user's own."""

    start: int
    stop: int
    function: str
    """In lower case."""
    arguments: tuple[tuple[int, int], ...]
    """Where each begins and ends."""
    in_lambda: bool
    """Whether it is in a lambda, or one is in it."""


def calls(sql: str, functions: Container[str]) -> tuple[Call, ...]:
    """Return all calls of these functions, nested calls included, in the order in which they begin."""
    tokens = tokens_of(sql)
    function_calls = []
    bodies = [False]
    for i, token in enumerate(tokens):
        name = kind(token)
        if name in OPEN:
            bodies.append(False)
        elif name in CLOSE:
            bodies.pop()
        elif name in {"ARROW", "COMMA"}:
            bodies[-1] = name == "ARROW"
        plain = name not in LITERALS and not (i and kind(tokens[i - 1]) == "DOT")
        if plain and opens(tokens, i) and token.text.lower() in functions:
            close = closing(tokens, i + 1)
            arguments = tuple((a[0].start, a[-1].end + 1) for a in arguments_of(tokens[i + 2 : close], sql))
            in_lambda = any(bodies) or any(kind(inner) == "ARROW" for inner in tokens[i:close])
            function_calls.append(Call(token.start, tokens[close].end + 1, token.text.lower(), arguments, in_lambda))
    return tuple(function_calls)

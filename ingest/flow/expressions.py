"""Projections and filters, as far as their text alone tells: what they compute, in Spark SQL.

In: the text of a rule. Out: its items. Raises TextError with the place in the text. Spark analyses names and types when
it knows a table; here is what can be said without it, and what it must never be given: anything but a scalar
expression, and functions that reach outside of the row. What Flink SQL has otherwise than Spark is put into Spark's
words; all else stays the author's own text. Rules: decisions, "Expressions"; "transform and route beyond the
references".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias

from ingest.model.text import TextError

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Sequence

    from sqlglot.tokenizer_core import Token

MAX_TOKENS: Final = 10_000
ALL: Final = "*"
NOW: Final = "__ingest.now"
"""The time of day as a column, in microseconds since 1970: what a plan would compute once is computed for each row."""
DICE: Final = "__ingest.random."
TAG: Final = "__ingest.uuid."
"""Columns with a random number, or a UUID, of each row; a number follows. A plan would repeat its own in each batch."""


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
    for part in _split(_tokens(text), text):
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
    parts = [*_split(_tokens(text), text)]
    if len(parts) > 1:
        raise TextError("a filter is one condition", parts[1][0].start)
    return _expression(parts[0], text)


# -- words -----------------------------------------------------------------------------------------------------------


def _kind(token: Token) -> str:
    return token.token_type.name


def _tokens(text: str) -> list[Token]:
    from sqlglot import tokenize  # noqa: PLC0415  (slow to import, and few pipelines need it)
    from sqlglot.errors import TokenError  # noqa: PLC0415

    try:
        found = tokenize(text, dialect="spark")
    except TokenError as exc:
        raise TextError("a text or a name is not closed", max(0, len(text) - 1)) from exc
    if not found:
        raise TextError("nothing is there", 0, len(text))
    if len(found) > MAX_TOKENS:
        raise TextError(f"more than {MAX_TOKENS:,} words", 0, len(text))
    for token in found:
        if token.comments:
            raise TextError("comments have no place here: use description", token.start)
    return found


_OPEN: Final = {"L_PAREN": "R_PAREN", "L_BRACKET": "R_BRACKET"}
_CLOSE: Final = {close: opening for opening, close in _OPEN.items()}


def _split(tokens: Sequence[Token], text: str) -> Iterator[list[Token]]:
    """The parts between the commas that are in no brackets."""
    part: list[Token] = []
    opened: list[Token] = []
    for token in tokens:
        name = _kind(token)
        if name in _OPEN:
            opened.append(token)
        elif name in _CLOSE:
            if not opened or _kind(opened.pop()) != _CLOSE[name]:
                raise TextError(f"{token.text!r} closes nothing", token.start)
        elif name == "COMMA" and not opened:
            if not part:
                raise TextError("an item is missing before the comma", token.start)
            yield part
            part = []
            continue
        part.append(token)
    if opened:
        raise TextError(f"{opened[-1].text!r} is not closed", opened[-1].start)
    if not part:
        raise TextError("an item is missing after the comma", max(0, len(text) - 1))
    yield part


def _item(part: list[Token], text: str) -> Item:
    kinds = [_kind(token) for token in part]
    if kinds in (["STAR"], ["BACKSLASH", "STAR"]):
        return Item(ALL, None, part[0].start)
    last = part[-1]
    if len(part) == 1 and _is_name(last):
        return Item(last.text, None, last.start)
    if len(part) > 2 and kinds[-2] == "ALIAS" and _is_word(last):
        return Item(last.text, _expression(part[:-2], text), part[0].start)
    for token in part[1:]:
        if _kind(token) == "ALIAS" and not _inside(part, token):
            why = "after AS comes one name; others than letters, digits and _ in backquotes"
            raise TextError(why, token.start, 2)
    if len(part) > 1 and _is_name(last) and _ends(part[-2]):
        return Item(last.text, _expression(part[:-1], text), part[0].start)  # AS may be left out
    length = last.end - part[0].start + 1
    raise TextError("a computed column needs a name: … AS name", part[0].start, length)


def _inside(part: Sequence[Token], at: Token) -> bool:
    depth = 0
    for token in part:
        if token is at:
            break
        depth += (_kind(token) in _OPEN) - (_kind(token) in _CLOSE)
    return bool(depth)


_WORDS: Final = frozenset({"IDENTIFIER", "VAR"})
_ENDS: Final = frozenset({"R_PAREN", "R_BRACKET", "STRING", "NUMBER", "END", "NULL", "TRUE", "FALSE", *_WORDS})


def _ends(token: Token) -> bool:
    """Whether an operand may end with this word, so that a name may follow."""
    return _kind(token) in _ENDS or (_kind(token) == "VAR" and token.text.upper() not in _RESERVED)


def _is_word(token: Token) -> bool:
    """Whether it is a word, in backquotes or of letters, digits and `_`."""
    if _kind(token) in {"IDENTIFIER", "STRING"}:
        return _kind(token) == "IDENTIFIER" and bool(token.text)
    return token.text.replace("_", "a").isalnum() and not token.text[0].isdigit()


def _is_name(token: Token) -> bool:
    """Whether a word may be a column's name; words that the tokenizer knows may be, too, unless they are reserved."""
    return _is_word(token) and (_kind(token) == "IDENTIFIER" or token.text.upper() not in _RESERVED)


_RESERVED: Final = frozenset({
    "ALL", "AND", "ANY", "AS", "BETWEEN", "CASE", "CAST", "CROSS", "DISTINCT", "ELSE", "END", "ESCAPE", "EXISTS",
    "FALSE", "FROM", "FULL", "GROUP", "HAVING", "IN", "INNER", "INTERSECT", "INTERVAL", "INTO", "IS", "JOIN",
    "LEFT", "LIKE", "LIMIT", "NATURAL", "NOT", "NULL", "ON", "OR", "ORDER", "OUTER", "RIGHT", "RLIKE", "SELECT",
    "SIMILAR", "SOME", "TABLE", "THEN", "TRUE", "UNION", "UNIQUE", "USING", "VALUES", "WHEN", "WHERE", "WINDOW",
    "WITH",
})  # fmt: skip
_FORBIDDEN: Final = frozenset({
    "SELECT", "UNION", "INTERSECT", "EXCEPT", "JOIN", "LATERAL", "OVER", "HAVING",
})  # fmt: skip
"""Words of queries that expressions do not have: an expression is computed from one row."""
OUTSIDE: Final = frozenset({
    "reflect", "java_method", "try_reflect", "input_file_name", "input_file_block_start",
    "input_file_block_length", "current_catalog", "current_database", "current_schema", "current_user",
    "session_user", "user", "version", "spark_partition_id", "monotonically_increasing_id", "from_protobuf",
    "to_protobuf", "from_avro", "to_avro", "sql_keywords", "collations",
})  # fmt: skip
"""Functions that reach outside of the row: code, files, who runs this and where."""
_LITERALS: Final = frozenset({"STRING", "NUMBER"})
_MARKS: Final = frozenset({"SEMICOLON", "PARAMETER", "PLACEHOLDER", "HINT"})


# -- into Spark's words ----------------------------------------------------------------------------------------------


def _expression(tokens: Sequence[Token], text: str) -> Expression:
    for i, token in enumerate(tokens):
        kind, upper = _kind(token), token.text.upper()
        if kind in _LITERALS:
            continue
        if kind in _MARKS:
            raise TextError(f"{token.text!r} has no place in an expression", token.start, len(token.text))
        part_of = bool(i) and _kind(tokens[i - 1]) == "DOT"
        if kind != "IDENTIFIER" and not part_of and upper in _FORBIDDEN:
            why = f"{upper} has no place here: an expression is computed from one row"
            raise TextError(why, token.start, len(upper))
        if _opens(tokens, i) and token.text.lower() in OUTSIDE:
            raise TextError(f"function {token.text} reaches outside of the row", token.start, len(upper))
        if kind == "IDENTIFIER" and token.text.startswith("__ingest."):
            raise TextError("names that begin with __ingest. are not for use", token.start, len(upper))
    begin, end = tokens[0].start, tokens[-1].end + 1
    return Expression(_translated(tokens, text), text[begin:end], begin)


def _opens(tokens: Sequence[Token], i: int) -> bool:
    """Whether the word at `i` is called."""
    return i + 1 < len(tokens) and _kind(tokens[i + 1]) == "L_PAREN"


def _close(tokens: Sequence[Token], i: int) -> int:
    """The place of the bracket that closes the one at `i`."""
    depth = 0
    for j in range(i, len(tokens)):
        depth += (_kind(tokens[j]) in _OPEN) - (_kind(tokens[j]) in _CLOSE)
        if not depth:
            return j
    return len(tokens) - 1


def _arguments(tokens: Sequence[Token], text: str) -> list[Sequence[Token]]:
    """What is between the commas; nothing where nothing is."""
    return [*_split(tokens, text)] if tokens else []


def _translated(tokens: Sequence[Token], text: str) -> str:
    """The text of these words as Spark has it; untouched where it is Spark's already."""
    if not tokens:
        return ""
    out: list[str] = []
    at = tokens[0].start
    i = 0
    while i < len(tokens):
        token = tokens[i]
        new = last = None
        if _kind(token) not in {"IDENTIFIER", *_LITERALS} and not (i and _kind(tokens[i - 1]) == "DOT"):
            new, last = _rewritten(tokens, i, text)
        if new is None or last is None:
            i += 1
            continue
        out += (text[at : token.start], new)
        at = tokens[last].end + 1
        i = last + 1
    return "".join((*out, text[at : tokens[-1].end + 1]))


def _rewritten(tokens: Sequence[Token], i: int, text: str) -> tuple[str | None, int | None]:
    """What stands for the word at `i` and its arguments, and the last word of them; None where all is as it should."""
    word = tokens[i].text.upper()
    if _opens(tokens, i):
        close = _close(tokens, i + 1)
        inner = tokens[i + 2 : close]
        cast = _CASTS.get(word)
        if cast is not None:
            return _cast(cast, inner, text), close
        arguments = _arguments(inner, text)
        made = _CALLS.get((word, len(arguments))) or _CALLS.get((word, -1))
        if made is None:
            return None, None
        if callable(made):
            new = made(arguments, text)
            return new, close
        number = str(tokens[i].start)
        return made.format(*(_translated(a, text) for a in arguments), number=number), close
    if word in _BRACKETS and i + 1 < len(tokens) and _kind(tokens[i + 1]) == "L_BRACKET":
        close = _close(tokens, i + 1)
        return f"{word.lower()}({_translated(tokens[i + 2 : close], text)})", close
    if word in _BARE:
        return _BARE[word], i
    if word == "SIMILAR TO":
        if i + 1 == len(tokens) or _kind(tokens[i + 1]) != "STRING":
            raise TextError("SIMILAR TO takes a text in quotes here", tokens[i].start, len(word))
        last = i + 1
        while last + 1 < len(tokens) and _kind(tokens[last + 1]) == "STRING":
            last += 1  # two quotes in a text are one
        pattern = "'".join(token.text for token in tokens[i + 1 : last + 1])
        return f"RLIKE {_literal(f'^(?:{_regex(pattern)})$')}", last
    return None, None


def _literal(value: str) -> str:
    """A text as Spark reads it."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


_PLAIN_IN_REGEX: Final = ".^$\\"


def _regex(pattern: str) -> str:
    """The regular expression of a SIMILAR TO pattern: `%` and `_` are its wildcards, brackets and repetition as is."""
    wild = {"%": ".*", "_": "."}
    return "".join(wild.get(c) or (f"\\{c}" if c in _PLAIN_IN_REGEX else c) for c in pattern)


def _cast(name: str, inner: Sequence[Token], text: str) -> str:
    """`CAST(x AS BYTES)` with the type in Spark's words."""
    depth = 0
    for j, token in enumerate(inner):
        depth += (_kind(token) in _OPEN) - (_kind(token) in _CLOSE)
        if _kind(token) == "ALIAS" and not depth and j + 1 < len(inner):
            return f"{name}({_translated(inner[:j], text)} AS {_type(inner[j + 1 :], text)})"
    return f"{name}({_translated(inner, text)})"


def _type(tokens: Sequence[Token], text: str) -> str:
    """A type's name. Spark keeps one precision of times, and Flink's VARCHAR without a length is any text."""
    given = text[tokens[0].start : tokens[-1].end + 1]
    words = given.upper().replace("(", " ").split()
    if words[0] in {"TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ"}:
        local = words[0] == "TIMESTAMP_LTZ" or "LOCAL" in words
        return "TIMESTAMP" if local else "TIMESTAMP_NTZ"
    if words[0] in {"BYTES", "VARBINARY"}:
        return "BINARY"
    if len(words) == 1 and words[0] in {"VARCHAR", "CHAR"}:
        return "STRING"
    return given


def _epoch(arguments: Sequence[Sequence[Token]], text: str) -> str | None:
    """`TO_TIMESTAMP_LTZ(n, 3)` counts milliseconds, with 0 seconds; of texts it is Spark's own."""
    units = {"0": "timestamp_seconds", "3": "timestamp_millis", "6": "timestamp_micros"}
    unit = units.get(arguments[1][0].text) if len(arguments[1]) == 1 else None
    if unit is None or _kind(arguments[1][0]) != "NUMBER":
        return None
    return f"{unit}({_translated(arguments[0], text)})"


def _floor(arguments: Sequence[Sequence[Token]], text: str) -> str | None:
    """`FLOOR(t TO DAY)` of a time."""
    words = arguments[0]
    if len(words) > 2 and words[-2].text.upper() == "TO":
        return f"date_trunc('{words[-1].text.upper()}', {_translated(words[:-2], text)})"
    return None


def _struct(arguments: Sequence[Sequence[Token]], text: str) -> str:
    """`ROW(a, b + 1)`: a struct whose fields are named as its columns are, others by their number, as Spark has it.

    Spark itself would take the names of the slots that stand for columns.
    """
    fields = []
    for i, words in enumerate(arguments):
        last = words[-1]
        if len(words) > 2 and _kind(words[-2]) == "ALIAS":
            name, value = last.text, words[:-2]
        else:
            path = all(_kind(w) == "DOT" if j % 2 else _is_word(w) for j, w in enumerate(words))
            name, value = last.text if path and len(words) % 2 else f"col{i + 1}", words
        fields.append(f"{_literal(name)}, {_translated(value, text)}")
    return f"named_struct({', '.join(fields)})"


Made: TypeAlias = "str | Callable[[Sequence[Sequence[Token]], str], str | None]"
_MICROS: Final = f"`{NOW}`"
_INSTANT: Final = f"timestamp_micros({_MICROS})"
_LOCAL: Final = f"CAST({_INSTANT} AS TIMESTAMP_NTZ)"
_TODAY: Final = f"CAST({_INSTANT} AS DATE)"
_CALLS: Final[dict[tuple[str, int], Made]] = {
    ("ROW", -1): _struct,
    ("STRUCT", -1): _struct,
    ("TO_TIMESTAMP_LTZ", 2): _epoch,
    ("FLOOR", 1): _floor,
    ("REGEXP_EXTRACT", 2): "regexp_extract({0}, {1}, 0)",
    ("TO_BASE64", 1): "base64({0})",
    ("FROM_BASE64", 1): "CAST(unbase64({0}) AS STRING)",
    ("SHA224", 1): "sha2({0}, 224)",
    ("SHA256", 1): "sha2({0}, 256)",
    ("SHA384", 1): "sha2({0}, 384)",
    ("SHA512", 1): "sha2({0}, 512)",
    ("SPLIT_INDEX", 3): "get(split({0}, '\\\\Q' || {1} || '\\\\E', -1), {2})",
    ("JSON_VALUE", 2): "get_json_object({0}, {1})",
    ("JSON_QUERY", 2): "get_json_object({0}, {1})",
    ("JSON_EXISTS", 2): "(get_json_object({0}, {1}) IS NOT NULL)",
    ("IS_ALPHA", 1): "({0} RLIKE '^[A-Za-z]+$')",
    ("IS_DIGIT", 1): "({0} RLIKE '^[0-9]+$')",
    ("IS_DECIMAL", 1): "(TRY_CAST({0} AS DOUBLE) IS NOT NULL)",
    ("CONVERT_TZ", 3): "date_format(convert_timezone({1}, {2}, CAST({0} AS TIMESTAMP_NTZ)), 'yyyy-MM-dd HH:mm:ss')",
    ("CURRENT_ROW_TIMESTAMP", 0): _INSTANT,
    ("CURRENT_TIMESTAMP", 0): _INSTANT,
    ("NOW", 0): _INSTANT,
    ("CURRENT_DATE", 0): _TODAY,
    ("CURDATE", 0): _TODAY,
    ("LOCALTIMESTAMP", 0): _LOCAL,
    ("UNIX_TIMESTAMP", 0): f"unix_seconds({_INSTANT})",
    ("UUID", 0): f"`{TAG}{{number}}`",
    ("RAND", 0): f"`{DICE}{{number}}`",
    ("RANDOM", 0): f"`{DICE}{{number}}`",
}
"""What Flink SQL calls otherwise than Spark, and what a plan would compute once for all rows: by name and arguments."""
_BARE: Final = {
    "LOCALTIMESTAMP": _LOCAL,
    "CURRENT_TIMESTAMP": _INSTANT,
    "CURRENT_DATE": _TODAY,
}
_CASTS: Final = {"CAST": "CAST", "TRY_CAST": "TRY_CAST"}
_BRACKETS: Final = frozenset({"ARRAY", "MAP"})


_OPERATORS: Final = frozenset({
    "PLUS", "DASH", "STAR", "SLASH", "PERCENT", "MOD", "EQ", "NEQ", "LT", "LTE", "GT", "GTE",
})  # fmt: skip
_BEFORE: Final = frozenset({"L_PAREN", "COMMA", "THEN", "ELSE", "AND", "OR", "WHEN", "NOT", "DPIPE", *_OPERATORS})
_AFTER: Final = frozenset({"R_PAREN", "COMMA", "THEN", "ELSE", "AND", "OR", "WHEN", "END", "DPIPE", *_OPERATORS})
_MOST: Final = 1 << 31
NUMBER: Final = "__ingest.int."
TEXT: Final = "__ingest.string."
"""Columns that stand for a literal; a number follows."""


@lru_cache(maxsize=4096)
def template(sql: str) -> tuple[str, tuple[tuple[str, str | int], ...]]:
    """An expression with columns in the place of literals, and what they stand for, as name and literal.

    Rules that differ in their literals only become one expression of a plan. Taken out is what surely means the same as
    a column of its type: whole numbers that are operands, and texts that are concatenated.
    """
    tokens = _tokens(sql)
    out: list[str] = []
    found: list[tuple[str, str | int]] = []
    at = 0
    for i, token in enumerate(tokens):
        before = _kind(tokens[i - 1]) if i else "COMMA"
        after = _kind(tokens[i + 1]) if i + 1 < len(tokens) else "COMMA"
        if before not in _BEFORE or after not in _AFTER:
            continue
        if _kind(token) == "NUMBER" and token.text.isdecimal() and int(token.text) < _MOST:
            name = f"{NUMBER}{len(found)}" if {before, after} & _OPERATORS else ""
        else:
            plain = _kind(token) == "STRING" and "\\" not in sql[token.start : token.end + 1]
            name = f"{TEXT}{len(found)}" if plain and "DPIPE" in {before, after} else ""
        if name:
            out += (sql[at : token.start], f"`{name}`")
            at = token.end + 1
            found.append((name, int(token.text) if name.startswith(NUMBER) else token.text))
    return "".join((*out, sql[at:])), tuple(found)


def taken(name: str) -> bool:
    """Whether an expression has another meaning for a function's name."""
    upper = name.upper()
    known = {word for word, _ in _CALLS} | _BARE.keys() | _CASTS.keys() | _RESERVED | _FORBIDDEN | _BRACKETS
    return upper in known or name.lower() in OUTSIDE or name.startswith("__")


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
    """All calls of these functions, those in the arguments of others as well, by where they begin."""
    tokens = _tokens(sql)
    found = []
    bodies = [False]
    for i, token in enumerate(tokens):
        kind = _kind(token)
        if kind in _OPEN:
            bodies.append(False)
        elif kind in _CLOSE:
            bodies.pop()
        elif kind in {"ARROW", "COMMA"}:
            bodies[-1] = kind == "ARROW"
        plain = _kind(token) not in _LITERALS and not (i and _kind(tokens[i - 1]) == "DOT")
        if plain and _opens(tokens, i) and token.text.lower() in functions:
            close = _close(tokens, i + 1)
            arguments = tuple((a[0].start, a[-1].end + 1) for a in _arguments(tokens[i + 2 : close], sql))
            in_lambda = any(bodies) or any(_kind(inner) == "ARROW" for inner in tokens[i:close])
            found.append(Call(token.start, tokens[close].end + 1, token.text.lower(), arguments, in_lambda))
    return tuple(found)

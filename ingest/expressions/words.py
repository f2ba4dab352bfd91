"""The tokens of an expression, and its division by brackets and commas.

In: the text of a rule. Out: tokens with their positions. Raises TextError with the position in the text. Nothing here
knows the meaning of a word.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TypeAlias

from ingest.model.text import TextError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlglot.tokenizer_core import Token

Words: TypeAlias = "Sequence[Token]"
MAX_TOKENS: Final = 10_000
TEXTS: Final = frozenset({"STRING", "RAW_STRING", "NATIONAL_STRING"})
LITERALS: Final = TEXTS | {"NUMBER", "HEX_STRING", "BIT_STRING", "BYTE_STRING"}
"""Kinds of tokens that are values. Their text is no name."""
OPEN: Final = {"L_PAREN": "R_PAREN", "L_BRACKET": "R_BRACKET"}
CLOSE: Final = {close: opening for opening, close in OPEN.items()}
_NESTS: Final = [["DCOLON", "MAP"], ["DCOLON", "ARRAY"], ["DCOLON", "STRUCT"]]
"""Tokens before the `<` of a type like `x::MAP<STRING, INT>`. The commas in such a type do not separate items."""
RESERVED: Final = frozenset({
    "ALL", "AND", "ANY", "AS", "BETWEEN", "CASE", "CAST", "CROSS", "DISTINCT", "ELSE", "END", "ESCAPE", "EXISTS",
    "FALSE", "FROM", "FULL", "GROUP", "HAVING", "IN", "INNER", "INTERSECT", "INTERVAL", "INTO", "IS", "JOIN",
    "LEFT", "LIKE", "LIMIT", "NATURAL", "NOT", "NULL", "ON", "OR", "ORDER", "OUTER", "RIGHT", "RLIKE", "SELECT",
    "SIMILAR", "SOME", "TABLE", "THEN", "TRUE", "UNION", "UNIQUE", "USING", "VALUES", "WHEN", "WHERE", "WINDOW",
    "WITH",
})  # fmt: skip
"""Words that are no name of a column without backquotes."""
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES: Final = frozenset("0123456789'\"nrtZ\\%_uU")


def kind(token: Token) -> str:
    """Return the kind of a token, as the tokenizer calls it."""
    return token.token_type.name


def tokens_of(text: str) -> list[Token]:
    """Return the tokens of a text. Raise TextError for an empty, too long or unclosed text, and for comments."""
    import sqlglot  # noqa: PLC0415  (slow to import, and few pipelines need it)

    try:
        tokens = sqlglot.tokenize(text, dialect="spark")
    except sqlglot.TokenError as exc:
        eaten = text.find("\\'")
        if eaten >= 0:
            why = "a text is not closed: \\' is a quote in it; one backslash is written '\\\\'"
            raise TextError(why, eaten, 2) from exc
        raise TextError("a text or a name is not closed", max(0, len(text) - 1)) from exc
    if not tokens:
        raise TextError("nothing is there", 0, len(text))
    if len(tokens) > MAX_TOKENS:
        raise TextError(f"more than {MAX_TOKENS:,} words", 0, len(text))
    for token in tokens:
        if token.comments:
            raise TextError("comments have no place here: use description", token.start)
        if kind(token) == "STRING":
            _check_escapes(text, token)
    return tokens


def _check_escapes(text: str, token: Token) -> None:
    r"""Raise TextError for `'\d'`, which Spark reads as `d`, and for `'\b'`.

    In a text, `\b` is a backspace and no word boundary.
    """
    for escape in _ESCAPE.finditer(text, token.start + 1, token.end):
        if escape[1] not in _ESCAPES:
            alone = f"'{escape[0]}' in a text would be {escape[1]!r} alone"
            why = alone if escape[1] != "b" else "'\\b' is a backspace"
            raise TextError(f"{why}: for the backslash itself write '\\\\{escape[1]}'", escape.start(), 2)


def split(tokens: Words, text: str) -> Iterator[list[Token]]:
    """Yield the parts between the commas outside of brackets.

    Raise TextError for an empty part or an unmatched bracket.
    """
    part: list[Token] = []
    opened: list[Token] = []
    types = 0
    for token in tokens:
        name = kind(token)
        if types or (name == "LT" and [*map(kind, part[-2:])] in _NESTS):
            types += (name == "LT") - (name == "GT")
        if name in OPEN:
            opened.append(token)
        elif name in CLOSE:
            if not opened or kind(opened.pop()) != CLOSE[name]:
                raise TextError(f"{token.text!r} closes nothing", token.start)
        elif name == "COMMA" and not opened and not types:
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


def opens(tokens: Words, i: int) -> bool:
    """Tell whether a parenthesis follows the word at `i`."""
    return i + 1 < len(tokens) and kind(tokens[i + 1]) == "L_PAREN"


def closing(tokens: Words, i: int) -> int:
    """Return the index of the bracket that closes the one at `i`, or the last index where none does."""
    depth = 0
    for j in range(i, len(tokens)):
        depth += (kind(tokens[j]) in OPEN) - (kind(tokens[j]) in CLOSE)
        if not depth:
            return j
    return len(tokens) - 1


def arguments_of(tokens: Words, text: str) -> list[Words]:
    """Return the arguments between the commas, or an empty list without tokens. Raise TextError as `split` does."""
    return [*split(tokens, text)] if tokens else []


def outside(tokens: Words, *wanted: str) -> Iterator[int]:
    """Yield the indexes of words outside of brackets whose text is one of those wanted."""
    depth = 0
    for i, token in enumerate(tokens):
        depth += (kind(token) in OPEN) - (kind(token) in CLOSE)
        if not depth and kind(token) not in LITERALS and token.text.upper() in wanted:
            yield i


def is_word(token: Token) -> bool:
    """Tell whether a token is a name: in backquotes, or of letters, digits and `_`."""
    if kind(token) == "IDENTIFIER":
        return bool(token.text)
    return kind(token) not in TEXTS and token.text.replace("_", "a").isalnum() and not token.text[0].isdigit()


def is_plain(token: Token) -> bool:
    """Tell whether a token is neither a literal nor a name in backquotes."""
    return kind(token) not in LITERALS and kind(token) != "IDENTIFIER"

"""Checks of an expression that need only its text.

In: the expression's tokens. Out: nothing, or a TextError with the place and advice. Anything that is not a scalar
expression of one row, and any function that reaches outside of the row, must never pass.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from ingest.expressions import catalog
from ingest.expressions.dialect import BARE, BRACKETS, CASTS
from ingest.expressions.rewrites import CALLS
from ingest.expressions.words import CLOSE, LITERALS, OPEN, RESERVED, closing, is_plain, is_word, kind, opens, tokens_of
from ingest.model.text import TextError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from sqlglot.tokenizer_core import Token

    from ingest.expressions.words import Words

_FORBIDDEN: Final = frozenset({"SELECT", "UNION", "INTERSECT", "EXCEPT", "JOIN", "LATERAL", "OVER", "HAVING"})
"""Words of queries. Expressions do not have them, because an expression is computed from one row."""
OUTSIDE: Final = frozenset({
    "reflect", "java_method", "try_reflect", "input_file_name", "input_file_block_start",
    "input_file_block_length", "current_catalog", "current_database", "current_schema", "current_user",
    "session_user", "user", "version", "spark_partition_id", "monotonically_increasing_id", "from_protobuf",
    "to_protobuf", "from_avro", "to_avro", "sql_keywords", "collations",
})  # fmt: skip
"""Functions that reach outside of the row: to code, to files, or to facts about the user and the machine."""
_MARKS: Final = frozenset({"SEMICOLON", "PARAMETER", "PLACEHOLDER", "HINT"})
_SYMBOLS: Final = frozenset({
    "PLUS", "DASH", "STAR", "SLASH", "PERCENT", "MOD", "EQ", "NEQ", "NULLSAFE_EQ", "LT", "LTE", "GT", "GTE", "DPIPE",
    "AMP", "PIPE", "CARET", "DCOLON",
})  # fmt: skip
"""Operator signs after which an operand follows."""
_INFIX: Final = _SYMBOLS | {
    "DIV", "AND", "OR", "NOT", "LIKE", "ILIKE", "RLIKE", "SIMILAR_TO", "ESCAPE", "BETWEEN", "IN", "IS", "WHEN", "THEN",
    "ELSE",
}  # fmt: skip
"""Tokens after which an operand follows, unless they are names of columns. Spark reserves none of these words."""
_OPERANDS: Final = frozenset({"VAR", "IDENTIFIER", "END", "NULL", "TRUE", "FALSE", *LITERALS, *CLOSE})
"""Tokens that may be the last of an operand."""
_BETWEEN: Final = frozenset({"MOD", "COLLATE", "FOR", "FORMAT", "PLACING", "RETURNING", "TO", "BOTH", "LEADING",
    "TRAILING", "ASYMMETRIC", "SYMMETRIC"})  # fmt: skip
"""Words inside an operation that the tokenizer takes for names."""
_TYPES: Final = frozenset({"ARRAY", "MAP", "STRUCT", "ROW", "MULTISET"})
"""Types that have other types in `<` and `>`."""
_NO_TYPES: Final = {"ROW": "STRUCT<name: type>", "MULTISET": "MAP<type, INT>"}
MAX_NESTED: Final = 100
"""Number of brackets that may be open at once.

The parsers of expressions, here and in Spark, are recursive: deeper nesting could overflow their stack.
"""
_SPECIAL: Final = frozenset({
    "TRY_CAST", "TIMESTAMPADD", "TIMESTAMPDIFF", "DATEADD", "DATEDIFF", "SIMILAR TO", "DIV", "ILIKE", "REGEXP", "FOR",
    "PLACING", "BOTH", "LEADING", "TRAILING", "TO", "ASYMMETRIC", "SYMMETRIC", "TRIM", "EXTRACT", "OVERLAY",
    "VARCHAR", "CHAR", "CHARACTER", "NUMERIC", "DEC", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ", "TIME", "BYTES",
    "VARBINARY", "BINARY", "DECIMAL", "IDENTIFIER",
})  # fmt: skip
"""Words that a bracket may follow although they are neither reserved nor functions: syntax, and types with a length."""

_MANY: Final = "sees many rows, and an expression is computed from one row"
_INSTEAD: Final = {
    "max": "GREATEST(a, b) is the greatest of several columns",
    "min": "LEAST(a, b) is the least of several",
}
_WATERMARK: Final = "there are no watermarks here"
_NO_AGGREGATES: Final = f"it {_MANY}"
ELSEWHERE: Final = {
    "truncate": "write IF(x < 0, CEIL(x, digits), FLOOR(x, digits))",
    "json_object": "write TO_JSON(NAMED_STRUCT('key', value))",
    "json_array": "write TO_JSON(ARRAY(a, b))",
    "json_string": "write TO_JSON(x), of a struct, a map or an array",
    "json_unquote": "write GET_JSON_OBJECT(s, '$')",
    "json_length": "write JSON_ARRAY_LENGTH(s)",
    "hashcode": "write HASH(x) or CRC32(x), which give other numbers",
    "overlaps": "write a_start < b_end AND b_start < a_end",
    "element": "write ELEMENT_AT(x, 1)",
    "array_slice": "write SLICE(x, from, length)",
    "regexp_split": "write SPLIT(s, pattern, -1)",
    "proctime": "write NOW()",
    "current_watermark": _WATERMARK,
    "source_watermark": _WATERMARK,
    "timestamp_diff": "write TIMESTAMPDIFF(unit, from, to)",
    "timestamp_add": "write TIMESTAMPADD(unit, n, t)",
    **dict.fromkeys(("collect", "json_objectagg", "json_arrayagg", "group_concat", "group_id"), _NO_AGGREGATES),
    **dict.fromkeys(
        ("tumble", "hop", "cumulate", "tumble_start", "tumble_end", "hop_start", "hop_end"), _NO_AGGREGATES
    ),
    **dict.fromkeys(("json_extract", "json_extract_scalar", "jsonpath"), "write GET_JSON_OBJECT(s, '$.path')"),
    **dict.fromkeys(("strpos", "charindex"), "write LOCATE(part, s)"),
    **dict.fromkeys(("getdate", "sysdate", "systimestamp", "getutcdate", "sysdatetime"), "write NOW()"),
    **dict.fromkeys(("str_to_date", "parse_date"), "write TO_DATE(s, 'yyyy-MM-dd')"),
    **dict.fromkeys(
        ("parse_timestamp", "parse_datetime", "date_parse"), "write TO_TIMESTAMP(s, 'yyyy-MM-dd HH:mm:ss')"
    ),
    **dict.fromkeys(("format_date", "format_timestamp", "strftime"), "write DATE_FORMAT(t, 'yyyy-MM-dd')"),
    **dict.fromkeys(("timestamp_trunc", "datetime_trunc"), "write DATE_TRUNC('DAY', t)"),
    **dict.fromkeys(
        ("convert", "safe_cast", "try_convert", "to_string"), "write CAST(x AS type) or TRY_CAST(x AS type)"
    ),
    **dict.fromkeys(("generate_uuid", "gen_random_uuid", "newid", "sys_guid"), "write UUID()"),
    **dict.fromkeys(("regexp_matches", "regexp_match", "regexp_contains"), "write REGEXP_LIKE(s, pattern)"),
    "iif": "write IF(condition, a, b)",
    "mid": "write SUBSTRING(s, from, length)",
    "stuff": "write OVERLAY(s PLACING part FROM n FOR length)",
    "replicate": "write REPEAT(s, n)",
    "datalength": "write OCTET_LENGTH(s)",
    "to_hex": "write HEX(x)",
    "from_hex": "write UNHEX(s)",
    "array_length": "write CARDINALITY(x)",
    "array_to_string": "write ARRAY_JOIN(x, ',')",
    "string_to_array": "write SPLIT(s, ',')",
    "is_json": "write TRY_PARSE_JSON(s) IS NOT NULL",
    "bitand": "write a & b",
    "bitor": "write a | b",
    "bitxor": "write a ^ b",
    "bitnot": "write ~a",
}
"""Advice for function names of other databases: the spelling that works here, or the reason why there is none."""


def check(tokens: Words) -> None:
    """Raise TextError where the tokens are not an expression of one row."""
    depth = 0
    for i, token in enumerate(tokens):
        name, upper = kind(token), token.text.upper()
        if name in LITERALS:
            continue
        depth += (name in OPEN) - (name in CLOSE)
        if depth > MAX_NESTED:
            raise TextError(f"more than {MAX_NESTED} brackets are in one another", token.start, len(token.text))
        if name in _MARKS:
            raise TextError(f"{token.text!r} has no place in an expression", token.start, len(token.text))
        part_of = bool(i) and kind(tokens[i - 1]) == "DOT"
        if name != "IDENTIFIER" and not part_of and upper in _FORBIDDEN:
            why = f"{upper} has no place here: an expression is computed from one row"
            raise TextError(why, token.start, len(upper))
        if opens(tokens, i) and token.text.lower() in OUTSIDE:
            raise TextError(f"function {token.text} reaches outside of the row", token.start, len(upper))
        if part_of and is_word(token) and opens(tokens, i):
            why = "a function is called by its name alone: leave out what is before the point"
            raise TextError(why, token.start, token.end - token.start + 1)
        if upper == "IDENTIFIER" and opens(tokens, i) and opens(tokens, closing(tokens, i + 1)):
            raise TextError("a function is called by its name, not by IDENTIFIER", token.start, len(upper))
        if upper in _NO_TYPES and i + 1 < len(tokens) and kind(tokens[i + 1]) == "LT" and _begins_type(tokens, i):
            raise TextError(f"type {upper} is not there: write {_NO_TYPES[upper]}", token.start, len(upper))
        if name == "IDENTIFIER" and token.text.startswith("__ingest."):
            raise TextError("names that begin with __ingest. are not for use", token.start, len(upper))
    for i, token in enumerate(tokens):
        if _calls(tokens, i):
            _check_rows(token)
    _check_ends(tokens)


def _check_rows(token: Token) -> None:
    """Raise TextError where a function does not make exactly one value from one row."""
    lower, why = token.text.lower(), ""
    if lower in catalog.AGGREGATES:
        why = f"{_MANY}{f': {_INSTEAD[lower]}' if lower in _INSTEAD else ''}"
    elif lower in catalog.WINDOWS:
        why = "needs the rows around, and an expression is computed from one row"
    elif lower in catalog.GENERATORS:
        why = "makes several rows or columns of one, and an expression has one value"
    if why:
        raise TextError(f"function {token.text} {why}", token.start, len(token.text))


def _check_ends(tokens: Words) -> None:
    """Raise TextError for an operator without its operand, and for a CASE without its END.

    Only certain mistakes count: a word like END may be the name of a column.
    """
    typed = sure = False
    last = max((i for i, token in enumerate(tokens) if kind(token) == "WHEN"), default=0)
    cases = [i for i in range(last) if _begins_case(tokens, i)]
    columns = sum(kind(token) == "END" for token in tokens) > len(cases)  # at least one END may be a column's name
    for i, token in enumerate(tokens):
        name = kind(token)
        typed = typed or (name == "LT" and _is_type(tokens, i - 1))
        sure = name in _INFIX and _is_operator(tokens, i, after_one=sure)
        if not sure or (typed and name == "GT"):
            continue
        if i + 1 == len(tokens):
            why = f"the expression ends after {token.text!r}: something has to follow"
            raise TextError(why, token.start, token.end - token.start + 1)
        if _begins_no_operand(tokens, i + 1, columns=columns):
            after = tokens[i + 1]
            why = f"something is missing between {token.text!r} and {after.text!r}"
            raise TextError(why, token.start, after.end - token.start + 1)
    ends = [i for i, token in enumerate(tokens) if kind(token) == "END"]
    while cases:
        if not ends or ends.pop() < cases[-1]:
            raise TextError("CASE has no END", tokens[cases[-1]].start, len(tokens[cases[-1]].text))
        cases.pop()


def _begins_type(tokens: Words, i: int) -> bool:
    """Tell whether the word at `i` begins a type: it follows AS, `::`, or the `<` of another type."""
    before = kind(tokens[i - 1]) if i else ""
    return before in {"ALIAS", "DCOLON"} or (before == "LT" and _is_type(tokens, i - 2))


def _is_type(tokens: Words, i: int) -> bool:
    """Tell whether the word at `i` may be the name of a type that has other types in `<` and `>`."""
    return i >= 0 and tokens[i].text.upper() in _TYPES


def _begins_case(tokens: Words, i: int) -> bool:
    """Tell whether the word at `i` is certainly the keyword CASE, and not a column. A WHEN must follow somewhere."""
    if kind(tokens[i]) != "CASE" or (i and kind(tokens[i - 1]) in {"CASE", "DOT"}) or i + 1 == len(tokens):
        return False
    after = tokens[i + 1]
    if kind(after) == "WHEN":
        return True
    return kind(after) in {"VAR", "IDENTIFIER", "L_PAREN", *LITERALS} and after.text.upper() not in _BETWEEN


def _is_operator(tokens: Words, i: int, *, after_one: bool) -> bool:
    """Tell whether the token at `i` is certainly an operator.

    `after_one` says whether the token before it is an operator. A word without an operand before it may be a column.
    """
    name, before = kind(tokens[i]), kind(tokens[i - 1]) if i else ""
    if name == "STAR":
        return before not in {"", *OPEN, "COMMA", "BACKSLASH", "DOT", "DISTINCT", "ALL"}
    if name in _SYMBOLS:
        return name != "NEQ" or not _is_type(tokens, i - 1)  # the `<>` of an empty STRUCT<> is no operator
    if before in {"IS", "NOT"}:
        return after_one
    return before in _OPERANDS and tokens[i - 1].text.upper() not in _BETWEEN


def _begins_no_operand(tokens: Words, i: int, *, columns: bool) -> bool:
    """Tell whether the token at `i`, which follows an operator, certainly begins no operand.

    `columns` says whether END may be the name of a column.
    """
    name, before = kind(tokens[i]), kind(tokens[i - 1])
    if name == "COMMA" or name in CLOSE:
        return True
    if name in {"SLASH", "EQ", "LT", "GT"}:
        return before in _SYMBOLS - {"LT", "GT"} or (before in {"LT", "GT"} and name in {"SLASH", "EQ"})
    if name == "END":
        return not columns
    if name not in {"AND", "OR", "WHEN", "THEN", "ELSE"} or i + 1 == len(tokens):
        return False
    after = tokens[i + 1]
    if kind(after) in LITERALS:
        return True
    named = kind(after) == "VAR" and after.text.upper() not in _BETWEEN and i + 2 < len(tokens)
    return named and name in {"AND", "OR"}


def _calls(tokens: Words, i: int) -> bool:
    """Tell whether the word at `i` is the name of a called function."""
    token = tokens[i]
    if not opens(tokens, i) or not is_word(token) or kind(token) in LITERALS or (i and kind(tokens[i - 1]) == "DOT"):
        return False
    quantifier = token.text.upper() in {"ANY", "SOME", "ALL"} and bool(i) and kind(tokens[i - 1]) in _INFIX
    return not quantifier


def unknown_functions(text: str, own: Collection[str], most: int = 100) -> Iterator[TextError]:
    """Yield an error for each called function that neither Spark SQL nor Flink SQL nor the pipeline has.

    `own` has the names of the pipeline's functions in lower case. The first `most` errors propose a similar name; the
    search for it is slow. Nothing is yielded for a text that cannot be split into tokens: another check reports it.
    """
    try:
        tokens = tokens_of(text)
    except TextError:
        return
    for i, token in enumerate(tokens):
        if not _calls(tokens, i) or _known(token, own):
            continue
        lower = token.text.lower()
        what, instead = "is not there", ELSEWHERE.get(lower, "")
        if not instead:
            near = _near(lower, own) if most > 0 and len(lower) <= _LONGEST else ""
            most -= 1
            what, instead = (
                "is not known",
                f"did you mean {near!r}?"
                if near
                else ("there are those of Spark SQL, those of docs/transforms.md, and pipeline.user-defined-function"),
            )
        yield TextError(f"function {token.text} {what}: {instead}", token.start, token.end - token.start + 1)


def _known(token: Token, own: Collection[str]) -> bool:
    lower, upper = token.text.lower(), token.text.upper()
    if lower in own or lower in catalog.SCALAR:
        return True
    ours = is_plain(token) and (upper in RESERVED | _FORBIDDEN | _SPECIAL | WORDS)
    return ours or lower in catalog.AGGREGATES or lower in catalog.WINDOWS or lower in catalog.GENERATORS


_LONGEST: Final = 100
"""Length in characters of the longest name that is compared with known names for a proposal."""


def _near(name: str, own: Collection[str]) -> str:
    known = {*catalog.SCALAR, *own, *(word.lower() for word in WORDS)}
    similar = get_close_matches(name, sorted(known), 1)
    return similar[0].upper() if similar and similar[0] not in own else "".join(similar)


WORDS: Final = frozenset({word for word, _ in CALLS} | BARE.keys() | CASTS | BRACKETS)
"""Names that have Flink's meaning here."""


def taken(name: str) -> bool:
    """Tell whether a function's name already has another meaning in expressions.

    Spark's own functions do not count: a user's function may replace them.
    """
    return name.upper() in WORDS | RESERVED | _FORBIDDEN | _SPECIAL or name.lower() in OUTSIDE or name.startswith("__")

"""Functions of Flink SQL on JSON texts, as Spark SQL."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ingest.expressions.arguments import literal
from ingest.expressions.words import kind
from ingest.model.text import TextError

if TYPE_CHECKING:
    from ingest.expressions.arguments import Say
    from ingest.expressions.words import Words


def _path(words: Words, say: Say) -> tuple[str, list[str]]:
    """Return the path of `'lax $.a' RETURNING INT NULL ON EMPTY` as SQL, and the words after it.

    Raise TextError for a strict path.
    """
    first = words[0]
    if kind(first) != "STRING":
        return say(words), []
    size = 1
    while size < len(words) and kind(words[size]) == "STRING":
        size += 1
    path = "'".join(token.text for token in words[:size]).strip()
    if path.startswith("strict "):
        raise TextError("a path is lax here: leave out 'strict'", first.start, first.end - first.start + 1)
    path = re.sub(r'\["([^"\']*)"\]', r"['\1']", path.removeprefix("lax ").strip().replace(".[", "["))
    return literal(path), [token.text for token in words[size:]]


def _clauses(name: str, words: Words, given: list[str], known: tuple[str, ...]) -> str:
    """Return the type after RETURNING, or an empty text. Raise TextError for a clause that is not the default one."""
    said = " ".join(given)
    for clause in known:
        said = re.sub(rf"(?i)\b{clause}$", "", said).strip()
    returning = re.fullmatch(r"(?i)returning (\w+( ?\([\d ,]+\))?)", said)
    if said and (returning is None or name != "JSON_VALUE"):
        instead = {
            "JSON_VALUE": "write COALESCE(JSON_VALUE(s, path), other) for a default",
            "JSON_QUERY": "write '[' || JSON_QUERY(s, path) || ']' for a wrapper, COALESCE for a default",
            "JSON_EXISTS": "what cannot be read is FALSE",
        }[name]
        raise TextError(f"{name} has no {said!r} here: {instead}", words[1].start, words[-1].end - words[1].start + 1)
    return "" if returning is None else returning[1]


def value(arguments: list[Words], say: Say) -> str:
    """Translate `JSON_VALUE(s, '$.a' RETURNING INT)`."""
    path, more = _path(arguments[1], say)
    returned = _clauses("JSON_VALUE", arguments[1], more, ("NULL ON ERROR", "NULL ON EMPTY"))
    found = f"get_json_object({say(arguments[0])}, {path})"
    return f"TRY_CAST({found} AS {'STRING' if returned.upper() == 'VARCHAR' else returned})" if returned else found


def query(arguments: list[Words], say: Say) -> str:
    """Translate `JSON_QUERY(s, '$.a')`, whose result is an object or an array.

    Spark returns a JSON string without its quotes, which then may look like an object. Only for elements of an array
    Spark keeps the quotes, so the value is also read as an element of one.
    """
    path, more = _path(arguments[1], say)
    _clauses("JSON_QUERY", arguments[1], more, ("NULL ON ERROR", "NULL ON EMPTY", "WITHOUT( ARRAY)? WRAPPER"))
    value = say(arguments[0])
    element = f"'$[*]{path[2:]}" if path.startswith("'$") else f"concat('$[*]', substring({path}, 2))"
    quoted = f"get_json_object(concat('[', {value}, ']'), {element}) LIKE '\"%'"
    return f"regexp_substr(IF(NOT {quoted}, get_json_object({value}, {path}), NULL), '(?s)^[\\\\[{{].*')"


def exists(arguments: list[Words], say: Say) -> str:
    """Translate `JSON_EXISTS(s, '$.a')`.

    A JSON null exists, too. Only a VARIANT of Spark tells a null from a missing value, but it does not know `[*]`.
    """
    path, more = _path(arguments[1], say)
    _clauses("JSON_EXISTS", arguments[1], more, ("FALSE ON ERROR",))
    value = say(arguments[0])
    if kind(arguments[1][0]) != "STRING" or "*" in path:
        return f"(get_json_object({value}, {path}) IS NOT NULL)"
    return f"(try_variant_get(try_parse_json({value}), {path}, 'variant') IS NOT NULL)"

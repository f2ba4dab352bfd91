"""Calls of functions that Flink SQL and Spark SQL define differently, and their translation to Spark SQL.

In: the arguments of a call as tokens, and a function that translates tokens. Out: Spark SQL, or None where Spark's own
meaning is right, or a TextError with advice. Nothing is executed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Final, TypeAlias

from ingest.expressions import units
from ingest.expressions.words import TEXTS, Words, is_word, kind, outside
from ingest.model.text import TextError

Say: TypeAlias = "Callable[[Words], str]"
"""Function that translates tokens to Spark SQL."""
Translation: TypeAlias = "Callable[[list[Words], Say], str | None]"
"""Function that translates the arguments of a call to Spark SQL.

It returns None where Spark's own meaning is right. It raises TextError, with advice, where there is no translation.
"""
Made: TypeAlias = "str | Translation"
"""A translation, or Spark SQL with `{0}` for the first argument."""


def literal(value: str) -> str:
    """Return a text as a string literal of Spark SQL."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def refused(why: str) -> Translation:
    """Return the translation of a call that is an error, for this reason."""

    def refuse(arguments: list[Words], _: Say) -> str | None:
        first, last = arguments[0][0], arguments[-1][-1]
        raise TextError(why, first.start, last.end - first.start + 1)

    return refuse


def is_number(words: Words) -> bool:
    """Tell whether an argument is a number literal. Such a literal is never negative."""
    return len(words) == 1 and kind(words[0]) == "NUMBER"


def is_fixed(words: Words) -> bool:
    """Tell whether an argument is a literal."""
    return len(words) == 1 and kind(words[0]) in {"NUMBER", "STRING"}


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
    length = say(words)
    return length if is_number(words) else f"nullif(greatest({length}, -1), -1)"


def pad(function: str) -> Callable[[list[Words], Say], str]:
    """Return the translation of `LPAD(s, n, fill)` or RPAD.

    The result is NULL for a negative length and for an empty fill text, as in Flink.
    """

    def translate(arguments: list[Words], say: Say) -> str:
        value, length, fill = arguments
        fill_sql = say(fill)
        if not (is_fixed(fill) and fill[0].text):
            fill_sql = f"nullif({fill_sql}, '')"
        return f"{function}({say(value)}, {_counted(length, say)}, {fill_sql})"

    return translate


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
    text, begin = say(value), say(start)
    whole = f"substring({', '.join((text, begin, *(_counted(n, say) for n in length)))})"
    if is_number(start):
        return whole
    return f"IF({begin} < -char_length({text}), left({text}, 0), {whole})"


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
    space, delimiter = "'\\\\p{javaWhitespace}'", arguments[1][0].text
    if is_number(arguments[1]):
        by = f"chr({by})" if delimiter.isdecimal() and 0 < int(delimiter) < 256 else "CAST(NULL AS STRING)"
    plain = is_fixed(arguments[1]) and "\\" not in by
    quoted = by if plain else f"replace({by}, '\\\\E', '\\\\E\\\\\\\\E\\\\Q')"
    pattern = f"'\\\\Q' || {quoted} || '\\\\E'"
    if not is_fixed(arguments[1]):
        pattern = f"IF({by} = '', {space}, {pattern})"
    return f"get(split(nullif({value}, ''), {pattern if delimiter else space}, -1), {index})"


def regexp_group(call: str) -> Callable[[list[Words], Say], str]:
    """Return the translation of a function that takes a pattern and the number of a group.

    The result is NULL where the pattern has no group of that number, as in Flink. SQL cannot count the groups of a
    pattern. So `n` empty groups are added behind it in a second alternative, with a reference to group `n`. An empty
    text matches this if and only if group `n` is an added one, that is, if the pattern lacks it.
    """

    def translate(arguments: list[Words], say: Say) -> str:
        value, pattern, n = (*map(say, arguments), "1")[:3]
        extracted = call.format(value, pattern, n)
        words = arguments[1]
        if n == "0":
            return extracted
        if n.isdecimal() and len(words) == 1 and kind(words[0]) in TEXTS:  # tested once, not for each row
            count = min(int(n), _MAX_GROUPS)
            test = f"(?!)(?:{words[0].text}\n)|{'()' * count}\\{count}"
            return f"IF('' RLIKE {literal(test)}, NULL, {extracted})"
        some = f"least(greatest({n}, 1), {_MAX_GROUPS})"
        test = f"'(?!)(?:' || {pattern} || '\\n)|' || repeat('()', {some}) || '\\\\' || {some}"
        return f"CASE WHEN {n} = 0 OR ({n} > 0 AND NOT '' RLIKE ({test})) THEN {extracted} END"

    return translate


def position(arguments: list[Words], say: Say) -> str | None:
    """Translate `POSITION(a IN b FROM n)`. Return None for the form without FROM, which Spark has."""
    words = arguments[0]
    places = [*outside(words, "IN", "FROM")]
    if [words[i].text.upper() for i in places] != ["IN", "FROM"]:
        return None
    part, whole, start = words[: places[0]], words[places[0] + 1 : places[1]], words[places[1] + 1 :]
    return f"locate({say(part)}, {say(whole)}, {say(start)})"


_UNITS: Final = {"0": "timestamp_seconds", "3": "timestamp_millis", "6": "timestamp_micros"}
_QUOTED: Final = re.compile(r"'[^']*'")
_OF_WEEKS: Final = re.compile(r"[YuwWec]")


def timestamp_ltz(arguments: list[Words], say: Say) -> str:
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


def time_pattern(translation: Made | None = None) -> Translation:
    """Return the translation of a function whose second argument is a pattern of times.

    Raise TextError for letters of weeks: Spark refuses them for each row, so all rows would be rejected.
    """

    def checked(arguments: list[Words], say: Say) -> str | None:
        pattern = arguments[1][0]
        wrong = _OF_WEEKS.search(_QUOTED.sub("", pattern.text)) if kind(pattern) == "STRING" else None
        if wrong is not None:
            why = f"{wrong[0]!r} is no letter of patterns here: y is the year, E the day's name"
            raise TextError(why, pattern.start, pattern.end - pattern.start + 1)
        if translation is None or isinstance(translation, str):
            return None if translation is None else translation.format(*map(say, arguments))
        return translation(arguments, say)

    return checked


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


def json_value(arguments: list[Words], say: Say) -> str:
    """Translate `JSON_VALUE(s, '$.a' RETURNING INT)`."""
    path, more = _path(arguments[1], say)
    returned = _clauses("JSON_VALUE", arguments[1], more, ("NULL ON ERROR", "NULL ON EMPTY"))
    value = f"get_json_object({say(arguments[0])}, {path})"
    return f"TRY_CAST({value} AS {'STRING' if returned.upper() == 'VARCHAR' else returned})" if returned else value


def json_query(arguments: list[Words], say: Say) -> str:
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


def json_exists(arguments: list[Words], say: Say) -> str:
    """Translate `JSON_EXISTS(s, '$.a')`.

    A JSON null exists, too. Only a VARIANT of Spark tells a null from a missing value, but it does not know `[*]`.
    """
    path, more = _path(arguments[1], say)
    _clauses("JSON_EXISTS", arguments[1], more, ("FALSE ON ERROR",))
    value = say(arguments[0])
    if kind(arguments[1][0]) != "STRING" or "*" in path:
        return f"(get_json_object({value}, {path}) IS NOT NULL)"
    return f"(try_variant_get(try_parse_json({value}), {path}, 'variant') IS NOT NULL)"


def of_all(function: str) -> Translation:
    """Return the translation of `GREATEST(a, b)` or LEAST.

    The result is NULL where one argument is NULL, as in Flink.
    """

    def translate(arguments: list[Words], say: Say) -> str | None:
        values = [say(a) for a in arguments]
        known = [f"({a}) IS NOT NULL" for a, words in zip(values, arguments, strict=True) if not is_fixed(words)]
        call = f"{function}({', '.join(values)})"
        return f"CASE WHEN {' AND '.join(known)} THEN {call} END" if known else call

    return translate


def array_sort(arguments: list[Words], say: Say) -> str | None:
    """Translate `ARRAY_SORT(a)`, `ARRAY_SORT(a, ascending)` and `ARRAY_SORT(a, ascending, nulls_first)`.

    NULLs come first, or last in descending order, unless `nulls_first` says it. Return None for a call with a lambda,
    which Spark has. Raise TextError where an order is not a literal.
    """
    if any(kind(token) == "ARROW" for token in arguments[-1]):
        return None
    value, *order = (say(a) for a in arguments)
    if len(order) < 2 or order[0].upper() == order[1].upper():
        return f"sort_array({', '.join((value, *order[:1]))})"
    for words, given in zip(arguments[1:], order, strict=True):
        if given.upper() not in {"TRUE", "FALSE"}:
            raise TextError("ARRAY_SORT takes TRUE or FALSE here", words[0].start, words[-1].end - words[0].start + 1)
    known = f"array_compact({value})"
    nulls, values = f"array_repeat(NULL, size({value}) - size({known}))", f"sort_array({known}, {order[0]})"
    return f"concat({nulls}, {values})" if order[1].upper() == "TRUE" else f"concat({values}, {nulls})"


def array_contains(arguments: list[Words], say: Say) -> str:
    """Translate `ARRAY_CONTAINS(a, x)`. In Flink a NULL can be searched for like any other value."""
    value, wanted = (say(a) for a in arguments)
    known = f"array_compact({value})"
    null, contained = f"(size({value}) > size({known}))", f"array_contains({known}, {wanted})"
    if wanted.upper() == "NULL":
        return null
    return contained if is_fixed(arguments[1]) else f"IF(({wanted}) IS NULL, {null}, {contained})"


def struct(arguments: list[Words], say: Say) -> str:
    """Translate `ROW(a, b + 1)` to a struct.

    A field is named like its column; another expression is named by its position, as Spark does it. The names are given
    explicitly, because Spark would take the names of the slots that stand for columns.
    """
    fields = []
    for i, words in enumerate(arguments):
        last = words[-1]
        if len(words) > 2 and kind(words[-2]) == "ALIAS":
            name, value = last.text, words[:-2]
        else:
            path = all(kind(w) == "DOT" if j % 2 else is_word(w) for j, w in enumerate(words))
            name, value = last.text if path and len(words) % 2 else f"col{i + 1}", words
        fields.append(f"{literal(name)}, {say(value)}")
    return f"named_struct({', '.join(fields)})"


NOW: Final = "__ingest.now"
"""Column with the current time, in microseconds since 1970.

Spark would compute the time once for a plan; this column has it for each row.
"""
DICE: Final = "__ingest.random."
TAG: Final = "__ingest.uuid."
"""Columns with a random number or a UUID for each row. A number follows the prefix.

Spark would repeat its own random numbers in each batch, because the plan has a fixed seed.
"""

_MICROS: Final = f"`{NOW}`"
INSTANT: Final = f"timestamp_micros({_MICROS})"
LOCAL: Final = f"CAST({INSTANT} AS TIMESTAMP_NTZ)"
TODAY: Final = f"CAST({INSTANT} AS DATE)"
TIME_OF_DAY: Final = f"CAST({LOCAL} AS TIME(0))"
_SEED: Final = "a seed has no meaning for rows that several tasks compute: leave it out"
CALLS: Final[dict[tuple[str, int], Made]] = {
    ("ROW", -1): struct,
    ("STRUCT", -1): struct,
    ("LTRIM", 2): "TRIM(LEADING ({1}) FROM ({0}))",
    ("RTRIM", 2): "TRIM(TRAILING ({1}) FROM ({0}))",
    ("LPAD", 3): pad("lpad"),
    ("RPAD", 3): pad("rpad"),
    ("SUBSTRING", -1): substring,
    ("SUBSTR", -1): substring,
    ("POSITION", 1): position,
    ("INSTR", 3): refused("INSTR has two arguments here: write LOCATE(part, s, from)"),
    ("INSTR", 4): refused("INSTR has two arguments here: write LOCATE(part, s, from), or REGEXP_INSTR"),
    ("INITCAP", 1): INITCAP,
    ("ELT", -1): lambda arguments, say: (
        f"get(array({', '.join(say(a) for a in arguments[1:])}), CAST({say(arguments[0])} - 1 AS INT))"
    ),
    ("GREATEST", -1): of_all("greatest"),
    ("LEAST", -1): of_all("least"),
    ("SPLIT", 2): split,
    ("SPLIT_INDEX", 3): split_index,
    ("STR_TO_MAP", 1): "str_to_map({0}, ',', '=')",
    ("REGEXP_EXTRACT", 2): "get(regexp_extract_all({0}, {1}, 0), 0)",
    ("REGEXP_EXTRACT", 3): regexp_group("get(regexp_extract_all({0}, {1}, {2}), 0)"),
    ("REGEXP_EXTRACT_ALL", 2): regexp_group("regexp_extract_all({0}, {1}, {2})"),
    ("REGEXP_EXTRACT_ALL", 3): regexp_group("regexp_extract_all({0}, {1}, {2})"),
    ("PARSE_URL", 2): "try_parse_url({0}, {1})",
    ("PARSE_URL", 3): "try_parse_url({0}, {1}, {2})",
    ("URL_DECODE", 1): "try_url_decode({0})",
    ("TO_BASE64", 1): "base64({0})",
    ("FROM_BASE64", 1): "CAST(unbase64({0}) AS STRING)",
    ("SHA224", 1): "sha2({0}, 224)",
    ("SHA256", 1): "sha2({0}, 256)",
    ("SHA384", 1): "sha2({0}, 384)",
    ("SHA512", 1): "sha2({0}, 512)",
    ("JSON_VALUE", 2): json_value,
    ("JSON_QUERY", 2): json_query,
    ("JSON_EXISTS", 2): json_exists,
    ("IS_ALPHA", 1): "COALESCE({0} RLIKE '\\\\A\\\\p{{L}}+\\\\z', FALSE)",
    ("IS_DIGIT", 1): "COALESCE({0} RLIKE '\\\\A\\\\p{{Nd}}+\\\\z', FALSE)",
    ("IS_DECIMAL", 1): "(TRY_CAST({0} AS DOUBLE) IS NOT NULL)",
    ("ARRAY_SORT", 1): array_sort,
    ("ARRAY_SORT", 2): array_sort,
    ("ARRAY_SORT", 3): array_sort,
    ("ARRAY_CONTAINS", 2): array_contains,
    ("ARRAY_REVERSE", 1): "reverse({0})",
    ("ARRAY_CONCAT", -1): lambda arguments, say: f"concat({', '.join(say(a) for a in arguments)})",
    ("MAP_UNION", -1): lambda arguments, say: f"map_concat({', '.join(say(a) for a in arguments)})",
    ("TO_TIMESTAMP", 1): "to_timestamp_ntz({0})",
    ("TO_TIMESTAMP", 2): time_pattern("to_timestamp_ntz({0}, {1})"),
    ("TO_DATE", 2): time_pattern(),
    ("DATE_FORMAT", 2): time_pattern(),
    ("FROM_UNIXTIME", 2): time_pattern(),
    ("UNIX_TIMESTAMP", 2): time_pattern(),
    ("TO_TIMESTAMP_LTZ", 1): timestamp_ltz,
    ("TO_TIMESTAMP_LTZ", 2): time_pattern(timestamp_ltz),
    ("TO_TIMESTAMP_LTZ", 3): time_pattern(timestamp_ltz),
    **units.CALLS,
    ("WEEK", 1): "weekofyear({0})",
    ("CONVERT_TZ", 3): "date_format(convert_timezone({1}, {2}, CAST({0} AS TIMESTAMP_NTZ)), 'yyyy-MM-dd HH:mm:ss')",
    ("CURRENT_ROW_TIMESTAMP", 0): INSTANT,
    ("CURRENT_TIMESTAMP", 0): INSTANT,
    ("NOW", 0): INSTANT,
    ("CURRENT_DATE", 0): TODAY,
    ("CURDATE", 0): TODAY,
    ("CURRENT_TIME", 0): TIME_OF_DAY,
    ("LOCALTIME", 0): TIME_OF_DAY,
    ("LOCALTIMESTAMP", 0): LOCAL,
    ("UNIX_TIMESTAMP", 0): f"unix_seconds({INSTANT})",
    ("UUID", 0): f"`{TAG}{{number}}`",
    ("RAND", 0): f"`{DICE}{{number}}`",
    ("RANDOM", 0): f"`{DICE}{{number}}`",
    ("RAND_INTEGER", 1): f"CAST(floor(`{DICE}{{number}}` * ({{0}})) AS INT)",
    ("RAND", 1): refused(_SEED),
    ("RANDOM", 1): refused(_SEED),
    ("RAND_INTEGER", 2): refused(_SEED),
}
"""The translations, by function name and number of arguments (-1 for any number).

They are for calls that Flink SQL defines differently from Spark SQL, and for values that a plan would compute once for
all rows.
"""

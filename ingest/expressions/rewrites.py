"""Calls of functions that Flink SQL and Spark SQL define differently, and their translation to Spark SQL.

In: a function's name, its arguments as tokens, and a function that translates tokens. Out: Spark SQL, or None where
Spark's own meaning is right, or a TextError with advice. Nothing is executed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ingest.expressions import collection_functions, json_functions, text_functions, time_functions, units
from ingest.expressions.arguments import refused

if TYPE_CHECKING:
    from ingest.expressions.arguments import Made

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
    ("ROW", -1): collection_functions.struct,
    ("STRUCT", -1): collection_functions.struct,
    ("LTRIM", 2): "TRIM(LEADING ({1}) FROM ({0}))",
    ("RTRIM", 2): "TRIM(TRAILING ({1}) FROM ({0}))",
    ("LPAD", 3): text_functions.pad("lpad"),
    ("RPAD", 3): text_functions.pad("rpad"),
    ("SUBSTRING", -1): text_functions.substring,
    ("SUBSTR", -1): text_functions.substring,
    ("POSITION", 1): text_functions.position,
    ("INSTR", 3): refused("INSTR has two arguments here: write LOCATE(part, s, from)"),
    ("INSTR", 4): refused("INSTR has two arguments here: write LOCATE(part, s, from), or REGEXP_INSTR"),
    ("INITCAP", 1): text_functions.INITCAP,
    ("ELT", -1): lambda arguments, say: (
        f"get(array({', '.join(say(a) for a in arguments[1:])}), CAST({say(arguments[0])} - 1 AS INT))"
    ),
    ("GREATEST", -1): collection_functions.of_all("greatest"),
    ("LEAST", -1): collection_functions.of_all("least"),
    ("SPLIT", 2): text_functions.split,
    ("SPLIT_INDEX", 3): text_functions.split_index,
    ("STR_TO_MAP", 1): "str_to_map({0}, ',', '=')",
    ("REGEXP_EXTRACT", 2): "get(regexp_extract_all({0}, {1}, 0), 0)",
    ("REGEXP_EXTRACT", 3): text_functions.group("get(regexp_extract_all({0}, {1}, {2}), 0)"),
    ("REGEXP_EXTRACT_ALL", 2): text_functions.group("regexp_extract_all({0}, {1}, {2})"),
    ("REGEXP_EXTRACT_ALL", 3): text_functions.group("regexp_extract_all({0}, {1}, {2})"),
    ("PARSE_URL", 2): "try_parse_url({0}, {1})",
    ("PARSE_URL", 3): "try_parse_url({0}, {1}, {2})",
    ("URL_DECODE", 1): "try_url_decode({0})",
    ("TO_BASE64", 1): "base64({0})",
    ("FROM_BASE64", 1): "CAST(unbase64({0}) AS STRING)",
    ("SHA224", 1): "sha2({0}, 224)",
    ("SHA256", 1): "sha2({0}, 256)",
    ("SHA384", 1): "sha2({0}, 384)",
    ("SHA512", 1): "sha2({0}, 512)",
    ("JSON_VALUE", 2): json_functions.value,
    ("JSON_QUERY", 2): json_functions.query,
    ("JSON_EXISTS", 2): json_functions.exists,
    ("IS_ALPHA", 1): "COALESCE({0} RLIKE '\\\\A\\\\p{{L}}+\\\\z', FALSE)",
    ("IS_DIGIT", 1): "COALESCE({0} RLIKE '\\\\A\\\\p{{Nd}}+\\\\z', FALSE)",
    ("IS_DECIMAL", 1): "(TRY_CAST({0} AS DOUBLE) IS NOT NULL)",
    ("ARRAY_SORT", 1): collection_functions.sort,
    ("ARRAY_SORT", 2): collection_functions.sort,
    ("ARRAY_SORT", 3): collection_functions.sort,
    ("ARRAY_CONTAINS", 2): collection_functions.contains,
    ("ARRAY_REVERSE", 1): "reverse({0})",
    ("ARRAY_CONCAT", -1): lambda arguments, say: f"concat({', '.join(say(a) for a in arguments)})",
    ("MAP_UNION", -1): lambda arguments, say: f"map_concat({', '.join(say(a) for a in arguments)})",
    ("TO_TIMESTAMP", 1): "to_timestamp_ntz({0})",
    ("TO_TIMESTAMP", 2): time_functions.pattern("to_timestamp_ntz({0}, {1})"),
    ("TO_DATE", 2): time_functions.pattern(),
    ("DATE_FORMAT", 2): time_functions.pattern(),
    ("FROM_UNIXTIME", 2): time_functions.pattern(),
    ("UNIX_TIMESTAMP", 2): time_functions.pattern(),
    ("TO_TIMESTAMP_LTZ", 1): time_functions.instant,
    ("TO_TIMESTAMP_LTZ", 2): time_functions.pattern(time_functions.instant),
    ("TO_TIMESTAMP_LTZ", 3): time_functions.pattern(time_functions.instant),
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

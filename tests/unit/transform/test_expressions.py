"""What expressions mean: each word of the table in docs/transforms.md, with the value that Flink SQL has, in one query.

Where Spark's meaning stays, the page says so ("different"), and the value here is Spark's.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from inmemory import run
from pyspark.sql import SparkSession

from ingest.expressions import catalog
from ingest.expressions.clauses import projection
from ingest.expressions.lint import unknown_functions
from ingest.model.text import TextError

PAGE = Path(__file__).parents[3] / "docs" / "transforms.md"
ROW = {
    "id": 1, "s": "abc", "n": 7, "m": -2, "d": 2.5, "gone": None, "json": '{"a":{"b":1},"z":null}', "list": "a.b.c",
    "padded": "xxaxx", "at": "2020-01-31 12:13:14.5",
}  # fmt: skip
T = "CAST('2020-01-31 12:13:14.5' AS TIMESTAMP(3))"
"""A Friday."""
CASES: list[tuple[str, Any]] = [
    # Comparison
    ("s = 'abc'", True), ("s <> 'abc'", False), ("gone = 'x'", None), ("s = 'abc' AND n > 5 OR FALSE", True),
    ("NOT n BETWEEN 1 AND 3", True), ("n BETWEEN ASYMMETRIC 7 AND 8", True), ("n IN (1, 7)", True),
    ("n NOT IN (1, NULL)", None), ("s LIKE 'a%'", True), ("s LIKE 'A_c'", False), ("gone IS NULL", True),
    ("s IS NOT NULL", True), ("n IS DISTINCT FROM NULL", True), ("gone IS NOT DISTINCT FROM NULL", True),
    ("'a_c' LIKE 'a!_c' ESCAPE '!'", True), ("s LIKE 'a!_c' ESCAPE '!'", False), ("s NOT LIKE 'a!_c' ESCAPE '!'", True),
    ("'50%' NOT LIKE '%\\%' ", False), ("s || 'x' NOT LIKE '%!%%' ESCAPE '!'", True), ("n > 5 IS TRUE", True),
    ("(gone = 'x') IS UNKNOWN", True),
    # SIMILAR TO
    ("s SIMILAR TO 'a%c'", True), ("s SIMILAR TO 'b'", False), ("s SIMILAR TO '(x|ab)_'", True),
    ("s NOT SIMILAR TO 'a%'", False), ("'a%' SIMILAR TO 'a!%' ESCAPE '!'", True),
    ("s SIMILAR TO 'a!%' ESCAPE '!'", False), ("'a.c' SIMILAR TO 'a.c'", True), ("s SIMILAR TO 'a.c'", False),
    ("'a\\nc' SIMILAR TO 'a_c'", True), ("'abc\\n' SIMILAR TO 'abc'", False), ("'a_' SIMILAR TO 'a[%_]'", True),
    ("'ab' SIMILAR TO 'a[%_]'", False), ("'a7' SIMILAR TO '[[:ALPHA:]][[:digit:]]'", True),
    ("'aab' SIMILAR TO 'a{2}[^a]'", True),
    # Arithmetic
    ("n + 1", 8), ("n - 1", 6), ("n * 2", 14), ("n % 4", 3), ("-7 % 4", -3), ("ABS(m)", 2), ("MOD(-7, 3)", -1),
    ("MOD(7, -3)", 1), ("POWER(2, 3)", 8.0), ("ROUND(2.5)", 3), ("ROUND(-2.5)", -3), ("ROUND(2.345, 2)", 2.35),
    ("ROUND(1234, -2)", 1200), ("FLOOR(-2.5)", -3), ("CEIL(2.1)", 3), ("CEILING(-2.1)", -2), ("FLOOR(d)", 2),
    ("LOG2(8)", 3.0), ("LOG(2, 8)", 3.0), ("LOG10(100)", 2.0), ("LN(1)", 0.0), ("EXP(0)", 1.0), ("SQRT(4)", 2.0),
    ("SIGN(m)", -1.0), ("BIN(4)", "100"), ("HEX(255)", "FF"), ("HEX('hi')", "6869"), ("PI() > 3.14", True),
    ("ROUND(DEGREES(RADIANS(180)))", 180.0), ("1 / 2", 0.5), ("7 DIV 2", 3), ("LOG(0)", None), ("LN(-1)", None),
    ("RAND() BETWEEN 0 AND 1", True), ("RAND_INTEGER(3) BETWEEN 0 AND 2", True), ("CHAR_LENGTH(UUID())", 36),
    ("UUID() <> UUID()", True),
    # Texts
    ("s || '-' || n", "abc-7"), ("s || gone", None), ("CONCAT('a', 'b')", "ab"), ("CONCAT('a', gone)", None),
    ("CONCAT_WS('~', 'a', gone, '', 'c')", "a~~c"), ("CONCAT_WS(gone, 'a')", None), ("UPPER(s)", "ABC"),
    ("LOWER('ABC')", "abc"), ("TRIM('  a ')", "a"), ("TRIM(BOTH 'x' FROM padded)", "a"),
    ("TRIM(LEADING 'x' FROM padded)", "axx"), ("TRIM(TRAILING 'yx' FROM padded)", "xxa"), ("LTRIM('  a ')", "a "),
    ("RTRIM('  a ')", "  a"), ("LTRIM(padded, 'x')", "axx"), ("RTRIM(padded, 'yx')", "xxa"),
    ("BTRIM(padded, 'x')", "a"), ("LTRIM(padded, gone)", None),
    ("`LTRIM`(padded, 'x')", "axx"), ("`rtrim` (padded, 'yx')", "xxa"), ("LPAD('hi', 4, '?!')", "?!hi"),
    ("LPAD('hi', 1, '??')", "h"), ("RPAD('hi', 5, '?!')", "hi?!?"), ("LPAD('hi', m, '?')", None),
    ("RPAD('hi', 4, '')", None), ("LPAD('hi', n - 3, s)", "abhi"), ("LPAD('hi', CAST(gone AS INT), '?')", None),
    ("LEFT(s, 2)", "ab"), ("RIGHT(s, 2)", "bc"), ("LEFT(s, m)", ""), ("REPLACE(s, 'b', 'x')", "axc"),
    ("REPEAT('ab', 2)", "abab"), ("TRANSLATE('abc', 'ab', 'x')", "xc"), ("STARTSWITH(s, 'a')", True),
    ("ENDSWITH(s, 'a')", False), ("OVERLAY('xxxxxtest' PLACING 'xxxx' FROM 6)", "xxxxxxxxx"),
    ("OVERLAY('xxxxxtest' PLACING 'xxxx' FROM 6 FOR 2)", "xxxxxxxxxst"), ("OVERLAY('abc' PLACING 'x' FROM 5)", "abcx"),
    ("INITCAP('hELLO wORLD')", "Hello World"), ("INITCAP('a-b c_d x1y')", "A-B C_D X1y"), ("REVERSE(s)", "cba"),
    ("CHAR_LENGTH('äbc')", 3), ("CHARACTER_LENGTH(s)", 3), ("POSITION('b' IN s)", 2), ("POSITION('x' IN s)", 0),
    ("POSITION('a' IN 'abca' FROM 2)", 4), ("INSTR(s, 'b')", 2), ("INSTR(s, 'x')", 0), ("INSTR(gone, 'x')", None),
    ("LOCATE('b', s)", 2), ("LOCATE('a', 'abca', 2)", 4), ("LOCATE('b', gone)", None),
    ("SUBSTRING(s FROM 2 FOR 1)", "b"), ("SUBSTRING(s FROM 2)", "bc"), ("SUBSTRING(s, 0, 2)", "ab"),
    ("SUBSTRING(s, -2)", "bc"), ("SUBSTRING(s, -5, 3)", ""), ("SUBSTR(s, -2, 1)", "b"), ("SUBSTRING(s, 2, m)", None),
    ("SUBSTRING(s FROM -5 FOR 3)", ""), ("SUBSTR(s, m)", "bc"), ("SUBSTRING(s, CAST(gone AS INT))", None),
    ("SUBSTRING(s, 9)", ""), ("ASCII('a')", 97), ("ASCII('')", 0), ("CHR(97)", "a"), ("CHR(353)", "a"),
    ("ELT(2, 'a', 'b')", "b"), ("ELT(3, 'a', 'b')", None), ("ELT(n, 'a', s)", None), ("SPLIT_INDEX(list, '.', 1)", "b"),
    ("SPLIT_INDEX(list, '.', 7)", None), ("SPLIT_INDEX(list, '.', -1)", None), ("SPLIT_INDEX(list, 46, 1)", "b"),
    ("SPLIT_INDEX('', ',', 0)", None), ("SPLIT_INDEX('a\\\\Eb', '\\\\E', 1)", "b"),
    ("SPLIT_INDEX('abc', '', 0)", "abc"), ("SPLIT_INDEX('a b\\t\\tc', '', 3)", "c"),
    ("SPLIT_INDEX('a b', LEFT(s, 0), 1)", "b"), ("SPLIT_INDEX('a b', '', 2)", None), ("SPLIT_INDEX('a', 0, 0)", None),
    ("SPLIT_INDEX('a', 353, 0)", None), ("SPLIT_INDEX('a.b', gone, 0)", None), ("CARDINALITY(SPLIT('a,b', ','))", 2),
    ("CARDINALITY(SPLIT(list, '\\\\.', -1))", 3), ("STR_TO_MAP('a=1,b=2')['b']", "2"),
    ("STR_TO_MAP('a:1;b:2', ';', ':')['a']", "1"), ("REGEXP(s, 'b.')", True),
    ("REGEXP_REPLACE('foobar', 'oo|ar', '')", "fb"), ("REGEXP_REPLACE(s, '(b)', '$1$1')", "abbc"),
    ("REGEXP_COUNT('abab', 'a')", 2), ("REGEXP_INSTR(s, 'c')", 3), ("REGEXP_INSTR(s, 'x')", 0),
    ("REGEXP_SUBSTR(s, 'b.')", "bc"), ("REGEXP_SUBSTR(s, 'x')", None), ("REGEXP_EXTRACT(s, 'b(.)')", "bc"),
    ("REGEXP_EXTRACT('foothebar', 'foo(.*?)(bar)', 2)", "bar"), ("REGEXP_EXTRACT(s, 'x(.)', 1)", None),
    ("REGEXP_EXTRACT(gone, 'x')", None), ("REGEXP_EXTRACT('a1b2', '\\\\d', 0)", "1"),
    ("REGEXP_EXTRACT_ALL('a1b2', '([a-z])')", ["a", "b"]), ("REGEXP_EXTRACT_ALL('a1b2', '([a-z])(.)', 2)", ["1", "2"]),
    ("REGEXP_EXTRACT('foobar', 'o+', 5)", None), ("REGEXP_EXTRACT('foobar', '(o)(?:x|o)', 2)", None),
    ("REGEXP_EXTRACT('foobar', '(o)(?:x|o)', 1)", "o"), ("REGEXP_EXTRACT('foobar', 'o|(?<b>b)', n)", None),
    ("REGEXP_EXTRACT('foobar', r'\\(?(o)', 1)", "o"), ("REGEXP_EXTRACT(s, LEFT('(b)', 3), 2)", None),
    ("REGEXP_EXTRACT(s, LEFT('(b)', 3), 1)", "b"), ("REGEXP_EXTRACT('it''s', 't''(s)', 1)", "s"),
    ("REGEXP_EXTRACT('foobar', 'o+', -1)", None), ("REGEXP_EXTRACT('foobar', 'o+', n - 7)", "oo"),
    ("REGEXP_EXTRACT('ab', '(a)(b)', m + 4)", "b"), ("REGEXP_EXTRACT('foobar', 'o+', 2000000000)", None),
    ("REGEXP_EXTRACT('abcdefghijk', '(a)(b)(c)(d)(e)(f)(g)(h)(i)(j)(k)', 11)", "k"),
    ("REGEXP_EXTRACT('foobar', '\\\\(?o[(]?', 1)", None), ("REGEXP_EXTRACT_ALL('foobar', '(o)', 2)", None),
    ("REGEXP_EXTRACT_ALL('foobar', 'o')", None), ("REGEXP_EXTRACT_ALL('foobar', 'o', 0)", ["o", "o"]),
    ("TO_BASE64('hi')", "aGk="), ("FROM_BASE64('aGk=')", "hi"), ("MD5('a')", "0cc175b9c0f1b6a831c399e269772661"),
    ("SHA1('a')", "86f7e437faa5a7fce15d1ddcb9eaeaea377667b8"), ("SHA256('a') = SHA2('a', 256)", True),
    ("CHAR_LENGTH(SHA224('a'))", 56), ("CHAR_LENGTH(SHA384('a'))", 96), ("CHAR_LENGTH(SHA512('a'))", 128),
    ("DECODE(ENCODE('é', 'UTF-8'), 'UTF-8')", "é"), ("ENCODE('a', 'UTF-16BE')", "AGE="), ("UNHEX('6869')", "aGk="),
    ("PARSE_URL('http://a.org/p?k=v', 'HOST')", "a.org"), ("PARSE_URL('http://a.org/p?k=v', 'QUERY', 'k')", "v"),
    ("PARSE_URL('no url at all', 'HOST')", None), ("URL_ENCODE('a b')", "a+b"), ("URL_DECODE('a+b')", "a b"),
    ("URL_DECODE('%zz')", None), ("PRINTF('%d-%s', n, s)", "7-abc"), ("IS_ALPHA(s)", True), ("IS_ALPHA('äb')", True),
    ("IS_ALPHA('a1')", False), ("IS_ALPHA(gone)", False), ("IS_DIGIT('12')", True), ("IS_DIGIT('12\\n')", False),
    ("IS_DIGIT('')", False), ("IS_DECIMAL('1.5')", True), ("IS_DECIMAL('x')", False),
    # Types
    ("CAST('12' AS INT)", 12), ("TRY_CAST('x' AS INT)", None), ("CAST('abcdef' AS VARCHAR(3))", "abc"),
    ("CAST('abc' AS VARCHAR)", "abc"), ("CAST('a' AS CHAR(3)) || '|'", "a  |"), ("CAST('a' AS BYTES)", "YQ=="),
    ("CAST('a' AS VARBINARY)", "YQ=="), ("CAST(at AS TIMESTAMP(3))", "2020-01-31 12:13:14.5"),
    ("CAST(at AS TIMESTAMP_LTZ(3))", "2020-01-31 12:13:14.5Z"), ("CAST(TRUE AS STRING)", "true"),
    ("TRY_CAST(at AS TIMESTAMP(0))", "2020-01-31 12:13:14.5"), ("CAST('1.5' AS DOUBLE PRECISION)", 1.5),
    # Conditions
    ("IF(n > 5, 'big', 'small')", "big"), ("CASE n WHEN 7 THEN 'seven' ELSE 'other' END", "seven"),
    ("COALESCE(gone, 'x')", "x"), ("NULLIF(n, 7)", None), ("NULLIF(n, 0)", 7), ("IFNULL(gone, 'x')", "x"),
    ("GREATEST(1, 3, 2)", 3), ("GREATEST(n, NULL)", None), ("LEAST(n, m)", -2), ("LEAST(s, gone)", None),
    # Times
    ("CURRENT_DATE >= DATE '2020-01-01'", True), ("CURRENT_TIMESTAMP > TO_TIMESTAMP_LTZ(0, 3)", True),
    ("NOW() > TO_TIMESTAMP_LTZ(0, 0)", True), ("CURRENT_ROW_TIMESTAMP() = NOW()", True),
    ("LOCALTIMESTAMP > TIMESTAMP '2020-01-01 00:00:00'", True), ("UNIX_TIMESTAMP() > 1577836800", True),
    ("CURRENT_TIME = LOCALTIME", True), ("TIMESTAMP '2020-01-31 12:13:14'", "2020-01-31 12:13:14"),
    ("DATE '2020-01-31'", "2020-01-31"), (f"DATE_FORMAT({T}, 'yyyy/MM/dd HH:mm:ss.SSS')", "2020/01/31 12:13:14.500"),
    ("DATE_FORMAT('2020-01-31', 'dd.MM.yy')", "31.01.20"), (f"DATE_FORMAT({T}, 'E \\'Day\\'')", "Fri Day"),
    (f"TIMESTAMPADD(DAY, 1, {T})", "2020-02-01 12:13:14.5"), (f"TIMESTAMPADD(MONTH, 1, {T})", "2020-02-29 12:13:14.5"),
    ("TIMESTAMPADD(DAY, 1, DATE '2020-01-31')", "2020-02-01 00:00:00Z"),
    ("DATE '2020-01-31' + INTERVAL '1' DAY", "2020-02-01"),
    ("TIMESTAMPDIFF(DAY, TIMESTAMP '2020-01-01 00:00:00', TIMESTAMP '2020-01-31 12:00:00')", 30),
    ("TIMESTAMPDIFF(HOUR, TIMESTAMP '2020-01-02 00:00:00', TIMESTAMP '2020-01-01 00:30:00')", -23),
    ("TIMESTAMPDIFF(YEAR, DATE '2019-02-01', DATE '2020-01-31')", 0), (f"EXTRACT(YEAR FROM {T})", 2020),
    (f"EXTRACT(SECOND FROM {T})", 14), (f"EXTRACT(DOW FROM {T})", 6), (f"YEAR({T})", 2020), (f"MONTH({T})", 1),
    (f"QUARTER({T})", 1), (f"WEEK({T})", 5), (f"DAYOFWEEK({T})", 6), ("DAYOFWEEK(DATE '2020-02-02')", 1),
    (f"DAYOFMONTH({T})", 31), (f"DAYOFYEAR({T})", 31), (f"HOUR({T})", 12), (f"MINUTE({T})", 13), (f"SECOND({T})", 14),
    ("TO_TIMESTAMP_LTZ(1500, 3)", "1970-01-01 00:00:01.5Z"), ("TO_TIMESTAMP_LTZ(1, 0)", "1970-01-01 00:00:01Z"),
    ("TO_TIMESTAMP_LTZ(7, 6)", "1970-01-01 00:00:00.000007Z"), ("TO_TIMESTAMP_LTZ(1500)", "1970-01-01 00:00:01.5Z"),
    ("TO_TIMESTAMP_LTZ(n)", "1970-01-01 00:00:00.007Z"), ("TO_TIMESTAMP_LTZ(at)", "2020-01-31 12:13:14.5Z"),
    ("TO_TIMESTAMP_LTZ('2020-01-31 12:13:14')", "2020-01-31 12:13:14Z"),
    ("TO_TIMESTAMP_LTZ('31.01.2020 12', 'dd.MM.yyyy HH')", "2020-01-31 12:00:00Z"),
    ("TO_TIMESTAMP_LTZ('31.01.2020 12', 'dd.MM.yyyy HH', 'Europe/Berlin')", "2020-01-31 11:00:00Z"),
    ("TO_TIMESTAMP('2020-01-31 12:13:14')", "2020-01-31 12:13:14"),
    ("TO_TIMESTAMP('31.01.2020', 'dd.MM.yyyy')", "2020-01-31 00:00:00"), ("TO_DATE('2020-01-31')", "2020-01-31"),
    ("TRY_TO_DATE('x')", None), ("TO_DATE('31.01.2020', 'dd.MM.yyyy')", "2020-01-31"),
    ("FROM_UNIXTIME(44)", "1970-01-01 00:00:44"), ("FROM_UNIXTIME(44, 'mm:ss')", "00:44"),
    ("UNIX_TIMESTAMP('1970-01-01 00:00:44')", 44), ("UNIX_TIMESTAMP('44', 'ss')", 44),
    (f"FLOOR({T} TO DAY)", "2020-01-31 00:00:00Z"), (f"CAST(FLOOR({T} TO MONTH) AS DATE)", "2020-01-01"),
    (f"FLOOR({T} TO WEEK)", "2020-01-26 00:00:00Z"), (f"CEIL({T} TO HOUR)", "2020-01-31 13:00:00Z"),
    ("CEIL(TIMESTAMP '2020-02-01 00:00:00' TO MONTH)", "2020-02-01 00:00:00Z"),
    (f"CEIL({T} TO MONTH)", "2020-02-01 00:00:00Z"),
    ("CONVERT_TZ('1970-01-01 00:00:00', 'UTC', 'America/Los_Angeles')", "1969-12-31 16:00:00"),
    (f"FLOOR({T} TO DECADE)", "2020-01-01 00:00:00Z"), (f"FLOOR({T} TO century)", "2001-01-01 00:00:00Z"),
    (f"FLOOR({T} TO MILLENNIUM)", "2001-01-01 00:00:00Z"), (f"CEIL({T} TO DECADE)", "2030-01-01 00:00:00Z"),
    ("FLOOR(DATE '2000-12-31' TO CENTURY)", "1901-01-01 00:00:00Z"), (f"CEIL({T} TO CENTURY)", "2101-01-01 00:00:00Z"),
    (f"CEILING({T} TO MILLENNIUM)", "3001-01-01 00:00:00Z"), (f"FLOOR({T} TO YEAR)", "2020-01-01 00:00:00Z"),
    (f"FLOOR({T} TO QUARTER)", "2020-01-01 00:00:00Z"), (f"FLOOR({T} TO HOUR)", "2020-01-31 12:00:00Z"),
    (f"FLOOR({T} TO MINUTE)", "2020-01-31 12:13:00Z"), (f"FLOOR({T} TO SECOND)", "2020-01-31 12:13:14Z"),
    ("FLOOR(TIMESTAMP '2020-01-31 12:13:14.1239' TO MILLISECOND)", "2020-01-31 12:13:14.123Z"),
    ("CEIL(TIMESTAMP '2020-01-31 12:13:14.1239' TO MILLISECOND)", "2020-01-31 12:13:14.124Z"),
    (f"EXTRACT(ISODOW FROM {T})", 5), ("EXTRACT(ISODOW FROM DATE '2020-02-02')", 7), (f"EXTRACT(DOY FROM {T})", 31),
    ("EXTRACT(DOW FROM DATE '2020-02-02')", 1), ("EXTRACT(ISOYEAR FROM DATE '2019-12-31')", 2020),
    (f"EXTRACT(WEEK FROM {T})", 5), (f"EXTRACT(QUARTER FROM {T})", 1), (f"EXTRACT(EPOCH FROM {T})", 1580472794),
    ("EXTRACT(EPOCH FROM DATE '1970-01-02')", 86400),
    ("EXTRACT(EPOCH FROM TO_TIMESTAMP_LTZ(4000000000, 0))", 4000000000),
    ("EXTRACT(EPOCH FROM TIMESTAMP '1969-12-31 23:59:59')", -1), (f"EXTRACT(DECADE FROM {T})", 202),
    (f"EXTRACT(CENTURY FROM {T})", 21), ("EXTRACT(CENTURY FROM DATE '2000-12-31')", 20),
    (f"EXTRACT(MILLENNIUM FROM {T})", 3), ("EXTRACT(MILLENNIUM FROM DATE '2000-12-31')", 2),
    ("FLOOR(TIMESTAMP '2020-01-31 12:13:14.123456' TO MICROSECOND)", "2020-01-31 12:13:14.123456Z"),
    (f"EXTRACT(Millisecond FROM {T})", 500), (f"EXTRACT(MICROSECOND FROM {T})", 500000),
    (f"EXTRACT(NANOSECOND FROM {T})", 500000000), ("EXTRACT(MILLISECOND FROM DATE '2020-01-31')", 0),
    (f"TIMESTAMPADD(SQL_TSI_DAY, 1, {T})", "2020-02-01 12:13:14.5"),
    (f"TIMESTAMPADD(hour, -1, {T})", "2020-01-31 11:13:14.5"),
    ("TIMESTAMPDIFF(WEEK, DATE '2020-01-01', DATE '2020-01-31')", 4),
    ("DATE_ADD(DAY, 1, DATE '2020-01-31')", "2020-02-01 00:00:00Z"),
    ("TIMESTAMPADD(DAY, 1, DATE '2020-01-31')", "2020-02-01 00:00:00Z"),
    ("FLOOR('2020-01-31 12:13:14' TO HOUR)", "2020-01-31 12:00:00Z"), ("FLOOR(NULL TO HOUR)", None),
    ("TIME_TRUNC('MINUTE', TIME '12:44:31')", "12:44:00"), ("TIME '12:44:31' + INTERVAL '1' HOUR", "13:44:31"),
    # Collections
    ("ARRAY['a', 'b'][0]", "a"), ("ELEMENT_AT(ARRAY['a', 'b'], 1)", "a"), ("MAP['k', 1]['k']", 1),
    ("ROW(n, 'y')", {"n": 7, "col2": "y"}), ("CARDINALITY(ARRAY[1, 2, 3])", 3), ("CARDINALITY(MAP['k', 1])", 1),
    ("ARRAY_CONTAINS(ARRAY[1, 2], 2)", True), ("ARRAY_POSITION(ARRAY['a', 'b'], 'b')", 2),
    ("ARRAY_DISTINCT(ARRAY[1, 1])", [1]), ("ARRAY_REMOVE(ARRAY[1, 2], 1)", [2]), ("ARRAY_REVERSE(ARRAY[1, 2])", [2, 1]),
    ("ARRAY_CONCAT(ARRAY[1], ARRAY[2], ARRAY[3])", [1, 2, 3]), ("ARRAY_JOIN(ARRAY['a', 'b'], '-')", "a-b"),
    ("ARRAY_SORT(ARRAY[2, NULL, 1])", [None, 1, 2]), ("ARRAY_SORT(ARRAY[2, NULL, 1], FALSE)", [2, 1, None]),
    ("ARRAY_MAX(ARRAY[1, 2])", 2), ("ARRAY_MIN(ARRAY[1, 2])", 1), ("ARRAY_UNION(ARRAY[1], ARRAY[1, 2])", [1, 2]),
    ("ARRAY_APPEND(ARRAY[1], 2)", [1, 2]), ("MAP_KEYS(MAP['k', 1])", ["k"]), ("MAP_VALUES(MAP['k', 1])", [1]),
    ("MAP_UNION(MAP['k', 1], MAP['l', 2])", {"k": 1, "l": 2}), ("MAP_FROM_ARRAYS(ARRAY['k'], ARRAY[1])", {"k": 1}),
    ("ARRAY_CONTAINS(ARRAY[1, NULL], 2)", False), ("ARRAY_CONTAINS(ARRAY[1, NULL], NULL)", True),
    ("ARRAY_CONTAINS(ARRAY[1.5, 2.0], 2)", True), ("ARRAY_CONTAINS(ARRAY[n], 7.0)", True),
    ("ARRAY_CONTAINS(ARRAY[s, gone], gone)", True), ("ARRAY_CONTAINS(SPLIT(gone, ','), NULL)", None),
    ("ARRAY_CONTAINS(SPLIT(gone, ','), gone)", None), ("ARRAY_CONTAINS(ARRAY[1], NULL)", False),
    ("ARRAY_CONTAINS(SPLIT(gone, ','), 'a')", None),
    ("ARRAY_CONTAINS(SPLIT(list, '\\\\.', -1), s)", False), ("NOT ARRAY_CONTAINS(ARRAY[s, gone], 'x')", True),
    ("MAP_UNION(MAP['a', 1], MAP['a', 2])", {"a": 2}), ("MAP['a', 1, 'a', 2]['a']", 2),
    ("STR_TO_MAP('a=1,a=2')", {"a": "2"}), ("ARRAY_SORT(ARRAY[2, NULL, 1], TRUE, FALSE)", [1, 2, None]),
    ("ARRAY_SORT(ARRAY[2, NULL, 1], TRUE, TRUE)", [None, 1, 2]),
    ("ARRAY_SORT(ARRAY[2, NULL, 1], FALSE, TRUE)", [None, 2, 1]),
    ("ARRAY_SORT(ARRAY[s, gone], false, false)", ["abc", None]), ("ARRAY_SORT(SPLIT(gone, ','), TRUE, FALSE)", None),
    # JSON
    ("JSON_VALUE(json, '$.a.b')", "1"), ("JSON_VALUE(json, 'lax $.a.b' RETURNING INTEGER)", 1),
    ("JSON_VALUE(json, '$.x' NULL ON EMPTY)", None), ("JSON_VALUE(json, '$.z')", None),
    ("JSON_VALUE('{\"a b\":[\"x\"]}', '$.[\"a b\"][0]')", "x"), ("JSON_VALUE('{\"a b\":1}', '$.[''a b'']')", "1"),
    ("JSON_VALUE('{', '$.a')", None), ("JSON_VALUE(json, '$.a')", '{"b":1}'), ("JSON_QUERY(json, '$.a')", '{"b":1}'),
    ("JSON_QUERY(json, '$.a.b')", None), ("JSON_EXISTS(json, '$.a')", True), ("JSON_EXISTS(json, '$.b')", False),
    ("JSON_EXISTS(json, '$.z')", True), ("JSON_EXISTS('{', '$.a')", False),
    ("JSON_EXISTS('{\"a\":[{\"b\":1}]}', 'lax $.a[*].b' FALSE ON ERROR)", True), ("PARSE_JSON('[1, 2]')", "[1,2]"),
    ("TRY_PARSE_JSON('[')", None),
    ("JSON_QUERY('{\"a\":\"[1]\"}', '$.a')", None), ("JSON_QUERY('{\"a\":[1]}', 'lax $.a')", "[1]"),
    ("JSON_QUERY('{\"a\":{\"b\":\"\"}}', '$')", '{"a":{"b":""}}'), ("JSON_QUERY('[[1, \"[\"]]', '$[0]')", '[1,"["]'),
    ("JSON_QUERY('[\"[\"]', '$[0]')", None), ("JSON_QUERY('{', '$')", None), ("JSON_QUERY(gone, '$')", None),
    ("JSON_QUERY('{\"a\":\"{}\"}', LEFT('$.a', 3))", None), ("JSON_QUERY(json, LEFT('$.a', 3))", '{"b":1}'),
    # Literals
    ("'it''s'", "it's"), ("'a\\tb'", "a\tb"), ("r'\\d'", "\\d"), ("r'NOW'", "NOW"), ("'\\\\d'", "\\d"),
]  # fmt: skip
REFUSED: list[tuple[str, str]] = [
    ("n BETWEEN SYMMETRIC 8 AND 5", "LEAST(b, c) AND GREATEST(b, c)"),
    ("builtin.LTRIM('x', padded)", "by its name alone"),
    ("s SIMILAR TO list", "RLIKE"),
    ("s SIMILAR TO 'a' ESCAPE 'ab'", "one character"),
    ("s SIMILAR TO 'a(' ", "not a pattern"),
    ("s SIMILAR TO 'a!' ESCAPE '!'", "nothing follows"),
    ("s LIKE 'a\\_' ESCAPE '\\'", "one backslash is written '\\\\'"),
    ("json IS JSON", "TRY_PARSE_JSON(s) IS NOT NULL"),
    ("json IS NOT JSON OBJECT", "TRY_PARSE_JSON(s) IS NOT NULL"),
    ("RAND(1)", "a seed has no meaning"),
    ("RAND_INTEGER(1, 5)", "a seed has no meaning"),
    ("INSTR(s, 'a', 2)", "LOCATE(part, s, from)"),
    ("SPLIT(s, '.')", "SPLIT(s, 'pattern', -1)"),
    ("SPLIT(s, list)", "SPLIT(s, 'pattern', -1)"),
    ("REGEXP_REPLACE(s, '\\d', '')", "write '\\\\d'"),
    ("REGEXP(s, '\\bx')", "is a backspace"),
    ("TO_TIMESTAMP_LTZ(n, 9)", "seconds (0), milliseconds (3) or microseconds (6)"),
    ("JSON_VALUE(json, 'strict $.a')", "leave out 'strict'"),
    ("JSON_VALUE(json, '$.a' DEFAULT 'x' ON EMPTY)", "COALESCE(JSON_VALUE(s, path), other)"),
    ("JSON_QUERY(json, '$.a' WITH CONDITIONAL WRAPPER)", "'[' || JSON_QUERY"),
    ("JSON_EXISTS(json, '$.a' ERROR ON ERROR)", "what cannot be read is FALSE"),
    ("DATE_FORMAT(at, 'YYYY-MM')", "y is the year"),
    ("TO_DATE(at, 'dd.MM.uuuu')", "y is the year"),
    ("TRUNCATE(d, 1)", "FLOOR(x, digits)"),
    ("JSON_OBJECT('a' VALUE n)", "TO_JSON(NAMED_STRUCT("),
    ("JSON_ARRAY(n)", "TO_JSON(ARRAY(a, b))"),
    ("JSON_STRING(n)", "TO_JSON(x)"),
    ("HASHCODE(s)", "HASH(x)"),
    ("ELEMENT(ARRAY[1])", "ELEMENT_AT(x, 1)"),
    ("ARRAY_SLICE(ARRAY[1], 1, 2)", "SLICE(x, from, length)"),
    ("ARRAY_SORT(ARRAY[1], n > 1, TRUE)", "ARRAY_SORT takes TRUE or FALSE"),
    ("PROCTIME()", "NOW()"),
    ("(at, at) OVERLAPS (at, at)", "a_start < b_end"),
    ("UPER(s)", "did you mean 'UPPER'?"),
    ("`uper`(s)", "did you mean 'UPPER'?"),
    ("COALESC(s, 'x')", "did you mean 'COALESCE'?"),
    ("LEFT(SPLITINDEX(s, ',', 0), 1)", "did you mean 'SPLIT_INDEX'?"),
    ("no_such_thing(s)", "is not known"),
    ("STRPOS(s, 'a')", "write LOCATE(part, s)"),
    ("COUNT(*)", "sees many rows"),
    ("SUM(n)", "sees many rows"),
    ("n + max(n)", "GREATEST(a, b)"),
    ("LAG(n)", "needs the rows around"),
    ("EXPLODE(ARRAY[1])", "several rows"),
    ("COLLECT(n)", "sees many rows"),
    ("TUMBLE(at, INTERVAL '1' DAY)", "sees many rows"),
    ("FLOOR(at TO FOO)", "FLOOR has no unit 'FOO': there are DECADE, CENTURY, MILLENNIUM, YEAR, QUARTER, MONTH"),
    ("FLOOR(TIMESTAMP '2020-01-31 12:13:14' TO DAYS)", "FLOOR has no unit 'DAYS'"),
    ("UPPER(CEIL(at TO 'DAI'))", "CEIL has no unit 'DAI'"),
    ("CEILING(at TO NANOSECOND)", "CEIL has no unit 'NANOSECOND'"),
    ("EXTRACT(FORTNIGHT FROM at)", "EXTRACT has no unit 'FORTNIGHT': there are YEAR, QUARTER, MONTH, WEEK, DAY, DOW"),
    ("TIMESTAMPADD(DAYS, 1, at)", "TIMESTAMPADD has no unit 'DAYS': there are YEAR, QUARTER"),
    ("TIMESTAMPADD('DAI', 1, at)", "TIMESTAMPADD has no unit 'DAI'"),
    ("TIMESTAMPDIFF(DECADE, at, at)", "TIMESTAMPDIFF has no unit 'DECADE'"),
    ("DATE_ADD(s, 1, at)", "DATE_ADD has no unit 's'"),
    ("DATE_TRUNC('FOO', at)", "DATE_TRUNC has no unit 'FOO'"),
    ("TRUNC(at, 'DAY')", "TRUNC has no unit 'DAY'"),
    ("DATE_PART('EPOCH', at)", "DATE_PART has no unit 'EPOCH'"),
    ("TIME_TRUNC('DAY', at)", "TIME_TRUNC has no unit 'DAY'"),
    ("at + INTERVAL '1' DECADE", "INTERVAL has no unit 'DECADE': there are YEAR, MONTH"),
    ("at - INTERVAL 1 QUARTER", "INTERVAL has no unit 'QUARTER'"),
    ("n +", "the expression ends after '+'"),
    ("UPPER(s ||)", "something is missing between '||' and ')'"),
    ("n > AND s = 'x'", "something is missing between '>' and 'AND'"),
    ("CASE WHEN n > 1 THEN 2", "CASE has no END"),
]


def words(text: str) -> set[str]:
    """Return the capital words of a text, without what is in quotes in it."""
    return set(re.findall(r"\b[A-Z][A-Z0-9_]+\b", re.sub(r"'(''|[^'])*'", "''", text)))


def test_the_page_says_no_word_that_is_not_tested_here() -> None:
    table = PAGE.read_text().partition("## Expressions")[2].partition("\n## ")[0]
    first = [line.split(" | ")[0] for line in table.splitlines() if line.startswith("| ")]
    codes = [code for cell in first for found in re.findall(r"`([^`]+)`|<code>(.*?)</code>", cell) for code in found]
    said = set().union(*map(words, codes))
    tested = set().union(*(words(text) for text, _ in [*CASES, *REFUSED]))
    assert len(said) > 100
    assert said - tested == set()


def computed(cases: list[tuple[str, Any]], zone: str) -> dict[str, Any]:
    """Compute all cases in one query."""
    text = ", ".join(["id", *(f"{sql} AS c{i}" for i, (sql, _) in enumerate(cases))])
    rule = {"source-table": "topic", "primary-keys": "id", "projection": text}
    settings: dict[str, Any] = {"transform": [rule], "pipeline": {"local-time-zone": zone}}
    ran = run([(None, json.dumps(ROW).encode())], source={"value.format": "json"}, sink={}, **settings)
    assert ran.error is None
    assert ran.rejects == []
    ((_, _, value),) = ran.records
    assert value is not None
    row = json.loads(value)
    return {sql: row[f"c{i}"] for i, (sql, _) in enumerate(cases)}


@pytest.fixture(scope="module")
def found(java: None) -> dict[str, Any]:  # noqa: ARG001
    """Return the value of each case."""
    return computed(CASES, "UTC")


def test_expressions_have_their_value_and_type(found: dict[str, Any]) -> None:
    assert {sql: (found[sql], wanted) for sql, wanted in CASES if repr(found[sql]) != repr(wanted)} == {}


IN_BERLIN: list[tuple[str, Any]] = [
    ("TO_TIMESTAMP_LTZ('31.01.2020 12', 'dd.MM.yyyy HH')", "2020-01-31 12:00:00Z"),
    ("TO_TIMESTAMP_LTZ('31.01.2020 12', 'dd.MM.yyyy HH', 'Asia/Tokyo')", "2020-01-31 03:00:00Z"),
    ("TO_TIMESTAMP_LTZ(at)", "2020-01-31 11:13:14.5Z"), ("TO_TIMESTAMP(at)", "2020-01-31 12:13:14.5"),
    ("TO_TIMESTAMP('29.03.2020 02:30', 'dd.MM.yyyy HH:mm')", "2020-03-29 02:30:00"),
    ("TIMESTAMP '2020-03-29 02:30:00'", "2020-03-29 02:30:00"), ("FROM_UNIXTIME(44)", "1970-01-01 01:00:44"),
    ("UNIX_TIMESTAMP('1970-01-01 01:00:44')", 44), ("CAST(at AS TIMESTAMP_LTZ(3))", "2020-01-31 11:13:14.5Z"),
    ("FLOOR(TO_TIMESTAMP_LTZ(1580515200, 0) TO DAY)", "2020-01-31 23:00:00Z"),
    ("CONVERT_TZ('1970-01-01 00:00:00', 'UTC', 'America/Los_Angeles')", "1969-12-31 16:00:00"),
    ("EXTRACT(EPOCH FROM TIMESTAMP '1970-01-02 00:00:01')", 86401), ("EXTRACT(EPOCH FROM DATE '1970-01-02')", 86400),
    ("EXTRACT(EPOCH FROM TO_TIMESTAMP_LTZ(1, 0))", 1),
]  # fmt: skip


@pytest.mark.usefixtures("java")
def test_times_are_those_of_the_pipelines_zone() -> None:
    found = computed(IN_BERLIN, "Europe/Berlin")
    assert {sql: (found[sql], wanted) for sql, wanted in IN_BERLIN if found[sql] != wanted} == {}


@pytest.mark.usefixtures("found")
def test_the_names_are_those_of_the_spark_that_is_installed() -> None:
    session: Any = SparkSession.getActiveSession()
    registry = session._jvm.org.apache.spark.sql.catalyst.analysis.FunctionRegistry.functionSet()
    names = registry.iterator()
    there = {name for _ in range(registry.size()) if (name := names.next().funcName()).isidentifier()}
    known = catalog.SCALAR | catalog.AGGREGATES | catalog.WINDOWS | catalog.GENERATORS
    assert there - known == set()
    assert known - there <= {"json_tuple", "stack", "variant_explode", "variant_explode_outer"}


@pytest.mark.parametrize(("text", "instead"), REFUSED)
def test_what_is_not_there_says_what_to_write(text: str, instead: str) -> None:
    errors = []
    try:
        projection(f"id, {text} AS x")
    except TextError as exc:
        errors.append(exc)
    errors += unknown_functions(text, {"mine"})
    assert [error for error in errors if instead in str(error)]


def test_the_pipelines_own_functions_are_known() -> None:
    assert [*unknown_functions("mine(TRIM(BOTH 'x' FROM s)) + Theirs(1)", {"mine", "theirs"})] == []


WRONG: list[tuple[str, str, str]] = [
    ("amount + 1", "has no column 'amount', did you mean 'Amount'?", "^^^^^^"),
    ("LTRIM(S, 'x')", "has no column 'S', did you mean 's'?", "      ^"),
    ("UPPER(payload.a)", "json.infer-schema.flatten-nested-columns.enable", "      ^^^^^^^^^"),
    ("payload['a']", "JSON_VALUE(payload, '$.field')", ""),
    ("n + flag", 'Cannot resolve "(n + flag)" due to data type mismatch: the left and right operands', ""),
    ("DATE_SUB(s, 1, 2)", "The `date_sub` requires 2 parameters but the actual number is 3.\n", ""),
    ("n BETWEEN 1", "syntax error at its end\n", "           ^"),
    ("n s z", "syntax error at 'z'", "    ^"),
    ("CAST(flag AS DATE)", 'cannot cast "BOOLEAN" to "DATE".\n', ""),
    ("FLOOR(TIME '12:44:31' TO MINUTE)", "of a TIME: write TIME_TRUNC('MINUTE', t)", ""),
    ("CEIL(CAST(s AS TIME) TO HOUR)", "of a TIME: write TIME_TRUNC('HOUR', t)", ""),
    ("TIMESTAMPADD(HOUR, 1, TIME '12:44:31')", "of a TIME: write t + INTERVAL '1' HOUR", ""),
]
NOISE = re.compile(r"SQLSTATE|\[[A-Z_]+\]|java|spark\.|\bat \w+\.\w+\(|Project|== SQL|\b[sldb]0\b")


def fails(text: str, **row: Any) -> str:
    """Return what a run says that ends with an expression."""
    given = {"id": 1, "s": "abc", "n": 7, "Amount": 3, "payload": {"a": 1}, "flag": True, **row}
    rule = {"source-table": "topic", "primary-keys": "id", "projection": f"id, {text} AS x"}
    source = {"value.format": "json", "ingestion.ignore-errors": False}
    error = run([(None, json.dumps(given).encode())], source=source, transform=[rule], sink={}).error
    assert error is not None
    assert not NOISE.search(str(error))
    return error.message


@pytest.mark.usefixtures("java")
def test_what_spark_does_not_take_is_said_in_its_words_without_its_plan() -> None:
    for text, why, mark in WRONG:
        said = fails(text)
        assert why in said, text
        assert f"\n  {text}\n  {mark}" in said, text


@pytest.mark.usefixtures("java")
def test_what_fails_for_a_row_is_said_in_sparks_words() -> None:
    failed = "cannot be computed for this row: "
    assert f"x: 10 / n: {failed}Division by zero. TRY_DIVIDE gives NULL instead. (table topic)" in fails("10 / n", n=0)
    malformed = f'{failed}The value \'a b\' of the type "STRING" cannot be cast to "INT" because it is malformed.'
    assert malformed in fails("CAST(s AS INT)", s="a b")
    assert f"{failed}The index 3 is out of bounds." in fails("ARRAY[s][n]", n=3)
    assert f"{failed}topic/abc" in fails("RAISE_ERROR(__table_name__ || '/' || s)")
    assert f"{failed}The value of parameter(s) `regexp` in `rlike` is invalid: '('." in fails("s RLIKE '('")

"""Projections and filters, as far as their text tells."""

from __future__ import annotations

import pytest

from ingest.flow.expressions import condition, projection
from ingest.model.text import TextError


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("\\*", [("*", None)]),
        ("*, UPPER(name) AS name", [("*", None), ("name", "UPPER(name)")]),
        ("id, `a b`, n * 2 AS `twice n`", [("id", None), ("a b", None), ("twice n", "n * 2")]),
        ("CAST(a AS STRING) AS b", [("b", "CAST(a AS STRING)")]),
        ("IF(a, 'x, y', \"z\") AS c", [("c", "IF(a, 'x, y', \"z\")")]),
        ("a || '.' || b identifier", [("identifier", "a || '.' || b")]),
        ("CASE WHEN a THEN 1 ELSE 2 END kind, id", [("kind", "CASE WHEN a THEN 1 ELSE 2 END"), ("id", None)]),
        ("__table_name__, 1 AS one", [("__table_name__", None), ("one", "1")]),
    ],
)
def test_projections(text: str, items: list[tuple[str, str | None]]) -> None:
    found = [(item.name, None if item.expression is None else item.expression.sql) for item in projection(text)]
    assert found == items


@pytest.mark.parametrize(
    ("text", "sql"),
    [
        ("ARRAY[1, ARRAY[x][1]]", "array(1, array(x)[1])"),
        ("MAP['a', 1]['a']", "map('a', 1)['a']"),
        ("ROW(a, 1, b.c, d + 1 AS e)", "named_struct('a', a, 'col2', 1, 'c', b.c, 'e', d + 1)"),
        ("a SIMILAR TO 'x%_.y'", "a RLIKE '(?s)\\\\A(?:x.*.\\\\.y)\\\\z'"),
        ("a SIMILAR TO 'x!%' ESCAPE '!' AND b", "a RLIKE '(?s)\\\\A(?:x%)\\\\z' AND b"),
        ("NOT a SIMILAR TO 'b''c'", "NOT a RLIKE '(?s)\\\\A(?:b\\'c)\\\\z'"),
        ("TO_TIMESTAMP_LTZ(n + 1, 3)", "timestamp_millis(n + 1)"),
        ("TO_TIMESTAMP_LTZ(n, 0)", "timestamp_seconds(n)"),
        ("TO_TIMESTAMP_LTZ('2020-01-01 00:00:00')", "to_timestamp_ltz('2020-01-01 00:00:00')"),
        ("LOCALTIMESTAMP > at", "CAST(timestamp_micros(`__ingest.now`) AS TIMESTAMP_NTZ) > at"),
        ("f(NOW(), x)", "f(timestamp_micros(`__ingest.now`), x)"),
        ("UUID() || UUID()", "`__ingest.uuid.0` || `__ingest.uuid.10`"),
        ("REGEXP_EXTRACT(s, 'a(b)')", "get(regexp_extract_all(s, 'a(b)', 0), 0)"),
        ("REGEXP_EXTRACT(s, 'a(b)', 1)", "get(regexp_extract_all(s, 'a(b)', 1), 0)"),
        ("LTRIM(f(a, b), NOW())", "TRIM(LEADING (timestamp_micros(`__ingest.now`)) FROM (f(a, b)))"),
        ("SUBSTRING(s, 2, 3) || SUBSTR(s FROM 2)", "substring(s, 2, 3) || substring(s, 2)"),
        ("CAST(a AS VARCHAR)", "CAST(a AS STRING)"),
        ("CAST(a AS VARCHAR(3))", "left(CAST(a AS STRING), 3)"),
        ("TRY_CAST(f(a, SHA256(b)) AS TIMESTAMP(3))", "TRY_CAST(f(a, sha2(b, 256)) AS TIMESTAMP_NTZ)"),
        ("CAST(a AS TIMESTAMP_LTZ(3))", "CAST(a AS TIMESTAMP)"),
        ("CAST(a AS TIMESTAMP(3) WITH LOCAL TIME ZONE)", "CAST(a AS TIMESTAMP)"),
        ("FLOOR(at TO DAY) = FLOOR(n)", "date_trunc('DAY', at) = FLOOR(n)"),
        ("a.now() || `ROW`(1)", "a.now() || `ROW`(1)"),
        ("exists(a, x -> x > 1)", "exists(a, x -> x > 1)"),
    ],
)
def test_flinks_words_become_sparks(text: str, sql: str) -> None:
    assert condition(text).sql == sql


@pytest.mark.parametrize(
    ("text", "why", "at"),
    [
        ("a, ", "missing after", 2),
        (", a", "missing before", 0),
        ("f(a AS b", "not closed", 1),
        ("f a)) AS b", "closes nothing", 3),
        ("UPPER(a)", "needs a name", 0),
        ("a +", "ends after '\\+'", 2),
        ("id, amount * AS total", "ends after '\\*'", 11),
        ("f(a, b AND) AS c", "missing between 'AND' and '\\)'", 7),
        ("a LIKE AS b", "ends after 'LIKE'", 2),
        ("CASE WHEN a THEN 1 AS b", "CASE has no END", 0),
        ("a || '\\d' AS b", "would be 'd' alone", 6),
        ("a, a", "twice", 3),
        ("*, *", "twice", 3),
        ("f(a) AS b c", "comes one name", 5),
        ("(SELECT 1) AS a", "SELECT has no place", 1),
        ("sum(a) OVER (PARTITION BY b) AS c", "OVER has no place", 7),
        ("reflect('java.lang.System', 'exit') AS a", "outside of the row", 0),
        ("`reflect`('java.lang.System', 'exit') AS a", "outside of the row", 0),
        ("builtin.reflect('java.lang.System', 'exit') AS a", "outside of the row", 8),
        ("`__ingest.now` + 1 AS a", "not for use", 0),
        ("'open AS a", "not closed", 9),
        ("", "nothing is there", 0),
        ("a; b AS c", "no place", 1),
        ("a /* x */ AS b", "comments", 0),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text: str, why: str, at: int) -> None:
    with pytest.raises(TextError, match=why) as raised:
        projection(text)
    assert raised.value.at == at


def test_a_filter_is_one_condition() -> None:
    with pytest.raises(TextError, match="one condition") as raised:
        condition("a > 1, b")
    assert raised.value.at == 7

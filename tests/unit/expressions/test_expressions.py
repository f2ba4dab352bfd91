"""Projections and filters, as far as their text tells."""

from __future__ import annotations

import pytest
from scale import growth

from ingest.expressions.clauses import condition, projection
from ingest.expressions.lint import unknown_functions
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
        ("id, like, then, case", [("id", None), ("like", None), ("then", None), ("case", None)]),
        ("x::MAP<STRING, INT> AS m, a < b AS c", [("m", "x::MAP<STRING, INT>"), ("c", "a < b")]),
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
        (
            "REGEXP_EXTRACT(s, 'a(b)', 1)",
            "IF('' RLIKE '(?!)(?:a(b)\n)|()\\\\1', NULL, get(regexp_extract_all(s, 'a(b)', 1), 0))",
        ),
        ("LTRIM(f(a, b), NOW())", "TRIM(LEADING (timestamp_micros(`__ingest.now`)) FROM (f(a, b)))"),
        ("SUBSTRING(s, 2, 3) || SUBSTR(s FROM 2)", "substring(s, 2, 3) || substring(s, 2)"),
        ("CAST(a AS VARCHAR)", "CAST(a AS STRING)"),
        ("CAST(a AS VARCHAR(3))", "left(CAST(a AS STRING), 3)"),
        ("TRY_CAST(f(a, SHA256(b)) AS TIMESTAMP(3))", "TRY_CAST(f(a, sha2(b, 256)) AS TIMESTAMP_NTZ)"),
        ("CAST(a AS TIMESTAMP_LTZ(3))", "CAST(a AS TIMESTAMP)"),
        ("CAST(a AS TIMESTAMP(3) WITH LOCAL TIME ZONE)", "CAST(a AS TIMESTAMP)"),
        ("FLOOR(at TO DAY) = FLOOR(n)", "date_trunc('DAY', nullif(at, CAST(NULL AS TIMESTAMP))) = FLOOR(n)"),
        ("a.now || `ROW`(1)", "a.now || named_struct('col1', 1)"),
        ("exists(a, x -> x > 1)", "exists(a, x -> x > 1)"),
    ],
)
def test_flinks_words_become_sparks(text: str, sql: str) -> None:
    assert condition(text).sql == sql


@pytest.mark.parametrize(
    "text",
    [
        "CAST(x AS ARRAY<INT>)",
        "CAST(x AS STRUCT<a: STRING>)",
        "CAST(x AS STRUCT<>)",
        "CAST(x AS MAP<STRING, INT>)",
        "TRY_CAST(x AS MAP<STRING, ARRAY<INT>>)",
        "x::ARRAY<INT>",
        "x::ARRAY<INT> = y",
        "x::MAP<STRING, INT>",
        "flags << 1",
        "flags >> 1",
        "flags >>> 1",
        "a !> b",
        "start < end",
        "start = end",
        "ts BETWEEN start AND end",
        "end AND end - start > 3",
        "CASE WHEN start < end THEN 1 ELSE 0 END",
        "CASE WHEN a THEN end END",
        "CASE end WHEN 1 THEN 2 END",
        "CASE WHEN when = then THEN 1 END",
        "CASE case WHEN 1 THEN 2 END + CASE c WHEN 1 THEN CASE WHEN d THEN 1 END END",
        "case + 1",
        "like",
        "then",
        "div",
        "escape",
        "a AND NOT like",
        "like = 'x' OR like LIKE 'y'",
        "div DIV div",
        "t.like",
        "IF(end, like, then)",
        "TRIM(BOTH like FROM x)",
        "IDENTIFIER('id')",
    ],
)
def test_what_spark_has_is_refused_nowhere(text: str) -> None:
    """Types have `<` and `>`, shifts are of several, and no word but a few is reserved."""
    assert condition(text).sql == text
    assert [item.name for item in projection(f"{text} AS a, {text} AS b")] == ["a", "b"]
    assert not [*unknown_functions(text, ())]


@pytest.mark.parametrize(
    "text",
    [
        "CAST(" * 400 + "a" + " AS INT)" * 400,
        "SUBSTRING(" * 400 + "a" + ", 1)" * 400,
        "ARRAY[" * 2000 + "]" * 2000,
        "(" * 3000 + ")" * 3000,
    ],
)
def test_brackets_in_one_another_have_a_limit(text: str) -> None:
    with pytest.raises(TextError, match="more than 100 brackets are in one another") as raised:
        condition(text)
    assert text[raised.value.at] in "(["
    assert not [*unknown_functions(text, ())]
    assert condition("ROW(" * 100 + "a" + ")" * 100)


@pytest.mark.parametrize("deep", [12, 60])
def test_calls_in_one_another_may_not_grow_without_end(deep: int) -> None:
    with pytest.raises(TextError, match="too long"):
        condition("GREATEST(a, " * deep + "b" + ")" * deep)
    assert condition("GREATEST(a, " * 8 + "b" + ")" * 8)


@pytest.mark.parametrize(
    ("head", "again", "tail"), [("a IS ", "NOT ", ""), ("", "CASE a ", "WHEN"), ("", "a AND ", "")]
)
def test_long_texts_are_read_in_time_by_their_length(head: str, again: str, tail: str) -> None:
    def read(times: int) -> None:
        with pytest.raises(TextError):
            condition(head + again * times + tail)

    assert growth(read, 1000, 3) < 3


def test_many_unknown_functions_are_found_in_time_by_their_number() -> None:
    def find(count: int) -> None:
        text = " + ".join(f"unknown_{i}(a)" for i in range(count))
        assert len([str(error) for error in unknown_functions(text, ())]) == count

    assert growth(find, 250, 3) < 3
    assert "did you mean 'UPPER'?" in str(next(unknown_functions("UPER(a)", ())))


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
        ("CASE WHEN a THEN END AS b", "missing between 'THEN' and 'END'", 12),
        ("CASE WHEN a AND THEN 1 END AS b", "missing between 'AND' and 'THEN'", 12),
        ("a > AND b = 1 AS c", "missing between '>' and 'AND'", 2),
        ("a IS NOT AS b", "ends after 'NOT'", 5),
        ("f(a >) AS b", "missing between '>' and '\\)'", 4),
        ("CAST(x AS ROW<a INT>) AS b", "type ROW is not there: write STRUCT<name: type>", 10),
        ("CAST(x AS ARRAY<MULTISET<INT>>) AS b", "type MULTISET is not there", 16),
        ("IDENTIFIER('reflect')('java.lang.System', 'exit') AS a", "called by its name", 0),
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

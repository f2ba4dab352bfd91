"""What expressions mean: each word of the table in docs/transforms.md, with the value that Flink SQL has, in one query.

Where Spark's meaning stays, the page says so ("different"), and the value here is Spark's.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from expression_cases import CASES, REFUSED
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
def found(java: None) -> dict[str, Any]:
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

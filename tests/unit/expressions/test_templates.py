"""Literals that become columns of a plan, so that rules which differ in them only are one expression."""

from __future__ import annotations

import pytest

from ingest.expressions.clauses import template


@pytest.mark.parametrize(
    ("sql", "taken_out", "literals"),
    [
        ("amount * 5 + 2", "amount * `__ingest.int.0` + `__ingest.int.1`", [5, 2]),
        ("n >= -3", "n >= -`__ingest.int.0`", [3]),
        ("UPPER(a) || '-7' || b", "UPPER(a) || `__ingest.string.0` || b", ["-7"]),
        ("a % 10 <> 3 AND b LIKE 'x%'", "a % `__ingest.int.0` <> `__ingest.int.1` AND b LIKE 'x%'", [10, 3]),
        ("CASE WHEN id > 1 THEN 1 END", "CASE WHEN id > `__ingest.int.0` THEN 1 END", [1]),
        ("f(a[0] + 1, 2)", "f(a[0] + `__ingest.int.0`, 2)", [1]),
    ],
)
def test_operands_become_columns(sql: str, taken_out: str, literals: list[int | str]) -> None:
    made, found = template(sql)
    assert made == taken_out
    assert [value for _, value in found] == literals


@pytest.mark.parametrize(
    "sql",
    [
        "a = 3000000000", "5L + a", "a - 1.5", "1e3 * a", "a IN (1, 2)", "CAST(a AS DECIMAL(10, 2))",
        "t + INTERVAL 5 DAY", "DATE '2020-01-01' = d", "status = 'new'", "a || 'x\\'y'", "'a' 'b' || c", "ROUND(a, 2)",
        "date_format(t, 'yyyy')", "a RLIKE 'x' || b",
    ],
)  # fmt: skip
def test_what_means_more_than_a_column_of_its_type_stays(sql: str) -> None:
    assert template(sql) == (sql, ())

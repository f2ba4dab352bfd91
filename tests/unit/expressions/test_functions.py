"""Functions of the user's own: what their annotations say, and what becomes of their errors."""

from __future__ import annotations

import datetime as dt
import sys
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any

import pandas as pd  # noqa: TC002  (as above)
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from ingest.expressions.clauses import calls
from ingest.expressions.functions import FunctionError, load
from ingest.model import types
from ingest.transform.user_functions import caller

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


# Of the functions that raise NotImplementedError only the annotations are read: none is ever called
def plain(a: int, b: str | None, c: float = 1.0, *, d: int = 1) -> list[dict[str, bool]]:
    raise NotImplementedError


def times(a: dt.date, b: dt.datetime, c: dt.time, d: bytes) -> Decimal:
    raise NotImplementedError


def said(a: Annotated[int | None, "INT"]) -> Annotated[str, "varchar(3)"]:
    raise NotImplementedError


def arrays(a: pa.Array, b: Annotated[pa.Array, "INT"]) -> Annotated[pa.StringArray, "STRING"]:
    raise NotImplementedError


def series(a: pd.Series) -> Annotated[pd.Series, "DOUBLE"]:
    raise NotImplementedError


@pytest.mark.parametrize(
    ("function", "takes", "gives", "batch"),
    [
        (plain, ["BIGINT", "STRING?", "DOUBLE="], "ARRAY<MAP<STRING, BOOLEAN>>", ""),
        (times, ["DATE", "TIMESTAMP", "TIME(6)", "BYTES"], "DECIMAL(38,18)", ""),
        (said, ["INT?"], "VARCHAR(3)", ""),
        (arrays, ["any?", "INT?"], "STRING", "arrow"),
        (series, ["any?"], "DOUBLE", "pandas"),
    ],
)
def test_annotations_are_types(function: Callable[..., Any], takes: list[str], gives: str, batch: str) -> None:
    found = load("f", f"{__name__}:{function.__name__}")
    shown = [
        f"{'any' if p.type is None else types.name(p.type)}{'?' if p.nullable else ''}{'=' if p.optional else ''}"
        for p in found.takes
    ]
    assert (shown, types.name(found.gives), found.batch) == (takes, gives, batch)


def no_annotation(a, b: int) -> int:  # type: ignore[no-untyped-def]  # noqa: ANN001  (that is the test)
    raise NotImplementedError


def no_result(a: int):  # type: ignore[no-untyped-def]  # noqa: ANN201  (that is the test)
    raise NotImplementedError


def any_number(*a: int) -> int:
    raise NotImplementedError


def either(a: int | str) -> int:
    raise NotImplementedError


def no_type(a: complex) -> int:
    raise NotImplementedError


def wrong_type(a: int) -> Annotated[int, "NUMBER"]:
    raise NotImplementedError


def unsaid(a: pa.Array) -> pa.Array:
    raise NotImplementedError


def mixed(a: pa.Array, b: int) -> Annotated[pa.Array, "STRING"]:
    raise NotImplementedError


def unknown(a: Nowhere) -> int:  # type: ignore[name-defined]  # noqa: F821
    raise NotImplementedError


@pytest.mark.parametrize(
    ("python", "why"),
    [
        ("no_annotation", "parameter 'a' has no annotation"),
        ("no_result", "does not say what it gives"),
        ("any_number", "fixed number of arguments"),
        ("either", "several types at once"),
        ("no_type", "no column has the type complex"),
        ("wrong_type", "no type is named 'NUMBER'"),
        ("unsaid", "the type of its elements is needed"),
        ("mixed", "either values, or Arrow arrays"),
        ("unknown", "NameError: name 'Nowhere' is not defined"),
        ("pytest", "no plain Python function"),
        ("gone", "has no function 'gone'"),
        ("os.path:join; import x", "is not module:function"),
        ("nowhere.at_all:f", "cannot be imported: ModuleNotFoundError"),
    ],
)
def test_what_cannot_be_called_is_said(python: str, why: str) -> None:
    with pytest.raises(FunctionError) as caught:
        load("f", python if ":" in python else f"{__name__}:{python}")
    assert why in str(caught.value)


def test_a_module_that_fails_or_exits_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "leaves.py").write_text("import sys\nsys.exit(3)\n")
    (tmp_path / "broken.py").write_text("def f(:\n")
    for name, why in (("leaves", "SystemExit: 3"), ("broken", "SyntaxError")):
        with pytest.raises(FunctionError) as caught:
            load("f", f"{name}:f")
        assert why in str(caught.value)
        sys.modules.pop(name, None)


def tenth(n: int) -> int:
    return 10 // n


def wrong(n: int) -> str:
    return n if n % 2 else str(n)  # type: ignore[return-value]


def rounded(n: Decimal) -> Annotated[Decimal, "DECIMAL(5,2)"]:
    return n / 3


def doubled(n: Annotated[pa.Array, "BIGINT"]) -> Annotated[pa.Array, "BIGINT"]:
    if pc.any(pc.equal(n, 3)).as_py():
        msg = "a three\nand more"
        raise ValueError(msg)
    return pc.multiply(n, 2)


def shorter(n: Annotated[pd.Series, "BIGINT"]) -> Annotated[pd.Series, "BIGINT"]:
    return n[:-1]


def results(name: str, values: list[Any], wanted: list[bool] | None = None) -> list[Any]:
    function = load(name, f"{__name__}:{name}")
    data_type = function.takes[0].type
    assert data_type is not None
    found = caller(function, [data_type])(pa.array(wanted or [True] * len(values)), pa.array(values))
    return [row["v"] if row["ok"] else row["e"] for row in found.to_pylist()]


def test_an_error_is_that_rows_only() -> None:
    by_zero = "tenth: ZeroDivisionError: integer division or modulo by zero"
    assert results("tenth", [5, 0, None, 2]) == [2, by_zero, None, 5]
    assert results("doubled", [1, 2, 3, None, 5]) == [2, 4, "doubled: ValueError: a three", None, 10]


def test_nothing_is_called_for_other_rows() -> None:
    assert results("tenth", [5, 0, 2], [True, False, True]) == [2, None, 5]
    assert results("doubled", [1, 3, 5], [True, False, True]) == [2, None, 10]


def test_results_are_of_the_type_that_was_said() -> None:
    assert results("wrong", [1, 2]) == ["wrong: TypeError: it gave 1, which is no string", "2"]
    assert results("rounded", [Decimal(1), Decimal(3000000)]) == [
        Decimal("0.33"), "rounded: TypeError: it gave Decimal('1000000.00'), which is no decimal128(5, 2)",
    ]  # fmt: skip
    assert results("shorter", [1]) == ["shorter: ValueError: it gave 0 results for 1 rows"]


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("f(a, g(b, 1)) + F()", [("f", ["a", "g(b, 1)"]), ("g", ["b", "1"]), ("f", [])]),
        ("'f(a)' || `f`(x) || t.f(y) || ff(z)", [("f", ["x"])]),
        ("f", []),
        ("h(f((a + 1) * 2), ')')", [("f", ["(a + 1) * 2"])]),
    ],
)
def test_calls(sql: str, found: list[tuple[str, list[str]]]) -> None:
    made = calls(sql, {"f", "g"})
    assert [(c.function, [sql[start:end] for start, end in c.arguments]) for c in made] == found
    assert not any(c.in_lambda for c in made)


@pytest.mark.parametrize("sql", ["transform(a, x -> f(x))", "f(transform(a, x -> x))", "g(a, x -> (1 + f(x)))"])
def test_calls_in_lambdas(sql: str) -> None:
    assert [c.in_lambda for c in calls(sql, {"f"})] == [True]


def test_calls_beside_lambdas() -> None:
    assert [c.in_lambda for c in calls("zip_with(a, f(b), (x, y) -> x) || f(c)", {"f"})] == [False, False]

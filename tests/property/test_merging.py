"""The lattice: the order in which tasks report what they saw cannot matter."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.model import types, values
from ingest.model.schema import Column, TableSchema, changes
from ingest.model.types import ArrayType, MapType, StructField, StructType

NAMES = [
    "NULL", "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "STRING", "BYTES", "DATE",
    "TIMESTAMP",
    "TIMESTAMP_LTZ", "TIME(3)", "TIME(6)", "CHAR(3)", "CHAR(5)", "VARCHAR(4)", "VARCHAR(9)", "DECIMAL(5,2)",
    "DECIMAL(20,0)", "DECIMAL(38,0)", "DECIMAL(38,20)", "DECIMAL(10,9)",
]  # fmt: skip
a_plain_type = st.sampled_from(NAMES).map(types.parse)
a_type: st.SearchStrategy[Any] = st.recursive(
    a_plain_type,
    lambda inner: (
        inner.map(ArrayType)
        | st.builds(MapType, a_plain_type, inner)
        | st.dictionaries(st.sampled_from("abc"), inner, max_size=3).map(
            lambda fields: StructType(tuple(StructField(name, one) for name, one in fields.items()))
        )
    ),
    max_leaves=4,
)


@given(a_type, a_type)
def test_merging_is_commutative(a: Any, b: Any) -> None:
    assert types.merge(a, b) == types.merge(b, a)


@given(a_type, a_type, a_type)
def test_merging_is_associative(a: Any, b: Any, c: Any) -> None:
    assert types.merge(types.merge(a, b), c) == types.merge(a, types.merge(b, c))


@given(a_type, a_type)
def test_merging_is_idempotent_and_absorbs(a: Any, b: Any) -> None:
    assert types.merge(a, a) == a
    merged = types.merge(a, b)
    assert types.merge(merged, a) == merged


@given(a_type)
def test_names_read_back(a: Any) -> None:
    assert types.parse(types.name(a)) == a


@pytest.mark.parametrize(
    ("a", "b", "merged"),
    [
        ("TINYINT", "INT", "INT"), ("SMALLINT", "FLOAT", "FLOAT"), ("INT", "FLOAT", "DOUBLE"),
        ("BIGINT", "DOUBLE", "DOUBLE"),
        ("DECIMAL(5,2)", "INT", "DECIMAL(12,2)"), ("DECIMAL(5,2)", "DECIMAL(4,3)", "DECIMAL(6,3)"),
        ("DECIMAL(38,0)", "DECIMAL(5,2)", "STRING"), ("DECIMAL(5,2)", "DOUBLE", "STRING"),
        ("CHAR(3)", "VARCHAR(2)", "VARCHAR(3)"),
        ("CHAR(3)", "CHAR(5)", "CHAR(5)"), ("VARCHAR(2)", "STRING", "STRING"), ("DATE", "TIMESTAMP", "TIMESTAMP"),
        ("TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_LTZ"), ("DATE", "TIME(3)", "STRING"), ("BOOLEAN", "INT", "STRING"),
        ("NULL", "DATE", "DATE"), ("BYTES", "STRING", "STRING"),
        ("ARRAY<INT>", "ARRAY<DOUBLE>", "ARRAY<DOUBLE>"), ("ARRAY<INT>", "ARRAY<STRING>", "STRING"),
        ("ARRAY<DATE>", "ARRAY<TIMESTAMP>", "ARRAY<STRING>"), ("ARRAY<BYTES>", "ARRAY<STRING>", "ARRAY<STRING>"),
        ("MAP<STRING, INT>", "MAP<STRING, BIGINT>", "MAP<STRING, BIGINT>"), ("MAP<INT, INT>", "ARRAY<INT>", "STRING"),
        ("ROW<b INT>", "ROW<a STRING>", "ROW<a STRING, b INT>"), ("ROW<a INT>", "ROW<a BOOLEAN>", "STRING"),
        ("ROW<a ROW<b INT>>", "ROW<a ROW<b INT, c DATE>>", "ROW<a ROW<b INT, c DATE>>"),
        ("ROW<a INT>", "INT", "STRING"),
    ],
)  # fmt: skip
def test_pairs_of_the_decisions(a: str, b: str, merged: str) -> None:
    assert types.name(types.merge(types.parse(a), types.parse(b))) == merged


json_value = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**45), 10**45)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@given(json_value)
def test_a_value_fits_the_type_that_is_inferred_from_it(value: Any) -> None:
    raw = json.dumps(value).encode("utf-8", "surrogatepass")
    try:
        msgspec.json.decode(raw)
    except msgspec.DecodeError:
        return  # a lone surrogate, or a number past what JSON readers take: never gets here
    inferred = types.infer(raw)
    assert values.fits(inferred, raw)
    assert values.fits(types.merge(inferred, types.STRING), raw)


columns = st.lists(st.tuples(st.sampled_from("abcd"), a_type, st.booleans()), max_size=4, unique_by=lambda c: c[0]).map(
    lambda cs: TableSchema(tuple(Column(*c) for c in cs), ())
)


@given(columns, columns, columns)
def test_schemas_merge_to_the_same_columns_in_any_order(a: TableSchema, b: TableSchema, c: TableSchema) -> None:
    def as_set(schema: TableSchema) -> set[tuple[str, str]]:
        return {(column.name, types.name(column.type)) for column in schema.columns}

    assert as_set(a.merge(b).merge(c)) == as_set(c.merge(a).merge(b)) == as_set(a.merge(b.merge(c)))
    assert a.merge(b).merge(b) == a.merge(b)


@given(columns, columns)
def test_changes_turn_one_schema_into_the_other(a: TableSchema, b: TableSchema) -> None:
    merged = a.merge(b)
    known = {column.name: column.type for column in a.columns}
    for change in changes(("t",), a, merged):
        known[getattr(change, "name", None) or change.column.name] = (  # type: ignore[union-attr]
            change.after if hasattr(change, "after") else change.column.type  # type: ignore[union-attr]
        )
    assert known == {column.name: column.type for column in merged.columns}
    assert TableSchema.from_json(merged.to_json()) == merged

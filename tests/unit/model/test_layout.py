"""Layouts of tables: the texts of `partition-keys` and `table-options`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.model.table import PartitionKey, partition_keys, table_options
from ingest.model.text import TextError


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("", []),
        (" , ", []),
        ("region", [PartitionKey("region")]),
        (" region ,day(created_at)", [PartitionKey("region"), PartitionKey("created_at", "day")]),
        ("days( at )", [PartitionKey("at", "day")]),
        ("BUCKET(16, id),truncate(4,name)", [PartitionKey("id", "bucket", 16), PartitionKey("name", "truncate", 4)]),
        ("a b,ä", [PartitionKey("a b"), PartitionKey("ä")]),
    ],
)
def test_keys_of_a_text(text: str, keys: list[PartitionKey]) -> None:
    assert [*partition_keys(text)] == keys
    assert [*partition_keys(", ".join(map(str, keys)))] == keys


@pytest.mark.parametrize(
    ("text", "why", "at"),
    [
        ("a,week(b)", "'week' is no transform of partitions", 2),
        ("bucket(id)", "bucket needs a number: bucket(16, id)", 0),
        ("a, day(2, b)", "day takes no number: day(b)", 3),
        ("day()", "write day(COLUMN)", 0),
        ("bucket(4, a, b)", "write bucket(N, COLUMN)", 0),
        ("bucket(0, a)", "0 is no number from 1 to", 0),
        ("bucket(99999999999999999999999, a)", "is no number from 1 to", 0),
        ("a, a", "'a' is there twice", 3),
    ],
)
def test_texts_that_are_no_keys(text: str, why: str, at: int) -> None:
    with pytest.raises(TextError) as raised:
        partition_keys(text)
    assert why in str(raised.value)
    assert raised.value.at == at


@given(st.text(alphabet="ab(),9 y\n", max_size=30))
def test_each_text_is_keys_or_an_error_in_it(text: str) -> None:
    keys: tuple[PartitionKey, ...] = ()
    at = 0
    try:
        keys = partition_keys(text)
    except TextError as exc:
        at = exc.at
    assert 0 <= at <= len(text)
    assert all(key.column.strip() == key.column != "" for key in keys)


def test_options_of_a_text() -> None:
    assert table_options("a=1, b = x=y ,,c=", ",") == (("a", "1"), ("b", "x=y"), ("c", ""))
    assert table_options("a=1,2;b=3", ";") == (("a", "1,2"), ("b", "3"))
    for text, at in (("a=1,b", 4), ("=1", 0), ("a=1,a=2", 4)):
        with pytest.raises(TextError) as raised:
            table_options(text, ",")
        assert raised.value.at == at

"""The search for rows that a database refuses, without a database."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.postgres.refusals import Refusal, find_refused

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

BAD = Refusal("22003", "out of range")
ORPHAN = Refusal("23503", "no parent")


class Table:
    """A table of numbers that refuses some of them, and those whose parent is not there."""

    def __init__(self, bad: set[int], parents: Mapping[int, int] | None = None) -> None:
        self.bad, self.parents = bad, parents or {}
        self.rows: set[int] = set()
        self.calls = 0

    def write(self, rows: Sequence[int]) -> Refusal | None:
        self.calls += 1
        if self.bad.intersection(rows):
            return BAD
        there = self.rows.union(rows)
        if any(row in self.parents and self.parents[row] not in there for row in rows):
            return ORPHAN
        self.rows = there
        return None


@given(st.integers(0, 60), st.sets(st.integers(0, 59)))
def test_all_bad_rows_are_found_and_all_others_are_written(count: int, bad: set[int]) -> None:
    table = Table(bad)
    found = find_refused(range(count), table.write)
    assert found == [(row, BAD) for row in range(count) if row in bad], "in their order"
    assert table.rows == {row for row in range(count) if row not in bad}


def test_few_bad_rows_among_many_cost_few_writes() -> None:
    table = Table({17, 40_000})
    assert [row for row, _ in find_refused(range(65_536), table.write)] == [17, 40_000]
    assert table.calls < 2 * 2 * 17


def test_rows_that_need_others_are_tried_again_when_those_are_there() -> None:
    chain = {row: row + 1 for row in range(20)}
    table = Table({25}, chain)
    assert find_refused(range(30), table.write) == [(25, BAD)]
    assert len(table.rows) == 29


def test_rows_that_need_a_refused_one_are_refused() -> None:
    table = Table({3}, {1: 2, 2: 3})
    assert sorted(find_refused(range(5), table.write)) == [(1, ORPHAN), (2, ORPHAN), (3, BAD)]
    assert table.rows == {0, 4}


@pytest.mark.parametrize("bad", [set(), {0}])
def test_one_row_is_not_halved(bad: set[int]) -> None:
    table = Table(bad)
    assert find_refused([0], table.write) == [(row, BAD) for row in bad]
    assert table.calls == 1

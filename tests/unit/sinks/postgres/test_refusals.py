"""The search for rows that a database refuses, without a database."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.sinks.postgres.refusals import Refusal, find_refused

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

BAD = Refusal("22003", "out of range")
ORPHAN = Refusal("23503", "no parent")


TAKEN = Refusal("23505", "taken")


def key_of(row: int) -> int:
    return row


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
    found = find_refused(range(count), table.write, key_of)
    assert found == [(row, BAD) for row in range(count) if row in bad], "in their order"
    assert table.rows == {row for row in range(count) if row not in bad}


def test_few_bad_rows_among_many_cost_few_writes() -> None:
    table = Table({17, 40_000})
    assert [row for row, _ in find_refused(range(65_536), table.write, key_of)] == [17, 40_000]
    assert table.calls < 2 * 2 * 17


def test_rows_that_need_others_are_tried_again_when_those_are_there() -> None:
    chain = {row: row + 1 for row in range(20)}
    table = Table({25}, chain)
    assert find_refused(range(30), table.write, key_of) == [(25, BAD)]
    assert len(table.rows) == 29


def test_rows_that_need_a_refused_one_are_refused() -> None:
    table = Table({3}, {1: 2, 2: 3})
    assert sorted(find_refused(range(5), table.write, key_of)) == [(1, ORPHAN), (2, ORPHAN), (3, BAD)]
    assert table.rows == {0, 4}


@pytest.mark.parametrize("bad", [set(), {0}])
def test_one_row_is_not_halved(bad: set[int]) -> None:
    table = Table(bad)
    assert find_refused([0], table.write, key_of) == [(row, BAD) for row in bad]
    assert table.calls == 1


class Places:
    """A table in which each key is at a place of its own, and a statement moves one key after the other."""

    def __init__(self, **at: str) -> None:
        self.at, self.calls = at, 0

    def write(self, changes: Sequence[tuple[str, str | None]]) -> Refusal | None:
        self.calls += 1
        tried = dict(self.at)
        for key, place in dict(changes).items():
            tried.pop(key, None)
            if place in tried.values():
                return TAKEN
            if place is not None:
                tried[key] = place
        self.at = tried
        return None

    def write_each(self, changes: Sequence[tuple[str, str | None]]) -> Refusal | None:
        """Write all states, not only the last ones."""
        before = self.at
        for change in changes:
            why = self.write([change])
            if why is not None:
                self.at = before
                return why
        return None

    def search(self, *changes: tuple[str, str | None]) -> list[tuple[str, str | None]]:
        """The changes that are refused."""
        return [change for change, _ in find_refused(changes, self.write, lambda change: change[0])]


def test_changes_are_written_in_their_order() -> None:
    table = Places(three="m3", four="m4")
    assert table.search(("three", "tmp"), ("four", "m3"), ("three", "m4")) == []
    assert table.at == {"three": "m4", "four": "m3"}


def test_a_change_that_a_later_one_replaces_is_not_refused() -> None:
    table = Places(a="1", b="2")
    assert table.search(("a", "2"), ("a", "3"), ("c", "3")) == [("c", "3")]
    assert table.at == {"a": "3", "b": "2"}


def test_the_last_of_the_changes_that_are_taken_counts() -> None:
    table = Places(b="2")
    assert table.search(("a", "1"), ("a", "2"), ("a", "2")) == [("a", "2"), ("a", "2")]
    assert table.at == {"a": "1", "b": "2"}


@pytest.mark.parametrize("up", [True, False])
def test_rows_that_all_move_on_cost_few_writes(*, up: bool) -> None:
    count = 300
    table = Places(**{str(row): str(row) for row in range(count)})
    moves = [(str(row), str(row + 1)) for row in range(count)]
    assert table.search(*(moves if up else reversed(moves))) == []
    assert table.at == {str(row): str(row + 1) for row in range(count)}
    assert table.calls < 10 * count


def test_states_that_all_count_are_refused_even_if_a_later_one_is_taken() -> None:
    table = Places(b="2")
    assert find_refused([("a", "2"), ("a", "3")], table.write_each, lambda _: None) == [(("a", "2"), TAKEN)]
    assert table.at == {"a": "3", "b": "2"}


def test_a_change_that_replaces_nothing_leaves_the_one_before_it_refused() -> None:
    table = Places(b="2")
    found = find_refused(
        [("a", "2"), ("a", None)], table.write_each, lambda change: change[0], lambda change: change[1] is not None
    )
    assert found == [(("a", "2"), TAKEN)]

"""Which of the rows with one key stay, against a slow reference that takes one row after the other."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pytest

from ingest.sinks.lake.ordering import Contender, contest

if TYPE_CHECKING:
    import numpy as np


class Row(NamedTuple):
    file: int
    place: int
    key: tuple[int, str]
    value: int | None


def reference(files: list[list[tuple[tuple[int, str], int | None]]], rows: list[bool], came: list[int]) -> Any:
    """Places of rows that are lost and of those that are marked, by file, and how many of the batch are older."""
    best: dict[tuple[int, str], Row] = {}
    lost: set[tuple[int, int]] = set()
    older = 0
    for number, file in enumerate(files):
        for place, (key, value) in enumerate(file if rows[number] else []):
            known, row = best.get(key), Row(number, place, key, value)
            if known is not None and (known.value is not None) and (value is None or value < known.value):
                lost.add((number, place))
                older += came[number] >= 0
                continue
            if known is not None:
                lost.add((known.file, known.place))
            best[key] = row
    marked = {
        (best[key].file, best[key].place)
        for number, file in enumerate(files)
        if not rows[number]
        for key, _ in file
        if key in best and came[number] > came[best[key].file]
    }
    return lost, marked, older


def places(found: list[np.ndarray[Any, Any]]) -> set[tuple[int, int]]:
    return {(number, int(place)) for number, some in enumerate(found) for place in some}


@pytest.mark.parametrize("seed", range(60))
def test_rows_that_stay_are_those_of_the_reference(seed: int) -> None:
    pick = random.Random(seed)
    of_table, of_batch = pick.randrange(3), pick.randrange(1, 4)
    came = [-1] * of_table + list(range(of_batch))
    rows = [True] * of_table + [pick.random() < 0.7 for _ in range(of_batch)]
    files: list[list[tuple[tuple[int, str], int | None]]] = [
        [
            ((pick.randrange(3), pick.choice("ab")), pick.choice([None, *range(4)]))
            for _ in range(pick.choice([0, 1, 8, 20]))
        ]
        for _ in came
    ]
    contenders = []
    for file, has_rows, at in zip(files, rows, came, strict=True):
        numbers, letters = ([key[part] for key, _ in file] for part in (0, 1))
        keys = pa.table({"k0": pa.array(numbers, pa.int32()), "k1": pa.array(letters, pa.string())})
        values = [value if has_rows else None for _, value in file]
        contenders.append(Contender(keys, pa.array(values, pa.int64()), at, has_rows))
    lost, marked, older = reference(files, rows, came)
    found = contest(contenders, marks=True)
    assert (places(found.lost), places(found.marked), found.older) == (lost, marked, older)
    unmarked = contest(contenders, marks=False)
    assert (places(unmarked.lost), places(unmarked.marked)) == (lost, set())

"""Rows that wait for a commit: whatever came, each key has its last state that can be a row, in their order."""

from __future__ import annotations

from typing import Any

import pytest
from examples import examples
from hypothesis import event, given, settings
from hypothesis import strategies as st

from ingest.model import types
from ingest.sinks.lake import rows as lake_rows
from ingest.sinks.lake.pending_rows import PendingRows
from ingest.sinks.lake.rows import UnfitRows, rows_to_batch_by_reference
from ingest.sinks.lake.table import LakeColumn

COLUMNS = (LakeColumn("id", types.BIGINT), LakeColumn("a", types.STRING), LakeColumn("n", types.INT))
KEY = ("id",)
a_key = st.integers(0, 4).map(lambda key: b'{"id":%d}' % key)
a_row = st.sampled_from([
    b'{"a":"x","n":1}', b'{"a":"\\u00e9","n":-0}', b'{"a":[1],"n":2}', b'{"a":"y","n":2147483648}', b'{"n":1e1}', b"{}",
    b"[]", None,
])  # fmt: skip
some_records = st.lists(st.tuples(st.sampled_from(["t", "u"]), a_key, a_row), max_size=8)


def expected(batches: list[list[Any]]) -> tuple[dict[str, list[Any]], list[list[int]]]:
    """The rows of each table, and the places of the records that cannot be rows."""
    states: dict[str, dict[bytes, bytes | None]] = {}
    faults = []
    for batch in batches:
        bad = []
        for place, (table, key, row) in enumerate(batch):
            try:
                rows_to_batch_by_reference(COLUMNS, KEY, [(key, row)])
            except UnfitRows:
                bad.append(place)
                continue
            known = states.setdefault(table, {})
            known.pop(key, None)
            known[key] = row
        faults.append(bad)
    rows = {}
    for table, known in states.items():
        made = rows_to_batch_by_reference(COLUMNS, KEY, [*known.items()]).to_pylist()
        rows[table] = [(one, row is None) for one, row in zip(made, known.values(), strict=True)]
    return rows, faults


def found(batches: list[list[Any]]) -> tuple[dict[str, list[Any]], list[list[int]]]:
    kept = PendingRows(lambda _: (COLUMNS, KEY))
    faults: list[list[int]] = []
    for batch in batches:
        try:
            kept.keep(batch)
            faults.append([])
        except UnfitRows as exc:
            faults.append([place for place, _ in exc.faults])
    rows = {
        table: [*zip(states.rows.to_pylist(), states.gone.to_pylist(), strict=True)] for table, states in kept.take()
    }
    return rows, faults


@settings(max_examples=examples(500))
@given(st.lists(some_records, max_size=4))
def test_each_key_has_its_last_state(batches: list[list[Any]]) -> None:
    wanted = expected(batches)
    event("all are rows" if not any(wanted[1]) else "some are no rows")
    assert found(batches) == wanted
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lake_rows, "BUILT", False)
        assert found(batches) == wanted

"""Doubles of few digits have a way of their own in native code: it reads and writes them as the reference does."""

from __future__ import annotations

import re
from array import array

import pytest
from examples import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ingest.encode.compiled_transform import writer_of
from ingest.model import temporal, types
from ingest.model.reject import RowError
from ingest.native import native

pytestmark = pytest.mark.compiled
if native.BUILT:
    from native_tables import Message, a_table, an_encoder

    from ingest.native.codes import ColumnKind
    from ingest.native.contract import ColumnSpec, ResultSpec, ResultsSpec, SlotSpec, TransformInputSpec
    from ingest.native.merge import merge_results
    from ingest.native.transform_rows import TransformRows

    COLUMNS = (ColumnSpec(b"id", ColumnKind.COLUMN_INT), ColumnSpec(b"a", ColumnKind.COLUMN_DOUBLE))
WRITE = writer_of(types.parse("DOUBLE"), temporal.SQL)
ROW = b'{"id":1,"a":%b}'
a_short_double = st.builds(lambda n, places: n / 10**places, st.integers(-(10**16), 10**16), st.integers(0, 6))
a_number = st.from_regex(re.compile(r"-?(0|[1-9][0-9]{0,16})(\.[0-9]{1,17})?", re.ASCII), fullmatch=True)


def written(value: float) -> list[bytes | None]:
    """Return the rows that native code makes of a result: one, or none if the reference has to look at it."""
    result = ResultSpec(b"a", 0, "d", WRITE)
    table = a_table(columns=COLUMNS, results=ResultsSpec((result,)))
    row = ROW % b"0.5"
    ends = array("i", [0, len(row)]).tobytes()
    one = (0, None, None, array("i", [0]).tobytes())
    kept = [
        one, (0, None, None, array("i", [-1]).tobytes()), (0, None, None, array("q", [5]).tobytes()), one,
        (0, None, ends, row), (0, b"\0", array("i", [0, 0]).tobytes(), b""),
    ]  # fmt: skip
    back = [one, (0, None, None, array("q", [0]).tobytes()), (0, None, None, array("d", [value]).tobytes())]
    batch, *_ = merge_results([table], [], 1, kept, b"d", 1, back, 0, 0, 100)
    return [row for _, _, row in batch]


@settings(max_examples=examples(1000))
@given(st.one_of(st.floats(), a_short_double, a_short_double))
@example(0.0)
@example(-0.0)
@example(99999999999.9999)
@example(1e11)
@example(0.1 + 0.2)
@example(5e-324)
def test_doubles_are_written_as_the_reference_writes_them(value: float) -> None:
    try:
        expected = [ROW % WRITE(value)]
    except RowError:
        expected = []
    if expected and b"e" in expected[0].rpartition(b":")[2]:
        expected = []  # whether it is a double is for the reference to say
    assert written(value) == expected


@settings(max_examples=examples(1000))
@given(a_number)
@example("-0.0")
@example("999999999999999")
@example("0.00000000000001")
@example("9007199254740993")
def test_doubles_are_read_as_the_reference_reads_them(text: str) -> None:
    spec = TransformInputSpec(transform=0, inputs=(SlotSpec(1, 0, "d"),), constants=(None,))
    table = a_table(columns=COLUMNS, transform=spec)
    rows = TransformRows(b"d")
    assert an_encoder(lambda _: table).feed([Message(ROW % text.encode())], 0, rows) == 1
    assert rows.take()[3][1] == (None, None, array("d", [float(text)]).tobytes())

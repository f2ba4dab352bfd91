"""Lines of COPY in native code: what it refuses, and memory of records that is gone."""

from __future__ import annotations

from typing import Any

import pytest

from ingest.native import native

pytestmark = pytest.mark.compiled
if native.BUILT:
    from ingest.sinks.postgres.native.copy_rows import CopyRows
    from ingest.sinks.postgres.statements import CopyColumnSpec

    SPEC = (CopyColumnSpec(b"id", of_key=True), CopyColumnSpec(b"a"))


def test_columns_that_there_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="too many columns"):
        CopyRows(SPEC * 801)
    name: Any = "id"
    with pytest.raises(TypeError, match="a name is bytes"):
        CopyRows((CopyColumnSpec(name),))


def test_records_of_other_types_are_refused_and_the_next_ones_are_taken() -> None:
    rows = CopyRows(SPEC)
    odd: list[Any] = [[("x", b"{}")], [(b"{}", "x")], [b"{}"], [(None, b"{}")]]
    for records in odd:
        with pytest.raises((TypeError, ValueError)):
            rows.lines(records, 0)
    assert rows.lines([(b'{"id":1}', b'{"a":2}')], 5) == b"5\tf\t1\t2\n"
    assert rows.lines([], 5) == b""


def test_memory_grows_with_the_lines() -> None:
    rows = CopyRows(SPEC)
    for size in (10, 3_000_000):
        text = b"\\n" * size
        lines = rows.lines([(b'{"id":%d}' % n, b'{"a":"%s"}' % text) for n in range(3)], 0)
        assert lines == b"".join(b"%d\tf\t%d\t%s\n" % (n, n, text) for n in range(3))
    assert rows.lines([(b'{"id":1}', b'{"a":"x"}'), (b'{"id":null}', None)], 0) is None

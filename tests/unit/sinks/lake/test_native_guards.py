"""Rows of a lake in native code: what they refuse, and memory of records that is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ingest.native import native

pytestmark = pytest.mark.compiled
if native.BUILT:
    from ingest.native.records import EncodedBatch
    from ingest.sinks.lake.native.rows import LakeKeys, LakeKind, LakeRows, keep_batch
    from ingest.sinks.lake.rows import LakeColumnSpec

    SPEC = (LakeColumnSpec(b"id", LakeKind.LAKE_LONG, of_key=True), LakeColumnSpec(b"a", LakeKind.LAKE_TEXT))

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.mark.parametrize(
    ("kind", "first", "second"),
    [("LAKE_KINDS", 0, 0), ("LAKE_INT", 0, 0), ("LAKE_INT", 33, 0), ("LAKE_DECIMAL", 39, 0), ("LAKE_DECIMAL", 5, 6),
     ("LAKE_DECIMAL", 5, -1)],
)  # fmt: skip
def test_columns_that_there_cannot_be_are_refused(kind: str, first: int, second: int) -> None:
    with pytest.raises(ValueError, match=r"a column of no kind|128 bits"):
        LakeRows((LakeColumnSpec(b"a", LakeKind[kind], first, second),))


def test_more_columns_than_any_table_has_are_refused() -> None:
    with pytest.raises(ValueError, match="too many columns"):
        LakeRows(SPEC * 10_000)


def test_records_may_be_gone_when_the_next_one_comes() -> None:
    """A row is compared with the one before it, whose memory may be another object's by then."""

    def records() -> Iterator[tuple[bytes, bytes | None]]:
        for n in range(300):
            key = b"{}" if n % 3 == 2 else b'{"id":%d}' % n  # no row: it lacks its key
            row = None if n % 7 == 6 else b'{"id":%d,"a":"%s","b":%s}' % (n, b"x" * (n % 50), b"1" if n % 11 else b"[")
            yield key, row

    rows = LakeRows(SPEC)
    left = rows.read(records())
    assert left == [n for n in range(300) if n % 3 == 2 or (n % 11 == 0 and n % 7 != 6)]
    assert rows.size()[0] == rows.take()[0] == 300 - len(left)


def test_rows_go_on_after_they_were_taken() -> None:
    rows = LakeRows(SPEC)
    for _ in range(3):
        assert rows.take() == (0, [], [0, 0], b"")
        assert rows.read([(b'{"id":1}', b'{"a":"x"}'), (b'{"id":2}', None)]) == []
        count, parts, _, gone = rows.take()
        assert (count, gone) == (2, b"\x02")
        (_, no_ends, numbers), (valid, ends, text) = parts
        given: list[Any] = [numbers, ends, text]
        assert [bytes(one) for one in given] == [
            b"".join(n.to_bytes(8, "little") for n in (1, 2)), b"\0\0\0\0\1\0\0\0\1\0\0\0", b"x",
        ]  # fmt: skip
        assert (no_ends, valid) == (None, b"\x01")


def test_a_call_within_a_call_is_refused() -> None:
    rows = LakeRows(SPEC)

    def records() -> Iterator[tuple[bytes, bytes | None]]:
        yield b'{"id":1}', b'{"a":"x"}'
        rows.take()

    with pytest.raises(RuntimeError, match="in use"):
        rows.read(records())
    assert rows.take()[0] == 1


def test_a_batch_has_a_table_for_each_target() -> None:
    keys: Any = LakeKeys(SPEC)
    keep_batch(EncodedBatch(), [keys, keys])
    with pytest.raises(TypeError):
        keep_batch(EncodedBatch(), [None])  # type: ignore[list-item]
    with pytest.raises(TypeError):
        keep_batch(EncodedBatch(), ["keys"])  # type: ignore[list-item]
    keys.keep_record(0, b'{"id":1}', b"{}")
    assert keys.take()[0] == 1

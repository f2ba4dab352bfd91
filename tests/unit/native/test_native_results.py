"""Native code refuses results of expressions that are not as they are said to be."""

from __future__ import annotations

from array import array
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from ingest.native import native

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.compiled
if native.BUILT:
    from native_tables import AGAIN, ROW, a_table

    from ingest.native.contract import ResultSpec, ResultsSpec
    from ingest.native.merge import merge_results


def ints(*values: int) -> tuple[int, None, None, bytes]:
    return (0, None, None, array("i", values).tobytes())


def longs(*values: int) -> tuple[int, None, None, bytes]:
    return (0, None, None, array("q", values).tobytes())


def texts(*values: bytes) -> tuple[int, None, bytes, bytes]:
    ends = [len(b"".join(values[:i])) for i in range(len(values) + 1)]
    return (0, None, array("i", ends).tobytes(), b"".join(values))


NO_KEYS = (0, bytes(2), *texts(b"", b"")[2:])
KEPT = [ints(0, 0), ints(-1, -1), longs(5, 6), ints(0, 0), texts(ROW, ROW), NO_KEYS]
BACK = [ints(0, 0), longs(0, 0), texts(b"new", b"two"), (0, None, None, b"\3")]
BYTES = b'{"id":1,"a":"%b"}'
GOOD = [("out", b'{"id":1}', BYTES % b"new"), ("out", b'{"id":1}', BYTES % b"two")]


def a_table_of_results(*, writer: Any = None, kind: str = "t", **other: Any) -> Any:
    """With its second column from the first result, and a filter in the second one."""
    result = ResultSpec(b"a", 0, kind, writer or (lambda value: b'"%b"' % value.encode()))
    return a_table(results=ResultsSpec(**{"results": (result,), "filter": 1, **other}))


def drain(table: Any, out: list[Any], **other: Any) -> tuple[int, int, int, dict[int, int]]:
    arguments = {
        "encoders": [table], "targets": [("there", ())], "size": 2, "kept": KEPT, "kinds": b"sb", "sent": 2,
        "back": BACK, "start": 0, "row": 0, "limit": 100, **other,
    }  # fmt: skip
    batch, *found = merge_results(*arguments.values())
    out += batch
    return (*found,)  # type: ignore[return-value]


def but(columns: list[Any], at: int, column: Any) -> list[Any]:
    return [*columns[:at], column, *columns[at + 1 :]]


def test_what_comes_back_as_it_should_is_written() -> None:
    out: list[Any] = []
    assert drain(a_table_of_results(), out) == (2, 2, 0, {})
    assert out == GOOD
    # Columns may begin anywhere, and be anywhere in memory
    shifted = (1, None, *texts(b"0", b"new", b"two")[2:])
    odd = (0, None, None, memoryview(b"." + longs(0, 0)[3])[1:])
    out.clear()
    assert drain(a_table_of_results(), out, back=but(but(BACK, 2, shifted), 1, odd)) == (2, 2, 0, {})
    assert out == GOOD


def test_what_no_result_changes_is_copied_without_white_space() -> None:
    kept = but(KEPT, 4, texts(b'{ "id" : 1 ,"a":\t"x"}', b'{"a":"x","id":1}'))
    out: list[Any] = []
    assert drain(a_table_of_results(), out, kept=kept) == (2, 2, 0, {})
    assert [value for _, _, value in out] == [b'{"id":1,"a":"new"}', b'{"a":"two","id":1}']


def ends(*values: int) -> tuple[int, None, bytes, bytes]:
    return (0, None, array("i", values).tobytes(), b"newtwo")


HUGE = (1 << 62) + 1


@pytest.mark.parametrize(
    "wrong",
    [
        # Too few columns, or none that are columns
        {"back": BACK[:3]}, {"back": [*BACK, BACK[0]]}, {"kept": KEPT[:5]}, {"kept": []}, {"back": []},
        {"back": but(BACK, 0, None)}, {"back": but(BACK, 0, (0, None, None))}, {"back": but(BACK, 0, "iiii")},
        # Shorter than they say
        {"back": but(BACK, 0, ints(0))}, {"back": but(BACK, 1, longs(0))}, {"back": but(BACK, 1, ints(0, 0))},
        {"back": but(BACK, 3, (0, None, None, b""))}, {"back": but(BACK, 3, (0, None, None, None))},
        {"kept": but(KEPT, 2, longs(5))}, {"sent": 3}, {"size": 3}, {"sent": 9}, {"kept": but(KEPT, 0, ints())},
        {"sent": HUGE}, {"size": HUGE}, {"size": -1}, {"sent": -1}, {"start": -1}, {"row": -1}, {"row": 3},
        {"back": but(BACK, 0, (1, *ints(0, 0)[1:]))}, {"back": but(BACK, 0, (-1, *ints(0, 0)[1:]))},
        {"back": but(BACK, 0, (HUGE, *ints(0, 0)[1:]))}, {"back": but(BACK, 2, (HUGE, *texts(b"new", b"two")[1:]))},
        {"back": but(BACK, 3, (7, None, None, b"\3"))}, {"back": but(BACK, 2, (0, b"", *texts(b"new", b"two")[2:]))},
        {"back": but(BACK, 1, (0, b"", None, longs(0, 0)[3]))}, {"kept": but(KEPT, 5, (0, b"", *NO_KEYS[2:]))},
        # Texts that are not among their bytes
        {"back": but(BACK, 2, ends(0, 3))}, {"back": but(BACK, 2, ends(0, 3, 7))},
        {"back": but(BACK, 2, ends(0, -1, 6))},
        {"back": but(BACK, 2, ends(-3, 0, 6))}, {"back": but(BACK, 2, ends(3, 0, 6))},
        {"back": but(BACK, 2, ends(0, 1 << 30, 6))}, {"back": but(BACK, 2, (0, None, ends(0, 3, 6)[2], None))},
        {"back": but(BACK, 2, (0, None, None, b"newtwo"))}, {"kept": but(KEPT, 4, ends(0, 3))},
        {"kept": but(KEPT, 4, ends(0, 600, 900))}, {"kept": but(KEPT, 4, ends(9, 0, 6))},
        # Of another kind
        {"kinds": b"lb", "back": but(BACK, 2, texts(b"new", b"two"))}, {"kinds": b"ss"}, {"kinds": b"sl"},
        {"kinds": b"ib"}, {"kinds": b"\0b"}, {"kinds": b"xb"}, {"kinds": b"s"}, {"kinds": b"sbb"},
        {"back": but(BACK, 1, texts(b"1234567", b"x"))}, {"back": but(BACK, 3, longs(1, 1)), "kinds": b"sl"},
        # Fewer than went
        {"sent": 1, "back": [ints(0), longs(0), texts(b"new"), (0, None, None, b"\1")]},
        {"targets": [()]}, {"targets": [None]}, {"encoders": ["a table"]},
    ],
)  # fmt: skip
def test_what_comes_back_otherwise_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError, OverflowError)):
        drain(a_table_of_results(), [], **wrong)


@pytest.mark.parametrize(
    "kept",
    [
        # A ready-made record and a row of one message; three rows of one; two of which one has no result
        [ints(-1, 0), ints(0, -1), longs(5, 5), ints(0, 3), texts(ROW, ROW), texts(b"k", b"")],
        [ints(0, -1), ints(-1, 0), longs(5, 5), ints(4, 1), texts(ROW, ROW), texts(b"", b"k")],
        [ints(-1, -1), ints(0, 9), longs(5, 5), ints(0, 0), texts(ROW, ROW), texts(b"k", b"k")],
        [ints(0, 7), ints(-1, -1), longs(5, 5), ints(4, 1), texts(ROW, ROW), NO_KEYS],
    ],
)  # fmt: skip
def test_rows_that_do_not_belong_together_are_left(kept: list[Any]) -> None:
    out: list[Any] = []
    for row in (0, 1):
        with suppress(ValueError):  # fewer results than rows
            assert drain(a_table_of_results(), out, kept=kept, row=row)[0] == 0
    assert not out


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: {"filter": -2}, lambda: {"filter_before": -2}, lambda: {"filter_before": 63},
        lambda: {"results": (ResultSpec("a", 0, "t", str.encode),)},  # type: ignore[arg-type]
        lambda: {"results": (ResultSpec(b"a", -1, "t", str.encode),)},
        lambda: {"results": (ResultSpec(b"a", 0, "", str.encode),)},
        lambda: {"results": (ResultSpec(b"a", 0, "\0", str.encode),)},
        lambda: {"results": (ResultSpec(b"a", 0, "z", str.encode),)},
        lambda: {"results": (ResultSpec(b"a", 0, "c", str.encode),)},
        lambda: {"results": (ResultSpec(b"a", 0, "t", str.encode),) * 2000},
        lambda: {"columns": (1,)}, lambda: {"columns": ("a",)}, lambda: {"columns": (None,)}, lambda: {"columns": [0]},
    ],
)  # fmt: skip
def test_results_that_name_what_there_is_not(wrong: Callable[[], dict[str, Any]]) -> None:
    with pytest.raises((ValueError, TypeError)):
        a_table_of_results(**wrong())


@pytest.mark.parametrize(
    "other",
    [
        lambda: {"filter": 2}, lambda: {"filter_before": 2},
        lambda: {"results": (ResultSpec(b"a", 2, "t", str.encode),)}, lambda: {"filter": 0},
        lambda: {"filter_before": 0},
    ],
)  # fmt: skip
def test_tables_of_results_that_did_not_come_back(other: Callable[[], dict[str, Any]]) -> None:
    with pytest.raises(ValueError, match="came back"):
        drain(a_table_of_results(**other()), [])


def test_a_column_that_is_named_again_and_again_has_its_room() -> None:
    """A layout is a table's columns; one that names a result often has more text than the row and its results."""
    out: list[Any] = []
    long = but(BACK, 2, texts(b"n" * 500, b"two"))
    assert drain(a_table_of_results(columns=(b"id", *[0] * 900)), out, back=long)[0] == 0, "left to the reference"
    assert not out


def test_what_writes_results_changes_nothing_here() -> None:
    tables: list[Any] = []
    heads: list[Any] = [("there", ())]
    kept: list[Any] = [*KEPT]
    back = [*BACK]
    buffers = bytearray(KEPT[4][3])
    kept[4] = (0, None, KEPT[4][2], buffers)

    def writer(value: str) -> bytes:
        for given in (tables, heads, kept, back):
            given.clear()
        with pytest.raises(BufferError):
            buffers.clear()
        with pytest.raises(RuntimeError, match=AGAIN):
            drain(None, [])
        return b'"%b"' % value.encode()

    tables.append(a_table_of_results(writer=writer, kind="x"))
    out: list[Any] = []
    assert drain(None, out, encoders=tables, targets=heads, kept=kept, back=back) == (2, 2, 0, {})
    assert out == GOOD

"""The native code refuses what would corrupt its memory: to be entered again, and what is not as it is said to be."""

from __future__ import annotations

import ctypes
import threading
from array import array
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from ingest.native import native

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.compiled
if native.BUILT:
    from ingest.native import _native

AGAIN = "running already"
DEBEZIUM, ROWS, CANAL = range(3)
INT, TEXT, DOUBLE = 2, 4, 3
ROW = b'{"id":1,"a":"x"}'


class Message:
    """A record, with something that happens while it is asked for its key."""

    def __init__(self, value: bytes | None, then: Callable[[], object] = lambda: None) -> None:
        self._value, self._then = value, then

    def key(self) -> bytes | None:
        self._then()
        return None

    def value(self) -> bytes | None:
        return self._value

    def offset(self) -> int:
        return 7


class Plan:
    """What of a plan is counted."""

    inserted = updated = deleted = 0


COLUMNS = ((b"id", b',"id":null', INT, False, 64, 0, 0, 0), (b"a", b',"a":null', TEXT, False, -1, 0, 0, 0))


def a_table(plan: Any = None, destination: Any = "out", columns: Any = COLUMNS, **other: Any) -> Any:
    order, own, key = other.get("order", (0, 1)), other.get("own", 2), other.get("key", (0,))
    plan = plan or Plan()
    return _native.Table(plan, destination, columns, order, own, key, False, False)


def a_fed_table(**other: Any) -> Any:
    """With `id` in slot 0 and a text that all rows have in slot 1."""
    made = a_table()
    arguments = {
        "program": 0, "columns": (0,), "slots": (0,), "kinds": b"l", "base": [None, "all"], "event": -1,
        "decisive": (0,), "key": (0,), "images": False, "were": (), "were_slots": (), "were_kinds": b"", **other,
    }  # fmt: skip
    made.feed(*arguments.values())
    return made


def a_lane(find: Any, *, form: int = ROWS, say: Any = lambda _: None) -> Any:
    return _native.Lane(form, find, None, say)


def in_thread(call: Callable[[], Any]) -> BaseException | None:
    """What a call raises in another thread."""
    raised: list[BaseException | None] = [None]

    def run() -> None:
        try:
            call()
        except RuntimeError as exc:
            raised[0] = exc

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return raised[0]


# -- entered again ---------------------------------------------------------------------------------------------------


def test_the_hot_loop_is_not_entered_again_from_what_it_calls() -> None:
    lane, other, rows = a_lane(lambda _: a_table()), a_lane(lambda _: a_table()), _native.Rows(b"l")
    refused: list[str] = []

    def again() -> None:
        calls: list[Callable[[], Any]] = [
            lambda: lane.take([Message(ROW)], 0, []), lambda: other.take([Message(ROW)], 0, []),
            lambda: other.feed([Message(ROW)], 0, rows), lane.forget, other.forget, _native.settle,
            lambda: _native.drain([], [], 0, [None] * 6, b"", 0, [None] * 2, 0, 0, 0, []),  # type: ignore[list-item]
        ]  # fmt: skip
        for call in calls:
            with pytest.raises(RuntimeError, match=AGAIN) as caught:
                call()
            refused.append(str(caught.value))
            with_thread = in_thread(call)
            assert with_thread is not None
            assert AGAIN in str(with_thread)

    def find(_: bytes) -> Any:
        again()
        return a_table()

    finding, out = a_lane(find), []  # type: ignore[var-annotated]
    assert finding.take([Message(ROW)], 0, out) == 1
    assert lane.take([Message(ROW, again)], 0, out) == 1

    def say(_: bytes) -> Any:
        again()
        return _native.Saying(((b"id", 1, 64, 0, 0), (b"a", 16, -1, 0, 0)))

    saying = a_lane(lambda _: a_table(), form=DEBEZIUM, say=say)
    text = b'{"schema":{"x":1},"payload":{"after":%b,"op":"c","source":{"table":"t"}}}' % ROW
    assert saying.take([Message(text)], 0, out) == 1
    assert out == [("out", b'{"id":1}', ROW)] * 3
    assert len(refused) == 21

    class Counting(Plan):
        def __setattr__(self, name: str, value: Any) -> None:
            again()
            super().__setattr__(name, value)

    plan = Counting()
    counted = a_lane(lambda _: a_table(plan))
    counted.take([Message(ROW)], 0, out)
    _native.settle()
    assert plan.inserted == 1
    assert lane.take([Message(ROW)], 0, out) == 1, "all of it works again"


def test_an_exception_leaves_the_hot_loop_as_it_was() -> None:
    def find(_: bytes) -> Any:
        raise LookupError

    with pytest.raises(LookupError):
        a_lane(find).take([Message(ROW)], 0, [])
    with pytest.raises(LookupError):
        a_lane(find).feed([Message(ROW)], 0, _native.Rows(b""))
    assert a_lane(lambda _: a_table()).take([Message(ROW)], 0, []) == 1


def test_messages_that_go_while_they_are_read() -> None:
    messages: list[Any] = []
    messages += [Message(bytes(ROW), messages.clear), Message(ROW)]
    assert a_lane(lambda _: a_table()).take(messages, 0, []) == 1


def test_rows_are_not_changed_while_they_are_filled() -> None:
    rows = _native.Rows(b"ld")
    refused = 0

    class Number:
        def __index__(self) -> int:
            nonlocal refused
            for call in (rows.take, rows.size, lambda: rows.mark(-2, 100_000), lambda: rows.add((0,) * 6, ())):
                with pytest.raises(RuntimeError, match="in use"):
                    call()
                assert in_thread(call) is not None
                refused += 1
            return 1

        __float__ = __index__

    rows.add((0, -1, Number(), 0, b"{}", None), (Number(), 1.0))
    assert refused == 8
    assert rows.take()[0] == 1


def test_rows_are_not_taken_while_messages_are_on_their_way() -> None:
    rows, refused = _native.Rows(b"ls"), []

    def take() -> None:
        with pytest.raises(RuntimeError, match="in use"):
            rows.take()
        refused.append(1)

    assert a_lane(lambda _: a_fed_table()).feed([Message(ROW, take), Message(ROW)], 0, rows) == 2
    assert refused
    assert rows.take()[0] == 2


# -- tables ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["Table", "Lane", "Rows", "Saying"])
def test_there_is_nothing_half_made(kind: str) -> None:
    made = getattr(_native, kind)
    with pytest.raises(TypeError):
        made.__new__(made)
    with pytest.raises(TypeError):
        made(object(), 1)


@pytest.mark.parametrize(
    "wrong",
    [
        {"order": (0,)}, {"order": (0, 2)}, {"order": (0, -1)}, {"own": 3}, {"own": -1}, {"key": (2,)}, {"key": (-1,)},
        {"key": (0,) * 17}, {"own": 0}, {"columns": ((b"id", b"", 11, False, 0, 0, 0, 0),) * 2},
        {"columns": ((b"id", b"", -1, False, 0, 0, 0, 0),) * 2},
        {"columns": ((b"id", b"", INT, False, 0, 0, 0, 0),) * 2},
        {"columns": ((b"id", b"", INT, False, 65, 0, 0, 0),) * 2},
        {"columns": ((b"id", b"", INT, False, 64, 0, 0, 3),) * 2},
    ],
)  # fmt: skip
def test_tables_of_columns_that_there_are_not(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="column"):
        a_table(**wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        {"columns": (2,)}, {"columns": (-1,)}, {"slots": (2,)}, {"slots": ()}, {"kinds": b"ll"}, {"kinds": b"d"},
        {"kinds": b"b"}, {"kinds": b"\0"}, {"kinds": b"x"}, {"event": 2}, {"event": -2}, {"decisive": (5,)},
        {"key": (2,)}, {"were": (0,)}, {"were": (0,), "were_slots": (2,), "were_kinds": b"l"},
        {"were": (1,), "were_slots": (0,), "were_kinds": b"l"}, {"base": [None, 1]}, {"base": []}, {"program": -1},
        {"decisive": (0,) * 2000},
    ],
)  # fmt: skip
def test_feeds_that_name_what_there_is_not(wrong: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError)):
        a_fed_table(**wrong)


def test_a_table_that_was_not_told_all_is_of_no_use() -> None:
    table = a_table()
    with pytest.raises(ValueError, match="no such place"):
        table.feed(0, (9,), (0,), b"l", [None], -1, (), (), False, (), (), b"")
    with pytest.raises(ValueError, match="told this once"):
        table.feed(0, (0,), (0,), b"l", [None], -1, (), (), False, (), (), b"")
    with pytest.raises(ValueError, match="not told all"):
        a_lane(lambda _: table).take([Message(ROW)], 0, [])


def test_a_table_in_use_stays_as_it_is() -> None:
    table, late = a_table(), []

    def tell() -> None:
        calls: tuple[Callable[[], Any], ...] = (
            lambda: table.feed(0, (0,), (0,), b"l", [None], -1, (), (), False, (), (), b""),
            lambda: table.answer(-1, -1, False, False, (), (), b"", (), None),
            lambda: table.lay_out(None, (), (), (), None, False),
            lambda: table.ready((0, 0, 0, 0)),
        )
        for call in calls:
            with pytest.raises(ValueError, match="told"):
                call()
            late.append(1)

    out: list[Any] = []
    assert a_lane(lambda _: table).take([Message(ROW), Message(ROW, tell)], 0, out) == 2
    assert len(out) == 2
    assert len(late) == 4


@pytest.mark.parametrize("heads", [(0, 1, 2), (0, 1, 2, -1), (0, 1, 2, 1 << 31), [0, 1, 2, 3], (0, 1, 2, "x"), None])
def test_heads_that_there_are_not(heads: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        a_table().ready(heads)


TEXT_PIECE, CELL, CSV, IMAGE = range(4)


@pytest.mark.parametrize(
    "wrong",
    [
        {"key": ((CELL, b"", 1),)}, {"key": ((IMAGE, b"", 0),)}, {"key": ((9, b"", 0),)}, {"insert": ((CELL, b"", 2),)},
        {"insert": ((IMAGE, b"", 0),)}, {"alone": ((IMAGE, b"", 0),)}, {"update": ((CELL, b"", -1),)},
        {"delete": ((CSV, b"", 7),)}, {"delete": ((4, b"", 0),)}, {"insert": ((-1, b"", 0),)},
        {"insert": [(0, b"", 0)]},
    ],
)  # fmt: skip
def test_pieces_of_what_there_is_not(wrong: dict[str, Any]) -> None:
    arguments = {"key": None, "insert": (), "update": (), "alone": (), "delete": None, "moves": False, **wrong}
    with pytest.raises((ValueError, TypeError)):
        a_table().lay_out(*arguments.values())


def test_a_key_of_a_table_without_one_has_no_cells() -> None:
    with pytest.raises(ValueError, match="no such column"):
        a_table(key=()).lay_out(((CELL, b"", 0),), (), (), (), None, False)


@pytest.mark.parametrize("column", [(b"a", 8, 0, 0, 0), (b"a", 9, 0, 0, 0), (b"a", 1, 0, 0, 0), (b"a", 12, 65, 0, 0)])
def test_sayings_with_numbers_that_are_none(column: Any) -> None:
    with pytest.raises(ValueError, match="numbers"):
        _native.Saying((column,))


# -- rows that go ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kinds", [b"l", b"lss", b"ll", b"sl", b""])
def test_rows_with_other_slots_than_the_table_has(kinds: bytes) -> None:
    rows = _native.Rows(kinds)
    with pytest.raises(ValueError, match="other slots"):
        a_lane(lambda _: a_fed_table()).feed([Message(ROW)], 0, rows)
    assert rows.size() == (0, 0)


def test_the_same_table_goes_in_other_rows_that_fit() -> None:
    lane = a_lane(lambda _: a_fed_table())
    for _ in range(3):
        rows = _native.Rows(b"ls")
        assert lane.feed([Message(ROW)], 0, rows) == 1
        with pytest.raises(ValueError, match="other slots"):
            lane.feed([Message(ROW)], 0, _native.Rows(b"sl"))
        assert rows.take()[3][1:] == [
            (None, None, array("q", [1]).tobytes()),
            (None, array("i", [0, 3]).tobytes(), b"all"),
        ]


def test_more_rows_than_there_can_be() -> None:
    rows = _native.Rows(b"ls")
    for count in (1 << 62, (1 << 63) - 1, 1 << 29):
        with pytest.raises(OverflowError, match="rows"):
            rows.mark(-2, count)
    with pytest.raises(ValueError, match="s, l, d or b"):
        _native.Rows(b"l\0")
    with pytest.raises(OverflowError, match="32 bits"):
        rows.add((1 << 31, 0, 0, 0, b"", b""), (1, "x"))
    assert rows.size() == (0, 0)


# -- rows that come back ---------------------------------------------------------------------------------------------


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


def an_answered_table(*, writer: Any = None, **other: Any) -> Any:
    """With its second column from the first result, and a filter in the second one."""
    made = a_table()
    arguments = {
        "filter_at": 1, "was_at": -1, "soft_delete": False, "key_made": False, "names": (b"a",), "places": (0,),
        "kinds": b"t", "writers": (writer or (lambda value: b'"%b"' % value.encode()),), "columns": None, **other,
    }  # fmt: skip
    made.answer(*arguments.values())
    return made


def drain(table: Any, out: list[Any], **other: Any) -> tuple[int, int, int, dict[int, int]]:
    arguments = {
        "tables": [table], "heads": [("there", ())], "size": 2, "kept": KEPT, "kinds": b"sb", "sent": 2, "back": BACK,
        "start": 0, "row": 0, "limit": 100, "out": out, **other,
    }  # fmt: skip
    found: tuple[int, int, int, dict[int, int]] = _native.drain(*arguments.values())
    return found


def but(columns: list[Any], at: int, column: Any) -> list[Any]:
    return [*columns[:at], column, *columns[at + 1 :]]


def test_what_comes_back_as_it_should_is_written() -> None:
    out: list[Any] = []
    assert drain(an_answered_table(), out) == (2, 2, 0, {})
    assert out == GOOD
    # Columns may begin anywhere, and be anywhere in memory
    shifted = (1, None, *texts(b"0", b"new", b"two")[2:])
    odd = (0, None, None, memoryview(b"." + longs(0, 0)[3])[1:])
    out.clear()
    assert drain(an_answered_table(), out, back=but(but(BACK, 2, shifted), 1, odd)) == (2, 2, 0, {})
    assert out == GOOD


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
        {"heads": [()]}, {"heads": [None]}, {"tables": ["a table"]},
    ],
)  # fmt: skip
def test_what_comes_back_otherwise_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError, OverflowError)):
        drain(an_answered_table(), [], **wrong)


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
            assert drain(an_answered_table(), out, kept=kept, row=row)[0] == 0
    assert not out


@pytest.mark.parametrize(
    "wrong",
    [
        {"filter_at": -2}, {"was_at": -2}, {"was_at": 63}, {"names": ("a",)}, {"names": (b"a", b"b")},
        {"places": (-1,)},
        {"places": ()}, {"kinds": b""}, {"kinds": b"\0"}, {"kinds": b"z"}, {"writers": ()}, {"columns": (1,)},
        {"columns": ("a",)}, {"columns": (None,)}, {"columns": [0]}, {"names": (None,)},
    ],
)  # fmt: skip
def test_answers_that_name_what_there_is_not(wrong: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError)):
        an_answered_table(**wrong)


@pytest.mark.parametrize("other", [{"filter_at": 2}, {"was_at": 2}, {"places": (2,)}, {"filter_at": 0}, {"was_at": 0}])
def test_tables_of_results_that_did_not_come_back(other: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="came back"):
        drain(an_answered_table(**other), [])


def test_a_column_that_is_named_again_and_again_has_its_room() -> None:
    """A layout is a table's columns; one that names a result often has more text than the row and its results."""
    out: list[Any] = []
    long = but(BACK, 2, texts(b"n" * 500, b"two"))
    assert drain(an_answered_table(columns=(b"id", *[0] * 900)), out, back=long)[0] == 0, "left to the book"
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

    tables.append(an_answered_table(writer=writer, kinds=b"x"))
    out: list[Any] = []
    assert drain(None, out, tables=tables, heads=heads, kept=kept, back=back) == (2, 2, 0, {})
    assert out == GOOD


# -- bytes that end anywhere -----------------------------------------------------------------------------------------


class Raw(ctypes.Structure):
    """RawRecord of model/raw.h."""

    _fields_ = (
        ("key", ctypes.c_void_p), ("value", ctypes.c_void_p), ("key_size", ctypes.c_size_t),
        ("value_size", ctypes.c_size_t), ("offset", ctypes.c_int64),
    )  # fmt: skip


class Raws(ctypes.Structure):
    """RawRecords of it."""

    _fields_ = (("records", ctypes.POINTER(Raw)), ("count", ctypes.c_ssize_t))


class Bare:
    """Records whose bytes have nothing behind them: `make sanitize` sees what is read there."""

    def __init__(self, values: list[bytes]) -> None:
        self._kept = [(ctypes.c_char * len(value)).from_buffer_copy(value) for value in values]
        self._records = (Raw * len(values))()
        for record, kept in zip(self._records, self._kept, strict=True):
            record.key = record.value = ctypes.addressof(kept)
            record.key_size = record.value_size = len(kept)
        self._whole = Raws(self._records, len(values))

    @property
    def raw(self) -> object:
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        return new(ctypes.addressof(self._whole), NAME, None)


NAME = b"ingest.model.raw.records"
ALL_KINDS = (
    '{"id":-12345678,"a":"\\u00e9\\ud83d\\ude00 long enough for all ways é","b":[1.5e-7,{"x":null}],"c":true,"d":"'
    '2020-01-31 12:13:14.5","e":null}'
)  # fmt: skip
PAYLOAD = f'{{"before":{ALL_KINDS},"after":{ALL_KINDS},"source":{{"v":1,"db":"d","schema":null,"table":"t"}},"op":"u"}}'
WHOLE = {
    ROWS: ALL_KINDS,
    DEBEZIUM: f'{{"schema":{{"fields":[]}},"payload":{PAYLOAD}}}',
    CANAL: f'{{"data":[{ALL_KINDS}],"database":"d","isDdl":false,"old":[{{"a":"x"}}],"pkNames":["id"],"table":"t",'
    '"type":"UPDATE"}',
}
FITTING = (
    (b"id", INT, 32), (b"a", TEXT, -1), (b"b", TEXT, -1), (b"c", 1, 0), (b"d", 6, ord(" ")), (b"e", TEXT, 9),
)  # fmt: skip


@pytest.mark.parametrize("form", [ROWS, DEBEZIUM, CANAL])
def test_messages_that_end_anywhere_are_read_no_further(form: int) -> None:
    columns = tuple((name, b"", kind, False, number, 0, 0, 0) for name, kind, number in FITTING)
    table = a_table(columns=columns, order=(0, 1, 2, 3, 4, 5), own=6)
    lane = a_lane(lambda _: table, form=form, say=lambda _: _native.Saying(((b"id", 1, 32, 0, 0),)))
    text = WHOLE[form].encode()
    out: list[Any] = []
    for end in range(1, len(text)):
        for some in (text[:end], b" " * 40 + text[:end]):
            records: Any = Bare([some])
            assert lane.take(records, 0, out) == 0
    assert not out
    whole: Any = Bare([text, text])
    assert lane.take(whole, 0, out) == 2
    assert len(out) == 2

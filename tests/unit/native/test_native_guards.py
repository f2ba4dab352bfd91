"""The native code refuses what would corrupt its memory: to be entered again, and what is not as it is said to be."""

from __future__ import annotations

import base64
import ctypes
import threading
from array import array
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from ingest.model.record import METADATA
from ingest.native import native

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.compiled
if native.BUILT:
    from ingest.native.codes import ColumnKind, MessageForm, MetadataKind, SegmentKind, ValueCodec
    from ingest.native.contract import (
        ColumnSpec,
        ExtraColumnsSpec,
        ColumnCodecSpec,
        KeySpec,
        MessageSpec,
        MetadataSpec,
        ResultSpec,
        ResultsSpec,
        RowEncoderSpec,
        SegmentSpec,
        SlotSpec,
        TemplateSpec,
        TransformInputSpec,
    )
    from ingest.native.extra_columns import RowExtender
    from ingest.native.inline_schema import RowCodec
    from ingest.native.merge import merge_results
    from ingest.native.native_encoder import NativeEncoder, settle
    from ingest.native.row_encoder import RowEncoder
    from ingest.native.transform_rows import TransformRows

    DEBEZIUM, ROWS, CANAL = MessageForm.FORM_DEBEZIUM, MessageForm.FORM_ROWS, MessageForm.FORM_CANAL
    INT, TEXT, BOOL = ColumnKind.COLUMN_INT, ColumnKind.COLUMN_TEXT, ColumnKind.COLUMN_BOOL
    TIMESTAMP = ColumnKind.COLUMN_TIMESTAMP
    COLUMNS = (ColumnSpec(b"id", INT, b',"id":null'), ColumnSpec(b"a", TEXT, b',"a":null'))
    FITTING = (
        ColumnSpec(b"id", INT, bits=32), ColumnSpec(b"a", TEXT), ColumnSpec(b"b", TEXT), ColumnSpec(b"c", BOOL),
        ColumnSpec(b"d", TIMESTAMP), ColumnSpec(b"e", TEXT, characters=9),
    )  # fmt: skip

AGAIN = "running already"
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


class TableEncoder:
    """Counters of an encoder."""

    inserted = updated = deleted = 0


def a_spec(**other: Any) -> Any:
    given = {"columns": COLUMNS, "source_columns": 2, "sink_order": (0, 1), "key": KeySpec((0,)), **other}
    return RowEncoderSpec(**given)


def a_table(reference: Any = None, destination: Any = "out", **other: Any) -> Any:
    return RowEncoder(a_spec(**other), reference or TableEncoder(), destination)


def a_fed_table(**other: Any) -> Any:
    """With `id` in slot 0 and a text that all rows have in slot 1."""
    given = {
        "program": 0, "inputs": (SlotSpec(0, 0, "l"),), "constants": (None, "all"), "decisive": (0,), "key": (0,),
        **other,
    }  # fmt: skip
    return a_table(transform=TransformInputSpec(**given))


def an_encoder(find: Any, *, form: Any = None, read: Any = lambda _: None, **other: Any) -> Any:
    return NativeEncoder(MessageSpec(MessageForm.FORM_ROWS if form is None else form, **other), find, read)


def encode(encoder: Any, messages: Any, out: list[Any]) -> int:
    """Encode messages, and return where that ends."""
    batch, stop = encoder.encode(messages, 0)
    out += batch
    return int(stop)


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


def test_the_native_code_is_not_entered_again_from_what_it_calls() -> None:
    encoder, other, rows = an_encoder(lambda _: a_table()), an_encoder(lambda _: a_table()), TransformRows(b"l")
    refused: list[str] = []

    def again() -> None:
        calls: list[Callable[[], Any]] = [
            lambda: encoder.encode([Message(ROW)], 0), lambda: other.encode([Message(ROW)], 0),
            lambda: other.feed([Message(ROW)], 0, rows), encoder.forget, other.forget, settle,
            lambda: merge_results([], [], 0, [None] * 6, b"", 0, [None] * 2, 0, 0, 0),  # type: ignore[list-item]
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

    out: list[Any] = []
    assert encode(an_encoder(find), [Message(ROW)], out) == 1
    assert encode(encoder, [Message(ROW, again)], out) == 1

    def read(_: bytes) -> Any:
        again()
        return RowCodec((
            ColumnCodecSpec(b"id", ValueCodec.CODEC_INT, 64), ColumnCodecSpec(b"a", ValueCodec.CODEC_TEXT, -1),
        ))  # fmt: skip

    telling = an_encoder(lambda _: a_table(), form=DEBEZIUM, read=read)
    text = b'{"schema":{"x":1},"payload":{"after":%b,"op":"c","source":{"table":"t"}}}' % ROW
    assert encode(telling, [Message(text)], out) == 1
    assert out == [("out", b'{"id":1}', ROW)] * 3
    assert len(refused) == 21

    class Counting(TableEncoder):
        def __setattr__(self, name: str, value: Any) -> None:
            again()
            super().__setattr__(name, value)

    reference = Counting()
    encode(an_encoder(lambda _: a_table(reference)), [Message(ROW)], out)
    settle()
    assert reference.inserted == 1
    assert encode(encoder, [Message(ROW)], out) == 1, "all of it works again"


def test_an_exception_leaves_the_native_code_as_it_was() -> None:
    def find(_: bytes) -> Any:
        raise LookupError

    encoder = an_encoder(find)
    with pytest.raises(LookupError):
        encoder.encode([Message(None), Message(ROW)], 0)
    assert encoder.skipped() == [], "the messages before it are read again"
    with pytest.raises(LookupError):
        an_encoder(find).feed([Message(ROW)], 0, TransformRows(b""))
    with pytest.raises(ValueError, match="negative"):
        an_encoder(find).encode([Message(ROW)], -1)
    assert an_encoder(lambda _: a_table()).encode([Message(ROW)], 0)[1] == 1


def test_messages_that_go_while_they_are_read() -> None:
    messages: list[Any] = []
    messages += [Message(bytes(ROW), messages.clear), Message(ROW)]
    assert an_encoder(lambda _: a_table()).encode(messages, 0)[1] == 1


def test_a_batch_keeps_its_records_whatever_becomes_of_the_rest() -> None:
    encoder, batches = an_encoder(lambda _: a_table()), []
    for n in range(5):
        batch, stop = encoder.encode([Message(b'{"id":%d,"a":"%b"}' % (i + n, b"x" * n)) for i in range(300)], 0)
        assert (stop, batch.full, len(batch)) == (200, True, 200)
        batches.append(batch)
    for n, batch in enumerate(batches):
        for i, record in enumerate(batch):
            assert record == ("out", b'{"id":%d}' % (i + n), b'{"id":%d,"a":"%b"}' % (i + n, b"x" * n))
        assert batch[-1] == batch[199] == batch[100:][99]
        with pytest.raises(IndexError):
            batch[200]


def test_records_of_any_size_have_room_in_a_batch() -> None:
    columns = (COLUMNS[0], msgspec.structs.replace(COLUMNS[1], as_text=True))
    encoder = an_encoder(lambda _: a_table(columns=columns))
    rows = [b'{"id":%d,"a":[%b]}' % (size, b",".join([b"1"] * size)) for size in (1, 100_000, 1, 10, 40_000, 3)]
    out: list[Any] = []
    assert encode(encoder, [Message(row) for row in rows], out) == len(rows)
    assert [value for _, _, value in out] == [row.replace(b"[", b'"[').replace(b"]", b']"') for row in rows]


def test_rows_are_not_changed_while_they_are_filled() -> None:
    rows = TransformRows(b"ld")
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
    rows, refused = TransformRows(b"ls"), []

    def take() -> None:
        with pytest.raises(RuntimeError, match="in use"):
            rows.take()
        refused.append(1)

    assert an_encoder(lambda _: a_fed_table()).feed([Message(ROW, take), Message(ROW)], 0, rows) == 2
    assert refused
    assert rows.take()[0] == 2


# -- tables ----------------------------------------------------------------------------------------------------------


def test_there_is_nothing_half_made() -> None:
    kinds: list[Any] = [RowEncoder, NativeEncoder, TransformRows, RowCodec]
    for made in kinds:
        with pytest.raises(TypeError):
            made.__new__(made)
        with pytest.raises((TypeError, AttributeError)):
            made(object(), 1, 2)


def some(*columns: Any) -> dict[str, Any]:
    return {"columns": (*columns, COLUMNS[1])}


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: {"sink_order": (0,)}, lambda: {"sink_order": (0, 2)}, lambda: {"sink_order": (0, -1)},
        lambda: {"source_columns": 3}, lambda: {"source_columns": -1}, lambda: {"key": KeySpec((2,))},
        lambda: {"key": KeySpec((-1,))}, lambda: {"key": KeySpec((0,) * 17)}, lambda: {"source_columns": 0},
        lambda: some(ColumnSpec(b"id", 11)), lambda: some(ColumnSpec(b"id", -1)),  # type: ignore[arg-type]
        lambda: some(ColumnSpec(b"id", INT, bits=0)), lambda: some(ColumnSpec(b"id", INT, bits=65)),
        lambda: some(ColumnSpec(b"id", INT, spelling=3)), lambda: some(ColumnSpec(b"x" * ((1 << 24) + 1), INT)),
    ],
)  # fmt: skip
def test_tables_of_columns_that_there_are_not(wrong: Callable[[], dict[str, Any]]) -> None:
    with pytest.raises(ValueError, match="column"):
        a_table(**wrong())


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: {"inputs": (SlotSpec(2, 0, "l"),)}, lambda: {"inputs": (SlotSpec(-1, 0, "l"),)},
        lambda: {"inputs": (SlotSpec(0, 2, "l"),)}, lambda: {"inputs": (SlotSpec(0, -1, "l"),)},
        lambda: {"inputs": (SlotSpec(0, 0, "ll"),)}, lambda: {"inputs": (SlotSpec(0, 0, "d"),)},
        lambda: {"inputs": (SlotSpec(0, 0, "b"),)}, lambda: {"inputs": (SlotSpec(0, 0, "\0"),)},
        lambda: {"inputs": (SlotSpec(0, 0, "x"),)}, lambda: {"event": 2}, lambda: {"event": -2},
        lambda: {"decisive": (5,)}, lambda: {"key": (2,)}, lambda: {"before": (SlotSpec(0, 2, "l"),)},
        lambda: {"before": (SlotSpec(1, 0, "l"),)}, lambda: {"constants": (None, 1)}, lambda: {"constants": ()},
        lambda: {"program": -1}, lambda: {"decisive": (0,) * 2000}, lambda: {"before": (SlotSpec(0, 0, "l"),) * 2000},
    ],
)  # fmt: skip
def test_inputs_that_name_what_there_is_not(wrong: Callable[[], dict[str, Any]]) -> None:
    with pytest.raises((ValueError, TypeError)):
        a_fed_table(**wrong())


@pytest.mark.parametrize("targets", [(0, 1, 2), (0, 1, 2, -1), (0, 1, 2, 1 << 31), (0, 1, 2, "x"), 7])
def test_targets_that_there_are_not(targets: Any) -> None:
    with pytest.raises((ValueError, TypeError, OverflowError)):
        a_table(targets=targets)


def a_segment(kind: str, column: int = 0) -> tuple[Any, ...]:
    return (SegmentSpec(SegmentKind[f"SEGMENT_{kind}"], column=column),)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: {"key": a_segment("JSON", 1)}, lambda: {"key": a_segment("BEFORE")},
        lambda: {"key": (SegmentSpec(9),)}, lambda: {"insert": a_segment("JSON", 2)},  # type: ignore[arg-type]
        lambda: {"insert": a_segment("BEFORE")}, lambda: {"update_alone": a_segment("BEFORE")},
        lambda: {"update": a_segment("JSON", -1)}, lambda: {"delete": a_segment("CSV", 7)},
        lambda: {"delete": (SegmentSpec(4),)}, lambda: {"insert": (SegmentSpec(-1),)},  # type: ignore[arg-type]
        lambda: {"insert": [*a_segment("TEXT")]},
    ],
)  # fmt: skip
def test_segments_of_what_there_is_not(wrong: Callable[[], dict[str, Any]]) -> None:
    given = {"key": None, "insert": (), "update": (), "update_alone": (), "delete": None, **wrong()}
    with pytest.raises((ValueError, TypeError)):
        a_table(template=TemplateSpec(**given))


def test_a_key_of_a_table_without_one_has_no_cells() -> None:
    with pytest.raises(ValueError, match="no such column"):
        a_table(key=KeySpec(()), template=TemplateSpec(a_segment("JSON"), (), (), (), None))


@pytest.mark.parametrize(
    ("codec", "first"), [("TIME", 0), ("MOMENT", 0), ("INT", 0), ("BITS", 0), ("BITS", 9), ("QUOTED_INT", 65)]
)
def test_inline_schemas_with_numbers_that_are_none(codec: str, first: int) -> None:
    with pytest.raises(ValueError, match="numbers"):
        RowCodec((ColumnCodecSpec(b"a", ValueCodec[f"CODEC_{codec}"], first),))


# -- rows that go ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kinds", [b"l", b"lss", b"ll", b"sl", b""])
def test_rows_with_other_slots_than_the_table_has(kinds: bytes) -> None:
    rows = TransformRows(kinds)
    with pytest.raises(ValueError, match="other slots"):
        an_encoder(lambda _: a_fed_table()).feed([Message(ROW)], 0, rows)
    assert rows.size() == (0, 0)


def test_the_same_table_goes_in_other_rows_that_fit() -> None:
    encoder = an_encoder(lambda _: a_fed_table())
    for _ in range(3):
        rows = TransformRows(b"ls")
        assert encoder.feed([Message(ROW)], 0, rows) == 1
        with pytest.raises(ValueError, match="other slots"):
            encoder.feed([Message(ROW)], 0, TransformRows(b"sl"))
        assert rows.take()[3][1:] == [
            (None, None, array("q", [1]).tobytes()),
            (None, array("i", [0, 3]).tobytes(), b"all"),
        ]


def test_more_rows_than_there_can_be() -> None:
    rows = TransformRows(b"ls")
    for count in (1 << 62, (1 << 63) - 1, 1 << 29):
        with pytest.raises(OverflowError, match="rows"):
            rows.mark(-2, count)
    with pytest.raises(ValueError, match="s, l, d or b"):
        TransformRows(b"l\0")
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


# -- bytes that end anywhere -----------------------------------------------------------------------------------------


class Raw(ctypes.Structure):
    """RawRecord of ingest/native/records.pxd."""

    _fields_ = (
        ("key", ctypes.c_void_p), ("value", ctypes.c_void_p), ("key_size", ctypes.c_size_t),
        ("value_size", ctypes.c_size_t), ("offset", ctypes.c_int64), ("metadata", ctypes.c_void_p),
    )  # fmt: skip


class Raws(ctypes.Structure):
    """RawRecords of it."""

    _fields_ = (("records", ctypes.POINTER(Raw)), ("count", ctypes.c_ssize_t))


class Bare:
    """Records whose bytes have nothing behind them: `make sanitize` sees what is read there."""

    def __init__(self, values: list[bytes], key: bytes | None = None) -> None:
        """`key`: that of all records; None: each has its value as its key."""
        self._kept = [(ctypes.c_char * len(value)).from_buffer_copy(value) for value in values]
        self._key = None if key is None else (ctypes.c_char * len(key)).from_buffer_copy(key)
        self._records = (Raw * len(values))()
        for record, kept in zip(self._records, self._kept, strict=True):
            key_kept = kept if self._key is None else self._key
            record.key, record.value = ctypes.addressof(key_kept), ctypes.addressof(kept)
            record.key_size, record.value_size = len(key_kept), len(kept)
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
    "ROWS": ALL_KINDS,
    "DEBEZIUM": f'{{"schema":{{"fields":[]}},"payload":{PAYLOAD}}}',
    "CANAL": f'{{"data":[{ALL_KINDS}],"database":"d","isDdl":false,"old":[{{"a":"x"}}],"pkNames":["id"],"table":"t",'
    '"type":"UPDATE"}',
    "CANAL of rows": f'{{"data":[{ALL_KINDS},{ALL_KINDS}],"old":[null,{{"a":"x"}}],"table":"t","type":"UPDATE"}}',
    "ROWS with objects": '{"id":1,"o":{"a":"x","p":{"q":[1.5,{}],"r":{}}},"s":"2020-01-31"}',
}


@pytest.mark.parametrize("form", WHOLE)
def test_messages_that_end_anywhere_are_read_no_further(form: str) -> None:
    name, _, more = form.partition(" ")
    columns: tuple[Any, ...] = FITTING
    if more == "with objects":
        columns = tuple(ColumnSpec(name, TEXT) for name in (b"id", b"o.a", b"o.p.q", b"o.p.r", b"s"))
    places = tuple(range(len(columns)))
    table = a_table(columns=columns, sink_order=places, source_columns=len(columns))
    schema = RowCodec((ColumnCodecSpec(b"id", ValueCodec.CODEC_INT, 32),))
    options = {"flatten": True, "table_fields": (b"o.a", b"id")} if more == "with objects" else {}
    encoder = an_encoder(lambda _: table, form=MessageForm[f"FORM_{name}"], read=lambda _: schema, **options)
    text = WHOLE[form].encode()
    out: list[Any] = []
    for end in range(1, len(text)):
        for some in (text[:end], b" " * 40 + text[:end]):
            records: Any = Bare([some])
            assert encode(encoder, records, out) == 0
    assert not out
    whole: Any = Bare([text, text])
    assert encode(encoder, whole, out) == 2
    assert len(out) == (4 if more == "of rows" else 2)


def test_ids_have_no_more_fields_than_parts() -> None:
    with pytest.raises(ValueError, match="more parts"):
        an_encoder(lambda _: None, table_fields=(b"a", b"b", b"c", b"d"))
    with pytest.raises(TypeError, match="bytes"):
        an_encoder(lambda _: None, table_fields=("a",))


def test_reasons_are_kept_of_few_tables() -> None:
    """Messages may name any table; the encoders of others are not lost by that."""
    asked: list[bytes] = []

    def find(name: bytes) -> Any:
        asked.append(name)
        return "why" if name.startswith(b"n") else a_table()

    encoder = an_encoder(find, table_fields=(b"a",))
    rows = [Message(b'{"id":1,"a":"%b"}' % name) for name in (b"t", *(b"n%d" % i for i in range(10_001)), b"t", b"n1")]
    out: list[Any] = []
    done = 0
    while done < len(rows):
        batch, done = encoder.encode(rows, done)
        out += batch
    assert len(out) == 2
    skips = encoder.skipped()
    assert skips == [(i, "why") for i in (*range(1, 10_002), 10_003)]
    assert len(asked) == 10_002 + 2, "all is asked for again, once there is too much"


def some_extra(*, metadata: Any = (("__raw_key__", "RAW_KEY"),), **other: Any) -> Any:
    specs = tuple(MetadataSpec(name.encode(), MetadataKind[f"METADATA_{kind}"], 0) for name, kind in metadata)
    return RowExtender(ExtraColumnsSpec(specs, **other))


def test_keys_that_end_anywhere_are_read_no_further() -> None:
    names = (b"k_id", b"k_a", b"v_id", b"v_a", b"__raw_key__")
    columns = tuple(ColumnSpec(name, INT if name.endswith(b"id") else TEXT) for name in names)
    table = a_table(columns=columns, sink_order=(0, 1, 2, 3, 4), source_columns=5)
    extra = some_extra(key=True, key_prefix=b"k_", value_prefix=b"v_")
    encoder = NativeEncoder(MessageSpec(ROWS), lambda _: table, lambda _: None, extra)
    for key in (ROW, b'{"schema":{},"payload":%b}' % ROW):
        out: list[Any] = []
        for end in range(1, len(key)):
            for some in (key[:end], b" " * 40 + key[:end]):
                records: Any = Bare([ROW], some)
                assert encode(encoder, records, out) == 0
        assert not out
        whole: Any = Bare([ROW, b'{ "id": 1 }'], key)
        assert encode(encoder, whole, out) == 2
        raw = base64.b64encode(key)
        assert out[0][2] == b'{"k_id":1,"k_a":"x","v_id":1,"v_a":"x","__raw_key__":"%b"}' % raw


def test_columns_about_records_that_are_none_are_refused() -> None:
    with pytest.raises(ValueError, match="there is not"):
        some_extra(metadata=[("all", "KINDS")])
    with pytest.raises(ValueError, match="more columns"):
        some_extra(metadata=[(str(i), "OFFSET") for i in range(17)])
    with pytest.raises(TypeError, match="bytes"):
        some_extra(key_prefix="k_")


def test_records_without_what_is_asked_of_them_are_left() -> None:
    table = a_table(columns=(*COLUMNS, ColumnSpec(b"offset", INT)), sink_order=(0, 1, 2), source_columns=3)
    extra = some_extra(metadata=[("offset", "OFFSET")])
    encoder = NativeEncoder(MessageSpec(ROWS), lambda _: table, lambda _: None, extra)
    records: Any = Bare([ROW])
    assert encode(encoder, records, []) == 0


def test_every_column_about_a_record_has_a_kind() -> None:
    names = [f"METADATA_{name.strip('_').replace('-', '_').upper()}" for name in METADATA]
    texts = ["METADATA_KEY_TEXT", "METADATA_VALUE_TEXT"]
    assert [*names, *texts, "METADATA_KINDS"] == [*MetadataKind.__members__]


def test_every_way_of_reading_values_has_a_codec() -> None:
    from ingest.formats.typed import Reads

    assert {f"CODEC_{name}" for name in Reads.__members__} == set(ValueCodec.__members__)

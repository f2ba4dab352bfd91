"""Native code refuses documents that name what there is not: tables, templates, inputs, codecs."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

import pytest

from ingest.native import native

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.compiled
if native.BUILT:
    from native_tables import COLUMNS, INT, ROW, Message, a_fed_table, a_table, an_encoder

    from ingest.native.codes import SegmentKind, ValueCodec
    from ingest.native.contract import ColumnCodecSpec, ColumnSpec, KeySpec, SegmentSpec, SlotSpec, TemplateSpec
    from ingest.native.message_schemas import RowCodec
    from ingest.native.native_encoder import NativeEncoder
    from ingest.native.row_encoder import RowEncoder
    from ingest.native.transform_rows import TransformRows


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
        lambda: some(ColumnSpec(b"id", 13)), lambda: some(ColumnSpec(b"id", -1)),  # type: ignore[arg-type]
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
        lambda: {"transform": -1}, lambda: {"decisive": (0,) * 2000}, lambda: {"before": (SlotSpec(0, 0, "l"),) * 2000},
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

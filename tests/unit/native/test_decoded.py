"""Native code that encodes decoded changes looks at all that it is handed before it uses it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from ingest.model.change import Change, InlineSchema, Kind, Skip
from ingest.native import native

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.compiled
if native.BUILT:
    from ingest.native.codes import ColumnKind
    from ingest.native.contract import ColumnSpec, KeySpec, RowEncoderSpec, SlotSpec, TransformInputSpec
    from ingest.native.decoded import DecodedEncoder
    from ingest.native.row_encoder import RowEncoder
    from ingest.native.transform_rows import TransformRows

    COLUMNS = (ColumnSpec(b"id", ColumnKind.COLUMN_INT), ColumnSpec(b"a", ColumnKind.COLUMN_TEXT))

T = ("t",)
ROW = msgspec.Raw(b'{"id":1,"a":"x"}')
INSERT: Any = Change(T, Kind.INSERT, None, ROW, None, None)
WRITTEN = ("out", b'{"id":1}', bytes(ROW))


class TableEncoder:
    """The counters of a table."""

    inserted = updated = deleted = bytes_in = bytes_out = 0


class Message:
    """A record that does something while it is asked for its offset."""

    def __init__(self, then: Callable[[], object] = lambda: None) -> None:
        self._then = then

    def offset(self) -> int:
        self._then()
        return 7


def a_table(*, fed: bool = False) -> Any:
    transform = TransformInputSpec(0, (SlotSpec(0, 0, "l"),), (None,)) if fed else None
    spec = RowEncoderSpec(COLUMNS, 2, (0, 1), KeySpec((0,)), transform=transform)
    return RowEncoder(spec, TableEncoder(), "out")


def an_encoder(find: Any = lambda _: a_table()) -> Any:
    return DecodedEncoder(find)


def changed(**other: Any) -> Any:
    given = {"table": T, "kind": Kind.UPDATE, "before": ROW, "after": ROW, "key": None, "declared": None, **other}
    return Change(**given)


def test_what_is_well_formed_is_encoded() -> None:
    batch, stop = an_encoder().encode([INSERT, changed(), changed(key=b'{"id":1}', declared=InlineSchema())], 0)
    assert (stop, [*batch]) == (3, [WRITTEN] * 3)


@pytest.mark.parametrize(
    "change",
    [
        None, 5, "x", [INSERT], [], (), INSERT[:5], (*INSERT, None), changed(kind="+U"), changed(kind=None),
        changed(key="k"), changed(key=bytearray(b"k")), changed(after=bytes(ROW)), changed(after=None),
        changed(after=memoryview(bytes(ROW))), changed(before="{}"), changed(after=msgspec.Raw(b"")),
        changed(after=msgspec.Raw(b'{"id":1,"a":"\xff"}')), changed(after=msgspec.Raw(b'{"id":1}x')),
        changed(before=msgspec.Raw(b"{")), changed(before=msgspec.Raw(b"null")), changed(before=msgspec.Raw()),
        changed(declared=InlineSchema({}, ("id",) * 17)), changed(declared=InlineSchema({}, ["id"])),  # type: ignore[arg-type]
        changed(declared=InlineSchema({}, (b"id",))),  # type: ignore[arg-type]
        changed(declared=InlineSchema(unread={"a": "it is none"})), changed(declared=InlineSchema(left_out=("a",))),
        changed(kind=Kind.DELETE, before=None),
    ],
)  # fmt: skip
def test_what_is_not_well_formed_is_left(change: Any) -> None:
    batch, stop = an_encoder().encode([INSERT, change, INSERT], 0)
    assert (stop, [*batch], batch.full) == (1, [WRITTEN], False)


@pytest.mark.parametrize("start", [-1, -(1 << 62)])
def test_there_is_no_change_before_the_first_one(start: int) -> None:
    with pytest.raises(ValueError, match="negative"):
        an_encoder().encode([INSERT], start)
    with pytest.raises(ValueError, match="negative"):
        an_encoder(lambda _: a_table(fed=True)).feed([INSERT], 0, [Message()], start, TransformRows(b"l"))


def test_after_the_last_change_there_is_nothing() -> None:
    for start in (1, 2, (1 << 63) - 1):
        batch, stop = an_encoder().encode([INSERT], start)
        assert (stop, len(batch), batch.full) == (start, 0, False)
    with pytest.raises(IndexError):
        an_encoder(lambda _: a_table(fed=True)).feed([INSERT], 0, [], 0, TransformRows(b"l"))


def test_changes_are_a_list() -> None:
    for changes in ((INSERT,), None, iter([INSERT])):
        with pytest.raises(TypeError):
            an_encoder().encode(changes, 0)


def test_a_table_that_is_not_found_is_asked_for_again() -> None:
    found: list[Any] = [None, 5, a_table()]
    encoder = an_encoder(lambda _: found.pop(0))
    assert [encoder.encode([INSERT], 0)[1] for _ in range(4)] == [0, 0, 1, 1]
    encoder.forget()
    with pytest.raises(IndexError):
        encoder.encode([INSERT], 0)


def test_tables_take_turns() -> None:
    tables = {
        ("t",): a_table(),
        ("u",): RowEncoder(RowEncoderSpec(COLUMNS, 2, (0, 1), KeySpec((0,))), TableEncoder(), "u"),
    }
    changes: list[Any] = [INSERT._replace(table=table) for table in [("t",), ("u",), ("u",), ("t",)] * 3]
    batch, _ = an_encoder(tables.get).encode(changes, 0)
    assert [to for to, _, _ in batch] == ["out", "u", "u", "out"] * 3


def test_messages_without_a_row_are_counted_by_their_reasons() -> None:
    encoder = an_encoder()
    batch, stop = encoder.encode([Skip("a"), INSERT, Skip("b"), Skip("a")], 0)
    assert (stop, len(batch)) == (4, 1)
    assert encoder.skipped() == {"a": 2, "b": 1}
    assert encoder.skipped() == {}


def test_it_is_not_entered_again_from_what_it_calls() -> None:
    encoder, rows, refused = an_encoder(), TransformRows(b"l"), []

    def again() -> None:
        for call in (
            lambda: encoder.encode([INSERT], 0), lambda: encoder.feed([INSERT], 0, [Message()], 0, TransformRows(b"l")),
            encoder.forget,
        ):  # fmt: skip
            with pytest.raises(RuntimeError, match="running already"):
                call()
            refused.append(1)

    def find(_: Any) -> Any:
        again()
        return a_table()

    assert an_encoder(find).encode([INSERT], 0)[1] == 1
    fed = an_encoder(lambda _: a_table(fed=True))
    assert fed.feed([INSERT], 0, [Message(again)], 0, rows) == 1
    assert len(refused) == 6
    assert rows.take()[0] == 1
    with pytest.raises(ZeroDivisionError):
        an_encoder(lambda _: 1 // 0).encode([INSERT], 0)
    assert encoder.encode([INSERT], 0)[1] == 1, "all of it works again"


def test_changes_that_go_while_they_are_read() -> None:
    changes: list[Any] = []

    def find(_: Any) -> Any:
        changes.clear()
        return a_table()

    changes += [INSERT, INSERT]
    batch, stop = an_encoder(find).encode(changes, 0)
    assert (stop, [*batch]) == (1, [WRITTEN])


def test_a_row_that_is_left_is_not_half_sent() -> None:
    rows = TransformRows(b"l")
    encoder = an_encoder(lambda _: a_table(fed=True))
    changes = [INSERT, Change(T, Kind.INSERT, None, msgspec.Raw(b'{"id":"x","a":"x"}'), None, None), INSERT]
    assert encoder.feed(changes, 0, [Message()] * 3, 0, rows) == 1
    assert encoder.feed(changes, 2, [Message()] * 5, 2, rows) == 3
    assert rows.take()[0] == 2

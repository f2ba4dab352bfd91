"""Native code refuses to be entered again, and keeps its memory whatever is done to what it was given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from ingest.native import native

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.compiled
if native.BUILT:
    from native_tables import (
        AGAIN,
        COLUMNS,
        DEBEZIUM,
        ROW,
        Message,
        TableEncoder,
        a_fed_table,
        a_table,
        an_encoder,
        encode,
        in_thread,
    )

    from ingest.native.codes import ValueCodec
    from ingest.native.contract import ColumnCodecSpec
    from ingest.native.merge import merge_results
    from ingest.native.message_schemas import RowCodec
    from ingest.native.native_encoder import settle
    from ingest.native.transform_rows import TransformRows


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

"""Small tables and messages for tests of the native code itself. Native code has to be built."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
from ingest.native.codes import ColumnKind, MessageForm
from ingest.native.contract import ColumnSpec, KeySpec, MessageSpec, RowEncoderSpec, SlotSpec, TransformInputSpec
from ingest.native.native_encoder import NativeEncoder
from ingest.native.row_encoder import RowEncoder

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

    inserted = updated = deleted = bytes_in = bytes_out = 0


def a_spec(**other: Any) -> Any:
    given = {"columns": COLUMNS, "source_columns": 2, "sink_order": (0, 1), "key": KeySpec((0,)), **other}
    return RowEncoderSpec(**given)


def a_table(reference: Any = None, destination: Any = "out", **other: Any) -> Any:
    return RowEncoder(a_spec(**other), reference or TableEncoder(), destination)


def a_fed_table(**other: Any) -> Any:
    """With `id` in slot 0 and a text that all rows have in slot 1."""
    given = {
        "transform": 0, "inputs": (SlotSpec(0, 0, "l"),), "constants": (None, "all"), "decisive": (0,), "key": (0,),
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

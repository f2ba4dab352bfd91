# One call at a time: `NativeEncoder`, `merge_results` and `settle` raise RuntimeError while one of them runs, in
# whatever thread; `TransformRows` while one of its own does.
from collections.abc import Callable, Sequence

from ingest.model.record import Record
from ingest.native.contract import MessageSpec
from ingest.native.extra_columns import RowExtender
from ingest.native.message_schemas import RowCodec
from ingest.native.records import EncodedBatch, Messages
from ingest.native.row_encoder import RowEncoder
from ingest.native.transform_rows import TransformRows

class NativeEncoder:
    """Encodes the messages of one topic."""

    def __init__(
        self,
        spec: MessageSpec,
        find: Callable[[bytes], RowEncoder | str | None],
        read: Callable[[bytes], RowCodec | None],
        extra: RowExtender | None = None,
        /,
    ) -> None:
        """`find`: returns what encodes the table of an id, or the reason why its messages are skipped.

        An id is its parts, each with a zero byte behind it: three, or as many as `table_fields` of `spec` are.
        `read`: returns what a text says of columns' types. `extra`: the columns that rows have beside those of their
        values.
        """

    def encode(self, messages: Sequence[Record] | Messages, start: int, /) -> tuple[EncodedBatch, int]:
        """Encode messages from `start` on; return their records, and the index of the first message that is left.

        That one is for the reference, unless the batch is `full`: then the next call goes on there.
        """

    def feed(self, messages: Sequence[Record] | Messages, start: int, rows: TransformRows, /) -> int:
        """Put rows for expressions in `rows`; return the index of the first message that is for the reference."""

    def skipped(self) -> list[tuple[int, str]]:
        """Return the messages that were passed since the last time and stand for no row: the index, and the reason."""

    def forget(self) -> None:
        """Ask for every table again."""

def settle() -> None:
    """Tell the tables' encoders what was encoded since the last time."""

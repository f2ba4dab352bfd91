# One call at a time: see native_encoder.pyi.
from collections.abc import Callable, Sequence

from ingest.model.change import Decoded
from ingest.model.record import Record
from ingest.model.table import TableId
from ingest.native.records import EncodedBatch
from ingest.native.row_encoder import RowEncoder
from ingest.native.transform_rows import TransformRows

class DecodedEncoder:
    """Encodes changes that the reference has decoded."""

    def __init__(self, find: Callable[[TableId], RowEncoder | None], /) -> None:
        """`find`: returns what encodes a table, or None where that is the reference."""

    def encode(self, changes: list[Decoded], start: int, /) -> tuple[EncodedBatch, int]:
        """Encode changes from `start` on; return their records, and the index of the first one that is left.

        That one is for the reference, unless the batch is `full`: then the next call goes on there.
        """

    def feed(
        self, changes: list[Decoded], start: int, messages: Sequence[Record], first: int, rows: TransformRows, /
    ) -> int:
        """Put rows for expressions in `rows`; return the index of the first change that is for the reference.

        `changes[i]` is of `messages[first + i]`.
        """

    def skipped(self) -> dict[str, int]:
        """Return how many messages stood for no row since the last time, by the reason."""

    def forget(self) -> None:
        """Ask for every table again."""

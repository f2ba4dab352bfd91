from typing import Any

from ingest.native.records import EncodedBatch
from ingest.native.row_encoder import RowEncoder

def merge_results(
    encoders: list[RowEncoder | None],
    targets: list[tuple[Any, Any]],
    size: int,
    kept: list[tuple[int, Any, Any, Any]],
    kinds: bytes,
    sent: int,
    back: list[tuple[int, Any, Any, Any]],
    start: int,
    row: int,
    limit: int,
    /,
) -> tuple[EncodedBatch, int, int, int, dict[int, tuple[int, int]]]:
    """Encode rows from `start` on, with the results that came back for them.

    `encoders`: by transform; `targets`: where ready-made records go, by their number. `kept`: of each of `size` rows,
    transform, target, offset, what it is, text, key. `back`: of those `sent` rows that went to expressions, transform,
    mask of failures, and the results, which are of these `kinds`; those of the row `start` begin at `row`. Columns are
    (first value, validity, offsets, data), as Arrow has them. `limit`: the offset to end before. Rows of one offset
    are one message. Returns the records, the first row that is left to the reference, where its results begin, how many
    messages did not pass, and by target how many records went there, with the bytes of the messages that they end.
    What is written is counted in the encoders of `encoders`. Raises ValueError or TypeError for columns that are not as
    they are said to be.
    """

from collections.abc import Callable, Sequence

from ingest.sources.mysql.row_decoder import KnownTable

class RowShape:
    """Where values of a row are, so that some can be compared; see ingest/sources/mysql/cascades.py."""

    def __init__(self, sizes: Sequence[tuple[int, int]], places: Sequence[int]) -> None: ...

class RowPlan:
    """How rows of a table are decoded natively; see ingest/sources/mysql/table_maps.py."""

    known: KnownTable
    map: bytes

    def __init__(
        self,
        known: KnownTable,
        map: bytes,  # noqa: A002  (the log's own word)
        head: bytes,
        tails: Sequence[bytes],
        columns: Sequence[tuple[int, int, int, int, int, bytes, tuple[bytes, ...]]],
        read: Callable[[int, bytes], bytes],
    ) -> None: ...

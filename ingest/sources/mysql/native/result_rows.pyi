from collections.abc import Sequence

from ingest.model.record import Record
from ingest.sources.mysql.query_values import ValueWriter

class ResultSetRows:
    """Takes what a socket gives of a result set's rows, up to its end."""

    ended: bool
    error: bytes | None

    def __init__(
        self,
        head: bytes,
        tail: bytes,
        names: Sequence[bytes],
        writers: Sequence[ValueWriter],
        position: int,
        millis: int,
        with_metadata: bool = False,
    ) -> None: ...
    def __len__(self) -> int: ...
    @property
    def size(self) -> int: ...
    def feed(self, data: bytes | memoryview) -> None: ...
    def take(self) -> Sequence[Record]: ...

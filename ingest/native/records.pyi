from collections.abc import Iterator, Sequence
from typing import Any, overload

from ingest.encode.upsert_encoder import Record

class Messages:
    """Records of one split, in order, without a Python object for each."""

    def __len__(self) -> int: ...
    @property
    def size(self) -> int:
        """Bytes of all keys and values."""

class EncodedBatch(Sequence[Record]):
    """Records that are to be written."""

    @property
    def targets(self) -> list[Any]:
        """The destinations of the records, each as often as a table has it."""

    @property
    def full(self) -> bool:
        """True if it ended because it has enough records: the next message may be encoded natively as well."""

    def __len__(self) -> int: ...
    @property
    def size(self) -> int:
        """Bytes of all keys and values."""

    @overload
    def __getitem__(self, at: int, /) -> Record: ...
    @overload
    def __getitem__(self, at: slice, /) -> list[Record]: ...
    def __iter__(self) -> Iterator[Record]: ...

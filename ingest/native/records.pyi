from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias, overload

EncodedRecord: TypeAlias = tuple[Any, bytes | None, bytes | None]
"""Destination, key, value."""

class Messages:
    """Records of one split, in order, without a Python object for each."""

    def __len__(self) -> int: ...
    @property
    def size(self) -> int:
        """Bytes of all keys and values."""

class EncodedBatch(Sequence[EncodedRecord]):
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
    def __getitem__(self, at: int, /) -> EncodedRecord: ...
    @overload
    def __getitem__(self, at: slice, /) -> list[EncodedRecord]: ...
    def __iter__(self) -> Iterator[EncodedRecord]: ...

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, overload

from ingest.model.record import Headers, Record

class Writer(Protocol):
    """What a client that writes asks."""

    def resolve(self, destination: Any, /) -> tuple[str, int, Headers | None]:  # noqa: ANN401
        """The topic, the partition or -1, and the headers of a destination; raises IngestError."""

    def refused(self, code: int, topic: str, size: int, /) -> None:
        """Raise IngestError: librdkafka does not take a record of so many bytes."""

    def check(self, client: Client | None, /) -> None:
        """Raise IngestError where there is no use in waiting."""

class Records(Sequence[Record]):
    """Consecutive records of one split."""

    @property
    def raw(self) -> object:
        """The records in C."""

    @overload
    def __getitem__(self, at: int, /) -> Record: ...
    @overload
    def __getitem__(self, at: slice, /) -> Records: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Record]: ...

class Client:
    """The ways of a Kafka client that need no object for a record.

    While a record is written, `write` and `send` raise RuntimeError: what is called back, and other threads, stay out.
    """

    def __init__(self, owner: Any, writer: Writer | None, /) -> None:  # noqa: ANN401
        """`owner` is the client that was made last in this thread, with this module as librdkafka's plugin.

        Raises RuntimeError where there is none.
        """

    @property
    def raw(self) -> object:
        """Where records go in C."""

    def busy(self) -> bool:
        """Whether there are records that were taken from it."""

    def close(self) -> None:
        """Let go of what is librdkafka's, before the owner is closed.

        Raises RuntimeError where there are records of it, or a call has not ended yet.
        """

    def notes(self) -> tuple[tuple[int, str, bool], ...]:
        """The last errors since one asked last: code, text, whether it is fatal."""

    def failures(self) -> tuple[int, tuple[int, str, int] | None]:
        """How many deliveries failed; code, topic and partition of the first one since one asked last."""

    def write(self, records: Sequence[tuple[Any, bytes | None, Any]], /) -> None:
        """Queue records: destination, key, value. Waits for room; raises what `Writer` raises."""

    def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        headers: Headers | None,
        millis: int | None,
        /,
    ) -> None:
        """Queue one record. Raises as `write` does."""

    def consume(
        self, most: int, millis: int, /
    ) -> tuple[list[tuple[str, int, Records]], list[tuple[str, int, int, str]]]:
        """Take records of each split in order: topic, partition, records; and errors: topic, partition, code, text."""

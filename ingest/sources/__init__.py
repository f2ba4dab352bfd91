"""One file per source: its options, what splits there are, where they end, how to pull a range.

Third parties add theirs under the entry point `ingest.sources`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Literal, Protocol

from ingest.component.plugins import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping

    from ingest.formats import Decoder, Format
    from ingest.formats.metadata_columns import ExtraColumns
    from ingest.model.commit import Reporting
    from ingest.model.probe import SideProbe
    from ingest.model.record import Chunk, Headers, Split
    from ingest.model.reject import IgnoredErrors
    from ingest.model.table import TableId
    from ingest.schema.infer import Inference
    from ingest.sources.records import RecordOptions, SourceCapabilities
    from ingest.sources.stateful import RowLetters, StatefulCoordinator, StatefulReader


class Reader(Protocol):
    """Reads ranges of a source's splits in a task. It stays from task to task: `read` is called again and again."""

    stateful: StatefulReader | None = None
    """The part for a source with a state; None where the source has none."""
    is_sample: bool = False
    """True if nobody knows what was before its records."""

    @property
    def reporting(self) -> Reporting | None:
        """The client that has something to tell; None where there is none."""
        return None

    @abstractmethod
    def read(self, ranges: Mapping[Split, tuple[int, int]]) -> Generator[Chunk | None]:
        """Yield chunks until every range is read, and None when nothing came for a moment. Raises IngestError."""

    @abstractmethod
    def position(self, split: Split) -> int:
        """Return the next position that this split's range would give."""

    @abstractmethod
    def first(self, split: Split) -> int:
        """Return the first position that a split still has. Raises IngestError."""

    @abstractmethod
    def close(self) -> None:
        """Release connections and files."""


class OffsetPublisher(Protocol):
    """The driver's side of a source that shows others how far it has read, as a consumer group does."""

    def commit(self, positions: Mapping[Split, int]) -> None:
        """Show the positions."""

    def keep(self, positions: Mapping[Split, int]) -> None:
        """Show them again now and then while nothing happens."""


class SourceCoordinator(ABC):
    """The driver's side of a source, and the roles that it has. Methods raise IngestError only.

    A role is an attribute, None where the source does not have it.
    """

    ids: dict[str, str]
    """The topics, or what stands for them, that are read, with their ids."""
    publisher: OffsetPublisher | None = None
    stateful: StatefulCoordinator | None = None
    """The part of a source with a state: see `sources/stateful.py`."""
    probe: SideProbe | None = None
    """A question that shows whether the source answers; None where there is nothing that could be away."""

    @abstractmethod
    def connect(self) -> str:
        """Return an identity of where records come from."""

    @abstractmethod
    def fingerprint(self, identity: str) -> dict[str, Any]:
        """Return what a checkpoint of this source depends on."""

    @abstractmethod
    def start(
        self, stored: Mapping[Split, int], ids: Mapping[str, str], owner: str, from_time: int | None
    ) -> dict[Split, int]:
        """Return where each split starts: where it stood (`stored`, of the topics `ids`), else what the options say."""

    @abstractmethod
    def check(self, positions: Mapping[Split, int]) -> dict[Split, int]:
        """Return the positions, where what they point at is still there; otherwise as `scan.on-data-loss` says."""

    @abstractmethod
    def ends(self, positions: Mapping[Split, int]) -> dict[Split, int]:
        """Return where each split ends now."""

    @abstractmethod
    def extent(self, ends: Mapping[Split, int]) -> dict[Split, tuple[int, int]]:
        """Return the first position that each split has now, with where it ends."""

    @abstractmethod
    def reads(self, topic: str) -> bool:
        """Tell whether a topic is, or would be, one of those that are read."""

    @abstractmethod
    def finished(self, positions: Mapping[Split, int]) -> bool:
        """Return whether a bounded source was read to its end."""

    @abstractmethod
    def discover(self, positions: Mapping[Split, int]) -> dict[Split, int]:
        """Return the starts of splits that are new since the last look."""

    @abstractmethod
    def resolve(self, splits: Iterable[Split], to: Literal["earliest", "latest"] | int) -> dict[Split, int]:
        """Return the positions that an operator means by `earliest`, `latest`, or a time in milliseconds since 1970."""

    @abstractmethod
    def topics(self, names: Iterable[str]) -> Mapping[str, Any]:
        """Return those of these topics that exist, with their `id` and their number of `partitions`."""

    @abstractmethod
    def close(self) -> None:
        """Release connections."""


class Source(Protocol):
    """The options model of a source; `RecordOptions` has much of it."""

    @property
    def capabilities(self) -> SourceCapabilities:
        """The properties of its records: see `SourceCapabilities`."""

    @property
    def only(self) -> frozenset[TableId] | None:
        """The tables that are read; None if all are. Decoders and native code skip the changes of all others."""

    @property
    def format(self) -> Format:
        """The format of the values, with its options."""

    @property
    def sample_size(self) -> int:
        """The number of the newest records of each split that are looked at before the first batch."""

    @property
    def extra(self) -> ExtraColumns:
        """The columns that come from elsewhere than the value."""

    @property
    def ignored_errors(self) -> IgnoredErrors:
        """The errors of parsing that do not count: of keys, of values."""

    @property
    def tolerated(self) -> int:
        """The number of rejects that the pipeline tolerates over all runs."""

    def decoder(self, split: Split, topic: str) -> Decoder:
        """Return a decoder for the records of a split that are of one topic. Raise ConfigError."""

    def inference(self, max_columns: int) -> Inference:
        """Return how schemas are found."""

    @property
    def wanted(self) -> Callable[[Headers | None], bool] | None:
        """The condition on a record's headers for it to be read; None if all are."""

    @property
    def row_letters(self) -> RowLetters | None:
        """What makes dead letters of records that are no messages; None where all are messages."""

    @property
    def rate_limit(self) -> float | None:
        """Records in a second, at most."""

    def coordinator(self, pipeline: str, warn: Callable[[str], None]) -> SourceCoordinator:
        """Return the coordinator that the driver asks about the source."""

    def reader(self, pipeline: str) -> Reader:
        """Return the reader that a task reads the source with."""


SOURCES: Registry[RecordOptions] = Registry(
    "ingest.sources",
    "ingest.sources.records:RecordOptions",
    ("type", "wanted", "rate_limit", "coordinator", "reader"),
    {
        "kafka": "ingest.sources.kafka.options:KafkaSource",
        "upsert-kafka": "ingest.sources.kafka.options:UpsertKafkaSource",
        "file": "ingest.sources.file:FileSource",
        "mysql": "ingest.sources.mysql.options:MySqlSource",
    },
)
"""The sources that come with the package, by their `type`."""

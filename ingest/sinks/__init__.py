"""One file per sink: its options, its writer, its table evolution.

A writer lives in a task, for one shard. Data and progress commit together: see `Writer`.
Third parties add theirs under the entry point `ingest.sinks`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ingest.sinks.upsert_kafka import UpsertKafka

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ingest.flow.plan import Record
    from ingest.kafka.admin import Split


class Writer(Protocol):
    """Writes the records of one shard. After `commit` returned, a crash loses none of what was written before it."""

    def resume(self, split: Split, start: int) -> int:
        """The position from which to write: `start`, or where this split's last commit ended (exactly-once)."""

    def write(self, records: Sequence[Record]) -> None:
        """Take records; blocks while too much is under way. Raises IngestError."""

    def commit(self, positions: Mapping[Split, int]) -> None:
        """Make durable all that was written up to these positions. Raises IngestError; then the outcome is unknown."""

    def abort(self) -> None:
        """Give up what was written since the last commit, as far as the guarantee allows."""


SINKS: dict[str, type[UpsertKafka]] = {"upsert-kafka": UpsertKafka}
"""The sinks that come with the package, by their `type`."""

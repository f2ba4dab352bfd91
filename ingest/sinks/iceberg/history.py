"""The line of a table's snapshots, from the current one back, and the commits of a checkpoint that are not in it.

A rollback makes an older snapshot the current one. What was committed after it stays in the table's metadata, and so do
the notes of batches, which are properties of the table; but none of its rows are there. Rules:
docs/spec/iceberg.md#delivery.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from ingest.sinks.lake.files import Mark, TakenAway

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot


NOTE: Final = "ingest."
"""Beginning of the property in which a table notes the last batch of a checkpoint. Its end is the progress' owner."""
PIPELINE: Final = "ingest-pipeline."
"""Beginning of the property in which a table notes the checkpoint of a pipeline. Its end is the pipeline's name."""
BATCH: Final = "ingest-batch"
CHECKPOINT: Final = "ingest-checkpoint"
"""Words of a snapshot's summary for its batch, and for the owner of the progress."""


def mark_of(metadata: TableMetadata, batch: int) -> Mark:
    """Return the mark of a table as it is, which has this batch: its snapshot, and the newest sequence number."""
    current = metadata.current_snapshot()
    at = None if current is None else current.snapshot_id
    own = 0 if current is None else current.sequence_number or 0
    return Mark(batch, (at, own, _newest(metadata)))


def taken_away(metadata: TableMetadata, mark: Mark, checkpoint: str) -> TakenAway | None:
    """Return what somebody has taken away of the rows of a checkpoint since a mark; None where nothing is gone."""
    at, sequence, newest = mark.state
    if (metadata.current_snapshot_id, _newest(metadata)) == (at, newest):
        return None  # as it mostly is
    line = _Line.of(metadata)
    off = [one for one in metadata.snapshots if one.snapshot_id not in line.ids]
    gone = [one for one in off if (one.sequence_number or 0) > newest and _owner(one).startswith(checkpoint)]
    # Of a line whose beginning has expired nobody knows what was before it
    left = at is not None and at not in line.ids and (line.whole or sequence >= line.oldest)
    if not gone and not left:
        return None
    batches = [_batch(one) for one in gone if _owner(one) == checkpoint]
    back = gone or any(one.snapshot_id == at for one in off)
    how = "somebody has rolled it back" if back else "somebody has put another table, or an older state, in its place"
    others = any(_owner(one) != checkpoint for one in gone)
    found = TakenAway(how, line.kept(checkpoint), max([mark.batch, *batches]), others)
    return found if found.rows else None


def older_progress(metadata: TableMetadata, checkpoint: str, pipeline: str) -> str | None:
    """Return another checkpoint with which a pipeline has written to a table; None where there is none.

    Nothing is said of a table to which this checkpoint has written.
    """
    properties = metadata.properties
    owners = {key.removeprefix(NOTE).partition(".")[0] for key in properties if key.startswith(NOTE)}
    return None if checkpoint in owners else properties.get(PIPELINE + pipeline)


def _newest(metadata: TableMetadata) -> int:
    """Return the newest sequence number of a table. Those of format version 1, which stop a run, have none."""
    return getattr(metadata, "last_sequence_number", 0)


class _Line(NamedTuple):
    """The snapshots of a table from the current one back, as far as they are there."""

    snapshots: list[Snapshot]
    whole: bool
    """True if nothing of it has expired."""

    @classmethod
    def of(cls, metadata: TableMetadata) -> _Line:
        by_id = {one.snapshot_id: one for one in metadata.snapshots}
        found, at = [], metadata.current_snapshot_id
        while at in by_id:
            found.append(by_id.pop(at))
            at = found[-1].parent_snapshot_id
        return cls(found, at is None)

    @property
    def ids(self) -> set[int]:
        return {one.snapshot_id for one in self.snapshots}

    @property
    def oldest(self) -> int:
        """The sequence number of the first snapshot that is there."""
        return (self.snapshots[-1].sequence_number or 0) if self.snapshots else 0

    def kept(self, checkpoint: str) -> int | None:
        """Return the last batch of a checkpoint in it, 0 where it has none; None where that may have expired."""
        for one in self.snapshots:
            if _owner(one) in {checkpoint, ""} and _batch(one):
                return _batch(one)
        return 0 if self.whole else None


def _owner(snapshot: Snapshot) -> str:
    """Return the owner of the progress that a snapshot belongs to; nothing where it does not say so."""
    return "" if snapshot.summary is None else snapshot.summary.additional_properties.get(CHECKPOINT, "")


def _batch(snapshot: Snapshot) -> int:
    text = "" if snapshot.summary is None else snapshot.summary.additional_properties.get(BATCH, "")
    return int(text) if text.isdecimal() else 0

"""Notes of backfills in a checkpoint: which tables, into which places, up to where, and whether it came to its end.

`backfills/N.note` is the note of a backfill, `backfills/N/` has its plans and progress, as of any run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

if TYPE_CHECKING:
    from ingest.checkpoint.checkpoint import Checkpoint
    from ingest.model.record import Split
    from ingest.model.table import TableId

FOLDER: Final = "backfills"


@dataclass(slots=True)
class BackfillNote:
    """A backfill."""

    tables: tuple[TableId, ...]
    places: list[list[str]]
    """The sink tables that its rows go to, each with where the sink has it."""
    ends: dict[Split, int]
    """The positions of the pipeline when it began."""
    finished: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        ends = [[topic, p, at] for (topic, p), at in self.ends.items()]
        return {"tables": self.tables, "places": self.places, "ends": ends, "finished": self.finished}


def backfill_notes(checkpoint: Checkpoint) -> dict[int, BackfillNote]:
    """Return the backfills of a checkpoint by their numbers. Raises CheckpointError."""
    out = {}
    for name in checkpoint.storage.names(FOLDER):
        number = name.removesuffix(".note")
        if name == number or not number.isdigit():
            continue
        try:
            found = orjson.loads(checkpoint.storage.read(f"{FOLDER}/{name}") or b"")
            ends = {(topic, p): at for topic, p, at in found["ends"]}
            tables = tuple(tuple(table) for table in found["tables"])
            out[int(number)] = BackfillNote(tables, found["places"], ends, found["finished"])
        except (ValueError, KeyError, TypeError) as exc:
            raise checkpoint.damaged(f"{FOLDER}/{name}", exc) from exc
    return dict(sorted(out.items()))


def store_note(checkpoint: Checkpoint, number: int, note: BackfillNote) -> None:
    """Store a backfill. Raises CheckpointError where a newer run has taken over."""
    checkpoint.refuse_newer_run()
    checkpoint.storage.write(f"{FOLDER}/{number}.note", orjson.dumps(note.to_json()))

"""Sends dead letters back through their pipeline, under the pipeline's checkpoint.

    replays/N.note         which letters, and where reading began: written before anything else
    replays/N/             plans and progress of that replay, as of any run

In: a pipeline whose dirty data goes to Kafka, and a selection. Out: a summary. What is rejected again is a new letter.
A letter was replayed when the progress of an earlier replay that selected it had passed it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson

from ingest.checkpoint.inspect import opened
from ingest.deadletter.browse import letters, tally
from ingest.deadletter.source import Replayed, Selection
from ingest.driver.loop import Loop, carry_out
from ingest.errors import ConfigError
from ingest.observe.events import RunEnded, Warned

if TYPE_CHECKING:
    from collections.abc import Callable

    from ingest.checkpoint.checkpoint import Batch, Checkpoint, Progress
    from ingest.config.pipeline import Pipeline
    from ingest.driver.start import Settings
    from ingest.observe.events import Observer

_FOLDER = "replays"


def replay(pipeline: Pipeline, settings: Settings, observer: Observer, selection: Selection) -> RunEnded:
    """Replay what is selected and was not replayed before; raises IngestError."""
    staged = pipeline.model_copy(update={"source": pipeline.dead_letters(selection)})
    return carry_out(_Replay, staged, settings, observer, RunEnded(f"{pipeline.pipeline.name} (replay)"))


def plan_replay(
    pipeline: Pipeline, settings: Settings, observer: Observer, selection: Selection
) -> list[dict[str, Any]]:
    """Count what `replay` would send back, by table, code and topic; writes nothing. Raises IngestError."""
    source = pipeline.dead_letters(selection)
    with opened(settings.checkpoint, settings.conf, write=False) as checkpoint:
        earlier, _ = replays(checkpoint, lambda *_: False)
    return tally(letters(replace(source, earlier=tuple(earlier)), lambda text: observer(Warned(text))))


class _Replay(Loop):
    """Main street, from the topic of dead letters, with progress of its own."""

    def connect(self) -> None:
        """Everything that needs Kafka and the checkpoint only."""
        if self.remote:
            self.open(self.storage())
        checkpoint = self.checkpoint
        if not checkpoint.exists:
            msg = f"there is no checkpoint at {checkpoint.where}: this pipeline never ran"
            raise ConfigError(msg, "give its --checkpoint, if it has another one")
        checkpoint.begin()
        self.source.connect()
        self.sink.connect()
        self.sink.acquire(checkpoint.id, checkpoint.run)
        earlier, number = replays(checkpoint, self.settle)
        positions = self.source.start({}, {}, checkpoint.id, None)
        staged = replace(self.pipeline.source, earlier=tuple(earlier))
        self.pipeline = self.pipeline.model_copy(update={"source": staged})
        note = {"selection": staged.selection.to_json(), "starts": [[t, p, at] for (t, p), at in positions.items()]}
        checkpoint.storage.write(f"{_FOLDER}/{number}.note", orjson.dumps(note))
        checkpoint.batches = f"{_FOLDER}/{number}"
        self.settle(self.progress, None)
        self.progress.positions = positions
        self.progress.ids = dict(self.source.ids)
        self.take_schemas()
        self.targets = self.ends = self.source.ends(positions)


def replays(checkpoint: Checkpoint, settle: Callable[[Progress, Batch | None], bool]) -> tuple[list[Replayed], int]:
    """What earlier replays did, and the number of the next one. Raises CheckpointError.

    `settle` adds to a replay's progress what it wrote of a batch whose end it did not see, where the sink knows that.
    """
    out = []
    numbers = [int(n.removesuffix(".note")) for n in checkpoint.storage.names(_FOLDER) if n.endswith(".note")]
    for number in sorted(numbers):
        try:
            note: dict[str, Any] = orjson.loads(checkpoint.storage.read(f"{_FOLDER}/{number}.note") or b"")
            checkpoint.batches = f"{_FOLDER}/{number}"
            progress, unfinished = checkpoint.progress()
            if unfinished is not None and settle(progress, unfinished):
                checkpoint.done(progress, {})
            reached = progress.positions
            starts = {(topic, p): at for topic, p, at in note["starts"]}
            ranges = {split: (at, reached.get(split, at)) for split, at in starts.items()}
            out.append(Replayed(Selection.from_json(note["selection"]), ranges))
        except (ValueError, KeyError, TypeError) as exc:
            raise checkpoint.damaged(f"{_FOLDER}/{number}.note", exc) from exc
    return out, max(numbers, default=0) + 1

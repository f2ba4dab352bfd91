"""What shells complete out of a pipeline's checkpoint: its tables and topics."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from ingest.checkpoint.inspect import opened, overview
from ingest.checkpoint.schema_history import current, history
from ingest.cli.completing import named_place, typed_words
from ingest.config.loader import load
from ingest.errors import IngestError
from ingest.model.table import show
from ingest.paths import is_remote, usual_checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable

    from ingest.checkpoint.checkpoint import Checkpoint


def source_tables() -> list[str]:
    """Return the source tables that the pipeline's checkpoint knows."""
    return _from_checkpoint(lambda checkpoint: _tables(checkpoint, observed=True))


def tables() -> list[str]:
    """Return the tables of the sink that the checkpoint knows; with --observed those of the source."""
    return _from_checkpoint(lambda checkpoint: _tables(checkpoint, observed="--observed" in typed_words()))


def _tables(checkpoint: Checkpoint, *, observed: bool) -> list[str]:
    return [show(version.table) for version in current(history(checkpoint, observed=observed), None)]


def topics() -> list[str]:
    """Return the topics that the pipeline has read."""
    return _from_checkpoint(lambda checkpoint: sorted({topic for topic, _ in checkpoint.progress()[0].positions}))


def sink_topics() -> list[str]:
    """Return the topics of the sink over whose partitions keys are hashed."""
    return _from_checkpoint(
        lambda checkpoint: [spread["topic"] for spread in overview(checkpoint, None)["key_partitions"]]
    )


def records() -> list[str]:
    """Return `TOPIC:PARTITION:` for each partition that the pipeline has read."""
    return _from_checkpoint(lambda checkpoint: [f"{t}:{p}:" for t, p in sorted(checkpoint.progress()[0].positions)])


def _from_checkpoint(words: Callable[[Checkpoint], list[str]]) -> list[str]:
    """Return words out of the checkpoint that the command line means, where it is on this machine."""
    typed, file = typed_words(), named_place()
    where = typed[typed.index("--checkpoint") + 1] if "--checkpoint" in typed[:-1] else str(file)
    with suppress(IngestError, OSError):
        if where == str(file) and file.is_file():
            pipeline = load(file, {}, code=False).pipeline
            where = str(usual_checkpoint(file.stem if pipeline is None else pipeline.pipeline.name))
        if not is_remote(where):
            with opened(where, {}, write=False) as checkpoint:
                return words(checkpoint)
    return []

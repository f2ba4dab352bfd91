"""Values of a commit: what one shard has to do in one batch, and how far an earlier attempt at it came."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    Split = tuple[str, int]


@dataclass(frozen=True, slots=True)
class CommitScope:
    """A shard's part of a batch. Every attempt at it, in whatever process, has an equal one but for `kept`."""

    owner: str
    """Whose progress it is: the checkpoint's id; a replay of dead letters has progress of its own."""
    run: int
    batch: int
    planned: int
    """The run that planned the batch."""
    shard: int
    starts: Mapping[Split, int]
    """Where the ranges begin."""
    kept: bool
    """Whether this very process was the last to write this shard, as far as the driver knows."""


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """What an earlier attempt at a shard's part of a batch has committed."""

    positions: Mapping[Split, int]
    metadata: bytes
    """What it had counted until then (`ingest/task/counters.py`); empty where nothing was kept."""
    final: bool
    """Whether it had ended: there is nothing left to do, wherever it stopped."""

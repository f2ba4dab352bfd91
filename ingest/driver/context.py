"""The context that every part of a run knows: its pipeline, how it is run, and who is told of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ingest.driver.clock import CLOCK
from ingest.driver.life import LifeFile
from ingest.observe.events import Warned

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ingest.config.pipeline import Pipeline
    from ingest.driver.clock import Clock
    from ingest.model.shared_place import SharedMark
    from ingest.observe.events import Observer

MAX_WARNED: Final = 1000
"""Warnings that are remembered so that none of them is repeated."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a run, as the command line gives them."""

    checkpoint: str
    """A local directory, or a URI that Hadoop's file systems understand."""
    logs: Path
    """The directory of Spark's log."""
    master: str = "local[*]"
    conf: Mapping[str, str] = field(default_factory=dict)
    once: bool = False
    alive: Path | None = None
    """A file to touch every few seconds, for whoever watches over the run."""
    progress: Path | None = None
    """A file with an exported checkpoint, from which a plan goes on in the place of `checkpoint`."""
    from_time: int | None = None
    """The time to start at where the checkpoint does not say, in milliseconds since 1970."""


class RunContext:
    """The pipeline, the settings and the observer of one run."""

    def __init__(self, pipeline: Pipeline, settings: Settings, observer: Observer, clock: Clock = CLOCK) -> None:
        """Tell nothing yet."""
        self.pipeline = pipeline
        self.settings = settings
        self.observer = observer
        self.clock = clock
        self.marks: tuple[SharedMark, ...] = ()
        """What executors look for in directories that they share with the driver."""
        self.life = LifeFile(settings.alive, observer, clock)
        """The file by which a probe sees that the run gets on, or waits."""
        self.begun_before = False
        """True if this process has begun the run before: it goes on after a side was away."""
        self._warned: set[str] = set()

    @property
    def name(self) -> str:
        """The pipeline's name."""
        return self.pipeline.pipeline.name

    @property
    def prefix(self) -> str | None:
        """The beginning of the names of the sink's transactions; None where the sink has no transactions."""
        prefix: str | None = self.pipeline.sink.prefix(self.name)
        return prefix

    def warn(self, text: str) -> None:
        """Tell the observer something that stops nothing."""
        self.observer(Warned(text))

    def warn_once(self, text: str) -> None:
        """Warn, unless the same text was told in this run already."""
        if text not in self._warned and len(self._warned) < MAX_WARNED:
            self._warned.add(text)
            self.warn(text)

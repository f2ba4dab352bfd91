"""The context of a run: pipeline, settings, observer, clock, stop signals, liveness, and the files that options name.

Every part of a run knows it, and it knows none of them. Files are read once, when a run or a command starts: local ones
at once, those on one of Hadoop's file systems by Java. A pipeline's description, which checkpoints keep, has only their
places.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from queue import SimpleQueue
from threading import Thread, current_thread, main_thread
from typing import TYPE_CHECKING, Any, Final, Protocol

from ingest.checkpoint.hadoop_storage import started_hadoop
from ingest.component.files import Files
from ingest.component.options import filled
from ingest.errors import INTERRUPTED
from ingest.observe.events import Alive, Observer, Warned
from ingest.spark.jvm import read_hadoop_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from ingest.config.pipeline import Pipeline
    from ingest.paths import SharedMark


@dataclass(frozen=True, slots=True)
class Clock:
    """A clock that never goes back."""

    now: Callable[[], float] = time.monotonic
    """The seconds since some moment."""
    sleep: Callable[[float], None] = time.sleep
    """Lets so many seconds pass."""


CLOCK: Final = Clock()
"""The machine's."""


_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class Stop(Protocol):
    """Tells a run whether to end."""

    @property
    def asked(self) -> bool:
        """True if the run was asked to end."""

    def installed(self) -> AbstractContextManager[object]:
        """Listen while the block runs."""

    def listen(self) -> None:
        """Listen again, where other code may have installed handlers meanwhile."""


class StopSignal:
    """SIGTERM and SIGINT. The first one finishes the batch in progress, the second one ends the process at once.

    At once is as after `kill -9`: what is under way is not finished, and done again by the next run.
    """

    def __init__(self, tell: Callable[[str, bool], None]) -> None:
        """`tell` gets each signal's name, and whether the process ends now."""
        self.asked = False
        # In another program the run may be in another thread than the main one, where no handler can be installed
        self._numbers = _SIGNALS if current_thread() is main_thread() else ()
        self._tell = tell
        self._signals: SimpleQueue[str] = SimpleQueue()  # a handler may put into it, whatever it has interrupted

    def __call__(self, number: int, _frame: object) -> None:
        """Handle SIGTERM or SIGINT."""
        name = signal.Signals(number).name
        if self.asked:
            self._tell(name, True)
            os._exit(INTERRUPTED)
        self.asked = True
        self._signals.put(name)

    @contextmanager
    def installed(self) -> Iterator[StopSignal]:
        """Listen while the block runs. A thread reports the first signal, as a handler must not wait for a lock."""
        before = {number: signal.getsignal(number) for number in self._numbers}
        announcing = Thread(target=self._announce, daemon=True)
        announcing.start()
        self.listen()
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            self._signals.put("")
            announcing.join(1)

    def listen(self) -> None:
        """Install the handlers, also where other code has installed its own meanwhile."""
        for number in self._numbers:
            signal.signal(number, self)

    def _announce(self) -> None:
        while name := self._signals.get():
            self._tell(name, False)


TOUCH_S: Final = 1.0
"""The time between two touches, in seconds."""


class LivenessFile:
    """A file for a liveness probe, touched while the run works or waits. Observers are notified, too."""

    def __init__(self, path: Path | None, observer: Observer, clock: Clock = CLOCK) -> None:
        self._path = path
        self._observer = observer
        self._clock = clock
        self._touched = 0.0

    def touch(self) -> None:
        """Touch the file, unless that was done a moment ago. Raises nothing: the probe will notice."""
        now = self._clock.now()
        if now - self._touched <= TOUCH_S:
            return
        self._touched = now
        self._observer(Alive())
        if self._path is not None:
            with suppress(OSError):
                self._path.touch()


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
    """A file to touch every few seconds, for a liveness probe."""
    progress: Path | None = None
    """A file with an exported checkpoint, from which a plan goes on in the place of `checkpoint`."""
    from_time: int | None = None
    """The time to start at where the checkpoint does not say, in milliseconds since 1970."""


class RunContext:
    """The pipeline, the settings and the observer of one run."""

    def __init__(self, pipeline: Pipeline, settings: Settings, observer: Observer, clock: Clock = CLOCK) -> None:
        self.pipeline = pipeline
        self.settings = settings
        self.observer = observer
        self.clock = clock
        self.marks: tuple[SharedMark, ...] = ()
        """What executors look for in directories that they share with the driver."""
        self.liveness = LivenessFile(settings.alive, observer, clock)
        """The file by which a probe sees that the run works, or waits."""
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


def read_files(pipeline: Pipeline, hadoop: Callable[[], tuple[Any, Any]], warn: Callable[[str], None]) -> Pipeline:
    """Return the pipeline with what is in the files that its options name; raises IngestError.

    `hadoop` returns the JVM and a Hadoop configuration; it is called only where a file is on such a file system.
    """

    @cache
    def fetch(place: str) -> bytes:
        return read_hadoop_file(place, *hadoop())

    def files(section: str) -> Files:
        return Files(section, fetch, warn)

    collector, options = pipeline.pipeline.collector, pipeline.pipeline
    if collector is not None:
        options = options.model_copy(update={"collector": filled(collector, files("pipeline.dirty-data.collector"))})
    source, sink = filled(pipeline.source, files("source")), filled(pipeline.sink, files("sink"))
    return pipeline.model_copy(update={"source": source, "sink": sink, "pipeline": options})


def with_files(pipeline: Pipeline, conf: Mapping[str, str], warn: Callable[[str], None]) -> Pipeline:
    """Return the pipeline with what is in its files, for a command that has no Java of its own; raises IngestError.

    `conf`: settings of Spark, for file systems that need some.
    """
    with ExitStack() as resources:
        hadoop = cache(lambda: resources.enter_context(started_hadoop("ingest files", conf)))
        return read_files(pipeline, hadoop, warn)

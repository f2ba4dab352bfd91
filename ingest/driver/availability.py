"""Whether source and sink answer: asked every few seconds, asked again until they do, waited for after an outage.

`SideWatch` asks each side in a thread of its own and tells observers, so that readiness, metrics, the log and the
progress display say the same (docs/metrics.md#availability-of-source-and-sink). `Retries` repeats one question.
`Outages` is the one rule for every source and sink, at the start, between batches, in the middle of one and at its
commit: what failed is Unavailable, the run waits until both sides answer, and starts again from the checkpoint. With
`--once` it does not wait there (docs/spec/delivery.md#a-side-that-is-away).
"""

from __future__ import annotations

import math
import time
from contextlib import contextmanager, suppress
from threading import Event as Signal
from threading import Thread
from typing import TYPE_CHECKING, Final, TypeVar

from ingest.errors import IngestError, Unavailable
from ingest.model.text import reason_of
from ingest.observe.events import Observer, Pending, SideAnswers, SideName

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from ingest.driver.backlog import Backlog
    from ingest.driver.context import LivenessFile, RunContext, Stop
    from ingest.driver.run_parts import RunParts
    from ingest.model.probe import SideProbe
    from ingest.model.record import Split

ASK_S: Final = 2.0
"""The time between two questions, in seconds."""
LOOK_S: Final = 1.0
"""The time between two looks at the answers, in seconds."""
WITHIN_S: Final = 5.0
"""The time after which a question without an answer counts as none, in seconds."""
SAY_S: Final = 60.0
"""The time between two lines about a side that does not answer, in seconds."""


class Asker:
    """Periodic probe of one side, source or sink, in a thread of its own."""

    def __init__(
        self,
        side: SideName,
        probe: SideProbe,
        positions: Callable[[], Mapping[Split, int]],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.side = side
        self.ends: Mapping[Split, int] | None = None
        """The ends of the splits that the last answer had."""
        self._probe = probe
        self._positions = positions
        self._now = now
        self._began: float | None = None
        self._heard: str | None = None
        self._good = -math.inf
        """When the last question that was answered was asked."""

    def ask(self) -> None:
        """Ask once, and keep the answer."""
        began = self._began = self._now()
        why = ""
        try:
            positions = dict(self._positions())
            ends = self._probe.ask(positions)
            if ends is not None and positions:  # before the start is over there are none
                self.ends = ends
        except IngestError as exc:
            why = exc.message
        except Exception as exc:  # noqa: BLE001  (whatever a client raises: it is no answer, and no reason to end a run)
            why = f"{type(exc).__name__}: {reason_of(exc)}"
        if not why:
            self._good = began
        self._heard, self._began = why, None

    def answers_since(self, moment: float) -> bool:
        """Return whether a question that was asked after a moment has an answer."""
        return self._good > moment

    def silence(self) -> str | None:
        """Return why the side does not answer; an empty text if it answers, None before the first answer."""
        began = self._began
        if began is not None and (waited := self._now() - began) > WITHIN_S:
            return f"the {self.side} has not answered a question for {waited:.0f} s"
        return self._heard

    def run(self, ended: Signal) -> None:
        """Ask until the run has ended."""
        while not ended.wait(ASK_S):
            self.ask()
        with suppress(Exception):  # it is not needed any more
            self._probe.close()


class SideWatch:
    """Tells whether source and sink answer, and how large the backlog is."""

    def __init__(
        self,
        askers: list[Asker],
        backlog: Callable[[], Backlog | None],
        liveness: LivenessFile,
        observer: Observer,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`backlog` returns None until the start is over. `liveness` is touched while a side is away: it waits."""
        self._askers = askers
        self._backlog = backlog
        self._liveness = liveness
        self._observer = observer
        self._now = now
        self._since: dict[SideName, float] = {}
        """Since when a side has not answered."""
        self._said: dict[SideName, float] = {}
        """When that was said last."""
        self._ends: Mapping[Split, int] | None = None

    @property
    def away(self) -> bool:
        """True if a side was reported as not answering."""
        return bool(self._since)

    def answers_since(self, moment: float) -> bool:
        """Return whether every probed side has answered after a moment, and no side is reported as away."""
        return not self._since and all(asker.answers_since(moment) for asker in self._askers)

    def look(self) -> None:
        """Report sides that stopped or resumed answering, and the backlog."""
        for asker in self._askers:
            why = asker.silence()
            if why is not None:
                self._tell(asker.side, why)
            if asker.ends is not None and asker.ends is not self._ends:
                self._ends = asker.ends
                if (backlog := self._backlog()) is not None:
                    self._observer(Pending(backlog.waiting(self._ends), backlog.standing(self._ends)))
        if self._since:
            self._liveness.touch()

    def _tell(self, side: SideName, why: str) -> None:
        now = self._now()
        if why:
            since = self._since.setdefault(side, now)
            news = now - self._said.get(side, now - SAY_S) >= SAY_S
            if news:
                self._said[side] = now
            self._observer(SideAnswers(side, answers=False, why=why, away_s=now - since, news=news))
        else:
            since = self._since.pop(side, now)
            news = self._said.pop(side, None) is not None
            self._observer(SideAnswers(side, answers=True, away_s=now - since, news=news))

    @contextmanager
    def watching(self) -> Generator[None]:
        """Ask and tell while the block runs."""
        ended = Signal()
        threads = [Thread(target=asker.run, args=(ended,), daemon=True) for asker in self._askers]
        if threads:
            threads.append(Thread(target=self._run, args=(ended,), daemon=True))
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            ended.set()
            for thread in threads[-1:]:
                thread.join(LOOK_S)  # so that no event comes after the end of the run

    def _run(self, ended: Signal) -> None:
        while not ended.wait(LOOK_S):
            self.look()


def askers_of(
    parts: RunParts, positions: Callable[[], Mapping[Split, int]], now: Callable[[], float] = time.monotonic
) -> list[Asker]:
    """Return the probes of a run's source and sink, as far as these have one."""
    sides: list[tuple[SideName, SideProbe | None]] = [("source", parts.source.probe), ("sink", parts.sink.probe)]
    return [Asker(side, probe, positions, now) for side, probe in sides if probe is not None]


_T = TypeVar("_T")
GIVE_UP_S: Final = 300.0
"""The time that a run with `--once` waits for a source or a sink that went away, in seconds. Others have no limit."""
RETRY_S: Final = 1.0
"""The time between two attempts, in seconds."""


class Retries:
    """Retries of calls to the source or the sink until one succeeds."""

    def __init__(self, context: RunContext, stop: Stop, liveness: LivenessFile) -> None:
        self._limit = GIVE_UP_S if context.settings.once else math.inf
        self.clock = context.clock
        self._context = context
        self._stop = stop
        self._liveness = liveness

    def until_answered(self, question: Callable[[], _T]) -> _T:
        """Return a call's result.

        Raise Unavailable after the time limit of `--once`, or when the run is asked to stop.
        """
        since = self.clock.now()
        while True:
            try:
                answer = question()
            except Unavailable as exc:
                if self._stop.asked or self.clock.now() - since > self._limit:
                    raise
                self._liveness.touch()
                self._context.warn_once(f"{exc.message}; waiting")
                self.clock.sleep(RETRY_S)
            else:
                return answer


LONGEST_S: Final = 30.0
"""The longest time between two attempts where no side is seen to be away, in seconds."""


class Outages:
    """The times in which a run cannot go on."""

    def __init__(self, context: RunContext, stop: Stop, lives: Callable[[], bool]) -> None:
        """`lives`: whether Java does, without which no attempt gets anywhere."""
        self._context = context
        self._stop = stop
        self._lives = lives
        self._since: float | None = None
        """Since when attempts fail though no side is seen to be away, as the clock has it."""
        self._pause = RETRY_S
        self._records = 0
        self.over = False
        """True if the last attempt at the run failed for an outage that is over: the run begins again."""

    def wait(self, error: Unavailable, watch: SideWatch, records: int) -> None:
        """Wait until both sides answer. Raises the error where the run has to end.

        It has to with `--once`, where it is asked to stop, and where the error comes again and again for `GIVE_UP_S`
        though both sides answer. `records`: how many were read so far.
        """
        self.over = False
        context, clock = self._context, self._context.clock
        if context.settings.once or not self._lives():
            raise error
        if records > self._records:
            self._records, self._since, self._pause = records, None, RETRY_S
        began = clock.now()
        context.warn_once(f"{error.message}; waiting")
        away = False
        while not (clock.now() - began >= self._pause and watch.answers_since(began)):
            if self._stop.asked:
                raise error
            context.liveness.touch()
            clock.sleep(RETRY_S)
            away = away or watch.away
        if away:
            self._since, self._pause = None, RETRY_S
        else:
            self._since = began if self._since is None else self._since
            if clock.now() - self._since > GIVE_UP_S:
                raise error
            self._pause = min(2 * self._pause, LONGEST_S)
        self.over = context.begun_before = True

"""One task: pulls the ranges of one shard, decodes, checks, encodes, writes, and says how far it came.

Runs in a Python worker of Spark. In: a `Task`. Out: an `Outcome`; what fails is a value in it, so that only what Spark
should retry is raised. A split stops at the first record that does not fit its table's schema; the task then looks
ahead, to learn what else is new, and ends.
"""

from __future__ import annotations

import gc
import os
import time
import traceback
from bisect import bisect_left
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from ingest.encode.conform import KeyChanged
from ingest.encode.encode import encode, stage_of
from ingest.errors import ConfigError, IngestError, InternalError, Unsettled
from ingest.model.change import TOMBSTONE, Bad
from ingest.model.client_report import reports
from ingest.model.reject import RowError
from ingest.model.table import show
from ingest.schema.infer import observe
from ingest.task import worker
from ingest.task.assignment import Outcome
from ingest.task.changelog import Changelog
from ingest.task.output import MAX_LOGGED, Output, offset_of

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence

    from ingest.encode.encode import Encoded
    from ingest.formats import Decoder
    from ingest.kafka.admin import Split
    from ingest.model.change import Change, Decoded
    from ingest.model.record import Record
    from ingest.model.table import TableId
    from ingest.native.native_encoder import NativeEncoder
    from ingest.sources import Chunk
    from ingest.task.assignment import Task

COMMIT_S: Final = 5.0
"""A task commits within a range at least this often, in seconds."""
LOOK_S: Final = 2.0
QUIET_S: Final = 0.2
"""Looking ahead ends after `LOOK_S` seconds, or when so many or `Setup.look_ahead` records bring nothing new."""


def run_tasks(tasks: Iterable[Task]) -> Iterator[Outcome]:
    """What Spark maps over a partition; drains its input, or the worker would be lost."""
    for task in tasks:
        yield run_task(task)


def run_task(task: Task) -> Outcome:
    """Do one task; never raises IngestError."""
    started, cpu = time.monotonic(), time.process_time()
    outcome = outcome_of(task)
    with attempt(outcome):
        Shard(task, outcome, started + task.seconds).run()
    outcome.seconds, outcome.ended = time.monotonic() - started, time.time()
    outcome.cpu_s = time.process_time() - cpu
    outcome.rss_kib = worker.rss_kib()
    return outcome


def outcome_of(task: Task) -> Outcome:
    """What there is to say of a task that has not begun."""
    return Outcome(task.shard, {split: start for split, (start, _) in task.ranges.items()}, pid=os.getpid())


@contextmanager
def attempt(outcome: Outcome) -> Generator[None]:
    """Do a task, or a stage of one: what fails becomes a value, but for what Spark is to try again.

    The garbage collector waits meanwhile: what is made here lives as long as its batch, and no longer.
    """
    gc.collect(0)
    gc.freeze()
    gc.disable()
    try:
        yield
    except Unsettled:
        worker.discard()
        raise
    except IngestError as exc:
        outcome.failure = exc
        worker.discard()
    except Exception as exc:  # noqa: BLE001  (a bug of ours is no better the second time: Spark shall not try again)
        traceback.print_exc()
        outcome.failure = InternalError(
            f"a task failed: {type(exc).__name__}: {exc}", "Spark's log has the stack trace"
        )
        worker.discard()
    finally:
        gc.enable()
        gc.unfreeze()


class Shard(Output):
    """The state of one task."""

    marked = False
    """Whether it has to be known which records are of which change."""

    def __init__(self, task: Task, outcome: Outcome, deadline: float) -> None:
        """Connect to nothing that the worker is not connected to already."""
        super().__init__(task, outcome)
        self.deadline = deadline
        self.wanted = self.setup.source.wanted
        self.reader = self.state.reader()
        self.decoders: dict[tuple[Split, str], Decoder] = {}
        self.changelog: Changelog | None = None
        self.drifted: dict[Split, int] = {}
        self.looked = 0
        self.news = 0.0
        self.look_until = 0.0

    def run(self) -> None:
        """All steps."""
        for _ in self.steps():
            pass

    def steps(self) -> Generator[None]:
        """Do the task; yields after each chunk."""
        if self.resume():
            return
        starts = {split: (self.written[split], end) for split, (_, end) in self.task.ranges.items()}
        if self.setup.changelog:
            self.changelog = Changelog(self.setup.scope, self.task.ids)
            self.changelog.prepare(self.written, self.reader, self.decode)
            self.deadline = max(self.deadline, time.monotonic() + self.task.seconds)
        committed = time.monotonic()
        failed = True
        chunks = self.reader.read(starts)
        try:
            for chunk in chunks:
                if chunk is not None:
                    self.take(chunk)
                yield
                now = time.monotonic()
                if self.ended or now > self.deadline or (self.drifted and self.quiet(now)):
                    break
                if self.logged and len(self.outcome.rejects) >= MAX_LOGGED:
                    break
                if now - committed > COMMIT_S:
                    self.commit()
                    committed = now
            for split in self.written:  # gaps at the end of a range have no record to show how far it was read
                if split not in self.drifted and not self.ended:
                    self.written[split] = max(self.written[split], self.reader.position(split))
            self.commit(final=True)
            failed = False
        finally:
            chunks.close()
            if self.changelog is not None:
                self.changelog.close()
            self.outcome.lost_deliveries = self.writer.failures - self.lost_before
            self.outcome.reports += reports(self.reader, self.writer)
            if failed:
                self.writer.abort()
            self.count_all()

    def take(self, chunk: Chunk) -> None:
        """The way of a chunk of records of one split."""
        split, messages, end = chunk.split, chunk.messages, offset_of(chunk.messages[-1]) + 1
        if self.wanted is None:
            self.work(split, chunk.topic, messages, end)
            return
        kept = [message for message in messages if self.wanted(message.headers())]
        if kept:
            self.work(split, chunk.topic, kept, end)
        elif split not in self.drifted:
            self.written[split] = end
        at = self.written[split]
        left_out = bisect_left(messages, at, key=offset_of) - bisect_left(kept, at, key=offset_of)
        if left_out:
            self.leave_out(messages, at, left_out)
            self.outcome.read += left_out

    def leave_out(self, messages: Sequence[Record], at: int, count: int) -> None:  # noqa: ARG002
        """Account for those records before `at` that are not wanted."""
        self.skip(self.setup.source.left_out, count)

    def tombstones(self, messages: Sequence[Record], start: int, stop: int, count: int) -> None:  # noqa: ARG002
        """Account for the tombstones among some records."""
        self.skip(TOMBSTONE.reason, count)

    def decode(self, split: Split, topic: str, messages: Sequence[Record]) -> list[Decoded]:
        """What records say, with the columns that come from elsewhere than their values."""
        decoder = self.decoders.get((split, topic))
        if decoder is None:
            source = self.setup.source
            decoder = self.decoders[split, topic] = source.format.decoder(topic, keyed=source.extra.key)
        keys, values = [message.key() for message in messages], [message.value() for message in messages]
        changes = decoder.decode(keys, values)
        return changes if self.state.columns is None else self.state.columns.add(changes, messages)

    def work(self, split: Split, topic: str, messages: Sequence[Record], end: int) -> None:
        """The way of records of one split that are to be read; `end` is where the split stands after all of them."""
        if self.state.lanes is None or split in self.drifted:
            self.work_by_the_book(split, topic, messages, end)
            return
        lane = self.state.lanes.of(topic)
        stop, left = 0, 1
        while stop < len(messages):
            start, stop = stop, self.take_fast(split, lane, messages, stop)
            self.outcome.read += stop - start
            if count := lane.tombstones():
                self.tombstones(messages, start, stop, count)
            if stop == len(messages):
                break
            # What is left to us seldom comes alone: twice as much each time, while there is no more between
            left = left * 2 if stop - start < left else 1
            start, stop = stop, min(stop + left, len(messages))
            some = messages[start:stop]
            if not self.work_by_the_book(split, topic, some, offset_of(some[-1]) + 1):
                if split in self.drifted and not self.ended:
                    self.look(self.decode(split, topic, messages[stop:]))
                return
        self.written[split] = end

    def work_by_the_book(self, split: Split, topic: str, messages: Sequence[Record], end: int) -> bool:
        """The way of any record; whether all were taken."""
        changes = self.decode(split, topic, messages)
        if split in self.drifted:
            self.look(changes)
            return False
        if self.changelog is not None:
            changes = self.changelog.normalise(split, changes, messages)
        start = 0
        while start < len(messages):
            tolerated = self.task.tolerated - self.outcome.rejected
            rest = changes[start:] if start else changes
            encoded = encode(rest, self.state.plans, tolerated, ignore_decode=self.ignore_decode, marked=self.marked)
            self.put(split, messages[start:] if start else messages, rest, encoded)
            start += encoded.stop
            if start == len(messages):
                break
            self.written[split] = offset_of(messages[start])
            if encoded.why is None:
                self.stop_at_reject()
                return False
            change: Any = changes[start]
            parts: list[Change] = change if type(change) is list else [change]
            if isinstance(encoded.why, KeyChanged):
                raise self.key_changed(encoded.why, messages[start], split, parts[0][0])
            if not self.drift_is_reject(split, parts, messages[start]):
                if not self.ended:
                    self.look(changes[start + 1 :])
                return False
            self.outcome.read += 1
            start += 1
        self.written[split] = end
        return True

    def take_fast(self, split: Split, lane: NativeEncoder, messages: Sequence[Record], start: int) -> int:  # noqa: ARG002
        """Write the common case, natively; return where it ends."""
        full = True
        while full:
            batch, start = lane.encode(messages, start)
            self.writer.write(batch)
            full = batch.full
        return start

    def put(self, split: Split, messages: Sequence[Record], changes: Sequence[Decoded], encoded: Encoded) -> None:  # noqa: ARG002
        """Write what became of records, and account for the rest."""
        self.writer.write(encoded.records)
        for index, stage, bad in encoded.rejects:
            self.reject(split, messages[index], stage, bad, passed=index < encoded.stop)
        for reason, count in encoded.skipped.items():
            self.skip(reason, count)
        self.outcome.read += encoded.stop

    @staticmethod
    def key_changed(why: KeyChanged, message: Any, split: Split, table: TableId) -> ConfigError:  # noqa: ANN401
        """The error that a changed primary key ends the run with."""
        msg = (
            f"{split[0]}[{split[1]}] at offset {message.offset()}: the primary key of table {show(table)} "
            f"changed from ({', '.join(why.known)}) to ({', '.join(why.names)})"
        )
        return ConfigError(msg, "rows written under the old key cannot be found again: use another pipeline.name")

    # -- drift -------------------------------------------------------------------------------------------------------

    def drift_is_reject(self, split: Split, changes: list[Change], message: Record) -> bool:
        """Stop writing this split here; unless no schema takes this record, which is a reject then."""
        before = dict(self.outcome.observed)
        try:
            for change in changes:
                self.see(change)
        except RowError as exc:
            self.outcome.observed = before
            bad = Bad(exc.code, str(exc), change[0])
            counts = not (self.ignore_decode and stage_of(bad) == "decode")
            stops = counts and self.outcome.rejected >= self.task.tolerated
            self.reject(split, message, stage_of(bad), bad, passed=not stops)
            if stops:
                self.stop_at_reject()
                return False
            return True
        if not self.drifted:
            self.look_until = time.monotonic() + LOOK_S
        self.drifted[split] = offset_of(message)
        self.outcome.drifted = True
        self.looked, self.news = 0, time.monotonic()
        return False

    def look(self, changes: list[Decoded]) -> None:
        """Learn what else is new, without writing."""
        for decoded in changes:
            if type(decoded) is not tuple and type(decoded) is not list:
                continue
            self.looked += 1
            if self.looked > self.setup.look_ahead:
                return
            before = self.outcome.observed
            try:
                parts: list[Change] = decoded if isinstance(decoded, list) else [decoded]
                if len(parts) > 1:
                    self.outcome.observed = dict(before)
                if sum(self.see(change) for change in parts):
                    self.looked, self.news = 0, time.monotonic()
            except RowError:
                self.outcome.observed = before  # it will be a reject when its turn comes
                continue
            if self.looked % 100 == 0 and time.monotonic() > self.look_until:
                return

    def quiet(self, now: float) -> bool:
        """Whether looking ahead has brought all that it will."""
        return self.looked >= self.setup.look_ahead or now - self.news > QUIET_S or now > self.look_until

    def see(self, change: Change) -> bool:
        """Add what a change shows to what was observed; whether it was new. Raises RowError."""
        table = change[0]
        source = self.state.schemas.sources.get(table)
        if source is None and len(self.state.schemas.sources) >= self.setup.max_tables:
            msg = f"there are {self.setup.max_tables} tables already (pipeline.max-tables)"
            raise RowError("too-many-tables", msg)
        inference = self.setup.inference
        known = self.outcome.observed.get(table) or (None if source is None else source.schema)
        merged = observe(change, inference, known, fixed=inference.static and known is not None)
        if merged == known:
            return False
        if source is None and self.setup.sink.needs_key and not self.setup.rules.primary_key(table):
            # Later rows of such a table are rejects, so its first one is no reason to stop the run
            missing = [name for name in merged.primary_key if all(c.name != name for c in merged.columns)]
            if missing:
                raise RowError("null-key", f"primary key column {missing[0]!r} is null or missing")
        self.outcome.observed[table] = merged
        return True

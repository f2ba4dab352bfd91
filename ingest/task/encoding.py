"""Encoding: messages of a chunk become records of the sink, as far as they fit the schemas that the task knows.

Native code goes as far as it can; the reference does what native code leaves, and native code goes on after that. Which
way a message went does not show. What the reference does here is the rule; native code has to agree with it, or leave
the message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingest.encode.coercer import KeyChanged
from ingest.encode.encode import encode
from ingest.errors import ConfigError
from ingest.model.table import show
from ingest.task.encoded import EncodedPart
from ingest.task.rejects import RecordReject

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from ingest.encode.encode import Encoded
    from ingest.encode.encoder_cache import EncoderCache
    from ingest.kafka.admin import Split
    from ingest.model.change import Change, Decoded
    from ingest.model.record import Record
    from ingest.task.changelog import Changelog
    from ingest.task.decoding import ChunkDecoder
    from ingest.task.drift import LookAhead
    from ingest.task.native_stage import NativeStage
    from ingest.task.reading import ReadChunk
    from ingest.task.rejects import RejectLimit


class ChunkEncoder:
    """The decoders and encoders of a task, native and reference, and where both end: at drifts and at rejects."""

    def __init__(
        self,
        native: NativeStage | None,
        decoder: ChunkDecoder,
        changelog: Changelog | None,
        cache: EncoderCache,
        ahead: LookAhead,
        limit: RejectLimit,
        *,
        marked: bool,
    ) -> None:
        """`native`: None if this run's messages are not for native code; `marked`: whether parts have `marks`."""
        self._native = native
        self._decoder = decoder
        self._changelog = changelog
        self._cache = cache
        self._ahead = ahead
        self._limit = limit
        self._marked = marked

    def parts(self, chunk: ReadChunk) -> Generator[EncodedPart]:
        """Yield what becomes of a chunk, part by part; a split that has stopped at a drift is only looked at.

        Each part has to be accounted for before the next one is asked for: its rejects count against the limit. Ends
        before the chunk does at a drift, or at a reject that does not pass. Raises ConfigError for a changed key.
        """
        messages, split = chunk.messages, chunk.split
        if split in self._ahead.stopped:
            self._ahead.look(self._decoder.decode(split, chunk.topic, messages))
            return
        if not messages:
            yield EncodedPart(messages, 0, 0, chunk.end)
        stop = 0
        for_reference = len(messages) if self._native is None else 1
        while stop < len(messages):
            start = stop
            if self._native is not None:
                part = self._native.encode(chunk, start)
                yield part
                stop = part.stop
                if stop == len(messages):
                    return
                if part.full:
                    continue
                # What is left to the reference seldom comes alone: twice as much each time, while none is in between
                for_reference = for_reference * 2 if stop - start < for_reference else 1
            start, stop = stop, min(stop + for_reference, len(messages))
            if not (yield from self.process_reference(chunk, start, stop)):
                return

    def process_reference(self, chunk: ReadChunk, start: int, stop: int) -> Generator[EncodedPart, None, bool]:
        """Yield what becomes of `messages[start:stop]`, by the reference; returns whether all of them were taken."""
        split, messages = chunk.split, chunk.messages
        changes = self._decode(chunk, messages if stop - start == len(messages) else messages[start:stop])
        at = start
        while at < stop:
            rest = changes[at - start :] if at > start else changes
            limit = self._limit
            encoded = encode(rest, self._cache, limit.left, ignore_decode=limit.ignore_decode, marked=self._marked)
            part = _part(chunk, at, rest, encoded)
            yield part
            at = part.stop
            if at == stop:
                break
            if encoded.why is None:
                return False
            change = changes[at - start]
            rows: list[Change] = change if type(change) is list else [change]  # type: ignore[list-item]  # it has rows
            if isinstance(encoded.why, KeyChanged):
                raise key_changed(encoded.why, messages[at], split, rows[0])
            reject = self._ahead.stop(split, messages[at], rows)
            if reject is None:
                self._ahead.look(changes[at - start + 1 :])
                if stop < len(messages):
                    self._ahead.look(self._decoder.decode(split, chunk.topic, messages[stop:]))
                return False
            taken = at + reject.passed
            yield EncodedPart(messages, at, taken, chunk.position(taken), rejects=[reject])
            if not reject.passed:
                return False
            at = taken
        return True

    def _decode(self, chunk: ReadChunk, messages: Sequence[Record]) -> list[Decoded]:
        changes = self._decoder.decode(chunk.split, chunk.topic, messages)
        return changes if self._changelog is None else self._changelog.normalise(chunk.split, changes, messages)


def _part(chunk: ReadChunk, start: int, changes: Sequence[Decoded], encoded: Encoded) -> EncodedPart:
    stop = start + encoded.stop
    rejects = [
        RecordReject(chunk.messages[start + i], stage, reason, passed=i < encoded.stop)
        for i, stage, reason in encoded.rejects
    ]
    return EncodedPart(
        chunk.messages, start, stop, chunk.position(stop), encoded.records, rejects, encoded.skipped, changes,
        encoded.marks or (),
    )  # fmt: skip


def key_changed(why: KeyChanged, message: Record, split: Split, change: Change) -> ConfigError:
    """Return the error that a changed primary key ends the run with."""
    msg = (
        f"{split[0]}[{split[1]}] at offset {message.offset()}: the primary key of table {show(change[0])} "
        f"changed from ({', '.join(why.known)}) to ({', '.join(why.names)})"
    )
    return ConfigError(msg, "rows written under the old key cannot be found again: use another pipeline.name")

"""Decoding and encoding: messages of a chunk become changes, and these records of the sink, as far as they fit.

    decode    native, or by the reference
    encode    native, or by the reference

Native code decodes what has a form that it knows, and encodes what fits the schemas that the task knows. The two are
one call where it does both. It goes as far as it can; the reference does what native code leaves, and native code goes
on after that. Which way a message went does not show. What the reference does here is the rule; native code has to
agree with it, or leave the message.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from ingest.component.plugins import wrong_result
from ingest.encode.coercer import KeyChanged
from ingest.encode.encode import Encoded, EncoderCache, encode
from ingest.errors import ConfigError
from ingest.model.change import Change, Decoded, Reject, Skip
from ingest.model.record import Record, Split, offset_of
from ingest.model.table import show
from ingest.task.rejects import RecordReject, RejectLimit

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence

    from ingest.encode.upsert_encoder import Record as Written
    from ingest.formats import Decoder
    from ingest.formats.metadata_columns import MetadataColumns
    from ingest.native.native import NativeEncoders
    from ingest.sources import Source
    from ingest.task.changelog import Changelog
    from ingest.task.read_half import LookAhead, ReadChunk
    from ingest.task.worker import RecordEncoders


@dataclass(slots=True)
class EncodedPart:
    """The result of encoding `messages[start:stop]`: encoded records, rejects, and messages that stand for no row."""

    messages: Sequence[Record]
    """All messages of the chunk."""
    start: int
    stop: int
    """The index of the first message that was not taken."""
    position: int
    """The position of the split after this part."""
    records: Sequence[Written] = ()
    rejects: Sequence[RecordReject] = ()
    """The rejects in their order. If the last one does not pass, the task stops at it: at `stop`."""
    skipped: dict[str, int] = field(default_factory=dict)
    """By reason: messages that stand for no row."""
    changes: Sequence[Decoded] = ()
    """The changes of each message, from `start` on; nothing if native code has decoded them."""
    marks: Sequence[int] = ()
    """The number of records before each of these changes, where that is asked for."""
    full: bool = False
    """True if it ends only because it is full: native code goes on at `stop`."""
    skips: Sequence[tuple[int, str]] = ()
    """The index and the reason of each message that stands for no row; nothing where `changes` say so."""

    @property
    def end(self) -> int:
        """The position behind the last message that was taken, which the split is only at when all of it are."""
        return offset_of(self.messages[self.stop - 1]) + 1 if self.stop > self.start else self.position

    @property
    def within(self) -> bool:
        """True if the last message that was taken has one position with others, and not all of them were."""
        return self.position < self.end


class ChunkDecoder:
    """The decoders of a task's splits, and the columns that come from elsewhere than records' values."""

    def __init__(self, source: Source, columns: MetadataColumns | None) -> None:
        """`columns`: those from keys and metadata; None if there are none."""
        self._source = source
        self._columns = columns
        self._decoders: dict[tuple[Split, str], Decoder] = {}

    def decode(self, split: Split, topic: str, messages: Sequence[Record]) -> list[Decoded]:
        """Return the changes of each of some records of one split and topic, in their order.

        Raise PackageError, or InternalError for a format of this package, if the decoder does not return a list with
        one result for each record: which result is of which record is not known then, and records would be lost. The
        same is raised for a result that is none, such as a tuple in the place of a Change.
        """
        decoder = self._decoders.get((split, topic))
        if decoder is None:
            decoder = self._source.decoder(split, topic)
            self._decoders[split, topic] = decoder
        keys, values = [message.key() for message in messages], [message.value() for message in messages]
        changes = decoder.decode(keys, values)
        if type(changes) is not list or len(changes) != len(values):
            wrong = self._source.format
            got = f"a list of {len(changes)}" if type(changes) is list else f"no list, but {type(changes).__name__},"
            text = f"the format {wrong.name!r} returned {got} for {len(values)} records of topic {topic}"
            raise wrong_result(wrong, f"{text}; it owes a list with one result for each")
        if (odd := _not_decoded(changes)) is not None:
            wrong = self._source.format
            text = f"the format {wrong.name!r} returned {odd.__name__} for a record of topic {topic}"
            raise wrong_result(wrong, f"{text}; it owes a Change, a list of them, a Skip or a Reject")
        return changes if self._columns is None else self._columns.add(changes, messages)


def _not_decoded(changes: Iterable[object]) -> type | None:
    """Return the type of a result that a decoder may not return; None where there is none."""
    kinds = {*map(type, changes)}
    if list in kinds:
        kinds |= {type(change) for rows in changes if type(rows) is list for change in rows}
    return next((kind for kind in kinds - {list} if not issubclass(kind, (Change, Skip, Reject))), None)


class NativeStage(Protocol):
    """Native encoders of one task."""

    @property
    def decodes(self) -> bool:
        """True if messages of this run are decoded natively, too; False if the reference decodes all of them."""

    def encode_messages(self, chunk: ReadChunk, start: int) -> EncodedPart:
        """Decode and encode the messages from `start` on, up to the first one that is left to the reference."""

    def encode_changes(self, chunk: ReadChunk, first: int, changes: list[Decoded], at: int) -> EncodedPart:
        """Encode the changes from `at` on, up to the first one that is left to the reference.

        `changes[i]` is of `chunk.messages[first + i]`.
        """


class NativeToRecords:
    """Native encoders whose records are for the sink."""

    def __init__(self, encoders: RecordEncoders) -> None:
        """`encoders`: those of this run, with native ones among them."""
        self._encoders = encoders

    @property
    def decodes(self) -> bool:
        """True if messages of this run are decoded natively, too."""
        return native_encoders(self._encoders).decodes

    def encode_messages(self, chunk: ReadChunk, start: int) -> EncodedPart:
        """Return what became of the messages from `start` on: at most as many as a batch has room for."""
        encoder = native_encoders(self._encoders).of(chunk.topic)
        batch, stop = encoder.encode(chunk.messages, start)
        return native_part(chunk, start, stop, batch, encoder.skipped(), full=batch.full)

    def encode_changes(self, chunk: ReadChunk, first: int, changes: list[Decoded], at: int) -> EncodedPart:
        """Return what became of the changes from `at` on: at most as many as a batch has room for."""
        encoder = native_encoders(self._encoders).of_changes()
        batch, stop = encoder.encode(changes, at)
        made = native_part(chunk, first + at, first + stop, batch, [], full=batch.full)
        made.skipped, made.changes = encoder.skipped(), changes[at:stop]
        return made


def native_encoders(encoders: RecordEncoders) -> NativeEncoders:
    """Return the native encoders of a run that has some."""
    assert encoders.native is not None
    return encoders.native


def native_part(
    chunk: ReadChunk, start: int, stop: int, records: Sequence[Written], skips: list[tuple[int, str]], *, full: bool
) -> EncodedPart:
    """Return what native code has made of `messages[start:stop]`. `skips`: messages that stand for no row."""
    skipped: dict[str, int] = {}
    for _, reason in skips:
        skipped[reason] = skipped.get(reason, 0) + 1
    return EncodedPart(
        chunk.messages, start, stop, chunk.position(stop), records, skipped=skipped, skips=skips, full=full
    )


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
        refused: Callable[[Sequence[Written]], str | None] | None = None,
    ) -> None:
        """`native`: None where there is no native code; `marked`: whether parts have `marks`.

        `refused`: see `encode`; only the reference asks.
        """
        self._native = native
        self._decoder = decoder
        self._changelog = changelog
        self._cache = cache
        self._ahead = ahead
        self._limit = limit
        self._marked = marked
        self._refused = refused

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
        if chunk.gone:
            gone = Reject("gone", chunk.gone)
            rejects = [RecordReject(message, "decode", gone, passed=True) for message in messages]
            yield EncodedPart(messages, 0, len(messages), chunk.end, rejects=rejects)
            return
        native = self._native if self._native is not None and self._native.decodes else None
        left = _FallbackSize(len(messages) if native is None else 1)
        at = 0
        while at < len(messages):
            if native is not None:
                part = native.encode_messages(chunk, at)
                yield part
                taken, at = part.stop - at, part.stop
                if at == len(messages) or part.full:
                    continue
                left.after(taken)
            stop = min(at + left.size, len(messages))
            changes = self._decode(chunk, at, stop)
            if not (yield from self._encode(chunk, at, changes)):
                return
            at = stop

    def _decode(self, chunk: ReadChunk, start: int, stop: int) -> list[Decoded]:
        """Return the changes of `messages[start:stop]`, by the reference."""
        whole = start == 0 and stop == len(chunk.messages)
        messages = chunk.messages if whole else chunk.messages[start:stop]
        changes = self._decoder.decode(chunk.split, chunk.topic, messages)
        return changes if self._changelog is None else self._changelog.normalise(chunk.split, changes, messages)

    def _encode(self, chunk: ReadChunk, first: int, changes: list[Decoded]) -> Generator[EncodedPart, None, bool]:
        """Yield what becomes of the changes of the messages from `first` on; returns whether all of them were taken."""
        native = self._native
        left = _FallbackSize(len(changes) if native is None else 1)
        at = 0
        while at < len(changes):
            if native is not None:
                part = native.encode_changes(chunk, first, changes, at)
                yield part
                taken, at = part.stop - first - at, part.stop - first
                if at == len(changes) or part.full:
                    continue
                left.after(taken)
            stop = min(at + left.size, len(changes))
            if not (yield from self._encode_by_reference(chunk, first, changes, at, stop)):
                return False
            at = stop
        return True

    def _encode_by_reference(
        self, chunk: ReadChunk, first: int, changes: list[Decoded], at: int, stop: int
    ) -> Generator[EncodedPart, None, bool]:
        """Yield what becomes of `changes[at:stop]`; returns whether all of them were taken."""
        split, messages = chunk.split, chunk.messages
        while at < stop:
            some = changes[at:stop]
            limit = self._limit
            encoded = encode(some, self._cache, limit.left, limit.ignored, marked=self._marked, refused=self._refused)
            part = _part(chunk, first + at, some, encoded)
            yield part
            at = part.stop - first
            if at == stop:
                break
            if encoded.why is None:
                return False
            change, message = changes[at], messages[first + at]
            rows: list[Change] = change if type(change) is list else [change]  # type: ignore[list-item]  # it has rows
            if isinstance(encoded.why, KeyChanged):
                raise key_changed(encoded.why, message, split, rows[0])
            reject = self._ahead.stop(split, message, rows)
            if reject is None:
                self._ahead.look(changes[at + 1 :])
                if first + len(changes) < len(messages):
                    rest = messages[first + len(changes) :]
                    self._ahead.look(self._decoder.decode(split, chunk.topic, rest))
                return False
            passed = first + at + reject.passed
            yield EncodedPart(messages, first + at, passed, chunk.position(passed), rejects=[reject], changes=[change])
            if not reject.passed:
                return False
            at += 1
        return True


class _FallbackSize:
    """The number of messages that the reference takes next.

    What native code leaves seldom comes alone: twice as many each time, while native code takes fewer in between.
    """

    def __init__(self, size: int) -> None:
        self.size = size

    def after(self, taken: int) -> None:
        """Go by how many messages native code has taken since the reference did."""
        self.size = self.size * 2 if taken < self.size else 1


def _part(chunk: ReadChunk, start: int, changes: Sequence[Decoded], encoded: Encoded) -> EncodedPart:
    stop = start + encoded.stop
    rejects = [
        RecordReject(chunk.messages[start + i], stage, reason, passed=i < encoded.stop)
        for i, stage, reason in encoded.rejects
    ]
    return EncodedPart(
        chunk.messages,
        start,
        stop,
        chunk.position(stop),
        encoded.records,
        rejects,
        encoded.skipped,
        changes,
        encoded.marks or (),
    )


def key_changed(why: KeyChanged, message: Record, split: Split, change: Change) -> ConfigError:
    """Return the error that a changed primary key ends the run with."""
    msg = (
        f"{split[0]}[{split[1]}] at offset {message.offset() or 0}: the primary key of table {show(change.table)} "
        f"changed from ({', '.join(why.known)}) to ({', '.join(why.names)})"
    )
    return ConfigError(msg, "rows written under the old key cannot be found again: use another pipeline.name")

"""Exactly-once into Kafka: a shard's records and its progress, committed in one transaction every few seconds.

What a transactional id is, and in which order it is used, is in `kafka/transactions.py`; what notes say, in
`progress.py`.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

import msgspec

from ingest.errors import Fenced
from ingest.kafka.transactions import Channel, persistently
from ingest.kafka.writer import KafkaWriter, narrower
from ingest.model.commit import ClientReport, CommitScope, ResumePoint, RowsRefused
from ingest.sinks.topics import progress
from ingest.sinks.topics.progress import Groups, ProgressNote, transactional_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ingest.kafka.handle import Conf, EncodedRecords
    from ingest.kafka.refusals import Letter
    from ingest.model.record import Split


class TransactionalWriter:
    """The writer of a task with exactly-once: it writes one shard at a time, in transactions of Kafka."""

    failures = 0

    leaving_out: None = None

    def __init__(self, conf: Mapping[str, str], prefix: str) -> None:
        self._conf = conf
        self._prefix = prefix
        self._channel: Channel | None = None
        self._groups: Groups | None = None
        self._of: tuple[str, int, int] | None = None
        """Scope, run and shard of the channel."""
        self._scope: CommitScope
        self._begun = False
        self._started_over = False
        """True if nothing was written since a transaction that was given up for records that are refused."""

    def begin(self, scope: CommitScope) -> ResumePoint | None:
        """Take the shard over, unless this writer has it already. Return how far an earlier attempt committed.

        Raises Fenced where a newer run has taken it over.
        """
        self._scope = scope
        of = (scope.owner, scope.run, scope.shard)
        if scope.kept and self._channel is not None and self._of == of:
            self._channel.writer.begin(scope)
            return None
        self._close()
        return progress.unpack(self._take_over(), scope.starts, scope.batch, scope.planned)

    def _take_over(self) -> list[ProgressNote | None]:
        """Make the shard's transactional producer, which fences earlier ones. Return the shard's committed progress.

        Raises Fenced as `begin` does.
        """
        scope = self._scope
        if self._groups is None or self._groups.scope != scope.owner:
            self._groups = Groups(self._conf, self._prefix, scope.owner)
        groups = self._groups
        self._channel = persistently(lambda: Channel(self._conf, transactional_id(self._prefix, scope.shard)))
        self._channel.writer.begin(scope)
        self._of = (scope.owner, scope.run, scope.shard)
        notes = persistently(lambda: groups.read(scope.shard, progress.parts(scope.starts)))
        head = notes[0]
        if head is not None and (head.run, head.batch) > (scope.run, scope.batch):
            msg = (
                f"run {scope.run} of the pipeline was to write shard {scope.shard}, which has been taken over by "
                f"run {head.run}, batch {head.batch}"
            )
            raise Fenced(msg, "nothing is lost; see that only one run of a pipeline is started")
        return notes

    @property
    def by_one(self) -> Self:
        """This writer, as the role `ByOne`: `apart` makes it commit each chunk alone, to find refused records."""
        return self

    def apart(self, *, on: bool) -> None:
        """Hold records until the commit (`on`), or send them at once. See `ByOne`."""
        assert self._channel is not None
        self._channel.writer.apart(on=on)

    def _start_over(self) -> KafkaWriter:
        """Abort the open transaction and close its producer. Return another one, whose transaction has begun."""
        assert self._channel is not None
        self._channel.abort()
        self._close()
        self._take_over()
        writer = self._writer()
        writer.apart(on=True)
        return writer

    @contextmanager
    def _starting_over(self) -> Iterator[None]:
        """Abort the transaction and begin another one where a topic refuses a record that the block writes."""
        try:
            yield
        except RowsRefused:
            self._start_over()
            self._started_over = True
            raise

    def _writer(self) -> KafkaWriter:
        assert self._channel is not None
        self._started_over = False
        if not self._begun:
            self._channel.begin()
            self._begun = True
        return self._channel.writer

    def write(self, records: EncodedRecords) -> None:
        """Queue records in the open transaction. Raises IngestError where an earlier record has failed."""
        if records:
            with self._starting_over():
                self._writer().write(records)

    def partitions(self, topic: str) -> int:
        """Return how many partitions a topic has; raises IngestError."""
        return self._writer().partitions(topic)

    def send(self, letter: Letter) -> None:
        """Queue one record with headers and a time, in the open transaction; raises as `write` does."""
        with self._starting_over():
            self._writer().send(letter)

    def commit(self, positions: Mapping[Split, int], metadata: bytes, *, final: bool) -> None:
        """Commit the records and the shard's progress in one transaction.

        Raises CommitOutcomeUnknown where nobody knows whether it was committed.
        """
        scope, writer = self._scope, self._writer()
        assert self._channel is not None
        assert self._groups is not None
        note = ProgressNote(scope.run, scope.batch, scope.planned, final=final, tally=msgspec.Raw(metadata))
        texts = progress.pack(note, scope.starts, positions)
        notes = [*zip(self._groups.notes(len(texts)), texts, strict=True)]
        with self._starting_over():
            narrow = writer.deliver_held(self._start_over, atomic=True)
            self._channel.commit(scope.shard, notes, scope.batch)
        self._begun = False
        if narrow:
            self._conf = narrower(self._conf)
            self._close()
            self._take_over()
            self.apart(on=True)

    def delivered(self) -> list[Any]:
        """Return nothing: Kafka has the progress, and the driver needs no more."""
        return []

    @property
    def reporting(self) -> Self:
        """Itself: its client has logs and statistics."""
        return self

    def report(self) -> ClientReport | None:
        """Return the client's logs and statistics since the last call; None where there are none."""
        return None if self._channel is None else self._channel.writer.report()

    def abort(self) -> None:
        """Abort the open transaction and close the producer, which may be in any state.

        After a refused record neither is needed: another transaction has begun already, and nothing is written in it.
        """
        if self._started_over:
            self._started_over = False
            return
        self.close()

    def close(self) -> None:
        """Abort the open transaction and close the connections."""
        self._started_over = False
        if self._channel is not None and self._begun:
            self._channel.abort()
        self._close()
        groups, self._groups = self._groups, None
        if groups is not None:
            groups.close()

    def _close(self) -> None:
        channel, self._channel, self._begun = self._channel, None, False
        if channel is not None:
            channel.close()


def writer_of(conf: Conf, prefix: str | None, *, checked: bool) -> KafkaWriter | TransactionalWriter:
    """Return a task's writer. `prefix`: begins the names of its transactions; None for a writer that has none.

    `checked`: whether each delivery is looked at.
    """
    return KafkaWriter(conf, checked=checked) if prefix is None else TransactionalWriter(conf, prefix)

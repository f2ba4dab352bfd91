"""Clients, schemas and encoders that a Python worker keeps between the tasks of a run.

Clients do not survive a fork, and workers are forked: everything here is made in the worker, on first use.

`_state` is the one global of a worker's process. Spark calls a function of ours for each task and gives it nothing that
lives longer than the task; to connect and to compile again each time would cost more than most batches.
"""

from __future__ import annotations

import socket
import uuid
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ingest.encode.encode import EncoderCache
from ingest.encode.transform_input import TransformInputEncoder
from ingest.errors import IngestError
from ingest.formats.metadata_columns import MetadataColumns
from ingest.model.commit import release
from ingest.model.numbers import Numbers
from ingest.native import native
from ingest.native.native import NativeEncoders, TargetTable
from ingest.paths import unseen, unshared
from ingest.schema.evolve import Schemas
from ingest.task.native_support import decoded_in_python

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.core.broadcast import Broadcast

    from ingest.deadletter.letter import DeadLetters
    from ingest.encode.compiled_transform import CompiledTransforms, ResultMerger
    from ingest.encode.upsert_encoder import TableEncoder
    from ingest.model.table import TableId
    from ingest.native.row_encoder import RowEncoder
    from ingest.sinks import Writer
    from ingest.sources import Reader
    from ingest.sources.stateful import StatefulReader
    from ingest.task.task import Delta, Setup, Task


class Clients:
    """A run's reader, writer and dead letters in this worker. Each connects when it is asked for first."""

    def __init__(self, setup: Setup) -> None:
        """Connect to nothing."""
        self._setup = setup
        self._reader: Reader | None = None
        self._writer: Writer | None = None
        self._letters: DeadLetters | None = None

    def reader(self) -> Reader:
        """Return the worker's reader; raises IngestError."""
        if self._reader is None:
            self._reader = self._setup.source.reader(self._setup.pipeline)
        return self._reader

    def stateful(self, task: Task) -> StatefulReader | None:
        """Return the reader once it has taken over what a task gets, if its source has a state; raises IngestError."""
        assigned = task.assigned
        found = None if assigned is None else self.reader().stateful
        if found is not None and assigned is not None:
            found.take(assigned.own, assigned.shared.value)
        return found

    def writer(self) -> Writer:
        """Return the worker's writer; raises IngestError."""
        if self._writer is None:
            self._writer = self._setup.sink.writer(self._setup.pipeline, self._setup.run)
        return self._writer

    def letters(self) -> DeadLetters | None:
        """Return the dead letters' writer; None if workers do not send rejects anywhere. Raises IngestError."""
        collector = self._setup.collector
        if self._letters is None and collector is not None:
            self._letters = collector.letters(self._setup.pipeline, self.writer())
        return self._letters

    def discard(self) -> None:
        """Close the clients: a failure may have left them in any state."""
        reader, writer, letters = self._reader, self._writer, self._letters
        self._reader = self._writer = self._letters = None
        if writer is not None:
            with suppress(IngestError):  # what went wrong before says more
                writer.abort()
        for client in (reader, letters, writer):
            release(client)


class RecordEncoders:
    """Encoders of records as they come from the source: those of tables in Python, those of topics in native code."""

    def __init__(self, setup: Setup) -> None:
        """Compile nothing yet."""
        self._setup = setup
        self._transforms: CompiledTransforms | None = None
        self.cache = EncoderCache(setup.sink.encoder, setup.inference)
        self.targets = TargetTable()
        """Numbers of destinations, for records that pass expressions by."""
        self.native = self._native(None)
        """Native encoders; None where there is no native code."""

    def _native(self, targets: TargetTable | None) -> NativeEncoders | None:
        source, decodes = self._setup.source, not decoded_in_python(self._setup)
        return native.encoders_of(source.format, self.cache, targets, source.extra, decodes=decodes, only=source.only)

    def send_to_expressions(self, transforms: CompiledTransforms) -> None:
        """Make rows that a transform changes into rows for Spark from here on, by these transforms."""
        if self._transforms is transforms:
            return
        self._transforms = transforms
        setup = self._setup
        upserts = setup.source.capabilities.upserts and not setup.changelog
        self.cache.transform_input = lambda table, source: TransformInputEncoder(
            transforms,
            table,
            source,
            setup.inference,
            images=setup.sink.capabilities.changelog,
            upserts=upserts,
            stored=self.cache.schemas.number_types(table) if setup.inference.numbers is Numbers.STORED else {},
        )
        self.cache.renew(self.cache.schemas, None)
        self.renew_targets()

    def renew_targets(self) -> None:
        """Renumber destinations."""
        if self.native is not None:
            self.native.settle()
        self.targets = TargetTable()
        self.native = self._native(self.targets)


class ResultEncoders:
    """Encoders of rows that a transform has changed."""

    def __init__(self, setup: Setup) -> None:
        """Compile nothing yet."""
        inference = replace(setup.inference, reading=replace(setup.inference.reading, settled=True))
        self.cache = EncoderCache(setup.sink.encoder, inference)
        self._native: dict[TableId, tuple[TableEncoder, CompiledTransforms, RowEncoder | None]] = {}
        """By table: the native encoder, and what it was made of."""

    def of(self, table: TableId) -> TableEncoder:
        """Return the encoder of a table."""
        return self.cache.compiled.get(table) or self.cache.find(table)

    def native_of(self, table: TableId, transforms: CompiledTransforms, merger: ResultMerger) -> RowEncoder | None:
        """Return the native encoder of a table; None if native code cannot write its rows."""
        encoder = self.of(table)
        known = self._native.get(table)
        if known is None or known[0] is not encoder or known[1] is not transforms:
            known = self._native[table] = (encoder, transforms, native.compile_results(encoder, merger))
        return known[2]


class WorkerState:
    """Everything of one run that this worker keeps between tasks."""

    def __init__(self, setup: Setup) -> None:
        """Connect to nothing, and compile nothing."""
        self.setup = setup
        self.token = uuid.uuid4().hex
        """A name of this worker, for the driver."""
        self.clients = Clients(setup)
        self.columns = MetadataColumns(setup.source.extra) if setup.source.extra else None
        """Columns that are added from keys and metadata of records; None if there are none."""
        self.records = RecordEncoders(setup)
        self.results = ResultEncoders(setup)

    @property
    def schemas(self) -> Schemas:
        """The schemas that this task works with."""
        return self.records.cache.schemas

    def update(self, base: Broadcast[Schemas], base_version: int, deltas: Sequence[Delta]) -> None:
        """Bring the schemas to the version of the task, and forget the encoders of tables that changed."""
        target = deltas[-1].version if deltas else base_version
        if not base_version <= self.schemas.version <= target:
            self._renew(base.value, None)
        for delta in deltas:
            old = self.schemas
            if delta.version > old.version:
                sources, sinks = {**old.sources, **delta.sources}, {**old.sinks, **delta.sinks}
                self._renew(Schemas(delta.version, sources, sinks), {*delta.sources, *delta.sinks})

    def _renew(self, schemas: Schemas, changed: set[TableId] | None) -> None:
        self.records.cache.renew(schemas, changed)
        self.results.cache.renew(schemas, changed)


_state: WorkerState | None = None


def state_for(task: Task) -> WorkerState:
    """Return this worker's state for the run of a task, at the task's version of the schemas.

    Raise ConfigError where this executor does not see the directories of the run: it may be a later one.
    """
    global _state  # noqa: PLW0603  (see the module's docstring)
    setup = task.setup.value
    if _state is None or (_state.setup.scope, _state.setup.run) != (setup.scope, setup.run):
        discard()
        if faults := unseen(setup.marks):
            raise unshared(socket.gethostname(), faults)
        _state = WorkerState(setup)
    _state.update(task.base, task.base_version, task.deltas)
    return _state


def discard() -> None:
    """Close the clients of this worker."""
    if _state is not None:
        _state.clients.discard()


def forget() -> None:
    """Drop this worker's state: the next task is of another run, even where that has the same number."""
    global _state  # noqa: PLW0603  (see the module's docstring)
    discard()
    _state = None


def rss_kib() -> int:
    """Return the most memory that this worker ever had, in KiB; 0 where the system does not say."""
    try:
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1])
    except OSError:
        return 0
    return 0

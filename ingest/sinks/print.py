"""Shows changes: a line for each schema change and each row, on the driver's standard output. For looking, and tests.

Rules: docs/spec/sinks.md#print.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import msgspec
from pydantic import Field

from ingest.encode.change_encoder import ChangeEncoder, RowChange
from ingest.encode.upsert_encoder import Record
from ingest.model.change import Kind
from ingest.model.table import TableId, show
from ingest.model.text import one_line
from ingest.sinks import SinkCoordinator
from ingest.sinks.sink import PlainWriter, SinkCapabilities, SinkOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ingest.formats.template import Image
    from ingest.model.record import Split
    from ingest.model.schema import SchemaChange, TableSchema
    from ingest.schema.evolve import SourceTable
    from ingest.schema.infer import Inference


class PrintSink(SinkOptions):
    """Options of `sink:` with `type: print`, or `values`."""

    capabilities: ClassVar[SinkCapabilities] = SinkCapabilities(
        needs_key=False, writes_keys=False, most_per_batch=20_000
    )

    type: Literal["print", "values"]
    """`print`, or `values`, which is the same."""

    identifier: str | None = Field(None, alias="print-identifier")
    """A text in front of each line."""

    standard_error: bool = Field(False, alias="standard-error")
    """Whether the lines go to standard error instead of standard output."""

    def encoder(
        self, table: TableId, source: SourceTable, target: TableId, sink: TableSchema, inference: Inference
    ) -> ChangeEncoder:
        """Return how rows of a table are shown."""
        name = one_line(show(target))
        columns = [column.name for column in sink.columns]

        def line(kind: str, image: Image) -> Record:
            values = ", ".join(_shown(image.get(column)) for column in columns)
            return Record(None, b"", f"{name}> {kind}[{values}]".encode())

        def render(change: RowChange) -> Iterator[Record]:
            if change.kind is Kind.UPDATE and change.before is not None:
                yield line("-U", change.before)
            image = change.before if change.after is None else change.after
            yield line(change.kind, image or {})

        return ChangeEncoder(table, source, sink, render, inference)

    def coordinator(self, _pipeline: str, _warn: Callable[[str], None]) -> PrintCoordinator:
        """Return the coordinator that the driver asks about the sink."""
        return PrintCoordinator(self)

    def writer(self, _pipeline: str, _run: int) -> PrintWriter:
        """Return the writer that a task writes to the sink with."""
        return PrintWriter()


class PrintCoordinator(SinkCoordinator):
    """The coordinator of the print sink: returns lines for schema changes and for the tasks' rows."""

    def __init__(self, options: PrintSink) -> None:
        self.announcer = self
        self._prefix = "" if options.identifier is None else f"{one_line(options.identifier)}> "
        self.stream: Literal["out", "err"] = "err" if options.standard_error else "out"

    def connect(self) -> str:
        """Return a constant: there is one standard output."""
        return "print"

    def fingerprint(self, _identity: str) -> dict[str, Any]:
        """Return the options that a checkpoint of this sink is bound to."""
        return {"type": "print"}

    def close(self) -> None:
        """Release nothing: the driver prints the lines."""

    def changed(self, events: Iterable[SchemaChange]) -> list[str]:
        """Return the lines for schema changes."""
        return [f"{self._prefix}{one_line(show(event.table))}> {one_line(str(event))}" for event in events]

    def lines(self, delivered: Iterable[bytes]) -> list[str]:
        """Return the lines that tasks delivered, each behind the prefix."""
        return [self._prefix + line.decode() for line in delivered]


class PrintWriter(PlainWriter):
    """The writer of a task. It keeps the lines for the driver, which prints them."""

    def __init__(self) -> None:
        """Start empty."""
        self._lines: list[bytes] = []
        self._committed: list[bytes] = []

    def write(self, records: Sequence[Record]) -> None:
        """Keep the lines."""
        self._lines += [bytes(record.value or b"") for record in records]

    def commit(self, _positions: Mapping[Split, int], _metadata: bytes, *, final: bool) -> None:
        """Make the lines since the last commit available to the driver."""
        self._committed += self._lines
        self._lines = []

    def delivered(self) -> list[bytes]:
        """Return the committed lines since the last call."""
        out, self._committed = self._committed, []
        return out

    def abort(self) -> None:
        """Discard all lines that the driver has not fetched."""
        self._lines = []
        self._committed = []


def _shown(value: bytes | None) -> str:
    """Return a value as displayed text; `?` for a value that the message lacks."""
    if value is None:
        return "?"
    if value[:1] == b'"':
        return one_line(msgspec.json.decode(value, type=str))
    return one_line(value.decode())

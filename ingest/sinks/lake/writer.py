"""A task's side of the sinks that are lakes: rows become files, which the driver adds to tables.

Order per key is kept: of the states of a key in one file only the last one counts, and files are added in the order in
which they were written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from ingest.model.commit import OLDER, RefusedRow, RowsRefused
from ingest.sinks.lake.kept_rows import KeptRows
from ingest.sinks.lake.rows import UnfitRows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ingest.encode.upsert_encoder import Destination, Record
    from ingest.model.commit import CommitScope, ResumePoint
    from ingest.model.record import Split
    from ingest.sinks.lake.columns import LakeColumn
    from ingest.sinks.lake.kept_rows import LastStates
    from ingest.sinks.lake.states import StatesToWrite
    from ingest.sinks.lake.table import AddedFile

MOST_BYTES: Final = 128 << 20
"""Bytes of rows that wait in memory. Then they become files, before a commit."""


class TableFiles(Protocol):
    """The files of a lake's tables."""

    def columns_of(self, table: Destination) -> tuple[Sequence[LakeColumn], Sequence[str]]:
        """Return a table's columns, in the order of its files, and the names of those of its key. Raise IngestError."""

    def begin(self) -> None:
        """Forget what is known of tables: a batch begins, and others may have changed them."""

    def refused(self, records: Sequence[Record]) -> list[RefusedRow]:
        """Return records that cannot be in the partitions of their tables. Raise IngestError."""

    def write(self, table: Destination, states: LastStates) -> list[AddedFile]:
        """Write the last states of keys into files. Raise IngestError."""

    def close(self) -> None:
        """Release pending rows and files."""


class LakeWriter:
    """Keeps rows until the commit, or until there are many, and writes them into files."""

    failures = 0

    def __init__(self, files: TableFiles, states: StatesToWrite) -> None:
        """Write nothing yet."""
        self._files = files
        self._states = states
        self._rows = KeptRows(files.columns_of, states)
        self._written: list[AddedFile] = []
        """Files that no commit has yet."""
        self._committed: list[AddedFile] = []
        self._older = 0
        """Rows that were left out since this was asked last."""

    def begin(self, _scope: CommitScope) -> ResumePoint | None:
        """Return None: a shard starts where the plan says, since nothing is in a table before the driver adds it."""
        self.abort()
        self._files.begin()
        self._committed = []
        return None

    def write(self, records: Sequence[Record]) -> None:
        """Keep the rows. Raise RowsRefused for those that a table cannot hold, IngestError where files are written."""
        if rows := self._files.refused(records):
            raise _error_of(rows)
        try:
            self._rows.keep(records)
        except UnfitRows as exc:
            raise _error_of([_refused(records[at], why) for at, why in exc.faults]) from exc
        if self._rows.size()[1] > MOST_BYTES:
            self._flush()

    def _flush(self) -> None:
        for table, states in self._rows.take():
            self._written += self._files.write(table, states)
            self._older += states.older

    def commit(self, _positions: Mapping[Split, int], _metadata: bytes, *, final: bool) -> None:
        """Write what is there into files. Raise IngestError."""
        self._flush()
        self._committed += self._written
        self._written = []

    def delivered(self) -> list[Any]:
        """Return the files that were committed since this was asked last."""
        out, self._committed = self._committed, []
        return list(out)

    def left_out(self) -> Mapping[str, int]:
        """Return, by reason, how many changes were left out since this was asked last."""
        older, self._older = self._older, 0
        return {OLDER: older} if older else {}

    def abort(self) -> None:
        """Forget what was not committed. Files of it stay where they are, in no table."""
        self._rows, self._written = KeptRows(self._files.columns_of, self._states), []

    def close(self) -> None:
        """Forget what was not committed, and release what is held."""
        self.abort()
        self._files.close()


def _error_of(rows: Sequence[RefusedRow]) -> RowsRefused:
    first = rows[0]
    shown = (first.key or b"")[:200].decode(errors="backslashreplace")
    msg = f"the table {first.destination} cannot hold the row with the key {shown}: {first.reason}"
    return RowsRefused(msg, "leave such rows out with a filter, or cast the column", rows)


def _refused(record: Record, reason: str) -> RefusedRow:
    destination, key, value = record
    return RefusedRow(destination, key, None if value is None else bytes(value), reason)

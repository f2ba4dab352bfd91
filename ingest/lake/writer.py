"""A task's side of the sinks that are lakes: rows become files, which the driver adds to tables.

Order per key is kept: of the states of a key in one file only the last one counts, and files are added in the order in
which they were written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from ingest.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ingest.encode.upsert_encoder import Record
    from ingest.lake.table import AddedFile, LakeTable
    from ingest.model.commit import CommitScope, ResumePoint, Split

MOST_BYTES: Final = 128 << 20
"""Bytes of keys and rows that wait in memory. Then they become files, before a commit."""


class TableFiles(Protocol):
    """The files of a lake's tables."""

    def write(self, table: LakeTable, rows: Mapping[bytes, bytes | None]) -> list[AddedFile]:
        """Write the last states of keys, as JSON by the JSON of their keys; None: the row is gone.

        Raises IngestError.
        """


class LakeWriter:
    """Keeps rows until the commit, or until there are many, and writes them into files."""

    failures = 0

    def __init__(self, files: TableFiles) -> None:
        """Write nothing yet."""
        self._files = files
        self._rows: dict[LakeTable, dict[bytes, bytes | None]] = {}
        self._size = 0
        self._written: list[AddedFile] = []
        """Files that no commit has yet."""
        self._committed: list[AddedFile] = []

    def begin(self, _scope: CommitScope) -> ResumePoint | None:
        """Return None: a shard starts where the plan says, since nothing is in a table before the driver adds it."""
        self.abort()
        return None

    def write(self, records: Sequence[Record]) -> None:
        """Keep the rows. Raise IngestError where they have to be written."""
        last, known, size = None, {}, 0
        for table, key, value in records:
            if key is None:
                msg = "a row without a key"
                raise InternalError(msg)
            if table is not last:  # to look a table up, all of its columns are hashed
                last, known = table, self._rows.setdefault(table, {})
            known.pop(key, None)  # the rows have the order of their last changes
            known[key] = row = None if value is None else bytes(value)
            size += len(key) + len(row or b"")
        self._size += size
        if self._size > MOST_BYTES:
            self._flush()

    def _flush(self) -> None:
        for table, rows in self._rows.items():
            self._written += self._files.write(table, rows)
        self._rows, self._size = {}, 0

    def commit(self, _positions: Mapping[Split, int], _metadata: bytes, *, final: bool) -> None:  # noqa: ARG002
        """Write what is there into files. Raise IngestError."""
        self._flush()
        self._committed += self._written
        self._written = []

    def delivered(self) -> list[Any]:
        """Return the files that were committed since this was asked last."""
        out, self._committed = self._committed, []
        return list(out)

    def abort(self) -> None:
        """Forget what was not committed. Files of it stay where they are, in no table."""
        self._rows, self._size, self._written, self._committed = {}, 0, [], []

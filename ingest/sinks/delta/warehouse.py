"""Delta tables below one place.

In: a directory or the URL of one in an object store, and the options of its storage. A table is a folder of a folder
there: tables are never inside of each other, whatever their names are.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError, DeltaProtocolError, TableNotFoundError
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileSystem, PyFileSystem

from ingest.errors import AccessError, ConfigError, IngestError, Unavailable, is_denied
from ingest.model.text import one_line, reason_and_file
from ingest.paths import is_remote
from ingest.sinks.lake.table import TableName, folder_of

_LOG: Final = "\n_delta_log"
"""What stands for the name of the folder of a log: a name that no table has."""


class DeltaWarehouse:
    """The place of Delta tables."""

    def __init__(self, place: str, options: Mapping[str, str]) -> None:
        place = place.removeprefix("file://")
        # Without `..`, as the library has it, which has a URL of it
        self.name = place.rstrip("/") if is_remote(place) else os.path.normpath(Path(place).absolute())
        """The place, for people."""
        self._options = dict(options)

    @property
    def folder(self) -> Path | None:
        """The directory; None where it is in an object store."""
        return None if is_remote(self.name) else Path(self.name)

    @property
    def is_new(self) -> bool:
        """True if the directory is made with the first table."""
        return self.folder is not None and not self.folder.is_dir()

    def path(self, table: TableName) -> str:
        """Return the place of a table. The parts of its namespace have no dots, so that no two tables have one."""
        path = self._path(table)
        return path if is_remote(path) else Path(path).as_uri()

    def _path(self, table: TableName) -> str:
        names = tuple(_LOG if name == "_delta_log" else name for name in (".".join(table[:-1]), table[-1]))
        return f"{self.name}/{folder_of(names)}"

    def load(self, table: TableName) -> DeltaTable:
        """Return the newest version of a table. Raise ValueError where it is lost, and what the library raises."""
        loaded = DeltaTable(self.path(table), storage_options=self._options)
        if self.folder is not None:
            newest = Path(self._path(table), "_delta_log", f"{loaded.version():020}.json")
            # As a machine without power leaves it; the library takes it for a version without changes
            if newest.exists() and not newest.stat().st_size:
                raise ValueError(f"the newest version of the table is an empty file, {newest}")
        return loaded

    def load_version(self, table: TableName, version: int) -> DeltaTable:
        """Return a version of a table. Raise what the library raises."""
        return DeltaTable(self.path(table), version, storage_options=self._options)

    def find(self, table: TableName) -> DeltaTable | None:
        """Return the newest version of a table; None where it is not there. Raise what the library raises."""
        there = DeltaTable.is_deltatable(self.path(table), self._options)
        return self.load(table) if there else None

    def files(self, table: TableName) -> FileSystem:
        """Return the files of a table that is there, by paths relative to it. Raise what the library raises."""
        return PyFileSystem(DeltaStorageHandler(self.path(table), self._options))

    @property
    def options(self) -> dict[str, str]:
        """The options of the storage."""
        return dict(self._options)

    def close(self) -> None:
        """Keep nothing open: the library has no connections."""

    @contextmanager
    def asking(self, what: str) -> Generator[None]:
        """Let errors of the library in the block be those of a run. `what`: what is done, for their messages."""
        try:
            yield
        except BaseException as exc:
            found = None if isinstance(exc, IngestError) else failure_of(exc, what, self.name)
            if found is None:
                raise
            raise found from exc


_DENIED: Final = re.compile(
    r"[Ss]tatus(?: code)?:? 40[13]\b|\b401 Unauthorized|Unauthenticated|PermissionDenied|Permission denied"
    r"|AccessDenied|Forbidden|Operation not permitted|Read-only file system"
)
_OPTIONS: Final = re.compile(
    r"Generic Config error|Failed to parse config|Unable to recognise URL|must be specified|builder error"
    r"|Invalid \S+ Catalog|endpoint is missing|invalid config|NoSuchBucket|ContainerNotFound"
)
"""Texts for options of the storage, or a place, that mean nothing to the library."""
_AWAY: Final = re.compile(
    r"object store|performing \w+ request|Generic \w+ error(?! ↳ Unable to walk)|IO error|[Tt]imed? ?out"
)
"""Texts for a storage that does not answer, inside of errors about a table."""
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")
_TRACE: Final = re.compile(r"(?:\s+0: (?:<unknown>|\S+::)|: ParsedLogPath \{).*", re.DOTALL)
_MOST: Final = 500
_DAMAGED: Final = (
    "see what was changed in the folder of the table; restore it from a copy. Nothing of the batch is lost"
)


def failure_of(exc: BaseException, what: str, place: str) -> IngestError | None:
    """Return the error of a run for one of a call; None for an exception that is none of the library's.

    `what`: what was done, as in "cannot make the table". `place`: the warehouse, for people.
    """
    text = _text(exc)
    msg = f"cannot {what} in {place}: {text}"
    if type(exc).__name__ == "PanicException":  # the library's own, which no module exports
        return ConfigError(f"cannot {what} in {place}: the library deltalake failed: {text}", _DAMAGED)
    if not isinstance(exc, (DeltaError, OSError, EOFError, ValueError, pa.ArrowException)):
        return None
    if isinstance(exc, TableNotFoundError):
        hint = "restore it; or start over with another --checkpoint, and the table is made again"
        return ConfigError(f"cannot {what}: it is not in {place} any more: {text}", hint)
    if isinstance(exc, CommitFailedError):
        return Unavailable(msg, "another writer is faster again and again; the next run goes on")
    if isinstance(exc, DeltaProtocolError):
        return ConfigError(msg, "write to another table: this one needs what this tool does not do")
    if is_denied(exc) or _DENIED.search(text):
        return AccessError(msg, "see storage.properties.*, and the rights of this user there")
    if _OPTIONS.search(text):
        return ConfigError(msg, "see `warehouse` and storage.properties.*")
    if _is_damage(exc, text):
        return ConfigError(msg, _DAMAGED)
    return Unavailable(msg, "see whether the storage answers, and whether there is room; nothing is lost")


def _is_damage(exc: BaseException, text: str) -> bool:
    """Return whether the storage did answer, and what is there is no table or no file of one."""
    if isinstance(exc, (FileNotFoundError, NotADirectoryError, EOFError, ValueError)) or "(os error 20)" in text:
        return True
    if isinstance(exc, OSError) and not isinstance(exc, pa.ArrowException):
        return False
    return not _AWAY.search(text)


def _text(exc: BaseException) -> str:
    return one_line(" ".join(_TRACE.sub("", _COLOURS.sub("", reason_and_file(exc))).split()))[:_MOST]

"""Delta tables below one place.

In: a directory or the URL of one in an object store, and the options of its storage. A table is a folder of a folder
there: tables are never inside of each other, whatever their names are.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from deltalake import DeltaTable
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import PyFileSystem

from ingest.errors import IngestError
from ingest.paths import is_remote
from ingest.sinks.delta.failures import failure_of
from ingest.sinks.lake.table import folder_of

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from pyarrow.fs import FileSystem

_LOG: Final = "\n_delta_log"
"""What stands for the name of the folder of a log: a name that no table has."""


class DeltaWarehouse:
    """The place of Delta tables."""

    def __init__(self, place: str, options: Mapping[str, str]) -> None:
        """Ask nothing yet."""
        place = place.removeprefix("file://")
        # Without `..`, as the library has it, which has a URL of it
        self.name = place.rstrip("/") if is_remote(place) else os.path.normpath(Path(place).absolute())
        """The place, for people."""
        self._options = dict(options)

    @property
    def folder(self) -> Path | None:
        """The directory; None where it is in an object store."""
        return None if is_remote(self.name) else Path(self.name)

    def path(self, table: tuple[str, ...]) -> str:
        """Return the place of a table. The parts of its namespace have no dots, so that no two tables have one."""
        path = self._path(table)
        return path if is_remote(path) else Path(path).as_uri()

    def _path(self, table: tuple[str, ...]) -> str:
        names = tuple(_LOG if name == "_delta_log" else name for name in (".".join(table[:-1]), table[-1]))
        return f"{self.name}/{folder_of(names)}"

    def load(self, table: tuple[str, ...]) -> DeltaTable:
        """Return the newest version of a table. Raise ValueError where it is lost, and what the library raises."""
        found = DeltaTable(self.path(table), storage_options=self._options)
        if self.folder is not None:
            newest = Path(self._path(table), "_delta_log", f"{found.version():020}.json")
            # As a machine without power leaves it; the library takes it for a version without changes
            if newest.exists() and not newest.stat().st_size:
                msg = f"the newest version of the table is an empty file, {newest}"
                raise ValueError(msg)
        return found

    def load_version(self, table: tuple[str, ...], version: int) -> DeltaTable:
        """Return a version of a table. Raise what the library raises."""
        return DeltaTable(self.path(table), version, storage_options=self._options)

    def found(self, table: tuple[str, ...]) -> DeltaTable | None:
        """Return the newest version of a table; None where it is not there. Raise what the library raises."""
        there = DeltaTable.is_deltatable(self.path(table), self._options)
        return self.load(table) if there else None

    def files(self, table: tuple[str, ...]) -> FileSystem:
        """Return the files of a table that is there, by paths relative to it. Raise what the library raises."""
        return PyFileSystem(DeltaStorageHandler(self.path(table), self._options))

    @property
    def options(self) -> dict[str, str]:
        """The options of the storage."""
        return dict(self._options)

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

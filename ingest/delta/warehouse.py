"""Delta tables below one place, and what errors of their library mean for a run.

In: a directory or the URL of one in an object store, and the options of its storage. A table is a folder of a folder
there: tables are never inside of each other, whatever their names are.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, DeltaProtocolError, TableNotFoundError
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import PyFileSystem

from ingest.errors import AccessError, ConfigError, Unavailable
from ingest.lake.table import folder_of
from ingest.model.text import one_line

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from pyarrow.fs import FileSystem

_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_DENIED: Final = re.compile(r"\b40[13]\b|Unauthenticated|PermissionDenied|Permission denied|AccessDenied|Forbidden")
_LOG: Final = "\n_delta_log"
"""What stands for the name of the folder of a log: a name that no table has."""
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")


class DeltaWarehouse:
    """The place of Delta tables."""

    def __init__(self, place: str, options: Mapping[str, str]) -> None:
        """Ask nothing yet."""
        self.name = place.rstrip("/") if _URL.match(place) else str(Path(place).absolute())
        """The place, for people."""
        self._options = dict(options)

    @property
    def folder(self) -> Path | None:
        """The directory; None where it is in an object store."""
        return None if _URL.match(self.name) else Path(self.name)

    def path(self, table: tuple[str, ...]) -> str:
        """Return the place of a table. The parts of its namespace have no dots, so that no two tables have one."""
        names = tuple(_LOG if name == "_delta_log" else name for name in (".".join(table[:-1]), table[-1]))
        path = f"{self.name}/{folder_of(names)}"
        return path if _URL.match(path) else Path(path).as_uri()

    def load(self, table: tuple[str, ...]) -> DeltaTable:
        """Return the newest version of a table. Raise what the library raises."""
        return DeltaTable(self.path(table), storage_options=self._options)

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
        except TableNotFoundError as exc:
            msg = f"cannot {what}: it is not in {self.name}: {_text(exc)}"
            hint = "see `warehouse`; where the table was removed, restore it, or begin anew with another --checkpoint"
            raise ConfigError(msg, hint) from exc
        except DeltaProtocolError as exc:
            msg = f"cannot {what} in {self.name}: {_text(exc)}"
            raise ConfigError(msg, "write to another table: this one needs what this tool does not do") from exc
        except (DeltaError, OSError) as exc:
            msg = f"cannot {what} in {self.name}: {_text(exc)}"
            if isinstance(exc, PermissionError) or _DENIED.search(str(exc)):
                raise AccessError(msg, "see storage.properties.*, and the rights of this user there") from exc
            raise Unavailable(
                msg, "see whether the storage answers, and whether there is room; nothing is lost"
            ) from exc


def _text(exc: Exception) -> str:
    return one_line(" ".join(_COLOURS.sub("", str(exc)).split()))[:500]

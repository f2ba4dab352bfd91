"""The location of a run's checkpoint, and when it can be opened: at once, or through Java once that runs."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol, Self

import orjson

from ingest.checkpoint.checkpoint import Checkpoint
from ingest.checkpoint.hadoop_storage import HadoopStorage
from ingest.checkpoint.storage import LocalStorage, MemoryStorage, Overlay, Storage
from ingest.errors import CheckpointError
from ingest.model.text import reason_of
from ingest.paths import is_remote

_EXPORT: Final = "make it where the pipeline runs: ingest checkpoint export FILE > EXPORT"


class Location(Protocol):
    """The location of a checkpoint."""

    @property
    def remote(self) -> bool:
        """True if the checkpoint can be opened through Java only."""

    def open(self, hadoop: tuple[Any, Any] | None) -> Storage:
        """Open the checkpoint's storage; `hadoop`: JVM and Hadoop configuration, if remote. Raise CheckpointError."""


class CheckpointLocation:
    """A local directory, or a URI of one of Hadoop's file systems.

    This process becomes the only user of a local one. With `read_only`, whatever is written stays in memory.
    """

    def __init__(self, where: str, *, read_only: bool = False) -> None:
        self._where, self._read_only = where, read_only
        self.remote = is_remote(where)

    def open(self, hadoop: tuple[Any, Any] | None) -> Storage:
        """Open the storage; a missing one is created unless it is only read. Raise CheckpointError."""
        writes = not self._read_only
        storage: Storage
        if hadoop is None:
            storage = LocalStorage(Path(self._where), lock=writes)
        else:
            storage = HadoopStorage(self._where, *hadoop, make=writes)
        return storage if writes else Overlay(storage)


class ExportedLocation:
    """The state of a checkpoint that `ingest checkpoint export` has written to a file: it is only read."""

    remote = False

    def __init__(self, file: Path) -> None:
        self._file = file

    def open(self, _hadoop: tuple[Any, Any] | None) -> Storage:
        """Read the exported file into a storage in memory. Raise CheckpointError."""
        try:
            state = orjson.loads(self._file.read_bytes())["state"]
            kept = {str(name): orjson.dumps(value) for name, value in state.items()}
        except OSError as exc:
            raise CheckpointError(f"cannot read {self._file}: {reason_of(exc)}", _EXPORT) from exc
        except (ValueError, KeyError, TypeError, AttributeError) as exc:
            raise CheckpointError(f"{self._file} is no export of a checkpoint", _EXPORT) from exc
        storage = MemoryStorage(f"the export {self._file}")
        for name, data in kept.items():
            storage.write(name, data)
        return Overlay(storage)


class MemoryLocation:
    """A checkpoint that ends with its run."""

    remote = False

    def open(self, _hadoop: tuple[Any, Any] | None) -> Storage:
        """Return an empty storage."""
        return MemoryStorage()


class CheckpointAccess:
    """The checkpoint of a run, from as early as it can be opened until everything else has ended."""

    def __init__(self, location: Location) -> None:
        """Open a local checkpoint; raises CheckpointError."""
        self._location = location
        self._resources = ExitStack()
        self.checkpoint: Checkpoint | None = None
        """The checkpoint, as soon as it is open."""
        self.early = None if location.remote else self._open(None)
        """The checkpoint; None where Java has to run before it can be opened."""

    @property
    def lock(self) -> int | None:
        """A descriptor that child processes hold, too, so that the checkpoint is free only when they are gone."""
        return None if self.early is None else self.early.storage.lock

    def open(self, hadoop: tuple[Any, Any]) -> Checkpoint:
        """Return a checkpoint that is reached through Java, opened; raises CheckpointError."""
        return self._open(hadoop)

    def _open(self, hadoop: tuple[Any, Any] | None) -> Checkpoint:
        storage = self._location.open(hadoop)
        self._resources.callback(storage.close)
        try:
            self.checkpoint = Checkpoint(storage)
        except CheckpointError:
            self._resources.close()
            raise
        return self.checkpoint

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._resources.close()

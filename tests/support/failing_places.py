"""Faults of a lake's warehouse, each met by a task and by the driver: a program for a namespace of mounts of its own.

`failing_places.py KIND FOLDER` prints what each step said, as JSON: fault, step, class, exit code, message and hint.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from any_lake import lake_of
from lake_sink import lake_schema

from ingest.errors import IngestError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TABLE = ("shop", "t")
COLUMNS = ("id BIGINT", "n BIGINT")
SCHEMA, LATER = lake_schema(*COLUMNS), lake_schema(*COLUMNS, "more STRING")

Said = tuple[str, str, int, str]


def row(number: int) -> tuple[str, str]:
    return f'{{"id":{number}}}', f'{{"id":{number},"n":1}}'


def mount(*arguments: str) -> None:
    subprocess.run([str(shutil.which("mount")), *arguments], check=True)


def said(step: str, act: Callable[[], object]) -> Said:
    try:
        act()
    except IngestError as exc:
        return step, type(exc).__name__, exc.exit_code, f"{exc.message}; {exc.hint}"
    return step, "", 0, ""


class Place:
    """A warehouse with a table that has a batch, and files of the next one that wait."""

    def __init__(self, kind: str, folder: Path) -> None:
        folder.mkdir()
        mount("-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder))
        self.folder = folder
        self.start = partial(lake_of, kind, folder)
        sink = self.sink = self.start()
        sink.side.declare({TABLE: SCHEMA})
        sink.write(TABLE, SCHEMA, row(1))
        files = sink.files(TABLE, SCHEMA, (row(2),))
        self.commit = partial(sink.side.add, "checkpoint", 2, files)
        self.task = partial(sink.write, TABLE, SCHEMA, row(3))
        self.change = partial(sink.side.declare, {TABLE: LATER})

    def read_only(self) -> Iterator[Said]:
        # What has files open there cannot be made read-only, but a mount above it can
        mount("--bind", str(self.folder), str(self.folder))
        mount("-o", "remount,bind,ro", str(self.folder))
        yield said("start", self.start)
        yield said("change", self.change)
        yield said("task", self.task)
        yield said("commit", self.commit)

    def full(self) -> Iterator[Said]:
        filler = self.folder / "filler"
        with filler.open("wb", buffering=0) as file, suppress(OSError):
            while file.write(bytes(4096)):
                pass
        yield said("task", self.task)
        yield said("commit", self.commit)
        filler.unlink()
        yield said("again", self.commit)

    def missing(self) -> Iterator[Said]:
        for one in self.folder.rglob("*.parquet"):
            one.unlink()
        yield said("commit", self.commit)

    def locked(self) -> Iterator[Said]:
        for catalog in self.folder.glob("*.db"):  # Iceberg's; a table of Delta has no locks
            with closing(sqlite3.connect(catalog)) as other:
                other.execute("BEGIN EXCLUSIVE")
                yield said("commit", self.commit)
            yield said("again", self.commit)


def main(kind: str, folder: Path) -> list[Any]:
    faults = (Place.read_only, Place.full, Place.missing, Place.locked)
    return [(fault.__name__, *one) for fault in faults for one in fault(Place(kind, folder / fault.__name__))]


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], Path(sys.argv[2]))))

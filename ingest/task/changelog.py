"""Stored rows of upsert topics, by which a value is an insert or an update with its row before.

One file for each split, on the disk of the machine where its tasks run: by key, the last row, and up to which offset.
A task whose file stands elsewhere than its range begins (the split has moved here, or a commit was not the last word)
reads the topic from there, or from its beginning; nothing else is ever needed, so nothing of it is in the checkpoint.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import tempfile
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from ingest.errors import AccessError, Unavailable, is_denied
from ingest.formats.key_reading import compared
from ingest.model.change import Change, Decoded, InlineSchema, Kind, Skip
from ingest.model.jsontext import MALFORMED, key_image, parse_row
from ingest.model.reject import RowError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ingest.model.record import Record, Split
    from ingest.sources import Reader
    from ingest.task.encoding import ChunkDecoder

_AT_ONCE: Final = 500
_NOTHING: Final = Skip("delete-of-nothing")


def folder(scope: str) -> Path:
    """Return the folder of the rows of a checkpoint's splits.

    It is in INGEST_STATE_DIR, else in Spark's local directory, else in a temporary one.
    """
    spark = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
    root = os.environ.get("INGEST_STATE_DIR") or spark or f"{tempfile.gettempdir()}/ingest-{os.getuid()}"
    return Path(root) / "changelog" / scope


def _is_row(image: msgspec.Raw) -> bool:
    """Return whether an image is a JSON object."""
    try:
        parse_row(image)
    except RowError:
        return False
    return True


def _with_row_before(change: Change, row: bytes) -> Change:
    declared = _beside_key(change.key, row, change.declared)
    return change._replace(before=msgspec.Raw(row), declared=declared)


def _beside_key(key: bytes | None, old: bytes, declared: InlineSchema | None) -> InlineSchema | None:
    """Return a message's declared schema, extended by the columns whose text in the key differs from the row before."""
    try:
        image = None if key is None else key_image(key)
        found = {} if image is None else compared(bytes(image), old)
    except MALFORMED:
        return declared
    if not found or isinstance(found, str):
        return declared
    declared = declared or InlineSchema()
    return replace(declared, in_key={**found, **declared.in_key})


def _is_damage(exc: Exception) -> bool:
    """Return whether a file is damaged, or none of SQLite's: other errors have classes of their own."""
    return type(exc) is sqlite3.DatabaseError


class SplitRows:
    """The rows of one split: a SQLite file, and a task's changes since its last commit. Methods raise Unavailable."""

    def __init__(self, path: Path) -> None:
        """Open the file, or start an empty one if it cannot be read."""
        self._path = path
        self._changed: dict[bytes, bytes | None] = {}
        self._log: list[tuple[int, bytes, bytes | None]] = []
        with self._kept():
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            try:
                self._connect()
            except sqlite3.DatabaseError as exc:
                if not _is_damage(exc):
                    raise
                self._remove()
                self._connect()

    @contextmanager
    def _kept(self) -> Iterator[None]:
        """Raise Unavailable or AccessError for an error of the disk.

        A damaged file is removed: the next run starts over.
        """
        try:
            yield
        except (OSError, sqlite3.Error) as exc:
            if _is_damage(exc):
                self._remove()
            msg = f"cannot keep the rows of a split in {self._path}: {exc}"
            if is_denied(exc) or "readonly database" in str(exc):
                raise AccessError(msg, "set INGEST_STATE_DIR to a directory that can be written to") from exc
            raise Unavailable(msg, "see whether there is room, or set INGEST_STATE_DIR to another directory") from exc

    def _remove(self) -> None:
        for name in (self._path, *self._path.parent.glob(f"{self._path.name}-*")):
            name.unlink(missing_ok=True)

    def _connect(self) -> None:
        self._file = sqlite3.connect(self._path, isolation_level=None, timeout=30)
        self._file.execute("PRAGMA journal_mode=WAL")
        self._file.execute("PRAGMA synchronous=NORMAL")
        self._file.execute("CREATE TABLE IF NOT EXISTS rows (k BLOB PRIMARY KEY, v BLOB) WITHOUT ROWID")
        self._file.execute("CREATE TABLE IF NOT EXISTS at (position INTEGER)")

    @property
    def position(self) -> int | None:
        """The offset up to which the file holds the rows; None if it is new."""
        with self._kept():
            found = self._file.execute("SELECT position FROM at").fetchone()
        return None if found is None else int(found[0])

    def clear(self) -> None:
        """Delete all rows, and the offset up to which the file has them."""
        self._changed.clear()
        self._log.clear()
        with self._kept():
            self._file.execute("DELETE FROM rows")
            self._file.execute("DELETE FROM at")

    def find(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the existing rows of these keys."""
        out: dict[bytes, bytes] = {}
        wanted = [key for key in set(keys) if key not in self._changed]
        for first in range(0, len(wanted), _AT_ONCE):
            some = wanted[first : first + _AT_ONCE]
            marks = ",".join("?" * len(some))
            with self._kept():
                out.update(self._file.execute(f"SELECT k, v FROM rows WHERE k IN ({marks})", some))  # noqa: S608  (marks only)
        for key in keys:
            changed = self._changed.get(key)
            if changed is not None:
                out[key] = changed
        return out

    def put(self, offset: int, key: bytes, row: bytes | None) -> None:
        """Set or delete (None) a key's row. The change becomes durable with the next commit past its offset."""
        self._changed[key] = row
        self._log.append((offset, key, row))

    def commit(self, position: int) -> None:
        """Store the changes before this offset, and discard the rest."""
        last: dict[bytes, bytes | None] = {key: row for offset, key, row in self._log if offset < position}
        self._changed.clear()
        self._log.clear()
        with self._kept():
            self._file.execute("BEGIN IMMEDIATE")
            self._file.executemany(
                "INSERT INTO rows VALUES (?, ?) ON CONFLICT (k) DO UPDATE SET v = excluded.v",
                [(key, row) for key, row in last.items() if row is not None],
            )
            self._file.executemany("DELETE FROM rows WHERE k = ?", [(key,) for key, row in last.items() if row is None])
            self._file.execute("DELETE FROM at")
            self._file.execute("INSERT INTO at VALUES (?)", (position,))
            self._file.execute("COMMIT")

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class Changelog:
    """The rows of a task's splits, by which upserts become a full changelog."""

    def __init__(self, scope: str, ids: Mapping[str, str], reader: Reader, decoder: ChunkDecoder) -> None:
        """`ids`: of the topics; a recreated one has other rows."""
        self._folder = folder(scope)
        self._ids = ids
        self._reader = reader
        self._decoder = decoder
        self._rows: dict[Split, SplitRows] = {}

    def prepare(self, starts: Mapping[Split, int]) -> None:
        """Open the rows of these splits, and read their topics up to where the ranges begin. Raise IngestError."""
        behind: dict[Split, tuple[int, int]] = {}
        for split, start in starts.items():
            name = f"{split[0]}/{split[1]}/{self._ids.get(split[0], '')}"
            rows = SplitRows(self._folder / f"{hashlib.sha256(name.encode()).hexdigest()[:32]}.db")
            self._rows[split] = rows
            position = rows.position
            if position is not None and position > start:
                rows.clear()
                position = None
            if position is None:
                position = min(self._reader.first(split), start)
            if position < start:
                behind[split] = (position, start)
        if behind:
            self._catch_up(behind)

    def _catch_up(self, behind: Mapping[Split, tuple[int, int]]) -> None:
        with closing(self._reader.read(behind)) as chunks:
            for chunk in chunks:
                if chunk is not None:
                    split, messages = chunk.split, chunk.messages
                    self.normalise(split, self._decoder.decode(split, chunk.topic, messages), messages)
                    self._rows[split].commit(self._reader.position(split))
        for split, (_, end) in behind.items():
            self._rows[split].commit(end)

    def normalise(self, split: Split, changes: list[Decoded], messages: Sequence[Record]) -> list[Decoded]:
        """Return the changes as inserts, updates and deletes, the latter two with the row before."""
        rows = self._rows[split]
        keys = [message.key() or b"" for message in messages]
        known = rows.find(keys)
        out: list[Decoded] = []
        for key, change, message in zip(keys, changes, messages, strict=True):
            if not isinstance(change, Change):
                out.append(change)
                continue
            old, after = known.get(key), change.after
            offset = message.offset() or 0
            if change.kind is Kind.DELETE:
                known.pop(key, None)
                rows.put(offset, key, None)
                out.append(_NOTHING if old is None else _with_row_before(change, old))
                continue
            if after is None or not _is_row(after):
                out.append(change)  # it will be a reject, and is no row before the next one
                continue
            row = bytes(after)
            known[key] = row
            rows.put(offset, key, row)
            out.append(change if old is None else _with_row_before(change._replace(kind=Kind.UPDATE), old))
        return out

    def commit(self, positions: Mapping[Split, int]) -> None:
        """Store the rows up to these offsets."""
        for split, rows in self._rows.items():
            rows.commit(positions[split])

    def close(self) -> None:
        """Close the files, and discard uncommitted changes."""
        for rows in self._rows.values():
            rows.close()
        self._rows = {}

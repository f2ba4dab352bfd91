"""A task's side of files: ranges of lines, as records.

In: ranges of lines of files. Out: chunks of records, whose position is the number of the line.
Rules: docs/spec/sources.md#files.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from ingest.errors import Unavailable
from ingest.model.record import Chunk
from ingest.model.text import reason_of
from ingest.sources import Reader
from ingest.sources.envelopes import BrokenLine, LineError, read_line

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from ingest.model.record import Headers, Split

CHUNK: Final = 2_000
_MAX_HEADER: Final = 1 << 22
"""Bytes of a line of names, at most."""


def stem_of(name: str) -> str:
    """Return a file's name without its ending, which stands for the topic."""
    return Path(name).name.split(".", 1)[0] or name


def first_line(name: str) -> bytes:
    """Return the first line of a file, without its end. Raise Unavailable."""
    try:
        with Path(name).open("rb") as file:
            return file.readline(_MAX_HEADER).rstrip(b"\r\n").removeprefix(BOM_UTF8)
    except OSError as exc:
        msg = f"cannot read {name}: {reason_of(exc)}"
        raise Unavailable(msg) from exc


@dataclass(slots=True)
class FileRecord:
    """One line, as a record."""

    line: int
    stands_for: str
    key_bytes: bytes | None
    value_bytes: bytes | None
    sent: Headers = field(default_factory=list)
    millis: int | None = None

    def key(self) -> bytes | None:
        """Return the key's bytes."""
        return self.key_bytes

    def value(self) -> bytes | None:
        """Return the value's bytes."""
        return self.value_bytes

    def topic(self) -> str:
        """Return the line's own topic, or the file's name without its ending."""
        return self.stands_for

    def partition(self) -> int:
        """Return 0: a file has one partition."""
        return 0

    def offset(self) -> int:
        """Return the line's number, from 0."""
        return self.line

    def timestamp(self) -> tuple[int, int]:
        """Return the time when it was made, where the line says it."""
        return (0, -1) if self.millis is None else (1, self.millis)

    def headers(self) -> Headers:
        """Return names and values."""
        return self.sent

    def leader_epoch(self) -> None:
        """Return None: files have no leader."""
        return


class FileReader(Reader):
    """Reads ranges of lines. Remembers where lines begin, so that going on costs nothing."""

    def __init__(self, *, envelope: bool, header: bool = False) -> None:
        """Open nothing yet. `header`: the first line of each file is no record."""
        self._envelope = envelope
        self._header = header
        self._known: dict[str, tuple[int, int]] = {}
        """By file: a line's number, and the byte where it begins."""
        self._position: dict[Split, int] = {}

    def read(self, ranges: Mapping[Split, tuple[int, int]]) -> Generator[Chunk | None]:
        """Yield chunks until every range is read. Raises Unavailable."""
        self._position = {split: start for split, (start, _) in ranges.items()}
        for split, (start, end) in ranges.items():
            try:
                with Path(split[0]).open("rb") as file:
                    yield from self._chunks(file, split, start, end)
            except OSError as exc:
                msg = f"cannot read {split[0]}: {reason_of(exc)}"
                raise Unavailable(msg) from exc
            self._position[split] = max(self._position[split], end)

    def _chunks(self, file: BinaryIO, split: Split, start: int, end: int) -> Generator[Chunk]:
        name = split[0]
        line, begins = self._known.get(name, (0, 0))
        if line > start:
            line = begins = 0
        file.seek(begins)
        while line < start and file.readline():
            line += 1
        topic, lines = "", list[FileRecord]()
        while line < end and (text := file.readline()):
            line += 1
            if line == 1:
                if self._header:
                    continue
                text = text.removeprefix(BOM_UTF8)
            record = self._record(name, line - 1, text.rstrip(b"\r\n"))
            if lines and (topic != record.stands_for or len(lines) >= CHUNK):
                self._position[split] = record.line
                yield Chunk(split, topic, lines)
                lines = []
            topic = record.stands_for
            lines.append(record)
        self._known[name] = (line, file.tell())
        if lines:
            self._position[split] = line
            yield Chunk(split, topic, lines)

    def _record(self, name: str, line: int, text: bytes) -> FileRecord:
        stem = stem_of(name)
        if not self._envelope:
            return FileRecord(line, stem, None, text)
        try:
            key, value, headers, timestamp, topic = read_line(text)
        except LineError as exc:
            return FileRecord(line, stem, None, BrokenLine.of(text, exc))
        return FileRecord(line, topic or stem, key, value, headers, timestamp)

    def position(self, split: Split) -> int:
        """Return the next line that this file's range would give."""
        return self._position[split]

    def first(self, _split: Split) -> int:
        """Return the first line."""
        return 0

    def close(self) -> None:
        """Do nothing: nothing is held."""

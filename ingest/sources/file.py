"""Lines of files: the options of `source:` with `type: file`, and both its sides. For trying pipelines, and tests.

A split is a file, a position the number of a line, from 0; the file's name without its ending stands for the topic. A
line without its end belongs to nobody yet, unless the run drains what is there. Rules: docs/spec/sources.md#files.
"""

from __future__ import annotations

import fnmatch
import glob
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Final, Literal, NamedTuple

import msgspec
from pydantic import Field, field_validator

from ingest.component.options import Labelled
from ingest.errors import ConfigError, DataLoss, Unavailable
from ingest.model.jsontext import MALFORMED
from ingest.sources.records import RecordOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping

    from ingest.kafka.admin import Split
    from ingest.model.record import Headers

CHUNK: Final = 2_000
_BLOCK: Final = 1 << 20
_MAX_FILES: Final = 10_000


class FileSource(Labelled, RecordOptions):
    """Options of `source:` with `type: file`."""

    left_out: ClassVar[str] = "left-out"
    no_start_time: ClassVar[str] = "lines of files have no time"

    type: Literal["file"]
    """`file`."""

    path: str = Field(min_length=1)
    """Files to read, one record a line; a pattern with `*`, `?`, `[…]` and `**`, relative to where the command runs.
    Files that appear while the pipeline runs are read, too, and lines that are added. Lines of one file keep their
    order; files are read side by side, as partitions of a topic are."""

    envelope: bool = Field(False, alias="file.envelope")
    """Each line is `{"key":…,"value":…,"headers":{…},"timestamp":…,"topic":…}` and not a value alone. Keys and values
    are JSON, or texts that hold the very bytes; all but `value` may be absent."""

    @field_validator("path")
    @classmethod
    def _check_path(cls, value: str) -> str:
        if "\x00" in value:
            msg = "not a path"
            raise ValueError(msg)
        return value

    @property
    def wanted(self) -> None:
        """None: every record is read."""
        return None

    @property
    def rate_limit(self) -> None:
        """None: there is no limit."""
        return None

    def matches(self, path: str) -> bool:
        """Return whether a file of this name would be read."""
        return fnmatch.fnmatch(os.path.abspath(path), os.path.abspath(self.path))  # noqa: PTH100  (nothing is followed)

    def coordinator(self, _pipeline: str, _warn: Callable[[str], None]) -> FileSourceCoordinator:
        """Return the driver's side."""
        return FileSourceCoordinator(self)

    def reader(self, _pipeline: str) -> FileReader:
        """Return a task's side."""
        return FileReader(envelope=self.envelope)


class _Topic(NamedTuple):
    id: str
    partitions: int


class FileSourceCoordinator:
    """The driver's side of the files."""

    def __init__(self, options: FileSource) -> None:
        """Look at nothing yet."""
        self.options = options
        self.ids: dict[str, str] = {}
        self._counted: dict[str, tuple[int, int]] = {}
        """By file: bytes that were looked at, and line ends in them."""

    def connect(self) -> str:
        """Return where the files are, as the option says it."""
        return self.options.path

    def fingerprint(self, _identity: str) -> dict[str, Any]:
        """Return what a checkpoint of this source depends on."""
        return {"type": "file", "value.format": self.options.value_format}

    def _files(self) -> list[str]:
        found = sorted(name for name in glob.iglob(self.options.path, recursive=True) if Path(name).is_file())  # noqa: PTH207  (the whole pattern is the user's)
        if len(found) > _MAX_FILES:
            msg = f"source.path {self.options.path!r} matches {len(found)} files, more than {_MAX_FILES}"
            raise ConfigError(msg, "split the pipeline, or write the lines into fewer files")
        return found

    def start(
        self,
        stored: Mapping[Split, int],
        ids: Mapping[str, str],  # noqa: ARG002
        owner: str,  # noqa: ARG002
        from_time: int | None,  # noqa: ARG002
    ) -> dict[Split, int]:
        """Return where each file's reading starts."""
        files = self._files()
        if not files and not stored:
            msg = f"source.path {self.options.path!r} matches no file"
            raise ConfigError(msg, "correct the path; it is relative to where the command runs")
        gone = [name for name, _ in stored if name not in files]
        self.ids = dict.fromkeys((*files, *gone), "file")
        return self.check({**{(name, 0): 0 for name in files}, **stored})

    def check(self, positions: Mapping[Split, int]) -> dict[Split, int]:
        """Return the positions; raises DataLoss for a file that has fewer lines than were read."""
        for (name, _), at in positions.items():
            lines = self._lines(name) if Path(name).is_file() else at
            if lines < at:
                msg = f"data loss: {name} has {lines} lines, and {at} of them were read already"
                raise DataLoss(msg, "put the file back, or use another pipeline.name to read it afresh")
        return dict(positions)

    def _lines(self, name: str) -> int:
        """Return how many lines a file has; the last one counts without its end, too."""
        try:
            with Path(name).open("rb") as file:
                size, lines = self._counted.get(name, (0, 0))
                if file.seek(0, 2) < size:
                    size = lines = 0
                file.seek(size)
                while block := file.read(_BLOCK):
                    size, lines = size + len(block), lines + block.count(b"\n")
                self._counted[name] = (size, lines)
                open_end = False
                if size:
                    file.seek(size - 1)
                    open_end = file.read(1) != b"\n"
        except OSError as exc:
            msg = f"cannot read {name}: {exc.strerror or exc}"
            raise Unavailable(msg) from exc
        return lines + open_end

    def ends(self, positions: Mapping[Split, int]) -> dict[Split, int]:
        """Return where each file ends now."""
        return {split: self._lines(split[0]) if Path(split[0]).is_file() else at for split, at in positions.items()}

    def extent(self, ends: Mapping[Split, int]) -> dict[Split, tuple[int, int]]:
        """Return the whole range of each file."""
        return {split: (0, end) for split, end in ends.items()}

    def reads(self, topic: str) -> bool:
        """Tell whether a file is one of those that are read."""
        return topic in self.ids

    def finished(self, positions: Mapping[Split, int]) -> bool:  # noqa: ARG002
        """Never: lines may be added."""
        return False

    def discover(self, positions: Mapping[Split, int]) -> dict[Split, int]:
        """Return files that are new."""
        new = {(name, 0): 0 for name in self._files() if (name, 0) not in positions}
        self.ids.update({name: "file" for name, _ in new})
        return new

    def resolve(self, splits: Iterable[Split], to: Literal["earliest", "latest"] | int) -> dict[Split, int]:
        """Return the first line, or the end; lines have no time."""
        if to not in {"earliest", "latest"}:
            msg = "lines of files have no time to set positions by"
            raise ConfigError(msg, "use --to earliest, latest or offset:N")
        return {split: 0 if to == "earliest" else self._lines(split[0]) for split in splits}

    def topics(self, names: Iterable[str]) -> dict[str, _Topic]:
        """Return those of these files that are there."""
        return {name: _Topic("file", 1) for name in names if Path(name).is_file()}

    def commit(self, positions: Mapping[Split, int]) -> None:
        """Do nothing: nobody watches."""

    def keep(self, positions: Mapping[Split, int]) -> None:
        """Do nothing: nobody watches."""

    def close(self) -> None:
        """Do nothing: nothing is held."""


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


@dataclass(slots=True)
class FileChunk:
    """Consecutive lines of one file, of one topic."""

    split: Split
    topic: str
    messages: list[FileRecord]


class _Line(msgspec.Struct):
    key: msgspec.Raw = msgspec.Raw(b"null")
    value: msgspec.Raw = msgspec.Raw(b"null")
    headers: dict[str, str | None] = {}
    timestamp: int | None = None
    topic: str | None = None


_line = msgspec.json.Decoder(_Line).decode


class FileReader:
    """Reads ranges of lines. Remembers where lines begin, so that going on costs nothing."""

    def __init__(self, *, envelope: bool) -> None:
        """Open nothing yet."""
        self._envelope = envelope
        self._known: dict[str, tuple[int, int]] = {}
        """By file: a line's number, and the byte where it begins."""
        self._position: dict[Split, int] = {}

    def read(self, ranges: Mapping[Split, tuple[int, int]]) -> Generator[FileChunk | None]:
        """Yield chunks until every range is read. Raises Unavailable."""
        self._position = {split: start for split, (start, _) in ranges.items()}
        for split, (start, end) in ranges.items():
            try:
                with Path(split[0]).open("rb") as file:
                    yield from self._chunks(file, split, start, end)
            except OSError as exc:
                msg = f"cannot read {split[0]}: {exc.strerror or exc}"
                raise Unavailable(msg) from exc
            self._position[split] = max(self._position[split], end)

    def _chunks(self, file: BinaryIO, split: Split, start: int, end: int) -> Generator[FileChunk]:
        name = split[0]
        line, begins = self._known.get(name, (0, 0))
        if line > start:
            line = begins = 0
        file.seek(begins)
        while line < start and file.readline():
            line += 1
        chunk: FileChunk | None = None
        while line < end and (text := file.readline()):
            record = self._record(name, line, text.rstrip(b"\r\n"))
            line += 1
            if chunk is not None and (chunk.topic != record.stands_for or len(chunk.messages) >= CHUNK):
                self._position[split] = record.line
                yield chunk
                chunk = None
            if chunk is None:
                chunk = FileChunk(split, record.stands_for, [])
            chunk.messages.append(record)
        self._known[name] = (line, file.tell())
        if chunk is not None:
            self._position[split] = line
            yield chunk

    def _record(self, name: str, line: int, text: bytes) -> FileRecord:
        stem = Path(name).name.split(".", 1)[0] or name
        if not self._envelope:
            return FileRecord(line, stem, None, text)
        try:
            found = _line(text)
        except MALFORMED:
            return FileRecord(line, stem, None, text)  # the format says what is wrong with it
        headers: Headers = [(k, None if v is None else v.encode()) for k, v in found.headers.items()]
        return FileRecord(
            line, found.topic or stem, _content(found.key), _content(found.value), headers, found.timestamp
        )

    def position(self, split: Split) -> int:
        """Return the next line that this file's range would give."""
        return self._position[split]

    def first(self, _split: Split) -> int:
        """Return the first line."""
        return 0

    def close(self) -> None:
        """Do nothing: nothing is held."""


def _content(raw: msgspec.Raw) -> bytes | None:
    """Return the bytes that a line stands for: null is none, a text is itself, other JSON its own text."""
    text = bytes(raw)
    if text == b"null":
        return None
    if text[:1] != b'"':
        return text
    try:
        return msgspec.json.decode(text, type=str).encode()
    except MALFORMED:
        return text

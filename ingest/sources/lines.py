"""Lines of files as records: values alone, or with `file.envelope` a key, a value and more in one JSON object.

In: ranges of lines of files. Out: chunks of records, whose position is the number of the line.
Rules: docs/spec/sources.md#files.
"""

from __future__ import annotations

import base64
from codecs import BOM_UTF8
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple

import msgspec

from ingest.errors import Unavailable
from ingest.model.change import Decoded, Reject
from ingest.model.jsontext import MALFORMED, reason
from ingest.model.record import Chunk, Headers, Split
from ingest.model.text import reason_of
from ingest.sources import Reader

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from ingest.formats import Decoder

_ABSENT = msgspec.Raw(b"")


class LineError(ValueError):
    """Error about a line that is no record."""


class Envelope(NamedTuple):
    """The key, value, headers, time and topic of a record, parsed from a line."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp: int | None
    topic: str | None


class _Line(msgspec.Struct):
    key: msgspec.Raw = _ABSENT
    key_base64: str | msgspec.UnsetType | None = msgspec.field(name="key-base64", default=msgspec.UNSET)
    value: msgspec.Raw = _ABSENT
    value_base64: str | msgspec.UnsetType | None = msgspec.field(name="value-base64", default=msgspec.UNSET)
    headers: dict[str, str | None] = {}
    timestamp: int | None = None
    topic: str | None = None


_line = msgspec.json.Decoder(_Line).decode


def read_line(text: bytes) -> Envelope:
    """Parse a line into the parts of a record. Raise LineError."""
    try:
        line = _line(text)
    except MALFORMED as exc:
        msg = f"the line is no envelope, a JSON object with key and value (file.envelope): {reason(exc)}"
        raise LineError(msg) from None
    key = _content("key", line.key, line.key_base64)
    value = _content("value", line.value, line.value_base64)
    headers: Headers = [(k, None if v is None else v.encode()) for k, v in line.headers.items()]
    return Envelope(key, value, headers, line.timestamp, line.topic)


def _content(name: str, raw: msgspec.Raw, coded: str | msgspec.UnsetType | None) -> bytes | None:
    """Return a key's or value's bytes: None for null, a text's own bytes, other JSON as text. Raise LineError."""
    text = bytes(raw)
    if coded is not msgspec.UNSET:
        if text:
            raise LineError(f"the line has both {name} and {name}-base64: give one of them")
        return None if coded is None else _decoded(name, coded)
    if text in {b"", b"null"}:
        return None
    if text[:1] != b'"':
        return text
    try:
        return msgspec.json.decode(text, type=str).encode()
    except MALFORMED as exc:
        raise LineError(f"{name} is no text in UTF-8 ({reason(exc)}): give its bytes as {name}-base64") from None


def _decoded(name: str, coded: str) -> bytes:
    try:
        return base64.b64decode(coded, validate=True)
    except ValueError as exc:
        raise LineError(f"{name}-base64 is no Base64: {exc}") from None


class BrokenLine(bytes):
    """The stand-in for a record's value where the line is malformed.

    Native code leaves it to the reference, as it does all that is not of the class `bytes` itself.
    """

    why: str

    @classmethod
    def of(cls, line: bytes, error: LineError) -> BrokenLine:
        """Return the stand-in for a malformed line, with the error's text."""
        broken = cls(line)
        broken.why = str(error)
        return broken


class EnvelopeDecoder:
    """Decoder that rejects malformed lines, and passes all others to the format's decoder."""

    def __init__(self, decoder: Decoder) -> None:
        """`decoder` is the format's."""
        self._decoder = decoder

    def decode(self, keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> list[Decoded]:
        """Return one result for each record, in order: a reject for a broken line."""
        broken = {at: value.why for at, value in enumerate(values) if isinstance(value, BrokenLine)}
        if not broken:
            return self._decoder.decode(keys, values)
        decoded = self._decoder.decode(keys, [None if at in broken else value for at, value in enumerate(values)])
        if type(decoded) is list and len(decoded) == len(values):  # else the caller says so
            for at, why in broken.items():
                decoded[at] = Reject("malformed", why)
        return decoded


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
        raise Unavailable(f"cannot read {name}: {reason_of(exc)}") from exc


@dataclass(slots=True)
class FileRecord:
    """A line of a file as a `Record`."""

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
        """Return (1, the line's timestamp in milliseconds), or (0, -1) for a line without one."""
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
                raise Unavailable(f"cannot read {split[0]}: {reason_of(exc)}") from exc
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

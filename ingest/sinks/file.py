"""Lines of files: one file for each table and run, below a directory. For trying pipelines, and for tests.

Each line is a value as Kafka would get it, or an envelope with the key and the value. Rules: docs/spec/sinks.md#file.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import os
import re
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

import msgspec
from pydantic import Field, model_validator

from ingest.component.options import OptionErrors, Synonym
from ingest.encode.change_encoder import ChangeEncoder, RowChange
from ingest.encode.upsert_encoder import Record
from ingest.errors import AccessError, ConfigError, Unavailable, is_denied
from ingest.formats import WrittenFormatName, capabilities_of, is_of_rows, value_of
from ingest.model.jsontext import object_of
from ingest.model.reject import RowError
from ingest.model.table import TableId, show
from ingest.model.text import reason_of
from ingest.model.values import has_times
from ingest.paths import SharedPlace
from ingest.sinks.sink import PlainWriter, SinkCapabilities, SinkOptions
from ingest.sinks.typed import TypedSinkCoordinator, TypedSinkOptions, WrittenPart

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from io import FileIO

    from ingest.formats.template import Image
    from ingest.model.record import Split
    from ingest.model.schema import TableSchema
    from ingest.schema.evolve import SourceTable
    from ingest.schema.infer import Inference
    from ingest.sinks.typed import TypedWriters

_BLOCK: Final = 1 << 16
"""Bytes that are read at once to find the end of a file's last line."""
_ON_ONE_LINE: Final = bytes.maketrans(b"\r\n", b"  ")
"""Line breaks in JSON stand between values, never in a text."""
_MAX_NAME: Final = 150
_PLAIN: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")


class FileSink(TypedSinkOptions, SinkOptions):
    """Options of `sink:` with `type: file`."""

    formats: ClassVar[str | None] = "value.format"
    codes: ClassVar[Mapping[str, str]] = {"no-line": "a value that cannot stand on one line of a file"}
    synonyms: ClassVar[Mapping[str, Synonym]] = {"format": Synonym("value.format")}

    type: Literal["file"]
    """`file`."""

    path: str = Field(min_length=1)
    """A directory; it is made where it is not there. Each table has a file of its own for each run in it."""

    value_format: WrittenFormatName = Field("debezium-json", alias="value.format")
    """`debezium-json`, `canal-json`, `maxwell-json`, `ogg-json`: each line tells what happened to a row. `json`, `csv`,
    `raw` (the one column of a table): the row after an insert or update; a delete is an empty line, or with
    `file.envelope` a null value under its key. A value of CSV or raw that has several lines is a reject, except with
    `file.envelope`. `debezium-avro-confluent`, `avro`, `avro-confluent`, `protobuf`, `protobuf-confluent`,
    `json-confluent` need `file.envelope`."""

    envelope: bool = Field(False, alias="file.envelope")
    """Each line is `{"key":…,"value":…}`: the primary key's columns beside the value. A value that is no text is in
    Base64, as `value-base64`."""

    @model_validator(mode="after")
    def _check_envelope(self) -> FileSink:
        if capabilities_of(self.value_format).table_schemas and not self.envelope:
            text = f"value.format: {self.value_format} needs file.envelope: true, where values are value-base64"
            raise OptionErrors(("value.format", f"{text}: its bytes may hold the end of a line"))
        return self

    @property
    def capabilities(self) -> SinkCapabilities:
        """Lines have keys in envelopes only."""
        return SinkCapabilities(
            needs_key=False,
            writes_keys=self.envelope,
            changelog=not is_of_rows(self.value_format),
            numbers=self.numbers,
        )

    def encoder(
        self, table: TableId, source: SourceTable, target: TableId, sink: TableSchema, inference: Inference
    ) -> ChangeEncoder:
        """Return how rows of a table are written."""
        name = _file_name(target)
        _, typed = self.typed(target, sink)
        writer = typed or value_of(self.value_format, target, sink, options=self.format)
        content = _Content.BYTES if typed else _Content.JSON
        if not (typed or capabilities_of(self.value_format).json):
            content = _Content.TEXT

        moves = self.envelope and is_of_rows(self.value_format)

        def render(change: RowChange) -> Iterator[Record]:
            value = writer(change.kind, change.before, change.after)
            if moves and change.old_key.keys() == change.key.keys() and change.old_key != change.key:
                yield Record(name, b"", _envelope(change.old_key, None, content))
            if self.envelope:
                value = _envelope(change.key, value, content)
            elif content is _Content.TEXT and value is not None and (b"\n" in value or b"\r" in value):
                raise RowError("no-line", "the value has several lines, and a line is a record: set file.envelope")
            yield Record(name, b"", value or b"")

        coarse = has_times if typed else None
        rounding = self.rounding(
            None, WrittenPart(self.format, {column.name: column for column in sink.columns}, typed)
        )
        encoder = ChangeEncoder(table, source, sink, render, inference, coarse=coarse).with_rounding(rounding)
        return encoder.with_splits(capabilities_of(self.value_format).splits_keys)

    def topic_of(self, table: TableId) -> str:
        """Return what stands for a table in subjects: the name of its files."""
        return _file_name(table)

    def place_of(self, table: TableId) -> str:
        """Return the files of a sink table, but for the numbers of runs."""
        return str(Path(self.path) / _file_name(table))

    def typed(self, table: TableId, schema: TableSchema) -> TypedWriters:
        """Return what makes values, where their format has schemas; keys are JSON. Raise RowError."""
        return None, self.typed_value(table, {column.name: column for column in schema.columns})

    def shared_places(self) -> list[SharedPlace]:
        """Return the directory of the files."""
        return [SharedPlace("sink.path", self.path, "folder")]

    def example(self) -> str:
        """Return a file that it may write."""
        return str(Path(self.path) / "table.1.jsonl")

    def coordinator(self, _pipeline: str, warn: Callable[[str], None]) -> FileSinkCoordinator:
        """Return the coordinator that the driver asks about the sink."""
        return FileSinkCoordinator(self, warn)

    def writer(self, _pipeline: str, run: int) -> FileWriter:
        """Return the writer that a task writes to the sink with."""
        return FileWriter(Path(self.path), run)


class _Content(Enum):
    """Content of a format's values."""

    JSON = 1
    TEXT = 2
    BYTES = 3


def _envelope(key: Image, value: bytes | None, content: _Content) -> bytes:
    """Return the line of a key and a value."""
    return b'{"key":%b,%b}' % (object_of(key) if key else b"null", _member(value, content))


def _member(value: bytes | None, content: _Content) -> bytes:
    """Return the member of an envelope that holds a value."""
    if value is None:
        return b'"value":null'
    if content is _Content.JSON:
        return b'"value":' + value
    if content is _Content.TEXT:
        with suppress(UnicodeDecodeError):
            return b'"value":' + msgspec.json.encode(value.decode())
    return b'"value-base64":"%b"' % base64.b64encode(value)


def _file_name(table: TableId) -> str:
    """Return a name that stays below the directory, whatever the table is called: names come from messages."""
    text = show(table)
    if _PLAIN.fullmatch(text) and len(text) <= _MAX_NAME:
        return text
    safe = re.sub(r"[^A-Za-z0-9_.-]", "_", text).lstrip(".")[:_MAX_NAME]
    return f"{safe}-{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"


class FileSinkCoordinator(TypedSinkCoordinator[FileSink]):
    """The driver's side."""

    def __init__(self, options: FileSink, warn: Callable[[str], None]) -> None:
        super().__init__(options, warn)
        self.places = self
        self._path = Path(options.path)

    def connect(self) -> str:
        """Check that files can be written there; raises ConfigError."""
        try:
            folder = next((path for path in (self._path, *self._path.absolute().parents) if path.exists()), Path("/"))
        except OSError as exc:
            raise self._refuse(reason_of(exc)) from exc
        if not folder.is_dir():
            raise self._refuse(f"{folder} is no directory")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise self._refuse(f"{folder} may not be written to")
        return str(self._path)

    def prepare(self, _tables: Iterable[TableId], *, dry_run: bool) -> None:
        """Create the directory; raises ConfigError."""
        if dry_run:
            return  # `connect` has seen whether that can be done
        try:
            self._path.mkdir(parents=True, exist_ok=True)
        except OSError as exc:
            raise self._refuse(reason_of(exc)) from exc

    def filled(self, tables: Iterable[TableId]) -> set[str]:
        """Return the files that have lines."""
        names = [_file_name(table) for table in tables]
        files = [file for name in names for file in self._path.glob(f"{name}.*.jsonl") if file.stat().st_size]
        return {f"file {file}" for file in files}

    def _refuse(self, why: str) -> ConfigError:
        msg = f"cannot write to the directory {self._path} (sink.path): {why}"
        return ConfigError(msg, "choose a directory that can be written to")

    def fingerprint(self, _identity: str) -> dict[str, Any]:
        """Return what a checkpoint of this sink depends on."""
        return {"type": "file"}

    def close(self) -> None:
        """Do nothing: tasks have the files open."""


class FileWriter(PlainWriter):
    """The writer of a task. It appends whole lines; a commit forces them to the disk."""

    def __init__(self, folder: Path, run: int) -> None:
        """Open nothing yet."""
        self._folder = folder
        self._run = run
        self._lines: dict[str, list[bytes]] = {}

    def write(self, records: Sequence[Record]) -> None:
        """Keep the lines until the commit."""
        for name, _, value in records:
            self._lines.setdefault(str(name), []).append(bytes(value or b"").translate(_ON_ONE_LINE))

    def commit(self, _positions: Mapping[Split, int], _metadata: bytes, *, final: bool) -> None:
        """Add the lines to their files; raises AccessError, Unavailable."""
        for name, lines in self._lines.items():
            path = self._folder / f"{name}.{self._run}.jsonl"
            try:
                with path.open("a+b", buffering=0) as file:
                    fcntl.flock(file, fcntl.LOCK_EX)  # other tasks write to the same file
                    _append(file, b"\n".join(lines) + b"\n")
            except OSError as exc:
                msg = f"cannot write {path}: {reason_of(exc)}"
                if is_denied(exc) or isinstance(exc, (FileNotFoundError, NotADirectoryError, IsADirectoryError)):
                    raise AccessError(msg, "let this user write to the directory, or choose another sink.path") from exc
                raise Unavailable(msg, "see whether there is room, and whether the disk answers") from exc
        self._lines = {}

    def abort(self) -> None:
        """Forget what was not committed."""
        self._lines = {}


def _append(file: FileIO, data: bytes) -> None:
    """Add lines to a file: all of them, or none. Raises OSError.

    A part of a line at the file's end is of a task that was killed. Its lines come again, and must not be added to it.
    """
    end = _end_of_lines(file)
    file.truncate(end)
    try:
        while data:
            data = data[file.write(data) :]
        os.fsync(file.fileno())
    except OSError:
        file.truncate(end)
        raise


def _end_of_lines(file: FileIO) -> int:
    """Return where the last whole line of a file ends."""
    end = file.seek(0, os.SEEK_END)
    while end > 0:
        start = max(0, end - _BLOCK)
        file.seek(start)
        at = file.read(end - start).rfind(b"\n")
        if at >= 0:
            return start + at + 1
        end = start
    return 0

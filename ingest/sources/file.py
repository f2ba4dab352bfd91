"""Lines of files: the options of `source:` with `type: file`, and both its sides. For trying pipelines, and tests.

A split is a file, a position the number of a line, from 0; the file's name without its ending stands for the topic. A
line without its end belongs to nobody yet, unless the run drains what is there. Rules: docs/spec/sources.md#files.
"""

from __future__ import annotations

import fnmatch
import glob
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, NamedTuple

from pydantic import Field, field_validator, model_validator

from ingest.component.options import Labelled, OptionErrors
from ingest.errors import ConfigError, DataLoss, Unavailable
from ingest.formats import Decoder, capabilities_of
from ingest.formats.csv.options import Csv
from ingest.model.record import Split
from ingest.model.text import reason_of
from ingest.paths import SharedPlace
from ingest.sources import SourceCoordinator
from ingest.sources.lines import EnvelopeDecoder, FileReader, first_line, stem_of
from ingest.sources.records import RecordOptions, SourceCapabilities

_BLOCK: Final = 1 << 20
_MAX_FILES: Final = 10_000


class FileSource(Labelled, RecordOptions):
    """Options of `source:` with `type: file`."""

    capabilities: ClassVar[SourceCapabilities] = SourceCapabilities(no_start_time="lines of files have no time")

    type: Literal["file"]
    """`file`."""

    path: str = Field(min_length=1)
    """Files to read, one record a line; a pattern with `*`, `?`, `[…]` and `**`, relative to where the command runs.
    Files that appear while the pipeline runs are read, too, and lines that are added. Lines of one file keep their
    order; files are read side by side, as partitions of a topic are."""

    envelope: bool = Field(False, alias="file.envelope")
    """Each line is `{"key":…,"value":…,"headers":{…},"timestamp":…,"topic":…}` and not a value alone. Keys and values
    are JSON, or texts that hold the very bytes; `key-base64` and `value-base64` in their place hold any bytes. All but
    the value may be absent. `key.format`, and values in Avro and Protocol Buffers, need it."""

    @field_validator("path")
    @classmethod
    def _check_path(cls, value: str) -> str:
        if "\x00" in value:
            raise ValueError("not a path")
        return value

    @model_validator(mode="after")
    def _check_envelope(self) -> FileSource:
        """Refuse what lines of values alone cannot hold."""
        if self.envelope:
            return self
        problems = []
        if capabilities_of(self.value_format).table_schemas:
            text = f"value.format: {self.value_format} needs file.envelope: true, where values are value-base64"
            problems.append(("value.format", f"{text}: its bytes may hold the end of a line"))
        if self.key_format is not None:
            text = "key.format needs file.envelope: true: lines that are values alone have no keys"
            problems.append(("key.format", text))
        if problems:
            raise OptionErrors(*problems)
        return self

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

    def shared_places(self) -> list[SharedPlace]:
        """Return the files that are read."""
        return [SharedPlace("source.path", self.path, "pattern")]

    def coordinator(self, _pipeline: str, _warn: Callable[[str], None]) -> FileSourceCoordinator:
        """Return the coordinator that the driver asks about the source."""
        return FileSourceCoordinator(self)

    def reader(self, _pipeline: str) -> FileReader:
        """Return the reader that a task reads the source with."""
        return FileReader(envelope=self.envelope, header=self.has_header)

    @property
    def reads_lines(self) -> bool:
        """True if lines are values alone, of which the first may have the names of columns."""
        return not self.envelope

    @property
    def has_header(self) -> bool:
        """True if the first line of each file has the names of columns."""
        return isinstance(self.format, Csv) and self.format.header

    def decoder(self, split: Split, topic: str) -> Decoder:
        """Return a decoder for the lines of a file that are of one topic. Raise ConfigError, Unavailable."""
        if self.envelope:
            return EnvelopeDecoder(super().decoder(split, topic))
        if not self.has_header:
            return super().decoder(split, topic)
        name = split[0] if Path(split[0]).is_file() else self._file_of(topic)
        decoder: Decoder = self.format.decoder_under(first_line(name), name, topic, keyed=self.extra.key)
        return decoder

    def _file_of(self, topic: str) -> str:
        """Return the file whose lines became dead letters. Raise ConfigError."""
        names = [name for name in glob.iglob(self.path, recursive=True) if stem_of(name) == topic]  # noqa: PTH207  (the whole pattern is the user's)
        if len(names) != 1:
            msg = (
                f"{len(names)} files of source.path {self.path!r} stand for {topic!r}: whose first line has its names?"
            )
            raise ConfigError(msg, "put the one file back, or name the columns in scan.value.initial-schemas.ddls")
        return names[0]


class _Topic(NamedTuple):
    id: str
    partitions: int


class FilesProbe:
    """Probe for the ends of files, with line counts of its own, as another thread calls it."""

    def __init__(self, options: FileSource) -> None:
        self._options = options
        self._coordinator: FileSourceCoordinator | None = None

    def ask(self, positions: Mapping[Split, int]) -> dict[Split, int]:
        """Return the current number of lines of each file. Raise Unavailable for one that cannot be read."""
        self._coordinator = self._coordinator or FileSourceCoordinator(self._options)
        return self._coordinator.ends(positions)

    def close(self) -> None:
        """Release nothing: files are opened for each call."""


class FileSourceCoordinator(SourceCoordinator):
    """The coordinator of the file source: finds files, and counts their lines."""

    def __init__(self, options: FileSource) -> None:
        self.options = options
        self.probe = FilesProbe(options)
        self.ids: dict[str, str] = {}
        self._counted: dict[str, tuple[int, int]] = {}
        """By file: bytes that were looked at, and line ends in them."""

    def connect(self) -> str:
        """Return the option `path` as the source's identity."""
        return self.options.path

    def fingerprint(self, _identity: str) -> dict[str, Any]:
        """Return the options that a checkpoint of this source is bound to."""
        return {"type": "file", "value.format": self.options.value_format}

    def _files(self) -> list[str]:
        names = sorted(name for name in glob.iglob(self.options.path, recursive=True) if Path(name).is_file())  # noqa: PTH207  (the whole pattern is the user's)
        if len(names) > _MAX_FILES:
            msg = f"source.path {self.options.path!r} matches {len(names)} files, more than {_MAX_FILES}"
            raise ConfigError(msg, "split the pipeline, or write the lines into fewer files")
        return names

    def start(
        self, stored: Mapping[Split, int], ids: Mapping[str, str], owner: str, from_time: int | None
    ) -> dict[Split, int]:
        """Return the first line to read of each file."""
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
        """Return the number of lines of a file, including a last line without a line end."""
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
            raise Unavailable(f"cannot read {name}: {reason_of(exc)}") from exc
        return lines + open_end

    def ends(self, positions: Mapping[Split, int]) -> dict[Split, int]:
        """Return the current number of lines of each file."""
        return {split: self._lines(split[0]) if Path(split[0]).is_file() else at for split, at in positions.items()}

    def extent(self, ends: Mapping[Split, int]) -> dict[Split, tuple[int, int]]:
        """Return the whole range of each file."""
        return {split: (0, end) for split, end in ends.items()}

    def reads(self, topic: str) -> bool:
        """Tell whether the source reads a file."""
        return topic in self.ids

    def finished(self, positions: Mapping[Split, int]) -> bool:
        """Return False: lines may be added to files at any time."""
        return False

    def discover(self, positions: Mapping[Split, int]) -> dict[Split, int]:
        """Return the start positions of files that have appeared since the last call."""
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
        """Return the existing files among these names."""
        return {name: _Topic("file", 1) for name in names if Path(name).is_file()}

    def close(self) -> None:
        """Release nothing: files are opened for each call."""

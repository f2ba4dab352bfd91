"""Schemas of Protocol Buffers: descriptor sets, as protoc writes them or as it makes them of texts.

Each set has a pool of its own: two schemas may define one name differently. Texts are read by protoc of the package
grpcio-tools, in a process of its own with limits of memory and time: nobody knows who wrote a schema.
Rules: docs/spec/protobuf.md#schemas.
"""

from __future__ import annotations

import base64
import binascii
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from google.protobuf import (
    any_pb2,
    api_pb2,
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    source_context_pb2,
    struct_pb2,
    timestamp_pb2,
    type_pb2,
    wrappers_pb2,
)
from google.protobuf.message import DecodeError

from ingest.errors import Unavailable
from ingest.model.text import one_line, reason_of
from ingest.packages import require

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from google.protobuf.descriptor import Descriptor, FileDescriptor

_MAX_NAMED: Final = 10

AnyMessage: TypeAlias = Any
"""Message of any class: its fields are attributes."""


class SchemaError(ValueError):
    """Error about a schema of Protocol Buffers that cannot be used. Its text says why."""


class DescriptorSet:
    """The files of one descriptor set."""

    def __init__(self, content: bytes) -> None:
        """Read the set. Raise SchemaError where it is none, or where a file of it cannot be used."""
        try:
            files = descriptor_pb2.FileDescriptorSet.FromString(content).file
        except DecodeError as exc:
            msg = "it is no descriptor set; make it by protoc --descriptor_set_out=FILE --include_imports"
            raise SchemaError(msg) from exc
        if not files:
            raise SchemaError("the descriptor set has no files")
        pool = descriptor_pool.DescriptorPool()
        self._files: list[FileDescriptor] = []
        for file in files:
            missing = [name for name in file.dependency if all(name != one.name for one in self._files)]
            if missing:
                msg = f"{_shown(file.name)} imports {_shown(missing[0])}, which is not in front of it in the set; "
                raise SchemaError(msg + "make the set by protoc --include_imports")
            try:
                pool.AddSerializedFile(file.SerializeToString())
                self._files.append(pool.FindFileByName(file.name))
            except (TypeError, KeyError, ValueError) as exc:
                raise SchemaError(f"{_shown(file.name)} cannot be used: {one_line(str(exc))[:200]}") from exc

    def message(self, name: str) -> Descriptor:
        """Return the message of this full name. Raise SchemaError where there is none."""
        found: list[str] = []
        for file in reversed(self._files):
            for one in _messages(file.message_types_by_name.values()):
                if one.full_name == name:
                    return one
                found.append(one.full_name)
        known = ", ".join(_shown(one) for one in found[:_MAX_NAMED]) + (", …" if len(found) > _MAX_NAMED else "")
        raise SchemaError(f"there is no message {_shown(name)} (there are: {known or 'none'})")

    def at(self, indexes: Sequence[int]) -> Descriptor | None:
        """Return the message at a place of the last file: the number of a message, then of one inside of it, and so on.

        Return None where there is none.
        """
        inside = list(self._files[-1].message_types_by_name.values())
        found: Descriptor | None = None
        for index in indexes:
            if not 0 <= index < len(inside):
                return None
            found = inside[index]
            inside = list(found.nested_types)
        return found


def _messages(found: Iterable[Descriptor]) -> Iterator[Descriptor]:
    """Yield messages and those inside of them."""
    for one in found:
        if not one.GetOptions().map_entry:
            yield one
            yield from _messages(one.nested_types)


def _shown(name: str) -> str:
    return one_line(name)[:100]


_MAX_TEXT: Final = 8 << 20
"""Characters of a schema and of those that it imports, at most."""
_MAX_NAME: Final = 200
_MEMORY: Final = 1 << 30
_SECONDS: Final = 20
_MAIN: Final = "schema-of-the-message.proto"
_LOGS: Final = ("WARNING: All log messages", "W0", "I0")
"""Beginnings of protoc's lines that are no errors."""
_PROTOC: Final = f"""
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, ({_MEMORY}, {_MEMORY}))
resource.setrlimit(resource.RLIMIT_CPU, ({_SECONDS}, {_SECONDS}))
from grpc_tools import protoc
sys.exit(protoc.main(sys.argv))
"""
_OF_GOOGLE: Final = (
    any_pb2, source_context_pb2, type_pb2, api_pb2, descriptor_pb2, duration_pb2, empty_pb2, field_mask_pb2, struct_pb2,
    timestamp_pb2, wrappers_pb2,
)  # fmt: skip
"""Modules of the files that every schema may import, in an order in which each is after those that it imports."""
_OPTIONS: Final = ("File", "Message", "Field", "Enum", "EnumValue")
KNOWN: Final = {
    "confluent/meta.proto": 'syntax = "proto3"; package confluent; import "google/protobuf/descriptor.proto"; '
    "message Meta { string doc = 1; map<string, string> params = 2; repeated string tags = 3; } "
    + " ".join(
        f"extend google.protobuf.{name}Options {{ Meta {field}_meta = 1088; }}"
        for name, field in zip(_OPTIONS, ("file", "message", "field", "enum", "enum_value"), strict=True)
    ),
    "confluent/type/decimal.proto": 'syntax = "proto3"; package confluent.type; '
    "message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }",
    "google/type/date.proto": 'syntax = "proto3"; package google.type; '
    "message Date { int32 year = 1; int32 month = 2; int32 day = 3; }",
    "google/type/timeofday.proto": 'syntax = "proto3"; package google.type; '
    "message TimeOfDay { int32 hours = 1; int32 minutes = 2; int32 seconds = 3; int32 nanos = 4; }",
}
"""Files that Kafka Connect's converter imports and does not register, by their names."""


def compile_schema(text: str, references: Mapping[str, str]) -> bytes:
    """Return the descriptor set of a schema. `references` are the texts of the files that it imports, by their names.

    Some clients register descriptors in base64 instead of texts; these are taken as they are. Raise SchemaError,
    ConfigError where grpcio-tools is not installed, and Unavailable.
    """
    if len(text) + sum(map(len, references.values())) > _MAX_TEXT:
        raise SchemaError(f"it has more than {_MAX_TEXT >> 20} MiB, with what it imports")
    main = _descriptor(text)
    if main is None:
        return _compile_text(text, references)
    files = []
    for name, other in references.items():
        found = _descriptor(other)
        if found is None:
            raise SchemaError(f"it is a descriptor, and {one_line(name)[:100]}, which it imports, is a text")
        found.name = name
        files.append(found)
    files.append(main)
    first = [_file_of(module) for module in _OF_GOOGLE]
    if any(name in KNOWN for file in files for name in file.dependency):
        made = _compile_text("".join(f'import "{name}";' for name in KNOWN), {})
        first += [one for one in descriptor_pb2.FileDescriptorSet.FromString(made).file if one.name in KNOWN]
    own = {file.name for file in files}
    files = [*(file for file in first if file.name not in own), *files]
    return descriptor_pb2.FileDescriptorSet(file=files).SerializeToString()


def _descriptor(text: str) -> AnyMessage:
    """Return the descriptor of a file that a text holds in base64; None where it is no such text."""
    try:
        found = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError, DecodeError):
        return None
    return found if found.name or found.message_type else None


def _file_of(module: AnyMessage) -> AnyMessage:
    return descriptor_pb2.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)


def _compile_text(text: str, references: Mapping[str, str]) -> bytes:
    require("protobuf")
    found = find_spec("grpc_tools")
    assert found is not None
    assert found.submodule_search_locations is not None
    with TemporaryDirectory(prefix="ingest-proto-") as folder:
        for name, other in {**KNOWN, **references, _MAIN: text}.items():
            path = Path(folder, _checked(name))
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(other, encoding="utf-8")
            except (UnicodeEncodeError, FileExistsError, IsADirectoryError, NotADirectoryError) as exc:
                raise SchemaError(f"{one_line(name)[:100]} is no text of a file: {one_line(str(exc))[:100]}") from exc
            except OSError as exc:
                msg = f"cannot write to the directory for temporary files {folder}: {reason_of(exc)}"
                raise Unavailable(msg, "see whether its disk has room") from exc
        return _run_protoc(folder, str(Path(found.submodule_search_locations[0], "_proto")))


def _checked(name: str) -> str:
    """Return the name of an imported file. Raise SchemaError for one that is not below the directory of the files."""
    parts = PurePosixPath(name).parts
    if not parts or len(name) > _MAX_NAME or name.startswith("/") or ".." in parts or "\\" in name or "\x00" in name:
        raise SchemaError(f"{one_line(name)[:100]!r} cannot be the name of an imported file")
    return name


def _run_protoc(folder: str, of_google: str) -> bytes:
    result = Path(folder, "descriptors.set")
    options = [f"-I{folder}", f"-I{of_google}", f"--descriptor_set_out={result}", "--include_imports"]
    try:
        done = subprocess.run(
            [sys.executable, "-c", _PROTOC, *options, str(Path(folder, _MAIN))],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as exc:
        raise SchemaError(f"protoc did not read it within {_SECONDS} seconds") from exc
    except OSError as exc:
        msg = f"protoc cannot be started: {reason_of(exc)}"
        raise Unavailable(msg, "see whether this machine has memory and processes left") from exc
    if done.returncode:
        said = done.stderr.decode("utf-8", "backslashreplace").replace(f"{folder}/", "").replace(_MAIN, "line")
        lines = [line for line in said.splitlines() if not line.startswith(_LOGS)]
        raise SchemaError(one_line("; ".join(lines) or f"protoc ended with {done.returncode}")[:300])
    return result.read_bytes()

"""Tests of pipelines: a YAML file with a pipeline, the messages it gets, and what shall become of them.

In: a file. Out: a `Scenario`, or a ScenarioError that says where it is not as it has to be. The format is described in
docs/testing.md; `tests/spec` has some dozens of them.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from ingest.errors import ConfigError
from ingest.spec.load import Loaded, load, load_text

if TYPE_CHECKING:
    from pathlib import Path

_KEYS: Final = frozenset({
    "title", "pipeline", "set", "messages", "records", "lines", "rejects", "letters", "skipped", "withheld", "changes",
    "schema", "warnings", "error", "look-ahead",
})  # fmt: skip
_MESSAGE: Final = frozenset({
    "topic", "partition", "key", "value", "headers", "timestamp", "key-base64", "value-base64", "repeat",
})  # fmt: skip
_MAX_BYTES: Final = 10 << 20
_TOPIC: Final = "topic"


@dataclass(frozen=True, slots=True)
class Message:
    """One message that the pipeline gets."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    timestamp: int | None


@dataclass(frozen=True, slots=True)
class Scenario:
    """One test."""

    file: Path
    title: str
    loaded: Loaded
    messages: list[Message]
    expected: dict[str, Any] = field(default_factory=dict)
    """What the file says, by its keys; only what is there is compared, `records` and `rejects` in any case."""
    look_ahead: int = 1


class ScenarioError(ConfigError):
    """A test that is not as it has to be."""


class NoTest(ScenarioError):
    """A file that is no test at all."""


def read(file: Path) -> Scenario:
    """Read a test; raises ScenarioError."""
    try:
        with file.open("rb") as opened:
            text = opened.read(_MAX_BYTES)
        found = YAML(typ="safe", pure=True).load(text.decode())
    except (OSError, UnicodeDecodeError, YAMLError) as exc:
        raise ScenarioError(f"{file}: cannot be read: {str(exc).splitlines()[0]}") from exc
    if not isinstance(found, dict) or not isinstance(found.get("messages"), list):
        raise NoTest(f"{file}: a test is a map with at least `messages`, a list")
    unknown = sorted(str(key) for key in found.keys() - _KEYS)
    if unknown:
        raise ScenarioError(f"{file}: unknown key {unknown[0]!r} (known: {', '.join(sorted(_KEYS))})")
    messages = [m for i, item in enumerate(found["messages"]) for m in _messages(file, i, item)]
    variables = {str(k): str(v) for k, v in (found.get("set") or {}).items()}
    expected = {key: value for key, value in found.items() if key not in {"pipeline", "set", "messages", "title"}}
    look_ahead = int(expected.pop("look-ahead", 1))
    return Scenario(
        file, str(found.get("title", file.stem)), _pipeline(file, found.get("pipeline"), messages, variables),
        messages, expected, look_ahead,
    )  # fmt: skip


def _pipeline(file: Path, given: Any, messages: list[Message], variables: dict[str, str]) -> Loaded:  # noqa: ANN401
    """The pipeline of another file, or of this one, with what is not said filled in."""
    if isinstance(given, str):
        return load(file.parent / given, variables)
    if given is not None and not isinstance(given, dict):
        raise ScenarioError(f"{file}: pipeline: must be a map, or the path of a pipeline file")
    sections = dict(given or {})
    topics = ";".join(dict.fromkeys(m.topic for m in messages)) or _TOPIC
    source = {"type": "kafka", **(sections.get("source") or {})}
    if source["type"] in {"kafka", "upsert-kafka"}:
        source.setdefault("properties.bootstrap.servers", "memory:1")
        source.setdefault("scan.max.pre.fetch.records", 0)
        source.setdefault("ingestion.ignore-errors", True)
        if "topic-pattern" not in source:
            source.setdefault("topic", topics)
    sink = {"type": "upsert-kafka", **(sections.get("sink") or {})}
    if sink["type"] in {"kafka", "upsert-kafka"}:
        sink.setdefault("properties.bootstrap.servers", "memory:1")
    sections.update(source=source, sink=sink)
    # JSON is YAML
    return load_text(
        f"{file} (pipeline)", json.dumps(sections, default=str, indent=1), file.stem, variables, file.resolve().parent
    )


def _messages(file: Path, index: int, item: Any) -> list[Message]:  # noqa: ANN401
    where = f"{file}: message {index}"
    if not isinstance(item, dict) or item.keys() - _MESSAGE:
        raise ScenarioError(f"{where}: a message is a map with some of {', '.join(sorted(_MESSAGE))}")
    headers = item.get("headers") or {}
    pairs = headers.items() if isinstance(headers, dict) else [tuple(pair) for pair in headers]
    message = Message(
        str(item.get("topic", _TOPIC)),
        int(item.get("partition", 0)),
        _content(where, item, "key"),
        _content(where, item, "value"),
        [(str(name), None if value is None else str(value).encode()) for name, value in pairs],
        item.get("timestamp"),
    )
    return [message] * int(item.get("repeat", 1))


def _content(where: str, item: dict[str, Any], name: str) -> bytes | None:
    """A text is its own bytes, `…-base64` any bytes; other YAML becomes JSON."""
    coded = item.get(f"{name}-base64")
    if coded is not None:
        try:
            return base64.b64decode(str(coded), validate=True)
        except binascii.Error as exc:
            raise ScenarioError(f"{where}: {name}-base64 is not base64") from exc
    value = item.get(name)
    if value is None or isinstance(value, str):
        return None if value is None else value.encode()
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()

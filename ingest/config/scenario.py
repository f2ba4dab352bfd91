"""Tests of pipelines: a YAML file with a pipeline, its input messages, and the expected results.

In: a file. Out: a `Scenario`, or a ScenarioError that says what is wrong, and where. Runs nothing. docs/testing.md
describes the format; the files in `tests/scenarios` are examples.
"""

from __future__ import annotations

import base64
import json
import os
import re
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.nodes import MappingNode

from ingest.config.diagnostics import did_you_mean
from ingest.config.document import explain_yaml
from ingest.config.loader import Loaded, load, load_text
from ingest.errors import ConfigError
from ingest.model.text import reason_of

_KEYS: Final = frozenset({
    "title", "pipeline", "set", "messages", "records", "lines", "rejects", "letters", "skipped", "withheld", "cut",
    "unread", "rounded", "changes", "schema", "warnings", "error", "look-ahead",
})  # fmt: skip
_MESSAGE: Final = frozenset(
    {"topic", "partition", "key", "value", "headers", "timestamp", "key-base64", "value-base64", "repeat"}
)
_PIPELINE: Final = ("source", "sink", "route", "transform")
_LISTS: Final = ("records", "lines", "rejects", "letters", "changes", "warnings")
_MAPS: Final = ("set", "skipped", "withheld", "cut", "unread", "rounded", "schema")
_MOST: Final[dict[str, int]] = {"partition": (1 << 31) - 1, "repeat": 1_000_000, "timestamp": (1 << 63) - 1}
"""The largest value of each number in a message. The smallest is 0."""
_MAX_BYTES: Final = 10 << 20
_TOPIC: Final = "topic"
_PLAIN: Final = re.compile(r"[0-9]+ [a-z]+/[a-z-]+|[a-z][a-z-]*[a-z]{3}|[a-z_]+(\.[a-z_]+)+")
"""Texts that YAML takes for texts also without quotes."""
_NOT_ASCII: Final = re.compile(r"[^ -~]")


@dataclass(frozen=True, slots=True)
class Message:
    """One input message of the pipeline."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    timestamp: int | None


@dataclass(frozen=True, slots=True)
class Scenario:
    """One test of a pipeline."""

    file: Path
    title: str
    loaded: Loaded
    messages: list[Message]
    expected: dict[str, Any] = field(default_factory=dict)
    """The expected results, by the keys of the file.

    Only keys that the file has are compared; `records`, `rejects` and `lines` are always compared.
    """
    look_ahead: int = 1


class ScenarioError(ConfigError):
    """Error about a test file whose content is wrong."""

    code = "test-file"


class NoTest(ConfigError):
    """Error about a file that is not a test."""

    code = ScenarioError.code


def read(file: Path) -> Scenario:
    """Return the test in a file. Raise ScenarioError where it has a mistake, and NoTest where it is no test."""
    try:
        with file.open("rb") as opened:
            text = opened.read(_MAX_BYTES)
    except OSError as exc:
        raise ScenarioError(f"{file}: cannot be read: {reason_of(exc)}") from exc
    scenario = _checked(file, _parsed(file, text))
    messages = [m for i, item in enumerate(scenario["messages"]) for m in _messages(file, i, item)]
    variables = {str(k): str(v) for k, v in (scenario.get("set") or {}).items()}
    expected = {key: value for key, value in scenario.items() if key not in {"pipeline", "set", "messages", "title"}}
    look_ahead = expected.pop("look-ahead", 1)
    return Scenario(
        file,
        str(scenario.get("title", file.stem)),
        _pipeline(file, scenario.get("pipeline"), messages, variables),
        messages,
        expected,
        look_ahead,
    )


def write(
    file: Path, title: str, pipeline: Path, variables: Mapping[str, str], messages: Sequence[Mapping[str, Any]]
) -> None:
    """Write a test without expectations, into a file that is not there yet; `accept` adds these.

    `messages` are maps as a test has them. Raise ScenarioError where the file is there, or cannot be written.
    """
    place = os.path.relpath(pipeline.resolve(), file.resolve().parent)
    lines = [*_block("title", title), *_block("pipeline", place)]
    lines += _block("set", dict(variables)) if variables else []
    lines += ["messages:\n"]
    for message in messages:
        items = [f"{name}: {_yaml(value)}\n" for name, value in message.items()]
        lines += [f"  {'- ' if not i else '  '}{item}" for i, item in enumerate(items)]
    try:
        with file.open("xb") as opened:
            opened.write("".join(lines).encode())
    except OSError as exc:
        raise ScenarioError(f"{file}: cannot be written: {reason_of(exc)}") from exc


def accept(file: Path, happened: Mapping[str, Any]) -> None:
    """Write these expectations into a test file, in the place of those that it has; the rest of it stays as it is.

    A value of None takes the key out. Raise ScenarioError where the file cannot be changed so.
    """
    text = file.read_bytes().decode()
    node = YAML(typ="safe", pure=True).compose(text)
    if not isinstance(node, MappingNode) or node.flow_style:
        raise ScenarioError(
            f"{file}: expectations are written into a file with one key a line only, and it is in braces"
        )
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    spans = {}
    for key, value in node.value:
        end = value.end_mark.line + (value.end_mark.column > 0)
        while end - 1 > key.start_mark.line and not lines[end - 1].split("#", 1)[0].strip():
            end -= 1  # empty lines and comments belong to what comes behind them
        spans[key.value] = (key.start_mark.line, end)
    for name in sorted(happened, key=lambda one: -spans.get(one, (len(lines), 0))[0]):
        start, end = spans.get(name, (len(lines), len(lines)))
        lines[start:end] = [] if happened[name] is None else _block(name, happened[name])
    try:
        file.write_bytes("".join(lines).encode())
    except OSError as exc:
        raise ScenarioError(f"{file}: cannot be written: {reason_of(exc)}") from exc


def _block(name: str, value: object) -> list[str]:
    """Return the lines of a key of a test, with its value."""
    if isinstance(value, dict) and value:
        return [f"{name}:\n", *(f"  {_yaml(key)}: {_yaml(item)}\n" for key, item in value.items())]
    if isinstance(value, list) and value:
        return [f"{name}:\n", *(f"  - {_yaml(item)}\n" for item in value)]
    return [f"{name}: {_yaml(value)}\n"]


def _yaml(value: object) -> str:
    """Return a value on one line of YAML."""
    if isinstance(value, str) and value.isprintable():
        return value if _PLAIN.fullmatch(value) else "'" + value.replace("'", "''") + "'"
    # JSON is YAML, but for what JSON writes as two halves of a surrogate pair
    return _NOT_ASCII.sub(lambda found: f"\\U{ord(found[0]):08x}", json.dumps(value, ensure_ascii=False))


def _parsed(file: Path, text: bytes) -> object:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return YAML(typ="safe", pure=True).load(text.decode())
    except UnicodeDecodeError as exc:
        raise ScenarioError(f"{file}: cannot be read: it is not UTF-8") from exc
    except MarkedYAMLError as exc:
        lines = text.decode().splitlines()
        mark, why = explain_yaml(exc, lambda number: lines[number - 1] if number <= len(lines) else "")
        place = "" if mark is None else f":{mark.line + 1}:{mark.column + 1}"
        # Manifests of Kubernetes may live beside tests
        several = "single document" in (exc.context or "") and not any(line.startswith("messages:") for line in lines)
        raise (NoTest if several else ScenarioError)(f"{file}{place}: not YAML: {why}") from exc
    except Exception as exc:
        raise ScenarioError(f"{file}: not YAML: {type(exc).__name__}") from exc


def _checked(file: Path, value: object) -> dict[str, Any]:
    """Return the map of a test.

    Raise ScenarioError for a test with a mistake, and NoTest for a file that is meant to be something else.
    """
    scenario: dict[str, Any] = value if isinstance(value, dict) else {}
    keys = {str(key) for key in scenario}
    wrong = sorted(keys - _KEYS)
    if "messages" not in keys:
        # A pipeline has the sections source and sink. A test whose key `messages` is misspelt has other keys of a test
        meant = keys & (_KEYS - {"pipeline"}) or any(get_close_matches(key, _KEYS, 1, 0.75) for key in wrong)
        if not meant or keys & {*_PIPELINE}:
            raise NoTest(f"{file}: a test is a map with at least `messages`, a list")
    if wrong:
        hint = did_you_mean(wrong[0], _KEYS)
        raise ScenarioError(f"{file}: unknown key {wrong[0]!r}{hint} (known: {', '.join(sorted(_KEYS))})")
    kinds: dict[str, tuple[type | tuple[type, ...], str]] = {
        "messages": (list, "a list"),
        "look-ahead": (int, "a number"),
        "error": ((str, int), "a text"),
    }
    kinds |= dict.fromkeys(_LISTS, ((list, str), "a list, or a text with one entry a line"))
    kinds |= dict.fromkeys(_MAPS, (dict, "a map"))
    for key, (kind, what) in kinds.items():
        if key in keys and not isinstance(scenario[key], kind) and not (key == "set" and scenario[key] is None):
            raise ScenarioError(f"{file}: {key} is {what}")
    if "messages" not in keys:
        raise ScenarioError(f"{file}: a test is a map with at least `messages`, a list")
    if scenario.get("look-ahead", 1) < 1:
        raise ScenarioError(f"{file}: look-ahead is 1 or more")
    return scenario


def _pipeline(file: Path, given: object, messages: list[Message], variables: dict[str, str]) -> Loaded:
    """Return the loaded pipeline of a test, from the path or from the map in its file.

    A map gets defaults for a source and a sink in memory. Raise ScenarioError where `given` is neither.
    """
    if isinstance(given, str):
        if "\0" in given:
            raise ScenarioError(f"{file}: pipeline: a path has no NUL character")
        return load(file.parent / given, variables)
    if given is not None and not isinstance(given, dict):
        raise ScenarioError(f"{file}: pipeline: must be a map, or the path of a pipeline file")
    sections = dict(given or {})
    topics = ";".join(dict.fromkeys(m.topic for m in messages)) or _TOPIC
    for key in ("source", "sink"):
        if not isinstance(sections.get(key) or {}, dict):
            raise ScenarioError(f"{file}: pipeline.{key}: must be a map")
    source = {"type": "kafka", **(sections.get("source") or {})}
    if source["type"] in ("kafka", "upsert-kafka"):
        source.setdefault("properties.bootstrap.servers", "memory:1")
        source.setdefault("scan.max.pre.fetch.records", 0)
        source.setdefault("ingestion.ignore-errors", True)
        if "topic-pattern" not in source:
            source.setdefault("topic", topics)
    sink = {"type": "upsert-kafka", **(sections.get("sink") or {})}
    if sink["type"] in ("kafka", "upsert-kafka"):
        sink.setdefault("properties.bootstrap.servers", "memory:1")
    sections.update(source=source, sink=sink)
    try:
        text = json.dumps(sections, default=str, indent=1)  # JSON is YAML
    except (TypeError, ValueError, RecursionError) as exc:
        raise ScenarioError(f"{file}: pipeline: {_unusable(exc)}") from exc
    return load_text(f"{file} (pipeline)", text, file.stem, variables, file.resolve().parent)


def _messages(file: Path, index: int, item: object) -> list[Message]:
    where = f"{file}: message {index}"
    if not isinstance(item, dict) or item.keys() - _MESSAGE:
        raise ScenarioError(f"{where}: a message is a map with some of {', '.join(sorted(_MESSAGE))}")
    for key, most in _MOST.items():
        number = item.get(key, 0)
        if not isinstance(number, int):
            raise ScenarioError(f"{where}: {key} is a number")
        if not 0 <= number <= most:
            raise ScenarioError(f"{where}: {key} is a number from 0 to {most:,}")
    for key in ("key", "value"):
        if key in item and f"{key}-base64" in item:
            raise ScenarioError(f"{where}: give either {key} or {key}-base64")
    headers = item.get("headers") or {}
    pairs = headers.items() if isinstance(headers, dict) else headers
    if not isinstance(pairs, Collection) or any(not isinstance(p, (list, tuple)) or len(p) != 2 for p in pairs):
        raise ScenarioError(f"{where}: headers are a map, or a list of pairs")
    message = Message(
        str(item.get("topic", _TOPIC)),
        item.get("partition", 0),
        _content(where, item, "key"),
        _content(where, item, "value"),
        [(str(name), None if value is None else _bytes(where, "headers", str(value))) for name, value in pairs],
        item.get("timestamp"),
    )
    return [message] * item.get("repeat", 1)


def _content(where: str, item: dict[str, Any], name: str) -> bytes | None:
    """Return the content of a key or value as bytes.

    A text becomes its own bytes, `…-base64` is decoded, other YAML becomes JSON. Raise ScenarioError where that is
    impossible.
    """
    coded = item.get(f"{name}-base64")
    if coded is not None:
        try:
            return base64.b64decode(str(coded), validate=True)
        except ValueError as exc:
            raise ScenarioError(f"{where}: {name}-base64 is not base64") from exc
    value = item.get(name)
    if value is None or isinstance(value, str):
        return None if value is None else _bytes(where, name, value)
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as exc:
        raise ScenarioError(f"{where}: {name}: {_unusable(exc)}") from exc
    return _bytes(where, name, text)


def _bytes(where: str, name: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as exc:
        raise ScenarioError(
            f"{where}: {name}: half of a surrogate pair is no character; give the bytes as Base64"
        ) from exc


def _unusable(error: Exception) -> str:
    """Return why a YAML value could not become JSON, and what the author can do."""
    if isinstance(error, TypeError):  # a date, a list as a key, …
        return "JSON has no dates, and only texts as keys; put what is no text, number or boolean in quotes"
    return "it is within itself, or nested too deep, which JSON cannot say; remove the alias"

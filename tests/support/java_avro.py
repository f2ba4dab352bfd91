"""Avro's own implementation in Java, out of the jars of pyspark: one process for all questions of a test's module.

A question has a `writer`, the text of a schema, and perhaps a `reader`. It has `messages` in Base64, or a `seed` and
the `count` of messages that Java makes and writes. An answer says of each message its `value` by the reader's schema,
or the `error`; of those that Java made, the `bytes`; and whether the schemas fit each other, by Avro's own check. A
schema that Java does not take is `refused`.
"""

from __future__ import annotations

import base64
import json
import struct
import subprocess
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark

from ingest.paths import java

if TYPE_CHECKING:
    from collections.abc import Iterator

_JARS = Path(pyspark.__file__).parent / "jars"
_NEEDED = ("avro-1.", "jackson-", "slf4j-api-", "commons-compress-")
_CODE = Path(__file__).with_name("JavaAvro.java")


@dataclass
class Message:
    """A message, and what Java reads of it: a value, or the error."""

    content: bytes
    value: Any
    error: str | None


@dataclass
class Answer:
    """The messages of a question, and whether a value of each kind can be read."""

    messages: list[Message]
    fits: bool


class Refused(Exception):
    """Error about a schema that Java does not take."""


class Number(str):
    """The text of a number in JSON."""

    __slots__ = ()


class JavaAvro:
    """The process."""

    def __init__(self) -> None:
        jars = [str(jar) for jar in _JARS.glob("*.jar") if jar.name.startswith(_NEEDED)]
        command = [java(), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", ":".join(jars), str(_CODE)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def close(self) -> None:
        """End it."""
        self._process.communicate(timeout=30)

    def make(self, writer: Any, seed: int, count: int, reader: Any = None) -> Answer:
        """Return messages that Java makes and writes, and reads by the reader's schema, if there is one."""
        return self._ask(writer, reader, seed=seed, count=count)

    def read(self, writer: Any, *messages: bytes, reader: Any = None) -> Answer:
        """Return what Java reads of messages."""
        return self._ask(writer, reader, messages=[base64.b64encode(message).decode() for message in messages])

    def _ask(self, writer: Any, reader: Any, **more: Any) -> Answer:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        schemas = {"writer": json.dumps(writer), **({} if reader is None else {"reader": json.dumps(reader)})}
        self._process.stdin.write(json.dumps(schemas | more) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "Java has ended"
        answer = json.loads(line)
        if "refused" in answer:
            raise Refused(answer["refused"])
        contents = more.get("messages") or [found["bytes"] for found in answer["messages"]]
        messages = [
            Message(base64.b64decode(content), found.get("value"), found.get("error"))
            for content, found in zip(contents, answer["messages"], strict=True)
        ]
        return Answer(messages, answer["fits"] == "COMPATIBLE")


def running() -> Iterator[JavaAvro]:
    """Yield the process, and end it then."""
    with closing(JavaAvro()) as process:
        yield process


def same(ours: bytes, theirs: Any) -> bool:
    """Return whether JSON text of ours is a value as Java says it: floats to the bit, decimals to the digit."""
    return _same(json.loads(ours, parse_float=Number, parse_int=Number), theirs)


def _same(ours: Any, theirs: Any) -> bool:
    if isinstance(theirs, dict):
        if "$decimal" in theirs:
            return isinstance(ours, Number) and str(ours) == theirs["$decimal"]
        for key, form, integer in (("$float", "<f", "<i"), ("$double", "<d", "<q")):
            if key in theirs:
                return isinstance(ours, Number) and struct.pack(form, float(ours)) == struct.pack(integer, theirs[key])
        return isinstance(ours, dict) and ours.keys() == theirs.keys() and all(_same(ours[k], theirs[k]) for k in ours)
    if isinstance(theirs, list):
        return isinstance(ours, list) and len(ours) == len(theirs) and all(map(_same, ours, theirs))
    if isinstance(theirs, int) and not isinstance(theirs, bool):
        return isinstance(ours, Number) and str(ours) == str(theirs)
    return not isinstance(ours, Number) and type(ours) is type(theirs) and bool(ours == theirs)

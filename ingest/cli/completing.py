"""What shells complete after an option or an argument: values out of the pipeline file, and of the package.

A function here gets what the command line has so far, and returns the words that may stand there; typer keeps those
that begin as what is typed. A shell shows no errors: what cannot be read completes nothing.
"""

from __future__ import annotations

import io
import json
import os
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import Any, Final

import typer

from ingest.cli.installation import schema_text
from ingest.kafka.catalogue import CLIENT

_BREAKS: Final = re.compile(r"[=:]+")
"""What bash takes for words of their own (COMP_WORDBREAKS)."""
_FILLED: Final = re.compile(r"([\w.-]+)['\"]?\s*:\s*['\"]?\$\{([A-Za-z0-9_][A-Za-z0-9_.-]*)\}")
"""An option whose value is a placeholder."""
_PLACEHOLDER: Final = re.compile(r"(?<!\$)\$\{([A-Za-z0-9_][A-Za-z0-9_.-]*)(?::-[^${}]*)?\}")
_SECRETS: Final = "secret_values."
MASTERS: Final = ("local[*]", "local[1]", "spark://", "yarn", "k8s://")
TARGETS: Final = ("earliest", "latest", "offset:", "timestamp:")
"""Beginnings of what `checkpoint reset --to` takes."""


def set_values(incomplete: str) -> list[str]:
    """Return `NAME=` for each placeholder of the pipeline file; after the sign, values of the option that it fills."""
    with suppress(OSError, UnicodeDecodeError):
        text = named_place().read_text(encoding="utf-8")
        name, equals, _ = incomplete.partition("=")
        if not equals:
            names = dict.fromkeys(_PLACEHOLDER.findall(text))
            return [f"{name}=" for name in names if not name.startswith(_SECRETS)]
        options = [option for option, placeholder in _FILLED.findall(text) if placeholder == name]
        return [f"{name}={value}" for option in options for value in values_of(option)]
    return []


def values_of(option: str) -> list[str]:
    """Return the values of an option that has a few, by the JSON Schema of pipeline files, or of Kafka's client."""
    if option.startswith("properties."):
        return _property_values(option.removeprefix("properties."))
    return list(dict.fromkeys(_enumerated(json.loads(schema_text()), option)))


def _enumerated(schema: Any, option: str) -> Iterator[str]:
    """Yield the values that an option may have anywhere in a JSON Schema."""
    if isinstance(schema, list):
        for item in schema:
            yield from _enumerated(item, option)
    elif isinstance(schema, dict):
        for name, part in schema.items():
            if name == "properties" and option in part:
                yield from _words(part[option])
            yield from _enumerated(part, option)


def _words(schema: dict[str, Any]) -> Iterator[str]:
    yield from (str(word) for word in (*schema.get("enum", ()), *filter(None, [schema.get("const")])))
    if schema.get("type") == "boolean":
        yield from ("true", "false")
    for choice in schema.get("anyOf", ()):
        yield from _words(choice)


def client_properties(incomplete: str) -> list[str]:
    """Return `KEY=` for each property of Kafka's client; after the sign, its values where it has a few."""
    name, equals, _ = incomplete.partition("=")
    return [f"{name}={value}" for value in _property_values(name)] if equals else [f"{key}=" for key in CLIENT]


def _property_values(name: str) -> list[str]:
    option = CLIENT.get(name)
    return option.values.split("|") if option is not None and "|" in option.values else []


def typed_words() -> list[str]:
    """Return the words of the command line. The parser has none where the word of an option is still missing."""
    text = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")
    try:
        return shlex.split(text)
    except ValueError:  # a quote that is not closed yet
        return text.split()


def named_place() -> Path:
    """Return the pipeline file that the command line names, or the folder."""
    return next(
        (Path(word) for word in typed_words()[2:] if not word.startswith("-") and Path(word).exists()), Path("-")
    )


@contextmanager
def completing() -> Iterator[None]:
    """Let bash complete words with `=` and `:`, which it takes apart, and of which it wants the rest only."""
    if os.environ.get("_INGEST_COMPLETE") != "complete_bash":
        yield
        return
    line = os.environ["COMP_WORDS"]
    words, number = joined(line.split("\n" if "\n" in line else " "), int(os.environ["COMP_CWORD"]))
    os.environ["COMP_WORDS"], os.environ["COMP_CWORD"] = "\n".join(words), str(number)
    word = words[number] if number < len(words) else ""
    typed = word[: max(word.rfind("="), word.rfind(":")) + 1]
    written = io.StringIO()
    try:
        with redirect_stdout(written):
            yield
    finally:
        for line in written.getvalue().splitlines():
            typer.echo(line.removeprefix(typed))


def joined(words: list[str], number: int) -> tuple[list[str], int]:
    """Return the words of a command line as they were typed, and the number of the one that the cursor is in."""
    out: list[str] = []
    at, glue = number, False
    for i, word in enumerate(words):
        is_break = _BREAKS.fullmatch(word) is not None
        if out and (glue or is_break):
            out[-1] += word
        else:
            out.append(word)
        glue = is_break
        if i == number:
            at = len(out) - 1
    return out, at if number < len(words) else len(out)

"""Texts of messages about wrong values of a pipeline file, in the words of the file.

In: errors of pydantic and of the validators. Out: for each problem the option, its position, and the message. No
message quotes a value that must not be shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from ingest.component.options import OptionErrors
from ingest.config import misplaced_options
from ingest.config.diagnostics import did_you_mean
from ingest.config.document import Document, Mapping, Scalar, Span, Value
from ingest.config.redaction import PROPERTIES, always_text, hides_value, redact, shown_key
from ingest.kafka.properties import PropertyError
from ingest.model.text import TextError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic_core import ErrorDetails

    from ingest.component.options import Options

_LONGEST: Final = 100
"""Number of characters of a value that a message quotes at most."""
_NOT_SHOWN: Final = "the value"

Problem: TypeAlias = tuple[str, Span, str]
"""The option that is wrong, its position, and the message."""


def quoted(value: Value | None, key: str) -> str:
    """Return a value as messages name it: with its placeholders, and not if it may be a secret."""
    if not isinstance(value, Scalar) or value.value is None:
        return "this" if value is not None and not isinstance(value, Scalar) else "null"
    text = value.text
    if hides_value(key, text):
        return _NOT_SHOWN
    return repr(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…")


def redacted(message: str, value: Value | None, key: str) -> str:
    """Return a validator's message about a value, without the parts of the value that must not be shown."""
    hidden: list[str] = []
    shown = [key, key.removeprefix(PROPERTIES)] if shown_key(key) == key else []
    for scalar in _scalars(value):
        hidden += scalar.filled
        if scalar.written is None and scalar.filled:  # the value itself came from a secret with several values
            continue
        if hides_value(key, scalar.text):
            hidden += [scalar.text, scalar.value or ""]
        else:
            shown.append(scalar.text)
    return redact(message, hidden, shown)


def problems(document: Document, error: ErrorDetails, where: Mapping, known: list[str], section: str) -> list[Problem]:
    """Return the problems that a pydantic error stands for."""
    path = [str(part) for part in error["loc"]]
    key = path[0] if path else ""
    inner = error.get("ctx", {}).get("error")
    if isinstance(inner, (PropertyError, OptionErrors)):
        prefix = PROPERTIES if isinstance(inner, PropertyError) else ""
        # An option whose value is not a text has an error of its own
        other = {name for name, of in where.items.items() if not isinstance(of, Scalar) or of.value is None}
        return [_together(prefix + n, text, where) for n, text in inner.problems if prefix + n not in other]
    value = where.items.get(key)
    if isinstance(value, Mapping) and len(path) > 1:
        value = value.items.get(path[1], value)
    place = where.keys.get(key, where.span)
    if error["type"] == "extra_forbidden":
        kind = where.items.get("type")
        component = kind.value or "" if isinstance(kind, Scalar) else ""
        advice = (
            _nested(key, value, known)
            or _read_only(key, known)
            or misplaced_options.advice(section, component, key)
            or document.suggest(key, known)
        )
        return [(key, place, f"unknown option {shown_key(key)!r} in {section}{advice}")]
    if error["type"] == "missing":
        return [(key, where.span, f"option {key!r} is missing in {section}")]
    span = value.span if value is not None else place
    if isinstance(inner, TextError) and isinstance(value, Scalar):
        span = document.within(value, inner.at, inner.length)
    said = _say(error, value, key) or redacted(str(error["msg"]).removeprefix("Value error, "), value, key)
    return [(key, span, f"{key}: {said}")]


def _together(key: str, text: str, where: Mapping) -> Problem:
    """Return a problem that a validator found among several options."""
    name = key.removeprefix(PROPERTIES)
    head = f"{name}: " if text.startswith(f"{name}: ") and shown_key(key) == key else ""
    text = head + redacted(text.removeprefix(head), where.items.get(key), key)
    if shown_key(key) != key:
        text = redact(text, [key, name])
    return key, where.keys.get(key, where.span), text


def names(cls: type[Options]) -> list[str]:
    """Return the keys of a model's options, with their synonyms."""
    own = [f.alias or n for n, f in cls.model_fields.items() if f.alias not in {"*format", "properties.*"}]
    return [*own, *cls.synonyms]


def _scalars(value: Value | None) -> Iterator[Scalar]:
    """Yield all texts in a value."""
    if isinstance(value, Scalar):
        yield value
    elif value is not None:
        for item in value.items.values() if isinstance(value, Mapping) else value.items:
            yield from _scalars(item)


def _nested(key: str, value: Value | None, known: list[str]) -> str:
    """Return advice for a nested key that must be written with dots; an empty text for any other key."""
    while isinstance(value, Mapping) and value.items and not always_text(key):
        below, value = next(iter(value.items.items()))
        key = f"{key}.{below}"
        if key in known or (key.startswith(PROPERTIES) and not isinstance(value, Mapping)):
            return f": options are not nested here, write {shown_key(key)}: … in one line"
    return ""


def _read_only(key: str, known: list[str]) -> str:
    """Return advice for an option that is one of a format, but not where the format is written; else an empty text."""
    is_one = key.removeprefix("value.").removeprefix("key.") in known
    return ": it is for sources only, as it says how messages are read" if is_one else ""


def _say(error: ErrorDetails, value: Value | None, key: str) -> str | None:
    """Return pydantic's message in the words of the file, or None where a validator wrote the message."""
    kind, ctx, shown = error["type"], error.get("ctx", {}), quoted(value, key)
    if kind == "literal_error":
        expected = str(ctx["expected"])
        options = [word.strip(" '\"") for word in expected.replace(" or ", ",").split(",")]
        word = (value.value if isinstance(value, Scalar) else None) or ""
        if key.endswith(".format") and word.lower() in misplaced_options.FORMATS:
            return f"{shown} is a format that is not there yet (possible: {expected})"
        names = [name for name in misplaced_options.OTHER_NAMES.get(word.lower(), ()) if name in options]
        if key.endswith(".format") and names:
            return f"{shown} is called {' or '.join(names)} here (possible: {expected})"
        secret = shown == _NOT_SHOWN or (isinstance(value, Scalar) and value.filled)
        return f"{shown} is not possible{'' if secret else did_you_mean(word[:100], options)} (possible: {expected})"
    if kind in {"int_parsing", "int_type", "int_from_float", "int_parsing_size"}:
        return f"{shown} is not a whole number"
    if kind in {"bool_parsing", "bool_type"}:
        return f"{shown} is neither true nor false"
    return f"{shown} is not a text" if kind == "string_type" else None

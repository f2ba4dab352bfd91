"""Messages about wrong values of a pipeline file, in the words of the file.

In: errors of pydantic and of the validators. Out: for each problem the option, its position, and the message. No
message quotes a value that may be a secret.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from ingest.component.options import OptionErrors
from ingest.config import elsewhere
from ingest.config.diagnostics import did_you_mean
from ingest.config.document import Document, Mapping, Scalar, Span, Value
from ingest.config.filling import PREFIX
from ingest.config.masking import opaque
from ingest.config.visible import conceal, owners, shown_key
from ingest.kafka.properties import PropertyError
from ingest.model.text import TextError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic_core import ErrorDetails

    from ingest.component.options import Options

SECTIONS: Final = ("source", "sink", "route", "transform", "pipeline")
FUNCTIONS: Final = "user-defined-function"
_LONGEST: Final = 100
"""Number of characters of a value that a message quotes at most."""

Problem: TypeAlias = tuple[str, Span, str]
"""The option that is wrong, its position, and the message."""


class Wording:
    """Writer of the messages about wrong values in one document."""

    def __init__(self, document: Document) -> None:
        """Keep the document, which decides what may be shown."""
        self._document = document

    def given(self, value: Value | None, section: str, key: str) -> str:
        """Return a value as messages name it.

        Texts that placeholders put in are not shown, and neither is a value that may be a secret.
        """
        if not isinstance(value, Scalar) or value.value is None:
            return "this" if value is not None and not isinstance(value, Scalar) else "null"
        text = value.value if value.written is None else value.written
        if not self._document.visible.value(*_place(section, key), text):
            return "the value"
        return repr(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…")

    def discreet(self, message: str, value: Value | None, section: str, key: str) -> str:
        """Return a validator's message about a value, without the parts of the value that must not be shown."""
        hidden: list[str] = []
        shown = [key, key.removeprefix(PREFIX)] if shown_key(key) == key else []
        for scalar in _scalars(value):
            written = scalar.value if scalar.written is None else scalar.written
            hidden += scalar.filled
            if scalar.written is None and scalar.filled:
                continue
            if self._document.visible.value(*_place(section, key), written or ""):
                shown.append(written or "")
            else:
                hidden += [written or "", scalar.value or ""]
        return conceal(message, hidden, shown)

    def problems(self, error: ErrorDetails, where: Mapping, known: list[str], section: str) -> list[Problem]:
        """Return the problems that a pydantic error stands for."""
        path = [str(part) for part in error["loc"]]
        key = path[0] if path else ""
        inner = error.get("ctx", {}).get("error")
        if isinstance(inner, (PropertyError, OptionErrors)):
            prefix = PREFIX if isinstance(inner, PropertyError) else ""
            problems = [(prefix + name, text) for name, text in inner.problems]
            # An option whose value is not a text has an error of its own
            other = {name for name, of in where.items.items() if not isinstance(of, Scalar) or of.value is None}
            return [self._together(name, text, where, section) for name, text in problems if name not in other]
        value = where.items.get(key)
        if isinstance(value, Mapping) and len(path) > 1:
            value = value.items.get(path[1], value)
        place = where.keys.get(key, where.span)
        if error["type"] == "extra_forbidden":
            text = f"unknown option {shown_key(key)!r} in {section}"
            kind = where.items.get("type")
            named = kind.value or "" if isinstance(kind, Scalar) else ""
            advice = (
                _nested(key, value, known) or _read_only(key, known) or elsewhere.advice(section, named, key, owners())
                or self._document.suggest(key, known)
            )  # fmt: skip
            return [(key, place, text + advice)]
        if error["type"] == "missing":
            return [(key, where.span, f"option {key!r} is missing in {section}")]
        span = value.span if value is not None else place
        if isinstance(inner, TextError) and isinstance(value, Scalar):
            span = self._document.within(value, inner.at, inner.length)
        given = self.given(value, section, key)
        said = _say(error, value, given, key, guess=given != "the value" and not getattr(value, "filled", ()))
        if said is None:
            text = str(error["msg"]).removeprefix("Value error, ")
            said = self.discreet(text, value, section, key)
        return [(key, span, f"{key}: {said}")]

    def _together(self, key: str, text: str, where: Mapping, section: str) -> Problem:
        """Return a problem that a validator found among several options."""
        name = key.removeprefix(PREFIX)
        head = f"{name}: " if text.startswith(f"{name}: ") and shown_key(key) == key else ""
        text = head + self.discreet(text.removeprefix(head), where.items.get(key), section, key)
        if shown_key(key) != key:
            text = conceal(text, [key, name])
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


def _place(section: str, key: str) -> tuple[str, str]:
    """Return the section and the option of a part of the file. `section` is what messages call the part."""
    if section == FUNCTIONS:
        return "pipeline", f"{FUNCTIONS}.{key}"
    root = section.partition(".")[0]
    return (root if root in SECTIONS else "source"), key


def _nested(key: str, value: Value | None, known: list[str]) -> str:
    """Return advice for a nested key that must be written with dots; an empty text for any other key."""
    while isinstance(value, Mapping) and value.items and not opaque(key):
        below, value = next(iter(value.items.items()))
        key = f"{key}.{below}"
        if key in known or (key.startswith(PREFIX) and not isinstance(value, Mapping)):
            return f": options are not nested here, write {shown_key(key)}: … in one line"
    return ""


def _read_only(key: str, known: list[str]) -> str:
    """Return advice for an option that is one of a format, but not where the format is written; else an empty text."""
    is_one = key.removeprefix("value.").removeprefix("key.") in known
    return ": it is for sources only, as it says how messages are read" if is_one else ""


def _say(error: ErrorDetails, value: Value | None, given: str, key: str, *, guess: bool) -> str | None:
    """Return pydantic's message in the words of the file, or None where a validator wrote the message.

    The message shows no more of the value than the text `given`.
    """
    kind, ctx = error["type"], error.get("ctx", {})
    if kind == "literal_error":
        expected = str(ctx["expected"])
        options = [word.strip(" '\"") for word in expected.replace(" or ", ",").split(",")]
        word = (value.value if isinstance(value, Scalar) else None) or ""
        if key.endswith(".format") and word.lower() in elsewhere.FORMATS:
            return f"{given} is a format that is not there yet (possible: {expected})"
        names = [name for name in elsewhere.OTHER_NAMES.get(word.lower(), ()) if name in options]
        if key.endswith(".format") and names:
            return f"{given} is called {' or '.join(names)} here (possible: {expected})"
        return f"{given} is not possible{did_you_mean(word[:100], options) if guess else ''} (possible: {expected})"
    if kind in {"int_parsing", "int_type", "int_from_float", "int_parsing_size"}:
        return f"{given} is not a whole number"
    if kind in {"bool_parsing", "bool_type"}:
        return f"{given} is neither true nor false"
    if kind == "string_type":
        return f"{given} is not a text"
    return None

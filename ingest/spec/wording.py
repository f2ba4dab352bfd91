"""What is wrong with the values of a pipeline file, in the words of the file.

In: errors of pydantic's and of the validators. Out: for each problem the option, where it stands, and what to say. None
of them quotes a value that may be a secret.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ingest.formats.options import OptionErrors
from ingest.kafka.properties import PropertyError
from ingest.model.text import TextError
from ingest.spec import elsewhere
from ingest.spec.diagnostics import did_you_mean
from ingest.spec.document import Document, Mapping, Scalar, Span, Value
from ingest.spec.filling import PREFIX
from ingest.spec.visible import conceal, opaque, shown_key, without

if TYPE_CHECKING:
    from pydantic import BaseModel

SECTIONS: Final = ("source", "sink", "route", "transform", "pipeline")
FUNCTIONS: Final = "user-defined-function"
_LONGEST: Final = 100
"""Characters of a value that a message quotes."""

Problem: TypeAlias = tuple[str, Span, str]
"""The option that is wrong, where it stands, and what to say."""


class Wording:
    """Says what is wrong with the values of one document."""

    def __init__(self, document: Document) -> None:
        """Ask the document what may be shown."""
        self._document = document

    def given(self, value: Value | None, section: str, key: str) -> str:
        """A value as messages name it: not with what placeholders put in, and not where it may be a secret."""
        if not isinstance(value, Scalar) or value.value is None:
            return "this" if value is not None and not isinstance(value, Scalar) else "null"
        text = value.value if value.written is None else value.written
        if not self._document.visible.value(*_place(section, key), text):
            return "the value"
        return repr(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…")

    def discreet(self, message: str, value: Value | None, section: str, key: str) -> str:
        """What a validator says of a value, without what must not be shown of that."""
        if not isinstance(value, Scalar) or value.value is None:
            return message
        message = without(message, value.filled)
        written = value.value if value.written is None else value.written
        return message if self._document.visible.value(*_place(section, key), written) else without(message, [written])

    def problems(self, error: Any, where: Mapping, known: list[str], section: str) -> list[Problem]:  # noqa: ANN401  (pydantic's)
        """What an error of pydantic's is about: for each problem the option, where it stands, and what to say."""
        path = [str(part) for part in error["loc"]]
        key = path[0] if path else ""
        inner = error.get("ctx", {}).get("error")
        if isinstance(inner, (PropertyError, OptionErrors)):
            prefix = PREFIX if isinstance(inner, PropertyError) else ""
            problems = [(prefix + name, text) for name, text in inner.problems]
            # What is no text at all has an error of its own
            other = {name for name, of in where.items.items() if not isinstance(of, Scalar) or of.value is None}
            return [self._together(name, text, where, section) for name, text in problems if name not in other]
        value = where.items.get(key)
        if isinstance(value, Mapping) and len(path) > 1:
            value = value.items.get(path[1], value)
        place = where.keys.get(key, where.span)
        if error["type"] == "extra_forbidden":
            text = f"unknown option {shown_key(key)!r} in {section}"
            nested = _nested(key, value, known)
            return [(key, place, text + (nested or self._document.suggest(key, known)))]
        if error["type"] == "missing":
            return [(key, where.span, f"option {key!r} is missing in {section}")]
        span = value.span if value is not None else place
        if isinstance(inner, TextError) and isinstance(value, Scalar):
            span = self._document.within(value, inner.at, inner.length)
        said = _say(error, value, self.given(value, section, key), key)
        return [(key, span, f"{key}: {self.discreet(said, value, section, key)}")]

    def _together(self, key: str, text: str, where: Mapping, section: str) -> Problem:
        """A problem that a validator found among several options."""
        value = where.items.get(key)
        if isinstance(value, Scalar):
            shown = self._document.visible.value(*_place(section, key), value.written or "")
            text = without(text, value.filled) if shown else conceal(text, [value.written or "", *value.filled])
        if shown_key(key) != key:
            text = conceal(text, [key])
        return key, where.keys.get(key, where.span), text


def names(cls: type[BaseModel]) -> list[str]:
    """The keys of a model's options."""
    return [f.alias or n for n, f in cls.model_fields.items() if f.alias not in {"*format", "properties.*"}]


def _place(section: str, key: str) -> tuple[str, str]:
    """A part of the file, by what messages call it, as a section and an option in it."""
    if section == FUNCTIONS:
        return "pipeline", f"{FUNCTIONS}.{key}"
    root = section.partition(".")[0]
    return (root if root in SECTIONS else "source"), key


def _nested(key: str, value: Value | None, known: list[str]) -> str:
    """What to write in the place of keys that are nested where they are to be joined by dots."""
    while isinstance(value, Mapping) and value.items and not opaque(key):
        below, value = next(iter(value.items.items()))
        key = f"{key}.{below}"
        if key in known or (key.startswith(PREFIX) and not isinstance(value, Mapping)):
            return f": options are not nested here, write {shown_key(key)}: … in one line"
    return ""


def _say(error: Any, value: Value | None, given: str, key: str) -> str:  # noqa: ANN401
    """Pydantic's message, in the words of the file."""
    kind, ctx = error["type"], error.get("ctx", {})
    if kind == "literal_error":
        expected = str(ctx["expected"])
        options = [word.strip(" '\"") for word in expected.replace(" or ", ",").split(",")]
        word = (value.value if isinstance(value, Scalar) else None) or ""
        if key.endswith(".format") and word.lower() in elsewhere.FORMATS:
            return f"{given} is a format that is not there yet (possible: {expected})"
        return f"{given} is not possible{did_you_mean(word[:100], options)} (possible: {expected})"
    if kind in {"int_parsing", "int_type", "int_from_float", "int_parsing_size"}:
        return f"{given} is not a whole number"
    if kind in {"bool_parsing", "bool_type"}:
        return f"{given} is neither true nor false"
    if kind == "string_type":
        return f"{given} is not a text"
    return str(error["msg"]).removeprefix("Value error, ")

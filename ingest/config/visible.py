"""Rules for the parts of a pipeline file that may be shown.

In: names and texts. Out: whether they may be shown, and texts in which the other parts are hidden. The rule: structure
is shown; a value is shown only where its option is known and cannot hold a secret. So no value is shown of a misspelt
option, of a value in the wrong place, of a comment, or of a file that is not YAML. docs/secrets.md explains the rule to
users.
"""

from __future__ import annotations

import re
import string
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import ingest
from ingest.config.elsewhere import CONNECTOR
from ingest.config.masking import (
    HARMLESS,
    HIDDEN,
    HOLDERS,
    PLACEHOLDERS,
    PROPERTIES,
    UNTIL_KNOWN,
    escaped,
    hide,
    mask,
    opaque,
    sensitive,
)
from ingest.config.pipeline import PipelineOptions, Route, Transform, UserFunction
from ingest.deadletter.collector import DirtyDataCollector
from ingest.formats import FORMATS
from ingest.kafka.properties import KNOWN
from ingest.sinks import SINKS
from ingest.sources import SOURCES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from ingest.component.options import Options

_COLLECTOR: Final = "dirty-data.collector."
_FUNCTION: Final = "user-defined-function."
_CREDENTIALS: Final = re.compile(
    r"(?<![^\s/@])[^\s/:@]*:[^\s/@]+@"  # user and password in an address; tried once a word: long texts are cheap
    r"|(?:pass\w{0,24}+|pwd|secret|token|api.?key)\s*[=:]\s*\S|LoginModule|PRIVATE KEY",
    re.IGNORECASE,
)
_SECRET_WORD: Final = re.compile(r"pass|pwd|secret|token|key", re.IGNORECASE)
_QUOTATION: Final = re.compile(
    r"(?<!\w)b?(?:'((?:[^'\\]|\\.)*)(?:'|\\?$)|\"((?:[^\"\\]|\\.)*)(?:\"|\\?$))"
    r"|\b(?:Plain|Scram|Krb5|OAuthBearer)LoginModule\b",
    re.DOTALL,
)
"""Quotations in a message, as `repr` writes them, also without their end; and words that need not be hidden."""
_MODULES: Final = frozenset({"PlainLoginModule", "ScramLoginModule", "Krb5LoginModule", "OAuthBearerLoginModule"})
_FRAGMENT: Final = 6
"""Number of successive characters of a value that count as a part of it.

Such a part is hidden in messages about the value.
"""
_MOST_WORDS: Final = 2
"""Words of ours that a part of a text may have without being taken for a secret of several words."""
_WORD: Final = re.compile(r"[A-Za-z]+")
_LETTERS: Final = str.maketrans("", "", string.ascii_letters)
_LITERAL: Final = re.compile(r'"[^"\n]*"')
_KEY: Final = re.compile(r"[\w.*<-]{1,100}")
_STRUCTURE: Final = frozenset(" \t-:[]{},?|>\"'")
_LINE: Final = re.compile(r"([\s-]*)([A-Za-z0-9_.-]+)(\s*:)(?=\s|$)")


def conceal(text: str, values: Iterable[str], shown: Iterable[str] = ()) -> str:
    """Return a message without its quotations, words or parts of the given values.

    Quotations of the texts in `shown` stay. Quotations of option names stay, too, unless the name is part of a value.
    """
    found = [value for value in values if value.strip()]
    if not found:
        return text
    written = {form for value in found for form in (value, *escaped(value))}
    seen = [form for value in shown for form in (value, *escaped(value))]
    words = {word for value in found for word in re.findall(r"\w{3,}", value)}

    def cleaned(match: re.Match[str]) -> str:
        return HIDDEN if match[0] in words and match[0] not in vocabulary() else match[0]

    def clean(plain: str) -> str:
        plain = mask(plain, found, is_ours)
        plain = re.sub(r"\w{3,}", cleaned, plain)
        return _without_fragments(plain, written)

    def quoted(match: re.Match[str]) -> str:
        inner = (match[1] or match[2] or "").removesuffix("…")
        known = any(inner in form for form in seen) or match[0] in _MODULES
        if not known and inner in _names():
            known = not any(inner in form for form in written)
        return match[0] if known else f"'{HIDDEN}'"

    out, at = [], 0
    for match in _QUOTATION.finditer(text):
        out += [clean(text[at : match.start()]), quoted(match)]
        at = match.end()
    return "".join([*out, clean(text[at:])])


def _without_fragments(text: str, values: Collection[str]) -> str:
    marks = [True] * len(text)
    for i in range(len(text) - _FRAGMENT + 1):
        piece = text[i : i + _FRAGMENT]
        if "*" not in piece and any(piece in value for value in values) and not is_ours(text, i, i + _FRAGMENT):
            marks[i : i + _FRAGMENT] = [False] * _FRAGMENT
    return covered(text, marks, ())[0]


def shown_key(key: str) -> str:
    """Return the key as messages show it. Return asterisks where the key may contain a value."""
    return key if _is_key(key) else HIDDEN


def _is_key(key: str) -> bool:
    """Tell whether a text looks like a key.

    The name of a secret option with more text after it does not: the rest may be the secret.
    """
    name = key.removeprefix(_COLLECTOR).removeprefix(PROPERTIES)
    return _KEY.fullmatch(key) is not None and (name in KNOWN or not name.startswith(HOLDERS))


class Visible:
    """The parts of one file that may be shown. It knows the options of the components that the file uses."""

    def __init__(self) -> None:
        """Know no options of other packages yet. Those of this package are loaded when they are needed."""
        self._more: set[str] = set()

    def allow(self, options: Iterable[str]) -> None:
        """Add the options of a component, which may be of another package, to the known ones."""
        self._more.update(options)

    def value(self, section: str, option: str, text: str) -> bool:
        """Tell whether the value of a section's option may be shown. `text` is the value as the file has it."""
        if PLACEHOLDERS.fullmatch(text.strip()):
            return True
        name = option.removeprefix(_COLLECTOR)
        default = text[text.find("${") : text.rfind(":-")] if "${" in text and ":-" in text else ""
        if sensitive(option) or _CREDENTIALS.search(text) or _SECRET_WORD.search(default):
            return False
        if name.startswith(PROPERTIES):
            return name.removeprefix(PROPERTIES) in HARMLESS
        return name in _known().get(section, ()) or name in self._more

    def key(self, section: str, parent: str, key: str) -> bool:
        """Tell whether a key may be shown.

        It may not below an option that has a secret, nor where it looks like a value.
        """
        return _is_key(key) and not (section and opaque(parent))

    def option(self, section: str, key: str) -> bool:
        """Tell whether a section has an option with this key."""
        name = key.removeprefix(_COLLECTOR).removeprefix(PROPERTIES)
        return key in _known().get(section, ()) or key in self._more or name in KNOWN


@cache
def _known() -> dict[str, frozenset[str]]:
    """Return the names of each section's options that have a text as value, and the name of `type` in Flink.

    It is a function and not a constant, so that components are loaded only when a file has a mistake.
    """

    def names(*classes: type[Options]) -> set[str]:
        found = {f.alias for cls in classes for f in cls.model_fields.values() if f.alias is not None}
        found.update(name for cls in classes for name in cls.synonyms)
        return found - {"*format", "properties.*", "variables", "dirty-data.collector", "user-defined-function"}

    formats = {prefix + name for name in names(*FORMATS.values()) for prefix in ("", "key.", "value.")}
    functions = {_FUNCTION + name for name in names(UserFunction)}
    return {
        "source": frozenset(names(*SOURCES.values()) | formats | {CONNECTOR}),
        "sink": frozenset(names(*SINKS.values()) | formats | {CONNECTOR}),
        "route": frozenset(names(Route)),
        "transform": frozenset(names(Transform)),
        "pipeline": frozenset(names(PipelineOptions, DirtyDataCollector) | functions),
    }


@cache
def owners() -> dict[str, dict[str, frozenset[str]]]:
    """Return the names of the options of each section, by the type of its component; of others below an empty one."""

    def of(cls: type[Options]) -> frozenset[str]:
        found = {field.alias for field in cls.model_fields.values() if field.alias is not None}
        return frozenset({*found, *cls.synonyms} - {"name", "type"})

    return {
        "source": {name: of(SOURCES[name]) for name in SOURCES.names() if name in SOURCES},
        "sink": {name: of(SINKS[name]) for name in SINKS.names() if name in SINKS},
        "route": {"": of(Route)},
        "transform": {"": of(Transform)},
        "pipeline": {"": of(PipelineOptions)},
    }


@cache
def _names() -> frozenset[str]:
    """Return the names of all options. Messages may propose them."""
    return frozenset({*KNOWN, *(PROPERTIES + name for name in KNOWN)}.union(*_known().values()))


@cache
def words() -> frozenset[str]:
    """Return all names that messages list: options, sections and components.

    Masking does not replace them, because asterisks in a list of known names would tell which name is a password.
    """
    return _names().union(_known(), FORMATS, SINKS, SOURCES)


@cache
def vocabulary() -> frozenset[str]:
    """Return the words of our own messages: those of option names, and of all texts in the code of this package.

    Where a secret is such a word, or a part of one, asterisks in its place would tell that.
    """
    found = {word for name in words() for word in _WORD.findall(name)}
    for path in Path(ingest.__file__).parent.rglob("*.py"):
        for literal in _LITERAL.findall(path.read_text(encoding="utf-8")):
            found.update(_WORD.findall(literal))
    return frozenset(found)


def is_ours(text: str, start: int, end: int) -> bool:
    """Return whether a part of a text belongs to a word of our own messages, or to two of them."""
    first, last = start, end
    while first and text[first].isalpha() and text[first - 1].isalpha():
        first -= 1
    while last < len(text) and text[last - 1].isalpha() and text[last].isalpha():
        last += 1
    found = _WORD.findall(text[first:last])
    others = text[first:last].translate(_LETTERS).strip(" .,;:'-_")
    return 0 < len(found) <= _MOST_WORDS and not others.strip() and vocabulary().issuperset(found)


def line_of(line: str, shown: list[tuple[int, int]], hidden: list[tuple[int, int]]) -> list[bool]:
    """Return for each character of a line whether it may be shown.

    `shown` and `hidden` are the places of texts. A character in both lists (an alias) is hidden. Between texts only the
    marks of YAML's structure are shown.
    """
    marks: list[bool | None] = [None] * len(line)
    for value, places in ((True, shown), (False, hidden)):
        for start, end in places:
            for i in range(max(0, start), min(end, len(line))):
                marks[i] = value
    comment = False
    for i, c in enumerate(line):
        if marks[i] is None:
            comment = comment or c == "#"
            marks[i] = not comment and c in _STRUCTURE
    return [bool(mark) for mark in marks]


def line_alone(line: str) -> list[bool]:
    """Return for each character of a line whether it may be shown, when the lines around it cannot be read.

    Only the indentation and a known key at the start are shown.
    """
    found = _LINE.match(line)
    end = 0
    if found is not None:
        key = found.group(2)
        name = key.removeprefix(PROPERTIES)
        sections = _known()
        known = key in sections or any(key in names for names in sections.values())
        if known or (name != key and name in HARMLESS | UNTIL_KNOWN):
            end = found.end()
    start = len(line) - len(line.lstrip(" \t-"))
    return [i < max(start, end and end + 1) for i in range(len(line))]


def covered(line: str, visible: list[bool], secrets: Iterable[str]) -> tuple[str, list[int]]:
    """Return the line with asterisks in place of hidden parts, and the new position of each character.

    The last position is that of the line's end. Secrets are hidden wherever they are in the line; `visible` is changed
    for them.
    """
    hide(line, visible, secrets, is_ours)
    out: list[str] = []
    places: list[int] = []
    length = 0
    for i, c in enumerate(line):
        if visible[i]:
            places.append(length)
            out.append(c)
            length += 1
            continue
        if i == 0 or visible[i - 1]:
            out.append(HIDDEN)
            length += len(HIDDEN)
        places.append(length - len(HIDDEN))
    return "".join(out), [*places, length]

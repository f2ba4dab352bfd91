"""The YAML reader of pipeline files.

In: a file's text. Out: a tree of values that know their positions, and diagnostics. Scalars stay text as the file has
it: the models convert them, so no value loses its spelling on the way. Limits of size, depth and number keep the cost
of a hostile file small. Duplicate keys, tags and merge keys are refused. The module `redaction` decides which parts
of the text errors may show.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any, Final, Literal, TypeAlias

from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer, MaxDepthExceededError
from ruamel.yaml.error import MarkedYAMLError, StringMark
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from ingest.config.diagnostics import Diagnostic, did_you_mean
from ingest.config.redaction import (
    HIDDEN,
    SECTIONS,
    forms,
    hides_value,
    is_own_word,
    is_setting,
    listed_words,
    mask,
    redact_line,
    redact_unparsed,
    shown_key,
)

MAX_BYTES: Final = 1 << 20
MAX_DEPTH: Final = 40
MAX_VALUES: Final = 50_000
MAX_FOUND: Final = 200
"""Number of findings that are shown at most; more are only counted."""
_LONGEST_WORD: Final = 100
_YAML: Final = "tag:yaml.org,2002:"
_KNOWN_TAGS: Final = {_YAML + t for t in ("str", "int", "float", "bool", "null", "timestamp", "seq", "map")}
_REFUSED_TAGS: Final = {_YAML + t for t in ("binary", "omap", "pairs", "set")}


@dataclass(frozen=True, slots=True)
class Span:
    """Position of a text: line and column, both from 1, and the length on that line."""

    line: int
    column: int
    length: int


@dataclass(slots=True)
class Scalar:
    """A leaf of the tree: its text, or None for null."""

    value: str | None
    span: Span
    unresolved: bool = False
    """True if the text holds a placeholder that nothing filled in. The final value is not known then."""
    written: str | None = None
    """The text as the file has it, where placeholders were filled in; else None."""
    filled: tuple[str, ...] = ()
    """The texts that placeholders put in. Messages do not show them: they may be secrets."""

    @property
    def text(self) -> str:
        """The text as the file has it, empty for null."""
        return (self.value if self.written is None else self.written) or ""


@dataclass(slots=True)
class Sequence:
    """A list of values."""

    items: list[Value]
    span: Span


@dataclass(slots=True)
class Mapping:
    """A map of values; `keys` has the position of each key."""

    items: dict[str, Value]
    span: Span
    keys: dict[str, Span] = field(default_factory=dict)


Value: TypeAlias = "Scalar | Sequence | Mapping"


class Document:
    """A parsed file, and the problems that were found in it so far."""

    def __init__(self, file: str, text: str) -> None:
        """Parse the text. Problems go to `diagnostics`; `root` stays None when nothing could be read."""
        self.file = file
        self.diagnostics: list[Diagnostic] = []
        self.root: Value | None = None
        self._lines = text.removeprefix("\ufeff").splitlines(keepends=True)
        self._values = 0
        self._left_out = 0
        self._suggested = 0
        self._node: Node | None = None
        if len(text.encode(errors="replace")) > MAX_BYTES:
            self.report(Span(1, 1, 1), f"the file is larger than {MAX_BYTES} bytes")
        elif not self._refused_directive():
            self._parse("".join(self._lines))

    # -- what is wrong -----------------------------------------------------------------------------------------------

    def report(
        self,
        span: Span,
        message: str,
        *,
        severity: Literal["error", "warning", "note"] = "error",
        of_machine: bool = False,
    ) -> None:
        """Add a diagnostic. Errors over the limit MAX_FOUND are only counted."""
        if len(self.diagnostics) >= MAX_FOUND:
            self._left_out += severity == "error"
            return
        length = max(1, span.length)
        found = Diagnostic(self.file, span.line, span.column, length, severity, message, of_machine=of_machine)
        self.diagnostics.append(found)

    def suggest(self, word: str, known: Iterable[str]) -> str:
        """Return `, did you mean 'topic'?`, or an empty text.

        The text is also empty after MAX_FOUND suggestions: in a file with so many errors the search would take too
        long.
        """
        self._suggested += 1
        return "" if self._suggested > MAX_FOUND or len(word) > _LONGEST_WORD else did_you_mean(word, known)

    def findings(self, secrets: Iterable[str] = ()) -> list[Diagnostic]:
        """Return all diagnostics with their source lines, sorted by position.

        None of them shows a secret or a possible secret.
        """
        errors = sorted(set(self.diagnostics))
        if self._left_out:
            text = f"and {self._left_out} more errors"
            errors.append(Diagnostic(self.file, len(self._lines) or 1, 1, 1, "error", text))
        if not errors:
            return []
        places = None if self._node is None else self._places(self._node)
        secrets = {*secrets, *(() if places is None else places.values)}
        there = "\0".join({*(d.message for d in errors), *(self._line(d.line) for d in errors)})
        seen = [form for form in forms(frozenset(secrets)) if form in there]
        return [self._with_line(diagnostic, places, seen) for diagnostic in errors]

    def within(self, value: Scalar, at: int, length: int) -> Span:
        """Return the position of a part of a text.

        The result is the position of the whole text where the file spells the text differently, with escapes for
        example.
        """
        span = value.span
        line = self._line(span.line)
        begin = span.column - 1
        text = value.value or ""
        for quoted in (0, 1):
            if line[begin + quoted : begin + quoted + len(text)] == text:
                return Span(span.line, begin + quoted + at + 1, length)
        return span

    def _line(self, number: int) -> str:
        return self._lines[number - 1].rstrip("\r\n\x85\u2028\u2029") if 0 < number <= len(self._lines) else ""

    def _with_line(self, found: Diagnostic, places: _Places | None, secrets: Iterable[str]) -> Diagnostic:
        line = self._line(found.line)
        if places is None:
            source, where = redact_unparsed(line, "".join(self._lines))
        else:
            shown, hidden = places.shown.get(found.line, []), places.hidden.get(found.line, [])
            source, where = redact_line(line, shown, hidden, secrets)
        start = min(found.column - 1, len(line))
        end = min(start + found.length, len(line))
        inside = 0 < end < len(line) and where[end] == where[end - 1]  # the mark ends inside of a hidden part
        last = where[-1] if inside else where[end]
        caret = (where[start], max(where[start] + 1, last))
        # Asterisks in place of a known name would tell that this name is a password: messages list these names
        message = mask(found.message, [secret for secret in secrets if secret not in listed_words()], is_own_word)
        return replace(found, message=message, source=source, caret=caret)

    def _places(self, root: Node) -> _Places:
        """Return the places of all keys and values of the file, by line: those that may be shown, and the others."""
        text = "".join(self._lines)
        starts = list(accumulate((len(line) for line in self._lines), initial=0))
        places = _Places({}, {}, set())
        for node, option, is_key in _leaves(root, None):
            start, end = node.start_mark, node.end_mark
            if is_key:
                shown = shown_key(str(node.value), option) != HIDDEN
            else:
                written = text[start.index : end.index]
                anchored = written.startswith(("&", "!")) and "&" in written  # the name of an anchor is no value
                hidden = hides_value(option, written)
                shown = not anchored and not hidden
                if hidden and not is_setting(node.value):
                    places.values.add(node.value)
            into = places.shown if shown else places.hidden
            for number in range(start.line, min(end.line + 1, len(self._lines))):
                into.setdefault(number + 1, []).append((start.index - starts[number], end.index - starts[number]))
        return places

    # -- reading -----------------------------------------------------------------------------------------------------

    def _refused_directive(self) -> bool:
        for number, line in enumerate(self._lines, 1):
            if line.startswith("%"):
                if line.split("#")[0].split() in (["%YAML", "1.1"], ["%YAML", "1.2"]):
                    continue
                why = "a line that begins with '%' in front of a document is a directive of YAML's: remove it"
                self.report(Span(number, 1, 1), f"not YAML as it is read here: {why}")
                return True
            if line.strip() and not line.lstrip().startswith("#"):
                break
        return False

    def _parse(self, text: str) -> None:
        yaml = YAML(typ="safe", pure=True)
        yaml.version = (1, 2)
        yaml.max_depth = MAX_DEPTH + 2
        yaml.Composer = _Composer
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the warning about an anchor that is given twice would show its line
                node: Node | None = yaml.compose(text)
            self.root = None if node is None else self._value(node, 0, None)
            self._node = node
        except _TooMuchError as exc:
            self.report(exc.span, str(exc))
            self.root = None
        except MaxDepthExceededError as exc:
            self.report(_at(exc.problem_mark), f"nested deeper than {MAX_DEPTH} levels")
        except MarkedYAMLError as exc:
            mark, why = explain_yaml(exc, self._line)
            self.report(_at(mark), f"not YAML: {why}")
        except ReaderError as exc:
            before = text[: int(exc.position)].splitlines(keepends=True) or [""]
            ends = before[-1].endswith(("\n", "\r"))
            span = Span(len(before) + ends, 1 if ends else len(before[-1]) + 1, 1)
            self.report(span, f"not YAML: the control character U+{ord(text[exc.position]):04X} is not allowed")
        except Exception as exc:  # noqa: BLE001  (a foreign parser may raise anything for a broken file)
            self.report(_at(yaml.reader.get_mark()), f"not YAML: nothing that can be read ({type(exc).__name__})")

    def _value(self, node: Node, depth: int, option: str | None) -> Value:
        self._values += 1
        span = _span(node)
        if depth > MAX_DEPTH:
            raise _TooMuchError(span, f"nested deeper than {MAX_DEPTH} levels")
        if self._values > MAX_VALUES:
            raise _TooMuchError(span, f"more than {MAX_VALUES} values, aliases counted as often as they are used")
        tag = str(node.tag)
        if tag not in _KNOWN_TAGS and not tag.endswith((":value", ":merge")):
            shown = f"the tag '!!{tag.removeprefix(_YAML)}'" if tag in _REFUSED_TAGS else "a tag"
            self.report(span, f"{shown} is not allowed here; put a text that begins with '!' in quotes")
        if isinstance(node, ScalarNode):
            is_null = tag.endswith(":null") and node.style is None
            text = str(node.value)
            if not text.isascii() and any("\ud800" <= c <= "\udfff" for c in text):
                self.report(span, "half of a surrogate pair is no character")
                text = text.encode(errors="replace").decode()
            return Scalar(None if is_null else text, span)
        if isinstance(node, SequenceNode):
            return Sequence([self._value(item, depth + 1, option) for item in node.value], span)
        assert isinstance(node, MappingNode)
        mapping = Mapping({}, span)
        for key_node, value_node in node.value:
            where = _span(key_node)
            key = str(key_node.value) if isinstance(key_node, ScalarNode) else ""
            value = self._value(value_node, depth + 1, _below(option, key))
            if not isinstance(key_node, ScalarNode):
                self.report(where, "a key must be a plain text")
            elif str(key_node.tag).endswith(":merge"):
                self.report(where, "merge keys (<<) are not allowed: write the options out")
            elif key in mapping.items:
                first = mapping.keys[key].line
                self.report(where, f"duplicate key {shown_key(key, option or '')!r}, first given in line {first}")
            else:
                mapping.items[key] = value
                mapping.keys[key] = where
        return mapping


@dataclass(frozen=True, slots=True)
class _Places:
    """Places of texts in each line, as pairs of character positions: the texts that may be shown, and the others."""

    shown: dict[int, list[tuple[int, int]]]
    hidden: dict[int, list[tuple[int, int]]]
    values: set[str]
    """Values that are not shown where they stand, and nowhere else."""


class _TooMuchError(Exception):
    def __init__(self, span: Span, message: str) -> None:
        super().__init__(message)
        self.span = span


class _Composer(Composer):
    """Composer that stops at a limited number of values, before a large file costs much time."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        self.count = getattr(self, "count", 0) + 1
        if self.count > MAX_VALUES:
            raise _TooMuchError(_at(self.parser.peek_event().start_mark), f"more than {MAX_VALUES} values")
        return super().compose_node(parent, index)


def _below(option: str | None, key: str) -> str:
    """Return the option of a key's value. `option` is the one around the key: None for the file, "" for a section."""
    if option is None:
        return "" if key in SECTIONS else key
    return f"{option}.{key}" if option else key


def _leaves(node: Node, option: str | None) -> Iterator[tuple[ScalarNode, str, bool]]:
    """Yield each text of the document with its option, and whether the text is a key."""
    if isinstance(node, ScalarNode):
        yield node, option or "", False
    elif isinstance(node, SequenceNode):
        for item in node.value:
            yield from _leaves(item, option)
    else:
        for key, value in node.value:
            if isinstance(key, ScalarNode):
                yield key, option or "", True
                yield from _leaves(value, _below(option, str(key.value)))


def _at(mark: StringMark | None) -> Span:
    return Span(1, 1, 1) if mark is None else Span(mark.line + 1, mark.column + 1, 1)


def _span(node: Node) -> Span:
    start: StringMark = node.start_mark
    end: StringMark = node.end_mark
    length = end.column - start.column if end.line == start.line else 1
    return Span(start.line + 1, start.column + 1, max(1, length))


# -- errors of YAML -------------------------------------------------------------------------------------------------

_QUOTES: Final = "put the value in quotes"
_AT_BEGIN: Final[tuple[tuple[str, str], ...]] = (
    ("quoted scalar, found unexpected", "a quote is opened here and not closed"),
    ("while parsing a flow", "a '[' or '{' is opened here and not closed, or a ',' between two entries is missing"),
    ("could not find expected ':'", "here a ':' with a blank after it is missing; write key: value"),
    ("alias", f"a value that begins with '*' is an alias in YAML; {_QUOTES}"),
    ("scanning an anchor", f"a value that begins with '&' is an anchor in YAML; {_QUOTES}"),
)
"""Parts of the parser's message, and the advice. The advice is shown where the wrong construct begins."""
_WHERE_SEEN: Final[tuple[tuple[str, str], ...]] = (
    (r"found character '\t'", "a tab: YAML is indented with blanks only; replace the tab by blanks"),
    ("that cannot start any token", f"no value begins with this character; {_QUOTES}"),
    ("tag", f"a value that begins with '!' is a tag in YAML; {_QUOTES}"),
    ("escape", "in double quotes a backslash begins an escape, and this is none; use single quotes, or write \\\\"),
    ("scanning a block scalar", f"after '|' or '>' the text begins in the next line; or {_QUOTES}"),
    ("single document", "a file holds one document only; remove what follows '---'"),
    ("sequence entries are not allowed", f"a list begins on a line of its own; or {_QUOTES}"),
    ("mapping keys are not allowed", f"no '? ' is possible here; {_QUOTES}"),
    ("expected the node content", f"a value is missing here; or {_QUOTES}"),
    ("duplicate key", "this key is there twice in one map"),
    ("directive", "a line that begins with '%' in front of a document is a directive of YAML's: remove it"),
)
"""Patterns in the parser's message, and the advice.

The advice is shown at the place where the parser noticed the error.
"""
_ANY_QUOTED: Final = re.compile(r"'[^']*'|\"[^\"]*\"|<[^>]*>")


def explain_yaml(error: MarkedYAMLError, line_of: Callable[[int], str]) -> tuple[StringMark | None, str]:
    """Return the best position to show an error at, and the advice.

    `line_of` returns a line of the file, counted from 1. The position is None where the parser gave none.
    """
    problem = ", ".join(part for part in (error.context, error.problem) if part).replace("\n", " ")
    seen = error.problem_mark or error.context_mark
    line = "" if seen is None else line_of(seen.line + 1)
    before = "" if seen is None else line[: seen.column]
    if "mapping values are not allowed" in problem:
        if re.search(r":\s", before.strip()):
            return seen, f"a second ': ' in one line; {_QUOTES}"
        return seen, "this key is indented deeper than the line above allows: give it the column of its neighbours"
    if "while parsing a flow" in problem and "${" in line:
        return seen, f"in brackets and braces a text with ${{…}} needs quotes; {_QUOTES}"
    for part, why in _AT_BEGIN:
        if part in problem:
            return error.context_mark or seen, why
    if "expected '<document start>'" in problem:
        return (seen, "this follows the end of the file's map; remove it, or the quotes or brackets that end it")
    if "expected <block end>" in problem:
        if line[len(before) : len(before) + 1] in {"]", "}"}:
            return seen, f"this bracket closes nothing; remove it, or {_QUOTES}"
        if before.rstrip().endswith(("'", '"')):
            return seen, "something follows a closing quote; put all of the value in quotes"
        return seen, "the indentation does not fit: keys of one map, and entries of one list, begin in the same column"
    for part, why in _WHERE_SEEN:
        if part in problem:
            return seen, why
    return seen, _ANY_QUOTED.sub("…", problem)

"""YAML text → a tree of values that know where they stand.

Scalars stay text, as written: the models turn them into what they want, so no value loses its spelling on the way.
Limits keep a hostile file from costing more than a moment. Refuses duplicate keys, tags, and merge keys.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from ingest.spec.diagnostics import Diagnostic

if TYPE_CHECKING:
    from ruamel.yaml.error import StringMark

MAX_BYTES = 1 << 20
MAX_DEPTH = 40
MAX_VALUES = 50_000
_KNOWN_TAGS = {f"tag:yaml.org,2002:{t}" for t in ("str", "int", "float", "bool", "null", "timestamp", "seq", "map")}


@dataclass(frozen=True, slots=True)
class Span:
    """Where something stands: line and column from 1, and its length on that line."""

    line: int
    column: int
    length: int


@dataclass(slots=True)
class Scalar:
    """A leaf: its text, or None for null."""

    value: str | None
    span: Span
    unresolved: bool = False
    """Whether it holds a placeholder that nothing filled in: what it will be is not known."""


@dataclass(slots=True)
class Sequence:
    """A list."""

    items: list[Value]
    span: Span


@dataclass(slots=True)
class Mapping:
    """A map; `keys` says where each key stands."""

    items: dict[str, Value]
    span: Span
    keys: dict[str, Span] = field(default_factory=dict)


Value: TypeAlias = "Scalar | Sequence | Mapping"


class Document:
    """A parsed file with what is wrong with it so far."""

    def __init__(self, file: str, text: str) -> None:
        """Parse; what is wrong goes to `diagnostics`, and `root` is None when nothing could be read."""
        self.file = file
        self.lines = text.splitlines()
        self.diagnostics: list[Diagnostic] = []
        self._values = 0
        self.root: Value | None = None
        if len(text.encode()) > MAX_BYTES:
            self.report(Span(1, 1, 1), f"the file is larger than {MAX_BYTES} bytes")
            return
        try:
            # A deep file must not reach the parser, which recurses
            node = None if self._too_deep(text) else self._compose(text)
            self.root = None if node is None else self._value(node, 0)
        except MarkedYAMLError as exc:
            self._syntax(exc)
        except (YAMLError, ValueError, RecursionError) as exc:
            self.report(Span(1, 1, 1), f"not YAML: {str(exc).splitlines()[0] if str(exc) else type(exc).__name__}")
        except _TooMuchError as exc:
            self.report(exc.span, str(exc))
            self.root = None

    def report(self, span: Span, message: str, *, severity: Literal["error", "warning", "note"] = "error") -> None:
        """Add a diagnostic."""
        source = self.lines[span.line - 1] if 0 < span.line <= len(self.lines) else ""
        self.diagnostics.append(
            Diagnostic(self.file, span.line, span.column, max(1, span.length), severity, message, source)
        )

    def within(self, value: Scalar, at: int, length: int) -> Span:
        """Where a part of a text stands: exactly if the file has the text as it is, else the whole of it."""
        span = value.span
        line = self.lines[span.line - 1] if 0 < span.line <= len(self.lines) else ""
        begin = span.column - 1
        text = value.value or ""
        for quoted in (0, 1):
            if line[begin + quoted : begin + quoted + len(text)] == text:
                return Span(span.line, begin + quoted + at + 1, length)
        return span

    def _too_deep(self, text: str) -> bool:
        depth = 0
        for number, line in enumerate(text.splitlines(), 1):
            indent = len(line) - len(line.lstrip(" -?"))
            depth += sum(line.count(c) for c in "[{") - sum(line.count(c) for c in "]}")
            if indent > MAX_DEPTH * 20 or depth > MAX_DEPTH * 4 or line.count("- - - - - - - - - - ") > MAX_DEPTH:
                self.report(Span(number, 1, 1), f"nested deeper than {MAX_DEPTH} levels")
                return True
        return False

    @staticmethod
    def _compose(text: str) -> Node | None:
        yaml = YAML(typ="safe", pure=True)
        yaml.version = (1, 2)
        node: Node | None = yaml.compose(text)
        return node

    def _syntax(self, exc: MarkedYAMLError) -> None:
        mark = exc.problem_mark or exc.context_mark
        span = Span(1, 1, 1) if mark is None else Span(mark.line + 1, mark.column + 1, 1)
        parts = [part for part in (exc.context, exc.problem) if part]
        self.report(span, f"not YAML: {', '.join(parts)}".replace("\n", " "))

    def _value(self, node: Node, depth: int) -> Value:
        self._values += 1
        span = _span(node)
        if depth > MAX_DEPTH:
            raise _TooMuchError(span, f"nested deeper than {MAX_DEPTH} levels")
        if self._values > MAX_VALUES:
            raise _TooMuchError(span, f"more than {MAX_VALUES} values, aliases counted as often as they are used")
        tag = str(node.tag)
        if tag not in _KNOWN_TAGS:
            self.report(span, f"the tag {tag!r} is not allowed here")
        if isinstance(node, ScalarNode):
            is_null = tag.endswith(":null") and node.style is None
            return Scalar(None if is_null else str(node.value), span)
        if isinstance(node, SequenceNode):
            return Sequence([self._value(item, depth + 1) for item in node.value], span)
        assert isinstance(node, MappingNode)
        mapping = Mapping({}, span)
        for key_node, value_node in node.value:
            where = _span(key_node)
            value = self._value(value_node, depth + 1)
            if not isinstance(key_node, ScalarNode):
                self.report(where, "a key must be a plain text")
                continue
            key = str(key_node.value)
            if str(key_node.tag).endswith(":merge"):
                self.report(where, "merge keys (<<) are not allowed: write the options out")
            elif key in mapping.items:
                self.report(where, f"duplicate key {key!r}, first given in line {mapping.keys[key].line}")
            else:
                mapping.items[key] = value
                mapping.keys[key] = where
        return mapping


class _TooMuchError(Exception):
    def __init__(self, span: Span, message: str) -> None:
        super().__init__(message)
        self.span = span


def _span(node: Node) -> Span:
    start: StringMark = node.start_mark
    end: StringMark = node.end_mark
    length = end.column - start.column if end.line == start.line else 1
    return Span(start.line + 1, start.column + 1, max(1, length))

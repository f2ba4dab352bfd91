"""What is wrong with a pipeline file, as values: where, what, and what was probably meant."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MAX_SHOWN = 160
"""Longest source line that is shown, in characters."""


@dataclass(frozen=True, slots=True, order=True)
class Diagnostic:
    """One finding. Lines and columns count from 1; `length` is how far the caret reaches."""

    file: str
    line: int
    column: int
    length: int
    severity: Literal["error", "warning", "note"]
    """Errors stop everything, notes (a placeholder that nothing fills in) stop a run, warnings stop nothing."""
    message: str
    source: str = ""
    """The line it is about, with asterisks for values that may be secrets."""
    caret: tuple[int, int] = (0, 0)
    """Where the caret begins and ends in `source`, counted from 0."""

    def text(self) -> str:
        """`file:line:column: error: message`, then the line with a caret under it."""
        head = f"{self.file}:{self.line}:{self.column}: {self.severity}: {self.message}"
        start, end = self.caret
        if not self.source.strip() or start >= MAX_SHOWN:
            return head
        shown = self.source[:MAX_SHOWN].replace("\t", " ")
        shown = "".join(c if c.isprintable() else "?" for c in shown)
        room = max(1, min(end, len(shown)) - start)
        margin = f"{self.line:>5} | "
        return f"{head}\n{margin}{shown}\n{' ' * (len(margin) - 2)}| {' ' * start}{'^' * room}"

    def github(self) -> str:
        """As an annotation of a GitHub workflow."""
        kind = "notice" if self.severity == "note" else self.severity
        return f"::{kind} file={_property(self.file)},line={self.line},col={self.column}::{_data(self.message)}"

    def as_json(self) -> dict[str, object]:
        """Plain values."""
        return {key: value for key, value in asdict(self).items() if key != "caret"}


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`, did you mean 'topic'?`, or nothing."""
    close = get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f", did you mean {close[0]!r}?" if close else ""


def render(diagnostics: Sequence[Diagnostic]) -> str:
    """All of them, for people."""
    return "\n".join(d.text() for d in diagnostics)

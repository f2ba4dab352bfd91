"""Findings about a pipeline file, as values: the place, the problem, and a suggestion. Also their forms for output."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from typing import Literal

MAX_SHOWN = 160
"""Number of characters of a source line that are shown at most."""


@dataclass(frozen=True, slots=True, order=True)
class Diagnostic:
    """One finding about a file.

    Lines and columns count from 1; `length` is the number of characters under the caret.
    """

    file: str
    line: int
    column: int
    length: int
    severity: Literal["error", "warning", "note"]
    """Errors stop everything. Notes (a placeholder that nothing fills in) stop a run only. Warnings stop nothing."""
    message: str
    source: str = ""
    """The line of the finding, with asterisks in place of values that may be secrets."""
    caret: tuple[int, int] = (0, 0)
    """Start and end of the marked part in `source`, counted from 0."""
    of_machine: bool = False
    """True for a note about this machine, which lacks a package: it stops runs only here, and no other commands."""

    def text(self) -> str:
        """Return `file:line:column: error: message`, followed by the source line with carets under the marked part."""
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
        """Return the finding as an annotation of a GitHub workflow."""
        kind = "notice" if self.severity == "note" else self.severity
        return f"::{kind} file={_property(self.file)},line={self.line},col={self.column}::{_data(self.message)}"

    def as_json(self) -> dict[str, object]:
        """Return the finding as a map of plain values."""
        return {key: value for key, value in asdict(self).items() if key not in {"caret", "of_machine"}}


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `, did you mean 'topic'?` with the most similar known word, or an empty text if none is similar."""
    close = get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f", did you mean {close[0]!r}?" if close else ""


def render(diagnostics: Sequence[Diagnostic]) -> str:
    """Return all findings as text for people."""
    return "\n".join(d.text() for d in diagnostics)

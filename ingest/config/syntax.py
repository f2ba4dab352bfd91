"""Explanations of YAML syntax errors, with advice for the author.

In: the parser's error and the file's lines. Out: a position and a text. The text quotes only single punctuation marks
of the file, because any other part may be a secret.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from ruamel.yaml.error import MarkedYAMLError, StringMark

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


def explain(error: MarkedYAMLError, line_of: Callable[[int], str]) -> tuple[StringMark | None, str]:
    """Return the best position to show an error at, and the advice.

    `line_of` returns a line of the file, counted from 1. The position is None where the parser gave none.
    """
    said = ", ".join(part for part in (error.context, error.problem) if part).replace("\n", " ")
    seen = error.problem_mark or error.context_mark
    line = "" if seen is None else line_of(seen.line + 1)
    before = "" if seen is None else line[: seen.column]
    if "mapping values are not allowed" in said:
        if re.search(r":\s", before.strip()):
            return seen, f"a second ': ' in one line; {_QUOTES}"
        return seen, "this key is indented deeper than the line above allows: give it the column of its neighbours"
    if "while parsing a flow" in said and "${" in line:
        return seen, f"in brackets and braces a text with ${{…}} needs quotes; {_QUOTES}"
    for part, why in _AT_BEGIN:
        if part in said:
            return error.context_mark or seen, why
    if "expected '<document start>'" in said:
        return (
            seen,
            "this follows the end of the file's map; remove it, or the quotes or brackets that end it",
        )
    if "expected <block end>" in said:
        if line[len(before) : len(before) + 1] in {"]", "}"}:
            return seen, f"this bracket closes nothing; remove it, or {_QUOTES}"
        if before.rstrip().endswith(("'", '"')):
            return seen, "something follows a closing quote; put all of the value in quotes"
        return seen, "the indentation does not fit: keys of one map, and entries of one list, begin in the same column"
    for part, why in _WHERE_SEEN:
        if part in said:
            return seen, why
    return seen, _ANY_QUOTED.sub("…", said)

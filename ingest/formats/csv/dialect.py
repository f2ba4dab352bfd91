"""One dialect of CSV, in both directions: a record's text to its fields, and a value to its field.

In: texts, or values as JSON text. Out: the fields of the one row that a record has, with None for null; or the text of
a field. Rules: docs/spec/csv.md#rows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from re import Match, Pattern
from typing import Final

import msgspec

MAX_FIELDS: Final = 100_000
"""Fields that a row may have: each takes more memory than a message has bytes for it."""
BOM: Final = "\ufeff"
"""The byte order mark, which may stand in front of a row and is no part of it."""
_NULL: Final = b"null"
_NESTED_OR_TEXT: Final = (b'"', b"{", b"[")
_OF_NUMBERS: Final = "+-."
_LINE_ENDS: Final = "\r\n"
_MEANT: Final = {"0": "\0", "n": "\n", "r": "\r", "t": "\t"}
"""The characters that have another meaning behind an escape character, and this meaning."""
_COMMENTS: Final = re.compile(r"(?:[ ]*+[\r\n]++|[ ]*+#[^\r\n]*+)*+")
"""Comments, and blank lines beside them."""


class CsvError(ValueError):
    """Error about a record that is not one row of a dialect, or a text that a dialect cannot say."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """The characters that rows are written with."""

    delimiter: str = ","
    quote: str | None = '"'
    """The character around a field; None: there is none."""
    escape: str | None = None
    """The character that takes the meaning of the next one; None: there is none."""
    null: str = ""
    """The text of a field that is null. Within quotes it is a text."""
    comments: bool = False
    """True if lines that begin with `#` are no rows."""
    _field: Pattern[str] = field(init=False, repr=False, compare=False)
    _pairs: Pattern[str] = field(init=False, repr=False, compare=False)
    _escapes: Pattern[str] = field(init=False, repr=False, compare=False)
    _marks: Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Compile the patterns."""
        delimiter, quote, escape = (re.escape(c or "") for c in (self.delimiter, self.quote, self.escape))
        pair = f"|{escape}." if escape else ""
        plain = rf"((?:[^{delimiter}{escape}\r\n]++{pair})*+)"
        # Blanks behind a closing quote are no part of the field; but a tabulator may be the delimiter
        blanks = rf"(?:(?!{delimiter})[\x00-\x09\x0b\x0c\x0e-\x20])*+"
        quoted = rf"{quote}((?:[^{quote}{escape}]++|{quote}{quote}{pair})*+){quote}{blanks}"
        whole = f"{quoted}|(?!{quote}){plain}" if quote else f"(?!)()|{plain}"
        patterns = {
            "_field": whole,
            "_pairs": f"{quote}{quote}{pair}",
            "_escapes": f"{escape}.",
            "_marks": rf"[{delimiter}{quote}{escape}\r\n]",
        }
        for name, pattern in patterns.items():
            object.__setattr__(self, name, re.compile(pattern, re.DOTALL))

    def has_marks(self, text: str) -> bool:
        """Tell whether a text has a character that has a meaning, so that it cannot stand without quotes."""
        return self._marks.search(text) is not None

    # -- Reading -----------------------------------------------------------------------------------------------------

    def split(self, text: str) -> list[str | None] | None:
        """Return the fields of a record's row; None where the record has comments only. Raise CsvError."""
        at, size = self._pass_comments(text, 0), len(text)
        if at == size and at:
            return None
        fields: list[str | None] = []
        match, delimiter = self._field.match, self.delimiter
        while True:
            found = match(text, at)
            if found is None:
                raise CsvError("a quote is not closed")
            fields.append(self._content(found))
            if len(fields) > MAX_FIELDS:
                raise CsvError(f"a row has more than {MAX_FIELDS:,} fields")
            at = found.end()
            if at == size:
                return fields
            if text[at] != delimiter:
                break
            at += 1
        if text[at] not in _LINE_ENDS:
            last = "an escape character is the last one", "a closing quote is followed by more than a delimiter"
            raise CsvError(last[found.group(1) is not None])
        if self._pass_comments(text, at) < size and text[at:].strip(_LINE_ENDS):
            raise CsvError("it has more than one row")
        return fields

    def _pass_comments(self, text: str, at: int) -> int:
        """Return the place behind comments, if there are any."""
        found = _COMMENTS.match(text, at) if self.comments else None
        return at if found is None else found.end()

    def _content(self, found: Match[str]) -> str | None:
        text: str | None = found.group(1)
        if text is not None:
            if self.escape is not None:
                return self._pairs.sub(_single, text)
            quote = self.quote or ""
            return text.replace(quote + quote, quote)
        text = found.group(2)
        if text == self.null:
            return None
        return self._escapes.sub(_single, text) if self.escape is not None and self.escape in text else text

    # -- Writing -----------------------------------------------------------------------------------------------------

    @property
    def is_usual(self) -> bool:
        """True if fields are written as a template does (`csv_field`)."""
        return (self.quote, self.escape, self.null) == ('"', None, "") and self.delimiter not in _OF_NUMBERS

    def write(self, value: bytes) -> bytes:
        """Return a value, given as JSON text, as a field. Raise CsvError for a text that this dialect cannot say."""
        if value == _NULL:
            return self.null.encode()
        text = msgspec.json.decode(value, type=str) if value[:1] == b'"' else value.decode()
        if self.quote is None:
            return self._unquoted(text).encode()
        if value[:1] not in _NESTED_OR_TEXT and text != self.null and not self.has_marks(text):
            return value
        text = text.replace(self.quote, self.quote * 2)
        if self.escape is not None:
            text = text.replace(self.escape, self.escape * 2)
        return f"{self.quote}{text}{self.quote}".encode()

    def _unquoted(self, text: str) -> str:
        """Return a text without quotes around it. Raise CsvError."""
        escape = self.escape
        # Any field may be the first one of its row
        begins = text == self.null or text.startswith(BOM) or (self.comments and text.startswith("#"))
        if escape is None:
            said = not begins and not self.has_marks(text)
        else:
            said = not begins or (text != "" and text[0] not in _MEANT)
            text = (escape if begins else "") + self._marks.sub(
                lambda found: escape + _ESCAPED.get(found.group(), found.group()), text
            )
        if not said:
            raise CsvError(f"CSV without quotes cannot say the text {text[:60]!r}: allow csv.quote-character")
        return text


_ESCAPED: Final = {meant: char for char, meant in _MEANT.items()}


def _single(found: Match[str]) -> str:
    """Return the character that two stand for: a doubled quote, or one behind an escape character."""
    pair = found.group()
    first, second = pair[0], pair[1]
    return second if first == second else _MEANT.get(second, second)

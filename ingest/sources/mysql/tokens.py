"""Words of one SQL statement of MySQL or MariaDB, as the server that ran it read them.

In: a statement's text, the sql_mode that it ran under, the server. Out: tokens; executable comments are expanded by the
server's version, other comments are left out. Never raises: what is no SQL ends in a `Words` that is not complete.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NamedTuple

ANSI_QUOTES: Final = 4
NO_BACKSLASH_ESCAPES: Final = 0x100000
STRICT: Final = 0x200000 | 0x400000
"""STRICT_TRANS_TABLES and STRICT_ALL_TABLES. These are the bits of sql_mode in the log, the same in both products."""


@dataclass(frozen=True, slots=True)
class ServerRules:
    """What of a server decides how it reads and runs a statement."""

    version: int = 80036
    """Its version, as executable comments have it: 50624 is 5.6.24, 101106 is 10.11.6."""
    mariadb: bool = False
    lower_case: int = 0
    """`lower_case_table_names`."""
    charset: str = "utf8mb4"
    """The default character set of a new database."""
    explicit_timestamp: bool = True
    """`explicit_defaults_for_timestamp`."""
    logs_cascades: bool = False
    """True if the log has the rows that foreign keys change: MySQL from 9.6 on, unless it is told otherwise."""

    @property
    def has_inline_keys(self) -> bool:
        """True if REFERENCES in a column's definition makes a foreign key; MySQL before 9.0 passes over it."""
        return self.mariadb or self.version >= 90000

    def named(self, name: str) -> str:
        """Return the name of a database or a table as rows of the log have it."""
        return name.lower() if self.lower_case == 1 else name


class SqlToken(NamedTuple):
    """One token. `kind`: word, name (in quotes), text, number, bits, or sign."""

    kind: str
    text: str
    """A word as it was written, a name or text without its quotes, a sign."""
    at: int
    """Where it begins in the statement."""

    @property
    def upper(self) -> str:
        """Return a word or a sign in capitals; nothing for names and texts, which are never keywords."""
        return self.text.upper() if self.kind in {"word", "sign"} else ""


class Words(NamedTuple):
    """The tokens of a statement."""

    tokens: tuple[SqlToken, ...]
    complete: bool
    """False if a quote or a comment is not closed."""


_SKIP: Final = re.compile(r"[\s\x00;]+")
_LINE: Final = re.compile(r"(?:#|--(?=[\s\x00-\x1f]|$))[^\n]*")
_VERSION: Final = re.compile(r"[0-9]{6}|[0-9]{5}")
_WORD: Final = re.compile(r"[0-9A-Za-z_$\u0080-\U0010ffff]+")
_NUMBER: Final = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![A-Za-z_$\u0080-\U0010ffff])")
_BITS: Final = re.compile(r"(?:0x[0-9A-Fa-f]+|0b[01]+)(?![0-9A-Za-z_$])|[xXbB]'[0-9A-Fa-f]*'")
_ESCAPES: Final = {"0": "\0", "n": "\n", "t": "\t", "r": "\r", "b": "\b", "Z": "\x1a"}
_COMMENTS_END: Final = re.compile(r"/\*|\*/")


def words(statement: str, *, sql_mode: int = 0, server: ServerRules) -> Words:
    """Return a statement's tokens."""
    return _Reader(statement, sql_mode, server).read()


class _Reader:
    """One statement, read from its front."""

    def __init__(self, text: str, sql_mode: int, server: ServerRules) -> None:
        self._text = text
        self._at = 0
        self._server = server
        self._backslash = not sql_mode & NO_BACKSLASH_ESCAPES
        self._names = '`"' if sql_mode & ANSI_QUOTES else "`"
        self._inside = 0
        """How many executable comments are open."""
        self._tokens: list[SqlToken] = []

    def read(self) -> Words:
        while self._at < len(self._text):
            found = _SKIP.match(self._text, self._at) or _LINE.match(self._text, self._at)
            if found is not None:
                self._at = found.end()
            elif not self._token():
                return Words(tuple(self._tokens), complete=False)
        return Words(tuple(self._tokens), complete=not self._inside)

    def _token(self) -> bool:
        """Read one token or comment. Return False where a quote or a comment has no end."""
        at, text = self._at, self._text
        first = text[at]
        if text.startswith("/*", at):
            return self._comment()
        if self._inside and text.startswith("*/", at):
            self._inside -= 1
            self._at = at + 2
            return True
        if first in self._names or first in "'\"":
            return self._quoted("name" if first in self._names else "text")
        if first in "nN" and text[at + 1 : at + 2] == "'":  # a text in the national character set
            self._at = at + 1
            return self._quoted("text")
        after_point = bool(self._tokens) and self._tokens[-1].text == "." and self._tokens[-1].at == at - 1
        for kind, pattern in (("bits", _BITS), ("number", _NUMBER), ("word", _WORD)):
            if after_point and kind != "word":  # `db.1t` and `db.1` are names
                continue
            found = pattern.match(text, at)
            if found is not None:
                self._put(kind, found.group(), found.end())
                return True
        self._put("sign", first, at + 1)
        return True

    def _put(self, kind: str, text: str, end: int) -> None:
        self._tokens.append(SqlToken(kind, text, self._at))
        self._at = end

    def _quoted(self, kind: str) -> bool:
        text, quote = self._text, self._text[self._at]
        begin = at = self._at
        out: list[str] = []
        at += 1
        while at < len(text):
            here = text[at]
            if here == "\\" and kind == "text" and self._backslash:
                after = text[at + 1 : at + 2]
                out.append(_ESCAPES.get(after, "\\" + after if after in {"%", "_"} else after))
                at += 2
            elif here != quote:
                out.append(here)
                at += 1
            elif text.startswith(quote, at + 1):
                out.append(quote)
                at += 2
            else:
                self._tokens.append(SqlToken(kind, "".join(out), begin))
                self._at = at + 1
                return True
        return False

    def _comment(self) -> bool:
        """Pass over a comment, or enter one that this server executes."""
        text, at = self._text, self._at
        mark = "/*M!" if self._server.mariadb and text.startswith("/*M!", at) else "/*!"
        if text.startswith(mark, at):
            found = _VERSION.match(text, at + len(mark))
            if self._executes(int(found.group()) if found else 0, ours=mark == "/*M!"):
                self._inside += 1
                self._at = found.end() if found else at + len(mark)
                return True
            return self._pass_over(nested=True)
        return self._pass_over(nested=False)

    def _executes(self, version: int, *, ours: bool) -> bool:
        if self._server.mariadb and not ours and 50700 <= version <= 99999:
            return False  # features of MySQL alone, as MariaDB's manual has it
        return version <= self._server.version

    def _pass_over(self, *, nested: bool) -> bool:
        """Go behind the end of a comment. Comments inside of one that is not executed count."""
        depth, at = 1, self._at + 2
        while depth:
            found = _COMMENTS_END.search(self._text, at)
            if found is None:
                return False
            if found.group() == "*/":
                depth -= 1
            elif nested:
                depth += 1
            at = found.end()
        self._at = at
        return True

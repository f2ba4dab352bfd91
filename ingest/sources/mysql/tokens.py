"""Tokens of one SQL statement of MySQL or MariaDB, as the server that ran it read them, and a cursor for parsers.

In: a statement's text, the sql_mode that it ran under, the server. Out: tokens; executable comments are expanded by the
server's version, other comments are left out. A text that is no SQL raises nothing: its `Words` are not complete.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

ANSI_QUOTES: Final = 4
NO_BACKSLASH_ESCAPES: Final = 0x100000
STRICT: Final = 0x200000 | 0x400000
"""STRICT_TRANS_TABLES and STRICT_ALL_TABLES. These are the bits of sql_mode in the log, the same in both products."""


@dataclass(frozen=True, slots=True)
class ServerRules:
    """The properties of a server that decide how it parses and executes a statement."""

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
        """Return a database's or table's name in the case that row events use."""
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
    """Tokenizer of one statement."""

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
            if self._executes(int(found.group()) if found else 0, for_mariadb=mark == "/*M!"):
                self._inside += 1
                self._at = found.end() if found else at + len(mark)
                return True
            return self._pass_over(nested=True)
        return self._pass_over(nested=False)

    def _executes(self, version: int, *, for_mariadb: bool) -> bool:
        """Return whether the server executes a versioned comment. `for_mariadb`: the comment begins with `/*M!`."""
        if self._server.mariadb and not for_mariadb and 50700 <= version <= 99999:
            return False  # features of MySQL alone, as MariaDB's manual has it
        return version <= self._server.version

    def _pass_over(self, *, nested: bool) -> bool:
        """Go behind the end of a comment. Comments inside of one that is not executed count."""
        depth, at = 1, self._at + 2
        while depth:
            mark = _COMMENTS_END.search(self._text, at)
            if mark is None:
                return False
            if mark.group() == "*/":
                depth -= 1
            elif nested:
                depth += 1
            at = mark.end()
        self._at = at
        return True


_OPEN: Final = "("
_CLOSE: Final = ")"


class NotUnderstood(Exception):
    """A statement, or a part of it, that the parser does not know."""


class WordCursor:
    """Tokens that are read one after the other."""

    def __init__(self, tokens: Sequence[SqlToken]) -> None:
        self._tokens = tokens
        self.at = 0

    def __bool__(self) -> bool:
        """Return whether any token is left."""
        return self.at < len(self._tokens)

    def peek(self, ahead: int = 0) -> str:
        """Return a word or sign to come, in capitals; nothing for names, texts, and behind the end."""
        return self._tokens[self.at + ahead].upper if self.at + ahead < len(self._tokens) else ""

    def kind(self, ahead: int = 0) -> str:
        """Return the kind of a token to come; nothing behind the end."""
        return self._tokens[self.at + ahead].kind if self.at + ahead < len(self._tokens) else ""

    def next(self) -> SqlToken:
        """Return the next token and go on. Raise NotUnderstood at the end."""
        if not self:
            raise NotUnderstood("it ends too early")
        self.at += 1
        return self._tokens[self.at - 1]

    def take(self, *words: str) -> bool:
        """Return whether these words come next; if so, move past them."""
        if all(self.peek(ahead) == word for ahead, word in enumerate(words)):
            self.at += len(words)
            return True
        return False

    def take_any(self, *words: str) -> str:
        """Return the next word and move past it if it is one of `words`; else an empty text."""
        word = self.peek()
        if word and word in words:
            self.at += 1
            return word
        return ""

    def expect(self, *words: str) -> None:
        """Move past these words. Raise NotUnderstood where others come."""
        if not self.take(*words):
            raise NotUnderstood(f"{' '.join(words)} was expected {self.place()}")

    def name(self) -> str:
        """Return the next identifier and move past it. Raise NotUnderstood where none comes."""
        token = self.next()
        if token.kind not in {"word", "name"}:
            self.at -= 1
            raise NotUnderstood(f"a name was expected {self.place()}")
        return token.text

    def text(self) -> str:
        """Return a text in quotes: those that follow each other are one, with or without a character set in front."""
        if self.kind() == "word" and self.peek().startswith("_") and self.kind(1) in {"text", "bits"}:
            self.at += 1
        token = self.next()
        if token.kind not in {"text", "name"}:  # under ANSI_QUOTES a comment in double quotes is still refused
            self.at -= 1
            raise NotUnderstood(f"a text was expected {self.place()}")
        out = token.text
        while self.kind() == "text":
            out += self.next().text
        return out

    def number(self) -> int:
        """Return a whole number. Raise NotUnderstood where none comes."""
        token = self.next()
        if token.kind != "number" or not token.text.isdigit():
            self.at -= 1
            raise NotUnderstood(f"a number was expected {self.place()}")
        return int(token.text[:20])

    def word(self) -> str:
        """Return the next token's text, whatever its kind is."""
        return self.next().text

    def brackets(self) -> WordCursor:
        """Return a cursor over the content of the next brackets and move past them. Raise NotUnderstood."""
        self.expect(_OPEN)
        begin, depth = self.at, 1
        while depth:
            word = self.next().upper
            depth += (word == _OPEN) - (word == _CLOSE)
        return WordCursor(self._tokens[begin : self.at - 1])

    def parts(self) -> Iterator[WordCursor]:
        """Yield a cursor for each of the remaining parts, split at commas outside of brackets."""
        begin, depth = self.at, 0
        for at in range(self.at, len(self._tokens)):
            word = self._tokens[at].upper
            depth += (word == _OPEN) - (word == _CLOSE)
            if word == "," and not depth:
                yield WordCursor(self._tokens[begin:at])
                begin = at + 1
        self.at = len(self._tokens)
        yield WordCursor(self._tokens[begin:])

    def until(self, *words: str) -> WordCursor:
        """Return a cursor up to these words, outside of brackets; over the rest without them."""
        depth = 0
        for ahead in range(len(self._tokens) - self.at):
            word = self.peek(ahead)
            depth += (word == _OPEN) - (word == _CLOSE)
            if not depth and all(self.peek(ahead + at) == each for at, each in enumerate(words)):
                return WordCursor(self._tokens[self.at : self.at + ahead])
        return WordCursor(self._tokens[self.at :])

    def since(self, begin: int) -> Sequence[SqlToken]:
        """Return the tokens from an earlier place to this one."""
        return self._tokens[begin : self.at]

    def is_order(self) -> bool:
        """Return whether all that is left is a column of ORDER BY."""
        left = len(self._tokens) - self.at
        return left == 1 or (left == 2 and self.peek(1) in {"ASC", "DESC"})

    def rest(self) -> Sequence[SqlToken]:
        """Return the tokens to come, and go to the end."""
        found = self._tokens[self.at :]
        self.at = len(self._tokens)
        return found

    def done(self) -> None:
        """Raise NotUnderstood where any token is left."""
        if self:
            raise NotUnderstood(f"what stands {self.place()} is not known")

    def place(self) -> str:
        """Return where the cursor is, for people."""
        if not self:
            return "at the end"
        token = self._tokens[self.at]
        return f"at {token.text[:40]!r}, character {token.at + 1}"

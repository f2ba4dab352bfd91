"""A place in the tokens of a statement, from which a parser reads on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ingest.sources.mysql.tokens import SqlToken

_OPEN: Final = "("
_CLOSE: Final = ")"


class NotUnderstood(Exception):
    """A statement, or a part of it, that the parser does not know."""


class WordCursor:
    """Tokens that are read one after the other."""

    def __init__(self, tokens: Sequence[SqlToken]) -> None:
        """Begin at the first token."""
        self._tokens = tokens
        self.at = 0

    def __bool__(self) -> bool:
        """Return whether there is another token."""
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
            msg = "it ends too early"
            raise NotUnderstood(msg)
        self.at += 1
        return self._tokens[self.at - 1]

    def take(self, *words: str) -> bool:
        """Return whether these words come next, and go behind them if so."""
        if all(self.peek(ahead) == word for ahead, word in enumerate(words)):
            self.at += len(words)
            return True
        return False

    def take_any(self, *words: str) -> str:
        """Return the next word if it is one of these, and go behind it; else nothing."""
        word = self.peek()
        if word and word in words:
            self.at += 1
            return word
        return ""

    def expect(self, *words: str) -> None:
        """Go behind these words. Raise NotUnderstood where others come."""
        if not self.take(*words):
            msg = f"{' '.join(words)} was expected {self.place()}"
            raise NotUnderstood(msg)

    def name(self) -> str:
        """Return an identifier. Raise NotUnderstood where none comes."""
        token = self.next()
        if token.kind not in {"word", "name"}:
            self.at -= 1
            msg = f"a name was expected {self.place()}"
            raise NotUnderstood(msg)
        return token.text

    def text(self) -> str:
        """Return a text in quotes: those that follow each other are one, with or without a character set in front."""
        if self.kind() == "word" and self.peek().startswith("_") and self.kind(1) in {"text", "bits"}:
            self.at += 1
        token = self.next()
        if token.kind not in {"text", "name"}:  # under ANSI_QUOTES a comment in double quotes is still refused
            self.at -= 1
            msg = f"a text was expected {self.place()}"
            raise NotUnderstood(msg)
        out = token.text
        while self.kind() == "text":
            out += self.next().text
        return out

    def number(self) -> int:
        """Return a whole number. Raise NotUnderstood where none comes."""
        token = self.next()
        if token.kind != "number" or not token.text.isdigit():
            self.at -= 1
            msg = f"a number was expected {self.place()}"
            raise NotUnderstood(msg)
        return int(token.text[:20])

    def word(self) -> str:
        """Return the next token's text, whatever its kind is."""
        return self.next().text

    def brackets(self) -> WordCursor:
        """Return what is between the brackets that open here, and go behind them. Raise NotUnderstood."""
        self.expect(_OPEN)
        begin, depth = self.at, 1
        while depth:
            word = self.next().upper
            depth += (word == _OPEN) - (word == _CLOSE)
        return WordCursor(self._tokens[begin : self.at - 1])

    def parts(self) -> Iterator[WordCursor]:
        """Yield what is between the commas that stand outside of brackets, from here to the end."""
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
        """Return a cursor over what comes before these words, outside of brackets; over the rest without them."""
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
        """Raise NotUnderstood where anything is left."""
        if self:
            msg = f"what stands {self.place()} is not known"
            raise NotUnderstood(msg)

    def place(self) -> str:
        """Return where the cursor is, for people."""
        if not self:
            return "at the end"
        token = self._tokens[self.at]
        return f"at {token.text[:40]!r}, character {token.at + 1}"

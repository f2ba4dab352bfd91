"""A script of Flink SQL: its tables with their options, and the queries that copy one into another.

In: the text of a file. Out: a `Script`; what is no table and no copy of one is in `left`, with its line. Types and
expressions are kept as texts: `schema/ddl_parser.py` and `expressions/` read them. Raises TextError.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, NamedTuple

from ingest.model.text import TextError

MAX_CHARACTERS: Final = 1 << 20
_TOKEN: Final = re.compile(
    r"""\s+ | --[^\n]* | /\*.*?\*/
    | (?P<string>'(?:[^']|'')*+') | (?P<quoted>`(?:[^`]|``)*+`) | (?P<word>[^\W\d][\w$]*) | (?P<number>\d+(?:\.\d+)?)
    | (?P<more>\.\.\.|…) | (?P<mark>.)""",
    re.VERBOSE | re.DOTALL,
)
_OPENS: Final = {"(": 1, ")": -1, "[": 1, "]": -1}
_GENERIC: Final = frozenset({"ROW", "MAP", "ARRAY", "MULTISET"})
_END_OF_TYPE: Final = frozenset({"NOT", "NULL", "PRIMARY", "COMMENT", "CONSTRAINT", "METADATA"})
_AFTER_FROM: Final = {
    "GROUP": "GROUP BY: there are no aggregates",
    "HAVING": "HAVING: there are no aggregates",
    "JOIN": "JOIN: there are no joins",
    "ORDER": "ORDER BY: rows are written as they come",
    "LIMIT": "LIMIT: all rows are written",
    "UNION": "UNION: a pipeline has one query",
    "INTERSECT": "INTERSECT: a pipeline has one query",
    "EXCEPT": "EXCEPT: a pipeline has one query",
    "WINDOW": "WINDOW: there are no windows",
    "MATCH_RECOGNIZE": "MATCH_RECOGNIZE: there are no patterns of rows",
}
_BEFORE_JOIN: Final = frozenset({"LEFT", "RIGHT", "FULL", "INNER", "CROSS", "OUTER", "NATURAL"})


class Token(NamedTuple):
    """A word of a script."""

    kind: str
    text: str
    start: int
    end: int
    line: int

    @property
    def word(self) -> str:
        """A keyword in capitals, or a mark; empty for names in quotes and for texts."""
        return "" if self.kind in {"string", "quoted"} else self.text.upper()

    @property
    def name(self) -> str:
        """A name or a text without its quotes."""
        quote = self.text[:1] if self.kind in {"string", "quoted"} else ""
        return self.text[1:-1].replace(quote * 2, quote) if quote else self.text


class Left(NamedTuple):
    """A part of a script that a pipeline has no place for."""

    line: int
    what: str


@dataclass(frozen=True, slots=True)
class ScriptColumn:
    """A column of a table."""

    name: str
    kind: Literal["physical", "metadata", "computed"]
    text: str
    """The type; of a computed column its expression."""
    line: int
    metadata: str = ""
    """The name that the connector gives it."""
    virtual: bool = False
    expression: tuple[Token, ...] = ()


@dataclass(frozen=True, slots=True)
class ScriptTable:
    """A CREATE TABLE."""

    name: tuple[str, ...]
    line: int
    columns: tuple[ScriptColumn, ...] = ()
    primary_key: tuple[str, ...] = ()
    options: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Values, and the lines where they stand, by their names."""
    more: bool = False
    """True if the script leaves out columns, as examples do: `…`."""


@dataclass(frozen=True, slots=True)
class SelectItem:
    """An entry of a SELECT; `*` has no tokens."""

    tokens: tuple[Token, ...]
    name: str
    line: int


@dataclass(frozen=True, slots=True)
class SqlCopy:
    """An INSERT INTO … SELECT, or a CREATE TABLE … AS TABLE."""

    sink: tuple[str, ...]
    source: tuple[str, ...]
    line: int
    items: tuple[SelectItem, ...]
    alias: str = ""
    where: tuple[Token, ...] = ()
    columns: tuple[str, ...] = ()
    """The sink's columns that it names."""


@dataclass(slots=True)
class Script:
    """What a script has."""

    text: str
    tables: list[ScriptTable] = field(default_factory=list)
    copies: list[SqlCopy] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)


def parse_script(text: str) -> Script:
    """Return the tables and copies of a script. Raise TextError for one that cannot be split into statements."""
    if len(text) > MAX_CHARACTERS:
        raise TextError(f"the script is longer than {MAX_CHARACTERS:,} characters", 0, 1)
    script = Script(text)
    reader = _Reader(script)
    statement: list[Token] = []
    for token in tokens_of(text):
        if token.word == ";":
            reader.statement(statement)
            statement = []
        elif statement or token.text != ">":  # a client's prompt
            statement.append(token)
    reader.statement(statement)
    return script


def tokens_of(text: str) -> Iterator[Token]:
    """Yield the words of a script, without comments. Raise TextError where a quote is not closed."""
    line, seen = 1, 0
    for match in _TOKEN.finditer(text):
        if match.lastgroup is None:
            continue
        line += text.count("\n", seen, match.start())
        seen = match.start()
        if match.lastgroup == "mark" and match[0] in "'`":
            raise TextError("a quote is not closed", match.start(), 1)
        yield Token(match.lastgroup, match[0], match.start(), match.end(), line)


def parts(tokens: Sequence[Token], mark: str = ",") -> list[list[Token]]:
    """Return tokens split at a mark outside of brackets."""
    out: list[list[Token]] = [[]]
    depth = angles = 0
    for i, token in enumerate(tokens):
        depth += _OPENS.get(token.word, 0)
        if token.word == "<" and (angles or (i and tokens[i - 1].word in _GENERIC)):
            angles += 1
        elif token.word == ">" and angles:
            angles -= 1
        if token.word == mark and not depth and not angles:
            out.append([])
        else:
            out[-1].append(token)
    return [part for part in out if part]


class _Reader:
    """Reader of one script's statements."""

    def __init__(self, script: Script) -> None:
        self._script = script

    def statement(self, tokens: list[Token]) -> None:
        words = [token.word for token in tokens]
        if not words or words in (["END"], ["BEGIN"]):
            return
        if words[:3] == ["EXECUTE", "STATEMENT", "SET"]:
            self.statement(tokens[3 + (words[3:4] == ["BEGIN"]) :])
        elif words[:3] == ["BEGIN", "STATEMENT", "SET"]:
            self.statement(tokens[3:])
        elif words[0] == "CREATE" and words[1 + (words[1:2] == ["TEMPORARY"]) :][:1] == ["TABLE"]:
            self._create(tokens)
        elif words[:2] == ["INSERT", "INTO"]:
            self._insert(tokens)
        else:
            shown = self._shown(tokens[:3])
            why = "its result goes nowhere" if words[0] == "SELECT" else "it has no counterpart"
            self._leave(tokens[0], f"{shown} …: {why}")

    def _leave(self, token: Token, what: str) -> None:
        self._script.left.append(Left(token.line, what))

    def _shown(self, tokens: Sequence[Token]) -> str:
        text = self._script.text[tokens[0].start : tokens[-1].end] if tokens else ""
        return " ".join(text.split())[:80]

    def _error(self, token: Token, why: str) -> TextError:
        return TextError(why, token.start, len(token.text))

    def _name(self, tokens: list[Token], at: int) -> tuple[tuple[str, ...], int]:
        """Return a name with its dots, and where it ends."""
        names = []
        while at < len(tokens) and tokens[at].kind in {"word", "quoted"}:
            names.append(tokens[at].name)
            at += 1
            if at + 1 < len(tokens) and tokens[at].word == "." and tokens[at + 1].kind in {"word", "quoted"}:
                at += 1
            else:
                break
        if not names:
            raise self._error(tokens[min(at, len(tokens) - 1)], "a table's name is missing here")
        return tuple(names), at

    def _closing(self, tokens: list[Token], at: int) -> int:
        """Return where the bracket at a place is closed."""
        depth = 0
        for i in range(at, len(tokens)):
            depth += _OPENS.get(tokens[i].word, 0)
            if not depth:
                return i
        raise self._error(tokens[at], "this bracket is not closed")

    # -- CREATE TABLE ------------------------------------------------------------------------------------------------

    def _create(self, tokens: list[Token]) -> None:
        at = 2 + (tokens[1].word == "TEMPORARY")
        if [token.word for token in tokens[at : at + 3]] == ["IF", "NOT", "EXISTS"]:
            at += 3
        if at >= len(tokens):
            raise self._error(tokens[-1], "a table's name is missing here")
        name, at = self._name(tokens, at)
        table = ScriptTable(name, tokens[0].line)
        if at + 1 < len(tokens) and tokens[at].word == "(" and tokens[at + 1].word == "WITH":
            self._leave(tokens[at], f"( of table {name[-1]}: no columns are behind it")
            at += 1
        elif at < len(tokens) and tokens[at].word == "(":
            end = self._closing(tokens, at)
            table = self._columns(table, tokens[at + 1 : end])
            at = end + 1
        copy = None
        while at < len(tokens):
            word = tokens[at].word
            if word == "WITH" and at + 1 < len(tokens) and tokens[at + 1].word == "(":
                end = self._closing(tokens, at + 1)
                table = replace(table, options=self._options(tokens[at + 2 : end]))
                at = end + 1
            elif word == "COMMENT":
                at += 2
            elif word == "AS" and tokens[at + 1 : at + 2] and tokens[at + 1].word == "TABLE":
                copy = self._as_table(table, tokens, at + 2)
                break
            elif word == "AS":
                copy = self._select(table.name, (), tokens[at + 1 :], tokens[0].line)
                break
            else:
                self._leave(tokens[at], f"{self._shown(tokens[at : at + 4])} … of table {name[-1]}: no counterpart")
                break
        self._script.tables.append(table)
        if copy is not None:
            self._script.copies.append(copy)

    def _as_table(self, table: ScriptTable, tokens: list[Token], at: int) -> SqlCopy:
        source, at = self._name(tokens, at)
        items = [SelectItem((), "*", tokens[at - 1].line)]
        if [token.word for token in tokens[at : at + 2]] == ["ADD", "COLUMN"]:
            for part in parts(_without_brackets(tokens[at + 2 :])):
                expression = tuple(_before(part[2:], {"FIRST", "AFTER", "COMMENT"}))
                items.append(SelectItem(expression, part[0].name, part[0].line))
        elif at < len(tokens):
            self._leave(tokens[at], f"{self._shown(tokens[at : at + 4])} … of table {table.name[-1]}: no counterpart")
        return SqlCopy(table.name, source, table.line, tuple(items))

    def _columns(self, table: ScriptTable, tokens: list[Token]) -> ScriptTable:
        columns: list[ScriptColumn] = []
        key: list[str] = []
        more = False
        for part in parts(tokens):
            kept = [token for token in part if token.kind != "more"]
            more = more or len(kept) < len(part)
            if not kept:
                continue
            words = [token.word for token in kept]
            if words[0] == "WATERMARK":
                self._leave(kept[0], "WATERMARK: there is no event time to order rows by")
            elif "PRIMARY" in words and words[0] in {"PRIMARY", "CONSTRAINT"}:
                inner = kept[words.index("(") + 1 : -1] if "(" in words else []
                key += [token.name for token in inner if token.kind in {"word", "quoted"} and token.word != "NOT"]
            elif len(kept) > 1:
                columns.append(self._column(kept))
                if "PRIMARY" in words:
                    key.append(kept[0].name)
            else:
                raise self._error(kept[0], "a column has a name and a type")
        named = {column.name for column in columns}
        return replace(table, columns=tuple(columns), primary_key=tuple(n for n in key if n in named), more=more)

    def _column(self, tokens: list[Token]) -> ScriptColumn:
        name, line = tokens[0].name, tokens[0].line
        if tokens[1].word == "AS":
            expression = tuple(_before(tokens[2:], {"COMMENT"}))
            if not expression:
                raise self._error(tokens[1], "an expression is missing here")
            return ScriptColumn(name, "computed", self._text(expression), line, expression=expression)
        kind = _before(tokens[1:], _END_OF_TYPE)
        text = self._text(kind) if kind else ""
        words = [token.word for token in tokens]
        if "METADATA" not in words[1 + len(kind) :]:
            return ScriptColumn(name, "physical", text, line)
        at = words.index("METADATA", 1 + len(kind))
        behind = tokens[at + 1 : at + 3]
        metadata = behind[1].name if len(behind) == 2 and behind[0].word == "FROM" else name
        return ScriptColumn(name, "metadata", text, line, metadata, "VIRTUAL" in words[at:])

    def _text(self, tokens: Sequence[Token]) -> str:
        return " ".join(self._script.text[tokens[0].start : tokens[-1].end].split())

    def _options(self, tokens: list[Token]) -> dict[str, tuple[str, int]]:
        options: dict[str, tuple[str, int]] = {}
        at = 0
        while at < len(tokens):
            token = tokens[at]
            if token.kind == "more" or token.word == ",":
                at += 1
                continue
            if token.kind != "string" or [t.word for t in tokens[at + 1 : at + 2]] != ["="] or at + 2 >= len(tokens):
                raise self._error(token, "an option is written 'name' = 'value'")
            if token.name in options:
                self._leave(token, f"{token.name!r}: it is there twice, and the first counts")
            else:
                options[token.name] = (tokens[at + 2].name, token.line)
            at += 3
        return options

    # -- INSERT INTO ---------------------------------------------------------------------------------------------------

    def _insert(self, tokens: list[Token]) -> None:
        name, at = self._name(tokens, 2)
        columns: tuple[str, ...] = ()
        if at < len(tokens) and tokens[at].word == "(":
            end = self._closing(tokens, at)
            columns = tuple(token.name for token in tokens[at + 1 : end] if token.kind in {"word", "quoted"})
            at = end + 1
        copy = self._select(name, columns, tokens[at:], tokens[0].line)
        if copy is not None:
            self._script.copies.append(copy)

    def _select(
        self, sink: tuple[str, ...], columns: tuple[str, ...], tokens: list[Token], line: int
    ) -> SqlCopy | None:
        head = parts(tokens, "FROM")
        if not tokens or tokens[0].word != "SELECT" or len(head) < 2:
            what = f"the rows of {sink[-1]}, {self._shown(tokens[:3])} …: only a query of one table is read"
            self._script.left.append(Left(line, what))
            return None
        chosen = head[0][1:]
        if chosen and chosen[0].word == "DISTINCT":
            self._leave(chosen[0], "DISTINCT: rows are not compared with each other")
            chosen = chosen[1:]
        behind = tokens[len(head[0]) + 1 :]
        if behind[0].kind not in {"word", "quoted"} or [token.word for token in behind[:2]] == ["TABLE", "("]:
            self._leave(behind[0], f"FROM {self._shown(behind[:4])} …: only tables of the script are read")
            return None
        source, at = self._name(behind, 0)
        alias = ""
        if at < len(behind) and behind[at].word == "AS":
            at += 1
        if at < len(behind) and behind[at].kind in {"word", "quoted"} and not _is_clause(behind[at]):
            alias = behind[at].name
            at += 1
        items = tuple(_item(part) for part in parts(chosen))
        where = self._clauses(behind[at:])
        return SqlCopy(sink, source, line, items, alias, where, columns)

    def _clauses(self, tokens: list[Token]) -> tuple[Token, ...]:
        """Return the condition, and leave all other clauses."""
        where: list[Token] = []
        current: list[Token] | None = None
        depth = 0
        for token in tokens:
            depth += _OPENS.get(token.word, 0)
            if not depth and token.word == "WHERE":
                current = where
            elif not depth and (token.word in _AFTER_FROM or token.word == ","):
                self._leave(token, _AFTER_FROM.get(token.word, "FROM with several tables: there are no joins"))
                current = None
            elif current is not None and not (not depth and token.word in _BEFORE_JOIN):
                current.append(token)
        return tuple(where)


def _is_clause(token: Token) -> bool:
    return token.word in _AFTER_FROM or token.word in _BEFORE_JOIN or token.word in {"WHERE", "FOR"}


def _item(tokens: list[Token]) -> SelectItem:
    words = [token.word for token in tokens]
    if words[-1] == "*" and len(words) in {1, 3}:
        return SelectItem((), "*", tokens[0].line)
    last = tokens[-1]
    if len(tokens) > 2 and words[-2] == "AS":
        return SelectItem(tuple(tokens[:-2]), last.name, last.line)
    named = last.kind in {"word", "quoted"}
    before = tokens[-2] if len(tokens) > 1 else None
    if named and before is not None and (before.kind in {"word", "quoted", "number", "string"} or before.word == ")"):
        return SelectItem(tuple(tokens[:-1]), last.name, last.line)
    return SelectItem(tuple(tokens), last.name if named else "", tokens[0].line)


def _without_brackets(tokens: list[Token]) -> list[Token]:
    return tokens[1:-1] if tokens and tokens[0].word == "(" and tokens[-1].word == ")" else tokens


def _before(tokens: Sequence[Token], ends: set[str] | frozenset[str]) -> list[Token]:
    """Return the tokens before the first of some words outside of brackets."""
    out = []
    depth = 0
    for i, token in enumerate(tokens):
        depth += _OPENS.get(token.word, 0)
        depth += (token.word == "<" and (depth > 0 or (i > 0 and tokens[i - 1].word in _GENERIC))) - (
            token.word == ">" and depth > 0
        )
        if not depth and token.word in ends:
            break
        out.append(token)
    return out

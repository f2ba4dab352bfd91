"""Parser of Flink SQL's CREATE TABLE: a table's columns, types and primary key. It uses sqlglot.

In: text from a pipeline file. Out: schemas by table id. Raises TextError with the place in the text. Other parts of
Flink's DDL (computed columns, watermarks, LIKE) are refused and never ignored.
"""

from __future__ import annotations

import logging
import re
from functools import lru_cache
from typing import Any, Final

from sqlglot import TokenType, exp, parser, tokens
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ErrorLevel, ParseError, TokenError

from ingest.model import types
from ingest.model.schema import Column, TableSchema
from ingest.model.table import TableId
from ingest.model.text import TextError
from ingest.model.types import (
    ArrayType,
    CharType,
    DataType,
    DecimalType,
    MapType,
    StructField,
    StructType,
    TimeType,
    VarcharType,
)

_MAX_DEPTH: Final = 20
_NUMBER: Final = re.compile(r"[0-9]{1,10}")
_LONGEST: Final = (1 << 31) - 1
"""Number of characters that a CHAR or VARCHAR has at most: Flink SQL's limit."""
_SIMPLE: Final[dict[str, DataType]] = {
    "BOOLEAN": types.BOOLEAN, "TINYINT": types.TINYINT, "SMALLINT": types.SMALLINT, "INT": types.INT,
    "BIGINT": types.BIGINT, "FLOAT": types.FLOAT, "DOUBLE": types.DOUBLE, "TEXT": types.STRING, "DATE": types.DATE,
    "VARBINARY": types.BYTES, "BINARY": types.BYTES, "TIMESTAMP": types.TIMESTAMP, "DATETIME": types.TIMESTAMP,
    "TIMESTAMPLTZ": types.TIMESTAMP_LTZ, "TIMESTAMPTZ": types.TIMESTAMP_LTZ,
}  # fmt: skip
"""Types without numbers, by sqlglot's names.

TIMESTAMP WITH TIME ZONE is read as TIMESTAMP_LTZ. Timestamps always have Spark's precision.
"""


_BARE: Final = {
    "CHAR": "CHAR(1) without a length, as in Flink SQL; write CHAR(n) or STRING",
    "VARCHAR": "VARCHAR(1) without a length, as in Flink SQL; write VARCHAR(n) or STRING",
    "DECIMAL": "DECIMAL(10, 0) without a precision, as in Flink SQL; write DECIMAL(p, s)",
}
"""Types that are smaller than most authors expect where their numbers are left out."""


_UNREADABLE: Final = {
    "MULTISET": "MULTISET cannot be read here; declare it MAP<t, INT>, each element with its count, or STRING",
    "INTERVAL": "INTERVAL cannot be read here; declare it STRING, or BIGINT where values are numbers",
    "RAW": "RAW cannot be read here: its values are objects of a Java class; declare it BYTES or STRING",
}
"""Types of Flink SQL that no column here has."""
_NO_TYPE_AFTER: Final = frozenset({"TABLE", "EXISTS", "CONSTRAINT", "(", "."})
"""What stands before a name that may be the word of a type."""


_WITHOUT: Final = {
    "WATERMARK": "a watermark has no meaning here: leave it out",
    "METADATA": "a metadata column is no column of the message: leave it out, and see metadata.list",
}
"""Parts of Flink's DDL that are refused, by their first words."""


class Statements:
    """The statements of one text. The first `shift` characters were put in front of the user's text."""

    def __init__(self, text: str, shift: int) -> None:
        """Read nothing yet."""
        self._text = text
        self._shift = shift
        self.remarks: list[TextError] = []
        """Types whose default size is seldom meant, as far as the text was read."""

    def tables(self) -> dict[TableId, TableSchema]:
        """Return the tables by their ids. Raise TextError."""
        out: dict[TableId, TableSchema] = {}
        for statement in self._parse():
            if statement is None or isinstance(statement, exp.Semicolon):  # comments may stand behind the last one
                continue
            table, schema = self._table(statement)
            if table in out:
                raise self._error(f"table {'.'.join(table)} is there twice", statement)
            out[table] = schema
        if not out:
            msg = "no table is named: write CREATE TABLE db.t (id BIGINT, name STRING)"
            raise TextError(msg, 0, len(self._text) - self._shift)
        return out

    def _parse(self) -> list[exp.Expression | None]:
        flink = _parser()
        words: list[Any] = []
        try:
            words = flink.dialect.tokenize(self._text)
            return list(flink.parse(words, self._text))
        except ParseError as exc:
            error = exc.errors[0]
            lines = self._text.splitlines(keepends=True)
            word = str(error.get("highlight") or "")
            end = sum(len(line) for line in lines[: int(error["line"]) - 1]) + int(error["col"])
            for before in (word, *self._text[: end - len(word)].split()[-1:]):
                if (without := _WITHOUT.get(before.upper())) is not None:
                    raise self._text_error(without, self._text.rindex(before, 0, end), len(before)) from None
            for token in words:
                if token.start <= end and _is_unreadable(words, token):
                    raise self._text_error(_UNREADABLE[token.text.upper()], token.start, len(token.text)) from None
            why = str(error["description"]).partition(" but got <")[0].rstrip(".")
            if why.startswith("Required keyword"):  # sqlglot names its own classes here, which users do not know
                why = "something is missing here"
            raise self._text_error(f"not Flink SQL: {why}", end - len(word), len(word)) from None
        except TokenError:
            msg = "not Flink SQL: a quote or a comment is not closed"
            raise TextError(msg, 0, len(self._text) - self._shift) from None
        except RecursionError:
            raise TextError("nested too deep", 0, len(self._text) - self._shift) from None

    def _text_error(self, why: str, at: int, length: int) -> TextError:
        end = len(self._text) - self._shift
        return TextError(why, min(max(0, at - self._shift), max(0, end - 1)), length)

    def _error(self, why: str, node: exp.Expression) -> TextError:
        for identifier in node.find_all(exp.Identifier):
            if "start" in identifier.meta:
                start = int(identifier.meta["start"])
                return self._text_error(why, start, int(identifier.meta["end"]) + 1 - start)
        return self._text_error(why, self._shift, len(self._text))

    def _table(self, statement: exp.Expression) -> tuple[TableId, TableSchema]:
        schema = statement.this if isinstance(statement, exp.Create) and statement.kind == "TABLE" else None
        if not isinstance(schema, exp.Schema) or not isinstance(schema.this, exp.Table):
            raise self._error("only CREATE TABLE with its columns is understood here", statement)
        if statement.args.get("expression") is not None or statement.find(exp.LikeProperty) is not None:
            raise self._error("only columns and a primary key are understood here", statement)
        table = tuple(part.name for part in schema.this.parts)
        if not 1 <= len(table) <= 3 or not all(table):
            raise self._error("a table's name has one to three parts", schema.this)
        columns: dict[str, tuple[DataType, bool]] = {}
        key: list[str] = []
        for part in schema.expressions:
            if isinstance(part, exp.ColumnDef):
                if part.name in columns:
                    raise self._error(f"column {part.name!r} is there twice", part)
                columns[part.name] = (self._column(part, key), True)
            else:
                key += self._key(part)
        unknown = next((name for name in key if name not in columns), None)
        if unknown is not None:
            raise self._error(f"the primary key names {unknown!r}, which is no column", schema.this)
        if len(set(key)) != len(key):
            raise self._error("the primary key is given twice", schema.this)
        schema_columns = tuple(Column(name, data_type, name not in key) for name, (data_type, _) in columns.items())
        return table, TableSchema(schema_columns, tuple(key))

    def _key(self, part: exp.Expression) -> list[str]:
        keys = [part] if isinstance(part, exp.PrimaryKey) else part.expressions
        if not isinstance(part, (exp.PrimaryKey, exp.Constraint)) or not all(
            isinstance(k, exp.PrimaryKey) for k in keys
        ):
            raise self._error("only columns and a primary key are understood here", part)
        return [column.name for k in keys for column in k.expressions]

    def _column(self, part: exp.ColumnDef, key: list[str]) -> DataType:
        kind = part.args.get("kind")
        if kind is None:
            raise self._error(f"column {part.name!r} has no type (computed columns are not understood here)", part)
        for constraint in part.args.get("constraints") or []:
            if isinstance(constraint.kind, exp.PrimaryKeyColumnConstraint):
                key.append(part.name)
            elif not isinstance(constraint.kind, (exp.NotNullColumnConstraint, exp.CommentColumnConstraint)):
                raise self._error(f"column {part.name!r}: only NOT NULL, PRIMARY KEY and COMMENT are understood", part)
        return self._type(kind, part, 0)

    def _type(self, kind: object, column: exp.ColumnDef, depth: int) -> DataType:
        if isinstance(kind, exp.ColumnDef):  # a field of a row
            kind = kind.args.get("kind")
        if not isinstance(kind, exp.DataType) or depth > _MAX_DEPTH:
            raise self._error(f"column {column.name!r}: not a type", column)
        name = "INTERVAL" if isinstance(kind.this, exp.Interval) else str(kind.this.value)
        called = name if name != exp.DataType.Type.USERDEFINED.value else kind.sql().partition("(")[0].strip().upper()
        if called in _UNREADABLE:
            raise self._error(f"column {column.name!r}: {_UNREADABLE[called]}", column)
        inner = kind.expressions
        simple = _SIMPLE.get(name)
        if simple is not None:
            return simple
        if name == "ARRAY" and len(inner) == 1:
            return ArrayType(self._type(inner[0], column, depth + 1))
        if name == "MAP" and len(inner) == 2:
            first, second = (self._type(part, column, depth + 1) for part in inner)
            return MapType(first, second)
        if name == "STRUCT" and inner:
            return StructType(tuple(StructField(part.name, self._type(part, column, depth + 1)) for part in inner))
        numbers = [int(part.name) for part in inner if _NUMBER.fullmatch(part.name)]
        data_type = _with_numbers(name, numbers) if len(numbers) == len(inner) else None
        if data_type is None:
            shown = kind.sql() if name != "USERDEFINED" else str(kind.args.get("kind"))
            raise self._error(
                f"column {column.name!r}: {shown[:60]} is no type of Flink SQL, or has wrong numbers", column
            )
        if name in _BARE and not numbers:
            meant = f"column {column.name!r}: {name} is {_BARE[name]}"
            self.remarks.append(self._error(meant, column))
        return data_type


def _is_unreadable(words: list[Any], word: Any) -> bool:
    """Return whether a word is certainly a type that cannot be read, and no name of a column or a table."""
    at = words.index(word)
    if not at or word.text.upper() not in _UNREADABLE or word.token_type in {TokenType.IDENTIFIER, TokenType.STRING}:
        return False
    before, after = words[at - 1], words[at + 1].text if at + 1 < len(words) else ""
    if before.text == ",":  # the second type of a MAP, or else the name of a column
        return after.upper() in {"<", "(", "YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND"}
    return before.text.upper() not in _NO_TYPE_AFTER


def _with_numbers(name: str, numbers: list[int]) -> DataType | None:
    if name == "DECIMAL":
        precision, scale = ([*numbers, *([10] if not numbers else []), 0])[:2]
        return DecimalType(precision, scale) if scale <= precision <= 38 and precision else None
    if name in {"CHAR", "VARCHAR"} and len(numbers) <= 1:
        length = numbers[0] if numbers else 1
        return None if not 0 < length <= _LONGEST else (CharType(length) if name == "CHAR" else VarcharType(length))
    if name == "TIME" and len(numbers) <= 1:
        return TimeType(min(numbers[0] if numbers else 0, 6))
    return None


class _Flink(Dialect):
    """Flink's syntax of types and keys."""

    class Tokenizer(tokens.Tokenizer):
        IDENTIFIERS = ["`"]  # noqa: RUF012  (sqlglot's base class has plain lists and dicts here, too)
        QUOTES = ["'"]  # noqa: RUF012
        KEYWORDS = {  # noqa: RUF012
            **tokens.Tokenizer.KEYWORDS,
            "ROW": TokenType.STRUCT,
            "BYTES": TokenType.VARBINARY,
            "STRING": TokenType.TEXT,
            "TIMESTAMP_LTZ": TokenType.TIMESTAMPLTZ,
        }

    class Parser(parser.Parser):
        def _warn_unsupported(self) -> None:
            """Do nothing: a warning would show the text, which may hold secrets.

            Unknown statements are refused elsewhere.
            """

        def _parse_primary_key(self, *args: Any, **kwargs: Any) -> Any:
            expression = super()._parse_primary_key(*args, **kwargs)
            self._match_text_seq("NOT", "ENFORCED")
            return expression


@lru_cache(maxsize=1)
def _parser() -> Any:
    """Return the parser of Flink's DDL. It raises an error at the first mistake."""
    # sqlglot logs the text, which may hold secrets, for statements that are refused here anyway
    logging.getLogger("sqlglot").disabled = True
    return _Flink.Parser(dialect=_Flink(), error_level=ErrorLevel.IMMEDIATE)

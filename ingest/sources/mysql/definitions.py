"""The definition of a column: its type, its attributes. From DDL, and from COLUMN_TYPE of information_schema.

The types that a server makes of others (BOOL, TEXT(300), CHAR … CHARACTER SET binary) are those that it then has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from ingest.sources.mysql.tokens import NotUnderstood, ServerRules, SqlToken, WordCursor, words
from ingest.sources.mysql.types import GEOMETRIES, TEXTS, Column, char_width, charset_name, charset_of, collation_name

REAL_AS_FLOAT: Final = 1
ORACLE: Final = 0x200

_NAMES: Final = {
    "INT1": "tinyint", "INT2": "smallint", "INT3": "mediumint", "MIDDLEINT": "mediumint", "INT4": "int",
    "INTEGER": "int", "INT8": "bigint", "DEC": "decimal", "NUMERIC": "decimal", "FIXED": "decimal", "NUMBER": "decimal",
    "FLOAT4": "float", "FLOAT8": "double", "REAL": "double", "CHARACTER": "char", "VARCHARACTER": "varchar",
    "VARCHAR2": "varchar", "NVARCHAR": "varchar", "NCHAR": "char", "RAW": "varbinary", "CLOB": "longtext",
    "GEOMCOLLECTION": "geomcollection",
}  # fmt: skip
_WHOLE: Final = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint"})
_FRACTIONS: Final = frozenset({"float", "double", "decimal"})
_TIMES: Final = frozenset({"time", "datetime", "timestamp"})
_PLAIN: Final = frozenset({
    "date", "json", "uuid", "inet4", "inet6", "xmltype", "tinyblob", "mediumblob", "longblob",
    "tinytext", "mediumtext", "longtext",
})  # fmt: skip
_SIZED: Final = frozenset({"char", "varchar", "binary", "varbinary", "bit", "year", "text", "blob", "vector"})
_SERIAL: Final = "serial"
_AS_BYTES: Final = {"char": "binary", "varchar": "varbinary"}
_LARGEST: Final = 65535
"""Bytes of a row, and so of a VARCHAR. A longer one becomes a text where the sql_mode is not strict."""
_DIGITS: Final = {"tinyint": (3, 4), "smallint": (5, 6), "mediumint": (8, 9), "int": (10, 11), "bigint": (20, 20)}


@dataclass(frozen=True, slots=True)
class Context:
    """The settings that a column's definition depends on: server, SQL mode, default character set."""

    server: ServerRules
    sql_mode: int = 0
    charset: str | None = None
    """The character set of columns that name none."""
    collation: str | None = None


class Reference(NamedTuple):
    """The REFERENCES clause of a foreign key."""

    table: tuple[str | None, str]
    on_delete: str
    """Nothing where the database refuses the change, or logs the rows that it changes."""
    on_update: str
    columns: tuple[str, ...] = ()
    """The columns of that table; nothing where it is its primary key."""


@dataclass(slots=True)
class Definition:
    """A column as a statement defines it, with the keys and constraints of its definition."""

    column: Column
    primary: bool = False
    unique: bool = False
    auto_increment: bool = False
    first: bool = False
    after: str | None = None
    period: str = ""
    """`start` or `end`: the column says how long a row of a versioned table was valid."""
    references: Reference | None = None


def column_type(name: str, text: str, charset: str | None, collation: str | None, server: ServerRules) -> Column:
    """Return the column of a COLUMN_TYPE of information_schema. One of a type that is not known keeps its name."""
    context = Context(server, 0, charset, collation)
    cursor = WordCursor(words(text, server=server).tokens)
    try:
        column = _type(cursor, name, context)
    except NotUnderstood:
        return Column(name, text.partition("(")[0].strip().lower())
    if column.charset is not None and charset is None:
        return replace(column, charset=None, collation=None)
    return column


def definition(cursor: WordCursor, name: str, context: Context) -> Definition:
    """Return the definition that follows a column's name. Raise NotUnderstood."""
    serial = cursor.peek() == _SERIAL.upper()
    out = Definition(_type(cursor, name, context))
    null: bool | None = None
    if serial:
        out.auto_increment = out.unique = True
        null = False
    while cursor:
        if cursor.take("NOT", "NULL"):
            null = False
        elif cursor.take("NULL"):
            null = True
        else:
            _attribute(cursor, out, context)
    column = out.column
    if null is None:
        implied = column.type == "timestamp" and not context.server.explicit_timestamp and not column.generated
        null = not implied and not out.auto_increment
    if out.primary or out.period:
        null = False
    out.column = replace(column, nullable=null)
    return out


def _type(cursor: WordCursor, name: str, context: Context) -> Column:
    """Parse and return a column's type with its length, labels and attributes."""
    word = cursor.next()
    if word.kind != "word":
        raise NotUnderstood(f"{word.text[:40]!r} is no type")
    upper = word.upper
    if cursor.take("."):  # MariaDB: `mariadb_schema.date`
        upper = cursor.next().upper
    national = upper in {"NATIONAL", "NCHAR", "NVARCHAR"}
    if upper == "NATIONAL":
        upper = cursor.next().upper
    kind = _NAMES.get(upper, upper.lower())
    if upper == "REAL" and context.sql_mode & REAL_AS_FLOAT:
        kind = "float"
    if upper == "DATE" and context.sql_mode & ORACLE:
        kind = "datetime"
    if kind == "double":
        cursor.take("PRECISION")
    if kind == "char" and cursor.take_any("VARYING", "VARCHAR", "VARCHARACTER"):
        kind = "varchar"
    column: Column
    if kind in {"bool", "boolean"}:
        column = Column(name, "tinyint", length=1)
    elif kind == _SERIAL:
        column = Column(name, "bigint", length=20, unsigned=True, nullable=False)
    elif kind in _WHOLE:
        column = _number(cursor, Column(name, kind, length=_size(cursor)))
    elif kind in _FRACTIONS:
        column = _fraction(cursor, Column(name, kind), upper)
    elif kind in _TIMES:
        column = Column(name, kind, fsp=_size(cursor) or 0)
    elif kind == "long":
        kind = "mediumblob" if cursor.take("VARBINARY") or cursor.take("RAW") else "mediumtext"
        if cursor.take_any("CHAR", "CHARACTER"):
            cursor.expect("VARYING")
        elif kind == "mediumtext":
            cursor.take_any("VARCHAR", "VARCHARACTER")
        column = Column(name, kind)
    elif kind in {"enum", "set"}:
        column = Column(name, kind, labels=tuple(part.text() for part in cursor.brackets().parts()))
    elif kind in GEOMETRIES:
        column = Column(name, kind)
    elif kind in _PLAIN:
        _size(cursor)
        column = Column(name, kind)
    elif kind in _SIZED:
        default = 1 if kind in {"char", "binary", "bit"} else 4 if kind == "year" else None
        size = _size(cursor)
        column = Column(name, kind, length=default if size is None else size)
        if column.length == 0 and kind in {"bit", "text", "blob"}:
            column = replace(column, length=1 if kind == "bit" else None)
        if kind == "blob" and size is None and context.sql_mode & ORACLE:
            column = replace(column, type="longblob")
    else:
        raise NotUnderstood(f"{word.text[:40]!r} is no type that is known")
    return _text(cursor, column, context, national=national)


def _size(cursor: WordCursor) -> int | None:
    """Return the number in the brackets that come next; None where none come."""
    if cursor.peek() != "(":
        return None
    inside = cursor.brackets()
    size = inside.number()
    if inside:  # Oracle's VARCHAR2(10 CHAR)
        inside.take_any("CHAR", "BYTE")
    inside.done()
    return size


def _number(cursor: WordCursor, column: Column) -> Column:
    """Return a number with its sign. ZEROFILL is unsigned."""
    unsigned = zerofill = False
    while word := cursor.take_any("UNSIGNED", "SIGNED", "ZEROFILL"):
        unsigned = unsigned or word in {"UNSIGNED", "ZEROFILL"}
        zerofill = zerofill or word == "ZEROFILL"
    return replace(column, unsigned=unsigned)


def _fraction(cursor: WordCursor, column: Column, upper: str) -> Column:
    precision = scale = None
    if cursor.peek() == "(":
        inside = cursor.brackets()
        precision = inside.number()
        if inside.take(","):
            scale = inside.number()
        inside.done()
    if column.type == "decimal":
        if upper == "NUMBER" and precision is None:  # Oracle's
            column = replace(column, type="double")
        else:
            column = replace(column, precision=precision or 10, scale=scale or 0)
    elif scale is not None:
        column = replace(column, precision=precision, scale=scale)
    elif column.type == "float" and precision is not None and precision > 24:
        column = replace(column, type="double")
    return _number(cursor, column)


def _text(cursor: WordCursor, column: Column, context: Context, *, national: bool) -> Column:
    """Return a text column with its character set, and the type that the server converts it to."""
    named: str | None = "utf8mb3" if national else None
    collation: str | None = None
    binary = False
    while True:
        if cursor.take("CHARACTER", "SET") or cursor.take("CHARSET") or cursor.take("CHAR", "SET"):
            named = charset_name(cursor.word())
        elif cursor.take("ASCII"):
            named = "latin1"
        elif cursor.take("UNICODE"):
            named = "ucs2"
        elif cursor.take("BYTE"):
            named = "binary"
        elif cursor.take("BINARY"):
            binary = True
        elif cursor.take("COLLATE"):
            collation = collation_name(cursor.word())
        elif cursor.take("COMPRESSED"):
            if cursor.take("="):
                cursor.next()
        else:
            break
    return with_charset(column, named, collation, context, binary=binary)


def with_charset(
    column: Column, named: str | None, collation: str | None, context: Context, *, binary: bool = False
) -> Column:
    """Return a column with the character set that it names, or with the default; a text of bytes as its own type."""
    if column.type not in TEXTS and column.type not in {"enum", "set"}:
        if column.type == "json" and context.server.mariadb:
            return replace(column, type="longtext", charset="utf8mb4", collation="utf8mb4_bin")
        if column.type == "blob" and column.length is not None:
            return replace(column, type=_sized(column.length, "blob"), length=None)
        return _shortened(column)
    charset = named
    if charset is None and collation is not None:
        charset = charset_of(collation, context.charset)
    if charset is None:
        charset, collation = context.charset, collation or context.collation
    if binary and charset != "binary":
        collation = f"{charset or ''}_bin"
    if charset == "binary" and column.type not in {"enum", "set"}:
        kind = _AS_BYTES.get(column.type, column.type.replace("text", "blob"))
        column = replace(column, type=kind, charset=None, collation=None)
        if kind == "blob" and column.length is not None:
            return replace(column, type=_sized(column.length, "blob"), length=None)
        return _shortened(column)
    column = replace(column, charset=charset, collation=collation)
    if column.type == "text" and column.length is not None:
        return replace(column, type=_sized(column.length * char_width(charset), "text"), length=None)
    return _shortened(column)


def _shortened(column: Column) -> Column:
    """Return a CHAR or VARCHAR that is too long as the text that a server makes of it where it is not strict."""
    if column.length is None or column.type not in {"char", "varchar", "binary", "varbinary"}:
        return column
    size = column.length * char_width(column.charset)
    most = 255 if column.type in {"char", "binary"} else _LARGEST
    if (column.length if most == 255 else size) <= most:
        return column
    return replace(column, type=_sized(size, "text" if column.charset else "blob"), length=None)


def _sized(size: int, kind: str) -> str:
    """Return the smallest TEXT or BLOB type that holds this number of bytes."""
    for limit, prefix in ((1 << 8, "tiny"), (1 << 16, ""), (1 << 24, "medium")):
        if size < limit:
            return prefix + kind
    return "long" + kind


def _attribute(cursor: WordCursor, out: Definition, context: Context) -> None:
    """Parse one attribute of a column. Raise NotUnderstood for an unknown attribute."""
    column = out.column
    if cursor.take("DEFAULT"):
        out.column = replace(column, default=default(cursor))
    elif cursor.take("ON", "UPDATE"):
        default(cursor)
    elif cursor.take_any("AUTO_INCREMENT", "AUTOINCREMENT"):
        out.auto_increment = True
    elif cursor.take("SERIAL", "DEFAULT", "VALUE"):
        out.auto_increment = out.unique = True
    elif cursor.take("UNIQUE"):
        cursor.take("KEY")
        out.unique = True
    elif cursor.take("PRIMARY", "KEY") or cursor.take("PRIMARY") or cursor.take("KEY"):
        out.primary = True
    elif cursor.take("COMMENT"):
        out.column = replace(column, comment=cursor.text())
    elif cursor.take("COLLATE"):
        collation = collation_name(cursor.word())
        plain = replace(context, charset=column.charset) if column.charset else context
        out.column = with_charset(column, None, collation, plain)
    elif cursor.take_any("COLUMN_FORMAT", "STORAGE", "ENGINE_ATTRIBUTE", "SECONDARY_ENGINE_ATTRIBUTE"):
        cursor.take("=")
        cursor.next()
    elif cursor.take_any("INVISIBLE", "HIDDEN"):
        out.column = replace(column, invisible=True)
    elif cursor.take("VISIBLE") or cursor.take("NOT", "SECONDARY"):
        pass
    elif cursor.take("SRID") or cursor.take("REF_SYSTEM_ID", "="):
        out.column = replace(column, srs_id=cursor.number())
    elif cursor.take("GENERATED", "ALWAYS", "AS", "ROW", "END") or cursor.take("AS", "ROW", "END"):
        out.column, out.period = replace(column, generated=True), "end"
    elif cursor.take("GENERATED", "ALWAYS", "AS", "ROW", "START") or cursor.take("AS", "ROW", "START"):
        out.column, out.period = replace(column, generated=True), "start"
    elif cursor.take("GENERATED", "ALWAYS", "AS") or cursor.take("AS"):
        cursor.brackets()
        cursor.take_any("VIRTUAL", "STORED", "PERSISTENT")
        out.column = replace(column, generated=True)
    elif cursor.take("REFERENCES"):
        out.references = references(cursor, context.server)
    elif cursor.take("CONSTRAINT"):
        if cursor.peek() != "CHECK":
            cursor.name()
    elif cursor.take("CHECK"):
        cursor.brackets()
        if not cursor.take("NOT", "ENFORCED"):
            cursor.take("ENFORCED")
    elif cursor.take("WITH", "SYSTEM", "VERSIONING") or cursor.take("WITHOUT", "SYSTEM", "VERSIONING"):
        pass
    elif cursor.take("FIRST"):
        out.first = True
    elif cursor.take("AFTER"):
        out.after = cursor.name()
    elif cursor.kind() in {"word", "name"} and cursor.peek(1) == "=":  # an option of MariaDB's engines
        cursor.next()
        cursor.next()
        cursor.next()
    else:
        raise NotUnderstood(f"what stands {cursor.place()} is no attribute of a column that is known")


def references(cursor: WordCursor, server: ServerRules) -> Reference:
    """Parse a REFERENCES clause: the parent table and its ON DELETE and ON UPDATE actions. Raise NotUnderstood."""
    table = table_name(cursor)
    columns = tuple(part.name() for part in cursor.brackets().parts()) if cursor.peek() == "(" else ()
    matched = cursor.take("MATCH")
    if matched:
        cursor.next()
    actions = {"DELETE": "", "UPDATE": ""}
    while cursor.peek() == "ON" and cursor.peek(1) in actions:
        when = cursor.peek(1)
        cursor.at += 2
        for action in (("CASCADE",), ("SET", "NULL"), ("SET", "DEFAULT"), ("RESTRICT",), ("NO", "ACTION")):
            if cursor.take(*action):
                actions[when] = "" if action[0] in {"RESTRICT", "NO"} else " ".join(action)
                break
        else:
            raise NotUnderstood(f"what stands {cursor.place()} is no action of a foreign key")
    if server.logs_cascades or (matched and not server.mariadb):  # with MATCH, MySQL ignores the actions
        return Reference(table, "", "", columns)
    return Reference(table, actions["DELETE"], actions["UPDATE"], columns)


def table_name(cursor: WordCursor) -> tuple[str | None, str]:
    """Return a table's name with its database; None: the default one. Raise NotUnderstood."""
    if cursor.take("."):  # `.t` is a table of the default database
        return None, cursor.name()
    first = cursor.name()
    return (first, cursor.name()) if cursor.take(".") else (None, first)


def default(cursor: WordCursor) -> str | None:
    """Return the text of a default that comes next; None for NULL. Raise NotUnderstood."""
    begin = cursor.at
    if cursor.take("NULL"):
        return None
    if cursor.peek() == "(":
        cursor.brackets()
        return shown(cursor.since(begin))
    cursor.take_any("-", "+")
    if cursor.kind() == "text" or (cursor.kind() == "word" and cursor.kind(1) == "text"):
        if cursor.kind() == "word":  # a character set, or DATE '2020-01-01'
            cursor.next()
        return cursor.text()
    token = cursor.next()
    if token.kind in {"number", "bits"}:
        return shown(cursor.since(begin))
    if token.upper == "NEXT":
        cursor.expect("VALUE", "FOR")
        cursor.name()
        if cursor.take("."):
            cursor.name()
    elif token.kind == "word":
        while cursor.take("."):
            cursor.name()
        if cursor.peek() == "(":
            cursor.brackets()
    else:
        raise NotUnderstood(f"{token.text[:40]!r} is no default")
    return shown(cursor.since(begin))


def shown(tokens: Sequence[SqlToken]) -> str:
    """Return tokens as a text for people."""
    return " ".join(token.text for token in tokens)

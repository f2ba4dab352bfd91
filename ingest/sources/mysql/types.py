"""Tables and columns as a server defines them, and their types.

- `Table`, `Column`, `ForeignKey`: what information_schema, or a DDL statement, says.
- `data_type`: a column's type. Snapshot and log write the same text for a value: that of docs/spec/mysql.md#types.
- Names of character sets, columns that a server hides, and whether a column with another definition keeps its values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from ingest.model import types
from ingest.model.types import CharType, DataType, DecimalType, TimeType, VarcharType
from ingest.model.values import fits

TableName: TypeAlias = tuple[str, str]
"""A database and the name of a table in it, as rows of the log have them."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column, as the server defines it."""

    name: str
    type: str
    """The type's name in lower case, as `DATA_TYPE` of information_schema has it: `int`, `varchar`, `enum`."""
    length: int | None = None
    """The number in brackets: characters of texts, bytes of BINARY, bits of BIT, the display width of an integer."""
    precision: int | None = None
    """Digits of DECIMAL, and of FLOAT(p, s) and DOUBLE(p, s)."""
    scale: int | None = None
    fsp: int = 0
    """Digits of the fraction of a second."""
    unsigned: bool = False
    charset: str | None = None
    """The character set of texts, ENUM and SET."""
    collation: str | None = None
    labels: tuple[str, ...] = ()
    """The labels of ENUM and SET, in their order."""
    nullable: bool = True
    generated: bool = False
    invisible: bool = False
    srs_id: int | None = None
    default: str | None = None
    """The text of the default, as the server prints it; None where there is none."""
    comment: str = ""
    hidden: bool = False
    """True if the server keeps it for itself: rows of the log have it, and no query does."""


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """A foreign key by which a change of another table changes rows of this table, which MySQL logs from 9.6 on."""

    name: str
    parent: TableName
    """The database and the name of the table that it refers to."""
    on_delete: str
    """`CASCADE`, `SET NULL`, `SET DEFAULT`, or nothing."""
    on_update: str
    columns: tuple[str, ...] = ()
    referenced: tuple[str, ...] = ()
    """The columns of the other table; nothing where they are not known."""


@dataclass(frozen=True, slots=True)
class Table:
    """One table. Its columns are in the order of the server's rows, hidden ones that are in row images among them."""

    database: str
    name: str
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...] = ()
    unique_keys: tuple[tuple[str, ...], ...] = field(default_factory=tuple)
    """The columns of unique indexes other than the primary key, in the server's order."""
    charset: str | None = None
    """The default character set of the table, for columns that a later statement adds."""
    collation: str | None = None
    engine: str = "InnoDB"
    comment: str = ""
    unique_names: tuple[str, ...] = ()
    """The names of `unique_keys`, in the same order."""
    other_indexes: tuple[str, ...] = ()
    """The names of all other indexes."""
    cascades: tuple[ForeignKey, ...] = ()
    row_end: str | None = None
    """MariaDB's versioned tables: the column with the time at which a row ended. Rows that have ended are history."""

    def find(self, name: str) -> Column | None:
        """Return the column of a name, in whatever case."""
        wanted = name.lower()
        return next((column for column in self.columns if column.name.lower() == wanted), None)


BIGINT_UNSIGNED: Final = DecimalType(20, 0)
_SIGNED: Final[dict[str, DataType]] = {
    "tinyint": types.TINYINT,
    "smallint": types.SMALLINT,
    "mediumint": types.INT,
    "int": types.INT,
    "bigint": types.BIGINT,
}
_UNSIGNED: Final[dict[str, DataType]] = {
    "tinyint": types.SMALLINT,
    "smallint": types.INT,
    "mediumint": types.INT,
    "int": types.BIGINT,
    "bigint": BIGINT_UNSIGNED,
}
_SIMPLE: Final[dict[str, DataType]] = {
    "double": types.DOUBLE,
    "year": types.INT,
    "date": types.DATE,
    "datetime": types.TIMESTAMP,
    "timestamp": types.TIMESTAMP_LTZ,
}
TEXTS: Final = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext"})
BINARIES: Final = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "vector"})
GEOMETRIES: Final = frozenset({
    "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon",
    "geometrycollection", "geomcollection",
})  # fmt: skip
FIXED: Final[dict[str, int]] = {"uuid": 16, "inet6": 16, "inet4": 4}
"""MariaDB's types that have a fixed number of bytes in the log, and a text in a query."""
_OTHERS: Final = frozenset({"enum", "set", "json", "xmltype"})
KNOWN: Final = (
    frozenset({*_SIGNED, *_SIMPLE, *FIXED, "float", "decimal", "bit", "time"}) | TEXTS | BINARIES | GEOMETRIES | _OTHERS
)
"""Every type that a column may have, by the name that information_schema has in DATA_TYPE."""


def data_type(column: Column, *, tinyint1_as_boolean: bool = False) -> DataType:
    """Return the type of a column. A column of a type that is not known is a STRING.

    `tinyint1_as_boolean`: the option `treat-tinyint1-as-boolean.enabled`.
    """
    kind = column.type
    if kind in _SIGNED:
        if column.unsigned:
            return _UNSIGNED[kind]
        return types.BOOLEAN if tinyint1_as_boolean and is_tinyint1(column) else _SIGNED[kind]
    if kind == "decimal":
        precision, scale = 10 if column.precision is None else column.precision, column.scale or 0
        return types.STRING if precision > types.MAX_PRECISION else DecimalType(precision, scale)
    if kind == "float":
        return types.FLOAT if column.precision is None else types.DOUBLE
    if kind == "bit":
        return types.BOOLEAN if column.length in {None, 1} else types.BYTES
    if kind == "time":
        return TimeType(column.fsp)
    if kind in {"char", "varchar"}:
        length = max(1 if column.length is None else column.length, 1)
        return CharType(length) if kind == "char" else VarcharType(length)
    if kind in BINARIES:
        return types.BYTES
    return _SIMPLE.get(kind, types.STRING)


_DAY: Final = re.compile(rb'"[0-9]{4}-[0-9]{2}-[0-9]{2}(?: [0-9:.]{8,15})?Z?"')


def is_no_day(data_type: DataType, text: bytes) -> bool:
    """Return whether a value is a date of MySQL's that is none of the calendar, as `"0000-00-00"`."""
    return isinstance(data_type, types.TIMES) and _DAY.fullmatch(text) is not None and not fits(data_type, text)


def is_tinyint1(column: Column) -> bool:
    """Return whether a column is TINYINT(1), of which BOOL and BOOLEAN are other names."""
    return column.type == "tinyint" and column.length == 1 and not column.unsigned


def boolean(value: int) -> bytes:
    """Return the JSON text of a TINYINT(1) that the pipeline takes as a BOOLEAN.

    A number that is neither 0 nor 1 stays a number, which a BOOLEAN column rejects: `type-mismatch`.
    """
    return b"true" if value == 1 else b"false" if value == 0 else str(value).encode()


_SAME: Final = {"utf8": "utf8mb3"}
_WIDTHS: Final = {
    "utf8mb4": 4, "utf8mb3": 3, "ucs2": 2, "utf16": 4, "utf16le": 4, "utf32": 4, "big5": 2, "gbk": 2, "gb2312": 2,
    "gb18030": 4, "sjis": 2, "cp932": 2, "euckr": 2, "ujis": 3, "eucjpms": 3,
}  # fmt: skip
UNICODE_CHARSETS: Final = frozenset({"utf8mb4", "utf16", "utf16le", "utf32"})
"""Character sets that have every character."""


def charset_name(name: str) -> str:
    """Return the one name of a character set: `utf8mb3` for `utf8`, whichever of the two a server prints."""
    found = name.lower()
    return _SAME.get(found, found)


def charset_of(collation: str, default: str | None = None) -> str | None:
    """Return the character set of a collation; `default` for MariaDB's names that go with each (`uca1400_ai_ci`)."""
    found = collation.lower()
    return default if found.startswith("uca") else charset_name(found.partition("_")[0])


def collation_name(name: str) -> str:
    """Return the one name of a collation: with `utf8mb3` for `utf8`."""
    found = name.lower()
    return "utf8mb3" + found[4:] if found.startswith("utf8_") else found


def char_width(name: str | None) -> int:
    """Return how many bytes a character has at most."""
    return _WIDTHS.get(name or "", 1)


ROW_START: Final = Column("row_start", "timestamp", fsp=6, nullable=False, generated=True, invisible=True, hidden=True)
ROW_END: Final = replace(ROW_START, name="row_end")
"""What a versioned table of MariaDB has where it names no columns for its periods."""
_LONGEST_KEY: Final = 3072
"""Bytes of a key of InnoDB. MariaDB keeps a longer unique key by a hash, in a hidden column."""


def row_hash(number: int) -> Column:
    """Return the hidden column of MariaDB's unique key that is kept by a hash; `number`: which one of the table."""
    return Column(f"DB_ROW_HASH_{number}", "bigint", length=20, unsigned=True, invisible=True, hidden=True)


def is_hashed(columns: Iterable[Column]) -> bool:
    """Return whether MariaDB keeps a unique key of these columns, without prefixes, by a hash."""
    size = 0
    for column in columns:
        if column.type in {"char", "varchar"}:
            size += (column.length or 0) * char_width(column.charset)
        elif column.type in {"binary", "varbinary"}:
            size += column.length or 0
        elif column.type in TEXTS or column.type in BINARIES or column.type in GEOMETRIES:
            return True
    return size > _LONGEST_KEY


def with_expressions(columns: tuple[Column, ...], expressions: Sequence[tuple[str, int]]) -> tuple[Column, ...]:
    """Return columns with the hidden ones of MySQL's indexes of expressions: name of each, and how many it has."""
    return (
        *columns,
        *(
            Column(f"!hidden!{name}!{at}!0", "", generated=True, invisible=True, hidden=True)
            for name, count in expressions
            for at in range(count)
        ),
    )


_BITS: Final = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_DIGITS: Final = {"tinyint": 3, "smallint": 5, "mediumint": 8, "int": 10, "bigint": 20}
_TEXT_BYTES: Final = {
    "tinytext": 255,
    "text": 65535,
    "mediumtext": (1 << 24) - 1,
    "longtext": (1 << 32) - 1,
    "tinyblob": 255,
    "blob": 65535,
    "mediumblob": (1 << 24) - 1,
    "longblob": (1 << 32) - 1,
}


def changes_values(before: Column, after: Column, *, strict: bool) -> str | None:
    """Return why a column's new definition may change stored values, for people; None where they stay as they are."""
    if after.generated or before.generated:
        return None if _same(before, after) and after.generated and before.generated else "a generated column"
    if before.nullable and not after.nullable and not strict:
        return "NOT NULL where the sql_mode is not strict"
    return None if _keeps(before, after, strict=strict) else f"a change from {_shown(before)} to {_shown(after)}"


def _same(before: Column, after: Column) -> bool:
    return _shown(before) == _shown(after) and before.charset == after.charset


def _keeps(before: Column, after: Column, *, strict: bool) -> bool:  # noqa: PLR0911  (a line for each family of types)
    a, b = before.type, after.type
    if a in _BITS and b in _BITS:
        return strict or _wider(before, after)
    if a in _BITS and b == "decimal":
        return strict or (after.precision or 10) - (after.scale or 0) >= _DIGITS[a]
    if a == b == "decimal":
        whole = [(column.precision or 10) - (column.scale or 0) for column in (before, after)]
        return (after.scale or 0) >= (before.scale or 0) and (strict or whole[1] >= whole[0])
    if a in TEXTS and b in TEXTS:
        return _texts(before, after)
    if a in BINARIES and b in BINARIES:
        return (b == a == "binary" and before.length == after.length) or (
            b != "binary" and _room(after) >= _room(before)
        )
    if a == b == "enum":
        return set(before.labels) <= set(after.labels)
    if a == b == "set":
        kept = [label for label in after.labels if label in before.labels]
        return kept == list(before.labels)
    if a == "enum" and b in TEXTS:
        return b != "char" and _characters(after) >= max(map(len, before.labels), default=0)
    if a == b and a in {"time", "datetime", "timestamp"}:
        return after.fsp >= before.fsp
    if a == b and a in {"float", "double"}:
        return before.precision is None and after.precision is None
    if (a, b) == ("date", "datetime"):
        return True
    if a == b == "bit":
        return before.length == after.length
    if a in GEOMETRIES and b == "geometry":
        return True
    return a == b and (before.length or 0) == (after.length or 0)


def _wider(before: Column, after: Column) -> bool:
    if before.unsigned == after.unsigned:
        return _BITS[after.type] >= _BITS[before.type]
    return before.unsigned and _BITS[after.type] > _BITS[before.type]


def _texts(before: Column, after: Column) -> bool:
    """Return whether texts stay. Blanks at the end are cut in silence where a text becomes shorter."""
    if before.charset != after.charset and after.charset not in UNICODE_CHARSETS and before.charset != "ascii":
        return False
    if after.type == "char" and before.type != "char":
        return False
    if before.type == after.type and after.type in _TEXT_BYTES:
        return True
    return _characters(after) >= _characters(before)


def _characters(column: Column) -> int:
    """Return how many characters a text certainly has room for, or may have."""
    if column.type in {"char", "varchar"}:
        return column.length or 0
    return _TEXT_BYTES[column.type] // char_width(column.charset)


def _room(column: Column) -> int:
    return column.length or 0 if column.type in {"binary", "varbinary", "vector"} else _TEXT_BYTES[column.type]


def _shown(column: Column) -> str:
    """Return a type as people write it."""
    size = column.length if column.precision is None else column.precision
    if column.labels:
        inside = ", ".join(f"'{label}'" for label in column.labels)
    else:
        inside = "" if size is None else str(size) + (f", {column.scale}" if column.scale else "")
    inside = inside or (str(column.fsp) if column.fsp else "")
    return f"{column.type.upper()}{f'({inside})' if inside else ''}{' UNSIGNED' if column.unsigned else ''}"

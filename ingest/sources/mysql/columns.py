"""Tables of a MySQL server as plain values: what information_schema, or a DDL statement, says of them."""

from __future__ import annotations

from dataclasses import dataclass, field


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

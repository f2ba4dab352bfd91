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
    hidden: bool = False
    """True if the server keeps it for itself: rows of the log have it, and no query does."""


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """A foreign key by which a change of another table changes rows of this table, which MySQL logs from 9.6 on."""

    name: str
    parent: tuple[str, str]
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

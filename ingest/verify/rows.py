"""Rows as a comparison has them: texts of values by column, under a text of their key.

Both sides come to the same texts: what is expected is brought into the forms in which the sink has it. A null has no
entry, so that a column which a row lacks is null.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ingest.component.options import AnyOptions
    from ingest.encode.upsert_encoder import Destination
    from ingest.model.schema import TableSchema
    from ingest.model.table import TableId

Cells: TypeAlias = "dict[str, str]"
"""The texts of the values that are not null, by column."""


class KeyedRow(NamedTuple):
    """A state of a key."""

    key: str
    """The values of the key, as JSON: an array of texts."""
    cells: Cells | None
    """None: there is no row."""


@dataclass(frozen=True, slots=True)
class TableRules:
    """What a table has of the states of a key, and what of it can be compared."""

    keeps_deleted: bool = False
    """True if a delete changes nothing: the row stays as it was."""
    flag: str | None = None
    """The column that says that a row is deleted; None where such rows are gone."""
    sequence: str | None = None
    """The column that says which state is the newest; None where the order of changes does."""
    of_texts: bool = False
    """True if the values of that column are texts, which have another order than numbers."""
    ends: bool = False
    """True if an ended row stays somewhere, so that an older change does not bring it back."""
    all_states: bool = False
    """True if each state is a row."""
    forgets: bool = False
    """True if the source knows the last state of a row only, and nothing of rows that are gone."""
    extra_known: bool = True
    """True if a row whose key has none at the source is a difference; False where nobody can say."""
    missing_known: bool = True
    """True if a row that the sink lacks is a difference; False where it may have been there."""


@dataclass(frozen=True, slots=True)
class TableThere:
    """A sink table as it was found."""

    key: tuple[str, ...]
    rules: TableRules
    place: str
    """Where it is, for people."""
    missing: tuple[str, ...] = ()
    """Columns that it lacks."""
    dropped: tuple[str, ...] = ()
    """Columns that the source has no longer: the sink keeps what it had of them."""
    absent: bool = False
    """True if it is not there."""
    skipped: str = ""
    """Why it cannot be compared; empty where it can."""
    notes: tuple[str, ...] = ()
    """What of it cannot be verified."""

    @property
    def left_out(self) -> tuple[str, ...]:
        """Columns that are not compared row by row."""
        return (*self.missing, *self.dropped)


class SinkReader(Protocol):
    """What a sink's tables have, and what they should have of the records that an encoder makes. Raises IngestError."""

    states: bool
    """True if `rows` yields states of keys in their order, of which the last one counts; False if rows that are there.
    """

    @property
    def unreadable(self) -> Mapping[TableId, tuple[int, str]]:
        """By table: records in its place that are no rows of it, and why the first of them is none."""

    @property
    def cut(self) -> int:
        """How many times of expected rows lost what is finer than a microsecond, beside those that runs count."""

    @property
    def sink(self) -> AnyOptions:
        """The options of the sink by whose encoder expected rows are made."""

    def tables(self, schemas: Mapping[TableId, TableSchema]) -> dict[TableId, TableThere]:
        """Return the tables as they are; they are compared by these schemas from now on."""

    def rows(self, tables: Sequence[TableId]) -> Iterator[tuple[TableId, list[KeyedRow]]]:
        """Yield all rows of tables, some at a time. No transaction lasts longer than some of them."""

    def target(self, destination: Destination) -> TableId | None:
        """Return the table that a record's destination stands for; None for one that is not compared."""

    def expected(
        self, table: TableId, made: Destination, records: Sequence[tuple[bytes, bytes | None]]
    ) -> list[KeyedRow]:
        """Return rows as the table would have them, of the keys and values of records; leave out what it refuses.

        `made`: the destination that the encoder gave the records.
        """

    def close(self) -> None:
        """Release connections."""


def key_of(cells: Mapping[str, str], key: Sequence[str]) -> str:
    """Return the text of a row's key."""
    return orjson.dumps([cells.get(name) for name in key]).decode()


@dataclass(slots=True)
class Counts:
    """Counts of what a comparison has found in a table."""

    compared: int = 0
    """Keys of either side."""
    missing: int = 0
    extra: int = 0
    other: int = 0
    duplicate: int = 0
    open: int = 0
    """Keys whose last state depends on the order of several partitions of the source: any of them counts as right."""
    behind: int = 0
    """Keys that the sink has in an older state, as a batch that is not finished may have left them."""
    unjudged: int = 0
    """Rows of keys that the source does not know, where nobody can say whether they are right."""

    @property
    def different(self) -> int:
        """Keys that differ."""
        return self.missing + self.extra + self.other + self.duplicate


@dataclass(frozen=True, slots=True)
class RowDifference:
    """A key that differs."""

    kind: str
    """`missing`, `extra`, `other` or `duplicate`."""
    key: Mapping[str, str | None]
    cells: tuple[tuple[str, str | None, str | None], ...] = ()
    """Column, the source's value and the sink's, where they differ; of a missing or extra row all of its columns."""
    rows: int = 1
    """The rows of the key in the sink."""


@dataclass(slots=True)
class TableVerdict:
    """What was found of a sink table."""

    table: str
    sources: list[str]
    place: str
    counts: Counts = field(default_factory=Counts)
    differences: list[RowDifference] = field(default_factory=list)
    """The first of them."""
    missing_columns: list[str] = field(default_factory=list)
    absent: bool = False
    skipped: str = ""
    """Why it was not compared; empty where it was."""
    unreadable: int = 0
    """Records in its place that are no rows of it."""
    notes: list[str] = field(default_factory=list)
    """What could not be verified of it."""
    repair: str = ""
    """What brings the rows, for people."""
    twice: int = 0
    """Keys that were compared once more, as the pipeline was writing."""

    @property
    def equal(self) -> bool:
        """True if nothing differs."""
        return not (self.counts.different or self.missing_columns or self.absent or self.unreadable)

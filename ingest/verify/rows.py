"""Rows as a comparison has them: texts of values by column, under a text of their key.

Values that a column takes for equal have the same text, in whichever form the sink or the format has them: numbers are
equal by value, times by the moment, texts by their characters. A null has no entry, nor has a column that a row lacks.
Rules: docs/spec/values.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias, TypeVar

import msgspec
import orjson

from ingest.errors import SchemaChangeRefused
from ingest.model import temporal, types
from ingest.model.floats import shortest
from ingest.model.jsontext import MALFORMED, fields_of
from ingest.model.reject import RowError
from ingest.model.spelling import plain_number, respelled
from ingest.model.table import TableId, show
from ingest.model.types import (
    ArrayType,
    BinaryType,
    DecimalType,
    DoubleType,
    FloatType,
    MapType,
    StructType,
    TimestampNTZType,
    TimestampType,
    TimeType,
)
from ingest.model.values import elements_of, holds, written
from ingest.sinks.lake.values import reader_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ingest.component.options import AnyOptions
    from ingest.model.schema import TableSchema
    from ingest.model.types import DataType

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
class SinkTable:
    """A table of the sink, and what of it is compared."""

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


D = TypeVar("D")
"""The class of a sink's destinations."""


class SinkReader(ABC, Generic[D]):
    """Reads the rows of a sink's tables, and says which rows encoded records should become. Raises IngestError."""

    states: bool
    """True if `rows` yields states of keys in their order, of which the last one counts; False if rows that are there.
    """

    sink: AnyOptions
    """The options of the sink by whose encoder expected rows are made."""
    unreadable: Mapping[TableId, tuple[int, str]] = MappingProxyType({})
    """By table: records in its place that are no rows of it, and why the first of them is none."""

    @property
    def cut(self) -> int:
        """How many times of expected rows lost what is finer than a microsecond, beside those that runs count."""
        return 0

    @abstractmethod
    def tables(self, schemas: Mapping[TableId, TableSchema]) -> dict[TableId, SinkTable]:
        """Return the tables as they are; they are compared by these schemas from now on."""

    @abstractmethod
    def rows(self, tables: Sequence[TableId]) -> Iterator[tuple[TableId, list[KeyedRow]]]:
        """Yield all rows of tables, some at a time. No transaction lasts longer than some of them."""

    @abstractmethod
    def target(self, destination: D) -> TableId | None:
        """Return the table that a record's destination stands for; None for one that is not compared."""

    @abstractmethod
    def expected(self, table: TableId, destination: D, records: Sequence[tuple[bytes, bytes | None]]) -> list[KeyedRow]:
        """Return the row of each record, with values as the table stores them; a delete has no cells.

        `records`: key and row as JSON, None for a delete. Those that the sink refuses are left out. `destination`: the
        one that the encoder gave the records.
        """


def key_of(cells: Mapping[str, str], key: Sequence[str]) -> str:
    """Return the text of a row's key."""
    return orjson.dumps([cells.get(name) for name in key]).decode()


def table_for(sink: AnyOptions, target: TableId, schema: TableSchema) -> Any:
    """Return the sink's own definition of a table. Raise SchemaChangeRefused where it can have none."""
    try:
        return sink.table_for(target, schema)
    except RowError as exc:  # all of its rows are rejects
        msg = f"the table {show(target)} cannot be one of the sink's: {exc}"
        raise SchemaChangeRefused(msg, "route it to another name") from None


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


_TIMES = (TimestampNTZType, TimestampType, TimeType)
_NESTED = (ArrayType, MapType, StructType)


def cells_of(row: bytes, columns: Mapping[str, DataType] | None = None, *, coarse: bool = False) -> Cells:
    """Return the cells of a row's JSON, of these columns only; without any of all, as texts.

    `coarse`: whether times have microseconds. Raise one of MALFORMED.
    """
    out: Cells = {}
    for name, raw in fields_of(row).items():
        if columns is None or name in columns:
            kind = types.STRING if columns is None else columns[name]
            text = cell(kind, bytes(raw).strip(), coarse=coarse)
            if text is not None:
                out[name] = text
    return out


def cell(kind: DataType, raw: bytes, *, coarse: bool = False) -> str | None:
    """Return the text of a value; None for null. What says no value of the type is its JSON."""
    if raw == b"null":
        return None
    if types.is_text(kind):
        return msgspec.json.decode(written(raw, types.STRING, types.STRING), type=str)
    if isinstance(kind, _NESTED):
        try:
            return orjson.dumps(_inside(kind, raw, coarse=coarse)).decode()
        except (*MALFORMED, TypeError):
            return raw.decode()
    text = raw if holds(kind, raw) else respelled(kind, raw, temporal.SQL)
    if text is None:
        return raw.decode()
    try:
        return _plain(kind, text, coarse=coarse)
    except ValueError:
        return raw.decode()


def _plain(kind: DataType, own: bytes, *, coarse: bool) -> str:
    """Return the text of a value in its type's own form. Raise ValueError."""
    if isinstance(kind, FloatType):
        return repr(shortest(reader_of(kind)(own)[0]))
    if isinstance(kind, DoubleType):
        return repr(float(own) + 0.0)
    if isinstance(kind, DecimalType):
        text = plain_number(own).decode()
        text = text.rstrip("0").rstrip(".") if "." in text else text
        return "0" if text in {"-0", ""} else text
    if isinstance(kind, _TIMES):
        text = own[1:-1].decode()
        zone = "Z" if text.endswith("Z") else ""
        text = text.removesuffix("Z").replace("T", " ")
        text = temporal.coarse(text)[0] if coarse else text
        if isinstance(kind, TimeType) and text.count(":") == 1:
            text += ":00"
        return (text.rstrip("0").rstrip(".") if "." in text else text) + zone
    if isinstance(kind, BinaryType) or own[:1] == b'"':
        return msgspec.json.decode(own, type=str)
    return own.decode()


def _inside(kind: DataType, raw: bytes, *, coarse: bool) -> Any:
    """Return a value of an ARRAY, MAP or ROW with the texts of its parts; a ROW lacks nulls, and has its own order."""
    if raw == b"null":
        return None
    if raw[:1] == b'"' and isinstance(kind, _NESTED):  # a text that holds its JSON
        raw = msgspec.json.decode(raw, type=str).encode()
    if isinstance(kind, ArrayType):
        return [_inside(kind.element, bytes(element), coarse=coarse) for element in elements_of(raw)]
    if isinstance(kind, MapType):
        entries = {name: _inside(kind.value, bytes(value), coarse=coarse) for name, value in fields_of(raw).items()}
        return dict(sorted(entries.items()))
    if isinstance(kind, StructType):
        of = {field.name: field.type for field in kind.fields}
        fields = {
            n: _inside(of.get(n, types.STRING), bytes(value), coarse=coarse) for n, value in fields_of(raw).items()
        }
        return {name: value for name, value in sorted(fields.items()) if value is not None}
    return cell(kind, raw, coarse=coarse)

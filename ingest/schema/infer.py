"""The schema that one change shows: its columns with the types of their values, and its primary key.

In: a change that does not fit, and the table's schema if there is one. Out: a schema that takes the row. Types of
values that already fit stay what they are. Rules: docs/spec/types.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, NamedTuple

from ingest.model import temporal, types
from ingest.model.change import Change, InlineSchema
from ingest.model.jsontext import key_image, parse_row
from ingest.model.numbers import FLOATS, Fit, Numbers, fit_of, is_key, is_large, is_number, says_exactly
from ingest.model.reject import RowError
from ingest.model.schema import MAX_NAME, Column, TableSchema, TextNumbers
from ingest.model.spelling import respelled, says
from ingest.model.table import MAX_ID, TableId, show
from ingest.model.text import one_line
from ingest.model.types import INTEGERS, DataType, DecimalType, DoubleType, FloatType, NullType, TimeType
from ingest.model.values import accepts, fits, holds, is_fine, is_plain_number
from ingest.schema.type_hints import TypeHints

_AS_TEXT: Final = (
    ", which is not in the years 1 to 9999; to take it as this text, declare the column STRING in "
    "scan.value.initial-schemas.ddls"
)
_MOST_SHOWN: Final = 60
"""Bytes of a value that an event shows."""
MAX_NAMED: Final = 5
"""Names of tables or columns that a warning gives as examples."""


@dataclass(frozen=True, slots=True)
class Inference:
    """How schemas are found: what the source's options say about it."""

    reading: TypeHints = field(default_factory=TypeHints)
    static: bool = False
    """A table's first schema is its last (`schema.inference.strategy: static`)."""
    initial: Mapping[TableId, TableSchema] = field(default_factory=dict)
    """Schemas of tables before their first record (`scan.value.initial-schemas.ddls`)."""
    max_columns: int = 2_000
    keyed: bool = False
    """True if records' keys tell the primary key of each table (`key.format`), unless the pipeline does."""
    numbers: Numbers = Numbers.TEXTS
    """What becomes of a number that no binary number is."""
    passed: frozenset[str] = frozenset()
    """Columns that a transform passed on: in a table their numbers were counted before it."""
    unfit_is_null: bool = False
    """True if a value is null whose column in the sink could not be widened (`try_evolve`); else it is a reject."""

    infinite: bool = False
    """True if the sink's times may be before and after all others, as those of PostgreSQL are."""

    def takes(self, column_type: DataType, raw: bytes, said: DataType | None) -> bool:
        """Return whether a column takes a value. `said`: the type that the message declares, or else shows."""
        if self.infinite and raw in temporal.INFINITE and isinstance(said, types.TIMES):
            return isinstance(column_type, types.TIMES) and types.merge(column_type, said) == column_type
        return accepts(column_type, raw, said, self.reading.standard, fine=self.fine)

    def is_own(self, column_type: DataType, raw: bytes, *, declared: bool) -> bool:
        """Return whether a value has a text of its column's type; `declared`: the pipeline says the type."""
        if fits(column_type, raw, self.reading.standard):
            return True
        if not (self.fine or declared):
            return False
        endless = self.infinite and isinstance(column_type, types.TIMES) and raw in temporal.INFINITE
        return endless or is_fine(column_type, raw, self.reading.standard)

    def says(self, column_type: DataType, raw: bytes) -> bool:
        """Return whether a value says one of a type that the pipeline declares, in whatever text."""
        return self.is_own(column_type, raw, declared=True) or says(column_type, raw, self.reading.standard)

    @property
    def fine(self) -> bool:
        """True if times of a column may be finer than a microsecond, whatever their messages declare.

        So it is where rows were checked before. Else only what a message or the pipeline declares may be so.
        """
        return self.reading.settled

    def declared(self, table: TableId) -> frozenset[str]:
        """The columns of a table whose types the pipeline's file declares: they take every spelling of their values."""
        initial_schema = self.initial.get(table)
        return frozenset(self.reading.fixed).union(
            () if initial_schema is None else (column.name for column in initial_schema.columns)
        )

    def left(self, table: TableId, columns: Mapping[str, DataType]) -> frozenset[str]:
        """The columns that the pipeline declares as other numbers, and that a fraction has made a FLOAT or DOUBLE.

        These widen as any other column. `columns`: the types that they have.
        """
        initial_schema = self.initial.get(table)
        kinds = {} if initial_schema is None else {column.name: column.type for column in initial_schema.columns}
        kinds.update(self.reading.fixed)
        return frozenset(
            n for n, k in kinds.items() if isinstance(columns.get(n), FLOATS) and not isinstance(k, FLOATS)
        )

    def after(self, table: TableId, output: TableSchema, passed: frozenset[str]) -> Inference:
        """Return the same for rows that a transform made: of declared columns there may be copies under other names.

        `passed`: columns that it passed on.
        """
        numbers = Numbers.TEXTS if self.numbers is Numbers.TEXTS else Numbers.COMPUTED
        initial = {table: output} if self.declared(table) else self.initial
        return replace(self, initial=initial, numbers=numbers, passed=passed)


def unmatched(inference: Inference, tables: Mapping[TableId, TableSchema]) -> list[str]:
    """Warn of what the source's options declare and no table has; of nothing where there are no tables yet."""
    if not tables:
        return []
    names = {show(table) for table in tables}
    shown = _some(names)
    out = [
        f"scan.value.initial-schemas.ddls: no table {show(table)} was found so far, so its columns have no effect "
        f"(found: {shown})"
        for table in inference.initial
        if show(table) not in names
    ]
    columns = {column.name for schema in tables.values() for column in schema.columns}
    return out + [
        f"json.infer-schema.fixed-types: no table that was found so far has a column {name!r} (found: {_some(columns)})"
        for name in inference.reading.fixed
        if name not in columns
    ]


def _some(names: Iterable[str]) -> str:
    first = sorted(names)
    return ", ".join(one_line(name) for name in first[:MAX_NAMED]) + (", …" if len(first) > MAX_NAMED else "")


def observe(
    change: Change,
    inference: Inference,
    known: TableSchema | None,
    stored: Mapping[str, DataType] = MappingProxyType({}),
    *,
    fixed: bool = False,
    key_columns: Collection[str] = (),
) -> TableSchema:
    """What the table must be like for this change, with what is known of it merged in.

    `stored`: types by which the sink's tables keep numbers, where they may round some. `fixed`: the known schema is
    not to change. `key_columns`: columns of the rows' key, which may be that of a transform. Raises RowError for a row
    that no schema takes.
    """
    table, _, before, after, key, declared = change
    if known is None and table in inference.initial:
        known, fixed = inference.initial[table], inference.static
    image = before if after is None else after
    row = {} if image is None else parse_row(image)
    key_row: dict[str, bytes] = {}
    if key is not None and (key_fields := key_image(key, row)) is not None:
        key_row = parse_row(key_fields)
    if after is None:
        row = {**key_row, **row}
    expected = {} if known is None else {column.name: column.type for column in known.columns}
    new = row.keys() - expected.keys()
    if new and not fixed and len(expected) + len(new) > inference.max_columns:
        raise RowError(
            "too-many-columns",
            f"the table would have {len(expected) + len(new)} columns, more than pipeline.max-columns "
            f"({inference.max_columns})",
        )
    key_names = tuple(dict.fromkeys(key_row or (() if declared is None else declared.primary_key)))
    declared_names, left = inference.declared(table), inference.left(table, expected)
    of_key = {*key_names, *key_columns, *(() if known is None else known.primary_key)}
    _check_names(table if known is None else (), () if fixed else (*new, *key_names))
    columns = []
    for name, value in row.items():
        if fixed and name in new:
            continue
        said = said_of(declared, name, value)
        column = _KnownColumn(
            expected.get(name), stored.get(name), name in of_key, fixed, name in declared_names, name in left
        )
        column_type = _type_of(name, value, column, said, inference)
        large = inference.numbers is Numbers.STORED and column_type == types.BIGINT and is_large(value)
        quoted = declared is not None and name in declared.numbers and types.is_text(column_type)
        numbers = TextNumbers.QUOTED if quoted else TextNumbers.NONE
        columns.append(Column(name, column_type, name not in key_names, large, text_numbers=numbers))
    seen = TableSchema(tuple(columns), key_names)
    if known is None:
        return seen
    return known.merge(seen)


def reasons_of(
    change: Change, before: TableSchema | None, after: TableSchema, inference: Inference
) -> dict[str, bytes]:
    """Return the values of a change that gave columns another type, or a number that gave a new one none of numbers.

    They are cut short. `before`, `after`: what `observe` got and returned.
    """
    known = {} if before is None else {column.name: column.type for column in before.columns}
    known = {name: kind for name, kind in known.items() if kind != types.NULL}
    declared_names = inference.declared(change.table)
    wider = {c.name for c in after.columns if known.get(c.name, c.type) != c.type}
    texts = (
        {
            c.name
            for c in after.columns
            if c.type == types.STRING and c.name not in known and c.name not in declared_names
        }
        if not inference.reading.as_string
        else set()
    )
    image = change.before if change.after is None else change.after
    row = {} if image is None or not wider | texts else parse_row(image)
    return {
        name: value[:_MOST_SHOWN]
        for name, value in row.items()
        if name in wider or (name in texts and is_number(value))
    }


def said_of(declared: InlineSchema | None, name: str, value: bytes) -> DataType | None:
    """Return the type that a message declares for a value; None where it declares none.

    A TIME of databases that is no time of the day is a text.
    """
    said = None if declared is None else declared.types.get(name)
    if isinstance(said, TimeType) and temporal.is_long_time(value):
        return types.STRING
    beyond = isinstance(said, DecimalType) and is_plain_number(value) and not fits(said, value)
    return types.decimal_of(value) if beyond or isinstance(said, NullType) else said


def _check_names(table: TableId, columns: Iterable[str]) -> None:
    """Stop at names that no database has, which all that is kept of a table would hold; raises RowError."""
    if len(show(table)) > MAX_ID:
        raise _too_long("table", show(table), MAX_ID)
    for name in columns:
        if len(name) > MAX_NAME:
            raise _too_long("column", name, MAX_NAME)


def _too_long(what: str, name: str, most: int) -> RowError:
    return RowError(
        "name-too-long", f"the name of {what} {name[:60]!r}… has {len(name):,} characters, more than {most:,}"
    )


class _KnownColumn(NamedTuple):
    """A column that a value is of."""

    type: DataType | None
    """Its type so far."""
    stored: DataType | None
    """The type by which the sink's tables keep its numbers, where they may round some."""
    of_key: bool
    fixed: bool
    """True if the schema is not to change."""
    given: bool
    """True if the pipeline declares its type."""
    left: bool
    """True if it has another type by now, of binary numbers."""


def _type_of(name: str, value: bytes, column: _KnownColumn, said: DataType | None, inference: Inference) -> DataType:
    reading, expected, fixed = inference.reading, column.type, column.fixed
    forced = reading.fixed.get(name)
    if forced is not None:
        if not says(forced, value, reading.standard):
            raise _mismatch(name, value, f"fixed as {types.name(forced)}")
        return forced
    if column.given and expected is not None and inference.says(expected, value):
        stored = expected if column.stored is None else column.stored
        number = respelled(expected, value, reading.standard) if column.left and isinstance(stored, FLOATS) else None
        rounds = number is not None and inference.numbers is Numbers.STORED and is_number(number)
        if not rounds or fixed or _takes_number(stored, number or value, said, column):
            return expected
    if inference.numbers is Numbers.STORED and is_number(value):
        data_type = _number_type(value, column, said, reading)
        if data_type is not None:
            return data_type
    guess = reading.infer(value) if said is None else said
    if expected is not None and inference.takes(expected, value, guess):
        return expected if not isinstance(expected, NullType) or said is None else said
    if isinstance(said, types.TIMES) and temporal.is_far(value):
        if inference.infinite and value in temporal.INFINITE and not fixed:
            return said
        raise _mismatch(name, value, f"declared {types.name(said)}", _AS_TEXT)
    if fixed and expected is not None and not isinstance(expected, NullType):
        raise _mismatch(name, value, f"{types.name(expected)}, and schema.inference.strategy is static")
    if said is not None and not holds(said, value, reading.standard):
        raise _mismatch(name, value, f"declared {types.name(said)}")
    return guess


def _number_type(value: bytes, column: _KnownColumn, said: DataType | None, reading: TypeHints) -> DataType | None:
    """Return the type of a number's column in a sink whose tables store numbers; None where other rules say it."""
    expected, stored = column.type, column.stored
    known = stored if isinstance(expected, (*INTEGERS, *FLOATS)) and stored is not None else expected
    if isinstance(expected, FLOATS) and known == types.STRING:
        return expected  # with all digits
    takes = isinstance(known, FLOATS) and (column.fixed or _takes_number(known, value, said, column))
    if takes and isinstance(expected, FLOATS):
        return expected
    if isinstance(known, FLOATS) and not takes:
        larger = isinstance(known, FloatType) and _takes_number(types.DOUBLE, value, said, column)
        return types.DOUBLE if larger else types.STRING
    if expected is not None and says_exactly(expected, value) and says(expected, value, reading.standard):
        return expected
    guess = reading.infer(value) if said is None else said
    if isinstance(guess, DoubleType) and not _takes_number(guess, value, said, column):
        return types.BIGINT if says(types.BIGINT, value, reading.standard) else types.STRING
    return None


def _takes_number(known: DataType, value: bytes, said: DataType | None, column: _KnownColumn) -> bool:
    """Return whether a FLOAT or DOUBLE column takes a number. In a key it has to tell the number from all others."""
    return fit_of(known, value, said) is not Fit.UNFIT and (not column.of_key or is_key(known, value, said))


def _mismatch(name: str, value: bytes, what: str, hint: str = "") -> RowError:
    shown = value[:60].decode("utf-8", "backslashreplace")
    return RowError("type-mismatch", f"column {name!r} is {what}, and holds {shown}{hint}")

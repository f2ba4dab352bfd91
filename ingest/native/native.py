"""The hot loop's common case in C, where that was built: messages in, records of keyed rows out.

In: messages of one form, and the plans of their tables. Out: records, as far as there is no doubt about a message; the
rest is for `decode` and `encode`, which are the rule book. A few times as fast as they are
(docs/adr/2026-11-22-the-common-case-in-c.md). `INGEST_NATIVE=off` in the workers' environment does without.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from ingest.encode.conform import Drift
from ingest.encode.decoders import plain_name
from ingest.encode.plan import TablePlan
from ingest.encode.rows import RowPlan
from ingest.encode.transform import EVENT, FeedPlan
from ingest.formats.writing import Cell, Pattern, Side, json_cells
from ingest.model import temporal
from ingest.model.change import Kind
from ingest.model.data_type import (
    BinaryType,
    BooleanType,
    CharType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    NullType,
    StringType,
    TimestampNTZType,
    TimestampType,
    TimeType,
    VarcharType,
)
from ingest.model.jsontext import MALFORMED
from ingest.model.types import INTEGER_BITS, TIMES, is_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ingest.encode.plan import Plan
    from ingest.encode.plans import Plans
    from ingest.encode.transform import Composer
    from ingest.formats import Format
    from ingest.formats.writing import Pieces
    from ingest.model.data_type import DataType
    from ingest.model.table import TableId
    from ingest.native._native import Lane, Saying, Table

Head: TypeAlias = "tuple[Any, tuple[tuple[TableId, Kind], ...]]"
"""A destination, and the changes that are done when a record has gone there."""

try:
    from ingest.native import _native
except ImportError:  # it was installed without a compiler
    _native = None  # type: ignore[assignment]

BUILT: Final = _native is not None and os.environ.get("INGEST_NATIVE") != "off"
"""Whether it is there, and wanted."""
ABSENT: Final = "the package was installed without a C compiler" if _native is None else "INGEST_NATIVE=off"
"""Why it is not there, or not wanted, where that is so."""
FORMS: Final = ("debezium", "rows", "canal")
"""The forms of messages, in the order of their codes: Debezium's, values that are rows of one table, and Canal's."""

_NULL, _BOOL, _INT, _DOUBLE, _TEXT, _DECIMAL, _TIMESTAMP, _DATE, _TIME, _BYTES, _OTHER = range(11)
_PIECE_TEXT, _PIECE_CELL, _PIECE_CSV, _PIECE_IMAGE = range(4)
_MAX_KEYS: Final = 16
_MAX_TYPES: Final = 10_000
_MAX_HEADS: Final = 20_000
"""Heads and their changes that are kept beside those of tables, of which each has seven."""
_ENDLESS: Final = 1 << 40
"""More characters than any text has: messages may declare a VARCHAR of any length."""
_MAX_RESULTS: Final = 1000
_FINE: Final = 2
"""Of a declared column whose times no expression reads: they may be finer than a microsecond."""


class Lanes:
    """The way of messages of one form; a lane for each topic."""

    def __init__(self, messages: Format, plans: Plans, heads: Heads | None = None) -> None:
        """`messages`: of one of `FORMS`; `heads`: where records go by, where rows go to expressions."""
        assert messages.form is not None
        self._form = FORMS.index(messages.form)
        self._format = messages
        self._plans = plans
        self._heads = heads
        self._lanes: dict[str, Lane] = {}
        self._tables: dict[TableId, tuple[Plan, Table]] = {}
        self._version = -1

    def of(self, topic: str) -> Lane:
        """The lane of a topic, with the schemas that the plans are of now."""
        if self._version != self._plans.schemas.version:
            self._version = self._plans.schemas.version
            for lane in self._lanes.values():
                lane.forget()
        found = self._lanes.get(topic)
        if found is None:
            said = self._format.said
            member = None if said is None else said[0].encode()
            found = self._lanes[topic] = _native.Lane(self._form, self._finder(topic), member, self._say)
        return found

    @staticmethod
    def settle() -> None:
        """Tell the plans how many changes were taken since the last time."""
        _native.settle()

    def _finder(self, topic: str) -> Callable[[bytes], Table | None]:
        form = FORMS[self._form]

        def find(text: bytes) -> Table | None:
            namespace, rest = text.split(b"\0", 1)
            # Of Canal's databases, `a.b` is what a three-part id has
            first = namespace.split(b".", 1) if form == "canal" else [namespace]
            parts = [*first, *rest.split(b"\0")]
            return self._table(tuple(part.decode() for part in parts if part))

        return find if form != "rows" else lambda _: self._table((topic,))

    def _say(self, text: bytes) -> Saying | None:
        """What messages say by this text; None where it is not for C."""
        assert self._format.said is not None
        _, columns_of = self._format.said
        try:
            columns = columns_of(text)
        except MALFORMED:
            return None
        if not columns or not all(plain_name(name) for name in columns):
            return None
        return _native.Saying(
            tuple(
                (msgspec.json.encode(name)[1:-1], int(how), min(a, _ENDLESS), b, _number_of(column.type))
                for name, column in columns.items()
                for how, a, b in (column.reads,)
            )
        )

    def _table(self, table: TableId) -> Table | None:
        """How C checks and writes the rows of a table; None where it cannot."""
        try:
            plan = self._plans.compiled.get(table) or self._plans.find(table)
        except Drift:
            return None
        known = self._tables.get(table)
        if known is None or known[0] is not plan:
            made = _compile(plan)
            if made is None:
                return None
            if isinstance(plan, TablePlan) and self._heads is not None:
                made.ready(self._heads.of(table, plan.destination))
            known = self._tables[table] = (plan, made)
        return known[1]


class Heads:
    """Where records go that are ready, and which changes are done then, by a number: that is what travels with them.

    A message of many rows has a head for as many changes, and another one for each number of them: where it is `full`,
    whoever has it begins anew.
    """

    def __init__(self) -> None:
        """None yet."""
        self.known: list[Head] = []
        self._places: dict[Head, int] = {}
        self._changes = self._tables = 0

    @property
    def full(self) -> bool:
        """Whether it holds more than it is to hold from one chunk to the next."""
        return self._changes > _MAX_HEADS + 7 * self._tables

    def place(self, destination: Any, done: tuple[tuple[TableId, Kind], ...]) -> int:  # noqa: ANN401  (the sink's own)
        """The number of a destination, with these changes."""
        head = (destination, done)
        place = self._places.get(head)
        if place is None:
            place = self._places[head] = len(self.known)
            self.known.append(head)
            self._changes += 1 + len(done)
        return place

    def of(self, table: TableId, destination: Any) -> tuple[int, int, int, int]:  # noqa: ANN401  (as above)
        """Those of a table's inserts, updates and deletes, and of tombstones of old keys."""
        self._tables += 1
        insert, update, delete = (self.place(destination, ((table, kind),)) for kind in Kind)
        return insert, update, delete, self.place(destination, ())


def writes(plan: Plan) -> bool:
    """Return whether C makes the records of a table."""
    return BUILT and _compile(plan) is not None


def _compile(plan: Plan) -> Table | None:
    if isinstance(plan, FeedPlan):
        return compile_feed(plan)
    return compile_rows(plan) if isinstance(plan, RowPlan) else compile_table(plan)


def compile_feed(plan: FeedPlan) -> Table | None:
    """How C takes the rows of a table apart whose rows go to expressions; None where it cannot."""
    columns = plan.source.schema.columns
    ours = {name: place for name, place in plan.ours if name not in plan.constants}
    if ours.keys() - {EVENT} or plan.static or not all(plain_name(column.name) for column in columns):
        return None
    places = {column.name: i for i, column in enumerate(columns)}
    key = plan.source.schema.primary_key
    if len(key) > _MAX_KEYS or any(name not in places for name in key):
        return None
    made = _native.Table(
        plan, None,
        # Values of the result's key keep the text that they came as, so that other spellings of them are not for C
        tuple(
            _column(c.name, _takes(c.type, c.type, plan.standard), c.name in plan.declared.difference(plan.key_columns))
            for c in columns
        ),
        tuple(range(len(columns))), len(columns), tuple(places[name] for name in key), plan.source.key_from_message,
        False,
    )  # fmt: skip
    base: list[str | None] = [None] * plan.slots
    for name, place in plan.ours:
        base[place] = plan.constants.get(name)
    made.feed(
        plan.program.number, tuple(places[name] for name, _, _ in plan.inputs), tuple(p for _, _, p in plan.inputs),
        "".join(kind for _, kind, _ in plan.inputs).encode(), base, ours.get(EVENT, -1),
        tuple(places[name] for name in plan.decisive), tuple(places[name] for name in plan.key), plan.images,
        tuple(places[name] for name, _, _ in plan.was), tuple(p for _, _, p in plan.was),
        "".join(kind for _, kind, _ in plan.was).encode(),
    )  # fmt: skip
    return made


def rows(kinds: bytes) -> _native.Rows:
    """Rows on their way to expressions, with slots of these kinds."""
    return _native.Rows(kinds)


def drain(*arguments: Any) -> tuple[int, int, int, dict[int, int]]:  # noqa: ANN401  (see the stub)
    """Make records of rows and their results in C: `_native.drain`."""
    return _native.drain(*arguments)


def compile_answer(plan: Plan, composer: Composer) -> Table | None:
    """How C makes the records of a table of its rows and their results; None where it cannot, or is not there."""
    made = compile_table(plan)
    if made is None or len(composer.program.outputs) > _MAX_RESULTS:
        return None
    made.answer(*composer.answer())
    return made


def compile_table(plan: Plan) -> Table | None:
    """How C checks and writes the rows of a table; None where it cannot, or is not there."""
    if not BUILT or not isinstance(plan, TablePlan) or not plan.simple:
        return None
    return _compile_for(plan, plan.destination)


def compile_rows(plan: RowPlan) -> Table | None:
    """How C checks the rows of a table, and puts its records together; None where it cannot, or is not there."""
    layout = plan.layout
    if not BUILT or layout is None or not isinstance(layout.value, Pattern) or not plan.simple:
        return None
    key, own = plan.sink.primary_key, {column.name: column.type for column in plan.source.columns}
    cells = [piece for piece in layout.key or () if isinstance(piece, Cell)]
    if any(name not in own for name in key):
        return None
    if any(cell.name not in key for cell in cells):
        return None
    made = _compile_for(plan, layout.destination)
    if made is None:
        return None
    places = {name: i for i, name in enumerate(_names(plan))}
    names = [column.name for column in plan.sink.columns]
    value = layout.value
    made.lay_out(
        None if layout.key is None else _pieces(layout.key, {name: i for i, name in enumerate(key)}, ()),
        _pieces(value.insert, places, names), _pieces(value.update, places, names), _pieces(value.alone, places, names),
        None if value.delete is None else _pieces(value.delete, places, ()), layout.moves,
    )  # fmt: skip
    return made


def _pieces(pieces: Pieces, places: Mapping[str, int], row: Sequence[str]) -> tuple[tuple[int, bytes, int], ...]:
    """Pieces as C has them; `row`: the columns of a row after a change."""
    made: list[tuple[int, bytes, int]] = []
    for piece in pieces:
        if isinstance(piece, bytes):
            made.append((_PIECE_TEXT, piece, 0))
        elif isinstance(piece, Cell):
            made.append((_PIECE_CSV if piece.csv else _PIECE_CELL, b"", places[piece.name]))
        elif piece is Side.BEFORE:
            made.append((_PIECE_IMAGE, b"", 0))
        else:
            made += _pieces(json_cells((name, Cell(name)) for name in row), places, ())
    return tuple(made)


def _compile_for(plan: TablePlan | RowPlan, destination: Any) -> Table | None:  # noqa: ANN401  (the sink's own)
    source, sink = plan.source, plan.sink
    sink_types = {column.name: column.type for column in sink.columns}
    names, own = _names(plan), len(source.columns)
    places = {name: i for i, name in enumerate(names)}
    if len(sink.primary_key) > _MAX_KEYS or len(names) != len(sink.columns):
        return None
    columns = [
        _column(c.name, _takes(c.type, sink_types[c.name], plan.standard), _FINE if c.name in plan.declared else 0)
        for c in source.columns
    ]
    columns += [_column(name, (_OTHER, False, 0, 0, 0)) for name in names[own:]]
    order = tuple(places[column.name] for column in sink.columns)
    key = tuple(places[name] for name in sink.primary_key)
    keyed = plan.key_from_message
    return _native.Table(plan, destination, tuple(columns), order, own, key, keyed, plan.strings_in_keys)


def _names(plan: TablePlan | RowPlan) -> list[str]:
    """The columns in the order of their places: the source's, then those that only the sink has."""
    return [*dict.fromkeys(column.name for side in (plan.source, plan.sink) for column in side.columns)]


def _column(
    name: str, takes: tuple[int, bool, int, int, int], declared: int = 0
) -> tuple[bytes, bytes, int, bool, int, int, int, int]:
    text = msgspec.json.encode(name)
    return text[1:-1], b",%b:null" % text, *takes, declared


_numbers: dict[DataType, int] = {}


def _number_of(data_type: DataType) -> int:
    """A number for each type, the same for equal ones; zero where there are too many, as messages may declare any.

    Zero as well for what is no type of values: they have to be looked at.
    """
    if isinstance(data_type, NullType):
        return 0
    if len(_numbers) < _MAX_TYPES:
        return _numbers.setdefault(data_type, len(_numbers) + 1)
    return _numbers.get(data_type, 0)


def _takes(before: DataType, after: DataType, standard: str) -> tuple[int, bool, int, int, int]:
    """The code of what a column takes, whether it is to become a text, and what else there is to know of its type."""
    kind, quoted = type(before), is_text(after)
    found: tuple[int, int, int] = (_OTHER, 0, 0)
    if kind is NullType:
        found = (_NULL, 0, 0)
    elif kind is BooleanType:
        found = (_BOOL, 0, 0)
    elif kind in INTEGER_BITS:
        found = (_INT, INTEGER_BITS[kind], 0)
    elif kind in {FloatType, DoubleType}:
        found = (_DOUBLE, 0, 0)
    elif kind is StringType:
        found = (_TEXT, -1, 0)
    elif isinstance(before, (CharType, VarcharType)):
        found = (_TEXT, min(before.length, _ENDLESS), 0)
    elif isinstance(before, DecimalType):
        found = (_DECIMAL, before.precision, before.scale)
    elif kind in {TimestampNTZType, TimestampType} and (not isinstance(after, TIMES) or after == before):
        found = (_TIMESTAMP, ord(" " if standard == temporal.SQL else "T"), kind is TimestampType)
    elif kind is DateType and (not isinstance(after, TIMES) or after == before):
        found = (_DATE, 0, 0)
    elif kind is TimeType and (is_text(after) or after == before):
        found = (_TIME, 0, 0)
    elif kind is BinaryType and (is_text(after) or after == before):
        found = (_BYTES, 0, 0)
    return found[0], quoted, found[1], found[2], _number_of(before) if before == after else 0

"""Rules of a transform, compiled for tables: the document by which rows go to Spark and come back.

The driver makes a `CompiledTransform` of a rule and a table's schema (`transform/compiler.py`). Tasks work by it before
Spark (`transform_input.py`) and after it (`result_merger.py`). Rules: docs/spec/expressions.md#rules.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from ingest.expressions.rewrites import DICE, NOW, TAG
from ingest.model import types

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ingest.model.data_type import DataType
    from ingest.model.table import TableId

NAMESPACE: Final = "__namespace_name__"
SCHEMA: Final = "__schema_name__"
TABLE: Final = "__table_name__"
EVENT: Final = "__data_event_type__"
METADATA: Final = (NAMESPACE, SCHEMA, TABLE, EVENT)
"""Columns that every rule may use beside those of the table; Flink CDC's names."""


# -- slots -----------------------------------------------------------------------------------------------------------

MARKS: Final = 62
"""Results that one mask of failures has room for."""
SLOTS: Final = ("s", "l", "d", "b")
"""Texts, integers, floating-point numbers, truth values: columns and results travel as these, for all transforms."""


def slot_of(data_type: DataType) -> str:
    """Return the kind of slot that values of a type travel in; what none is made for goes as text."""
    if type(data_type) in types.INTEGER_BITS:
        return "l"
    if isinstance(data_type, type(types.DOUBLE)):
        return "d"
    return "b" if isinstance(data_type, type(types.BOOLEAN)) else "s"


@dataclass(frozen=True, slots=True)
class Input:
    """A column that expressions need."""

    name: str
    type: DataType
    slot: str
    """Its kind and a number, `s0`."""


@dataclass(frozen=True, slots=True)
class Output:
    """A computed column."""

    name: str
    type: DataType
    slot: str
    """The slot, as for inputs, among those of results; empty for a copy."""
    needs: frozenset[str]
    """The source columns that it is computed from."""
    text: str
    """The expression, for people."""
    copy_of: str | None = None
    """The source column whose values it has under another name. They keep their text: they do not go through Spark."""
    as_texts: frozenset[str] = frozenset()
    """The columns of `needs` that stand in it as CAST(column AS STRING) only."""


@dataclass(frozen=True, slots=True)
class CompiledTransform:
    """A rule, made for one table at one version of its schema."""

    number: int
    table: TableId
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    condition: Output | None
    columns: tuple[str, ...] | None
    """The columns of the result in their order; None: those of the source, then the computed ones that are new."""
    decisive: frozenset[str]
    """The columns that the filter and the result's key are made from."""
    key: tuple[str, ...]
    """The result's key."""
    soft_delete: bool = False
    was: Output | None = None
    """True if the row before an update passes the filter, from columns that travel beside those of the row after it;
    None where that row has to go by itself."""
    was_inputs: tuple[Input, ...] = ()

    @property
    def changeable(self) -> bool:
        """True if the filter asks for the time or for dice: what it says of a row now, it may not have said then."""
        needs = frozenset() if self.condition is None else self.condition.needs
        return any(is_ours(name) and name not in METADATA for name in needs)


@dataclass(frozen=True, slots=True)
class CompiledTransforms:
    """All transforms of a run at one version of the schemas, and the slots that they share."""

    of: dict[TableId, CompiledTransform]
    inputs: tuple[str, ...]
    results: tuple[str, ...]
    has_errors: bool = False
    """True if functions of the user's own say what went wrong in them, after all results."""


def together(transforms: Iterable[CompiledTransform], *, has_errors: bool = False) -> CompiledTransforms:
    """Return transforms, each with as many slots as the one that needs most of a kind."""
    of = {transform.table: transform for transform in transforms}
    inputs = {i.slot for p in of.values() for i in (*p.inputs, *p.was_inputs)}
    results = {o.slot for p in of.values() for o in (*p.outputs, p.condition, p.was) if o is not None and o.slot}

    def ordered(slots: set[str]) -> tuple[str, ...]:
        return tuple(sorted(slots, key=lambda slot: (SLOTS.index(slot[0]), int(slot[1:]))))

    return CompiledTransforms(of, ordered(inputs), ordered(results), has_errors)


INSERT, UPDATE, UPDATE_ALONE, DELETE, BEFORE = range(5)
"""Kinds of rows that go to Spark: the row after an insert, after an update whose row before decides the same or came
just before, after one whose row before is not known, the row that a delete took, the row before the update that comes
next."""
EVENTS: Final = ("+I", "+U", "+U", "-D", "-U")
PARTIAL: Final = 8
"""Added to it: the image does not have all columns, and what it lacks is unknown."""
BOTH: Final = 16
"""Added to it: the columns of the row before the update that its filter needs came with it."""

IN_KEY: Final = 32
"""Added to it: the image has one more member, `OF_KEY`, with the values that columns of the key have in keys."""
OF_KEY: Final = "\0of-key"

ROUNDED_AT: Final = 6
"""Place of the first bit, above those, of which each says that a number of a column is rounded. The column has this
place among those of the table, and the number is counted when the row is written."""
MOST_ROUNDED: Final = 25
KINDS: Final = (1 << ROUNDED_AT) - 1

Fed: TypeAlias = "tuple[int, int, bytes, tuple[Any, ...]]"
"""The transform's number, what it is, the row's text, and the values of all slots."""


def _text(raw: bytes) -> str:
    text: str = msgspec.json.decode(raw, type=str) if raw[:1] == b'"' else raw.decode()
    return text


READ_SLOT: Final[dict[str, Callable[[bytes], Any]]] = {
    "s": _text,
    "l": int,
    "d": float,
    "b": lambda raw: raw == b"true",
}
"""By kind of slot: a function that makes a slot's value of a value's JSON, which is not null."""


def is_ours(name: str) -> bool:
    """Return whether a column is not one of the table's."""
    return name in METADATA or name.startswith((NOW, TAG, DICE))

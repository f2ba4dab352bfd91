"""A table's transform as tasks work by it, and the rows that its results make.

In: a row's text, and the values that Spark SQL computed of it. Out: the row as the sink gets it. It knows no Spark.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

from ingest.expressions.rewrites import DICE, NOW, TAG
from ingest.model import temporal, types
from ingest.model.change import InlineSchema
from ingest.model.jsontext import fields_of, object_of, parse_row
from ingest.model.reject import Failure, RowError
from ingest.model.table import TableId
from ingest.model.types import BinaryType, DataType, DateType, FloatType, TimestampNTZType, TimestampType, TimeType

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


def _number(value: float) -> bytes:
    text = msgspec.json.encode(value)
    if text == b"null":
        raise RowError("not-a-number", f"the result is {value}, which JSON cannot say")
    return text


def _float(value: str) -> bytes:
    return _number(float(value)) if value in {"NaN", "Infinity", "-Infinity"} else _shortest(value)


def _shortest(value: str) -> bytes:
    """Return a number as its shortest text; Spark's own may end in `.0E10`."""
    return value.replace("E", "e").encode()


def _json(value: str) -> bytes:
    return value.encode()


def writer_of(data_type: DataType, standard: str) -> Callable[[Any], bytes]:
    """Return a function that makes the JSON text of a column from a result of this type."""
    slot = slot_of(data_type)
    if slot == "l":
        return lambda value: b"%d" % value
    if slot == "d":
        return _number
    if slot == "b":
        return lambda value: b"true" if value else b"false"
    if isinstance(data_type, FloatType):
        return _float
    if types.is_text(data_type) or isinstance(data_type, (BinaryType, DateType, TimeType)):
        return msgspec.json.encode
    if isinstance(data_type, TimestampNTZType):
        return msgspec.json.encode if standard == temporal.SQL else _with_t
    if isinstance(data_type, TimestampType):
        return lambda value: temporal.timestamp_text(int(value), standard, zoned=True)
    return _json


def _with_t(value: str) -> bytes:
    return msgspec.json.encode(value.replace(" ", "T", 1))


class ExpressionFailed(RowError):
    """A row for which an expression could not be computed."""

    def __init__(self, what: str, slot: str) -> None:
        """`what`: which expression it is; `slot`: that of its result."""
        super().__init__("expression-failed", f"{what}: cannot be computed for this row")
        self.slot = slot


class ResultMerger:
    """Puts results into the rows that they were computed from."""

    def __init__(self, transforms: CompiledTransforms, transform: CompiledTransform, standard: str) -> None:
        """Look at a transform once."""
        places = {slot: i for i, slot in enumerate(transforms.results)}
        self.transform = transform
        self._writers = [
            (o, places.get(o.slot, 0), writer_of(o.type, standard), _columns(o.needs)) for o in transform.outputs
        ]
        self._columns = transform.columns
        self._condition = transform.condition
        self.filter_at = -1 if transform.condition is None else places[transform.condition.slot]
        """The number of the filter's result; -1 where there is none."""
        self.was_at = -1 if transform.was is None else places[transform.was.slot]
        """The number of the result for the row before an update; -1 where there is none."""
        self.changeable = transform.changeable
        """True if nobody can tell whether a row passed the filter that was written earlier."""
        names = [o.name for o in transform.outputs]
        self._names = tuple(msgspec.json.encode(name)[1:-1] for name in names)
        self._layout = (
            None
            if self._columns is None
            else tuple(
                names.index(name) if name in names else msgspec.json.encode(name)[1:-1] for name in self._columns
            )
        )

    def passes(self, values: Sequence[Any], failed: int) -> bool:
        """Return whether a row passes the filter; raises RowError where that could not be computed."""
        if self._condition is None:
            return True
        if failed >> self.filter_at & 1:
            raise ExpressionFailed(f"filter: {self._condition.text}", self._condition.slot)
        return values[self.filter_at] is True

    def native_form(self) -> tuple[Any, ...]:
        """Return what `results_spec` (`native/specs.py`) makes a document of, so that native code does the same."""
        made = {output.name for output in self.transform.outputs}
        kinds = "".join(
            "c" if o.copy_of else o.slot[0] if o.slot[0] in "lbd" else "t" if write is msgspec.json.encode else "x"
            for o, _, write, _ in self._writers
        )
        return (
            self.filter_at,
            self.was_at,
            self.changeable,
            self.transform.soft_delete,
            bool(made.intersection(self.transform.key)),
            self._names,
            tuple(place for _, place, _, _ in self._writers),
            kinds.encode(),
            tuple(msgspec.json.encode(o.copy_of)[1:-1] if o.copy_of else write for o, _, write, _ in self._writers),
            self._layout,
        )

    def decides(self, raw: bytes) -> bool:
        """Return whether an image has all the columns that the filter is made from."""
        needs = frozenset() if self._condition is None else _columns(self._condition.needs)
        return needs <= parse_row(msgspec.Raw(raw)).keys()

    def was(self, raw: bytes, values: Sequence[Any], failed: int) -> tuple[bool, msgspec.Raw | None]:
        """Return whether the row before an update passed, and what is known of it: its key, that of the row after."""
        if failed >> self.was_at & 1:
            return False, None  # it was a reject, so that it was never written
        fields = parse_row(msgspec.Raw(raw))
        key = {name: fields[name] for name in self.transform.key if name in fields}
        return values[self.was_at] is True, msgspec.Raw(object_of(key))

    def failure(self, slot: str, raw: bytes, what: int) -> Failure:
        """Return what is known of an expression that failed for a row which was fed as `what`."""
        fields = parse_row(msgspec.Raw(raw))
        known = dict(zip(METADATA, (*("", "", *self.transform.table)[-3:], EVENTS[what]), strict=True))
        values: dict[str, Any] = {}
        for column in self.transform.inputs:
            text = fields.get(column.name, b"null")
            if is_ours(column.name):
                rest = time.time_ns() // 1000 if column.name == NOW else "" if column.name.startswith(TAG) else 0.5
                values[column.slot] = known.get(column.name, rest)
            else:
                values[column.slot] = None if text == b"null" else READ_SLOT[column.slot[0]](text)
        return Failure(self.transform.table, slot, values)

    def of_key(self, raw: bytes) -> tuple[bytes, InlineSchema]:
        """Return a row's text without the values that its key has for others, and what that is in the result's key."""
        fields = parse_row(msgspec.Raw(raw))
        said = fields_of(msgspec.Raw(fields.pop(OF_KEY)))
        copies = {output.name: output.copy_of for output in self.transform.outputs}
        names = {name: copies.get(name, name) for name in self.transform.key}
        in_key = {name: bytes(said[source]) for name, source in names.items() if source in said}
        return object_of(fields), InlineSchema(in_key=in_key)

    def keyed(self, row: msgspec.Raw) -> bool:
        """Return whether a result has its key."""
        return set(self.transform.key) <= parse_row(row).keys()

    def row(self, raw: bytes, values: Sequence[Any], failed: int, *, partial: bool) -> msgspec.Raw:
        """Return the row's text with what was computed; raises RowError where something could not be."""
        fields = parse_row(msgspec.Raw(raw))
        made: dict[str, bytes] = {}
        unknown = set()
        for output, slot, write, needs in self._writers:
            name = output.name
            if partial and not needs <= fields.keys():
                unknown.add(name)
                continue  # unknown, as what it is made from
            if output.copy_of is not None:
                made[name] = fields.get(output.copy_of, b"null")
                continue
            if failed >> slot & 1:
                raise ExpressionFailed(f"projection: {name}: {output.text}", output.slot)
            value = values[slot]
            try:
                made[name] = b"null" if value is None else write(value)
            except RowError as exc:
                raise RowError(exc.code, f"projection: {name}: {output.text}: {exc}") from None
            except ValueError as exc:  # a time that no text is of
                raise RowError("expression-failed", f"projection: {name}: {output.text}: {exc}") from None
        fields = {name: value for name, value in fields.items() if name not in unknown}
        fields.update(made)
        if self._columns is None:
            return msgspec.Raw(object_of(fields))
        return msgspec.Raw(object_of({name: fields[name] for name in self._columns if name in fields}))


def _columns(names: frozenset[str]) -> frozenset[str]:
    """Return those of these columns that are the table's."""
    return frozenset(name for name in names if not is_ours(name))

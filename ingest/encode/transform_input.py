"""The rows of a table with a transform, on both sides of Spark: what goes to it, and what its results become.

In: a program, made on the driver from a rule and a table's schema. Out: for each change the columns that expressions
need, with the row's own bytes beside them; then, from the results, the row as the sink gets it. Spark sees no more of a
row than its expressions need. Rules: docs/spec/expressions.md#rules.
"""

from __future__ import annotations

import random
import time
import uuid
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from ingest.encode.coercer import KeyChanged, RowCoercer
from ingest.encode.decoders import annotation_of, decoder_of, field_of, plain_name, refuse
from ingest.expressions.rewrites import DICE, NOW, TAG
from ingest.model import temporal, types
from ingest.model.change import Kind
from ingest.model.data_type import BinaryType, DateType, FloatType, TimestampNTZType, TimestampType, TimeType
from ingest.model.jsontext import MALFORMED, object_of
from ingest.model.reject import Failure, RowError
from ingest.model.rowtext import key_image, parse_row
from ingest.model.values import coarse, has_times

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ingest.model.change import InlineSchema
    from ingest.model.data_type import DataType
    from ingest.model.schema import TableSchema
    from ingest.model.table import TableId
    from ingest.schema.evolve import SourceTable
    from ingest.schema.infer import Inference

_UPDATE = Kind.UPDATE
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
"""Texts, integers, floating-point numbers, truth values: what columns and results travel as, shared by all programs."""


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
    """Those of `needs` that stand in it as CAST(column AS STRING) only."""


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


@dataclass(frozen=True, slots=True)
class CompiledTransforms:
    """All programs of a run at one version of the schemas, and the slots that they share."""

    of: dict[TableId, CompiledTransform]
    inputs: tuple[str, ...]
    results: tuple[str, ...]
    told: bool = False
    """True if functions of the user's own say what went wrong in them, after all results."""


def together(programs: Iterable[CompiledTransform], *, told: bool = False) -> CompiledTransforms:
    """Return programs, each with as many slots as the one that needs most of a kind."""
    of = {program.table: program for program in programs}
    inputs = {i.slot for p in of.values() for i in (*p.inputs, *p.was_inputs)}
    results = {o.slot for p in of.values() for o in (*p.outputs, p.condition, p.was) if o is not None and o.slot}

    def ordered(slots: set[str]) -> tuple[str, ...]:
        return tuple(sorted(slots, key=lambda slot: (SLOTS.index(slot[0]), int(slot[1:]))))

    return CompiledTransforms(of, ordered(inputs), ordered(results), told)


INSERT, UPDATE, UPDATE_ALONE, DELETE, BEFORE = range(5)
"""Kinds of rows that go to Spark: the row after an insert, after an update whose row before decides the same or came
just before, after one whose row before is not known, the row that a delete took, the row before the update that comes
next."""
_EVENTS: Final = ("+I", "+U", "+U", "-D", "-U")
PARTIAL: Final = 8
"""Added to it: the image does not have all columns, and what it lacks is unknown."""
BOTH: Final = 16
"""Added to it: the columns of the row before the update that its filter needs came with it."""

Fed: TypeAlias = "tuple[int, int, bytes, tuple[Any, ...]]"
"""The program's number, what it is, the row's text, and the values of all slots."""


def _text(raw: bytes) -> str:
    text: str = msgspec.json.decode(raw, type=str) if raw[:1] == b'"' else raw.decode()
    return text


_READ: Final[dict[str, Callable[[bytes], Any]]] = {"s": _text, "l": int, "d": float, "b": lambda raw: raw == b"true"}


class TransformInputEncoder:
    """The encoder of changes of one table on their way to Spark. It is like those of sinks; its records are `Fed`."""

    def __init__(
        self,
        programs: CompiledTransforms,
        table: TableId,
        source: SourceTable,
        inference: Inference,
        *,
        images: bool,
        upserts: bool = False,
    ) -> None:
        """`images`: whether the row before a change is wanted in any case; `upserts`: an insert may be an update."""
        self._insert = UPDATE_ALONE if upserts else INSERT
        self.program = program = programs.of[table]
        self.source = source
        places = {slot: i for i, slot in enumerate(programs.inputs)}
        self.table = table
        self.inserted = self.updated = self.deleted = self.unrepresentable = 0
        self._coercer = RowCoercer(table, source.schema, source.schema, inference)
        self.withheld = self._coercer.withheld
        self.static, self.standard = self._coercer.static, self._coercer.standard
        self.images = images or EVENT in program.decisive
        """True if the row before an update goes in any case."""
        self._primary_key = source.schema.primary_key if source.key_from_message else ()
        copies = {output.name: output.copy_of for output in program.outputs}
        self.key_columns = [name for key in program.key if (name := copies.get(key, key)) is not None]
        """The source columns that are the result's key, as far as that is not computed."""
        parts = ("", "", *program.table)
        self.constants = {NAMESPACE: parts[-3], SCHEMA: parts[-2], TABLE: parts[-1]}
        self.slots = len(programs.inputs)
        self.inputs = [(i.name, i.slot[0], places[i.slot]) for i in program.inputs if not is_ours(i.name)]
        """Columns that travel, each with the kind of its slot, and which slot it is."""
        self.ours = [(i.name, places[i.slot]) for i in program.inputs if is_ours(i.name)]
        """Those that are not the table's."""
        self.decisive = sorted(name for name in program.decisive if not is_ours(name))
        """The table's columns that decide: where they do not change, the row before an update need not go."""
        self.key = [name for name in self.decisive if name in program.key]
        """Those that are of the result's key."""
        self.was = [] if self.images else [(i.name, i.slot[0], places[i.slot]) for i in program.was_inputs]
        """Columns of the row before an update that travel with the row after it, where both have the same key."""
        self.declared = self._coercer.declared
        self._fine = {i.name: i.type for i in program.inputs if i.name in self.declared and has_times(i.type)}
        """Times, and nested values with times, that may be finer than a microsecond, as expressions are not."""
        self.cut: dict[str, int] = {}
        """By column: values that expressions got without what is finer than a microsecond."""
        self._compile(source.schema)

    def upsert(
        self,
        kind: Kind,
        before: msgspec.Raw | None,
        after: msgspec.Raw,
        message_key: bytes | None,
        declared: InlineSchema | None,
        emit: Callable[[Any], None],
    ) -> None:
        """Emit an insert or update; raises Drift, KeyChanged or RowError, having emitted nothing."""
        if declared is None:
            try:
                row = self._decode(after)
                old = None if before is None or kind is not _UPDATE else self._decode(before)
            except MALFORMED:
                pass
            else:
                self._check(message_key, None)
                decides = self._decides
                what = UPDATE if old is not None else UPDATE_ALONE if kind is _UPDATE else self._insert
                values = self._values(row)
                if old is not None and (self.images or decides(old) != decides(row)):
                    if self.was and self._moves(old) == self._moves(row):
                        what |= BOTH
                        values = self._with_those(values, old)
                    else:
                        self._emit(BEFORE, "-U", bytes(before), self._values(old), emit)  # type: ignore[arg-type]  # it is there
                self._emit(what, str(kind), bytes(after), values, emit)
                return
        self._upsert_slowly(kind, before, after, message_key, declared, emit)

    def _compile(self, source: TableSchema) -> None:
        """Compile the fast way, for rows that have all columns, each of a type that a decoder can check."""
        names = {column.name: f"c{i}" for i, column in enumerate(source.columns)}
        checked = all(annotation_of(column.type) is not None for column in source.columns)
        # A FLOAT is decoded as a number, and travels as a text
        checked = checked and not any(isinstance(i.type, FloatType) for i in self.program.inputs)
        self._decode: Callable[[Any], Any] = refuse
        if checked and all(map(plain_name, names)) and not self._coercer.static:
            fields = [field_of(c, i, required=not c.nullable) for i, c in enumerate(source.columns)]
            self._decode = decoder_of(tuple(fields), forbid_unknown=True)
        attributes = [names[name] for name, _, _ in self.inputs]
        self._get = _getter(attributes)
        self._places = [place for _, _, place in self.inputs]
        self._in_order = not self.ours and self._places == [*range(self.slots)]
        self._decides = _getter([names[name] for name in self.decisive if name in names])
        self._moves = _getter([names[name] for name in self.key if name in names])
        self._were = _getter([names[name] for name, _, _ in self.was])
        key = [(f"k{i}", msgspec.Raw, msgspec.field(name=name)) for i, name in enumerate(self._primary_key)]
        plain = key and all(map(plain_name, self._primary_key))
        self._key_like: Callable[[Any], Any] = (
            msgspec.json.Decoder(msgspec.defstruct("Key", key, forbid_unknown_fields=True)).decode if plain else refuse
        )

    def _values(self, row: Any) -> tuple[Any, ...]:  # noqa: ANN401  (a struct made from the schema)
        """Return the slots of a row that was decoded, without those that are not the table's."""
        found = self._get(row)
        if self._in_order:
            return found
        values: list[Any] = [None] * self.slots
        for place, value in zip(self._places, found, strict=True):
            values[place] = value
        return tuple(values)

    def _with_those(self, values: tuple[Any, ...], old: Any) -> tuple[Any, ...]:  # noqa: ANN401  (as above)
        """Return the slots with those of the row before."""
        both = list(values)
        for (_, _, place), value in zip(self.was, self._were(old), strict=True):
            both[place] = value
        return tuple(both)

    def _upsert_slowly(
        self,
        kind: Kind,
        before: msgspec.Raw | None,
        after: msgspec.Raw,
        message_key: bytes | None,
        declared: InlineSchema | None,
        emit: Callable[[Any], None],
    ) -> None:
        row, _, _ = self._coercer.row(after, declared)
        self._check(message_key, declared)
        if kind is Kind.UPDATE and before is not None:
            if declared is not None and declared.read_before is not None:
                before = declared.read_before(before)
            old = self._coercer.image(before)
            if declared is not None and declared.overlay:
                old = {**row, **old}
            partial = len(old) < len(row) and any(name not in old for name in row)
            if self.images or any(old.get(n) != row.get(n) for n in self.decisive):
                overlaid = (after, before) if declared is not None and declared.overlay else (before,)
                text = self._sent(old, *overlaid)
                self._emit(BEFORE | (PARTIAL if partial else 0), "-U", text, self._read(old), emit)
            self._emit(UPDATE, "+U", self._sent(row, after), self._read(row), emit)
        else:
            what = UPDATE_ALONE if kind is Kind.UPDATE else self._insert
            self._emit(what, str(kind), self._sent(row, after), self._read(row), emit)

    def _sent(self, row: Mapping[str, bytes], *images: msgspec.Raw) -> bytes:
        """Return the row's text, in which values of the key are as the images have them: a key knows no types."""
        came = {name: value for image in images for name, value in parse_row(image).items()}
        return object_of({**row, **{name: came[name] for name in self.key_columns if name in row and name in came}})

    def delete(
        self,
        before: msgspec.Raw | None,
        message_key: bytes | None,
        declared: InlineSchema | None,
        emit: Callable[[Any], None],
    ) -> None:
        """Emit a delete; raises as `upsert` does."""
        row = {} if before is None else self._coercer.image(before)
        key = None if message_key is None else key_image(message_key)
        if key is not None:
            row = {**self._coercer.image(key), **row}
        if not row:
            raise RowError("no-key", "a delete needs its row in the before image, or its key in the message key")
        self._check(message_key, declared)
        partial = any(name not in row for name in self._coercer.source_types)
        text = self._sent(row, *(image for image in (key, before) if image is not None))
        self._emit(DELETE | (PARTIAL if partial else 0), "-D", text, self._read(row), emit)

    def _check(self, message_key: bytes | None, declared: InlineSchema | None) -> None:
        """Check the message's key; raises KeyChanged where it is another one than the table has."""
        if not self._primary_key:
            return
        if declared is None and message_key is not None:
            try:
                self._key_like(message_key)
            except MALFORMED:
                pass
            else:
                return
        names = () if declared is None else declared.primary_key
        image = None if message_key is None else key_image(message_key)
        if image is not None:
            names = tuple(parse_row(image))
        if names and set(names) != set(self._primary_key):
            raise KeyChanged(self._primary_key, names)

    def _read(self, row: Mapping[str, bytes]) -> tuple[Any, ...]:
        """Return the slots of a row that was taken apart."""
        values: list[Any] = [None] * self.slots
        for name, kind, place in self.inputs:
            raw = row.get(name)
            if raw is None or raw == b"null":
                continue
            try:
                values[place] = value = _READ[kind](raw)
            except ValueError:
                msg = f"column {name!r} is {types.name(self._coercer.source_types[name])}, and the row before holds "
                raise RowError("type-mismatch", msg + raw[:60].decode("utf-8", "backslashreplace")) from None
            if name in self._fine:
                values[place], cut = coarse(self._fine[name], value)
                if cut:
                    self.cut[name] = self.cut.get(name, 0) + 1
        return tuple(values)

    def _emit(self, what: int, event: str, text: bytes, values: tuple[Any, ...], emit: Callable[[Any], None]) -> None:
        if self.ours:
            some = list(values)
            for name, place in self.ours:
                if name in self.constants:
                    some[place] = self.constants[name]
                elif name == EVENT:
                    some[place] = event
                elif name == NOW:
                    some[place] = time.time_ns() // 1000
                else:
                    some[place] = str(uuid.uuid4()) if name.startswith(TAG) else random.random()  # noqa: S311  (dice)
            values = tuple(some)
        emit((self.program.number, what, text, values))


def _getter(attributes: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Return a function that gives these attributes of an object as a tuple, however many they are."""
    if not attributes:
        return lambda _: ()
    if len(attributes) == 1:
        one = attrgetter(attributes[0])
        return lambda row: (one(row),)
    return attrgetter(*attributes)


def is_ours(name: str) -> bool:
    """Return whether a column is not one of the table's."""
    return name in METADATA or name.startswith((NOW, TAG, DICE))


def _columns(names: frozenset[str]) -> frozenset[str]:
    """Return those of these columns that are the table's."""
    return frozenset(name for name in names if not is_ours(name))


# -- results ---------------------------------------------------------------------------------------------------------


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

    def __init__(self, programs: CompiledTransforms, program: CompiledTransform, standard: str) -> None:
        """Look at a program once."""
        places = {slot: i for i, slot in enumerate(programs.results)}
        self.program = program
        self._writers = [
            (o, places.get(o.slot, 0), writer_of(o.type, standard), _columns(o.needs)) for o in program.outputs
        ]
        self._columns = program.columns
        self._condition = program.condition
        self.filter_at = -1 if program.condition is None else places[program.condition.slot]
        """The number of the filter's result; -1 where there is none."""
        self.was_at = -1 if program.was is None else places[program.was.slot]
        """The number of the result for the row before an update; -1 where there is none."""
        names = [o.name for o in program.outputs]
        self._names = tuple(msgspec.json.encode(name)[1:-1] for name in names)
        self._layout = None if self._columns is None else tuple(
            names.index(name) if name in names else msgspec.json.encode(name)[1:-1] for name in self._columns
        )  # fmt: skip

    def passes(self, values: Sequence[Any], failed: int) -> bool:
        """Return whether a row passes the filter; raises RowError where that could not be computed."""
        if self._condition is None:
            return True
        if failed >> self.filter_at & 1:
            raise ExpressionFailed(f"filter: {self._condition.text}", self._condition.slot)
        return values[self.filter_at] is True

    def native_form(self) -> tuple[Any, ...]:
        """Return what `results_spec` (`native/specs.py`) makes a document of, so that native code does the same."""
        made = {output.name for output in self.program.outputs}
        kinds = "".join(
            "c" if o.copy_of else o.slot[0] if o.slot[0] in "lb" else "t" if write is msgspec.json.encode else "x"
            for o, _, write, _ in self._writers
        )
        return (
            self.filter_at, self.was_at, self.program.soft_delete, bool(made.intersection(self.program.key)),
            self._names, tuple(place for _, place, _, _ in self._writers), kinds.encode(),
            tuple(msgspec.json.encode(o.copy_of)[1:-1] if o.copy_of else write for o, _, write, _ in self._writers),
            self._layout,
        )  # fmt: skip

    def decides(self, raw: bytes) -> bool:
        """Return whether an image has all the columns that the filter is made from."""
        needs = frozenset() if self._condition is None else _columns(self._condition.needs)
        return needs <= parse_row(msgspec.Raw(raw)).keys()

    def was(self, raw: bytes, values: Sequence[Any], failed: int) -> tuple[bool, msgspec.Raw | None]:
        """Return whether the row before an update passed, and what is known of it: its key, that of the row after."""
        if failed >> self.was_at & 1:
            return False, None  # it was a reject, so that it was never written
        fields = parse_row(msgspec.Raw(raw))
        key = {name: fields[name] for name in self.program.key if name in fields}
        return values[self.was_at] is True, msgspec.Raw(object_of(key))

    def failure(self, slot: str, raw: bytes, what: int) -> Failure:
        """Return what is known of an expression that failed for a row which was fed as `what`."""
        fields = parse_row(msgspec.Raw(raw))
        known = dict(zip(METADATA, (*("", "", *self.program.table)[-3:], _EVENTS[what]), strict=True))
        values: dict[str, Any] = {}
        for column in self.program.inputs:
            text = fields.get(column.name, b"null")
            if is_ours(column.name):
                rest = time.time_ns() // 1000 if column.name == NOW else "" if column.name.startswith(TAG) else 0.5
                values[column.slot] = known.get(column.name, rest)
            else:
                values[column.slot] = None if text == b"null" else _READ[column.slot[0]](text)
        return Failure(self.program.table, slot, values)

    def keyed(self, row: msgspec.Raw) -> bool:
        """Return whether a result has its key."""
        return set(self.program.key) <= parse_row(row).keys()

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
        fields = {name: value for name, value in fields.items() if name not in unknown}
        fields.update(made)
        if self._columns is None:
            return msgspec.Raw(object_of(fields))
        return msgspec.Raw(object_of({name: fields[name] for name in self._columns if name in fields}))

"""The rows of a table with a transform on their way to Spark.

In: a compiled transform, and changes of its table. Out: for each change the columns that expressions need, with the
row's own bytes beside them. Spark sees no more of a row than its expressions need. `result_merger.py` has the way back.
Rules: docs/spec/expressions.md#rules.
"""

from __future__ import annotations

import random
import time
import uuid
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec

from ingest.encode.coercer import KeyChanged, RowCoercer
from ingest.encode.compiled_transform import (
    BEFORE,
    BOTH,
    DELETE,
    EVENT,
    INSERT,
    NAMESPACE,
    PARTIAL,
    READ_SLOT,
    SCHEMA,
    TABLE,
    UPDATE,
    UPDATE_ALONE,
    is_ours,
)
from ingest.encode.decoders import annotation_of, decoder_of, field_of, plain_name, refuse
from ingest.expressions.rewrites import NOW, TAG
from ingest.model import types
from ingest.model.change import Kind
from ingest.model.data_type import FloatType
from ingest.model.jsontext import MALFORMED, object_of
from ingest.model.reject import RowError
from ingest.model.rowtext import key_image, parse_row
from ingest.model.values import coarse, has_times

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ingest.encode.compiled_transform import CompiledTransforms
    from ingest.model.change import InlineSchema
    from ingest.model.schema import TableSchema
    from ingest.model.table import TableId
    from ingest.schema.evolve import SourceTable
    from ingest.schema.infer import Inference

_UPDATE = Kind.UPDATE


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

    def _with_those(self, values: tuple[Any, ...], old: Any) -> tuple[Any, ...]:  # noqa: ANN401  (a struct made from the schema)
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
        row = self._coercer.row(parse_row(after), declared)
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
                values[place] = value = READ_SLOT[kind](raw)
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

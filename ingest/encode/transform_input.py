"""The rows of a table with a transform on their way to Spark.

In: a compiled transform, and changes of its table. Out: for each change the columns that expressions need, with the
row's own bytes beside them. Spark sees no more of a row than its expressions need. `transform/merging.py` has the way
back. Rules: docs/spec/expressions.md#rules.
"""

from __future__ import annotations

import random
import time
import uuid
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ingest.encode.coercer import OTHERS, RowCoercer, check_before, check_key
from ingest.encode.compiled_transform import (
    BEFORE,
    BOTH,
    DELETE,
    EVENT,
    IN_KEY,
    INSERT,
    MOST_ROUNDED,
    NAMESPACE,
    OF_KEY,
    PARTIAL,
    READ_SLOT,
    ROUNDED_AT,
    SCHEMA,
    TABLE,
    UPDATE,
    UPDATE_ALONE,
    is_ours,
)
from ingest.expressions.rewrites import NOW, TAG
from ingest.model import temporal, types
from ingest.model.cache import count_up
from ingest.model.change import Change, InlineSchema, Kind, is_number
from ingest.model.jsontext import key_image, key_text, object_of, parse_row
from ingest.model.numbers import FLOATS, Numbers
from ingest.model.reject import RowError
from ingest.model.schema import TableSchema
from ingest.model.types import DataType, DecimalType
from ingest.model.values import coarse, has_times

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ingest.encode.compiled_transform import CompiledTransforms
    from ingest.model.table import TableId
    from ingest.schema.evolve import SourceTable
    from ingest.schema.infer import Inference


class TransformInputEncoder:
    """The encoder of changes of one table on their way to Spark. It is like those of sinks; its records are `Fed`."""

    def __init__(
        self,
        transforms: CompiledTransforms,
        table: TableId,
        source: SourceTable,
        inference: Inference,
        *,
        images: bool,
        upserts: bool = False,
        stored: Mapping[str, DataType] = MappingProxyType({}),
    ) -> None:
        """`images`: whether the row before a change is wanted in any case; `upserts`: an insert may be an update.

        `stored`: types by which the sink's tables keep numbers of the columns that are passed on.
        """
        self.upserts = upserts
        self._insert = UPDATE_ALONE if upserts else INSERT
        self.transform = transform = transforms.of[table]
        self.source = source = replace(source, schema=source.schema.with_stored(stored))
        self._places = {column.name: at for at, column in enumerate(source.schema.columns)}
        places = {slot: i for i, slot in enumerate(transforms.inputs)}
        self.table = table
        self.inserted = self.updated = self.deleted = self.unrepresentable = 0
        self.bytes_in = self.bytes_out = 0
        passed = TableSchema(source.schema.columns, tuple(sorted(source.key_columns)))  # in a key a number is exact
        self._coercer = RowCoercer(table, source.schema, passed, inference)
        # Their columns of the sink did not change for numbers that do not fit, and will not
        self._coercer.narrow |= {
            one.name
            for one in source.schema.columns
            if isinstance(one.stored, FLOATS)
            and not isinstance(one.type, (*types.INTEGERS, DecimalType))
            and types.merge(one.type, one.stored) != one.stored
        }
        self.withheld, self.rounded = self._coercer.withheld, self._coercer.rounded
        self.numbers = self._coercer.numbers
        self.static, self.standard = self._coercer.static, self._coercer.standard
        self.images = images or EVENT in transform.decisive
        """True if the row before an update goes in any case."""
        self._primary_key = source.schema.primary_key if source.key_from_message else ()
        copies = {output.name: output.copy_of for output in transform.outputs}
        self.key_columns = [name for key in transform.key if (name := copies.get(key, key)) is not None]
        """The source columns that are the result's key, as far as that is not computed."""
        parts = ("", "", *transform.table)
        self._typed_key = self._coercer.typed(self.key_columns, of_table=self.numbers is Numbers.STORED)
        self.bare_numbers = source.schema.bare_numbers
        """Columns of the key whose texts are written as numbers, where messages declare that they are numbers."""
        self.constants = {NAMESPACE: parts[-3], SCHEMA: parts[-2], TABLE: parts[-1]}
        self.slots = len(transforms.inputs)
        self.inputs = [(i.name, i.slot[0], places[i.slot]) for i in transform.inputs if not is_ours(i.name)]
        """Columns that travel, each with the kind of its slot, and which slot it is."""
        self.ours = [(i.name, places[i.slot]) for i in transform.inputs if is_ours(i.name)]
        """Those that are not the table's."""
        self.decisive = sorted(name for name in transform.decisive if not is_ours(name))
        """The table's columns that decide: where they do not change, the row before an update need not go."""
        self.key = [name for name in self.decisive if name in transform.key]
        """Those that are of the result's key."""
        self.was = [] if self.images else [(i.name, i.slot[0], places[i.slot]) for i in transform.was_inputs]
        """Columns of the row before an update that travel with the row after it, where both have the same key."""
        self.declared = self._coercer.declared
        self._fine = {i.name: i.type for i in transform.inputs if not is_ours(i.name) and has_times(i.type)}
        """Times, and nested values with times, that may be finer than a microsecond, as expressions are not."""
        self.cut: dict[str, int] = {}
        """By column: values that expressions got without what is finer than a microsecond."""
        self.unread: dict[str, int] = {}
        """By column: values of rows before a change that are not known, as they cannot be read."""

    def upsert(self, change: Change, emit: Callable[[Any], None]) -> None:
        """Emit an insert or update; raises Drift, KeyChanged or RowError, having emitted nothing."""
        _, kind, before, after, message_key, declared = change
        assert after is not None, "an insert or update has it"
        image = parse_row(after)
        row = self._coercer.row(image, declared)
        rounded = self._rounded()
        if self._primary_key:
            check_key(self._primary_key, message_key, declared)
        what = UPDATE_ALONE if kind is Kind.UPDATE else self._insert
        values: list[Any] = [None] * self.slots
        if kind is Kind.UPDATE and before is not None:
            what = UPDATE
            overlay = declared is not None and declared.overlay
            old, came = self._with_record_key(self._coercer.image(before), parse_row(before), message_key)
            if overlay:
                old = {**row, **old}
            check_before(self.key_columns, old, declared)
            slots = self._slots_before(old)
            partial = any(name not in old for name in row)
            if self.images or _differ(old, row, self.decisive):
                if self.was and declared is None and not partial and not _differ(old, row, self.key):
                    what |= BOTH
                    self._read(old, self.was, values)
                else:
                    text = self._sent(old, {**(image if overlay else {}), **came}, declared)
                    what_before = BEFORE | (PARTIAL if partial else 0)
                    self._emit(*self._with_key(what_before, text, declared), "-U", slots, emit)
        self._read(row, self.inputs, values)
        text = self._sent(row, image, declared)
        self._emit(*self._with_key(what | rounded, text, declared), str(kind), values, emit)

    def _rounded(self) -> int:
        """Return bits that say which numbers of the last row are rounded; those of far columns are counted here."""
        bits = 0
        for name in self._coercer.last_rounded:
            if self._places[name] < MOST_ROUNDED:
                bits |= 1 << (ROUNDED_AT + self._places[name])
            else:
                count_up(self.rounded, name, 1, OTHERS)
        return bits

    def _sent(self, row: Mapping[str, bytes], came: Mapping[str, bytes], declared: InlineSchema | None) -> bytes:
        """Return the row's text, in which values of the key are as they came: a key knows no types.

        Numbers in texts have the text that they have in keys, as nobody will know that they are numbers.
        """
        of_key = {name: came[name] for name in self.key_columns if name in row and name in came}
        numbers = {
            name: key_text(of_key[name], is_number=True, bare=name in self.bare_numbers)
            for name in of_key
            if is_number(declared, name)
        }
        return object_of({**row, **of_key, **numbers})

    def _with_key(self, what: int, text: bytes, declared: InlineSchema | None) -> tuple[int, bytes]:
        """Return what a row is, and its text with what its key says otherwise, as a text for a number of the row."""
        said = {} if declared is None else declared.in_key
        of_key = {name: said[name] for name in self.key_columns if name in said}
        if not of_key:
            return what, text
        return what | IN_KEY, text[:-1] + b"," + object_of({OF_KEY: object_of(of_key)})[1:]

    def delete(self, change: Change, emit: Callable[[Any], None]) -> None:
        """Emit a delete; raises as `upsert` does."""
        before, message_key, declared = change.before, change.key, change.declared
        row, came = ({}, {}) if before is None else (self._coercer.image(before), parse_row(before))
        check_before(self.key_columns, row, declared)
        key = None if message_key is None else key_image(message_key, self._coercer.source_types)
        if key is not None:
            row, came = {**self._coercer.image(key), **row}, {**parse_row(key), **came}
        if not row:
            raise RowError("no-key", "a delete needs its row in the before image, or its key in the message key")
        if self._primary_key:
            check_key(self._primary_key, message_key, declared)
        row, came = self._with_record_key(row, came, message_key)
        values = self._slots_before(row)
        partial = any(name not in row for name in self._coercer.source_types)
        text = self._sent(row, came, declared)
        what = DELETE | (PARTIAL if partial else 0)
        self._emit(*self._with_key(what, text, declared), "-D", values, emit)

    def _with_record_key(
        self, row: dict[str, bytes], came: dict[str, bytes], message_key: bytes | None
    ) -> tuple[dict[str, bytes], dict[str, bytes]]:
        """Return a row before a change, and its values as they came, with what its key's columns have for others.

        Raises RowError.
        """
        found, taken = self._coercer.with_record_key(row, self._typed_key, message_key)
        for name in taken:
            count_up(self.unread, name, 1, OTHERS)
        return dict(found), came | {name: found[name] for name in taken}

    def _slots_before(self, row: dict[str, bytes]) -> list[Any]:
        """Return the slots of a row before a change, and take out of the row what is not of its column's type.

        It is unknown then, as what a message does not tell. Raises RowError for a column of the key.
        """
        for name, _, _ in self.inputs:
            column_type = self._coercer.source_types[name]
            raw = row.get(name, b"null")
            if self._coercer.is_of(name, column_type, raw) and not self._is_endless(name, raw):
                continue
            if name in self.key_columns:
                msg = f"column {name!r} is {types.name(column_type)}, and the row before holds "
                raise RowError("type-mismatch", msg + raw[:60].decode("utf-8", "backslashreplace"))
            del row[name]
            count_up(self.unread, name, 1, OTHERS)
        values: list[Any] = [None] * self.slots
        self._read(row, self.inputs, values)
        return values

    def _is_endless(self, name: str, raw: bytes) -> bool:
        """Return whether a value is a time that expressions do not know: PostgreSQL's `infinity`."""
        return raw in temporal.INFINITE and isinstance(self._coercer.source_types[name], types.TIMES)

    def _read(self, row: Mapping[str, bytes], inputs: Iterable[tuple[str, str, int]], values: list[Any]) -> None:
        """Put columns of a row in their slots."""
        for name, kind, place in inputs:
            raw = row.get(name)
            if raw is None or raw == b"null":
                continue
            values[place] = value = READ_SLOT[kind](raw)
            if self._is_endless(name, raw):
                msg = f"column {name!r} holds {value}, and an expression reads it, which knows no such time"
                raise RowError("type-mismatch", msg)
            if name in self._fine:
                values[place], cut = coarse(self._fine[name], value)
                if cut:
                    self.cut[name] = self.cut.get(name, 0) + 1

    def _emit(self, what: int, text: bytes, event: str, values: list[Any], emit: Callable[[Any], None]) -> None:
        for name, place in self.ours:
            if name in self.constants:
                values[place] = self.constants[name]
            elif name == EVENT:
                values[place] = event
            elif name == NOW:
                values[place] = time.time_ns() // 1000
            else:
                values[place] = str(uuid.uuid4()) if name.startswith(TAG) else random.random()  # noqa: S311  (dice)
        emit((self.transform.number, what, text, tuple(values)))


def _differ(old: Mapping[str, bytes], row: Mapping[str, bytes], names: Iterable[str]) -> bool:
    """Return whether one of these columns has another text in the row before than in the row after."""
    return any(old.get(name) != row.get(name) for name in names)

"""Results of expressions, put into the rows that they were computed from.

In: a compiled transform, the text of a row as it went to Spark, and the results that came back for it. Out: the row as
the sink gets it. Rules: docs/spec/expressions.md#rules.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import msgspec

from ingest.encode.compiled_transform import EVENTS, METADATA, OF_KEY, READ_SLOT, is_ours, slot_of
from ingest.expressions.rewrites import NOW, TAG
from ingest.model import temporal, types
from ingest.model.change import InlineSchema
from ingest.model.data_type import BinaryType, DateType, FloatType, TimestampNTZType, TimestampType, TimeType
from ingest.model.jsontext import fields_of, object_of
from ingest.model.reject import Failure, RowError
from ingest.model.rowtext import parse_row

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ingest.encode.compiled_transform import CompiledTransform, CompiledTransforms
    from ingest.model.data_type import DataType


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
        made = {output.name for output in self.transform.outputs}
        kinds = "".join(
            "c" if o.copy_of else o.slot[0] if o.slot[0] in "lbd" else "t" if write is msgspec.json.encode else "x"
            for o, _, write, _ in self._writers
        )
        return (
            self.filter_at, self.was_at, self.changeable, self.transform.soft_delete,
            bool(made.intersection(self.transform.key)), self._names, tuple(place for _, place, _, _ in self._writers),
            kinds.encode(),
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

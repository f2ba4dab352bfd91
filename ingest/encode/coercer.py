"""The check whether a row fits its table's schema, value by value, and its text as the sink's table wants it.

In: the texts of a row's values. Out: the text of each column. Numbers keep their digits, always. Rules:
docs/spec/types.md#conformance, docs/spec/values.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ingest.model import types
from ingest.model.cache import count_up
from ingest.model.jsontext import key_image, parse_row
from ingest.model.numbers import FLOATS, Fit, Numbers, fit_of, is_key, is_number, nearest, rounding_of, says_exactly
from ingest.model.reject import RowError
from ingest.model.schema import MAX_NAME, TableSchema
from ingest.model.spelling import respelled
from ingest.model.values import fits, holds, written
from ingest.schema.infer import Inference, said_of

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable, Mapping, Sequence

    import msgspec

    from ingest.model.change import InlineSchema
    from ingest.model.numbers import Rounds
    from ingest.model.table import TableId
    from ingest.model.types import DataType

OTHERS: Final = "(other columns)"
"""The name under which columns beyond the limit are counted together."""


class Drift(Exception):
    """The row does not fit the schema as it is known: a new table, a new column, or a wider type."""


class KeyChanged(Exception):
    """The message tells other primary-key columns than the table has."""

    def __init__(self, known: tuple[str, ...], names: tuple[str, ...]) -> None:
        """Keep the old and the new key's columns."""
        super().__init__(known, names)
        self.known = known
        self.names = names


def check_key(primary_key: tuple[str, ...], message_key: bytes | None, declared: InlineSchema | None) -> None:
    """Stop at a message that tells another primary key: by the fields of its key, else by what it declares.

    Raises KeyChanged. A message that tells no key agrees with any.
    """
    names = () if declared is None else declared.primary_key
    image = None if message_key is None else key_image(message_key, primary_key)
    if image is not None:
        names = tuple(parse_row(image))
    if names and set(names) != set(primary_key):
        raise KeyChanged(primary_key, names)


def check_before(key_columns: Iterable[str], known: Container[str], declared: InlineSchema | None) -> None:
    """Raise RowError where a column of the key is not known because the row before holds what cannot be read.

    `known`: the columns of the image, which has those that the record's key tells.
    """
    unread = {} if declared is None else declared.unread
    for name in key_columns if unread else ():
        if name in unread and name not in known:
            raise RowError("type-mismatch", f"the row before: {unread[name]}, and the record's key does not tell it")


def _unavailable(columns: Sequence[str]) -> RowError:
    names = ", ".join(repr(name) for name in columns[:5]) + (", …" if len(columns) > 5 else "")
    return RowError("unavailable-value", f"the row after an update was sent without {names}")


class RowCoercer:
    """The checks and conversions of one source table's rows for one sink table, value by value."""

    def __init__(
        self,
        table: TableId,
        source: TableSchema,
        sink: TableSchema,
        inference: Inference,
        never_null: Collection[str] = (),
    ) -> None:
        """Compare both schemas once; `table` is the source's.

        `never_null`: columns in which no null stands for a value that does not fit.
        """
        self.writes_parts = False
        """True if a row may lack columns that were not sent: only those that came are written."""
        self.counts_numbers = True
        """True if the types of the sink's columns say which numbers are rounded; else `count_written` counts them."""
        self.declared = inference.declared(table)
        """Columns that take every spelling of their values."""
        self._given = self.declared - inference.left(table, {column.name: column.type for column in source.columns})
        """Those of them whose numbers widen no column."""
        self._inference, self._reading = inference, inference.reading
        self.standard = inference.reading.standard
        self.withheld: dict[str, int] = {}
        """By column: values that did not get into the sink, because its table was not to have the column."""
        self.source_types = {column.name: column.type for column in source.columns}
        self.sink_types = {column.name: column.type for column in sink.columns}
        self._number_types = {column.name: column.number_type for column in sink.columns}
        """Types by which the sink keeps numbers."""
        self._key = sink.primary_key
        self._texts = frozenset[str]()
        """Columns whose numbers are written as texts, whatever becomes of those of others."""
        if inference.numbers is Numbers.IN_KEYS:
            self._texts = frozenset(self.sink_types).difference(sink.primary_key, never_null)
        self.absent = self.source_types.keys() - self.sink_types.keys()
        """Columns that the sink's table does not have."""
        self.narrow = {
            name
            for name, data_type in self.source_types.items()
            if name in self.sink_types and types.merge(data_type, self.sink_types[name]) != self.sink_types[name]
        }
        """Columns whose type in the sink's table could not be widened, so that some values may not fit."""
        self._nullable = {
            column.name
            for column in sink.columns
            if inference.unfit_is_null and column.nullable and column.name not in (*sink.primary_key, *never_null)
        }
        """Columns in which null stands for a value that does not fit."""
        self.static = inference.static
        self.numbers = inference.numbers
        self._widens = inference.numbers is Numbers.STORED and not inference.static
        self._stores = self._any_spelling = inference.numbers in {Numbers.STORED, Numbers.COMPUTED}
        self._passed = inference.passed
        self.last_rounded: Sequence[str] = ()
        """Columns of the last row whose numbers are rounded. Who writes the row counts them."""
        self.rounded: dict[str, int] = {}
        """By column: numbers that no binary number is, and that became the nearest one."""
        self.strings_in_keys = inference.reading.as_string
        """True if every key value is a text, because the format's options say that values are."""

    def row(self, row: Mapping[str, bytes], declared: InlineSchema | None) -> dict[str, bytes]:
        """Return the text of each column of the sink's table that a row has, in the row's order.

        Raises Drift for what the schema does not take, and RowError.
        """
        text: dict[str, bytes] = {}
        rounded: list[str] = []
        for name, column_type in self.source_types.items():
            value = row.get(name)
            if value is None:
                continue
            own, own_type = self._conforming(name, column_type, value, declared)
            sink_type = self.sink_types.get(name)
            if name in self._passed and name in self.narrow and isinstance(sink_type, FLOATS):
                # The column became one of texts for a number, before the transform, and the sink's stays one of numbers
                own = respelled(sink_type, own, self.standard) or own
            if self.counts_numbers and self._is_rounded(name, own, declared, drifts=True):
                rounded.append(name)
                own = self._near(name, own)
            if sink_type is None:
                self._withhold(name)
                continue
            if sink_type == types.NULL and own != b"null":
                # It was null in all rows when the sink heard of it, so to the sink it is a column still to come
                self._withhold(name)
                text[name] = b"null"
                continue
            if name in self.narrow and not fits(sink_type, own, self.standard):
                self._leave_out(name, column_type, sink_type)
                text[name] = b"null"
                continue
            text[name] = written(own, own_type, sink_type, self.standard)
        for name in row:
            if name not in self.source_types:
                if not self.static:
                    raise Drift
                self._withhold(name)
        if declared is not None and declared.sparse:
            self._check_whole(row)
        if declared is not None and declared.unsent and not self.writes_parts:
            raise _unavailable(sorted(declared.unsent))
        self.last_rounded = rounded
        return {name: text[name] for name in row if name in text}

    def _conforming(
        self, name: str, column_type: DataType, value: bytes, declared: InlineSchema | None
    ) -> tuple[bytes, DataType]:
        """Return a value that its column takes, in the text of a type, and that type; raises Drift."""
        own = self.own(name, column_type, value)
        if own is not None:
            return own, column_type
        said = said_of(declared, name, value)
        said = self._reading.infer(value) if said is None else said
        if not self._inference.takes(column_type, value, said):
            raise Drift
        return value, said

    def _leave_out(self, name: str, column_type: DataType, sink_type: DataType) -> None:
        """Count a value that the sink's column cannot take; raises RowError where null cannot stand for it."""
        if name not in self._nullable:
            msg = (
                f"column {name!r} became {types.name(column_type)}, and the sink's stays {types.name(sink_type)} "
                "(pipeline.schema.change.behavior, sink.exclude.schema.changes, sink.sequence-by)"
            )
            raise RowError("withheld-change", msg)
        self._withhold(name)

    def _check_whole(self, row: Mapping[str, bytes]) -> None:
        """Raise RowError where a row lacks columns of its table, so that their values are not known."""
        missing = [name for name in self.source_types if name not in row]
        if missing:
            raise _unavailable(missing)

    def own(self, name: str, column_type: DataType, value: bytes) -> bytes | None:
        """Respell a value as its column's type has it: the same object where it is so already, None for none."""
        if self._inference.is_own(column_type, value, declared=name in self.declared):
            return value
        any_spelling = name in self.declared or (self._any_spelling and says_exactly(column_type, value))
        return respelled(column_type, value, self.standard) if any_spelling else None

    def _is_rounded(self, name: str, value: bytes, declared: InlineSchema | None, *, drifts: bool = False) -> bool:
        """Return whether the sink's table has another number than a row.

        `drifts`: raises Drift where it can have the row's, and RowError for a key that would be another row's. What the
        pipeline declares does not change, and neither does what the sink could not change when the table's column did.
        """
        kept = self._number_types.get(name)
        if self.numbers is Numbers.TEXTS or kept is None or name in self._texts:
            return False
        said = self._said(name, value, declared)
        if not isinstance(kept, FLOATS) or not is_number(value):
            rounds = None if self._stores else rounding_of(kept)
            return rounds is not None and rounds(value, said)
        found = fit_of(kept, value, said)
        no_key = self._stores and name in self._key and not is_key(kept, value, said)
        if drifts and (no_key or found is Fit.UNFIT):
            if self._widens and name not in self._given and name not in self.narrow:
                raise Drift
            if no_key:
                msg = f"key column {name!r} holds {value[:60].decode()}, which its {types.name(kept)} would round"
                raise RowError("type-mismatch", msg)
        return found is not Fit.EXACT and name not in self._passed

    def _near(self, name: str, value: bytes) -> bytes:
        """Return a number that is rounded, as it is written: one that becomes zero is zero, as servers refuse others.

        Raises RowError for one that is beyond its column.
        """
        kept = self._number_types[name]
        near = nearest(kept, value) if self._stores and isinstance(kept, FLOATS) else 1.0
        if near is None:
            shown, of = value[:60].decode(), types.name(kept)
            msg = (
                f"column {name!r} holds {shown}, which is beyond every {of}, and the column does not become another one"
            )
            raise RowError("type-mismatch", msg)
        return value if near else (b"-0.0" if value[:1] == b"-" else b"0.0")

    def _said(self, name: str, value: bytes, declared: InlineSchema | None) -> DataType | None:
        """Return the type by which a value is a binary number: its message's, or that of what an expression gave."""
        column_type = self.source_types.get(name)
        computed = self.numbers is Numbers.COMPUTED and isinstance(column_type, (*FLOATS, *types.NESTED))
        return column_type if computed else said_of(declared, name, value)

    def names_row(self, name: str, value: bytes, declared: InlineSchema | None) -> bool:
        """Return whether a row of the sink's table may have a value in a column of the key, which is not null."""
        kept = self._number_types.get(name)
        if not self._stores or not isinstance(kept, FLOATS) or not is_number(value):
            return True
        return is_key(kept, value, self._said(name, value, declared))

    def count_last(self) -> None:
        """Count the numbers of the last row that are rounded."""
        for name in self.last_rounded:
            count_up(self.rounded, name, 1, OTHERS)

    def count_rounded(self, image: Mapping[str, bytes], declared: InlineSchema | None) -> None:
        """Count the numbers of a row before a change that are rounded when it is written. It widens no column."""
        for name, value in image.items() if self.numbers is not Numbers.TEXTS else ():
            if self._is_rounded(name, value, declared):
                count_up(self.rounded, name, 1, OTHERS)

    def count_written(
        self,
        image: Mapping[str, bytes],
        declared: InlineSchema | None,
        *places: Mapping[str, Rounds],
        counted_before: bool = False,
    ) -> None:
        """Count the numbers of a row that became others where it was written. `places`: what says so, by column.

        `counted_before`: those that a transform passed on were counted before it, where their column rounds them.
        """
        for name in {name: None for of in places for name in of}:
            value = image.get(name, b"null")
            rounds = rounding_of(self.source_types[name]) if counted_before and name in self._passed else None
            if rounds is not None and rounds(value, None):
                continue
            if any(name in of and of[name](value, self._said(name, value, declared)) for of in places):
                count_up(self.rounded, name, 1, OTHERS)

    def is_of(self, name: str, column_type: DataType, value: bytes) -> bool:
        """Return whether a value of a row before a change, as `image` has it, is one of its column's type."""
        if types.is_text(column_type) or self._inference.is_own(column_type, value, declared=True):
            return True  # what its message declares of a time is not asked: the fraction may have nine digits
        return self.own(name, column_type, value) is not None

    def typed(self, names: Iterable[str], *, of_table: bool) -> list[str]:
        """Return those of these columns whose values have to be of their types: the pipeline declares them.

        `of_table`: or the sink's table has them.
        """
        of = self.source_types if of_table else self.declared
        return [name for name in names if name in of and not types.is_text(self.source_types.get(name, types.STRING))]

    def with_record_key(
        self, image: Mapping[str, bytes], names: Collection[str], message_key: bytes | None
    ) -> tuple[Mapping[str, bytes], list[str]]:
        """Return a row before a change with those of its columns from the record's key that are not of their types.

        `names`: columns of the key. The second result has those that were taken. Raises RowError where the record's key
        does not tell one.
        """
        wrong = [name for name in names if name in image and not self._is_of_key(name, image[name])]
        if not wrong:
            return image, wrong
        of_key = None if message_key is None else key_image(message_key, names)
        told = {} if of_key is None else parse_row(of_key)
        for name in wrong:
            if name not in told or told[name] == b"null" or not self._is_of_key(name, told[name]):
                shown = image[name][:60].decode("utf-8", "backslashreplace")
                what = f"column {name!r} holds {shown}, which is no {types.name(self.source_types[name])}"
                raise RowError("type-mismatch", f"the row before: {what}, and the record's key does not tell it")
        return {**image, **{name: told[name] for name in wrong}}, wrong

    def _is_of_key(self, name: str, value: bytes) -> bool:
        kind = self.source_types[name]
        return value == b"null" or self.is_of(name, kind, value) or respelled(kind, value, self.standard) is not None

    def _withhold(self, name: str) -> None:
        count_up(self.withheld, name if len(name) <= MAX_NAME else OTHERS, 1, OTHERS)

    def last_row(self, raw: msgspec.Raw, declared: InlineSchema | None = None) -> dict[str, bytes]:
        """Return the text of the columns of a row that is gone, as far as the sink's table can have it.

        What it cannot is counted as withheld. Raises RowError where it is no object.
        """
        out = self.image(raw)
        for name, value in parse_row(raw).items():
            sink_type = self.sink_types.get(name)
            if sink_type is None or not holds(sink_type, out[name], self.standard) or self._is_beyond(name, out[name]):
                out.pop(name, None)
                self._withhold(name)
            elif name in self._nullable and out[name] == b"null" != value:
                self._withhold(name)
        for name, value in out.items():
            if self._is_rounded(name, value, declared):
                count_up(self.rounded, name, 1, OTHERS)
                out[name] = self._near(name, value)
        return out

    def _is_beyond(self, name: str, value: bytes) -> bool:
        kept = self._number_types[name]
        return isinstance(kept, FLOATS) and is_number(value) and nearest(kept, value) is None

    def image(self, raw: msgspec.Raw) -> dict[str, bytes]:
        """Return the text of the columns of a before image, as far as it has them: it may be of an older schema.

        Raises RowError where it is no object.
        """
        out = {}
        for name, value in parse_row(raw).items():
            sink_type = self.sink_types.get(name)
            if sink_type == types.NULL:
                out[name] = b"null"
            elif sink_type is not None:
                column_type = self.source_types.get(name, sink_type)
                own = self.own(name, column_type, value) if name in self.declared else value
                text = written(value if own is None else own, column_type, sink_type, self.standard)
                unfit = name in self.narrow and name in self._nullable and not fits(sink_type, text, self.standard)
                out[name] = b"null" if unfit else text
        return out

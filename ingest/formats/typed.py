"""Rows whose message tells the columns' types: checks each value against its type, and puts converted ones in.

In: a row's JSON text. Out: its JSON text with every value as the JSON of its type, or why the message contradicts
itself. A row in which nothing has to be converted stays the very bytes it came in.

Rows of one table look alike, and a pattern made from one of them reads the next ones in one go: names in the same
order, no white space, values of the usual forms. What it does not match is read value by value.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import msgspec

from ingest.model import types, values
from ingest.model.change import InlineSchema
from ingest.model.data_type import BooleanType, CharType, DecimalType, DoubleType, FloatType, StringType, VarcharType
from ingest.model.jsontext import MALFORMED, fields_of, reason
from ingest.model.reject import Contradiction, RowError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ingest.model.data_type import DataType

    Convert: TypeAlias = Callable[[bytes], bytes]
    """The JSON text of a value, from how the message has it; raises ValueError for what is none of its type."""

MAX_PATTERNS: Final = 4
MAX_COLUMNS: Final = 90
"""Columns of a row that gets a pattern."""
MAX_NAMES: Final = 4096
"""Characters of their names together."""

_TEXT: Final = rb'("[^"\\]*+(?:\\.[^"\\]*+)*+"|null)'
_SCALAR: Final = rb'("[^"\\]*+(?:\\.[^"\\]*+)*+"|-?[0-9][0-9.eE+-]*+|true|false|null)'
_NUMBER: Final = rb"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+"


_Pattern: TypeAlias = "tuple[Callable[[bytes], re.Match[bytes] | None], bytes, list[tuple[int, str, Column]]]"
"""A matcher of a row, what the row is written with (empty: as it came), and the values that are to be looked at."""


class Reads(Enum):
    """Codes for the way in which native code reads values. `ValueCodec` in native/codes.pxd has the same names."""

    OTHER = auto()
    """Not by native code."""
    INT = auto()
    NUMBER = auto()
    DECIMAL = auto()
    BOOL = auto()
    ANY = auto()
    BASE64 = auto()
    DAYS = auto()
    TIME = auto()
    MOMENT = auto()
    ZONED = auto()
    UNSCALED = auto()
    QUOTED_INT = auto()
    QUOTED_NUMBER = auto()
    QUOTED_DECIMAL = auto()
    BIT = auto()
    TEXT = auto()
    LATIN = auto()
    DATE_TEXT = auto()
    TIME_TEXT = auto()
    MOMENT_TEXT = auto()
    UTC_TEXT = auto()


class Column(NamedTuple):
    """The type that a message declares for one column, and how its values are read."""

    type: DataType
    """NULL: a DECIMAL, of which its values tell the size."""
    convert: Convert | None = None
    """The conversion of values that are not in the JSON of their type; None where they are."""
    pattern: bytes | None = None
    """Matches values of the usual form, with one group that is the JSON text; nulls may match outside of it. None:
    every value is converted and checked."""
    reads: tuple[Reads, int, int] = (Reads.OTHER, 0, 0)
    """The way in which native code reads the values, with two numbers that belong to it: bits; precision and scale;
    most characters, or -1; how many microseconds are one."""


def _digits(data_type: DataType) -> bytes | None:
    """Return a pattern for the digits of numbers that surely fit a type."""
    bits = types.INTEGER_BITS.get(type(data_type))
    if bits is not None:
        return rb"-?(?:0|[1-9][0-9]{0,%d}+)" % ({8: 2, 16: 4, 32: 9, 64: 18}[bits] - 1)
    if isinstance(data_type, DecimalType) and data_type.precision > data_type.scale:
        fraction = rb"(?:\.[0-9]{1,%d}+)?+" % data_type.scale if data_type.scale else b""
        return rb"-?(?:0|[1-9][0-9]{0,%d}+)%b" % (data_type.precision - data_type.scale - 1, fraction)
    return _NUMBER if isinstance(data_type, (FloatType, DoubleType)) else None


def plain(data_type: DataType) -> bytes | None:
    """Return a pattern for values that are the JSON of their type already."""
    digits = _digits(data_type)
    if digits is not None:
        return rb"(%b|null)" % digits
    if isinstance(data_type, BooleanType):
        return rb"(true|false|null)"
    return texts(data_type)


def texts(data_type: DataType) -> bytes | None:
    """Return a pattern for texts."""
    if isinstance(data_type, (CharType, VarcharType)):
        return rb'("[^"\\]{0,%d}+"|null)' % data_type.length  # so many bytes are not more characters
    return _TEXT if isinstance(data_type, StringType) else None


def reads_plain(data_type: DataType) -> tuple[Reads, int, int]:
    """Return the way in which native code reads values that are the JSON of their type already."""
    if type(data_type) in types.INTEGER_BITS:
        return (Reads.INT, types.INTEGER_BITS[type(data_type)], 0)
    if isinstance(data_type, DecimalType):
        return (Reads.DECIMAL, data_type.precision, data_type.scale)
    simple: dict[type[DataType], Reads] = {
        FloatType: Reads.NUMBER,
        DoubleType: Reads.NUMBER,
        BooleanType: Reads.BOOL,
        StringType: Reads.ANY,
    }
    return (simple.get(type(data_type), Reads.OTHER), 0, 0)


def reads_quoted(data_type: DataType) -> tuple[Reads, int, int]:
    """Return the way in which native code reads numbers that the message has as texts."""
    how, a, b = reads_plain(data_type)
    texts_ = {
        Reads.INT: Reads.QUOTED_INT, Reads.NUMBER: Reads.QUOTED_NUMBER, Reads.DECIMAL: Reads.QUOTED_DECIMAL,
    }  # fmt: skip
    return (texts_.get(how, Reads.OTHER), a, b)


def quoted(data_type: DataType) -> bytes | None:
    """Return a pattern for numbers that the message has as texts."""
    digits = _digits(data_type)
    return None if digits is None else rb'(?:"(%b)"|null)' % digits


class Typed:
    """The columns of one saying: what they are, and how their values are to be read."""

    def __init__(
        self,
        columns: Mapping[str, Column],
        primary_key: tuple[str, ...] = (),
        *,
        overlay: bool = False,
        as_string: bool = False,
        spared: frozenset[str] = frozenset(),
    ) -> None:
        """Learn patterns later, from the rows that come.

        `spared`: columns whose types the pipeline declares: where a value is not of the type that its message says,
        it stays as it came, to be judged by the pipeline's type.
        """
        self._columns = columns
        self._spared = spared
        self._given = (primary_key, overlay, as_string)
        self._sparing: dict[frozenset[str], Typed] = {}
        self.size = 4000 + sum(1000 + 12 * len(name) for name in (*columns, *primary_key))
        """Bytes that it takes, about, with a pattern."""
        declared = {name: types.STRING if as_string else column.type for name, column in columns.items()}
        lazily = self.before if overlay and columns else None
        self.declared = InlineSchema(declared, primary_key, overlay, lazily, not spared)
        self._patterns: list[_Pattern] = []
        self._known: set[tuple[str, ...]] = set()

    def image(self, raw: msgspec.Raw) -> msgspec.Raw:
        """Return the row with converted values; raises Contradiction, or one of MALFORMED."""
        text = bytes(raw)
        for match, template, others in self._patterns:
            found = match(text)
            if found is None:
                continue
            if not template:
                return raw
            parts = found.groups(b"null")
            if others:
                values_ = [*parts]
                for i, name, column in others:
                    values_[i] = self._value(column, name, values_[i])
                parts = tuple(values_)
            return msgspec.Raw(template % parts)
        return self._read(raw)

    def sparing(self, names: frozenset[str]) -> Typed:
        """Make the same for rows that may contradict it in these columns; itself for none."""
        if not names:
            return self
        found = self._sparing.get(names)
        if found is None:
            primary_key, overlay, as_string = self._given
            found = Typed(self._columns, primary_key, overlay=overlay, as_string=as_string, spared=names)
            if len(self._sparing) >= MAX_PATTERNS:  # messages say which table they are of
                self._sparing.clear()
            self._sparing[names] = found
        return found

    def before(self, raw: msgspec.Raw) -> msgspec.Raw:
        """Return what `image` returns, for a row that is looked at long after it was decoded; raises RowError."""
        try:
            return self.image(raw)
        except Contradiction as exc:
            raise RowError("type-mismatch", str(exc)) from None
        except MALFORMED as exc:
            raise RowError("malformed", f"the row is not a JSON object: {reason(exc)}") from None

    def _read(self, raw: msgspec.Raw) -> msgspec.Raw:
        """Value by value."""
        parts: list[bytes] = []
        changed = False
        fields = fields_of(raw)
        for name, value in fields.items():
            text = bytes(value)
            column = self._columns.get(name)
            found = text if column is None else self._value(column, name, text)
            changed = changed or found is not text
            parts.append(msgspec.json.encode(name) + b":" + found)
        self._learn(tuple(fields))
        return msgspec.Raw(b"{" + b",".join(parts) + b"}") if changed else raw

    def _value(self, column: Column, name: str, text: bytes) -> bytes:
        if text == b"null":
            return text
        try:
            found = text if column.convert is None else column.convert(text)
        except ValueError:
            found = b""
        if not found or not (column.type == types.NULL or values.fits(column.type, found)):
            if name in self._spared:
                return text
            shown = text[:60].decode("utf-8", "backslashreplace")
            msg = f"column {name!r} is declared {types.name(column.type)} and holds {shown}"
            raise Contradiction(msg)
        return found

    def _learn(self, names: tuple[str, ...]) -> None:
        """Make a pattern for rows with these columns in this order."""
        if names in self._known or len(self._patterns) >= MAX_PATTERNS or not 0 < len(names) <= MAX_COLUMNS:
            return
        if sum(map(len, names)) > MAX_NAMES:
            return
        self._known.add(names)
        begins, patterns = [], []
        others: list[tuple[int, str, Column]] = []
        unchanged = True
        for i, name in enumerate(names):
            column = self._columns.get(name)
            pattern = None
            if column is not None:
                pattern = column.pattern
                unchanged = unchanged and column.convert is None
                if pattern is None:
                    others.append((i, name, column))
            begins.append(msgspec.json.encode(name) + b":")
            patterns.append(re.escape(begins[-1]) + (pattern or _SCALAR))
        match = re.compile(rb"\{" + b",".join(patterns) + rb"\}").fullmatch
        template = b"{" + b",".join(begin.replace(b"%", b"%%") + b"%b" for begin in begins) + b"}"
        self._patterns.append((match, b"" if unchanged and not others else template, others))

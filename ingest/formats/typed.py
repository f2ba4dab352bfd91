"""Rows whose message tells the columns' types: checks each value against its type, and puts converted ones in.

In: a row's JSON text. Out: its JSON text with every value as the JSON of its type, or why the message contradicts
itself. A row in which nothing has to be converted stays the very bytes it came in.
"""

from __future__ import annotations

from enum import Enum, auto
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import msgspec

from ingest.model import temporal, types, values
from ingest.model.change import InlineSchema
from ingest.model.jsontext import fields_of
from ingest.model.reject import Contradiction
from ingest.model.spelling import says
from ingest.model.types import BooleanType, DataType, DecimalType, DoubleType, FloatType, StringType, TimeType

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Convert: TypeAlias = Callable[[bytes], bytes]
    """The JSON text of a value, from how the message has it; raises ValueError for what is none of its type."""


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
    UNSCALED_TEXT = auto()
    VARIABLE = auto()
    BITS = auto()
    SHORT_NUMBER = auto()
    """A number of so few digits that a DOUBLE is exactly it; others are left to the reference."""


class TypedColumn(NamedTuple):
    """The type that a message declares for one column, and how its values are read."""

    type: DataType
    """NULL: a DECIMAL, of which its values tell the size."""
    convert: Convert | None = None
    """The conversion of values that are not in the JSON of their type; None where they are."""
    reads: tuple[Reads, int, int] = (Reads.OTHER, 0, 0)
    """The way in which native code reads the values, with two numbers that belong to it: bits; precision and scale;
    most characters, or -1; how many microseconds are one; how many bytes there are; 1 for a moment in UTC,
    which ends with `Z`."""
    is_number: bool = False
    """True if each value is a text that holds a number, because no type of numbers has room for all of them."""
    within: Callable[[DataType], Convert | None] | None = None
    """For an array, a map or a struct: the function that returns the conversion of values that the pipeline declares to
    be of a type."""
    sized: bool = True
    """False for a DECIMAL whose size the message does not say: a number that has no room in it is as large as it is."""
    number: Convert | None = None
    """For what is no number here and is one in the database: the conversion to it, where the pipeline declares one."""


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
    texts_ = {Reads.INT: Reads.QUOTED_INT, Reads.NUMBER: Reads.QUOTED_NUMBER, Reads.DECIMAL: Reads.QUOTED_DECIMAL}
    return (texts_.get(how, Reads.OTHER), a, b)


_NONE: Final[Mapping[str, DataType]] = MappingProxyType({})


class Typed:
    """The columns of one inline schema: what they are, and how their values are to be read."""

    def __init__(
        self,
        columns: Mapping[str, TypedColumn],
        primary_key: tuple[str, ...] = (),
        *,
        overlay: bool = False,
        as_string: bool = False,
        given: Mapping[str, DataType] = _NONE,
    ) -> None:
        """Keep the columns.

        `given`: columns whose types the pipeline declares, with these types. They decide in which form all values of a
        column are: a time as a number where that is declared, else as a text. Where a value is not of the type that its
        message says, it stays as it came, to be judged by the pipeline's type.
        """
        columns = {name: beside(column, given.get(name, types.NULL)) for name, column in columns.items()}
        self._columns = columns
        self._given = given
        self._as_string = as_string
        self.size = 4000 + sum(1000 + 12 * len(name) for name in (*columns, *primary_key))
        """Bytes that it takes, about."""
        declared = {name: types.STRING if as_string else column.type for name, column in columns.items()}
        numbers = frozenset(name for name, column in columns.items() if column.is_number)
        self.declared = InlineSchema(declared, primary_key, overlay, numbers=numbers)

    def image(self, raw: msgspec.Raw) -> msgspec.Raw:
        """Return the row with converted values; raises Contradiction, or one of MALFORMED."""
        row, unread = self.before(raw)
        for why in unread.values():
            raise Contradiction(why)
        return row

    def before(self, raw: msgspec.Raw) -> tuple[msgspec.Raw, dict[str, str]]:
        """Return what can be read of a row before a change, and why its other columns cannot.

        Raises one of MALFORMED.
        """
        parts: list[bytes] = []
        unread: dict[str, str] = {}
        changed = False
        for name, value in fields_of(raw).items():
            text = bytes(value)
            column = self._columns.get(name)
            try:
                found = text if column is None else self._value(column, name, text)
            except Contradiction as exc:
                unread[name] = str(exc)
                continue
            changed = changed or found is not text
            parts.append(msgspec.json.encode(name) + b":" + found)
        return msgspec.Raw(b"{" + b",".join(parts) + b"}") if changed or unread else raw, unread

    def _value(self, column: TypedColumn, name: str, text: bytes) -> bytes:
        """Return the JSON text of a value in its column's type; raises Contradiction where it says none of it."""
        if text == b"null":
            return text
        given = types.STRING if self._as_string else self._given.get(name)
        try:
            found = text if column.convert is None else column.convert(text)
        except ValueError:
            found = b""
        if isinstance(given, types.NESTED):
            return (
                text
                if not found or (says(given, text, temporal.SQL) and not says(given, found, temporal.SQL))
                else found
            )
        is_of = bool(found) and (_is_of(column.type, found) or (_is_time(column.type) and _is_text(given, found)))
        if not is_of and not (found and not column.sized and values.is_plain_number(found)):
            if given is not None:
                return text
            shown = text[:60].decode("utf-8", "backslashreplace")
            msg = f"column {name!r} is declared {types.name(column.type)} and holds {shown}"
            if _is_time(column.type) and text[:1] == b'"':  # as `0000-00-00` of MySQL
                msg += "; a column that scan.value.initial-schemas.ddls declares STRING takes it as this text"
            elif column.type == types.BOOLEAN and text.strip(b'"').lstrip(b"-").isdigit():  # a tinyint(1) of MySQL
                msg += "; a column that scan.value.initial-schemas.ddls declares TINYINT takes it as this number"
            raise Contradiction(msg)
        return found


def beside(column: TypedColumn, given: DataType) -> TypedColumn:
    """Return how values of a column are read whose type the pipeline declares; NULL: it does not.

    A number that stands for a time, or that a message has for a boolean or bits, stays one where a number is declared.
    Where a text is, it is the number of bits and booleans, too: `2` of a `tinyint(1)` is no boolean.
    """
    if column.within is not None and isinstance(given, types.NESTED):
        return column._replace(convert=column.within(given))
    if column.number is not None and (isinstance(given, types.NUMBERS) or types.is_text(given)):
        return TypedColumn(types.BIGINT, column.number, reads_quoted(types.BIGINT))
    if column.reads[0] in _COUNTS and isinstance(given, types.NUMBERS):
        return TypedColumn(types.BIGINT, reads=reads_plain(types.BIGINT))
    return column


_COUNTS: Final = frozenset({Reads.DAYS, Reads.TIME, Reads.MOMENT})


def _is_time(data_type: DataType) -> bool:
    return isinstance(data_type, (*types.TIMES, TimeType))


def _is_text(given: DataType | None, text: bytes) -> bool:
    """Return whether a value is a JSON string, and the pipeline declares its column a text.

    Such a column takes any text in the place of a time, also one that no calendar has: `0000-00-00`.
    """
    return given is not None and types.is_text(given) and text[:1] == b'"'


def _is_of(data_type: DataType, text: bytes) -> bool:
    """Return whether a text is a value of a type that a message declares.

    Values of databases that no type of ours has are, too: a TIME beyond the day, and times outside of the years 1 to
    9999. Whether there is a column for them is seen when the row is compared with its table's schema.
    """
    if data_type == types.NULL or values.holds(data_type, text):
        return True
    if isinstance(data_type, TimeType):
        return temporal.is_long_time(text)
    return isinstance(data_type, types.TIMES) and temporal.is_far(text)

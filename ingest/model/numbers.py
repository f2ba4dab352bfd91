"""Numbers beside the binary numbers that columns hold: which are exactly one, which are near enough, and which are not.

In: the JSON text of a number, and the type that its message declares. Out: whether a FLOAT or DOUBLE is that number.
Rules: docs/spec/types.md#numbers-of-tables.
"""

from __future__ import annotations

import math
from decimal import Decimal, DecimalException
from enum import Enum, auto
from functools import lru_cache, partial
from struct import Struct
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from ingest.model.jsontext import MALFORMED, fields_of
from ingest.model.types import INTEGERS, STRING, ArrayType, DecimalType, DoubleType, FloatType, MapType, StructType
from ingest.model.values import elements_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ingest.model.types import DataType

Rounds: TypeAlias = "Callable[[bytes, DataType | None], bool]"
"""Function that says whether a value, given as JSON text, or one inside of it is written as another number.

The second argument is the type that its message declares, as in `fit_of`."""
_text_of: Final = msgspec.json.Decoder(str).decode
FLOATS: Final = (FloatType, DoubleType)
LARGEST: Final = 1 << 53
"""The largest number up to which a DOUBLE has each whole number; a number that is not exact fits up to it."""
_FLOAT: Final = Struct("<f")
_MOST_DIGITS: Final = 800
"""More digits than any DOUBLE has: printed with so many it is itself."""


class Numbers(Enum):
    """What becomes of a number that no binary number is, in what a sink writes."""

    TEXTS = auto()
    """Its text is written, with all digits."""
    COUNTED = auto()
    """It is rounded, and counted."""
    IN_KEYS = auto()
    """The same in columns of records' keys; in all others its text is written."""
    STORED = auto()
    """Its column becomes a wider one where it does not fit."""
    COMPUTED = auto()
    """It is rounded, and counted. A FLOAT or DOUBLE of a row comes from an expression, so it is a binary number."""


class Fit(Enum):
    """How a number fits a column of binary numbers."""

    EXACT = auto()
    ROUNDED = auto()
    """It fits, and loses digits."""
    UNFIT = auto()


def is_number(raw: bytes) -> bool:
    """Return whether a JSON value is a number."""
    first = raw[:1]
    return first == b"-" or first.isdigit()


def is_large(raw: bytes) -> bool:
    """Return whether a value is a number beyond ±2^53."""
    return is_number(raw) and not _is_within(float(raw), raw)


def stored_as(rows: DataType, there: DataType | None) -> DataType | None:
    """Return the type by which a column of a table keeps numbers of rows; None where it is that of the rows.

    `there`: the column's type in the table, STRING for one that keeps all digits.
    """
    if there == rows or there is None:
        return None
    if isinstance(rows, (*INTEGERS, *FLOATS, DecimalType)) and isinstance(there, FLOATS):
        return there
    return there if isinstance(rows, FLOATS) and there == STRING else None


def says_exactly(data_type: DataType, raw: bytes) -> bool:
    """Return whether a value is a number, and its column one of exact numbers, which takes it in any spelling."""
    return isinstance(data_type, (*INTEGERS, DecimalType)) and is_number(raw)


def fit_of(data_type: DataType, raw: bytes, said: DataType | None = None) -> Fit:
    """Return how a number fits a FLOAT or DOUBLE. `said`: the type that its message declares for it.

    A number that is declared to be a binary one is that: its text has the digits which tell it from others.
    """
    single = isinstance(data_type, FloatType)
    if isinstance(said, FloatType) or (isinstance(said, DoubleType) and not single):
        return Fit.EXACT
    value = float(raw)
    if math.isinf(value):
        return Fit.UNFIT
    if single:
        exact = isinstance(said, DoubleType) or _equal(value, raw)
        return Fit.EXACT if exact and _is_single(value) else Fit.UNFIT
    if _is_said_by(value, raw):
        return Fit.EXACT
    return Fit.ROUNDED if _is_within(value, raw) else Fit.UNFIT


def nearest(data_type: DataType, raw: bytes) -> float | None:
    """Return the FLOAT or DOUBLE that a number is rounded to; None for one beyond all of them."""
    value = float(raw)
    try:
        (found,) = _FLOAT.unpack(_FLOAT.pack(value)) if isinstance(data_type, FloatType) else (value,)
    except OverflowError:
        return None
    return None if math.isinf(found) else float(found)


def is_key(data_type: DataType, raw: bytes, said: DataType | None = None) -> bool:
    """Return whether a FLOAT or DOUBLE tells a number of a key from others. `said`: see `fit_of`.

    Of all numbers that are the same one there, only the shortest is: the others are other keys, and where the column
    becomes a text, its rows have the text of that one.
    """
    exact = fit_of(data_type, raw, said) is Fit.EXACT
    if isinstance(said, FLOATS) and exact:
        return True
    if not exact and not isinstance(data_type, FloatType):
        return False
    value = nearest(data_type, raw)
    if value is None:
        return False
    if not value:
        return _equal(value, raw)
    try:
        return Decimal(_shortest(data_type, value)) == Decimal(raw.decode())
    except DecimalException:  # an exponent past all reason
        return False


def rounds_number(raw: bytes, said: DataType | None, data_type: DataType) -> bool:
    """Return whether a value is a number that a FLOAT or DOUBLE is not. `said`: see `fit_of`."""
    return is_number(raw) and fit_of(data_type, raw, said) is not Fit.EXACT


@lru_cache(maxsize=10_000)
def rounding_of(data_type: DataType) -> Rounds | None:
    """Return the function that says whether a value of a type, or one inside of it, is rounded; None where none is."""
    if isinstance(data_type, FLOATS):
        return partial(rounds_number, data_type=data_type)
    if isinstance(data_type, ArrayType):
        return in_elements(rounding_of(data_type.element))
    if isinstance(data_type, MapType):
        return in_values(rounding_of(data_type.value))
    if isinstance(data_type, StructType):
        return in_fields({field.name: rounding_of(field.type) for field in data_type.fields})
    return None


def in_elements(rounds: Rounds | None) -> Rounds | None:
    """Return the function for arrays whose elements have this one."""
    if rounds is None:
        return None

    def any_rounded(raw: bytes, said: DataType | None) -> bool:
        element = said.element if isinstance(said, ArrayType) else None
        return any(rounds(one, element) for _, one in _inside(raw, b"["))

    return any_rounded


def in_values(rounds: Rounds | None) -> Rounds | None:
    """Return the function for objects of which each value has this one."""
    if rounds is None:
        return None

    def any_rounded(raw: bytes, said: DataType | None) -> bool:
        value = said.value if isinstance(said, MapType) else None
        return any(rounds(one, value) for _, one in _inside(raw, b"{"))

    return any_rounded


def in_fields(fields: Mapping[str, Rounds | None]) -> Rounds | None:
    """Return the function for objects whose members have these, by their names."""
    known = {name: rounds for name, rounds in fields.items() if rounds is not None}
    if not known:
        return None

    def any_rounded(raw: bytes, said: DataType | None) -> bool:
        declared = {field.name: field.type for field in said.fields} if isinstance(said, StructType) else {}
        return any(known[name](one, declared.get(name)) for name, one in _inside(raw, b"{") if name in known)

    return any_rounded


def either(one: Rounds | None, other: Rounds | None) -> Rounds | None:
    """Return the function for values that are written in two places."""
    if one is None or other is None:
        return one or other
    return lambda raw, said: one(raw, said) or other(raw, said)


def _inside(raw: bytes, first: bytes) -> list[tuple[str, bytes]]:
    """Return the values inside of an array or object, or of the one whose JSON a text holds, with their names.

    There are none in another value. `first`: the byte that it begins with.
    """
    try:
        opened = _text_of(raw).encode() if raw[:1] == b'"' else raw
        if opened[:1] != first:
            return []
        if first == b"[":
            return [("", bytes(one)) for one in elements_of(opened)]
        return [(name, bytes(one)) for name, one in fields_of(msgspec.Raw(opened)).items()]
    except (*MALFORMED, UnicodeEncodeError):
        return []  # it is no value of its type, which is said elsewhere


def _shortest(data_type: DataType, value: float) -> str:
    """Return the shortest number by which a FLOAT or DOUBLE is known."""
    if not isinstance(data_type, FloatType):
        return repr(value)
    texts = (f"{value:.{digits}e}" for digits in range(9))
    return next(text for text in texts if nearest(data_type, text.encode()) == value)


def _is_single(value: float) -> bool:
    try:
        (found,) = _FLOAT.unpack(_FLOAT.pack(value))
    except OverflowError:
        return False
    return bool(found == value)


def _equal(value: float, raw: bytes) -> bool:
    """Return whether a finite double is exactly the number of a text."""
    if not value:
        return not _digits(raw)
    try:
        return Decimal(value) == Decimal(raw.decode())
    except DecimalException:  # an exponent past all reason, after a mantissa that makes up for it
        return False


def _is_said_by(value: float, raw: bytes) -> bool:
    """Return whether a finite double, printed with as many significant digits as a text has, is that text's number."""
    digits = len(_digits(raw))
    if not value or digits > _MOST_DIGITS:
        return _equal(value, raw)
    try:
        return Decimal(f"{value:.{digits - 1}e}") == Decimal(raw.decode())
    except DecimalException:
        return False


def _is_within(value: float, raw: bytes) -> bool:
    """Return whether a number is not beyond `LARGEST`. `value`: the nearest double, which is finite."""
    if abs(value) != LARGEST:
        return abs(value) < LARGEST
    try:
        return abs(Decimal(raw.decode())) <= LARGEST
    except DecimalException:
        return False


def _digits(raw: bytes) -> bytes:
    """Return the significant digits of a number; none of a zero."""
    mantissa = raw.lower().partition(b"e")[0]
    return mantissa.lstrip(b"-").replace(b".", b"").lstrip(b"0")

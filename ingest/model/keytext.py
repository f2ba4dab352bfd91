"""The text of a key value: what the value itself says, whatever its column's type is and has been.

In: the JSON text of a value as its message has it. Out: the one JSON text that all equal values have, so that a row
keeps its key while its table's schema grows. Rules: docs/spec/keys.md#text-of-a-key-value.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

MAX_ZEROS: Final = 40
"""Zeros at one end of a number that is written without an exponent; native code leaves longer numbers."""
_MAX_EXPONENT: Final = 18
"""Digits of an exponent that is read as a number."""

_number = re.compile(rb"(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?)([0-9]+))?").fullmatch


def key_text(value: bytes, *, as_string: bool = False, is_number: bool = False, bare: bool = False) -> bytes:
    """Return the JSON text that a value has in a key: one for all equal values.

    Numbers are equal by what they are worth (`41`, `41.0`), texts by their characters. An object or an array is the
    text that holds its compact JSON. `as_string`: numbers and booleans are read as texts
    (`*.infer-schema.primitive-as-string`). `is_number`: a text is what the number in it is worth, if one is in it, and
    that number itself if `bare`. Raises msgspec.DecodeError for what is not JSON.
    """
    if is_number and value[:1] == b'"' and says_number(value):
        number = _number_text(value[1:-1])
        return number if bare and not as_string else b'"' + number + b'"'
    text = _own_text(value)
    return b'"' + text + b'"' if as_string and text[:1] != b'"' else text


def says_number(value: bytes) -> bool:
    """Return whether a JSON value is a number, or a text that holds one."""
    return _number(value[1:-1] if value[:1] == b'"' else value) is not None


def _own_text(value: bytes) -> bytes:
    first = value[:1]
    if first == b'"':
        return msgspec.json.encode(msgspec.json.decode(value))
    if first in {b"{", b"["}:
        return msgspec.json.encode(msgspec.json.format(value, indent=-1).decode())
    return value if first in {b"t", b"f", b"n"} else _number_text(value)


def _number_text(value: bytes) -> bytes:
    if len(value) <= MAX_ZEROS and value.isdigit():
        return value
    found = _number(value)
    if found is None:
        msg = "not a number"
        raise msgspec.DecodeError(msg)
    sign, whole, fraction, minus, exponent = found.groups(b"")
    digits = (whole + fraction).lstrip(b"0")
    stripped = digits.rstrip(b"0")
    if not stripped:
        return b"0"
    exponent = exponent.lstrip(b"0")
    if len(exponent) > _MAX_EXPONENT:
        return value
    power = int(minus + (exponent or b"0")) - len(fraction) + len(digits) - len(stripped)
    point = len(stripped) + power  # so many digits are before it
    if max(power, -point) > MAX_ZEROS:
        return b"%b%be%d" % (sign, stripped, power)
    if power >= 0:
        return sign + stripped + b"0" * power
    whole, fraction = stripped[: max(point, 0)], stripped[max(point, 0) :].rjust(-power, b"0")
    return b"%b%b.%b" % (sign, whole or b"0", fraction)

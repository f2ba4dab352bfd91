"""JSON text of rows and keys: split into members without parsing the values, so that no number loses a digit.

And the text of a key value: what the value itself says, whatever its column's type is and has been, so that a row keeps
its key while its table's schema grows. Rules: docs/spec/keys.md#text-of-a-key-value.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from ingest.model.reject import RowError

Json: TypeAlias = Any
"""Value of JSON, as Python has it."""

MALFORMED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""The exceptions of msgspec for a text that is not JSON, or not of the expected shape."""

fields_of = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
"""Function that returns a row's columns, each with the JSON text of its value. It raises one of MALFORMED."""


def object_of(fields: Mapping[str, bytes]) -> bytes:
    """Return an object's JSON text from the texts of its values. It is the reverse of `fields_of`."""
    return b"{" + b",".join([msgspec.json.encode(name) + b":" + value for name, value in fields.items()]) + b"}"


def reason(exc: BaseException) -> str:
    """Return in one line why a text is not JSON. `exc` is one of MALFORMED."""
    if isinstance(exc, UnicodeDecodeError):
        return "invalid UTF-8"
    if isinstance(exc, RecursionError):
        return "nested too deep"
    text = str(exc)
    # msgspec has the same message for a lone surrogate
    return "truncated, or a lone surrogate" if text == "Input data was truncated" else text


_ESCAPE: Final = re.compile(rb"\\(?:u([0-9a-fA-F]{4})|.)")


def check_text(text: bytes) -> None:
    """Raise one of MALFORMED where a JSON text is not UTF-8 or has a lone surrogate.

    msgspec does not check this for values that it only slices.
    """
    if not text.isascii():
        text.decode()
    if b"\\ud" not in text and b"\\uD" not in text:
        return
    high = -1  # position where a low surrogate has to begin
    for found in _ESCAPE.finditer(text):
        code = int(found.group(1) or b"0", 16)
        low = 0xDC00 <= code < 0xE000
        if low != (found.start() == high) or (high >= 0 and found.start() > high):
            break
        high = found.end() if 0xD800 <= code < 0xDC00 else -1
    else:
        if high < 0:
            return
    raise msgspec.DecodeError("a lone surrogate")


def parse_row(raw: msgspec.Raw) -> dict[str, bytes]:
    """Return a row's columns, each with the JSON text of its value. Raise RowError where the text is no JSON object."""
    text = bytes(raw)
    if text == b"null":
        raise RowError("no-after", "an insert or update needs an after image, and this one is null")
    try:
        check_text(text)
        return {name: bytes(value) for name, value in fields_of(text).items()}
    except UnicodeDecodeError:
        raise RowError("malformed", "the row is not valid UTF-8") from None
    except MALFORMED as exc:
        raise RowError("malformed", f"the row is not a JSON object: {reason(exc)}") from None


PAYLOAD: Final = "payload"
"""The member of an envelope that holds what it is around."""


class _KeyEnvelope(msgspec.Struct):
    payload: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    schema: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_key_envelope = msgspec.json.Decoder(_KeyEnvelope).decode


def schema_of_key(message_key: bytes) -> bytes | None:
    """Return the schema in the envelope around a message key; None where there is none."""
    try:
        envelope = _key_envelope(message_key)
    except MALFORMED:
        return None
    if envelope.schema is msgspec.UNSET or envelope.payload is msgspec.UNSET:
        return None
    schema = bytes(envelope.schema)
    return schema if schema.startswith(b"{") else None


def key_image(message_key: bytes, columns: Container[str] = ()) -> msgspec.Raw | None:
    """Return the JSON object in a message key, without its envelope, which may lack the schema.

    Return None where the key is something else. `columns`: those of the table, as far as they are known. An object
    under the name `payload` is an envelope without its schema only where the table has no column of that name.
    """
    try:
        envelope = _key_envelope(message_key)
        payload = envelope.payload
        if payload is msgspec.UNSET:
            return msgspec.Raw(message_key)
        if envelope.schema is msgspec.UNSET and not (
            bytes(payload).startswith(b"{") and PAYLOAD not in columns and len(fields_of(message_key)) == 1
        ):
            return msgspec.Raw(message_key)
        fields_of(payload)
    except MALFORMED:
        return None
    return payload


MAX_ZEROS: Final = 40
"""Zeros at one end of a number that is written without an exponent; native code leaves longer numbers."""
_MAX_EXPONENT: Final = 18
"""Digits of an exponent that is read as a number."""

_number: Final = re.compile(rb"(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?)([0-9]+))?").fullmatch


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
        raise msgspec.DecodeError("not a number")
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

"""Splitting of JSON objects into their members, without parsing the values.

In: JSON text. Out: the members with exactly the bytes of their values, so that no number loses a digit.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    msg = "a lone surrogate"
    raise msgspec.DecodeError(msg)

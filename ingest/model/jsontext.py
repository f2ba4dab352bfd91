"""JSON text taken apart without reading it: a row's columns, each with the very bytes of its value."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

MALFORMED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for text that is not JSON, or not of the shape asked for."""

fields_of = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
"""A row's columns with the JSON text of each; raises one of MALFORMED."""


def object_of(fields: Mapping[str, bytes]) -> bytes:
    """Undo `fields_of`: an object's text from that of its values."""
    return b"{" + b",".join([msgspec.json.encode(name) + b":" + value for name, value in fields.items()]) + b"}"


def reason(exc: BaseException) -> str:
    """Why text is not JSON, in one line that promises no more than is known."""
    if isinstance(exc, UnicodeDecodeError):
        return "invalid UTF-8"
    if isinstance(exc, RecursionError):
        return "nested too deep"
    text = str(exc)
    # msgspec says this of a lone surrogate, too
    return "truncated, or a lone surrogate" if text == "Input data was truncated" else text


_ESCAPE: Final = re.compile(rb"\\(?:u([0-9a-fA-F]{4})|.)")


def check_text(text: bytes) -> None:
    """Raise one of MALFORMED where JSON text is not UTF-8 or has a lone surrogate: slices of it were not looked at."""
    if not text.isascii():
        text.decode()
    if b"\\ud" not in text and b"\\uD" not in text:
        return
    high = -1  # where a low surrogate has to begin
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

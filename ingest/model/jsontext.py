"""JSON text taken apart without reading it: a row's columns, each with the very bytes of its value."""

from __future__ import annotations

import msgspec

MALFORMED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for text that is not JSON, or not of the shape asked for."""

fields_of = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
"""A row's columns with the JSON text of each; raises one of MALFORMED."""


def reason(exc: BaseException) -> str:
    """Why text is not JSON, in one line that promises no more than is known."""
    if isinstance(exc, UnicodeDecodeError):
        return "invalid UTF-8"
    if isinstance(exc, RecursionError):
        return "nested too deep"
    text = str(exc)
    # msgspec says this of a lone surrogate, too
    return "truncated, or a lone surrogate" if text == "Input data was truncated" else text

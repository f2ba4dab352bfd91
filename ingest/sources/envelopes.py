"""Lines of files with `file.envelope`: a key, a value and more in one JSON object.

In: a line. Out: what a record is made of, or the reason why the line is none. Rules: docs/spec/sources.md#files.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from ingest.model.change import Reject
from ingest.model.jsontext import MALFORMED, reason

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingest.formats import Decoder
    from ingest.model.change import Decoded
    from ingest.model.record import Headers

_ABSENT = msgspec.Raw(b"")


class LineError(ValueError):
    """Error about a line that is no record."""


class Envelope(NamedTuple):
    """The parts of a record, as a line has them."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp: int | None
    topic: str | None


class _Line(msgspec.Struct):
    key: msgspec.Raw = _ABSENT
    key_base64: str | msgspec.UnsetType | None = msgspec.field(name="key-base64", default=msgspec.UNSET)
    value: msgspec.Raw = _ABSENT
    value_base64: str | msgspec.UnsetType | None = msgspec.field(name="value-base64", default=msgspec.UNSET)
    headers: dict[str, str | None] = {}
    timestamp: int | None = None
    topic: str | None = None


_line = msgspec.json.Decoder(_Line).decode


def read_line(text: bytes) -> Envelope:
    """Return what a line holds. Raise LineError."""
    try:
        found = _line(text)
    except MALFORMED as exc:
        msg = f"the line is no envelope, a JSON object with key and value (file.envelope): {reason(exc)}"
        raise LineError(msg) from None
    key = _content("key", found.key, found.key_base64)
    value = _content("value", found.value, found.value_base64)
    headers: Headers = [(k, None if v is None else v.encode()) for k, v in found.headers.items()]
    return Envelope(key, value, headers, found.timestamp, found.topic)


def _content(name: str, raw: msgspec.Raw, coded: str | msgspec.UnsetType | None) -> bytes | None:
    """Return the bytes that a line says: null is none, a text is itself, other JSON its own text. Raise LineError."""
    text = bytes(raw)
    if coded is not msgspec.UNSET:
        if text:
            msg = f"the line has both {name} and {name}-base64: give one of them"
            raise LineError(msg)
        return None if coded is None else _decoded(name, coded)
    if text in {b"", b"null"}:
        return None
    if text[:1] != b'"':
        return text
    try:
        return msgspec.json.decode(text, type=str).encode()
    except MALFORMED as exc:
        msg = f"{name} is no text in UTF-8 ({reason(exc)}): give its bytes as {name}-base64"
        raise LineError(msg) from None


def _decoded(name: str, coded: str) -> bytes:
    try:
        return base64.b64decode(coded, validate=True)
    except ValueError as exc:
        msg = f"{name}-base64 is no Base64: {exc}"
        raise LineError(msg) from None


class BrokenLine(bytes):
    """A line that is no record, where its value would be.

    Native code leaves it to the reference, as it does all that is not of the class `bytes` itself.
    """

    why: str

    @classmethod
    def of(cls, line: bytes, error: LineError) -> BrokenLine:
        """Return a line with why it is no record."""
        made = cls(line)
        made.why = str(error)
        return made


class EnvelopeDecoder:
    """A format's decoder, for lines of which some may be broken: the format does not get to see these."""

    def __init__(self, decoder: Decoder) -> None:
        """Take the format's decoder."""
        self._decoder = decoder

    def decode(self, keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> list[Decoded]:
        """Return one result for each record, in order: a reject for a broken line."""
        broken = {at: value.why for at, value in enumerate(values) if isinstance(value, BrokenLine)}
        if not broken:
            return self._decoder.decode(keys, values)
        found = self._decoder.decode(keys, [None if at in broken else value for at, value in enumerate(values)])
        if type(found) is list and len(found) == len(values):  # else the caller says so
            for at, why in broken.items():
                found[at] = Reject("malformed", why)
        return found

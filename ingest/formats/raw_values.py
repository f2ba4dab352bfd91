"""Bytes of raw values, in both directions: texts in a charset, numbers in binary, and bytes.

In: bytes, or the JSON text of a value. Out: the JSON text, or bytes. Rules: docs/spec/raw.md#types.
"""

from __future__ import annotations

import base64
import codecs
import re
from collections.abc import Mapping
from struct import Struct, error
from typing import Final, Protocol

import msgspec

from ingest.model.floats import read_double, read_float
from ingest.model.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NullType,
    ShortType,
    is_text,
)

READABLE: Final = "STRING, CHAR, VARCHAR, BYTES, BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE"
"""Types of raw values."""
_INTEGERS: Final[Mapping[type[DataType], str]] = {ByteType: "b", ShortType: "h", IntegerType: "i", LongType: "q"}
_FLOATS: Final[Mapping[type[DataType], str]] = {FloatType: "f", DoubleType: "d"}
_JAVA: Final = re.compile(
    r"utf-(8|16|32)(-[bl]e)?|ascii|iso8859-\d+|cp\d+|gbk|gb2312|gb18030|big5|big5hkscs|shift_jis|euc_(jp|kr)"
    r"|iso2022_(jp|kr)|koi8-[ru]"
).fullmatch
"""Charsets that Java has, as Python calls them."""
_MARKS: Final = {
    "utf-16": (codecs.BOM_UTF16_BE, codecs.BOM_UTF16_LE),
    "utf-32": (codecs.BOM_UTF32_BE, codecs.BOM_UTF32_LE),
}


class Codec(Protocol):
    """Reader and writer of the values of a type. Both raise ValueError."""

    def read(self, value: bytes) -> bytes:
        """Return the JSON text of a value."""

    def write(self, text: bytes) -> bytes:
        """Return the bytes of a value, from its JSON text. It is not null."""


def charset_of(name: str) -> str:
    """Return the name of a charset of Java as Python has it; raises ValueError."""
    try:
        found = codecs.lookup(name.strip()).name
    except LookupError:
        found = ""
    if not _JAVA(found):
        msg = f"{name[:60]!r} is no charset that is known here; write UTF-8, UTF-16, ISO-8859-1, GBK or another one"
        raise ValueError(msg)
    return found


def codec_of(data_type: DataType, charset: str, *, little: bool) -> Codec | None:
    """Return the codec of a type; None for a type that raw values do not have. `little`: the byte order of numbers."""
    kind = type(data_type)
    order = "<" if little else ">"
    if is_text(data_type) or kind is NullType:
        return _Text(charset)
    if kind in _INTEGERS:
        return _Integer(Struct(order + _INTEGERS[kind]))
    if kind in _FLOATS:
        return _Float(Struct(order + _FLOATS[kind]))
    if kind is BinaryType:
        return _Bytes()
    return _Boolean() if kind is BooleanType else None


class _Text:
    """Texts. As in Java, UTF-16 and UTF-32 without a mark are big-endian, and UTF-16 is written with one."""

    def __init__(self, charset: str) -> None:
        self._charset = charset
        self._marks = _MARKS.get(charset, ())

    def read(self, value: bytes) -> bytes:
        name = self._charset
        if self._marks and not value.startswith(self._marks):
            name += "-be"
        try:
            return msgspec.json.encode(value.decode(name))
        except UnicodeError:
            raise ValueError(f"it is no text in {self._charset}") from None

    def write(self, text: bytes) -> bytes:
        found = msgspec.json.decode(text, type=str) if text[:1] == b'"' else text.decode()
        try:
            if not self._marks:
                return found.encode(self._charset)
            # Java's UTF-32 writes no mark; without one, a text that begins with U+FEFF would lose it when it is read
            marked = found[:1] == "\ufeff" or (found and self._charset == "utf-16")
            mark = self._marks[0] if marked else b""
            return mark + found.encode(f"{self._charset}-be")
        except UnicodeError:
            raise ValueError(f"{self._charset} lacks a character of {found[:60]!r}") from None


class _Bytes:
    """Bytes, which are Base64 in JSON."""

    def read(self, value: bytes) -> bytes:
        return b'"' + base64.b64encode(value) + b'"'

    def write(self, text: bytes) -> bytes:
        return base64.b64decode(msgspec.json.decode(text, type=str), validate=True)


class _Boolean:
    """One byte; all but zero is true."""

    def read(self, value: bytes) -> bytes:
        _check(value, 1)
        return b"true" if value[0] else b"false"

    def write(self, text: bytes) -> bytes:
        return b"\1" if text == b"true" else b"\0"


class _Integer:
    def __init__(self, form: Struct) -> None:
        self._form = form

    def read(self, value: bytes) -> bytes:
        _check(value, self._form.size)
        return b"%d" % self._form.unpack(value)[0]

    def write(self, text: bytes) -> bytes:
        try:
            return self._form.pack(int(text))
        except error as exc:
            raise ValueError(str(exc)) from None


class _Float:
    def __init__(self, form: Struct) -> None:
        self._form = form
        self._read = read_float if form.size == Struct("f").size else read_double

    def read(self, value: bytes) -> bytes:
        _check(value, self._form.size)
        plain = value if self._form.format.startswith("<") else value[::-1]
        return msgspec.json.encode(self._read(plain, 0)[0])

    def write(self, text: bytes) -> bytes:
        try:
            return self._form.pack(float(text))
        except OverflowError:
            raise ValueError(f"{text[:60].decode()} is past the largest number of the type") from None


def _check(value: bytes, size: int) -> None:
    """Raise ValueError for a value that has not the size of its type."""
    if len(value) != size:
        raise ValueError(f"it has {len(value)} bytes, and values of its type have {size}")

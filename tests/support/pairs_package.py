"""A package with a format of keys and rows, pairs, as text: for tests of extensions."""

from __future__ import annotations

PAIRS = '''
import msgspec

from ingest.api import TOMBSTONE, Change, ColumnRef, FormatCapabilities, FormatOptions
from ingest.api import InlineSchema, Kind, Reject, RowError
from pydantic import Field
from typing import ClassVar


def texts(text):
    pairs = [pair.split("=", 1) for pair in text.decode().split(";")]
    return {name: value for name, value in pairs}


class Pairs(FormatOptions):
    """Options of `value.format: pairs`: rows like `id=1;name=tea`."""

    name: ClassVar[str] = "pairs"
    capabilities: ClassVar[FormatCapabilities] = FormatCapabilities(
        rows=True, reads_keys=True, writes_values=True, writes_keys=True
    )

    ignore_parse_errors: bool = Field(False, alias="pairs.ignore-parse-errors")
    """Skip and count messages that cannot be parsed."""

    sign: str = Field("=", alias="pairs.sign", max_length=1)
    """What is between a name and its value."""

    def reader_of(self, table):
        def read(text):
            try:
                found = dict(pair.split(self.sign, 1) for pair in text.decode().split(";"))
            except ValueError as exc:
                return Reject("malformed", f"no pairs: {exc}")
            return msgspec.Raw(msgspec.json.encode(found)), InlineSchema()

        return read

    def decoder(self, topic, *, keyed=False):
        return PairsDecoder(self.reader_of((topic,)), topic, keyed)

    def value_of(self, table, schema, *, include_schema=False):
        def value(kind, before, after):
            if kind is Kind.DELETE:
                return None
            return b";".join(name.encode() + self.sign.encode() + text_of(text) for name, text in after.items())

        return value

    def key_of(self, table, columns, first):
        pieces = []
        for name in columns:
            begin = (";" if pieces else "") + name + self.sign
            pieces += [begin.encode(), ColumnRef(name, write=text_of)]
        return tuple(pieces)


def text_of(text):
    value = msgspec.json.decode(text)
    if isinstance(value, str) and ";" in value:
        raise RowError("not-in-pairs", "a text with ';'")
    return str(value).encode()


class PairsDecoder:
    def __init__(self, read, topic, keyed):
        self._read, self._table, self._keyed = read, (topic,), keyed

    def decode(self, keys, values):
        return [self._one(value) for value in values]

    def _one(self, value):
        if value is None:
            return Change(self._table, Kind.DELETE, None, None, None, None) if self._keyed else TOMBSTONE
        found = self._read(value)
        return found if isinstance(found, Reject) else Change(self._table, Kind.INSERT, None, found[0], None, found[1])
'''

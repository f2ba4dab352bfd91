"""Keyed rows, as upsert topics hold them: the value is the row, or nothing for a row that was deleted.

In: keys and values of records. Out: an insert for each row, a delete for each null. Whether an insert is an update,
only somebody who knows the rows before can tell. Rules: docs/spec/json.md#upsert-topics.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from ingest.component.options import filled
from ingest.formats.key_reading import columns_beside, compared, json_key, key_reader, read_key
from ingest.model.change import Change, Decoded, InlineSchema, Kind, Reject
from ingest.model.jsontext import MALFORMED, key_image

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingest.component.files import Files
    from ingest.formats import Decoder
    from ingest.formats.format import FormatCapabilities
    from ingest.formats.key_reading import ReadKey
    from ingest.model.table import TableId
    from ingest.schema.type_hints import TypeHints

_NO_KEY: Final = "the record has no key, and a row of an upsert topic is its key's"


@dataclass(frozen=True)
class UpsertRows:
    """A format of rows, for upsert topics: the keys say who a row is."""

    rows: Any
    """The format of the values."""
    keys: Any = None
    """The options of the keys' format. None: keys are JSON."""

    form: ClassVar[None] = None
    inline_types: ClassVar[None] = None

    @property
    def capabilities(self) -> FormatCapabilities:
        """What the values' format can do."""
        capabilities: FormatCapabilities = self.rows.capabilities
        return capabilities

    @property
    def name(self) -> str:
        """The name of the values' format."""
        name: str = self.rows.name
        return name

    @property
    def ignore_parse_errors(self) -> bool:
        """True if records that cannot be parsed are skipped and counted, instead of rejected."""
        ignore: bool = self.rows.ignore_parse_errors
        return ignore

    @property
    def reading(self) -> TypeHints:
        """The rules for values whose types no message declares."""
        reading: TypeHints = self.rows.reading
        return reading

    def with_files(self, files: Files) -> Self:
        """Return the same with what is in the files that options name; raises IngestError."""
        return replace(self, rows=filled(self.rows, files), keys=filled(self.keys, files))

    def decoder(self, topic: str, *, keyed: bool = False) -> Decoder:
        """Return a decoder for one split's records; `keyed`: the key's fields are columns that the rows do not have."""
        read = key_reader(self.keys, (topic,))
        return UpsertDecoder(self.rows.decoder(topic), read, topic, self.reading.standard, keyed=keyed)


class UpsertDecoder:
    """Decodes one split: the rows as their format does, and who they are by their keys."""

    def __init__(self, rows: Decoder, read: ReadKey | None, topic: str, standard: str, *, keyed: bool) -> None:
        """Take the topic for the table; `read` reads a key that is not JSON."""
        self._standard = standard
        self._table: TableId = (topic,)
        self._rows = rows
        self._read = read
        self._keyed = keyed

    def decode(self, keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> list[Decoded]:
        """One result per record, in order."""
        rows = self._rows.decode(keys, values)
        return [self._one(key, value, row) for key, value, row in zip(keys, values, rows, strict=True)]

    def _one(self, key: bytes | None, value: bytes | None, row: Decoded) -> Decoded:
        if key is None:
            return Reject("null-key", _NO_KEY, self._table, of_key=True)
        if value is not None and not isinstance(row, Change):
            return row
        told, declared = None if self._keyed else key, None
        if told is not None and self._read is not None:
            found = read_key(self._read, key, self._table)
            if isinstance(found, Reject):
                return found
            told = bytes(found[0])
            declared = InlineSchema(numbers=found[1].numbers) if found[1].numbers else None
        if value is None or not isinstance(row, Change):
            if told is not None and self._read is None:  # the row of an insert has its key, too
                fields = json_key(told, self._table)
                if isinstance(fields, Reject):
                    return fields
            return Change(self._table, Kind.DELETE, None, None, told, declared)
        after = row.after
        assert after is not None, "an insert has one"
        numbers = frozenset[str]() if declared is None else declared.numbers
        others = {} if told is None else self._compared(told, bytes(after), row.declared, numbers)
        if isinstance(others, str):
            return Reject("column-clash", f"{others}, and a row of an upsert topic is its key's", self._table)
        said = row.declared
        if others:  # a delete has the key only, and what that declares
            said = said or InlineSchema()
            said = replace(said, in_key=others, numbers=said.numbers.difference(others) | numbers.intersection(others))
        return Change(self._table, Kind.INSERT, None, after, told, said)

    def _compared(
        self, key: bytes, row: bytes, declared: InlineSchema | None, numbers: frozenset[str]
    ) -> str | dict[str, bytes]:
        """Return what `compared` does; nothing for a key that is no object."""
        try:
            image = key if self._read is not None else key_image(key, columns_beside(key, row))
            return {} if image is None else compared(bytes(image), row, declared, self._standard, numbers)
        except MALFORMED:
            return {}

"""Keyed rows, as upsert topics hold them: the value is the row, or nothing for a row that was deleted.

In: keys and values of records. Out: an insert for each row, a delete for each null. Whether an insert is an update,
only somebody who knows the rows before can tell. Rules: docs/spec/json.md#upsert-topics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ingest.formats.json import Json
from ingest.model.change import Kind, Reject

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingest.formats import Decoder
    from ingest.formats.form import Form
    from ingest.model.change import Decoded
    from ingest.model.table import TableId

_NO_KEY: Final = "the record has no key, and a row of an upsert topic is its key's"


class UpsertJson(Json):
    """The options of `json`, for upsert topics."""

    @property
    def form(self) -> Form | None:
        """The keys say who a row is."""
        return None

    def decoder(self, topic: str, *, keyed: bool = False) -> Decoder:
        """Return a decoder for one split's records; `keyed`: the key's fields are columns that the rows do not have."""
        return UpsertDecoder(self, topic, keyed=keyed)


class UpsertDecoder:
    """Decodes one split: the rows as JSON does, and who they are by their keys."""

    def __init__(self, options: Json, topic: str, *, keyed: bool) -> None:
        """Take the topic for the table."""
        self._table: TableId = (topic,)
        self._rows = Json.decoder(options, topic)
        self._keyed = keyed

    def decode(self, keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> list[Decoded]:
        """One result per record, in order."""
        rows = self._rows.decode(keys, values)
        return [self._one(key, value, row) for key, value, row in zip(keys, values, rows, strict=True)]

    def _one(self, key: bytes | None, value: bytes | None, row: Decoded) -> Decoded:
        if key is None:
            return Reject("null-key", _NO_KEY, self._table)
        told = None if self._keyed else key
        if value is None:
            return (self._table, Kind.DELETE, None, None, told, None)
        if type(row) is not tuple:
            return row
        after = row[3]
        assert after is not None, "an insert has one"
        return (self._table, Kind.INSERT, None, after, told, None)

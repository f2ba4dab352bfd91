"""Decoding in Python: the reference for what native code does, and the way of everything that native code leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingest.component.plugins import wrong_result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingest.formats import Decoder
    from ingest.formats.metadata_columns import MetadataColumns
    from ingest.model.change import Decoded
    from ingest.model.record import Record, Split
    from ingest.sources import Source


class ChunkDecoder:
    """The decoders of a task's splits, and the columns that come from elsewhere than records' values."""

    def __init__(self, source: Source, columns: MetadataColumns | None) -> None:
        """`columns`: those from keys and metadata; None if there are none."""
        self._source = source
        self._columns = columns
        self._decoders: dict[tuple[Split, str], Decoder] = {}

    def decode(self, split: Split, topic: str, messages: Sequence[Record]) -> list[Decoded]:
        """Return the changes of each of some records of one split and topic, in their order.

        Raise PackageError, or InternalError for a format of this package, if the decoder does not return a list with
        one result for each record: which result is of which record is not known then, and records would be lost.
        """
        decoder = self._decoders.get((split, topic))
        if decoder is None:
            decoder = self._source.decoder(split, topic)
            self._decoders[split, topic] = decoder
        keys, values = [message.key() for message in messages], [message.value() for message in messages]
        changes = decoder.decode(keys, values)
        if type(changes) is not list or len(changes) != len(values):
            wrong = self._source.format
            got = f"a list of {len(changes)}" if type(changes) is list else f"no list, but {type(changes).__name__},"
            text = f"the format {wrong.name!r} returned {got} for {len(values)} records of topic {topic}"
            raise wrong_result(wrong, f"{text}; it owes a list with one result for each")
        return changes if self._columns is None else self._columns.add(changes, messages)

"""The encoding of a source table's changes as rows of a table that has all states, deletes as rows, too.

In: the schemas of both tables, and changes. Out: a record under its key for each change. Rules:
docs/spec/sinks.md#all-states-of-a-row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingest.encode.upsert_encoder import Coarse, UpsertEncoder
from ingest.model.jsontext import fields_of, object_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import msgspec

    from ingest.encode.upsert_encoder import AnyDestination, Record
    from ingest.model.change import InlineSchema, Kind
    from ingest.model.schema import TableSchema
    from ingest.model.table import TableId
    from ingest.schema.infer import Inference


class AppendEncoder(UpsertEncoder):
    """The encoder of one source table's changes. A delete is the row before it, as far as a message has it."""

    deletes_are_rows = True

    def __init__(
        self,
        table: TableId,
        source: TableSchema,
        sink: TableSchema,
        destination: AnyDestination,
        inference: Inference,
        *,
        key_from_message: bool,
        deleted: str,
    ) -> None:
        """Compare both schemas. `deleted`: the column that is true in the row of a delete."""
        super().__init__(
            table, source, sink, destination, inference, key_from_message=key_from_message, coarse=Coarse.KEYS
        )
        self._mark = {deleted: b"true"}

    def upsert(
        self,
        kind: Kind,
        before: msgspec.Raw | None,
        after: msgspec.Raw,
        message_key: bytes | None,
        declared: InlineSchema | None,
        emit: Callable[[Record], None],
    ) -> None:
        """Emit the row of an insert or update, behind that of a delete where the key changes."""
        super().upsert(
            kind, before, after, message_key, declared, lambda record: emit(self._row(record, before, declared))
        )

    def delete(
        self,
        before: msgspec.Raw | None,
        message_key: bytes | None,
        declared: InlineSchema | None,
        emit: Callable[[Record], None],
    ) -> None:
        """Emit the row of a delete; raises as `upsert` does."""
        super().delete(before, message_key, declared, lambda record: emit(self._row(record, before, declared)))

    def _row(self, record: Record, before: msgspec.Raw | None, declared: InlineSchema | None) -> Record:
        """Return a record as it is, and for a tombstone that of the row which is gone."""
        destination, key, value = record
        if value is not None:
            return record
        image = {} if before is None else self._coercer.last_row(before, declared)
        if key is not None and not image.keys() >= {*self._primary_key}:
            of_key = {name: bytes(value) for name, value in fields_of(key).items() if name not in image}
            self._coercer.count_rounded(of_key, declared)
        return destination, key, object_of({**image, **self._mark})

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

    from ingest.encode.upsert_encoder import Destination, Record
    from ingest.model.change import Change
    from ingest.model.schema import TableSchema
    from ingest.model.table import TableId
    from ingest.schema.evolve import SourceTable
    from ingest.schema.infer import Inference


class AppendEncoder(UpsertEncoder):
    """The encoder of one source table's changes. A delete is the row before it, as far as a message has it."""

    deletes_are_rows = True

    def __init__(
        self,
        table: TableId,
        source: SourceTable,
        sink: TableSchema,
        destination: Destination,
        inference: Inference,
        *,
        deleted: str,
        sequence: str | None = None,
    ) -> None:
        """Compare both schemas. `deleted`: the column that is true in the row of a delete."""
        super().__init__(
            table,
            source,
            sink,
            destination,
            inference,
            coarse=Coarse.KEYS,
            sequence=sequence,
        )
        self._mark = {deleted: b"true"}

    def upsert(self, change: Change, emit: Callable[[Record], None]) -> None:
        """Emit the row of an insert or update, behind that of a delete where the key changes."""
        super().upsert(change, lambda record: emit(self._row(record, change)))

    def delete(self, change: Change, emit: Callable[[Record], None]) -> None:
        """Emit the row of a delete; raises as `upsert` does."""
        super().delete(change, lambda record: emit(self._row(record, change)))

    def _row(self, record: Record, change: Change) -> Record:
        """Return a record as it is, and for a tombstone that of the row which is gone."""
        if record.value is not None:
            return record
        image = {} if change.before is None else self._coercer.last_row(change.before, change.declared)
        if record.key is not None and not image.keys() >= {*self._primary_key}:
            of_key = {name: bytes(value) for name, value in fields_of(record.key).items() if name not in image}
            self._coercer.count_rounded(of_key, change.declared)
        return record._replace(value=object_of({**image, **self._mark}))

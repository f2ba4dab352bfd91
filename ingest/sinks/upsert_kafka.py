"""Upserts into Kafka topics: a keyed row per insert or update, a tombstone per delete.

Reference: alibaba-upsert-kafka.txt; flip-149; decisions, "Sinks".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from ingest.sinks.topics import TopicsOptions

if TYPE_CHECKING:
    from ingest.flow.evolve import SourceTable
    from ingest.flow.infer import Inference
    from ingest.flow.plan import TablePlan
    from ingest.model.schema import TableSchema
    from ingest.model.table import TableId


class UpsertKafka(TopicsOptions):
    """Options of `sink:` with `type: upsert-kafka`."""

    needs_key: ClassVar[bool] = True
    cleanup: ClassVar[str] = "compact"

    type: Literal["upsert-kafka"]
    """`upsert-kafka`."""

    def plan(
        self, table: TableId, source: SourceTable, target: TableId, sink: TableSchema, inference: Inference
    ) -> TablePlan:
        """How rows of a table become keyed rows; raises RowError for an id that cannot be a topic's name."""
        from ingest.flow.plan import TablePlan  # noqa: PLC0415  (pyspark's types are slow to import; `check` needs none)

        destination = self.destination(target)
        return TablePlan(table, source.schema, sink, destination, inference, key_from_message=source.key_from_message)

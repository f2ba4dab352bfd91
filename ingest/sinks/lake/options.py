"""Options that the sinks in tables of a lake share, and how rows become those of such a table."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from ingest.component.options import Duration, OptionErrors
from ingest.encode.upsert_encoder import AppendEncoder, Coarse, UpsertEncoder
from ingest.model.numbers import Numbers
from ingest.model.reject import RowError
from ingest.model.table import TableId, show
from ingest.sinks.lake.table import LakeTable, StatesToWrite, TableName, Warehouse, stored_schema, table_of
from ingest.sinks.sink import RowOptions, SinkCapabilities

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ingest.model.schema import TableSchema
    from ingest.schema.evolve import SourceTable
    from ingest.schema.infer import Inference


class LakeOptions(RowOptions):
    """Options of a sink whose tasks write files, which the driver adds to tables."""

    codes: ClassVar[Mapping[str, str]] = {"bad-name": "a name that the table, its namespace or a column cannot have"}

    prefix_of_properties: ClassVar[str]
    """Beginning of the options that become the properties of one, which has this name and `*`."""
    package: ClassVar[str]
    """The name of the extra with the lake's library."""
    times: ClassVar[bool]
    """True if the lake has times of a day."""

    namespace: str = Field("default", alias="sink.default-namespace", min_length=1)
    """The namespace of tables whose id has one part. Of an id with more parts, the last one is the table and those
    before it are the namespace."""

    write_mode: Literal["upsert", "append"] = Field("upsert", alias="sink.write-mode")
    """What becomes of a row. `upsert`: a table has the last state of each key. `append`: it has all states, as rows one
    after the other, a delete as a row with its key and `sink.delete-column`; tables without a primary key can be
    written, too. Columns of `metadata.list` say when a state came, and in which order."""

    commit_interval: Duration = Field(60.0, alias="sink.commit-interval", ge=0, le=86_400)
    """The time between two batches that begin when all was read, and so between two commits of a table. Default: 1 min.
    While there are more records than a batch has, while rows of a database's tables are read, and with `--once`, there
    is no pause."""

    compaction: bool = Field(True, alias="sink.compaction.enabled")
    """Compact small files of a table now and then, and remove files that only old states of it have.
    The table's property says how old: `history.expire.max-snapshot-age-ms` in Iceberg (one day, in tables that are made
    here), `delta.deletedFileRetentionDuration` in Delta (a week)."""

    compaction_interval: int = Field(50, alias="sink.compaction.commit.interval", ge=2, le=100_000)
    """The number of a table's snapshots, or versions, between two compactions."""

    @model_validator(mode="before")
    @classmethod
    def _collect(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        prefix = cls.prefix_of_properties
        names = [key for key in data if key.startswith(prefix) and not key.endswith(".*")]
        found = {key.removeprefix(prefix): str(data[key]) for key in names}
        rest = {key: value for key, value in data.items() if key not in names}
        given = rest.get(f"{prefix}*", {})
        return {**rest, f"{prefix}*": {**given, **found}} if isinstance(given, dict) else rest

    @field_validator("namespace")
    @classmethod
    def _check_namespace(cls, value: str) -> str:
        if "." in value:
            raise ValueError("has a dot, which would be two namespaces")
        return value

    @model_validator(mode="after")
    def _check_append(self) -> Self:
        if (
            self.write_mode == "append"
            and "delete_strategy" in self.model_fields_set
            and self.delete_strategy == "hard"
        ):
            raise OptionErrors(
                ("sink.delete-strategy", "sink.delete-strategy: append removes no rows: write soft or ignore")
            )
        return self

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.sequence_by is not None and self.write_mode == "append":
            text = "sink.sequence-by: tables with sink.write-mode: append have all states, the older ones, too"
            raise OptionErrors(("sink.sequence-by", text))
        return self

    @property
    def capabilities(self) -> SinkCapabilities:
        """A batch is one commit for each table, which notes the batch."""
        upserts = self.write_mode == "upsert"
        return SinkCapabilities(
            needs_key=upserts,
            writes_keys=upserts,
            supersedes=upserts,
            keeps_states=not upserts,
            sequence_by=self.sequence_by,
            guarantee="exactly-once",
            numbers=Numbers.STORED,
            rest_s=self.commit_interval,
            lays_out=("partition-keys", "table-options"),
            packages=(self.package,),
        )

    def name_of(self, table: TableId) -> TableName:
        """Return the name of the table that rows of a sink table are in, with its namespace."""
        return (*(table[:-1] or (self.namespace,)), table[-1])

    def place_of(self, table: TableId) -> str:
        """Return the name of the table that rows of a sink table are in."""
        return show(self.name_of(table))

    @property
    @abstractmethod
    def warehouse(self) -> Warehouse[Any]:
        """The place of the tables. No connection is opened yet."""

    @property
    def deleted(self) -> str | None:
        """The column that says of a row that it is deleted; None where no row says so."""
        says = self.delete_strategy == "soft" or (self.write_mode == "append" and self.delete_strategy == "hard")
        return self.delete_column if says else None

    @property
    def states(self) -> StatesToWrite:
        """Which states of keys are written, and what becomes of deletes."""
        return StatesToWrite(
            append=self.write_mode == "append", soft=self.deleted is not None, ignore=self.delete_strategy == "ignore"
        )

    def table_for(self, table: TableId, schema: TableSchema) -> LakeTable:
        """Return the table that rows of a target go to. Raise RowError for names that it cannot have."""
        found, by = table_of(table, schema, self.namespace, times=self.times, deleted=self.deleted), self.sequence_by
        has = by not in found.key and any(one.name == by for one in found.columns)
        return replace(found, unique=self.write_mode == "upsert", sequence=by if has else None)

    def encoder(
        self, table: TableId, source: SourceTable, target: TableId, sink: TableSchema, inference: Inference
    ) -> UpsertEncoder:
        """Return how rows of a table become JSON under their keys; raises RowError for names that cannot be."""
        to: Any = self.table_for(target, sink)
        if not to.has_key:
            raise RowError("null-key", "a column of its primary key had only nulls so far")
        stored = stored_schema(sink, times=self.times)
        if self.write_mode == "append" and self.deleted is not None:
            append = AppendEncoder(table, source, stored, to, inference, coarse=Coarse.KEYS, sequence=to.sequence)
            return append.marking(self.deleted)
        return UpsertEncoder(table, source, stored, to, inference, coarse=Coarse.KEYS, sequence=to.sequence)

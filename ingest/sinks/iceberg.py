"""Rows into tables of an Iceberg catalog: files by tasks, one snapshot for each table and batch by the driver.

Rules: docs/spec/iceberg.md.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from pydantic import Field, model_validator

from ingest.component.options import Duration, OptionErrors
from ingest.encode.upsert_encoder import UpsertEncoder
from ingest.model.reject import RowError
from ingest.sinks.sink import SinkOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ingest.iceberg.catalog import Warehouse
    from ingest.lake.writer import LakeWriter
    from ingest.model.schema import TableSchema
    from ingest.model.table import TableId
    from ingest.schema.evolve import SourceTable
    from ingest.schema.infer import Inference
    from ingest.sinks.iceberg_coordinator import IcebergCoordinator

PREFIX: Final = "catalog.properties."
TYPES: Final = ("sql", "rest", "glue", "hive", "dynamodb", "bigquery")
_CODE: Final = re.compile(r"(?:^|[.-])(?:py-|impl(?:$|\.))|^py-|-impl$")
"""Names of properties that name classes to import."""
_NO_CODE: Final = "names code, which a pipeline file must not: the catalogs are those of the library"
_NO_CATALOG: Final = (
    "is missing: write catalog.properties.warehouse, or catalog.properties.type and catalog.properties.uri"
)
_DATABASES: Final = re.compile(r"(?:sqlite|postgresql(?:\+psycopg2?)?)://")


class IcebergSink(SinkOptions):
    """Options of `sink:` with `type: iceberg`."""

    codes: ClassVar[Mapping[str, str]] = {"bad-name": "a name that the table, its namespace or a column cannot have"}

    guarantee: ClassVar[str] = "exactly-once"
    """Guarantee of one snapshot for each table and batch, which notes the batch."""

    type: Literal["iceberg"]
    """`iceberg`."""

    catalog: dict[str, str] = Field(alias="catalog.properties.*")
    """Properties of the catalog, with pyiceberg's names: `catalog.properties.type` (`rest`, `sql`, `glue`, `hive`),
    `uri`, `warehouse`, `credential`, `s3.endpoint` and more. With `warehouse` alone, a directory, the catalog is a file
    in it."""

    namespace: str = Field("default", alias="sink.default-namespace", min_length=1)
    """The namespace of tables whose id has one part. Of an id with more parts, the last one is the table and those
    before it are the namespace."""

    commit_interval: Duration = Field(60.0, alias="sink.commit-interval", ge=0, le=86_400)
    """The time between two batches that begin when all was read, and so between two snapshots of a table. Default:
    1 min. While there are more records than a batch has, and with `--once`, there is no pause."""

    compaction: bool = Field(True, alias="sink.compaction.enabled")
    """Write small files and those with mostly dead rows anew now and then, and remove snapshots that are older than the
    table's property `history.expire.max-snapshot-age-ms` says (one day) with the files that only they have."""

    compaction_interval: int = Field(50, alias="sink.compaction.commit.interval", ge=2, le=100_000)
    """The number of a table's snapshots between two compactions."""

    @model_validator(mode="before")
    @classmethod
    def _collect(cls, data: Any) -> Any:  # noqa: ANN401  (whatever the file has)
        if not isinstance(data, dict):
            return data
        found = {key.removeprefix(PREFIX): str(value) for key, value in data.items() if _is_property(key)}
        rest = {key: value for key, value in data.items() if not _is_property(key)}
        return {**rest, f"{PREFIX}*": {**rest.get(f"{PREFIX}*", {}), **found}}

    @model_validator(mode="after")
    def _check_catalog(self) -> IcebergSink:
        problems = [(PREFIX + name, _NO_CODE) for name in self.catalog if _CODE.search(name)]
        kind, uri = self.catalog.get("type"), self.catalog.get("uri")
        if kind is not None and kind.lower() not in TYPES and "${" not in kind:
            problems.append((f"{PREFIX}type", f"is none of {', '.join(TYPES)}"))
        place = self.catalog.get("warehouse", "")
        if kind is None and uri is None and not place:
            problems.append((f"{PREFIX}*", _NO_CATALOG))
        if kind is None and uri is None and "://" in place.removeprefix("file://"):
            problems.append(
                (f"{PREFIX}warehouse", "is no directory: a catalog of others needs catalog.properties.type")
            )
        if kind in {"sql", "rest", "hive"} and uri is None:
            problems.append((f"{PREFIX}type", "needs catalog.properties.uri"))
        if kind == "sql" and uri is not None and "${" not in uri and not _DATABASES.match(uri):
            problems.append(
                (f"{PREFIX}uri", "is no database that can hold a catalog; write sqlite:// or postgresql://")
            )
        if kind is None and uri is None and (odd := set("%#?") & set(place)):
            problems.append((f"{PREFIX}warehouse", f"has {min(odd)!r} in the directory's name, which is a URL there"))
        if "." in self.namespace:
            problems.append(("sink.default-namespace", "has a dot, which would be two namespaces"))
        if problems:
            raise OptionErrors(*((key, f"{key}: {why}") for key, why in problems))
        return self

    @property
    def rest_s(self) -> float:
        """The time in seconds between two batches that begin when all was read."""
        return self.commit_interval

    @property
    def warehouse(self) -> Warehouse:
        """The catalog, which is opened when it is asked first."""
        from ingest.iceberg.catalog import Warehouse  # noqa: PLC0415  (`check` needs no library)

        return Warehouse(self.catalog)

    def encoder(
        self, table: TableId, source: SourceTable, target: TableId, sink: TableSchema, inference: Inference
    ) -> UpsertEncoder:
        """Return how rows of a table become JSON under their keys; raises RowError for names that cannot be."""
        from ingest.lake.columns import stored_schema  # noqa: PLC0415  (`check` needs no library)
        from ingest.lake.table import table_of  # noqa: PLC0415

        to: Any = table_of(target, sink, self.namespace, times=True)
        if not to.has_key:
            msg = "a column of its primary key had only nulls so far"
            raise RowError("null-key", msg)
        stored, keyed = stored_schema(sink, times=True), source.key_from_message
        return UpsertEncoder(table, source.schema, stored, to, inference, key_from_message=keyed)

    def coordinator(self, _pipeline: str, warn: Callable[[str], None]) -> IcebergCoordinator:
        """Return the driver's side."""
        from ingest.sinks.iceberg_coordinator import IcebergCoordinator  # noqa: PLC0415  (`check` needs no library)

        return IcebergCoordinator(self, warn)

    def writer(self, _pipeline: str, _run: int) -> LakeWriter:
        """Return a task's side."""
        from ingest.iceberg.files import IcebergFiles  # noqa: PLC0415  (`check` needs no library)
        from ingest.lake.writer import LakeWriter  # noqa: PLC0415

        return LakeWriter(IcebergFiles(self.warehouse))


def _is_property(key: str) -> bool:
    return key.startswith(PREFIX) and not key.endswith(".*")

"""Rows into tables of an Iceberg catalog: files by tasks, one snapshot for each table and batch by the driver.

Rules: docs/spec/iceberg.md.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from pydantic import Field, model_validator

from ingest.component.options import OptionErrors
from ingest.paths import SharedPlace, local_path
from ingest.sinks.lake.options import LakeOptions
from ingest.sinks.sink import SinkOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from ingest.model.table import TableLayout
    from ingest.sinks.iceberg.coordinator import IcebergCoordinator
    from ingest.sinks.iceberg.warehouse import IcebergWarehouse
    from ingest.sinks.lake.writer import LakeWriter

PREFIX: Final = "catalog.properties."
TYPES: Final = ("sql", "rest", "glue", "hive", "dynamodb", "bigquery")
_EXTRAS: Final = {"glue": "glue", "dynamodb": "glue", "hive": "hive", "bigquery": "bigquery"}
"""Types of catalogs whose clients are packages of their own."""
_CODE: Final = re.compile(r"(?:^|[.-])(?:py-|impl(?:$|\.))|^py-|-impl$")
"""Names of properties that name classes to import."""
_NO_CODE: Final = "names code, which a pipeline file must not: the catalogs are those of the library"
_NO_CATALOG: Final = (
    "is missing: write catalog.properties.warehouse, or catalog.properties.type and catalog.properties.uri"
)
_SQLITE: Final = re.compile(r"sqlite:///(?:file:)?([^?]+)")
_DATABASES: Final = re.compile(r"(?:sqlite|postgresql(?:\+psycopg2?)?)://")


class IcebergSink(LakeOptions, SinkOptions):
    """Options of `sink:` with `type: iceberg`."""

    prefix_of_properties: ClassVar[str] = PREFIX
    times: ClassVar[bool] = True
    package: ClassVar[str] = "iceberg"

    type: Literal["iceberg"]
    """`iceberg`."""

    catalog: dict[str, str] = Field(alias="catalog.properties.*")
    """Properties of the catalog, with pyiceberg's names: `catalog.properties.type` (`rest`, `sql`, `glue`, `hive`),
    `uri`, `warehouse`, `credential`, `s3.endpoint` and more. With `warehouse` alone, a directory, the catalog is a file
    in it."""

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
        if problems:
            raise OptionErrors(*((key, f"{key}: {why}") for key, why in problems))
        return self

    def packages(self) -> list[tuple[str, str]]:
        """Return the options that need packages which may be missing: for each its key, and the name of the extra."""
        kind, uri = self.catalog.get("type", "").lower(), self.catalog.get("uri", "")
        if kind in _EXTRAS:
            return [(f"{PREFIX}type", _EXTRAS[kind])]
        if kind in {"", "sql"} and uri.startswith("postgresql"):
            return [(f"{PREFIX}uri", "psycopg2" if uri.startswith("postgresql+psycopg2:") else "postgres")]
        return []

    def check_layout(self, layout: TableLayout) -> list[tuple[str, str]]:
        """Return what of a layout no table can have: properties that name code, and those that are ours."""
        out = []
        for name, value in layout.options:
            if _CODE.search(name):
                out.append(("table-options", f"{name[:100]!r} names code, which a pipeline file must not"))
            elif name.startswith("ingest") or (name == "format-version" and value != "2"):
                out.append(("table-options", f"{name[:100]!r} is kept by this tool, which writes format version 2"))
        return out

    @property
    def warehouse(self) -> IcebergWarehouse:
        """The catalog, which is opened when it is asked first."""
        from ingest.sinks.iceberg.warehouse import IcebergWarehouse

        return IcebergWarehouse(self.catalog)

    def shared_places(self) -> list[SharedPlace]:
        """Return the directory of the tables, and that of a catalog which is a file."""
        kind, place = self.catalog.get("type", "").lower(), self.catalog.get("warehouse", "")
        named = kind == "rest" and not place.startswith(("/", "file:"))  # the name of a warehouse of the catalog's
        out = []
        if place and not named and (path := local_path(place)) is not None:
            out.append(SharedPlace(f"{PREFIX}warehouse", path, "folder"))
        if (file := _SQLITE.match(self.catalog.get("uri", ""))) is not None:
            out.append(SharedPlace(f"{PREFIX}uri", file[1], "file"))
        return out

    def coordinator(self, pipeline: str, warn: Callable[[str], None]) -> IcebergCoordinator:
        """Return the driver's side."""
        from ingest.sinks.iceberg.coordinator import IcebergCoordinator

        return IcebergCoordinator(self, pipeline, warn)

    def writer(self, _pipeline: str, _run: int) -> LakeWriter:
        """Return a task's side."""
        from ingest.sinks.iceberg.writer import iceberg_writer

        return iceberg_writer(self)

"""Rows into Delta tables: files by tasks, one version for each table and batch by the driver.

Rules: docs/spec/delta.md.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from pydantic import Field, model_validator

from ingest.component.options import OptionErrors
from ingest.model.reject import RowError
from ingest.paths import SharedPlace, local_path
from ingest.sinks.lake.options import LakeOptions
from ingest.sinks.sink import SinkOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from ingest.model.schema import TableSchema
    from ingest.model.table import TableId, TableLayout
    from ingest.sinks.delta.coordinator import DeltaCoordinator
    from ingest.sinks.delta.warehouse import DeltaWarehouse
    from ingest.sinks.lake.table import LakeTable
    from ingest.sinks.lake.writer import LakeWriter

PREFIX: Final = "storage.properties."
SCHEMES: Final = ("s3", "s3a", "gs", "az", "azure", "abfs", "abfss", "adl", "hdfs", "file")
_PROGRAM: Final = re.compile(r"use_azure_cli$", re.IGNORECASE)
_UNSAFE: Final = re.compile(r"allow_unsafe_rename$", re.IGNORECASE)
_CONDITIONAL: Final = re.compile(r"conditional_put$", re.IGNORECASE)
_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/]*)")
_NO_COLUMN: Final = re.compile(r"[ ,;{}()\n\t=]")
"""Characters that columns cannot have without a mapping of their names, which the library does not write."""
_NO_TRANSFORM: Final = (
    "{} is made of a column, and Delta has partitions by the values of columns only: let the projection make a column,"
    " as CAST(at AS DATE) AS day, and write its name"
)
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,17}")
_INTERVAL: Final = re.compile(r"interval \d{1,9} (?:second|minute|hour|day|week)s?")
_FLAG: Final = re.compile(r"true|false")
_SHAPES: Final = {_NUMBER: "write a number", _INTERVAL: "write interval 7 days", _FLAG: "write true or false"}
_PROPERTIES: Final = {
    "delta.checkpointInterval": _NUMBER,
    "delta.deletedFileRetentionDuration": _INTERVAL,
    "delta.enableExpiredLogCleanup": _FLAG,
    "delta.logRetentionDuration": _INTERVAL,
    "delta.targetFileSize": _NUMBER,
}
"""Properties that a table may be made with, and how their values are written. Others ask more of a writer."""
_KNOWN: Final = "write " + ", ".join(_PROPERTIES) + ", or a name of your own"


class DeltaSink(LakeOptions, SinkOptions):
    """Options of `sink:` with `type: delta`."""

    prefix_of_properties: ClassVar[str] = PREFIX
    times: ClassVar[bool] = False
    package: ClassVar[str] = "delta"

    type: Literal["delta"]
    """`delta`."""

    place: str = Field(alias="warehouse", min_length=1)
    """The place of the tables: a directory, or the URL of one in an object store, as `s3://lake/shop`. The table
    `shop.orders` is the folder `shop/orders` there."""

    storage: dict[str, str] = Field({}, alias="storage.properties.*")
    """Options of the object store, with the names that the library deltalake has for them:
    `storage.properties.aws_region`, `storage.properties.aws_access_key_id`, …"""

    @model_validator(mode="after")
    def _check_storage(self) -> DeltaSink:
        problems = [("warehouse", why) for why in _problems_of_place(self.place)]
        for name, value in self.storage.items():
            if _PROGRAM.search(name) and value.lower() != "false":
                problems.append((PREFIX + name, "runs a program, which a pipeline file must not name"))
            if (_UNSAFE.search(name) and value.lower() != "false") or (
                _CONDITIONAL.search(name) and value.lower() == "disabled"
            ):
                problems.append((PREFIX + name, "lets two writers write one version, and changes would be lost"))
        if problems:
            raise OptionErrors(*((key, f"{key}: {why}") for key, why in problems))
        return self

    def check_layout(self, layout: TableLayout) -> list[tuple[str, str]]:
        """Return what of a layout no table can have: partitions by anything but values, and properties not heeded."""
        made = [one for one in layout.partitions if one.transform != "identity"]
        out = [("partition-keys", _NO_TRANSFORM.format(one)) for one in made]
        for name, value in layout.options:
            shape = _PROPERTIES.get(name)
            if shape is None and name.startswith(("delta.", "ingest")):
                out.append(("table-options", f"{name[:100]!r} is no property that this tool heeds: {_KNOWN}"))
            elif shape is not None and not shape.fullmatch(value):
                out.append(("table-options", f"{name} cannot be {value[:100]!r}: {_SHAPES[shape]}"))
        return out

    @property
    def warehouse(self) -> DeltaWarehouse:
        """The place of the tables, which is asked nothing yet."""
        from ingest.sinks.delta.warehouse import DeltaWarehouse

        return DeltaWarehouse(self.place, self.storage)

    def shared_places(self) -> list[SharedPlace]:
        """Return the directory of the tables; nothing where they are in an object store."""
        path = local_path(self.place)
        return [] if path is None else [SharedPlace("warehouse", path, "folder")]

    def table_for(self, table: TableId, schema: TableSchema) -> LakeTable:
        """Return the table that rows of a target go to. Raise RowError for names that it cannot have."""
        lake_table = super().table_for(table, schema)
        seen: dict[str, str] = {}
        for one in lake_table.columns:
            if _NO_COLUMN.search(one.name):
                msg = f"a column of Delta cannot have the name {one.name[:100]!r}: none of ' ,;{{}}()=' may be in it"
                raise RowError("bad-name", msg)
            other = seen.setdefault(one.name.casefold(), one.name)
            if other != one.name:
                msg = f"the columns {other[:100]!r} and {one.name[:100]!r} are one in Delta, where A is a"
                raise RowError("bad-name", msg)
        return lake_table

    def coordinator(self, pipeline: str, warn: Callable[[str], None]) -> DeltaCoordinator:
        """Return the driver's side."""
        from ingest.sinks.delta.coordinator import DeltaCoordinator

        return DeltaCoordinator(self, pipeline, warn)

    def writer(self, _pipeline: str, _run: int) -> LakeWriter:
        """Return a task's side."""
        from ingest.sinks.delta.writer import delta_writer

        return delta_writer(self)


def _problems_of_place(place: str) -> list[str]:
    """Return why there cannot be tables in a place; nothing for a place with a value that comes later."""
    url = _URL.match(place)
    if "${" in place:
        return []
    if "%" in place:
        return ["has a %, which the library takes for the beginning of an escape"]
    if "\\" in place:
        return ["has a \\, which the library takes for a /"]
    if url is None:
        return []
    if url[1].lower() not in SCHEMES:
        return [f"is in none of {', '.join(f'{one}://' for one in SCHEMES)}"]
    if not url[2] and url[1].lower() != "file":
        return ["names no bucket"]
    odd = set("?#") & set(place)
    return [f"has {min(odd)!r}, after which no URL has a path"] if odd and url[1].lower() != "file" else []

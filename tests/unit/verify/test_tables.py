"""Tables of lakes against their source: every planted fault is found, and nothing else is one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from planted import DDL, EMPTY_NAMES, FAULTS, differences, planted, row, text_of
from pyiceberg.catalog import load_catalog
from verified import FilePipeline, found

from ingest.sinks.delta.warehouse import DeltaWarehouse
from ingest.sinks.iceberg.warehouse import with_defaults

if TYPE_CHECKING:
    from pathlib import Path

_SOURCE = {"value.format": "json", "key.format": "json", "scan.value.initial-schemas.ddls": DDL}


class _Lake:
    """A table of a lake, which somebody else writes."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind, self.folder = kind, folder
        self.options = {
            "delta": {"type": "delta", "warehouse": str(folder)},
            "iceberg": {"type": "iceberg", "catalog.properties.warehouse": str(folder)},
        }[kind]

    def change(self, change: Any) -> None:
        """Rewrite the table, with what becomes of its rows by their keys."""
        if self.kind == "delta":
            table: Any = DeltaWarehouse(str(self.folder), {}).load(("default", "shop"))
            data = table.to_pyarrow_table()
        else:
            table = load_catalog("default", **with_defaults({"warehouse": str(self.folder)})).load_table(
                ("default", "shop")
            )
            data = table.scan().to_arrow()
        by_key: dict[str, list[dict[str, Any]]] = {}
        for one in data.to_pylist():
            by_key.setdefault(one["code"], []).append(one)
        made = pa.Table.from_pylist(change(by_key), schema=data.schema)
        if self.kind == "delta":
            write_deltalake(table, made, mode="overwrite")
        else:
            table.overwrite(made)


def _pipeline(lake: _Lake, folder: Path) -> FilePipeline:
    made = FilePipeline(folder, lake.options, _SOURCE)
    lines = [row(name, name=None if name in EMPTY_NAMES else "Zoë") for name in (*FAULTS, "right", "gone")]
    with (folder / "shop.in").open("w") as file:
        file.writelines(f'{{"key":{{"code":"{one["code"]}"}},"value":{text_of(one)}}}\n' for one in lines)
    made.add(({"code": "gone"}, None))
    made.run()
    return made


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_planted_faults_in_a_lake(kind: str, tmp_path: Path) -> None:
    lake = _Lake(kind, tmp_path / "lake")
    pipeline = _pipeline(lake, tmp_path)
    assert pipeline.verify().equal
    # Spark's and Delta's times of a day are texts
    wanted = {name: what for name, (_, what) in FAULTS.items() if kind == "iceberg" or name != "time-cut"}
    lake.change(lambda rows: planted(rows, wanted))
    report = pipeline.verify(limit=1000)
    assert differences(report) == wanted
    assert not report.equal
    assert found(report) == {"missing": 2, "extra": 3, "other": len(wanted) - 6, "duplicate": 2}

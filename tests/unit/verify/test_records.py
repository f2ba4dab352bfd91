"""Files of changes and rows against their source, in each format: planted faults are found, and nothing else is one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest
from planted import planted_into_records

if TYPE_CHECKING:
    from pathlib import Path

AVRO: Final = json.dumps({
    "type": "record", "name": "shop", "fields": [
        {"name": "code", "type": "string"},
        *({"name": name, "type": ["null", kind], "default": None} for name, kind in {
            "name": "string", "small": "int", "n": "long", "f": "float", "x": "double", "ok": "boolean", "raw": "bytes",
            "price": {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 10},
            "d": {"type": "int", "logicalType": "date"}, "t": {"type": "long", "logicalType": "time-micros"},
            "ts": {"type": "long", "logicalType": "local-timestamp-micros"},
            "tsz": {"type": "long", "logicalType": "timestamp-micros"},
        }.items()),
    ],
})  # fmt: skip
_FORMATS: Final[list[dict[str, Any]]] = [
    {"value.format": "debezium-json"},
    {"value.format": "canal-json"},
    {"value.format": "maxwell-json"},
    {"value.format": "ogg-json"},
    {"value.format": "json", "file.envelope": True},
    {"value.format": "json"},
    {"value.format": "csv", "file.envelope": True},
    {"value.format": "avro", "file.envelope": True, "avro.schema": AVRO},
]


@pytest.mark.parametrize("form", _FORMATS, ids=lambda form: f"{form['value.format']}-{len(form)}")
def test_planted_faults_in_files(form: dict[str, Any], tmp_path: Path) -> None:
    sink = {"type": "file", "path": str(tmp_path / "out"), **form}
    planted_into_records(tmp_path, sink, says_deletes=form != {"value.format": "json"})

"""Files of changes and rows against their source, in each format: planted faults are found, and nothing else is one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest
from planted import DDL, row, text_of
from verified import FilePipeline, found

if TYPE_CHECKING:
    from pathlib import Path

_SOURCE: Final = {"value.format": "json", "key.format": "json", "scan.value.initial-schemas.ddls": DDL}
_FAULTS: Final[dict[str, dict[str, Any]]] = {
    "cell": {"name": "Zoe"},
    "null": {"name": None},
    "empty": {"name": ""},
    "blank": {"name": "Zoë "},
    "bigint": {"n": 9223372036854775806},
    "decimal": {"price": "1234567890123456789012345678.0123456788"},
    "double": {"x": 0.10000000000000002},
    "float": {"f": 3.402823e38},
    "boolean": {"ok": False},
    "bytes": {"raw": "AP4="},
    "date": {"d": "0001-01-02"},
    "time": {"t": "23:59:59.99999"},
    "timestamp": {"ts": "9999-12-31 23:59:59.99999"},
    "zone": {"tsz": "2026-03-29 02:30:00.000001Z"},
}
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


def _lines(folder: Path, rows: list[dict[str, Any]], deleted: list[str]) -> None:
    with (folder / "shop.in").open("a") as file:
        file.writelines(f'{{"key":{{"code":"{one["code"]}"}},"value":{text_of(one)}}}\n' for one in rows)
        file.writelines(f'{{"key":{{"code":"{code}"}},"value":null}}\n' for code in deleted)


@pytest.mark.parametrize("form", _FORMATS, ids=lambda form: f"{form['value.format']}-{len(form)}")
def test_planted_faults_in_files(form: dict[str, Any], tmp_path: Path) -> None:
    sink = {"type": "file", "path": str(tmp_path / "out"), **form}
    pipeline = FilePipeline(tmp_path, sink, _SOURCE)
    nulls = {name: None for name in row("") if name != "code"}
    _lines(tmp_path, [row(name) for name in (*_FAULTS, "right", "missing", "gone")] + [row("nulls", **nulls)], ["gone"])
    pipeline.run()
    report = pipeline.verify()
    assert report.equal, report
    says_deletes = form != {"value.format": "json"}

    other = tmp_path / "other"
    other.mkdir()
    wrong = FilePipeline(other, sink, _SOURCE)
    _lines(other, [row(name, **what) for name, what in _FAULTS.items()] + [row("missing"), row("RIGHT")], ["missing"])
    wrong.run()
    report = pipeline.verify(limit=100)
    (table,) = report.tables
    seen = {
        (one.kind, one.key["code"], *(name for name, *_ in one.cells))
        for one in table.differences
        if one.kind == "other"
    }
    assert seen == {("other", name, *what) for name, what in _FAULTS.items()}
    rest = {(one.kind, one.key["code"]) for one in table.differences if one.kind != "other"}
    assert rest == ({("missing", "missing"), ("extra", "RIGHT")} if says_deletes else set())
    assert table.counts.unjudged == (0 if says_deletes else 1)
    assert found(report)["other"] == len(_FAULTS)

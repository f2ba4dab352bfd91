"""Lines with an envelope: any bytes of keys and values are read, and a line that is none is a reject, in any format."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest
from line_files import lines_of, run_lines

from ingest.formats.avro.table_writer import derived
from ingest.model import types
from ingest.model.schema import Column
from ingest.native import native

if TYPE_CHECKING:
    from pathlib import Path

AVRO = {
    "value.format": "avro", "avro.schema": derived({"n": Column("n", types.INT, nullable=False)}),
    "key.format": "raw",
}  # fmt: skip
FORMATS: dict[str, tuple[dict[str, Any], bytes]] = {
    "raw": ({"value.format": "raw"}, b"\xc3\xbc"),
    "csv": ({"value.format": "csv", "csv.columns": "a"}, b"1"),
    "json": ({"value.format": "json"}, b'{"a":1}'),
    "debezium-json": ({}, b'{"op":"c","after":{"a":1},"source":{"table":"t"}}'),
    "avro": (AVRO, b"\x02"),
}
"""Options of formats, each with a value that is one."""
BROKEN: dict[str, tuple[bytes, str]] = {
    "no JSON": (b'{"value":', "the line is no envelope, a JSON object with key and value (file.envelope): truncated"),
    "nothing": (b"", "the line is no envelope"),
    "no object": (b"[1]", "the line is no envelope"),
    "a header that is no text": (b'{"value":{"a":1},"headers":{"a":1}}', "at `$.headers[...]`"),
    "a value in both spellings": (b'{"value":{"a":1},"value-base64":"YQ=="}', "has both value and value-base64"),
    "nulls in both spellings": (b'{"value":null,"value-base64":null}', "has both value and value-base64"),
    "a key in both spellings": (b'{"key":1,"key-base64":"YQ==","value":{"a":1}}', "has both key and key-base64"),
    "other characters": (b'{"value-base64":"YQ=*"}', "value-base64 is no Base64"),
    "a length of no Base64": (b'{"value":{"a":1},"key-base64":"YQ="}', "key-base64 is no Base64"),
    "another type": (b'{"value-base64":1}', "at `$.value-base64`"),
    "half of a surrogate pair": (rb'{"value":"\ud800"}', "a lone surrogate"),
    "a text that is no UTF-8": (b'{"value":{"a":1},"key":"\xff"}', "key is no text in UTF-8"),
}
MORE = {"file.envelope": True}


def coded(value: bytes) -> str:
    return base64.b64encode(value).decode()


@pytest.mark.parametrize("wire", FORMATS)
@pytest.mark.parametrize(("line", "why"), BROKEN.values(), ids=BROKEN)
def test_a_broken_line_is_a_reject_whatever_the_format(tmp_path: Path, wire: str, line: bytes, why: str) -> None:
    source, value = FORMATS[wire]
    good = {"key": "k", "value-base64": coded(value)}
    ran = run_lines(tmp_path, [good, line, good], {**source, **MORE}, {})
    assert ran.error is None
    (reject,) = ran.rejects
    assert (reject.offset, reject.stage, reject.code, reject.value) == (1, "decode", "malformed", line)
    assert why in reject.message
    assert len(lines_of(tmp_path / "out", "t")) == 2


@pytest.mark.parametrize("built", [native.BUILT, False])
def test_bytes_are_read_in_the_place_of_keys_and_values(
    tmp_path: Path, built: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "BUILT", built)
    lines: list[bytes | dict[str, Any]] = [
        {"key": "a", "value-base64": coded(b"\x02")},
        {"key-base64": coded(b"\n"), "value-base64": coded(b"\x04")},
        {"key-base64": coded(b"a"), "value-base64": None},
        {"key": "a", "value": None},
        {"key": "b", "value": "\x06"},
        {"key": "a"},
    ]
    ran = run_lines(tmp_path, lines, {**AVRO, **MORE}, {})
    assert (ran.error, ran.rejects) == (None, [])
    events = [json.loads(line) for line in lines_of(tmp_path / "out", "t")]
    assert [(event["op"], event["after"] or event["before"]) for event in events] == [
        ("c", {"key": "a", "n": 1}), ("c", {"key": "\n", "n": 2}), ("d", {"key": "a"}), ("d", {"key": "a"}),
        ("c", {"key": "b", "n": 3}), ("d", {"key": "a"}),
    ]  # fmt: skip


def test_a_line_without_a_broken_part_keeps_its_headers_and_topic(tmp_path: Path) -> None:
    line = {"value-base64": coded(b"\x02"), "topic": "other", "headers": {"h": "v"}, "timestamp": 0}
    source = {**AVRO, **MORE, "metadata.list": "headers,timestamp"}
    ran = run_lines(tmp_path, [{**line, "key": "a"}], source, {})
    assert (ran.error, ran.rejects) == (None, [])
    (event,) = [json.loads(line) for line in lines_of(tmp_path / "out", "other")]
    assert event["after"] == {"key": "a", "n": 1, "headers": {"h": "dg=="}, "timestamp": "1970-01-01 00:00:00Z"}


def test_errors_that_do_not_count_are_those_of_lines_too(tmp_path: Path) -> None:
    source = {"value.format": "json", "json.ignore-parse-errors": True, "ingestion.ignore-errors": False, **MORE}
    ran = run_lines(tmp_path, [{"value": {"a": 1}}, BROKEN["other characters"][0], {"value": {"a": 2}}], source, {})
    assert ran.error is None
    assert ran.summary.skipped == {"parse-error": 1}
    assert len(lines_of(tmp_path / "out", "t")) == 2

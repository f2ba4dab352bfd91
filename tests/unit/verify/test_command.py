"""`ingest verify FILE`: what it prints, and its exit code."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from commands import called
from verified import FilePipeline

if TYPE_CHECKING:
    from pathlib import Path


def test_differences_are_shown_with_the_command_that_repairs(tmp_path: Path) -> None:
    sink = {"type": "file", "path": str(tmp_path / "out"), "value.format": "json", "file.envelope": True}
    pipeline = FilePipeline(tmp_path, sink)
    for i in range(1, 5):
        pipeline.change("c", None, {"id": i, "name": f"n{i}", "long": "x" * 300})
    pipeline.run()
    file = tmp_path / "pipeline.yaml"
    file.write_text(pipeline.text)
    command = ["verify", str(file), "--checkpoint", str(pipeline.checkpoint)]
    done = called(*command)
    assert (done.code, done.err) == (0, "")
    assert done.out == f"shop.orders (files {tmp_path}/out/shop.orders.*.jsonl): equal, 4 keys compared\n"
    (out,) = (tmp_path / "out").iterdir()
    with out.open("a") as lines:
        lines.write('{"key":{"id":1},"value":{"id":1,"name":"N1","long":"y"}}\n')
        lines.write('{"key":{"id":2},"value":null}\n')
        lines.write('{"key":{"id":7},"value":{"id":7,"name":null}}\n')
        lines.write('{"key":{"id":8},"value":{"id":8,"name":1}}\nno record\n')
    done = called(*command, "--limit", "3")
    assert done.code == 66
    head, *rest = done.out.splitlines()
    assert head.endswith("1 missing, 2 extra, 1 different, 6 keys compared")
    text = "\n".join(sorted(rest))
    assert '    name: source "n1", sink "N1"' in rest
    assert 'row id="2" is missing in the sink' in text or "and 1 row more (--limit)" in text
    assert "  records that cannot be read back: 1; the first: malformed" in text
    assert f"  ingest backfill {file} --table shop.orders reads them again; rows that only the sink has" in text
    assert "error: 1 table of the sink differs from the source, in 4 rows" in done.err
    assert "more: ingest explain sink-differs" in done.err
    done = called(*command, "--format", "json", "--table", "shop.orders")
    assert done.code == 66
    found = json.loads(done.out)
    assert found["equal"] is False
    assert found["tables"][0]["counts"]["compared"] == 6
    assert {one["kind"] for one in found["tables"][0]["differences"]} == {"missing", "extra", "other"}


def test_what_cannot_be_compared_says_why(tmp_path: Path) -> None:
    pipeline = FilePipeline(tmp_path, {"type": "print"})
    pipeline.change("c", None, {"id": 1})
    pipeline.run()
    file = tmp_path / "pipeline.yaml"
    file.write_text(pipeline.text)
    done = called("verify", str(file), "--checkpoint", str(pipeline.checkpoint))
    assert done.code == 78
    assert "a sink of the type print cannot be read back" in done.err
    file.write_text(pipeline.text.replace('"print"', '"file", "path": "out", "value.format": "debezium-json"'))
    done = called("verify", str(file), "--checkpoint", str(tmp_path / "nothing"))
    assert (done.code, "there is no checkpoint at" in done.err) == (78, True)

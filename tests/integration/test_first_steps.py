"""A newcomer's first steps on a real broker: `ingest init` looks at a topic, `plan --rows`, a run with a report."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from harness import message
from pages import only

from ingest.program import load

if TYPE_CHECKING:
    from pathlib import Path

    from harness import Pipeline

PASSWORD = "of-the-broker-hunter2"  # noqa: S105


def test_from_a_topic_to_a_table_and_a_report(pipeline: Pipeline, tmp_path: Path) -> None:
    sent = [message("c", None, {"id": n, "v": n, **({"late": "x"} if n > 30 else {})}) for n in range(40)]
    pipeline.kafka.send(pipeline.topic, *sent, (b"k", f"<b>{PASSWORD}</b>".encode()))
    command = pipeline.command()[0]
    file, page = tmp_path / "first.yaml", tmp_path / "report.html"

    def said(*arguments: str) -> str:
        done = pipeline.finished([command, *arguments], pipeline.java)
        assert done.code == 0, done.err
        return done.out + done.err

    looked = said(
        "init", str(file), "--brokers", pipeline.kafka.bootstrap, "--topic", pipeline.topic, "--sink", "iceberg",
        "--to", str(tmp_path / "lake"),
    )  # fmt: skip
    assert "41 records" in looked
    assert "40 like debezium-json, 1 like raw" in looked
    secret = f"type: kafka\n  properties.sasl.password: {PASSWORD}"
    file.write_text(file.read_text().replace("# ingestion", "ingestion").replace("type: kafka", secret))
    checkpoint = str(tmp_path / "state")
    planned = json.loads(said("plan", str(file), "--rows", "2", "--format", "json", "--checkpoint", checkpoint))
    assert [json.loads(one["rows"][0]["value"])["id"] for one in planned["records"]] == [0, 1]
    said("run", str(file), "--once", "--report", str(page), "--checkpoint", checkpoint)
    shown = page.read_text()
    for part in (
        "<b>41</b>records",
        "Ended: all that was there is read",
        "CREATE TABLE (id BIGINT NOT NULL",
        "decode/malformed",
    ):
        assert part in shown
    assert "&lt;b&gt;********&lt;/b&gt;" in shown
    assert PASSWORD not in shown
    assert load(file).sink.type == "iceberg"


def test_the_program_of_the_documentation_runs(pipeline: Pipeline, tmp_path: Path) -> None:
    code = only("docs/python.md", "python").text
    pipeline.kafka.send(pipeline.topic, *(message("c", None, {"id": n}) for n in range(3)))
    program = tmp_path / "program.py"
    program.write_text(code.replace('"orders.yaml"', repr(str(pipeline.file))).replace('"state/', f'"{tmp_path}/'))
    done = pipeline.finished([sys.executable, str(program)], pipeline.java)
    assert done.code == 0, done.err
    assert done.out.splitlines() == ["shop.orders 3 0 0 0"]
    program.write_text(program.read_text().replace(str(pipeline.file), str(tmp_path / "none.yaml")))
    assert "PipelineFileError" in pipeline.finished([sys.executable, str(program)], pipeline.java).err


IN_A_THREAD = """
import sys
from concurrent.futures import ThreadPoolExecutor
from ingest.observe.events import Printed
from ingest.program import load, run

heard = []
with ThreadPoolExecutor(1) as threads:
    pipeline = load(sys.argv[1])
    summary = threads.submit(run, pipeline, once=True, checkpoint=sys.argv[2], observer=heard.append).result()
print(summary.records, summary.exit_code, heard[-1] is summary)
print([event.lines for event in heard if isinstance(event, Printed)])
"""


def test_a_run_in_a_thread_of_a_program(pipeline: Pipeline, tmp_path: Path) -> None:
    lines, file, program = tmp_path / "in.jsonl", tmp_path / "p.yaml", tmp_path / "program.py"
    lines.write_text('{"id":1}\n{"id":2}\n')
    file.write_text(f"source: {{type: file, path: {lines}, value.format: json}}\nsink: {{type: print}}\n")
    program.write_text(IN_A_THREAD)
    done = pipeline.finished([sys.executable, str(program), str(file), str(tmp_path / "state")], pipeline.java)
    assert done.code == 0, done.err
    numbers, printed = done.out.splitlines()
    assert numbers == "2 0 True"
    assert printed.count("+I") == 2

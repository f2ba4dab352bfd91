"""A newcomer's first steps on a real broker: `ingest init` looks at a topic, `plan --rows`, a run with a report."""

from __future__ import annotations

import io
import json
import os
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from commands import called
from harness import message
from pages import only
from ruamel.yaml import YAML

from ingest.program import load
from ingest.sandbox import sample

if TYPE_CHECKING:
    import pytest
    from harness import Kafka, Pipeline, Result

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
        "Ended: the source was drained",
        "CREATE TABLE (id BIGINT NOT NULL",
        "decode/malformed",
    ):
        assert part in shown
    assert "&lt;b&gt;********&lt;/b&gt;" in shown
    assert PASSWORD not in shown
    assert load(file).sink.type == "iceberg"


CANAL = {
    "data": [{"id": "1", "price": "1.50"}], "database": "shop", "table": "orders", "type": "INSERT", "isDdl": False,
    "es": 1, "ts": 1, "pkNames": ["id"], "mysqlType": {"id": "bigint", "price": "decimal(10,2)"},
}  # fmt: skip


def test_init_writes_what_the_messages_need_and_ends_with_a_plan(
    kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def written(sink: str, *values: object, options: tuple[str, ...] = ()) -> tuple[str, Result, str]:
        topic = kafka.create(f"{kafka.name}.{len([*tmp_path.glob('*.yaml')])}", 1)
        texts = [value if isinstance(value, bytes) else json.dumps(value).encode() for value in values]
        kafka.send(topic, *((None, text) for text in texts))
        file = tmp_path / f"{topic}.yaml"
        given = ("--brokers", kafka.bootstrap, "--topic", topic, "--sink", sink, *options)
        done = called("init", str(file), *given)
        assert done.code == 0, done.err
        return file.read_text(), done, topic

    text, done, _ = written("print", CANAL, CANAL | {"data": [{"id": "2", "price": "7"}]})
    assert "  canal-json.infer-schema.strategy: MYSQL_TYPE" in text
    assert "price  DECIMAL(10,2)" in done.out

    rows = [{"name": "n", "order_id": n} for n in range(9)]
    text, done, topic = written("upsert-kafka", *rows, b"{")
    assert "#     primary-keys: order_id" in text
    assert "order_id is unique in the 9 messages that were looked at" in text
    assert "1 message does not look like json: a run ends at the first that it cannot read (exit code 65)" in done.err
    assert "A run would end with exit code 78: table" in done.err
    text, done, topic = written("upsert-kafka", *rows, options=("--primary-keys", "order_id"))
    assert f"{topic} (new) -> ods.{topic}" in done.out
    assert "primary key (order_id)" in done.out
    assert f"    ods.{topic}" in done.out.partition("topics that would be created:")[2]

    events = [{"uid": n, **({"type": "buy", "total": 1} if n % 2 else {"type": "join", "plan": "x"})} for n in range(8)]
    text, done, _ = written("print", *events)
    assert "  # json.decode.parser-table-id.fields: type\n" in text
    assert "type tells 2 kinds of messages apart in 8 (join, buy)" in done.err

    text, done, topic = written("print", b"id;name", b"1;Ada", b"2;Bob", b"3;Cy")
    assert '  csv.columns: "id,name"\n' in text
    assert '  csv.field-delimiter: ";"\n' in text
    assert "partition:0,offset:1" in text
    assert "a backlog of 3 records" in done.out

    monkeypatch.setattr("sys.stdin", Terminal("\n"))
    monkeypatch.setattr("typer.confirm", lambda *_args, **_more: True)
    text, done, _ = written("iceberg", *events)
    assert "\n  json.decode.parser-table-id.fields: type\n" in text
    assert "\n    primary-keys: uid\n" in text


def test_the_sample_is_there_and_goes_on_changing_until_it_is_stopped(kafka: Kafka, tmp_path: Path) -> None:
    assert sample.up(tmp_path, kafka.bootstrap, 0) is None
    there = kafka.end("shop.changes")
    assert there > 30
    running = sample.up(tmp_path, kafka.bootstrap, 100)
    assert running is not None
    try:
        assert sample.status(tmp_path) == sample.up(tmp_path, kafka.bootstrap, 100) == running
        again = kafka.end("shop.changes")
        deadline = time.monotonic() + 60
        while kafka.end("shop.changes") < again + 20:
            assert time.monotonic() < deadline, "nothing changes"
            time.sleep(0.05)
    finally:
        sample.down(tmp_path)
    assert sample.status(tmp_path) is None
    for done in kafka.admin.delete_topics([*sample.TOPICS]).values():
        done.result(10)


class Terminal(io.StringIO):
    """A terminal at which somebody answers."""

    def isatty(self) -> bool:
        return True


GH = """#!/bin/sh
echo "$@" >> gh.log
case "$*" in
    *--jq*) cat gh.id 2> /dev/null ;;
    *POST*) echo 7 > gh.id ;;
esac
"""
"""GitHub's command, which keeps what it is asked, and the one comment that there is."""


def test_a_repository_of_pipelines_does_all_that_its_readme_and_its_workflow_say(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    folder, bins, kept = tmp_path / "repo", tmp_path / "bin", tmp_path / "production"
    assert called("init", str(folder), "--repo").code == 0
    bins.mkdir()
    for name, text in {"gh": GH, "pip": '#!/bin/sh\ntest "$*" = "install -r requirements.txt" -a -s "$3"\n'}.items():
        (bins / name).write_text(text)
        (bins / name).chmod(0o755)
    pipeline.kafka.create("shop.changes", 1)
    pipeline.kafka.send("shop.changes", message("c", None, {"id": 1, "status": "NEW"}))
    env = {
        "PATH": f"{bins}:{Path(sys.executable).parent}:{os.environ['PATH']}", "BOOTSTRAP": pipeline.kafka.bootstrap,
        "CHECKPOINTS": str(kept), "GITHUB_STEP_SUMMARY": "summary.md", "GITHUB_REPOSITORY": "o/r", "NUMBER": "5",
        "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b",
        "GH_TOKEN": "x", "BASE": "HEAD~1",
    }  # fmt: skip

    def said(script: str) -> str:
        there = f"cd '{folder}'\n{script}"
        done = pipeline.finished(["/bin/bash", "--noprofile", "--norc", "-ec", there], pipeline.java, env)
        assert done.code == 0, done.err
        return done.out + done.err

    said("git init -q; git add -A; git commit -qm first")
    readme = re.findall(r"```shell\n(.*?)```", (folder / "README.md").read_text(), re.DOTALL)
    for line in "".join(readme).replace("localhost:9092", pipeline.kafka.bootstrap).splitlines():
        said(line)
    kept.mkdir()
    (folder / ".ingest" / "orders").rename(kept / "orders")
    changed = folder / "pipelines" / "orders.yaml"
    changed.write_text(changed.read_text().replace("metrics.port: 9400", "metrics.port: 9500"))
    said("ingest render k8s pipelines --out k8s; git add -A; git commit -qm second")
    workflow = YAML(typ="safe").load(folder / ".github" / "workflows" / "pipelines.yaml")
    steps = [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]
    planned, commented = steps[-2:]
    for step in (*steps, commented):
        said(step)
    plan = (folder / "plan.md").read_text()
    assert plan.startswith("<!-- ingest plan -->\n### pipelines/orders.yaml\n")
    assert "resumes from the export progress/orders.json" in plan
    assert "pipeline.metrics.port: 9400 -> 9500" in plan
    assert "shop.orders -> ods.orders" in plan
    asked = (folder / "gh.log").read_text().splitlines()
    assert [("POST" in line, "PATCH repos/o/r/issues/comments/7 " in line) for line in asked if "--jq" not in line] == [
        (True, False), (False, True),
    ]  # fmt: skip
    said("git reset -q --hard HEAD~1; git commit -q --allow-empty -m nothing")
    said(planned)
    assert (folder / "plan.md").read_text() == "<!-- ingest plan -->\nNo pipeline is changed.\n"
    pipeline.kafka.admin.delete_topics(["shop.changes"])["shop.changes"].result(10)


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

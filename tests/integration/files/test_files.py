"""Pipelines without a broker: files in, lines and files out, and the command that tests pipelines."""

from __future__ import annotations

import json
import signal
import subprocess
from contextlib import chdir
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from commands import called, ran_here
from harness import INGEST, finished

from ingest.errors import INTERRUPTED

if TYPE_CHECKING:
    from harness import Result
    from shared_java import SharedJava

ROOT = Path(__file__).parents[3]


def run(file: Path, checkpoint: Path, cwd: Path, java: SharedJava | None, *more: str) -> Result:
    command = [INGEST, "run", str(file), "--once", "--checkpoint", str(checkpoint), "--master", "local[2]", *more]
    return finished(command, java, checkpoint.parent, cwd=cwd)


def run_in(folder: Path, file: Path, checkpoint: Path) -> Result:
    """Run in a folder, in this process."""
    with chdir(folder):
        return ran_here(str(file), "--checkpoint", str(checkpoint))


@pytest.mark.usefixtures("java")
def test_the_quickstart_runs_as_the_readme_says(tmp_path: Path) -> None:
    ran = run(ROOT / "pipelines" / "quickstart.yaml", tmp_path / "c", ROOT, None)
    assert ran.code == 0, ran.err
    assert ran.out.splitlines()[:4] == [
        "shop.orders> CREATE TABLE (id BIGINT NOT NULL, customer STRING, total DOUBLE, note STRING, PRIMARY KEY (id))",
        "shop.products> CREATE TABLE (id BIGINT NOT NULL, name STRING, stock STRING, PRIMARY KEY (id))",
        "shop.orders> +I[1, Ada, 12.50, null]",
        "shop.orders> +I[2, Grace, 7, null]",
    ]


def test_a_file_pipeline_goes_on_where_it_stood_and_its_output_reads_back(tmp_path: Path) -> None:
    source, sink = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    first = tmp_path / "first.yaml"
    first.write_text(
        "source: {type: file, path: 'in/**/*.jsonl', file.envelope: true, value.format: json, key.format: json,\n"
        "  metadata.list: 'topic,offset,headers,timestamp', scan.max.pre.fetch.records: 0}\n"
        "sink: {type: file, path: out}\n"
    )
    lines = [
        {"key": {"id": 1}, "value": {"n": 1}, "headers": {"h": "v"}, "timestamp": 0, "topic": "orders"},
        {"key": {"id": 2}, "value": {"n": 2}, "topic": "orders"},
        {"key": '{"id":3}', "value": '{"n":1.10}'},
    ]
    file = source / "a.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    ran = run_in(tmp_path, first, tmp_path / "c1")
    assert ran.code == 0, ran.err
    (orders,) = sink.glob("orders.*.jsonl")
    assert [json.loads(line)["after"] for line in orders.read_text().splitlines()] == [
        {
            "id": 1,
            "n": 1,
            "topic": "orders",
            "offset": 0,
            "headers": {"h": "dg=="},
            "timestamp": "1970-01-01 00:00:00Z",
        },
        {"id": 2, "n": 2, "topic": "orders", "offset": 1, "headers": {}, "timestamp": None},
    ]
    (other,) = sink.glob("a.*.jsonl")
    assert '"n":1.10' in other.read_text()

    with file.open("a") as added:
        added.write(json.dumps({"key": {"id": 1}, "value": None, "topic": "orders"}) + "\n")
    (source / "more").mkdir()
    (source / "more" / "b.jsonl").write_text(json.dumps({"key": {"id": 9}, "value": {"n": 9}}))  # no line end
    assert run_in(tmp_path, first, tmp_path / "c1").code == 0
    assert len([*sink.glob("orders.*.jsonl")]) == 2, "a file for each run"

    second = tmp_path / "second.yaml"
    second.write_text(
        "source: {type: file, path: 'out/orders.*.jsonl', scan.max.pre.fetch.records: 0}\n"
        "sink: {type: print}\ntransform: [{source-table: orders, primary-keys: id}]\n"
    )
    back = run_in(tmp_path, second, tmp_path / "c2")
    assert back.code == 0, back.err
    read = [line.split("> ")[1][:6] for line in back.out.splitlines() if "[" in line]
    assert sorted(read) == ["+I[1, ", "+I[2, ", "-D[1, "]  # files are read side by side, each in its order
    assert read.index("+I[1, ") < read.index("+I[2, ")

    shown = called("checkpoint", "show", str(tmp_path / "c1"), "--format", "json")
    assert {at["topic"]: at["offset"] for at in json.loads(shown.out)["positions"]} == {
        "in/a.jsonl": 4, "in/more/b.jsonl": 1,
    }  # fmt: skip
    file.write_text("")
    lost = run_in(tmp_path, first, tmp_path / "c1")
    assert lost.code == 1
    assert "data loss: in/a.jsonl has 0 lines, and 4 of them were read already" in lost.err


def test_values_in_avro_pass_through_files(tmp_path: Path, shared_java: SharedJava) -> None:
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    first.write_text(
        "source: {type: file, path: orders.jsonl, value.format: json}\n"
        "sink: {type: file, path: out, value.format: avro, file.envelope: true}\n"
        "transform: [{source-table: orders, projection: 'id, n + 1 AS n', primary-keys: id}]\n"
    )
    (tmp_path / "orders.jsonl").write_text('{"id":1,"n":1}\n{"id":2,"n":null}\n')
    ran = run(first, tmp_path / "c1", tmp_path, shared_java)
    assert ran.code == 0, ran.err
    (file,) = (tmp_path / "out").iterdir()
    assert file.read_text() == ('{"key":{"id":1},"value-base64":"AgIE"}\n{"key":{"id":2},"value-base64":"BAA="}\n'), (
        "a long, and a union of null and a long"
    )
    schema = {
        "type": "record",
        "name": "r",
        "fields": [{"name": "id", "type": "long"}, {"name": "n", "type": ["null", "long"]}],
    }
    second.write_text(
        "source: {type: file, path: 'out/*.jsonl', value.format: avro, key.format: json, file.envelope: true,\n"
        f"  avro.schema: '{json.dumps(schema)}'}}\nsink: {{type: print}}\n"
    )
    back = run(second, tmp_path / "c2", tmp_path, shared_java)
    assert back.code == 0, back.err
    assert [line for line in back.out.splitlines() if "> " in line] == [
        "orders> CREATE TABLE (id BIGINT NOT NULL, n BIGINT, PRIMARY KEY (id))",
        "orders> +I[1, 2]",
        "orders> +I[2, null]",
    ]


def test_the_command_that_tests_pipelines(tmp_path: Path) -> None:
    (tmp_path / "pipeline.yaml").write_text(
        "source: {type: kafka, properties.bootstrap.servers: '${servers}', topic: t, value.format: json}\n"
        "sink: {type: print}\n"
    )
    good = "pipeline: pipeline.yaml\nset: {servers: 'x:1'}\nmessages: [{topic: t, value: {id: 1}}]\n"
    (tmp_path / "good.yaml").write_text(f"{good}lines: ['t> CREATE TABLE (id BIGINT)', 't> +I[1]']\n")
    passed = called("test", str(tmp_path))
    assert passed.code == 0
    assert "1 test, 0 failed" in passed.out
    (tmp_path / "bad.yaml").write_text(f"{good}lines: ['t> CREATE TABLE (id BIGINT)', 't> +I[2]']\nrejects: [0 a/b]\n")
    failed = called("test", str(tmp_path))
    assert failed.code == 1
    assert "-t> +I[2]" in failed.out
    assert "+t> +I[1]" in failed.out
    assert "2 tests, 1 failed" in failed.out
    (tmp_path / "no.yaml").write_text("messages: [1]\n")
    wrong = called("test", str(tmp_path))
    assert wrong.code == 1
    assert "FAILED" in wrong.out
    assert "message 0: a message is a map" in wrong.out
    for name in ("no.yaml", "pipeline.yaml", "nothing"):
        assert called("test", str(tmp_path / name)).code == 78


def test_how_a_run_ended_is_said_whatever_ended_it(tmp_path: Path, shared_java: SharedJava) -> None:
    row = '{"before":null,"after":{"id":%d},"source":{"db":"shop","table":"orders"},"op":"c"}\n'
    lines = tmp_path / "in.jsonl"
    lines.write_text(row % 1 + "{\n" + row % 2)
    file = tmp_path / "p.yaml"
    file.write_text("source: {type: file, path: in.jsonl}\nsink: {type: file, path: out}\n")
    failed = run(file, tmp_path / "c", tmp_path, shared_java)
    assert failed.code == 65
    ended = failed.events[-1]
    assert (ended["event"], ended["level"], ended["exit_code"]) == ("run ended", "error", 65)
    assert (ended["records"], ended["rejected"], ended["left"]) == (1, 1, 2)
    assert "ended: failed with exit code 65; backlog of 2 records (2 of in.jsonl)" in failed.out

    lines.write_text(row % 1 + row % 2)
    command = [INGEST, "run", str(file), "--checkpoint", str(tmp_path / "c"), "--master", "local[1]"]
    again = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert again.stderr is not None
    said = ""
    while '"batch done"' not in said:
        said = again.stderr.readline()
        assert said, "it ended"
    again.send_signal(signal.SIGINT)
    while "finishing the batch in progress; a second signal ends at once" not in said:
        said = again.stderr.readline()
        assert said, "it ended"
    again.send_signal(signal.SIGINT)
    _, err = again.communicate(timeout=60)
    assert again.returncode == INTERRUPTED, err
    assert "ended at once" in err

    lines.write_text("".join(row % i for i in range(1, 4)))
    last = run(file, tmp_path / "c", tmp_path, None, "--conf", "spark.executorEnv.INGEST_NATIVE=off")
    assert last.code == 0, last.err
    (began,) = [event for event in last.events if event["event"] == "run started"]
    assert began["native"] is False
    assert {"INGEST_NATIVE=off", "records are not read from Kafka"} <= {*began["in_python"]}, "workers, not the driver"
    slow = [event for event in last.events if event["level"] == "warning" and "many times slower" in event["event"]]
    assert ["unset it in the workers' environment" in event["event"] for event in slow] == [True]
    written = [
        json.loads(line)["after"]["id"] for out in (tmp_path / "out").iterdir() for line in out.read_text().splitlines()
    ]
    assert set(written) == {1, 2, 3}
    assert (last.events[-1]["level"], last.events[-1]["exit_code"], last.events[-1]["left"]) == ("info", 0, 0)
    assert "ended: source drained; no backlog" in last.out

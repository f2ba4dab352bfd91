"""The examples of the reference documents that read MySQL, as printed but for their values, on a real server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from commands import called
from harness import finished
from mysql_pipeline import MySqlPipeline
from mysql_servers import PASSWORD, USER

if TYPE_CHECKING:
    from pathlib import Path

    from harness import Kafka
    from mysql_servers import MySql
    from shared_java import SharedJava

SOURCE = """source:
  type: mysql
  name: MySQL Source
  hostname: 127.0.0.1
  port: {port}
  username: {user}
  password: {password}
  tables: mydb.mytable1,mydb.mytable2
  server-id: 8601-8604
"""
SINK = """
sink:
  type: {kind}
  name: Kafka Sink
  properties.bootstrap.servers: {bootstrap}
"""
ROUTE = """
route:
  - source-table: mydb.mytable1,mydb.mytable2
    sink-table: mytable1
"""
MAPPINGS = ("mydb.mytable1,mydb.mytable2:mytable", "mydb.mytable1:mytable;mydb.mytable2:mytable")
EXAMPLES = {
    "route": SOURCE + SINK + ROUTE,
    "no-route": SOURCE + SINK,
    **{
        f"mapping-{at}": SOURCE + SINK + f"  sink.tableId-to-topic.mapping: {text}\n"
        for at, text in enumerate(MAPPINGS)
    },
    "upsert": SOURCE + SINK + ROUTE,
}
TOPICS = {
    "route": {"mytable1": [("mytable1", 1), ("mytable1", 2)]},
    "no-route": {"mydb.mytable1": [("mytable1", 1)], "mydb.mytable2": [("mytable2", 2)]},
    "mapping-0": {"mytable": [("mytable1", 1), ("mytable2", 2)]},
    "mapping-1": {"mytable": [("mytable1", 1), ("mytable2", 2)]},
}
"""For each example: its topics, and table and key of each change in them."""


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_does_what_its_document_says(
    kafka: Kafka, mariadb: MySql, tmp_path: Path, shared_java: SharedJava, name: str
) -> None:
    pipeline = MySqlPipeline(tmp_path, mariadb, shared_java, "mydb")
    pipeline.execute(
        "CREATE TABLE mytable1 (id INT PRIMARY KEY, a VARCHAR(9))", "CREATE TABLE mytable2 LIKE mytable1",
        "INSERT INTO mytable1 VALUES (1, 'x')", "INSERT INTO mytable2 VALUES (2, 'y')",
    )  # fmt: skip
    kind = "upsert-kafka" if name == "upsert" else "kafka"
    pipeline.file.write_text(
        EXAMPLES[name].format(port=mariadb.port, user=USER, password=PASSWORD, kind=kind, bootstrap=kafka.bootstrap)
    )
    before = {topic: len(kafka.read(topic)) for topic in TOPICS.get(name, {"mytable1": []})}
    ran = finished(pipeline.command("--once"), shared_java, tmp_path)
    assert ran.code == 0, ran.err
    if name == "upsert":
        found = [(record.key, record.value) for record in kafka.read("mytable1")[before["mytable1"] :]]
        assert sorted(found) == [(b'{"id":1}', b'{"id":1,"a":"x"}'), (b'{"id":2}', b'{"id":2,"a":"y"}')]
        return
    for topic, expected in TOPICS[name].items():
        changes = [json.loads(record.value or b"") for record in kafka.read(topic)[before[topic] :]]
        assert sorted((one["source"]["table"], one["after"]["id"]) for one in changes) == expected


@pytest.mark.parametrize("mapping", MAPPINGS)
def test_a_mapping_that_the_document_prints_in_the_source_is_named_as_a_mistake(tmp_path: Path, mapping: str) -> None:
    file = tmp_path / "p.yaml"
    text = SOURCE + f"  sink.tableId-to-topic.mapping: {mapping}\n" + SINK
    file.write_text(text.format(port=3306, user="u", password=PASSWORD, kind="kafka", bootstrap="b:9092"))
    checked = called("check", str(file))
    assert checked.code == 78, checked.out
    assert "p.yaml:10:3: error: unknown option 'sink.tableId-to-topic.mapping'" in checked.out + checked.err
    assert "it is an option of sink" in checked.out + checked.err or "belongs below sink" in checked.out + checked.err


def test_a_plan_and_single_records_are_shown_before_and_after_a_run(
    mariadb: MySql, tmp_path: Path, shared_java: SharedJava
) -> None:
    pipeline = MySqlPipeline(tmp_path, mariadb, shared_java, "planned")
    pipeline.write("{type: print}")
    pipeline.execute("CREATE TABLE t (id INT PRIMARY KEY, d DATE)", "INSERT INTO t VALUES (1, '2020-01-01')")
    where = ("--checkpoint", str(pipeline.checkpoint))
    planned = called("plan", str(pipeline.file), *where)
    assert planned.code == 0, planned.err
    assert "planned.t (new) -> planned.t" in planned.out
    assert "primary key (id)" in planned.out
    assert "planned.t> +I[1, 2020-01-01]" in called("tap", str(pipeline.file), *where).out
    pipeline.run()
    pipeline.execute("UPDATE t SET d = NULL", "ALTER TABLE t ADD COLUMN x INT", "INSERT INTO t VALUES (2, NULL, 3)")
    assert "planned.t> ADD COLUMN x INT" in called("plan", str(pipeline.file), *where).out
    tapped = called("tap", str(pipeline.file), *where).out
    assert "planned.t> +U[1, null, null]" in tapped
    assert "planned.t> +I[2, null, 3]" in tapped
    shown = called("checkpoint", "show", str(pipeline.file), *where)
    assert shown.code == 0, shown.err
    assert "binlog" in shown.out

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
  hostname: ${secret_values.mysql.hostname}
  port: ${mysql.port}
  username: ${secret_values.mysql.username}
  password: ${secret_values.mysql.password}
  tables: mydb.mytable1,mydb.mytable2
  server-id: 8601-8604
"""
SINK = """
sink:
  type: kafka
  name: Kafka Sink
  properties.bootstrap.servers: ${kafka.bootstraps.server}
"""
ROUTE = """
route:
  - source-table: mydb.mytable1,mydb.mytable2
    sink-table: mytable1
"""
ANY_TABLE = """
route:
  - source-table: ${mysql.source.table}
    sink-table: ${kafka.topic}
"""
UPSERT = """
sink:
  type: upsert-kafka
  name: Upsert Kafka Sink
  properties.bootstrap.servers: ${upsert.kafka.bootstraps.server}
  aliyun.kafka.accessKeyId: ${upsert.kafka.aliyun.ak}
  aliyun.kafka.accessKeySecret: ${upsert.kafka.aliyun.sk}
  aliyun.kafka.instanceId: ${upsert.kafka.aliyun.instanceid}
  aliyun.kafka.endpoint: ${upsert.kafka.aliyun.endpoint}
  aliyun.kafka.regionId: ${upsert.kafka.aliyun.regionid}
route:
  - source-table: ${mysql.source.table}
    sink-table: ${upsert.kafka.topic}
"""
TABLES = "mydb.mytable1,mydb.mytable2"
ANY_SOURCE = SOURCE.replace(TABLES, "${mysql.source.table}")
MAPPINGS = ("mydb.mytable1,mydb.mytable2:mytable", "mydb.mytable1:mytable;mydb.mytable2:mytable")
EXAMPLES = {
    "any-table": ANY_SOURCE + SINK + ANY_TABLE,
    "route": SOURCE + SINK + ROUTE,
    "no-route": SOURCE + SINK,
    **{
        f"mapping-{at}": SOURCE + SINK + f"  sink.tableId-to-topic.mapping: {text}\n"
        for at, text in enumerate(MAPPINGS)
    },
    "upsert": ANY_SOURCE.replace("secret_values.", "") + UPSERT,
}
"""Those of alibaba-kafka and, with `upsert`, of alibaba-upsert-kafka. One of the former has its `route` a blank
too far to the right, and two have the mapping among the options of the source."""
TOPICS = {
    "any-table": {"mytopic": [("mytopic", 1, "x"), ("mytopic", 2, "y")]},
    "route": {"mytable1": [("mytable1", 1, "x"), ("mytable1", 2, "y")]},
    "no-route": {"mydb.mytable1": [("mytable1", 1, "x")], "mydb.mytable2": [("mytable2", 2, "y")]},
    "mapping-0": {"mytable": [("mytable1", 1, "x"), ("mytable2", 2, "y")]},
    "mapping-1": {"mytable": [("mytable1", 1, "x"), ("mytable2", 2, "y")]},
}
"""For each example: its topics, and table and row of each change in them."""


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_does_what_its_document_says(
    kafka: Kafka, mariadb: MySql, tmp_path: Path, shared_java: SharedJava, name: str
) -> None:
    pipeline = MySqlPipeline(tmp_path, mariadb, shared_java, "mydb")
    pipeline.execute(
        "CREATE TABLE mytable1 (id INT PRIMARY KEY, a VARCHAR(9))", "CREATE TABLE mytable2 LIKE mytable1",
        "INSERT INTO mytable1 VALUES (1, 'x')", "INSERT INTO mytable2 VALUES (2, 'y')",
    )  # fmt: skip
    pipeline.file.write_text(EXAMPLES[name])
    values = {
        "mysql.hostname": "127.0.0.1", "mysql.port": mariadb.port, "mysql.username": USER, "mysql.password": PASSWORD,
        "mysql.source.table": TABLES, "kafka.topic": "mytopic", "kafka.bootstraps.server": kafka.bootstrap,
        "upsert.kafka.topic": "myupserts", "upsert.kafka.bootstraps.server": kafka.bootstrap,
        **{f"upsert.kafka.aliyun.{word}": "w0rd" for word in ("ak", "sk", "instanceid", "endpoint", "regionid")},
    }  # fmt: skip
    given = [
        word for key, value in values.items() if f"${{{key}}}" in EXAMPLES[name] for word in ("--set", f"{key}={value}")
    ]
    secrets = {
        f"INGEST_SECRET_{key.upper().replace('.', '_')}": str(value)
        for key, value in values.items() if f"${{secret_values.{key}}}" in EXAMPLES[name]
    }  # fmt: skip
    before = {topic: len(kafka.read(topic)) for topic in TOPICS.get(name, {"myupserts": []})}
    ran = finished(pipeline.command("--once", *given), shared_java, tmp_path, secrets)
    assert ran.code == 0, ran.err
    if name == "upsert":
        found = [(record.key, record.value) for record in kafka.read("myupserts")[before["myupserts"] :]]
        assert sorted(found) == [(b'{"id":1}', b'{"id":1,"a":"x"}'), (b'{"id":2}', b'{"id":2,"a":"y"}')]
        return
    for topic, expected in TOPICS[name].items():
        changes = [json.loads(record.value or b"") for record in kafka.read(topic)[before[topic] :]]
        rows = [(one["source"]["table"], one["after"]["id"], one["after"]["a"]) for one in changes]
        assert sorted(rows) == expected
        assert {(one["op"], one["before"]) for one in changes} == {("c", None)}


@pytest.mark.parametrize("mapping", MAPPINGS)
def test_a_mapping_that_the_document_prints_in_the_source_is_named_as_a_mistake(tmp_path: Path, mapping: str) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(SOURCE + f"  sink.tableId-to-topic.mapping: {mapping}\n" + SINK)
    checked = called("check", str(file))
    assert checked.code == 78, checked.out
    assert "p.yaml:10:3: error: unknown option 'sink.tableId-to-topic.mapping'" in checked.out + checked.err
    assert "it is an option of sink" in checked.out + checked.err or "belongs below sink" in checked.out + checked.err


def test_a_route_that_the_document_prints_a_blank_too_far_right_is_named_as_a_mistake(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(SOURCE + SINK + ROUTE.replace("route:", " route:"))
    checked = called("check", str(file))
    assert checked.code == 78, checked.out
    assert "p.yaml:16:2: error: not YAML: the indentation does not fit" in checked.out + checked.err


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

"""Scripts of Flink SQL as pipelines: those of the reference documents, and parts that a pipeline has no place for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from commands import called
from pages import blocks
from ruamel.yaml import YAML

from ingest.config.loader import load_text
from ingest.errors import ConfigError
from ingest.model.text import TextError
from ingest.render.from_sql import Turned, pipeline_of
from ingest.schema.sql_script import parse_script

if TYPE_CHECKING:
    from pathlib import Path

PAGE = [one for one in blocks() if one.page == "docs/from-sql.md"]
SCRIPTS = [(str(one), one.text, PAGE[i + 1].text) for i, one in enumerate(PAGE) if one.language == "sql"]
USERS = """
CREATE TABLE users (user_id BIGINT, user_name STRING, region STRING, PRIMARY KEY (user_id) NOT ENFORCED)
WITH ('connector' = 'upsert-kafka', 'topic' = 'users', 'key.format' = 'csv', 'value.format' = 'avro',
  'properties.bootstrap.servers' = 'b:9092');
"""
SOURCE = """CREATE TABLE s (id BIGINT, name STRING, at TIMESTAMP_LTZ(3) METADATA FROM 'timestamp',
  day AS CAST(at AS DATE), PRIMARY KEY (id) NOT ENFORCED)
WITH ('connector' = 'kafka', 'topic' = 'in', 'properties.bootstrap.servers' = 'b:9092', 'format' = 'json');
"""
SINK = """CREATE TABLE t (n BIGINT, what STRING, PRIMARY KEY (n) NOT ENFORCED)
WITH ('connector' = 'upsert-kafka', 'topic' = 'out', 'properties.bootstrap.servers' = 'b:9092',
  'key.format' = 'json', 'value.format' = 'json');
"""


QUERY = "INSERT INTO t SELECT s.id, UPPER(name) FROM s WHERE id > 5 AND day > DATE '2026-01-01'"
COPIED = "insert into t select * from s"


def joined(*statements: str) -> str:
    return "\n".join(one.strip("\n") for one in statements)


def turned(script: str) -> tuple[dict[str, Any], list[str], Turned]:
    """The pipeline of a script, which has to be valid, and what it lacks."""
    found = pipeline_of(parse_script(script), "x.sql")
    loaded = load_text("x", found.text, "x")
    assert [one.text() for one in loaded.diagnostics if one.severity == "error"] == []
    return YAML(typ="safe").load(found.text), [f"{left.line}: {left.what}" for left in found.left], found


@pytest.mark.parametrize(("script", "page"), [pytest.param(sql, text, id=name) for name, sql, text in SCRIPTS])
def test_each_script_of_the_references_becomes_a_pipeline(script: str, page: str) -> None:
    if script.startswith("SELECT"):
        script = USERS + script
    elif script.startswith("… WITH"):
        script = f"CREATE TABLE t (id INT) {script.removeprefix('… ')}"
    elif "FROM pageviews_per_region_5min" in script:
        script = joined(
            next(sql for _, sql, _ in SCRIPTS if sql.startswith("CREATE TABLE pageviews_per_region_5min")) + ";", script
        )
    made, _, _ = turned(script)
    wanted = YAML(typ="safe").load(page)
    if "INSERT" in script or "AS TABLE" in script:
        assert made["source"]["type"] == wanted["source"]["type"]
    for option in (
        "format",
        "key.format",
        "value.format",
        "key.fields",
        "properties.security.protocol",
        "csv.quote-character",
    ):
        given = re.search(rf"'{re.escape(option)}'\s*=\s*'((?:[^']|'')*)'", script)
        if given is not None:
            assert made["source"].get(option, made["sink"].get(option)) == given[1].replace("''", "'")
    if "'connector' = 'upsert-kafka'" in script and "INSERT" in script.upper():
        assert made["sink"]["type"] == "upsert-kafka" or made["source"]["type"] == "upsert-kafka"


def test_columns_are_by_position_and_names_by_the_sink() -> None:
    made, left, _ = turned(joined(SOURCE, SINK, QUERY))
    assert made["transform"] == [{
        "source-table": r"\.*", "projection": "id AS n, UPPER(name) AS what",
        "filter": "id > 5 AND (CAST(`timestamp` AS DATE)) > DATE '2026-01-01'", "primary-keys": "n",
    }]  # fmt: skip
    assert made["route"] == [{"source-table": r"\.*", "sink-table": "out"}]
    assert made["source"]["metadata.list"] == "timestamp"
    assert made["source"]["scan.value.initial-schemas.ddls"] == (
        "CREATE TABLE in (id BIGINT, name STRING, PRIMARY KEY (id) NOT ENFORCED)".replace("in (", "`in` (")
    )
    assert left == []


def test_the_same_columns_need_no_transform() -> None:
    same = SOURCE.replace("at TIMESTAMP_LTZ(3) METADATA FROM 'timestamp',\n  day AS CAST(at AS DATE), ", "")
    made, left, _ = turned(
        joined(same, SINK.replace("n BIGINT, what", "id BIGINT, name").replace("(n)", "(id)"), COPIED)
    )
    assert "transform" not in made
    assert left == []


LEFT = [
    ("SELECT id, COUNT(*) FROM s GROUP BY id", ["COUNT(*): there are no aggregates", "GROUP BY:"]),
    ("SELECT id, name FROM s JOIN u ON s.id = u.id", ["JOIN: there are no joins"]),
    ("SELECT id, u.x FROM s LEFT JOIN u ON s.id = u.id", ["u is another table", "JOIN: there are no joins"]),
    ("SELECT id, name FROM s, u", ["FROM with several tables"]),
    ("SELECT DISTINCT id, name FROM s", ["DISTINCT: rows are not compared"]),
    ("SELECT id, name FROM s ORDER BY id LIMIT 3", ["ORDER BY:", "LIMIT:"]),
    ("SELECT id, name FROM s UNION ALL SELECT id, name FROM s", ["UNION: a pipeline has one query"]),
    ("SELECT id, NOPE(name) FROM s", ["NOPE"]),
    ("SELECT id, name FROM s WHERE NOPE(id)", ["NOPE"]),
    ("SELECT id FROM s", ["2 columns there, 1 here"]),
]  # fmt: skip


@pytest.mark.parametrize(("query", "said"), LEFT)
def test_what_a_query_has_and_a_pipeline_has_not_is_said(query: str, said: list[str]) -> None:
    _, left, _ = turned(joined(SOURCE, SINK, "INSERT INTO t", query))
    for text in said:
        assert any(text in one for one in left), left


def test_statements_and_options_without_a_counterpart_are_said_with_their_lines() -> None:
    copy = "INSERT INTO t SELECT id, name FROM s"
    script = joined("SET 'a' = 'b';", SOURCE, SINK, "CREATE VIEW v AS SELECT 1;", f"{copy};", copy)
    _, left, _ = turned(script.replace("'format'", "'nope' = '1', 'format'"))
    assert "1: SET 'a' = …: it has no counterpart" in left
    assert any(one.startswith("4: nope: ") for one in left)
    assert any(one.startswith("8: CREATE VIEW v") for one in left)
    assert any("10: INSERT INTO t: a pipeline has one source" in one for one in left)


def test_a_secret_becomes_a_placeholder() -> None:
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="hunter2";'
    options = f"'properties.security.protocol' = 'SASL_PLAINTEXT', 'properties.sasl.jaas.config' = '{jaas}', 'format'"
    made, left, found = turned(SOURCE.replace("'format'", options))
    assert made["source"]["properties.sasl.jaas.config"] == "${secret_values.sasl_jaas_config}"
    assert any("INGEST_SECRET_SASL_JAAS_CONFIG" in one for one in left)
    assert "hunter2" not in found.text + "".join(left)


@pytest.mark.parametrize("servers", ["<host:port>", "KafkaAddress1:KafkaPort,KafkaAddress2:KafkaPort"])
def test_words_for_people_in_the_place_of_servers_become_a_variable(servers: str) -> None:
    made, left, _ = turned(joined(SOURCE.replace("b:9092", servers), SINK.replace("b:9092", servers), COPIED))
    assert (
        made["source"]["properties.bootstrap.servers"] == "${bootstrap}" == made["sink"]["properties.bootstrap.servers"]
    )
    assert sum("properties.bootstrap.servers: " in one for one in left) == 2


def test_a_table_of_a_database_is_filled_in() -> None:
    made, left, _ = turned(
        f"{SOURCE}CREATE TABLE c.d.x WITH ('connector' = 'postgres') AS TABLE s ADD COLUMN y AS id + 1"
    )
    assert made["sink"]["type"] == "postgres"
    assert made["route"] == [{"source-table": r"\.*", "sink-table": "d.x"}]
    assert made["transform"][0]["projection"].endswith("id + 1 AS y")
    made, left, _ = turned(f"{SOURCE}CREATE TABLE x WITH ('connector' = 'jdbc') AS TABLE s")
    assert made["sink"] == {"type": "print"}
    assert any("there is no sink 'jdbc'" in one for one in left)


@pytest.mark.parametrize("script", [
    "", "SELECT 1", "CREATE TABLE t (id INT) WITH ('connector' = 'datagen')", "CREATE VIEW v AS SELECT 1",
    joined(SINK, "INSERT INTO t SELECT * FROM nobody"),
])  # fmt: skip
def test_a_script_without_a_table_in_kafka_is_refused(script: str) -> None:
    with pytest.raises(ConfigError):
        pipeline_of(parse_script(script), "x.sql")


@pytest.mark.parametrize("script", [
    "CREATE TABLE t (id INT", "CREATE TABLE t (id INT) WITH ('a' 'b')", "CREATE TABLE", "CREATE TABLE t ('x",
    "CREATE TABLE t (id)", "CREATE TABLE t (id AS)", "INSERT INTO", "CREATE TABLE t WITH ('a' =", "x" * (1 << 21),
    "CREATE TEMPORARY", "INSERT INTO t SELECT * FROM", "CREATE TABLE t AS", "CREATE TABLE t AS TABLE",
])  # fmt: skip
def test_a_script_that_is_none_is_an_error_with_its_place(script: str, tmp_path: Path) -> None:
    (tmp_path / "x.sql").write_text(script)
    done = called("init", str(tmp_path / "p.yaml"), "--from-sql", str(tmp_path / "x.sql"))
    assert (done.code, "Traceback" in done.err, (tmp_path / "p.yaml").exists()) == (78, False, False)


def test_the_command_writes_the_file_and_says_the_rest(tmp_path: Path) -> None:
    (tmp_path / "x.sql").write_text(joined(SOURCE, SINK, "INSERT INTO t SELECT id, COUNT(*) FROM s GROUP BY id;"))
    done = called("init", str(tmp_path / "p.yaml"), "--from-sql", str(tmp_path / "x.sql"))
    assert done.code == 0, done.err
    assert f"{tmp_path / 'x.sql'}:7: GROUP BY: there are no aggregates" in done.err
    assert called("check", str(tmp_path / "p.yaml")).code == 0
    assert called("init", str(tmp_path / "q.yaml"), "--from-sql", str(tmp_path / "none.sql")).code == 78


def test_positions_of_errors() -> None:
    with pytest.raises(TextError) as raised:
        parse_script("CREATE TABLE t (\n  id INT\n WITH ('a' = 'b')")
    assert raised.value.at == 15


def test_columns_with_the_names_of_reserved_words_are_in_quotes() -> None:
    source = SOURCE.replace("name STRING,", "name STRING, `left` STRING, `year` INT,")
    options, left, _ = turned(joined(source, SINK, "INSERT INTO t SELECT id, UPPER(`left`) FROM s WHERE `year` > 5"))
    (rule,) = options["transform"]
    assert (rule["projection"].split(), rule["filter"]) == (
        ["id", "AS", "n,", "UPPER(`left`)", "AS", "what"], "`year` > 5"
    )  # fmt: skip
    assert not [text for text in left if "left" in text]

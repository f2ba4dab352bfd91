"""`ingest init --mysql`: a file that is valid for each sink, and tables as a server has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import typer
from commands import called
from mysql_servers import PASSWORD

from ingest.cli.init import _with_tables, server_to_read
from ingest.config.loader import load
from ingest.errors import AccessError, ConfigError
from ingest.model.table import selector, selector_of, table_in
from ingest.render.first_pipeline import SINKS, Answers, DatabaseAnswers

if TYPE_CHECKING:
    from pathlib import Path

    from mysql_servers import MySql

SHOP = r"shop.\.*"


@pytest.mark.parametrize("sink", SINKS)
def test_every_sink_makes_a_file_that_is_valid(tmp_path: Path, sink: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MYSQL", "POSTGRES"):
        monkeypatch.setenv(f"INGEST_SECRET_{name}", "none")
    file = tmp_path / "p.yaml"
    done = called(
        "init", str(file), "--mysql", "db.example:3307", "--user", "reader", "--tables", SHOP, "--sink", sink,
        "--brokers", "b:9092", "--no-look",
    )  # fmt: skip
    assert done.code == 0, done.err
    loaded = load(file)
    assert [one for one in loaded.diagnostics if one.severity != "warning"] == []
    assert loaded.pipeline is not None
    source = loaded.pipeline.source
    assert (source.hostname, source.port, source.username, source.password) == ("db.example", 3307, "reader", "none")
    assert source.tables == SHOP
    assert loaded.pipeline.sink.type == sink
    assert "none" not in file.read_text()


def test_what_is_missing_or_wrong_is_said(tmp_path: Path) -> None:
    file = str(tmp_path / "p.yaml")
    done = called("init", file, "--mysql", "db", "--sink", "print", "--no-look")
    assert (done.code, "--tables" in done.err) == (2, True)
    assert called("init", file, "--mysql", "db:99999", "--sink", "print", "--no-look", "--tables", SHOP).code == 2
    assert called("init", file, "--mysql", "db", "--sink", "nope", "--no-look", "--tables", SHOP).code == 2
    assert called("init", file, "--mysql", "db", "--no-look", "--tables", SHOP).code == 2


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [("db", "db", 3306), ("db:13306", "db", 13306), ("10.0.0.1:3307", "10.0.0.1", 3307), ("[::1]", "::1", 3306),
     ("[fe80::1]:3307", "fe80::1", 3307)],
)  # fmt: skip
def test_hosts_and_ports(text: str, host: str, port: int) -> None:
    assert server_to_read(text, "u", None) == DatabaseAnswers(host, port, "u", r"\.*.\.*")


@pytest.mark.parametrize("text", ["", ":3306", "db:", "db:0", "db:65536", "a b", "mysql://db", "::1", "db:1:2"])
def test_what_is_no_host(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is no HOST or HOST:PORT"):
        server_to_read(text, "u", None)


def test_the_tables_are_those_that_the_user_may_read(
    mariadb: MySql, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("INGEST_SECRET_MYSQL", PASSWORD)
    mariadb.execute(
        "CREATE DATABASE `init.a,b`", "CREATE TABLE `init.a,b`.t (id INT)", "CREATE DATABASE init_c",
        "CREATE TABLE init_c.t (id INT)", f"GRANT USAGE ON *.* TO looker@'%' IDENTIFIED BY '{PASSWORD}'",
    )  # fmt: skip
    try:
        given = server_to_read(f"127.0.0.1:{mariadb.port}", "looker", None)
        answers = Answers("b:9092", None, None, "debezium-json", "print", database=given)
        with pytest.raises(AccessError, match="may not read its log"):
            _with_tables(answers, {})
        mariadb.execute("GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO looker@'%'")
        with pytest.raises(ConfigError, match=r"looker may read no table of 127\.0\.0\.1:\d+") as nothing:
            _with_tables(answers, {})
        assert "GRANT SELECT" in nothing.value.hint
        mariadb.execute("GRANT SELECT ON `init.a,b`.* TO looker@'%'", "GRANT SELECT ON init_c.* TO looker@'%'")
        found = _with_tables(answers, {}).database
        assert found is not None
        assert found.tables == r"init.a\x{2c}b.\.*,init_c.\.*"
        assert selector(found.tables).match(table_in("init.a,b", "t"))
        assert not selector(found.tables).match(table_in("other", "t"))
        assert "2 tables that looker may read" in capsys.readouterr().err
    finally:
        mariadb.execute("DROP DATABASE `init.a,b`", "DROP DATABASE init_c", "DROP USER looker@'%'")


@pytest.mark.parametrize("name", ["shop", "a,b", "x[y]", "a.b", "q'\"{}\\", "ä 1", "a*", "日本", "a|b"])
def test_a_name_is_its_own_selector(name: str) -> None:
    assert selector(selector_of(name)).match(table_in(None, name))
    assert not selector(selector_of(name)).match(table_in(None, f"{name}x"))
    assert not selector(selector_of(name)).match(table_in(None, f"x{name}"))

"""The sandbox's PostgreSQL server: it starts, asks for its password, keeps its tables, and ends."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import psycopg
import pytest
from harness import INGEST, free_port

from ingest.errors import ConfigError, Unavailable
from ingest.sandbox import postgres as sandbox

pytestmark = pytest.mark.usefixtures("postgres")


def connection(there: sandbox.RunningDatabase, password: str | None = None) -> psycopg.Connection[Any]:
    host, _, port = there.endpoint.rpartition(":")
    given = Path(there.password_file).read_text() if password is None else password
    return psycopg.connect(
        host=host, port=int(port), dbname=sandbox.DATABASE, user=sandbox.USER, password=given, autocommit=True
    )


def test_tables_outlive_the_server_unless_they_are_wiped(tmp_path: Path) -> None:
    there = sandbox.up(tmp_path, free_port())
    try:
        assert sandbox.status(tmp_path) == there == sandbox.up(tmp_path)
        assert re.fullmatch(r"\d+(\.\d+)?", there.version)
        assert Path(there.password_file).stat().st_mode & 0o077 == 0
        with connection(there) as open_session:
            open_session.execute("CREATE TABLE kept (n int)")
            settings = "SELECT name, setting FROM pg_settings WHERE name IN (%s, %s)"
            found = dict(open_session.execute(settings, ("listen_addresses", "unix_socket_directories")).fetchall())
            assert found == {"listen_addresses": "127.0.0.1", "unix_socket_directories": ""}
            with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
                connection(there, "another")
            assert sandbox.down(tmp_path), "also while somebody is connected"
        assert not sandbox.down(tmp_path)
        assert sandbox.status(tmp_path) is None
        again = sandbox.up(tmp_path)
        assert (again.endpoint, again.home) == (there.endpoint, there.home)
        with connection(again) as session:
            assert session.execute("SELECT * FROM kept").fetchall() == []
    finally:
        sandbox.down(tmp_path, wipe=True)
    assert not (Path(there.home) / "data").exists()
    assert not Path(there.password_file).exists()
    assert (Path(there.home).parent == Path("/var/tmp")) == (os.getuid() == 0)  # noqa: S108


def test_a_server_that_does_not_start_is_said(tmp_path: Path) -> None:
    there = sandbox.up(tmp_path)
    sandbox.down(tmp_path)
    (Path(there.home) / "data" / "PG_VERSION").write_text("1\n")
    try:
        with pytest.raises(Unavailable, match="did not start") as raised:
            sandbox.up(tmp_path)
        assert "postgres.log" in raised.value.hint
        assert sandbox.status(tmp_path) is None
    finally:
        sandbox.down(tmp_path, wipe=True)


def test_missing_programs_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "_DEBIAN", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="postgres, initdb, pg_isready") as raised:
        sandbox.up(tmp_path / "sandbox")
    assert "apt-get install postgresql" in raised.value.hint
    assert not (tmp_path / "sandbox").exists()
    for name in sandbox.PROGRAMS:
        (tmp_path / name).touch(0o700)
    assert sandbox.programs() == tmp_path.resolve()


def test_only_directories_of_its_own_are_deleted(tmp_path: Path) -> None:
    (tmp_path / "other" / "data").mkdir(parents=True)
    (tmp_path / "postgres").mkdir()
    (tmp_path / "postgres" / "postgres.json").write_text(json.dumps({"home": str(tmp_path / "other")}))
    sandbox.down(tmp_path, wipe=True)
    assert (tmp_path / "other" / "data").exists()


@pytest.mark.usefixtures("java")
def test_the_command_starts_and_ends_it_with_the_broker(tmp_path: Path) -> None:
    where = ["--dir", str(tmp_path / "sandbox")]

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([INGEST, "sandbox", *words, *where], capture_output=True, text=True, check=False)

    up = run("up", "--postgres", "--port", str(free_port()), "--heap", "384m")
    try:
        assert up.returncode == 0, up.stderr
        found = json.loads(run("status", "--format", "json").stdout)["postgres"]
        there = sandbox.RunningDatabase(**found)
        password = Path(there.password_file).read_text()
        assert f"PostgreSQL {there.version} at {there.endpoint}" in up.stdout
        assert f'export INGEST_SECRET_POSTGRES="$(cat {there.password_file})"' in up.stdout
        assert password not in up.stdout + up.stderr
        with connection(there) as session:
            assert session.execute("SELECT 1").fetchone() == (1,)
        pipeline = tmp_path / "pipeline.yaml"
        sink = up.stdout[up.stdout.index("sink:\n") :]
        pipeline.write_text(f"source: {{type: file, path: in.jsonl, value.format: json}}\n{sink}")
        checked = subprocess.run(
            [INGEST, "check", str(pipeline)], capture_output=True, text=True, check=False,
            env={**os.environ, "INGEST_SECRET_POSTGRES": password},
        )  # fmt: skip
        assert checked.returncode == 0, checked.stdout + checked.stderr
    finally:
        down = run("down", "--wipe")
    assert down.stdout == "stopped\n"
    with pytest.raises(psycopg.OperationalError):
        connection(there, password)

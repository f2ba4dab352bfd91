"""The sandbox's schema registry: it starts, asks for a password where it is to, keeps its schemas, and ends."""

from __future__ import annotations

import json
import ssl
import subprocess
from typing import TYPE_CHECKING

import pytest
from harness import INGEST, free_port
from schema_registry import ask

from ingest.errors import ConfigError, Unavailable
from ingest.sandbox import registry as sandbox
from ingest.sandbox.secure import USER

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.usefixtures("java")
def test_schemas_outlive_the_registry_unless_they_are_wiped(tmp_path: Path) -> None:
    there = sandbox.up(tmp_path, free_port())
    assert sandbox.status(tmp_path) == there == sandbox.up(tmp_path)
    with pytest.raises(ConfigError, match="without a password runs"):
        sandbox.up(tmp_path, secure=True)
    number = ask(f"{there.url}/subjects/s-value/versions", {"schema": '"string"'})["id"]
    assert sandbox.down(tmp_path)
    assert not sandbox.down(tmp_path)
    assert sandbox.status(tmp_path) is None
    again = sandbox.up(tmp_path)
    assert again.url == there.url
    assert ask(f"{again.url}/schemas/ids/{number}")["schema"] == '"string"'
    sandbox.down(tmp_path, wipe=True)
    assert ask(f"{sandbox.up(tmp_path).url}/subjects") == []
    sandbox.down(tmp_path)


@pytest.mark.usefixtures("java")
def test_a_secured_registry_asks_for_its_password_with_and_without_tls(tmp_path: Path) -> None:
    there = sandbox.up(tmp_path, free_port(), secure=True)
    try:
        assert there.tls is not None
        folder = tmp_path / "secure"
        password = (folder / "password").read_text().strip()
        for url, ca in ((there.url, None), (there.tls, folder / "ca.pem")):
            assert ask(f"{url}/subjects", user=f"{USER}:{password}", ca=ca) == []
            for wrong in (None, f"{USER}:another"):
                assert ask(f"{url}/subjects", user=wrong, ca=ca) == 401
        with pytest.raises(ssl.SSLCertVerificationError):
            ask(f"{there.tls}/subjects", user=f"{USER}:{password}")
        assert (tmp_path / "registry" / "config" / "application.properties").stat().st_mode & 0o077 == 0
    finally:
        sandbox.down(tmp_path)


@pytest.mark.usefixtures("java")
def test_a_registry_that_does_not_start_is_said(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="did not start") as raised:
        sandbox.up(tmp_path, free_port(), heap="1m")
    assert "registry.log" in raised.value.hint


@pytest.mark.usefixtures("java")
def test_the_command_starts_and_ends_it_with_the_broker(tmp_path: Path) -> None:
    where = ["--dir", str(tmp_path / "sandbox")]

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([INGEST, "sandbox", *words, *where], capture_output=True, text=True, check=False)

    up = run("up", "--registry", "--port", str(free_port()), "--heap", "384m", "--format", "json")
    try:
        assert up.returncode == 0, up.stderr
        url = json.loads(up.stdout)["registry"]["url"]
        assert ask(f"{url}/subjects") == []
        assert f"schema registry: {url}" in run("status").stdout
    finally:
        down = run("down", "--wipe")
    assert down.stdout == "stopped\n"
    with pytest.raises(ConnectionRefusedError):
        ask(f"{url}/subjects")

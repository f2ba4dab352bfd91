"""A real broker with TLS, SCRAM, mTLS, PLAIN and OAUTHBEARER listeners, and ACLs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from brokers import broker
from harness import INGEST, Kafka, Result, finished
from secured import OAUTH, Run, lines

from ingest.sandbox import broker as sandbox
from ingest.sandbox.secure import Secure, client_properties

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from shared_java import SharedJava


@pytest.fixture(scope="session")
def secure(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    folder = tmp_path_factory.mktemp("secure")
    running = broker(folder, secure=True, extra=OAUTH)
    assert running.secure is not None
    yield Secure(running.secure, str(folder / "secure"))
    sandbox.down(folder, wipe=True)


@pytest.fixture
def plain(secure: Secure) -> Kafka:
    """The listener without security, for what the tests themselves do."""
    there = sandbox.status(Path(secure.folder).parent)
    assert there is not None
    return Kafka(there.bootstrap)


@pytest.fixture
def clients(secure: Secure) -> dict[str, dict[str, str]]:
    """Working properties by listener."""
    found = client_properties(secure)
    for properties in found.values():
        if "sasl.password" in properties:
            properties["sasl.password"] = secure.password
    return found


@pytest.fixture
def run(tmp_path: Path, plain: Kafka, shared_java: SharedJava) -> Run:
    """A function that runs a pipeline from the topic `in` once, with other properties for source and sink."""

    def run(source: Mapping[str, str], sink: Mapping[str, str], more: str = "", **env: str) -> Result:
        """`more` is more of the pipeline's file."""
        file = tmp_path / "pipe.yaml"
        file.write_text(
            f"source:\n  type: kafka\n  topic: {plain.name}.in\n  scan.startup.mode: earliest-offset\n{lines(source)}"
            f"  ingestion.ignore-errors: {bool(more)}\n"
            f"sink:\n  type: upsert-kafka\n{lines(sink)}"
            f"route:\n  - {{source-table: '\\.*', sink-table: {plain.name}.out.<>, replace-symbol: <>}}\n{more}"
        )
        place = ["--checkpoint", str(tmp_path / "checkpoint"), "--master", "local[2]"]
        return finished([INGEST, "run", str(file), "--once", *place], None if env else shared_java, tmp_path, env)

    return run

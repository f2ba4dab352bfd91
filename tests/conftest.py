"""Fixtures: a real broker for the tests that need one, and a pipeline on it."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
from harness import INGEST, Kafka, Pipeline, free_port
from hypothesis import HealthCheck, settings

from ingest.config.masking import SEEN
from ingest.paths import alone
from ingest.sandbox import broker as sandbox
from ingest.spark import archive

# How fast the machine is at the moment is no property of the code
settings.register_profile("ingest", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ingest")

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def _no_secrets_of_other_tests() -> Iterator[None]:
    """A process masks the secrets of every file that it has read, and a test's secrets are words to others."""
    yield
    SEEN.clear()


@pytest.fixture(scope="session")
def sandbox_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sandbox")


@pytest.fixture(scope="session")
def bootstrap(sandbox_folder: Path) -> Iterator[str]:
    """The test run's own broker, on a port of its own; and runs that start faster."""
    with alone("warmup"):
        if not archive.path().is_file():  # by itself: this process may have a Spark of its own, for tests in memory
            subprocess.run([INGEST, "warmup"], check=True, stdout=subprocess.DEVNULL)
    yield sandbox.up(sandbox_folder, free_port(), heap="512m").bootstrap
    sandbox.down(sandbox_folder, wipe=True)


@pytest.fixture
def kafka(bootstrap: str) -> Kafka:
    return Kafka(bootstrap)


@pytest.fixture
def pipeline(tmp_path: Path, kafka: Kafka) -> Pipeline:
    return Pipeline(tmp_path, kafka, kafka.create(f"{kafka.name}.in", 2))

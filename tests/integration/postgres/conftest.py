"""A real PostgreSQL server, and the sink on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import postgres_sink
import pytest
from examples import own_name
from postgres import running
from postgres_shop import Shop
from postgres_sink import options

from ingest.sinks.postgres import statements

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from postgres import Database
    from shared_java import SharedJava

    from ingest.sinks.postgres.options import SqlSinkOptions


@pytest.fixture(scope="session")
def postgres() -> Iterator[Database]:
    """The server of these tests."""
    with running() as database:
        yield database


@pytest.fixture
def sink(postgres: Database) -> SqlSinkOptions:
    return options(postgres)


@pytest.fixture
def name() -> str:
    """The schema of a test's tables."""
    return own_name("s")


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    """Close what a test opened."""
    yield
    for one in postgres_sink.opened:
        one.close()
    postgres_sink.opened.clear()
    postgres_sink.warnings.clear()


@pytest.fixture(params=["as-json", "in-columns"])
def _staged(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways in which rows are staged, however many they are."""
    monkeypatch.setattr(statements, "MIN_TYPED", 1 if request.param == "in-columns" else 1 << 40)


@pytest.fixture
def shop(tmp_path: Path, postgres: Database, shared_java: SharedJava) -> Shop:
    return Shop(tmp_path, postgres, shared_java)

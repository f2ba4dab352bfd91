"""Fixtures: leave to start Java, a real broker for the tests that need one, and a pipeline on it."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mysql_servers
import psutil
import pytest
from brokers import broker
from examples import examples
from harness import INGEST, Kafka, Pipeline, free_port
from hypothesis import HealthCheck, settings
from schedule import at_night
from shared_java import SharedJava
from wording import words_of_python

from ingest.config.redaction import SEEN
from ingest.errors import IngestError
from ingest.formats.avro import native_nodes
from ingest.kafka import handle
from ingest.native import native
from ingest.observe.events import RejectEvent, Warned
from ingest.paths import locked
from ingest.sandbox import broker as sandbox
from ingest.sandbox import registry as schema_registry
from ingest.spark import archive
from ingest.testing import in_memory_run

# How fast the machine is at the moment is no property of the code. Each run tries other examples, and a failure says
# how to repeat it. CI tries the same ones each time: a change is judged by itself, and what passed here passes there
settings.register_profile(
    "ingest", deadline=None, max_examples=examples(100), derandomize="CI" in os.environ, print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)  # fmt: skip
settings.load_profile("ingest")

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

_NO_JAVA = Path(__file__).parent / "support" / "no-java"
_DATABASES = frozenset({"postgres", "secured", "mariadb", "mariadb11", "mysql5", "mysql_server", "sandbox_mysql"})
"""Fixtures that start a database."""
_ROOM = 3 << 30
"""Bytes that a worker may need: a broker, a Java that runs share, Spark in memory, and a run with its own Java."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that may start Java or a database, for `make test-fast`, and those that wait for the night.

    Workers of pytest-xdist begin with the longest tests.
    """
    for item in items:
        if at_night(item.nodeid):
            item.add_marker("nightly")
        if isinstance(item, pytest.Function) and "java" in item.fixturenames:
            item.add_marker("java")
        if isinstance(item, pytest.Function) and not _DATABASES.isdisjoint(item.fixturenames):
            item.add_marker("database")
    if hasattr(config, "workerinput"):
        from schedule import turn

        items.sort(key=lambda item: turn(item.nodeid))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage meanwhile: nearly all that is made here stays, and there is a lot of it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_configure(config: pytest.Config) -> None:
    """Measure how long files take, for `make times`."""
    if "INGEST_TIMES" in os.environ and not hasattr(config, "workerinput"):
        from schedule import Times

        config.pluginmanager.register(Times())


@pytest.hookimpl(optionalhook=True, tryfirst=True)  # before pytest-xdist's own; `tools/sanitize` runs without it
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Return the scheduler of `make test`."""
    if config.getoption("dist") != "loadfile":
        return None
    from schedule import longest_first

    return longest_first(config, log)


@pytest.hookimpl(optionalhook=True)  # `tools/sanitize` runs without xdist
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return twice as many workers as processors, as a test waits half of its time; fewer where memory is short."""
    fast = config.getoption("markexpr") == "not java and not database"
    processors = len(os.sched_getaffinity(0))
    room = psutil.virtual_memory().available // _ROOM
    return processors if fast else max(1, min(2 * processors, room))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, bool | None, bool | None]:
    """Refuse Java to tests without that mark, also where an earlier test has started Spark: so none is missing."""

    def refuse() -> None:
        subprocess.run([_NO_JAVA / "bin" / "java"], check=True)

    with pytest.MonkeyPatch.context() as patch:
        if item.get_closest_marker("java") is None:
            patch.setenv("JAVA_HOME", str(_NO_JAVA))
            patch.setattr(in_memory_run, "shared_spark", refuse)
        return (yield)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip tests of compiled code where there is none; on CI, which has a compiler, they fail."""
    sys.setrecursionlimit(1000)  # Python's own: Hypothesis raises it, and does not always take that back
    mark = item.get_closest_marker("compiled")
    if mark is None:
        return
    missing = [] if native.BUILT else ["ingest.native"]
    if "client" in mark.args and (why := handle.unusable()):
        missing.append(f"ingest.kafka.native ({why})")
    if "avro" in mark.args and not native_nodes.BUILT:
        missing.append("ingest.formats.avro.native")
    if missing:
        said = f"not compiled, or not in use: {', '.join(missing)}"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(said)


@pytest.fixture(autouse=True)
def _no_words_of_python(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whatever a test makes go wrong, no error, warning or reject has None, True or b'' in its text.

    Not in tests of properties, whose values of rows are any text, and not where texts of Java or a server are in them.
    """
    if "property" in request.node.nodeid or {"java", "database"} & {mark.name for mark in request.node.iter_markers()}:
        yield
        return
    said: list[str] = []
    for kind, texts in ((IngestError, ("message", "hint")), (Warned, ("text",)), (RejectEvent, ("text",))):

        def noted(self: Any, *given: Any, made: Any = kind.__init__, texts: Any = texts, **named: Any) -> None:
            made(self, *given, **named)
            said.extend(getattr(self, text) for text in texts)

        monkeypatch.setattr(kind, "__init__", noted)
    yield
    assert [text for text in said if words_of_python(text)] == []


@pytest.fixture(autouse=True)
def _no_secrets_of_other_tests() -> Iterator[None]:
    """A process masks the secrets of every file that it has read, and a test's secrets are words to others."""
    yield
    SEEN.clear()


@pytest.fixture(autouse=True, scope="module")
def _what_all_tests_share_is_no_garbage() -> Iterator[None]:
    """Leave it out of collections: it is 300,000 objects. A task in this process, when it ends, puts it back.

    Clients of Kafka that are garbage keep their files and threads until a whole collection.
    """
    if not gc.get_freeze_count():
        gc.collect()
        gc.freeze()
    yield
    gc.collect()


@pytest.fixture(scope="session")
def java() -> None:
    """Leave to start Java, here or in a command; runs start faster after this."""
    with locked("warmup"):
        if not archive.path().is_file():  # by itself: this process may have a Spark of its own, for tests in memory
            subprocess.run([INGEST, "warmup"], check=True, stdout=subprocess.DEVNULL)


@pytest.fixture(scope="session")
def shared_java(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedJava]:
    """The Java that runs share which need none of their own."""
    shared = SharedJava(tmp_path_factory.mktemp("java"))
    yield shared
    shared.stop()


@pytest.fixture(scope="session")
def sandbox_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sandbox")


@pytest.fixture(scope="session")
def bootstrap(java: None, sandbox_folder: Path) -> Iterator[str]:
    """The test run's own broker, on a port of its own."""
    yield broker(sandbox_folder).bootstrap
    sandbox.down(sandbox_folder, wipe=True)


@pytest.fixture(scope="session")
def registry(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the test run's own schema registry, which asks for no password."""
    folder = tmp_path_factory.mktemp("registry")
    yield schema_registry.up(folder, free_port()).url
    schema_registry.down(folder, wipe=True)


@pytest.fixture(scope="session")
def mariadb() -> Iterator[mysql_servers.MySql]:
    """MariaDB 10.11, which tests share: each has databases and users of its own, and leaves the log as it is."""
    with mysql_servers.running(mysql_servers.MARIADB_10) as server:
        yield server


@pytest.fixture(scope="session")
def mariadb11() -> Iterator[mysql_servers.MySql]:
    """MariaDB 11.4, which tests share."""
    with mysql_servers.running(mysql_servers.MARIADB_11) as server:
        yield server


@pytest.fixture(scope="session")
def mysql5() -> Iterator[mysql_servers.MySql]:
    """MySQL 5.6, which tests share, with GTIDs."""
    gtids = {"gtid_mode": "ON", "enforce_gtid_consistency": 1, "log_slave_updates": 1}
    with mysql_servers.running(mysql_servers.MYSQL_5, **gtids) as server:
        yield server


@pytest.fixture
def mysql_server() -> Iterator[Callable[..., mysql_servers.MySql]]:
    """What starts servers of a test's own: `mysql_server(MARIADB_10, server_id=2)`; they end with the test."""
    with ExitStack() as servers:
        yield lambda kind, **options: servers.enter_context(mysql_servers.running(kind, **options))


@pytest.fixture
def kafka(bootstrap: str) -> Kafka:
    return Kafka(bootstrap)


@pytest.fixture
def pipeline(tmp_path: Path, kafka: Kafka, shared_java: SharedJava) -> Pipeline:
    return Pipeline(tmp_path, kafka, kafka.create(f"{kafka.name}.in", 2), shared_java)

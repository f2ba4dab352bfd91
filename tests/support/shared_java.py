"""A Java that runs of the command share in turn: each joins it, as a driver that `spark-submit` starts does.

To start Java and to load the classes of Spark is most of what a short run costs, and few tests are about it. Runs with
the same variables or directory of their own share one, too. A run with properties of Spark, one that is to die and one
that goes on meanwhile have a Java of their own.
"""

from __future__ import annotations

import os
import subprocess
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark import SparkConf
from pyspark.java_gateway import launch_gateway

from ingest.spark import archive
from ingest.spark.session import SUBMITTED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from harness import Background

_SECRET = "PYSPARK_GATEWAY_SECRET"  # noqa: S105  (the name of a variable)
_OF_PYTEST = "PYTEST_CURRENT_TEST"


class SharedJava:
    """A Java process of the tests; it is started for the first run that joins it."""

    def __init__(self, folder: Path, variables: Mapping[str, str] | None = None, directory: Path | None = None) -> None:
        self._folder, self._directory = folder, directory
        self._variables = dict(variables or {})
        self._other: SharedJava | None = None
        self._beside: SharedJava | None = None
        self._run: Background | None = None
        self._log = folder / "shared-java.log"
        self._environment: dict[str, str] = {}
        self._gateway: Any = None
        self._server: Any = None

    def of(self, variables: Mapping[str, str] | None, directory: Path | None) -> SharedJava:
        """Return the Java of runs with these variables, in this directory: workers have those of Java.

        It is kept until it is asked for another one.
        """
        if not variables and directory is None:
            return self
        other = self._other
        if other is None or (other._variables, other._directory) != (dict(variables or {}), directory):
            if other is not None:
                other.stop()
            other = self._other = SharedJava(self._folder, variables, directory)
        return other

    def beside(self, begin: Callable[[Mapping[str, str]], Background]) -> Background:
        """Begin a run in the background in a Java for these, which is free when the run before it has ended."""
        if self._beside is None:
            self._beside = SharedJava(self._folder)
        java = self._beside
        if java._run is not None:
            java._run.kill()  # of a test that failed
            java._run.wait()
            java.left()
        java._run = begin(java.joined())
        return java._run

    def joined(self) -> dict[str, str]:
        """Return the environment of a run that joins.

        Java starts again where the variables have changed, as workers have those of Java, not those of the run; and
        where it ended after the run before, which pytest then warns of: that run has been judged.
        """
        if self._gateway is not None and not self._answers():
            code = self._gateway.proc.poll()
            warnings.warn(f"the Java that tests share ended between runs ({code}): {self._said()}", stacklevel=2)
            self._end()
        if self._gateway is not None and _environment() != self._environment:
            self._end()
        if self._gateway is None:
            self._start()
        jvm = self._gateway.jvm
        self._server = jvm.org.apache.spark.api.python.Py4JServer(jvm.org.apache.spark.SparkConf())
        self._server.start()  # one for each run: a run ends the one that it has joined
        joins = {SUBMITTED: str(self._server.getListeningPort()), _SECRET: self._server.secret()}
        return {**os.environ, **self._variables, **joins}

    def left(self) -> None:
        """Make ready for the next run; what a driver that died has left in Java ends."""
        if self._server is None:
            return
        server, self._server = self._server, None
        if self._gateway.proc.poll() is not None:
            self._end()
            raise AssertionError(f"the Java that tests share ended during a run: {self._said()}")
        server.shutdown()
        companion = self._gateway.jvm.java.lang.Class.forName("org.apache.spark.SparkContext$")
        active = companion.getField("MODULE$").get(None).getActive()
        if active.isDefined():  # its driver has died
            active.get().stop()

    def stop(self) -> None:
        """End Java, where it runs, that of runs with variables of their own and that of runs in the background."""
        for other in (self._other, self._beside):
            if other is not None:
                other.stop()
        self._other = self._beside = None
        if self._gateway is not None:
            self._end()

    def _answers(self) -> bool:
        try:
            self._gateway.jvm.System.nanoTime()
        except (Py4JNetworkError, OSError):
            return False
        return True

    def _said(self) -> str:
        return self._log.read_text(errors="replace")[-3000:]

    def _end(self) -> None:
        gateway, self._gateway = self._gateway, None
        with suppress(Py4JNetworkError, OSError):  # it has ended by itself
            gateway.shutdown()
        gateway.proc.stdin.close()
        try:
            gateway.proc.wait(10)
        except subprocess.TimeoutExpired:
            gateway.proc.kill()
            gateway.proc.wait()

    def _start(self) -> None:
        conf = SparkConf(loadDefaults=False)
        options = f"-XX:+UseSerialGC -XX:TieredStopAtLevel=1 {archive.options()}"
        conf.set("spark.driver.extraJavaOptions", options)
        self._environment = _environment()
        with self._log.open("ab") as log, pytest.MonkeyPatch.context() as patch:
            for name, value in self._variables.items():
                patch.setenv(name, value)
            popen = {"stdout": log, "stderr": log, "start_new_session": True, "cwd": self._directory}
            self._gateway = launch_gateway(conf, popen)  # type: ignore[no-untyped-call]
        system = self._gateway.jvm.System
        for name in _names(system):  # what `spark-submit` was told would go before what a run says
            system.clearProperty(name)


def _names(system: Any) -> Iterator[str]:
    """The properties of Spark that are set in Java."""
    return (name for name in map(str, system.getProperties().stringPropertyNames()) if name.startswith("spark."))


def _environment() -> dict[str, str]:
    """The variables of this process that a run would have."""
    return {name: value for name, value in os.environ.items() if name != _OF_PYTEST}

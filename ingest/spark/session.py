"""Spark, as far as this tool needs it: a context, broadcasts, one job a batch.

Nothing that Spark prints reaches the terminal: it goes to a file beside the checkpoint. The Java process inherits the
checkpoint's lock, so that a killed driver's checkpoint is free only when its workers are gone.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from shutil import which
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, TypeVar

from py4j.protocol import INPUT_CONVERTER
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import NumpyArrayConverter, NumpyScalarConverter

from ingest.errors import ConfigError, IngestError, ProgramMissing, Unavailable
from ingest.paths import OWN_FOLDER, open_own
from ingest.spark import archive
from ingest.spark.jvm import hadoop_of, is_stopped, jvm_of, members_of
from ingest.spark.readable import kind_given_up, why_given_up

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from py4j.java_gateway import JavaGateway
    from pyspark.core.broadcast import Broadcast


_T = TypeVar("_T")
_V = TypeVar("_V")
TASK_ATTEMPTS: Final = 4
TASK_PAYLOAD: Final = "ingest.tasks"
"""The local property that tells the tasks of a plan what to do in this batch."""
SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
"""The environment variable by which `spark-submit` tells a driver that Java runs already."""

_LOG4J: Final = """\
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{yyyy-MM-dd HH:mm:ss,SSS} %p %c{1}: %m%n%ex
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
"""
_HOT: Final = (
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 -XX:Tier4CompileThreshold=150000 "
    "-XX:Tier4BackEdgeThreshold=400000"
)
"""Ten times what Java has: what Spark does for each job would else be compiled at length, in a tenth of all processor
time of the first minute. What is done for each row is hot in a second even so."""
_MAX_LOG: Final = 10 << 20
_TUNABLES: Final = "GLIBC_TUNABLES"
"""The environment variable that configures how glibc allocates memory; other C libraries do not read it."""


# For any list that goes to Java, these two look whether it is NumPy's. For that, they import pandas and all that
# PySpark's own tests need: a third of the time in which a driver starts. Nothing here sends values of NumPy to Java
INPUT_CONVERTER[:] = [
    converter for converter in INPUT_CONVERTER if not isinstance(converter, (NumpyArrayConverter, NumpyScalarConverter))
]


class Session:
    """A running SparkContext."""

    def __init__(
        self, name: str, master: str, conf: Mapping[str, str], *, lock: int | None, log: Path, sql: bool = False
    ) -> None:
        """Start Java and Spark; raises ConfigError or Unavailable when that does not work.

        `sql`: whether rows will go through Spark SQL, so that Java has more to do than to hand tasks out.
        """
        self._log = log
        self._ended = False
        self._submitted = SUBMITTED in os.environ
        log.parent.parent.mkdir(parents=True, exist_ok=True)
        log.parent.mkdir(OWN_FOLDER, exist_ok=True)  # lines of it may hold parts of messages
        if log.exists() and log.stat().st_size > _MAX_LOG:
            log.replace(log.with_suffix(".log.1"))
        log4j = log.with_name("log4j2.properties")
        log4j.write_text(_LOG4J, encoding="utf-8")
        options = f"-Dlog4j2.configurationFile={log4j.resolve().as_uri()}"
        local = master.startswith("local") and not self._submitted
        if local:
            # Where the driver's JVM only hands tasks out, it starts faster with the simple compiler and collector
            options += f" -XX:+UseSerialGC {_HOT if sql else '-XX:TieredStopAtLevel=1'}"
        user = dict(conf)
        extra = user.pop("spark.driver.extraJavaOptions", "")
        if local and "Archive" not in extra:
            options += f" {archive.options()}"
        settings = {
            "spark.app.name": name,
            "spark.master": with_retries(master),
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.extraJavaOptions": f"{options} {extra}".strip(),
            "spark.python.worker.reuse": "true",
            "spark.pyspark.python": sys.executable,
            "spark.pyspark.driver.python": sys.executable,
            "spark.task.maxFailures": str(TASK_ATTEMPTS),
            "spark.shutdown.timeout": "10s",
            "spark.python.daemon.module": "ingest.task.daemon",
            **({"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"} if local else {}),
            **huge_pages(os.environ),
            **user,
        }
        self._sc = self._start(settings, lock)

    def _start(self, settings: Mapping[str, str], lock: int | None) -> SparkContext:
        # PySpark takes the workers' interpreter from the environment only; without this it is whatever `python3` is
        os.environ["PYSPARK_PYTHON"] = settings["spark.pyspark.python"]
        if settings["spark.master"].startswith("local"):
            # Local workers find this package where this process found it
            path = [p for p in (os.environ.get("PYTHONPATH", ""), *sys.path) if p]
            os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(path))
            # The first of Spark's two Java processes only prints the command of the second
            os.environ.setdefault("SPARK_LAUNCHER_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        try:
            if self._submitted:
                return self._join(settings)
            spark = SparkConf(loadDefaults=False)
            for key, value in settings.items():
                spark.set(key, value)
            with open_own(self._log, "ab") as out:
                popen = {
                    "stdout": out,
                    "stderr": out,
                    "start_new_session": True,
                    "pass_fds": () if lock is None else (lock,),
                }
                gateway = launch_gateway(spark, popen)  # type: ignore[no-untyped-call]
            self._gateway = gateway
            try:
                return SparkContext(conf=spark, gateway=gateway)
            except BaseException:
                if SparkContext._active_spark_context is None:  # else it is another session's
                    _forget()
                self._end(gateway)
                raise
        except (PySparkException, OSError) as exc:
            raise self._explain(exc) from exc
        except Exception as exc:
            if type(exc).__module__.startswith("py4j"):
                raise self._explain(exc) from exc
            raise

    def _join(self, settings: Mapping[str, str]) -> SparkContext:
        """Use the Java process that `spark-submit` has started. Its settings take precedence over ours."""
        self._gateway = launch_gateway()  # type: ignore[no-untyped-call]
        spark = SparkConf(loadDefaults=True, _jvm=self._gateway.jvm)
        for key, value in settings.items():
            if not spark.contains(key) and key != "spark.driver.extraJavaOptions":
                spark.set(key, value)
        return SparkContext(conf=spark, gateway=self._gateway)

    def _explain(self, exc: Exception) -> IngestError:
        home = os.environ.get("JAVA_HOME")
        if not home and which("java") is None:
            return ProgramMissing(
                "Spark needs Java 17 or newer, and there is no 'java' here", "install it, or set JAVA_HOME"
            )
        text = self._last_lines() or str(exc).splitlines()[0]
        return ConfigError(
            f"Spark did not start: {text}", f"see {self._log}; check --master, --conf and the Java version"
        )

    def _last_lines(self) -> str:
        try:
            lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()[-50:]
        except OSError:
            return ""
        telling = [line for line in lines if "Exception" in line or "ERROR" in line or "rror:" in line]
        return telling[0].strip()[:300] if telling else ""

    @property
    def hadoop(self) -> tuple[Any, Any]:
        """The JVM, and the configuration of Hadoop's file systems in it."""
        return jvm_of(self._sc), hadoop_of(self._sc)

    @property
    def speculates(self) -> bool:
        """Whether Spark may run a task twice at a time."""
        return str(self._sc.getConf().get("spark.speculation", "false")).lower() == "true"

    @property
    def slots(self) -> int:
        """How many tasks run at once."""
        return max(1, int(self._sc.defaultParallelism))

    @property
    def master(self) -> str:
        """Spark's master, which `spark-submit` may have chosen."""
        return str(self._sc.master)

    @property
    def lives(self) -> bool:
        """Whether the Java process answers and this session's context is not stopped."""
        try:
            return not is_stopped(self._sc)
        except Exception:  # noqa: BLE001  (py4j's: there is nobody at the other end)
            return False

    @property
    def driver_is_placed(self) -> bool:
        """Whether the cluster has chosen the machine that this driver runs on, and its directory."""
        conf = self._sc.getConf()
        placed = conf.get("spark.submit.deployMode", "client"), conf.get("spark.kubernetes.submitInDriver", "false")
        return placed[0] == "cluster" or placed[1] == "true"

    @property
    def executors(self) -> int:
        """The current number of executors."""
        return max(1, members_of(self._sc) - 1)

    def broadcast(self, value: _V) -> Broadcast[_V]:
        """Send a value to the workers once."""
        return self._sc.broadcast(value)

    def sql(self) -> SparkSession:
        """Return Spark SQL in this context. It starts slowly, so only transforms ask for it."""
        # It prints every error of an expression with its whole stack trace; we say what is wrong ourselves
        PySparkLogger.getLogger("SQLQueryContextLogger").disabled = True
        return SparkSession(self._sc)

    def run_frame(self, frame: DataFrame, task_payload: str) -> list[bytes]:
        """Run a job over a Spark SQL plan, and return its rows of bytes.

        `task_payload` reaches the tasks as a property.
        """
        self._sc.setLocalProperty(TASK_PAYLOAD, task_payload)
        return self._guarded(lambda: [bytes(row[0]) for row in frame.rdd.collect()])

    def run(self, function: Callable[[Iterable[_V]], Iterator[_T]], tasks: Sequence[_V]) -> list[_T]:
        """Run a job with one task per element, and return their results.

        Raise IngestError when Spark gave up on a task.
        """
        return self._guarded(lambda: self._sc.parallelize(tasks, len(tasks)).mapPartitions(function).collect())

    def _guarded(self, job: Callable[[], list[_T]]) -> list[_T]:
        try:
            return job()
        except Exception as exc:
            if not type(exc).__module__.startswith(("py4j", "pyspark")):
                raise
            msg = f"Spark gave up on a task after {TASK_ATTEMPTS} attempts: {why_given_up(str(exc))}"
            kind = kind_given_up(str(exc))
            what = "run again" if issubclass(kind, Unavailable) else "correct that, and run again"
            raise kind(msg, f"nothing is lost, {what}; details in {self._log}") from exc

    def exit(self) -> None:
        """End Java as a program ends: it writes its archive then, which it does not when it is only stopped."""
        self._let_accumulators_go()
        try:
            jvm_of(self._sc).System.exit(0)
        except Exception as exc:
            if not isinstance(exc, OSError) and not type(exc).__module__.startswith("py4j"):
                raise
        self._gateway.proc.wait(120)
        self._gateway.proc.stdin.close()
        with suppress(Exception):  # there is nobody at the other end
            self._gateway.shutdown()
        _forget()

    def stop(self) -> None:
        """End Spark and its Java process, if they have not been ended.

        A Java that this process has joined may still listen when it is ended, and answer nobody.
        """
        if self._ended:
            return
        self._ended = True
        self._let_accumulators_go()
        with suppress(Exception):  # Java may be gone already; that was the error then, not this
            self._sc.stop()
        _forget()
        self._end(self._gateway)

    def _let_accumulators_go(self) -> None:
        """Stop PySpark's server for accumulators in a thread.

        Its thread looks once a second whether it is to end: nobody has to wait for that, or to read that Java went.
        """
        server = self._sc._accumulatorServer
        self._sc._accumulatorServer = None  # type: ignore[assignment]
        server.handle_error = lambda *_: None  # type: ignore[method-assign]
        Thread(target=server.shutdown, daemon=True).start()

    @staticmethod
    def _end(gateway: JavaGateway) -> None:
        """Stop the Java process if this process started it."""
        with suppress(Exception):  # it may be gone already
            gateway.shutdown()
        process = getattr(gateway, "proc", None)
        if process is not None:
            process.stdin.close()
            try:
                process.wait(10)
            except Exception:  # noqa: BLE001  (whatever it is: it must not outlive us)
                process.kill()


def _forget() -> None:
    """Reset PySpark's cached gateway to the ended Java process, so that the next session starts a new one."""
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None


def is_local(master: str) -> bool:
    """Return whether tasks run beside the driver, in its directory; those of `local-cluster[…]` do not."""
    return master == "local" or master.startswith("local[")


def huge_pages(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the setting by which workers allocate memory in huge pages; none where the environment has its own.

    A Kafka client's queues hold megabytes in small pieces: with pages of 4 KiB, much of a worker's time goes to finding
    these pages (bench/HISTORY.md). Linux gives huge pages where it has them, and small ones elsewhere.
    """
    return {} if _TUNABLES in environment else {f"spark.executorEnv.{_TUNABLES}": "glibc.malloc.hugetlb=1"}


def with_retries(master: str) -> str:
    """Return a local master with retries of failed tasks, `local[n,4]` for `local[n]`; others unchanged."""
    if master == "local":
        return f"local[1,{TASK_ATTEMPTS}]"
    if master.startswith("local[") and "," not in master:
        return f"{master[:-1]},{TASK_ATTEMPTS}]"
    return master

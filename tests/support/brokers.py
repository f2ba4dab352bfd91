"""Brokers and clusters of the tests' own: one broker, three, and Spark's standalone master; all on loopback."""

from __future__ import annotations

import os
import subprocess
import time
import uuid
from base64 import urlsafe_b64encode
from typing import TYPE_CHECKING, Any, Final
from urllib.error import URLError
from urllib.request import urlopen

import pyspark
import pytest
from examples import own_name
from harness import Kafka, free_port

from ingest.paths import java
from ingest.sandbox import broker as sandbox
from ingest.sandbox.jars import jars

if TYPE_CHECKING:
    from pathlib import Path

FOR_MINUTES: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Options of a Java that lives for minutes and has little to do: it is not worth the good compiler's work."""


def broker(folder: Path, port: int | None = None, heap: str = "512m", **more: Any) -> sandbox.Broker:
    """Start the sandbox's broker in a folder, and return it when it answers; `sandbox.down` ends it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JDK_JAVA_OPTIONS", " ".join(FOR_MINUTES))
        return sandbox.up(folder, port or free_port(), heap, **more)


_NODE = """\
process.roles={roles}
node.id={node}
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port}{listener}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={folder}/data
auto.create.topics.enable=false
default.replication.factor=3
min.insync.replicas=2
offsets.topic.replication.factor=3
offsets.topic.num.partitions=3
transaction.state.log.replication.factor=3
transaction.state.log.min.isr=2
transaction.state.log.num.partitions=3
group.initial.rebalance.delay.ms=0
connections.max.idle.ms=3000
controlled.shutdown.enable=true
"""


class Nodes:
    """A cluster of three brokers; the first one is the controller, too."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports = {node: free_port() for node in (1, 2, 3)}
        self.bootstrap = ",".join(f"127.0.0.1:{port}" for port in self.ports.values())
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        controller = free_port()
        own = uuid.uuid5(uuid.NAMESPACE_URL, own_name("cluster-"))
        cluster = "--cluster-id=" + urlsafe_b64encode(own.bytes).decode().rstrip("=")
        for node, port in self.ports.items():
            home = folder / str(node)
            home.mkdir()
            first = node == 1
            (home / "server.properties").write_text(
                _NODE.format(
                    roles="broker,controller" if first else "broker", node=node, controller=controller, port=port,
                    listener=f",CONTROLLER://127.0.0.1:{controller}" if first else "", folder=home,
                )
            )  # fmt: skip
            subprocess.run(self.java(node, "kafka.tools.StorageTool", "format", cluster, "-c"), check=True)
            self.start(node)

    def java(self, node: int, *arguments: str) -> list[str]:
        return [
            java(),
            "-Xmx384m",
            *FOR_MINUTES,
            "-cp",
            f"{jars()}/*",
            *arguments,
            str(self.folder / str(node) / "server.properties"),
        ]

    def start(self, node: int) -> None:
        out = (self.folder / str(node) / "log").open("ab")
        self.processes[node] = subprocess.Popen(self.java(node, "kafka.Kafka"), stdout=out, stderr=out)
        out.close()

    def stop(self, node: int) -> None:
        self.processes[node].terminate()
        self.processes[node].wait(60)

    def kill(self, node: int) -> None:
        self.processes[node].kill()
        self.processes[node].wait(60)

    def all_in_sync(self, topics: list[str]) -> bool:
        """Whether every partition of these topics has all its replicas again."""
        try:
            found = Kafka(self.bootstrap).admin.list_topics(timeout=5).topics
        except Exception:  # noqa: BLE001  (whatever it is: not yet)
            return False
        return all(
            topic in found and all(len(p.isrs) == 3 for p in found[topic].partitions.values()) for topic in topics
        )

    def close(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()


class Standalone:
    """A master and workers of Spark, from the installed package's own commands; each worker has two slots."""

    def __init__(self, folder: Path, workers: int) -> None:
        home = str(next(iter(pyspark.__path__)))
        env = {**os.environ, "SPARK_HOME": home, "SPARK_LOCAL_IP": "127.0.0.1"}
        env["JDK_JAVA_OPTIONS"] = " ".join(FOR_MINUTES)  # executors have their worker's variables
        env.pop("PYSPARK_PYTHON", None)
        port, ui = free_port(), free_port()
        self.url = f"spark://127.0.0.1:{port}"
        deploy = [f"{home}/bin/spark-class", "org.apache.spark.deploy"]
        options = [["master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(ui)]]
        options += [
            ["worker.Worker", "-c", "2", "-m", "1g", "--work-dir", str(folder / f"work{i}"), self.url]
            for i in range(workers)
        ]
        self.processes: list[subprocess.Popen[bytes]] = []
        with (folder / "cluster.log").open("wb") as log:
            for name, *more in options:
                command = [deploy[0], f"{deploy[1]}.{name}", *more]
                self.processes.append(subprocess.Popen(command, env=env, stdout=log, stderr=log))
                _wait(f"http://127.0.0.1:{ui}/json/", len(self.processes) - 1)

    def stop(self) -> None:
        for process in reversed(self.processes):
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait(url: str, workers: int) -> None:
    """Until the master answers, and has so many workers."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            with urlopen(url, timeout=5) as answer:  # noqa: S310  (loopback)
                if answer.read().count(b'"state" : "ALIVE"') >= workers:
                    return
        except (URLError, OSError):
            pass
        time.sleep(0.2)
    raise AssertionError(f"{url} did not come up")

"""Start, search and stop of one Kafka broker, with KRaft: broker and controller are one process.

In: a directory. Out: the address of the broker in it. The process continues after the terminal is closed.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from ingest.errors import ConfigError, IngestError
from ingest.kafka.admin import Cluster
from ingest.kafka.properties import BOOTSTRAP
from ingest.paths import cache, java
from ingest.sandbox.jars import KAFKA_VERSION, jars
from ingest.sandbox.process import HOST, any_ports, chosen_port, launch, noted, running, starting, stop, wait_for
from ingest.sandbox.secure import prepare
from ingest.sandbox.secure import properties as secure_properties

PORT: Final = 29092
_NOTE: Final = "broker.json"
"""The file of what there is to know about the broker."""

_PROPERTIES: Final = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller}
controller.listener.names=CONTROLLER
log.dirs={data}
num.partitions=4
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=8
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=8
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
log.cleaner.backoff.ms=1000
log.segment.delete.delay.ms=1000
log.retention.ms=-1
metadata.max.idle.interval.ms=0
"""

_PLAIN: Final = """\
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller}
advertised.listeners=PLAINTEXT://{host}:{port}
"""

_LOG4J: Final = """\
rootLogger.level = info
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = [%d] %p %m (%c)%n
"""


@dataclass(frozen=True, slots=True)
class Broker:
    """A running broker."""

    bootstrap: str
    pid: int
    log: str
    folder: str
    version: str
    secure: Mapping[str, str] | None = None
    """Addresses of the secured listeners by their Kafka names, or None.

    Their credentials are in the directory `secure`.
    """


def default_folder() -> Path:
    """Return the default directory of the sandbox's broker."""
    return cache() / "sandbox"


def status(folder: Path) -> Broker | None:
    """Return the broker that runs in this directory, or None."""
    return running(folder, _NOTE, Broker)


def up(folder: Path, port: int | None = None, heap: str = "1g", *, secure: bool = False, extra: str = "") -> Broker:
    """Start the broker unless it runs, and return it when it answers. Raise IngestError.

    `heap` is the size of Java's heap. `secure` adds listeners with TLS and passwords. `extra` has more lines for the
    broker's properties, in which `{port}` and `{controller}` stand for its ports.
    """
    sandbox = status(folder)
    if sandbox is not None:
        if secure and sandbox.secure is None:
            msg = f"a sandbox without secured listeners runs at {sandbox.bootstrap}"
            raise ConfigError(msg, "stop it first: ingest sandbox down")
        return sandbox
    classpath = f"{jars()}/*"
    with starting(folder, "sandbox") as lock:
        return _start(folder, classpath, lock, port, heap, secure=secure, extra=extra)


def _start(folder: Path, classpath: str, lock: int, port: int | None, heap: str, *, secure: bool, extra: str) -> Broker:
    chosen = chosen_port(port, str(noted(folder / _NOTE).get("bootstrap", "")).rpartition(":")[2], PORT)
    data, log = folder / "data", folder / "broker.log"
    properties, log4j = folder / "server.properties", folder / "log4j2.properties"
    controller, *others = any_ports(4, {chosen})
    guarded = None
    if secure:
        ports = dict(zip(("sasl_ssl", "ssl", "sasl_plaintext"), others, strict=True))
        guarded = prepare(folder / "secure", HOST, ports)
        listeners = secure_properties(guarded, HOST, chosen, controller, ports)
    else:
        listeners = _PLAIN.format(host=HOST, port=chosen, controller=controller)
    text = _PROPERTIES.format(host=HOST, controller=controller, data=data.resolve())
    properties.touch(0o600)
    properties.chmod(0o600)
    more = extra.format(port=chosen, controller=controller)
    properties.write_text(text + listeners + more, encoding="utf-8")
    log4j.write_text(_LOG4J, encoding="utf-8")
    common = [java(), f"-Xmx{heap}", f"-Dlog4j2.configurationFile={log4j.resolve().as_uri()}", "-cp", classpath]
    if log.exists():
        log.replace(log.with_name("broker.previous.log"))
    with log.open("ab") as out:
        if not (data / "meta.properties").exists():
            # A random id may begin with a dash; as a separate argument it would look like an option
            cluster = "--cluster-id=" + urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
            tool = [*common, "kafka.tools.StorageTool", "format", cluster, "-c", str(properties)]
            done = subprocess.run(tool, stdout=out, stderr=out, check=False)
            if done.returncode:
                raise ConfigError(f"Kafka cannot format its storage in {data}", f"see {log}")
        process = launch([*common, "kafka.Kafka", str(properties)], folder, lock, out)
    broker = Broker(
        f"{HOST}:{chosen}",
        process.pid,
        str(log),
        str(folder),
        KAFKA_VERSION,
        None if guarded is None else dict(guarded.listeners),
    )
    (folder / _NOTE).write_text(json.dumps(asdict(broker)), encoding="utf-8")
    asked = Cluster({BOOTSTRAP: broker.bootstrap})
    wait_for(process, lambda: _answers(asked), f"broker at {broker.bootstrap}", broker.log)
    if guarded is not None:
        asked.set_scram(guarded.user, guarded.password)
    return broker


def _answers(cluster: Cluster) -> bool:
    try:
        cluster.connect(1.0)
    except IngestError:
        return False
    return True


def down(folder: Path, *, wipe: bool = False) -> bool:
    """Stop the broker cleanly, and tell whether one ran. With `wipe`, delete its topics, too.

    Raise Unavailable where it does not stop within STOP_S seconds.
    """
    sandbox = status(folder)
    if sandbox is not None:
        stop(folder, sandbox.pid, "broker", sandbox.log)
    if wipe:
        shutil.rmtree(folder / "data", ignore_errors=True)
    return sandbox is not None

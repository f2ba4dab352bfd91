"""Pipelines whose checkpoints an older version left (`tools/upgrade.py`), and the place where they are gone on with."""

from __future__ import annotations

import fcntl
import json
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from harness import INGEST, finished

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from harness import Kafka, Result
    from shared_java import SharedJava

OLD: Final = Path(__file__).parents[1] / "upgrade" / "0.1.0-077bd96"
PLACE: Final = Path("/tmp/ingest-upgrade")  # noqa: S108  (tables of Iceberg name their files by absolute paths)
NAME: Final = "upgrade-of-a-test"
"""The beginning of the names of topics and transactions."""
BOOTSTRAP: Final = "broker-of-a-test:9092"
DATABASE: Final = "server-of-a-test:5432/database"
PROGRESS: Final = "ingest-progress"
_FILE: Final = f"""\
source: {{type: file, path: {PLACE}/in.*.jsonl, file.envelope: true, value.format: debezium-json}}
pipeline: {{name: old}}
"""
_KAFKA: Final = f"""\
source:
  type: kafka
  properties.bootstrap.servers: ${{bootstrap}}
  topic: {NAME}.in
  value.format: debezium-json
  scan.startup.mode: earliest-offset
route: [{{source-table: 'shop.\\.*', sink-table: {NAME}.<>, replace-symbol: <>}}]
pipeline: {{name: old}}
sink:
  type: upsert-kafka
  properties.bootstrap.servers: ${{bootstrap}}
"""
_TRANSACTIONS: Final = f"""\
  sink.delivery-guarantee: exactly-once
  sink.transactional-id-prefix: {NAME}.transactions
"""
_POSTGRES: Final = """\
sink:
  type: postgres
  endpoint: ${endpoint}
  dbname: ${database}
  username: ingest
  password: ${password}
"""
FILES: Final = {
    "file": f"{_FILE}sink: {{type: file, path: {PLACE}/out}}\n",
    "upsert-kafka": _KAFKA,
    "exactly-once": _KAFKA + _TRANSACTIONS,
    "iceberg": f"{_FILE}sink: {{type: iceberg, catalog.properties.warehouse: {PLACE}/lake}}\n",
    "delta": f"{_FILE}sink: {{type: delta, warehouse: {PLACE}/lake}}\n",
    "postgres": _FILE + _POSTGRES,
}
"""The pipeline files, by their kind."""


def change(table: str, row: dict[str, object]) -> tuple[bytes, bytes]:
    """The key and the value of an insert."""
    value = {"op": "c", "before": None, "after": row, "source": {"db": "shop", "table": table}}
    return json.dumps({"id": row["id"]}).encode(), json.dumps(value).encode()


def lines(changes: list[tuple[bytes, bytes]]) -> str:
    """The changes as lines of a file, each in an envelope."""
    return "".join(f'{{"key":{key.decode()},"value":{value.decode()}}}\n' for key, value in changes)


BEFORE: Final = [
    change("orders", {"id": 1, "v": 1}), change("users", {"id": 1, "name": "a"}),
    change("orders", {"id": 2, "v": 2.5, "late": "x"}),
]  # fmt: skip
"""The changes that the older version took."""
AFTER: Final = [
    change("orders", {"id": 3, "v": 3.5, "more": "y"}), change("users", {"id": 2, "name": "b"}),
    change("orders", {"id": 1, "v": 4.5}),
]  # fmt: skip
"""The changes that come after the upgrade: a new column, and a row that changes."""
ORDERS: Final = [(1, 4.5, None, None), (2, 2.5, "x", None), (3, 3.5, None, "y")]
"""The rows at the end: id, v, late, more."""


@contextmanager
def alone() -> Iterator[None]:
    """Have the place for oneself, and leave nothing there: tests of another checkout wait."""
    with PLACE.with_suffix(".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(PLACE, ignore_errors=True)
        try:
            yield
        finally:
            shutil.rmtree(PLACE, ignore_errors=True)


def rename(names: Mapping[str, str]) -> None:
    """Replace names in the texts of a checkpoint and of its pipeline file."""
    for path in [PLACE / "p.yaml", *(PLACE / "checkpoint").rglob("*")]:
        if path.is_file():
            text = path.read_text()
            for old, new in names.items():
                text = text.replace(old, new)
            path.write_text(text)


@contextmanager
def left(kind: str, *, crashed: bool = True) -> Iterator[None]:
    """Have what the older version left, as after a crash between what was written and what was stored of its batch."""
    with alone():
        shutil.copytree(OLD / kind, PLACE)
        if crashed:
            (PLACE / "checkpoint" / "batches" / "1.1.done").unlink()
        (PLACE / "in.2.jsonl").write_text(lines(AFTER))
        yield


def restore(kafka: Kafka) -> None:
    """Give a broker what the older one had, under the test's names, and let the files say so."""
    found = json.loads((PLACE / "kafka.json").read_text())
    names = {NAME: kafka.name, BOOTSTRAP: kafka.bootstrap, found["cluster"]: kafka.cluster.connect(10.0)}
    there = kafka.admin.list_topics(timeout=10).topics
    for name, topic in found["topics"].items():
        own = name.replace(NAME, kafka.name)
        if own not in there:
            kafka.create(own, topic["partitions"], **({"cleanup.policy": "compact"} if topic["compact"] else {}))
        for partition, key, value in topic["records"]:
            kafka.send(own, (key.encode(), value.encode()), partition=partition)
        names[topic["id"]] = kafka.cluster.topics([own])[own].id
    for group, notes in found["groups"].items():
        committed = [TopicPartition(topic, partition, offset, note) for topic, partition, offset, note in notes]
        asked = ConsumerGroupTopicPartitions(group.replace(NAME, kafka.name), committed)
        for done in kafka.admin.alter_consumer_group_offsets([asked]).values():
            assert [at.error for at in done.result(10).topic_partitions] == [None] * len(notes)
    rename(names)


def gone_on(java: SharedJava, folder: Path, **variables: str) -> Result:
    """Run the pipeline of the place from its checkpoint."""
    command = [INGEST, "run", f"{PLACE}/p.yaml", "--once", "--checkpoint", f"{PLACE}/checkpoint"]
    for name, value in variables.items():
        command += ["--set", f"{name}={value}"]
    done = finished(command, java, folder)
    assert done.code == 0, done.err
    (began,) = (event for event in done.events if event["event"] == "run started")
    assert (began["run"], began["resumed"]) == (2, True)
    return done

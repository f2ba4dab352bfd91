"""Tables that are read once more out of Kafka into Kafka, with each guarantee, and after a death."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from backfills import BackfillShop
from confluent_kafka import TopicPartition
from harness import debezium

from ingest.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from harness import Kafka


class KafkaShop(BackfillShop):
    """A pipeline from a topic to topics of a real broker, without Spark."""

    def __init__(self, folder: Path, kafka: Kafka, **sink: Any) -> None:
        super().__init__(folder, own_sink=True, own_source=True)
        self.kafka, self.topic = kafka, kafka.create(f"{kafka.name}.in", 2)
        servers = {"properties.bootstrap.servers": kafka.bootstrap}
        self._sections: dict[str, Any] = {
            "source": {"topic": self.topic, "scan.startup.mode": "earliest-offset", **servers},
            "sink": {**servers, "sink.transactional-id-prefix": kafka.name, **sink},
        }

    def send(self, op: str, key: int, n: Any = None, table: str = "orders") -> None:
        row = {"id": key, "n": n}
        value = debezium(op, row if op == "d" else None, None if op == "d" else row, table=table)
        self.kafka.send(self.topic, (json.dumps({"id": key}).encode(), value), partition=key % 2)

    def to(self, target: str) -> dict[str, Any]:
        route = [{"source-table": r"shop.(\.*)", "sink-table": f"{self.kafka.name}.{target}.$1"}]
        return {**self._sections, "route": route}

    def rows(self, target: str) -> dict[int, int]:
        """The rows of `orders` after all records of a topic in their order, by key."""
        out: dict[int, int] = {}
        for record in self.kafka.read(f"{self.kafka.name}.{target}.orders"):
            value = json.loads(record.value) if record.value else None
            if value is not None and "op" in value:
                value = {**(value["after"] or value["before"]), "gone": value["op"] == "d"}
            key = json.loads(record.key or b"")["id"] if value is None else value["id"]
            out.pop(key, None)
            if value is not None and not value.get("gone"):
                out[key] = value["n"]
        return out


KINDS = [
    {"type": "upsert-kafka", "sink.delivery-guarantee": "at-least-once"},
    {"type": "upsert-kafka", "sink.delivery-guarantee": "exactly-once"},
    {"type": "kafka", "sink.delivery-guarantee": "exactly-once"},
]


@pytest.mark.parametrize("sink", KINDS, ids=lambda one: "-".join(one.values()))
def test_a_backfill_ends_with_the_last_states(kafka: Kafka, tmp_path: Path, sink: dict[str, str]) -> None:
    shop = KafkaShop(tmp_path, kafka, **sink)
    for key in range(8):
        shop.send("c", key, key)
        shop.send("c", key, key, table="users")
    shop.send("d", 2)
    shop.go(**shop.to("a"))
    shop.send("u", 3, 300)
    shop.go(**shop.to("b"))
    lacking = [said.rpartition(" ")[2] for said in shop.warnings if "lacks the rows" in said]
    assert sorted(lacking) == ["shop.orders", "shop.users"]
    assert shop.rows("b") == {3: 300}
    shop.go(["shop.orders"], dies=3, at_once=2, **shop.to("b"))
    shop.send("d", 4)
    shop.go(**shop.to("b"))
    assert any("has not come to its end" in said for said in shop.warnings)
    shop.go(["shop.orders"], **shop.to("b"))
    assert shop.rows("b") == {0: 0, 1: 1, 3: 300, 5: 5, 6: 6, 7: 7}
    with pytest.raises(ConfigError, match=r"it knows shop\.orders, shop\.users"):
        shop.go(["orders"], **shop.to("b"))
    for future in kafka.admin.delete_records([TopicPartition(shop.topic, 1, 3)]).values():
        future.result(20)
    shop.go(["shop.orders"], **shop.to("b"))
    assert any(f"no longer have their beginning: {shop.topic}[1] begins at offset 3: rows" in w for w in shop.warnings)
    assert shop.rows("b") == {0: 0, 1: 1, 3: 300, 5: 5, 6: 6, 7: 7}

"""The scenarios of the project, and which of them need Spark."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness import Kafka

    from ingest.config.scenario import Scenario

_ROOT = Path(__file__).parents[2]
FILES = sorted((_ROOT / "tests" / "scenarios").glob("*/*.yaml"))
OF_PIPELINES = sorted((_ROOT / "pipelines" / "tests").glob("*.yaml"))
"""Those of the pipelines that are examples."""


def name(file: Path) -> str:
    """Return a scenario's topic and name."""
    return f"{file.parent.name}/{file.stem}"


def has_expressions(file: Path) -> bool:
    """Return whether a scenario computes something, as Spark SQL does; its pipeline may be a file of its own."""
    text = file.read_text(encoding="utf-8")
    pipeline = re.search(r"^pipeline: (\S+\.yaml)$", text, re.MULTILINE)
    if pipeline is not None:
        text += (file.parent / pipeline[1]).read_text(encoding="utf-8")
    return re.search(r"(?<!-)\b(?:projection|filter):", text) is not None


def send(broker: Kafka, scenario: Scenario) -> int:
    """Send the messages to topics that are made for them; return the number of partitions."""
    topics = {m.topic: 1 + max(o.partition for o in scenario.messages if o.topic == m.topic) for m in scenario.messages}
    for topic, partitions in topics.items():
        broker.create(topic, partitions)
    producer = broker.producer()
    for m in scenario.messages:
        more: Any = {} if m.timestamp is None else {"timestamp": m.timestamp}
        headers: Any = m.headers
        producer.produce(m.topic, m.value, m.key, partition=m.partition, headers=headers, **more)
    assert producer.flush(20) == 0
    return sum(topics.values())

"""The sandbox's broker keeps what was sent to it, however old a record says it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from harness import Kafka, free_port

from ingest.sandbox import broker as sandbox

if TYPE_CHECKING:
    from pathlib import Path

IN_2017 = 1_511_658_000_000
OFTEN = "log.initial.task.delay.ms=100\nlog.retention.check.interval.ms=100\n"


@pytest.mark.usefixtures("java")
def test_records_of_any_time_stay(tmp_path: Path) -> None:
    kafka = Kafka(sandbox.up(tmp_path, free_port(), heap="384m", extra=OFTEN).bootstrap)
    try:
        gone = kafka.create("week", 1, **{"retention.ms": "604800000"})
        kept = kafka.create("kept")
        producer = kafka.producer()
        for topic in (gone, kept):
            producer.produce(topic, b"old", timestamp=IN_2017)
        assert producer.flush(20) == 0
        assert kafka.cluster.wait_until(lambda: kafka.cluster.earliest([(gone, 0)]) == {(gone, 0): 1}, 60)
        assert [record.value for record in kafka.read(kept)] == [b"old"]
    finally:
        sandbox.down(tmp_path, wipe=True)

"""Events of a run that has done something, and metrics that count them."""

from __future__ import annotations

from typing import Any

from ingest.observe.events import BatchDone, BatchMeasured, RunStarted
from ingest.observe.metrics import Metrics
from ingest.observe.observers import Health
from ingest.task.task import TableCounters


def started(**waiting: int) -> RunStarted:
    return RunStarted("p", 1, "c", 1, False, 5, True, waiting={(topic, 0): count for topic, count in waiting.items()})


def measured(**more: Any) -> BatchMeasured:
    values: dict[str, Any] = {
        "records_in": 10, "bytes_in": 1000, "records_out": 8, "bytes_out": 640,
        "tables": {"shop.orders": TableCounters(10, 5, 2, 1, 2)},
        "table_bytes": {"shop.orders": [900, 640]}, "rejects": {("decode", "malformed"): 2},
        "skipped": {"tombstone": 1}, "positions": {("t", 0): 10}, "waiting": {("t", 0): 3}, "fetch_lag_s": 1.5,
        "emit_lag_s": 2.5, "send_s": 0.25, "commit_s": 0.0, "failed": False,
    }  # fmt: skip
    return BatchMeasured(**{**values, **more})


def done(seconds: float = 0.4) -> BatchDone:
    return BatchDone(1, 10, seconds, 3, 2, 0.3, 2048, 1.0)


def counting(max_tables: int = 1000, clean: Any = str) -> Metrics:
    return Metrics("p", max_tables, Health(300), clean)

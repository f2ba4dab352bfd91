"""The view of docs/sinks.md that makes a history with times out of a table in a lake that has all states."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from harness import Pipeline, message
from lake import duck
from pages import only

if TYPE_CHECKING:
    from pathlib import Path

BEGIN = 1_700_000_000_000
TABLE = "iceberg_scan('lake/shop/orders')"


def at(second: int) -> datetime:
    return datetime.fromtimestamp(BEGIN / 1000, UTC).replace(tzinfo=None) + timedelta(seconds=second)


def test_the_view_says_when_each_state_was_the_current_one(pipeline: Pipeline, tmp_path: Path) -> None:
    pipeline.write("  metadata.list: timestamp,partition,offset\n", route=False)
    text = pipeline.file.read_text()
    sink = f"sink:\n  type: iceberg\n  catalog.properties.warehouse: {tmp_path / 'lake'}\n  sink.write-mode: append\n"
    pipeline.file.write_text(f"{text[: text.index('sink:')]}{sink}")
    producer = pipeline.kafka.producer()
    changes = [
        message("c", None, {"id": 1, "v": "a"}), message("c", None, {"id": 2, "v": "x"}),
        message("u", {"id": 1, "v": "a"}, {"id": 1, "v": "b"}), message("d", {"id": 2, "v": "x"}, None),
        message("c", None, {"id": 2, "v": "y"}),
    ]  # fmt: skip
    for second, (key, value) in enumerate(changes):
        producer.produce(pipeline.topic, value, key, partition=0, timestamp=BEGIN + second * 1000)
    assert producer.flush(20) == 0
    ran = pipeline.run()
    assert ran.code == 0, ran.err
    view = only("docs/sinks.md", "sql", "orders_history").text
    assert TABLE in view
    session = duck()
    session.execute(view.replace(TABLE, f"iceberg_scan('{tmp_path / 'lake/shop/orders'}')"))
    found = session.execute(
        "SELECT id, v, valid_from::TIMESTAMP, valid_to::TIMESTAMP FROM orders_history ORDER BY 1, 3"
    )
    assert found.fetchall() == [
        (1, "a", at(0), at(2)), (1, "b", at(2), None), (2, "x", at(1), at(3)), (2, "y", at(4), None),
    ]  # fmt: skip

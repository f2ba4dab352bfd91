"""The pipelines of docs/csv.md, each on a real broker, in Spark's workers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from harness import debezium

if TYPE_CHECKING:
    from harness import Kafka, Pipeline, Result

PAGE = Path(__file__).parents[3] / "docs" / "csv.md"
COPY, TIME, DIALECT, UPSERTS, UPSERTED, AVRO, RAW, FILES = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.fixture
def ran(kafka: Kafka, pipeline: Pipeline) -> Any:
    """A function that runs a pipeline of the page, once, and returns how it ended."""

    def run(text: str, *arguments: str) -> Result:
        pipeline.file.write_text(text.replace("${bootstrap:-127.0.0.1:29092}", kafka.bootstrap))
        done = pipeline.run(*arguments)
        assert done.code == 0, done.err
        return done

    return run


def test_rows_go_from_one_topic_to_another(kafka: Kafka, ran: Any) -> None:
    kafka.create("csv-source")
    kafka.send("csv-source", (None, b"1,Bob,42\n2"), (None, b'2,"Alice, A.",'), (None, b"1,Bob,42\r\n"))
    with pytest.raises(AssertionError, match="malformed"):
        ran(COPY)
    ran(COPY.replace("  value.format: csv\n  scan", "  value.format: csv\n  csv.ignore-parse-errors: true\n  scan", 1))
    assert sorted(record.value or b"" for record in kafka.read("csv-sink")) == [b'1,"Bob",42', b'2,"Alice, A.",']


def test_the_time_of_a_record_is_a_column(kafka: Kafka, ran: Any) -> None:
    kafka.create("user_behavior")
    kafka.send("user_behavior", (None, b"543462,1715,pv"))
    ran(TIME)
    (record,) = kafka.read("user_behavior_json")
    row = json.loads(record.value or b"")
    assert row.pop("timestamp").endswith("Z")
    assert row == {"user_id": 543462, "item_id": 1715, "behavior": "pv"}


def test_messages_of_one_field_come_with_what_kafka_knows_of_them(kafka: Kafka, ran: Any) -> None:
    kafka.create("SourceKafkaTopic")
    kafka.send("SourceKafkaTopic", (None, b'{"order_id":"202103251202020001", "pay_amount":"60.00"}'))
    ran(DIALECT)
    (record,) = kafka.read("SinkKafkaTopic")
    row = json.loads(record.value or b"")
    assert json.loads(row["message"])["order_id"] == "202103251202020001"
    assert (row["topic"], row["partition"], row["offset"], row["headers"]) == ("SourceKafkaTopic", 0, 0, {})


def test_upserts_with_keys_in_csv_are_written_and_read(kafka: Kafka, ran: Any, tmp_path: Path) -> None:
    kafka.create("KafkaTopic")
    orders = [("1", "miniAppShop", 60.0), ("2", "appshop", 500.0), ("1", "miniAppShop", 61.0)]
    rows = [dict(zip(("order_id", "order_channel", "pay_amount"), order, strict=True)) for order in orders]
    kafka.send("KafkaTopic", *((None, json.dumps(row).encode()) for row in rows))
    ran(UPSERTS)
    written = kafka.read("UpsertTopic")
    assert sorted(record.key or b"" for record in written) == [b'"1"', b'"1"', b'"2"']
    (place,) = (record.partition for record in written if record.key == b'"2"')
    kafka.send("UpsertTopic", (b'"2"', None), partition=place)
    kept = tmp_path / "upserted"
    lines = [line for line in ran(UPSERTED, "--checkpoint", str(kept)).out.splitlines() if "> " in line]
    # Keys are in several partitions; of one key the order counts
    assert [line for line in lines if "[1," in line] == [
        "UpsertTopic> +I[1, miniAppShop, 60.0]", "UpsertTopic> -U[1, miniAppShop, 60.0]",
        "UpsertTopic> +U[1, miniAppShop, 61.0]",
    ]  # fmt: skip
    assert [line for line in lines if "[2," in line] == [
        "UpsertTopic> +I[2, appshop, 500.0]", "UpsertTopic> -D[2, appshop, 500.0]",
    ]  # fmt: skip


def test_changes_become_rows_in_avro_under_keys_in_csv(kafka: Kafka, ran: Any) -> None:
    kafka.create("dbz_users")
    users = [{"user_id": 100, "user_name": "Bob", "region": "Beijing"}, {"user_id": 103, "user_name": "Richard"}]
    key = [f'{{"user_id":{user["user_id"]}}}'.encode() for user in users]
    kafka.send(
        "dbz_users", (key[0], debezium("c", None, users[0], "users")), (key[1], debezium("c", None, users[1], "users")),
        (key[1], debezium("d", users[1], None, "users")),
    )  # fmt: skip
    ran(AVRO)
    records = [(record.key, record.value) for record in kafka.read("users") if record.key == b"100"]
    assert records == [(b"100", b"\xc8\x01\x02\x06Bob\x02\x0eBeijing")]
    assert [record.value for record in kafka.read("users") if record.key == b"103"][-1] is None


def test_plain_texts_are_keys_and_values(kafka: Kafka, ran: Any) -> None:
    kafka.create("raw-source")
    kafka.send("raw-source", ("gerät 1".encode(), b'a;"b"'), (b"2", None))
    ran(RAW)
    records = {record.key: record.value for record in kafka.read("raw-sink")}
    assert records == {"gerät 1".encode(): '"gerät 1";"a;""b"""'.encode(), b"2": None}


def test_files_with_a_line_of_names_are_read_and_written(tmp_path: Path, ran: Any) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "orders.csv").write_text('id,"the note"\n1,"a, b"\n2,\n')
    text = FILES.replace("path: in", f"path: {tmp_path}/in").replace("path: out", f"path: {tmp_path}/out")
    ran(text)
    (written,) = (tmp_path / "out").iterdir()
    assert written.read_text() == '1\t"a, b"\n2\t\n'

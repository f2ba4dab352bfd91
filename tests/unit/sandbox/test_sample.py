"""The sample of the sandbox: its messages are what their formats say, and the same rows in each topic."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING, Any, cast

import pytest
from commands import called

from ingest.errors import ConfigError
from ingest.formats.appearance import event_field, header_of, looks_like, objects, says_mysql_types
from ingest.sandbox.sample import TOPICS, Shop

if TYPE_CHECKING:
    from pathlib import Path

    from ingest.kafka.handle import Producer


class Kept:
    """A producer that keeps what it is given."""

    def __init__(self) -> None:
        self.sent: dict[str, list[tuple[bytes | None, bytes | None]]] = {}

    def send(self, topic: str, key: bytes | None, value: bytes | None, _headers: Any, _millis: Any) -> bool:
        self.sent.setdefault(topic, []).append((key, value))
        return True

    def poll(self) -> None:
        """Do nothing: all is delivered."""

    def values(self, topic: str) -> list[bytes]:
        return [value for _, value in self.sent[topic] if value is not None]


@pytest.fixture
def kept() -> Kept:
    made = Kept()
    shop = Shop(cast("Producer", made), 1_767_225_600_000)
    shop.fill()
    for _ in range(200):
        shop.now_ms += 1000
        shop.change()
    return made


def test_each_topic_has_messages_of_its_format(kept: Kept) -> None:
    assert kept.sent.keys() == TOPICS.keys()
    of = {"shop.canal": "canal-json", "shop.events": "json", "shop.lines": "csv"}
    for topic in TOPICS:
        assert {looks_like(value) for value in kept.values(topic)} == {of.get(topic, "debezium-json")}, topic
    assert says_mysql_types(kept.values("shop.canal"))
    found = event_field(objects(kept.values("shop.events")))
    assert found is not None
    assert found.name == "event_type"
    first, *others = kept.values("shop.lines")
    assert header_of(first, others, ",") == ("id", "name", "price")


def test_the_rows_change_and_some_go(kept: Kept) -> None:
    operations = [json.loads(value)["op"] for value in kept.values("shop.changes")]
    assert {"r", "c", "u", "d"} == {*operations}
    assert operations.count("d") == sum(value is None for _, value in kept.sent["shop.changes"])
    canal = [json.loads(value) for value in kept.values("shop.canal")]
    assert len(canal) == len(operations)
    assert all(one["old"] for one in canal if one["type"] == "UPDATE")


@pytest.mark.parametrize("topic", ["shop.changes", "shop.canal"])
def test_a_pipeline_takes_each_message(topic: str, kept: Kept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    name = {"shop.changes": "debezium-json", "shop.canal": "canal-json"}[topic]
    (tmp_path / "in.jsonl").write_bytes(b"\n".join(kept.values(topic)) + b"\n")
    (tmp_path / "p.yaml").write_text(
        f"source: {{type: file, path: in.jsonl, value.format: {name}}}\nsink: {{type: print}}\n"
        "transform: [{source-table: '\\.*', projection: '\\*', primary-keys: id}]\n"
    )
    done = called("plan", "p.yaml")
    assert done.code == 0, done.err
    assert all(f"shop.{table} (new)" in done.out for table in ("customers", "products", "orders"))
    assert "rejected:" not in done.out


def test_a_port_that_is_taken_is_said_in_a_line(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = called("sandbox", "up", "--dir", str(tmp_path), "--port", str(port))
    assert done.code == 78
    assert done.err.splitlines()[0] == (
        f"error: port {port} is taken by another program: give another --port, or leave it out to take a free one"
    )
    assert len(done.err.splitlines()) == 2


def test_a_folder_is_meant_from_where_the_command_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Its servers run in that folder, where a path that is relative would mean another place
    places: list[Path] = []

    def up(place: Path, *_: object, **__: object) -> None:
        places.append(place)
        raise ConfigError("enough")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ingest.sandbox.broker.up", up)
    assert called("sandbox", "up", "--dir", "here").code == 78
    assert places == [tmp_path / "here"]

"""A look at records of a pipeline that has run: older ones where none is waiting, and the one that an error names."""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import inmemory
import pytest
import typer
from backfills import BackfillShop
from commands import called

from ingest.cli.tap import message_of, place_of, write_test
from ingest.config.scenario import read
from ingest.driver.context import Settings
from ingest.errors import ConfigError
from ingest.model.record import offset_of
from ingest.testing.capturing import Captured, capturing_sink
from ingest.testing.in_memory import MemoryRecord
from ingest.testing.sample_run import SampleRun
from ingest.testing.sampling import IN_LOG
from ingest.testing.tap import Looked, Tapped, tap_sample

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def shop(tmp_path: Path) -> BackfillShop:
    made = BackfillShop(tmp_path)
    for key in range(4):
        made.add("c", key, key)
    made.go()
    return made


def look(shop: BackfillShop, most: int = 10, at: Any = None) -> tuple[Looked, list[Tapped]]:
    pipeline, found = inmemory.pipeline(), list[Tapped]()
    settings = Settings(str(shop.folder / "c"), shop.folder)
    sink = capturing_sink(pipeline.sink, Captured(), "test", print)
    with ExitStack() as resources:
        probe = SampleRun(pipeline, settings, shop.source(pipeline), sink, resources, print)
        return tap_sample(probe, found.append, most, at=at), found


def test_a_pipeline_that_is_caught_up_shows_older_records(shop: BackfillShop) -> None:
    looked, found = look(shop)
    assert looked == Looked(4, True, None)
    assert [(offset_of(one.record), [json.loads(value or b"")["n"] for _, _, value in one.rows]) for one in found] == [
        (offset, [offset]) for offset in range(4)
    ]
    shop.add("c", 4, 4)
    looked, found = look(shop)
    assert (looked.old, [(offset_of(one.record), len(one.rows)) for one in found]) == (False, [(4, 1)])


def test_one_record_is_shown_wherever_the_pipeline_stands(shop: BackfillShop) -> None:
    shop.add("c", 4, 4)
    ((split, _),) = {(one.split, None) for one in look(shop)[1]}
    for offset in (0, 2, 4):
        looked, found = look(shop, at=(split, offset))
        assert (looked.error, looked.old) == (None, False)
        assert [(one.split, offset_of(one.record), len(one.rows)) for one in found] == [(split, offset, 1)]
    with pytest.raises(ConfigError, match=r"has no record at offset 5: it holds offsets 0 to 4 "):
        look(shop, at=(split, 5))
    with pytest.raises(ConfigError, match=r"does not read nowhere\[0\]") as raised:
        look(shop, at=(("nowhere", 0), 5))
    assert f"{split[0]}[{split[1]}]" in raised.value.hint


@pytest.mark.parametrize(
    "text",
    [
        "shop.orders:3:12",
        "shop.orders[3] at offset 12",
        "shop.orders[3]@12",
        "shop.orders[3]:12",
        "error: shop.orders[3] at offset 12: decode/malformed: no JSON (line 1)",
        "from:      shop.orders[3] at offset 12",
    ],
)
def test_places_as_errors_and_dead_letters_write_them(text: str) -> None:
    assert place_of(text) == (("shop.orders", 3), 12)


@pytest.mark.parametrize(
    "text",
    [
        "mysql-bin.000004:1234",
        "binlog[0] at offset 990 (mysql-bin.000004:1234): decode/type-mismatch: no date (table shop.t)",
        "snapshot[3] at offset 2 (rows as of mysql-bin.000004:1234): decode/type-mismatch: x:1",
    ],
)
def test_places_in_the_log_of_a_database(text: str) -> None:
    assert place_of(text) == (("mysql-bin.000004", IN_LOG), 1234)


@pytest.mark.parametrize("text", ["", "12", "t:12", "t:a:12", "t[0]", "t[0] at offset x", "t:0:-1"])
def test_what_is_no_place(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is neither TOPIC:PARTITION:OFFSET nor FILE:OFFSET"):
        place_of(text)


def test_the_place_that_tap_writes_is_one_that_it_takes(tmp_path: Path) -> None:
    lines, file = tmp_path / "in.jsonl", tmp_path / "p.yaml"
    lines.write_text('{"id":1}\n{"id":2}\n')
    file.write_text(
        f"source: {{type: file, path: '{lines}', value.format: json}}\n"
        "transform: [{source-table: '.*', primary-keys: id}]\nsink: {type: print}\n"
    )
    everything = called("tap", str(file))
    assert everything.code == 0, everything.err
    heads = [line for line in everything.out.splitlines() if " at offset " in line and not line.startswith(" ")]
    one = called("tap", str(file), "--at", heads[1])
    assert one.code == 0, one.err
    assert '{"id":2}' in one.out
    assert '{"id":1}' not in one.out
    wrong = called("tap", str(file), "--at", "nothing")
    assert wrong.code == 2


def test_records_become_a_test_of_the_pipeline(tmp_path: Path) -> None:
    pipeline, test = tmp_path / "pipelines" / "p.yaml", tmp_path / "tests" / "broken.yaml"
    for file in (pipeline, test):
        file.parent.mkdir()
    pipeline.write_text(
        "source: {type: kafka, properties.bootstrap.servers: 'h:1', topic: t, value.format: json, key.format: json,"
        " ingestion.ignore-errors: true}\n"
        "sink: {type: upsert-kafka, properties.bootstrap.servers: '${bootstrap}'}\n"
        "route: [{source-table: t, sink-table: out}]\n"
    )
    records = [
        MemoryRecord(0, "t", b'{"id":1}', '{"id":1,"name":"it\'s \U0001f600"}'.encode(), millis=5),
        MemoryRecord(
            1, "t", b'{"id":2}', b"\xff\x00", sent=[("trace", b"hunter2"), ("none", None)], partition_number=3
        ),
    ]
    messages = [message_of(Tapped((one.topic_name, one.partition_number), one), {"hunter2"}) for one in records]
    write_test(test, pipeline, {"bootstrap": "h:1"}, messages)
    assert called("test", str(test)).out.startswith(f"ok     {test}: What becomes of 2 records\n")
    scenario = read(test)
    assert [(one.key, one.value, one.timestamp, one.partition) for one in scenario.messages] == [
        (one.key(), one.value(), one.millis, one.partition_number) for one in records
    ]
    assert scenario.messages[1].headers == [("trace", b"********"), ("none", None)]
    assert scenario.expected["rejects"] == ["1 decode/malformed"]
    assert scenario.expected["records"] == ['out {"id":1} {"id":1,"name":"it\'s \U0001f600"}']
    there = called("tap", str(pipeline), "--as-test", str(test))
    assert (there.code, f"{test} is there already" in there.err) == (78, True)

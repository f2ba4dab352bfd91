"""Where the Kafka source starts and ends, on a real broker: each test fails when its option is ignored."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from commands import run_here
from confluent_kafka import Consumer, TopicPartition
from harness import Kafka, Pipeline, message

from ingest.errors import ConfigError, DataLoss, TopicMissing
from ingest.sources.kafka.options import KafkaSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ingest.sources.kafka.coordinator import KafkaSourceCoordinator

OLD, NEW = 1_000_000_000_000, 1_700_000_000_000


@pytest.fixture
def topic(kafka: Kafka) -> str:
    """Two partitions; the first holds ten records, five of them old, the second none."""
    name = kafka.create(f"{kafka.name}.a", 2)
    fill(kafka, name)
    return name


def fill(kafka: Kafka, name: str) -> None:
    producer = kafka.producer()
    for i in range(10):
        producer.produce(name, b"{}", partition=0, timestamp=(OLD if i < 5 else NEW) + i)
    assert producer.flush(20) == 0


@pytest.fixture
def coordinator(kafka: Kafka) -> Iterator[Callable[..., KafkaSourceCoordinator]]:
    """A connected source with these options."""
    made = []
    warnings: list[str] = []

    def make(**options: Any) -> KafkaSourceCoordinator:
        properties = {"bootstrap.servers": kafka.bootstrap, **options.pop("properties", {})}
        plain = {key.replace("__", "."): value for key, value in options.items()}
        source = KafkaSource.model_validate({"type": "kafka", "properties.*": properties, **plain})
        made.append(source.coordinator("p", warnings.append))
        made[-1].connect()
        made[-1].warnings = warnings  # type: ignore[attr-defined]
        return made[-1]

    yield make
    for one in made:
        one.close()


def start(coordinator: KafkaSourceCoordinator, **more: Any) -> dict[tuple[str, int], int]:
    return coordinator.start({}, {}, "owner", **more)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"scan.startup.mode": "earliest-offset"}, 0),
        ({"scan.startup.mode": "latest-offset"}, 10),
        ({"scan.startup.mode": "timestamp", "scan.startup.timestamp-millis": NEW}, 5),
        ({"scan.startup.mode": "timestamp", "scan.startup.timestamp-millis": NEW + 8}, 8),
        ({"scan.startup.mode": "timestamp", "scan.startup.timestamp-millis": NEW + 10}, 10),
        ({"scan.startup.mode": "specific-offsets", "scan.startup.specific-offsets": "partition:0,offset:7"}, 7),
        ({"properties": {"auto.offset.reset": "earliest", "group.id": "nobody"}}, 0),
        ({"properties": {"auto.offset.reset": "latest", "group.id": "nobody"}}, 10),
        (
            {
                "scan.startup.mode": "specific-offsets",
                "scan.startup.specific-offsets": "partition:0,offset:70",
                "properties": {"auto.offset.reset": "latest"},
            },
            10,
        ),
    ],
)
def test_start_modes(
    topic: str, coordinator: Callable[..., KafkaSourceCoordinator], options: dict[str, Any], expected: int
) -> None:
    assert start(coordinator(topic=topic, **options)) == {(topic, 0): expected, (topic, 1): 0}


def test_group_offsets_and_the_time_of_the_command_line(
    kafka: Kafka, topic: str, coordinator: Callable[..., KafkaSourceCoordinator]
) -> None:
    group = f"{kafka.name}-g"
    kafka.cluster.commit(group, {(topic, 0): 3, (topic, 1): 0})
    source = coordinator(topic=topic, properties={"group.id": group})
    assert start(source) == {(topic, 0): 3, (topic, 1): 0}
    assert start(source, from_time=NEW)[topic, 0] == 5
    stored = source.start({(topic, 0): 6, (topic, 1): 0}, source.ids, "owner", NEW)
    assert stored[topic, 0] == 6  # the checkpoint wins over everything


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"scan.startup.mode": "specific-offsets", "scan.startup.specific-offsets": "partition:0,offset:70"},
         "names offset 70 in .*, which holds 0 to 10"),
        ({"scan.startup.mode": "specific-offsets", "scan.startup.specific-offsets": "partition:9,offset:0"},
         "partition 9 of topic .* does not exist"),
        ({"properties": {"group.id": "nobody"}}, "group 'nobody' has no offset in"),
        ({"scan.startup.mode": "earliest-offset", "scan.bounded.mode": "group-offsets",
          "properties": {"group.id": "nobody"}}, "no offset in .* to end at"),
        ({"scan.startup.mode": "earliest-offset", "scan.bounded.mode": "specific-offsets",
          "scan.bounded.specific-offsets": "partition:5,offset:1"}, "partition 5 of topic"),
    ],
)  # fmt: skip
def test_starts_that_cannot_be(
    topic: str, coordinator: Callable[..., KafkaSourceCoordinator], options: dict[str, Any], error: str
) -> None:
    with pytest.raises(ConfigError, match=error):
        start(coordinator(topic=topic, **options))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"scan.bounded.mode": "latest-offset"}, {0: 10, 1: 0}),
        ({"scan.bounded.mode": "timestamp", "scan.bounded.timestamp-millis": NEW}, {0: 5, 1: 0}),
        ({"scan.bounded.mode": "specific-offsets", "scan.bounded.specific-offsets": "partition:0,offset:4"},
         {0: 4, 1: 0}),
        ({"scan.bounded.mode": "specific-offsets", "scan.bounded.specific-offsets": "partition:1,offset:4"},
         {0: 0, 1: 0}),  # a partition that is not named is not read
        ({"scan.bounded.mode": "unbounded"}, {0: 12, 1: 3}),
    ],
)  # fmt: skip
def test_bounded_modes(
    kafka: Kafka,
    topic: str,
    coordinator: Callable[..., KafkaSourceCoordinator],
    options: dict[str, Any],
    expected: dict[int, int],
) -> None:
    source = coordinator(topic=topic, **{"scan.startup.mode": "earliest-offset", **options})
    positions = start(source)
    kafka.send(topic, *[(None, b"{}")] * 2)  # what comes after the start is beyond the end
    kafka.send(topic, *[(None, b"{}")] * 3, partition=1)
    if "partition:1" in str(options):
        expected = {0: 0, 1: 3}
    assert source.ends(positions) == {(topic, p): end for p, end in expected.items()}
    bounded = options["scan.bounded.mode"] != "unbounded"
    reached = {(topic, 0): expected[0], (topic, 1): 4 if "partition:1" in str(options) else expected[1]}
    assert source.finished(reached) is bounded
    assert not source.finished({**reached, (topic, 0): expected[0] - 1}) or not bounded


def test_bounded_by_the_group(kafka: Kafka, topic: str, coordinator: Callable[..., KafkaSourceCoordinator]) -> None:
    group = f"{kafka.name}-g"
    kafka.cluster.commit(group, {(topic, 0): 3, (topic, 1): 0})
    options = {"scan.startup.mode": "earliest-offset", "scan.bounded.mode": "group-offsets"}
    source = coordinator(topic=topic, properties={"group.id": group}, **options)
    assert source.ends(start(source)) == {(topic, 0): 3, (topic, 1): 0}


def test_isolation_level(kafka: Kafka, topic: str, coordinator: Callable[..., KafkaSourceCoordinator]) -> None:
    producer = kafka.producer(**{"transactional.id": kafka.name})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(topic, b"{}", partition=0)
    producer.flush(20)
    ends = {}
    for level in ("read_committed", "read_uncommitted"):
        options: dict[str, Any] = {"scan.startup.mode": "earliest-offset", "properties": {"isolation.level": level}}
        source = coordinator(topic=topic, **options)
        ends[level] = source.ends(start(source))[topic, 0]
    producer.abort_transaction(20)
    assert ends == {"read_committed": 10, "read_uncommitted": 11}


def test_a_pattern_matches_whole_names_and_no_internal_topic(
    kafka: Kafka, topic: str, coordinator: Callable[..., KafkaSourceCoordinator]
) -> None:
    other = kafka.create(f"{kafka.name}.b", 1)
    kafka.create(f"{kafka.name}.ab", 1)
    pattern = kafka.name + r"\.."
    source = coordinator(**{"topic-pattern": pattern, "scan.startup.mode": "earliest-offset"})
    assert set(start(source)) == {(topic, 0), (topic, 1), (other, 0)}
    every = coordinator(**{"topic-pattern": ".*", "scan.startup.mode": "earliest-offset"})
    kafka.cluster.commit(f"{kafka.name}-g", {(topic, 0): 1})  # so that there is an internal topic
    assert "__consumer_offsets" in kafka.cluster.names()
    assert not any(name.startswith("__") for name, _ in start(every))


def test_new_partitions_and_topics_are_found_and_read_from_their_beginning(
    kafka: Kafka, topic: str, coordinator: Callable[..., KafkaSourceCoordinator]
) -> None:
    from confluent_kafka.admin import NewPartitions

    options = {"topic-pattern": kafka.name + r"\..", "scan.startup.mode": "latest-offset"}
    source = coordinator(**{**options, "scan.topic-partition-discovery.interval": "1 ms"})
    never = coordinator(**{**options, "scan.topic-partition-discovery.interval": "0 s"})
    slow = coordinator(**options)
    positions = start(source)
    start(never)
    start(slow)
    late = kafka.create(f"{kafka.name}.z", 1)
    kafka.send(late, (None, b"{}"))
    kafka.admin.create_partitions([NewPartitions(topic, 3)])[topic].result(10)
    kafka.cluster.wait_until(lambda: kafka.cluster.topics([topic])[topic].partitions == 3, 10)
    time.sleep(0.01)
    assert source.discover(positions) == {(late, 0): 0, (topic, 2): 0}
    assert never.discover(positions) == slow.discover(positions) == {}
    # The same after a restart: what came meanwhile is read from its beginning, whatever the start mode
    again = coordinator(**options)
    stored = again.start(positions, {topic: kafka.cluster.topics([topic])[topic].id}, "owner")
    assert stored == {**positions, (late, 0): 0, (topic, 2): 0}
    kafka.admin.delete_topics([late])[late].result(10)
    kafka.cluster.wait_until(lambda: late not in kafka.cluster.names(), 10)
    with pytest.raises(DataLoss, match=r"\.z was deleted during the run"):
        source.discover(positions)


def test_missing_topics_are_named(kafka: Kafka, coordinator: Callable[..., KafkaSourceCoordinator]) -> None:
    with pytest.raises(TopicMissing, match="no-such-topic"):
        start(coordinator(**{"topic": f"{kafka.name}-no-such-topic", "scan.startup.mode": "earliest-offset"}))
    source = coordinator(**{"topic-pattern": f"{kafka.name}-never", "scan.startup.mode": "earliest-offset"})
    assert start(source) == {}
    assert any("no topic matches" in text for text in source.warnings)  # type: ignore[attr-defined]


def test_a_duplicated_group_is_refused(
    kafka: Kafka, topic: str, coordinator: Callable[..., KafkaSourceCoordinator]
) -> None:
    group = f"{kafka.name}-g"
    options: dict[str, Any] = {
        "topic": topic, "scan.startup.mode": "earliest-offset", "properties": {"group.id": group},
        "scan.check.duplicated.group.id": True,
    }  # fmt: skip
    reader = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": group, "client.id": "someone"})
    reader.subscribe([topic])
    deadline = time.monotonic() + 30
    while not kafka.cluster.members(group):
        reader.poll(0.2)
        assert time.monotonic() < deadline
    with pytest.raises(ConfigError, match=r"in use by 1 reader.*someone"):
        start(coordinator(**options))
    start(coordinator(**{**options, "scan.check.duplicated.group.id": False}))
    reader.close()
    first = coordinator(**options)
    positions = first.start({}, {}, "one")
    first.commit(positions)
    with pytest.raises(ConfigError, match=r"another pipeline .checkpoint one."):
        coordinator(**options).start({}, {}, "two")
    coordinator(**options).start({}, {}, "one")  # its own checkpoint: it was restarted
    first.close()
    coordinator(**options).start({}, {}, "two")  # the first one has gone


def test_positions_are_visible_to_the_usual_tools(
    kafka: Kafka, topic: str, coordinator: Callable[..., KafkaSourceCoordinator]
) -> None:
    group = f"{kafka.name}-g"
    source = coordinator(topic=topic, properties={"group.id": group}, **{"scan.startup.mode": "earliest-offset"})
    start(source)
    source.commit({(topic, 0): 4, (topic, 1): 0})
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": group})
    deadline = time.monotonic() + 20  # a batch does not wait for it
    while [found.offset for found in consumer.committed([TopicPartition(topic, 0)], timeout=10)] != [4]:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    consumer.close()


# -- whole runs ----------------------------------------------------------------------------------------------------


def rows(kafka: Kafka, pipeline: Pipeline) -> set[int]:
    out = pipeline.out("orders")
    return {row["id"] for row in kafka.table(out).values()} if out in kafka.cluster.names() else set()


def test_a_header_filter_leaves_records_out_and_counts_them(kafka: Kafka, pipeline: Pipeline) -> None:
    producer = kafka.producer()
    for i in range(30):
        key, value = message("c", None, {"id": i, "v": i})
        wanted: list[tuple[str, str | bytes]] = [
            ("depart", b"toy" if i % 3 else b"book"),
            *([("env", b"test")] if i % 5 == 0 else []),
        ]
        producer.produce(pipeline.topic, value, key, partition=0, headers=wanted if i else None)
    assert producer.flush(20) == 0
    pipeline.write(source="  scan.header-filter: 'depart:toy&!env:test'\n")
    done = run_here(pipeline)
    assert done.code == 0, done.err
    expected = {i for i in range(30) if i % 3 and i % 5}
    assert rows(kafka, pipeline) == expected
    assert f"{30 - len(expected)} header-filter" in done.out
    assert done.events[-1]["records"] == 30


def test_a_bounded_run_ends_by_itself_at_a_rate(kafka: Kafka, pipeline: Pipeline) -> None:
    kafka.send(pipeline.topic, *[message("c", None, {"id": i, "v": i}) for i in range(60)])
    pipeline.write(
        source="  scan.bounded.mode: specific-offsets\n  scan.bounded.specific-offsets: partition:0,offset:40\n"
        "  scan.rate-limit.records-per-second: 10\n"
    )
    done = pipeline.start("--from-timestamp", "2001-01-01")  # all are younger
    _, err = done.communicate(timeout=90)
    assert done.returncode == 0, err
    assert rows(kafka, pipeline) == set(range(40))
    batches = [line for line in err.splitlines() if '"batch done"' in line and '"records": 0' not in line]
    assert len(batches) >= 4  # at most a second's worth at a time
    assert "drained" in err


def test_a_pipeline_never_reads_what_it_writes(kafka: Kafka, pipeline: Pipeline) -> None:
    kafka.send(pipeline.topic, message("c", None, {"id": 1, "v": 1}))
    text = pipeline.file.read_text().replace(f"topic: {pipeline.topic}", f"topic-pattern: '{kafka.name}.*'")
    pipeline.file.write_text(text)
    done = run_here(pipeline)
    assert done.code == 78
    assert "reads what it writes" in done.err
    assert pipeline.out("orders") in done.err


def test_a_first_look_at_the_newest_records_of_each_partition(kafka: Kafka, pipeline: Pipeline) -> None:
    old = [message("c", None, {"id": i, "v": i}) for i in range(30)]
    new = [message("c", None, {"id": i, "v": f"text {i}", "late": i}) for i in range(30, 40)]
    nobody = (None, message("c", None, {"id": 1}, "keyless")[1])  # a table without a key that is never read
    kafka.send(pipeline.topic, nobody, *old, *new)
    kafka.send(pipeline.topic, message("r", None, {"id": 1, "name": "Ada"}, "customers"), partition=1)
    start = "  scan.startup.mode: specific-offsets\n  scan.startup.specific-offsets: partition:0,offset:1\n"
    for count in (10, 0):
        pipeline.checkpoint = pipeline.checkpoint.with_name(f"checkpoint{count}")
        pipeline.prefix = f"{kafka.name}.out{count}"
        pipeline.write(source=f"{start}  scan.max.pre.fetch.records: {count}\n", mode="")
        done = run_here(pipeline)
        assert done.code == 0, done.err
        changes = [event["change"] for event in done.events if event["event"] == "schema changed"]
        assert len(changes) == 2, changes
        events = [event["event"] for event in done.events]
        batches = [event["records"] for event in done.events if event["event"] == "batch done"]
        # With a first look the tables are known before the first batch; otherwise that batch only finds them
        assert (events.index("schema changed") < events.index("run started"), batches[0] > 0) == (count > 0, count > 0)
        rows = kafka.table(pipeline.out("orders"))
        assert rows['{"id":3}'] == {"id": 3, "v": "3", "late": None}
        assert rows['{"id":33}'] == {"id": 33, "v": "text 33", "late": 33}

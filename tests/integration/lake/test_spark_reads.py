"""Tables of both lakes as Spark SQL reads them, with the runtimes of Iceberg and Delta that its users have."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from any_lake import KINDS, AnyLakeSink, lake_of
from lake_sink import LakeSink, lake_schema
from spark_queries import SparkQueries, running

from ingest.model.table import TableLayout, partition_keys

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def spark(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkQueries]:
    yield from running(tmp_path_factory.mktemp("spark"))


@pytest.fixture(params=list(KINDS))
def sink(request: pytest.FixtureRequest, spark: SparkQueries) -> Iterator[AnyLakeSink]:
    """The sink; upkeep follows every fourth batch of a table."""
    found = lake_of(request.param, spark.lakes[request.param], **{"sink.compaction.commit.interval": 4})
    yield found
    found.side.close()


def test_upserts_deletes_and_tables_that_grow(spark: SparkQueries, sink: AnyLakeSink) -> None:
    table_id = ("shop", "orders")
    first = lake_schema("id INT", "n INT", "name STRING")
    sink.side.declare({table_id: first})
    sink.write(table_id, first, *((f'{{"id":{n}}}', f'{{"id":{n},"n":{n},"name":"a"}}') for n in range(100)))
    sink.write(table_id, first, ('{"id":1}', '{"id":1,"n":-1,"name":"\\u00e9\\n"}'), ('{"id":2}', None))
    table = spark.table(sink, *table_id)
    assert spark.ask(f"SELECT count(*) AS c, sum(n) AS s FROM {table}") == [{"c": 99, "s": 4946}]
    second = lake_schema("id BIGINT", "n STRING", "name STRING", "price DECIMAL(9,2)", "at TIMESTAMP_LTZ", "raw BYTES")
    sink.side.declare({table_id: second})
    assert spark.ask(f"SELECT typeof(n) AS n, typeof(id) AS id FROM {table} LIMIT 1") == [
        {"n": "string", "id": "bigint"}
    ]
    sink.write(
        table_id, second,
        ('{"id":3}', '{"id":3,"n":"text","name":null,"price":1.50,"at":"2026-01-31 12:00:00.5Z","raw":"AP8="}'),
        ('{"id":30000000000}', '{"id":30000000000,"n":null,"name":"b","price":-0.01,"at":null,"raw":null}'),
        ('{"id":4}', None),
    )  # fmt: skip
    found = spark.ask(f"SELECT * FROM {table} WHERE id IN (0, 1, 2, 3, 4, 30000000000) ORDER BY id")
    empty = {"price": None, "at": None, "raw": None}
    assert found == [
        {"id": 0, "n": "0", "name": "a", **empty},
        {"id": 1, "n": "-1", "name": "\u00e9\n", **empty},
        {"id": 3, "n": "text", "name": None, "price": 1.5, "at": "2026-01-31T12:00:00.500Z", "raw": "AP8="},
        {"id": 30000000000, "n": None, "name": "b", **empty, "price": -0.01},
    ]
    assert spark.ask(f"SELECT count(*) AS c FROM {table}") == [{"c": 99}]


def test_many_batches_with_upkeep(spark: SparkQueries, sink: AnyLakeSink) -> None:
    """Deletes that lie in many files, and files that were rewritten."""
    table_id = ("shop", "upkeep")
    schema = lake_schema("id BIGINT", "n INT")
    sink.side.declare({table_id: schema})
    pick, rows = random.Random(5), dict[int, int]()
    for batch in range(10):
        texts: list[tuple[str, str | None]] = []
        for key in pick.sample(range(200), 60):
            gone = pick.random() < 0.3
            texts.append((f'{{"id":{key}}}', None if gone else f'{{"id":{key},"n":{batch}}}'))
            rows.pop(key, None)
            if not gone:
                rows[key] = batch
        sink.write(table_id, schema, *texts)
    expected = [{"id": key, "n": rows[key]} for key in sorted(rows)]
    assert spark.ask(f"SELECT id, n FROM {spark.table(sink, *table_id)} ORDER BY id") == expected


@pytest.mark.parametrize("keys", ["region, day(at)", "bucket(4, id)", "truncate(2, region), month(at)"])
def test_partitions(spark: SparkQueries, keys: str) -> None:
    """Rows that move between partitions, and a filter by which Spark leaves partitions out."""
    sink, table_id = LakeSink(spark.lakes["iceberg"]), ("parts", keys)
    schema = lake_schema("id BIGINT", "region STRING", "at TIMESTAMP")
    sink.side.arrange({table_id: TableLayout(partition_keys(keys))})
    sink.side.declare({table_id: schema})

    def row(key: int, region: str, day: int) -> tuple[str, str]:
        return f'{{"id":{key}}}', f'{{"id":{key},"region":"{region}","at":"2026-01-{day:02d} 10:00:00"}}'

    sink.write(table_id, schema, *(row(n, "north" if n % 2 else "south", 1 + n % 3) for n in range(60)))
    sink.write(table_id, schema, *(row(n, "west", 5) for n in range(0, 60, 10)), ('{"id":1}', None))
    table = spark.table(sink, *table_id)
    query = f"SELECT region, count(*) AS c, sum(id) AS s FROM {table} GROUP BY region ORDER BY region"
    assert spark.ask(query) == [
        {"region": "north", "c": 29, "s": 899}, {"region": "south", "c": 24, "s": 720},
        {"region": "west", "c": 6, "s": 150},
    ]  # fmt: skip
    moved = f"SELECT id FROM {table} WHERE region = 'west' AND at >= TIMESTAMP '2026-01-05' ORDER BY id"
    assert [one["id"] for one in spark.ask(moved)] == list(range(0, 60, 10))
    parts: list[dict[str, Any]] = spark.ask(f"SELECT count(*) AS c FROM {table}.partitions")
    assert parts[0]["c"] >= 3
    sink.side.close()

"""A REST catalog of Iceberg, a real one, with tables in an object store: runs that die, tables that grow, refusals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from harness import finish, until
from lake_runs import LakePipeline
from lake_sink import LakeSink, lake_schema
from object_store import SECRET, ObjectStore, StoredLake, running

from ingest.errors import AccessError, ConfigError, IngestError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from shared_java import SharedJava

TABLE = ("shop", "t")
SCHEMA = lake_schema("id BIGINT", "n INT")
WRONG = "wrong-secret"


@pytest.fixture
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    yield from running(tmp_path_factory.mktemp("store"))


@pytest.fixture
def sink(tmp_path: Path, store: ObjectStore) -> Iterator[LakeSink]:
    found = LakeSink(tmp_path, **store.rest())
    found.side.declare({TABLE: SCHEMA})
    yield found
    found.side.close()


def rows(store: ObjectStore) -> list[tuple[Any, ...]]:
    return StoredLake(store, store.rest()).rows(*TABLE)


@pytest.fixture
def shop(tmp_path: Path, shared_java: SharedJava, store: ObjectStore) -> LakePipeline:
    return LakePipeline(tmp_path, shared_java, StoredLake(store, store.rest()), store.rest())


def test_tables_are_made_and_grow_while_rows_come(shop: LakePipeline) -> None:
    shop.grow()


@pytest.mark.parametrize("fault", ["after-add:1"])
def test_a_driver_that_dies_loses_and_doubles_nothing(shop: LakePipeline, fault: str) -> None:
    shop.die_and_go_on(fault)


def test_a_catalog_that_goes_away_during_a_run_of_batches(store: ObjectStore, sink: LakeSink) -> None:
    """The batch that could not be committed is committed once, when the catalog is back."""
    sink.write(TABLE, SCHEMA, ('{"id":1}', '{"id":1,"n":1}'), ('{"id":2}', '{"id":2,"n":1}'))
    files = sink.files(TABLE, SCHEMA, (('{"id":1}', None), ('{"id":2}', '{"id":2,"n":2}')))
    store.stop()
    with pytest.raises(Unavailable) as away:
        sink.side.add("checkpoint", 2, files)
    assert "catalog tables" in away.value.message
    assert SECRET not in str(away.value)
    store.start()
    for _ in range(2):
        sink.side.add("checkpoint", 2, files)
    assert rows(store) == [(2, 2)]


def test_another_writer_that_is_faster(store: ObjectStore, sink: LakeSink) -> None:
    sink.write(TABLE, SCHEMA, *((f'{{"id":{n}}}', f'{{"id":{n},"n":0}}') for n in range(10)))
    files = sink.files(TABLE, SCHEMA, (('{"id":1}', '{"id":1,"n":1}'),))
    table = sink.side._warehouse.load(TABLE)
    with table.transaction() as transaction:
        transaction.set_properties(seen="before")
    other = LakeSink(sink.lake.folder, **store.rest())
    other.side.add("another checkpoint", 1, other.files(TABLE, SCHEMA, (('{"id":2}', '{"id":2,"n":2}'),)))
    sink.side.add("checkpoint", 2, files)
    other.side.close()
    assert rows(store) == [(0, 0), (1, 1), (2, 2), *((n, 0) for n in range(3, 10))]


def refused(folder: Path, options: dict[str, str]) -> IngestError:
    with pytest.raises(IngestError) as found:
        LakeSink(folder, **options)
    return found.value


def test_a_catalog_that_refuses_the_user(store: ObjectStore, tmp_path: Path) -> None:
    found = refused(tmp_path, store.rest(WRONG))
    assert isinstance(found, AccessError), found
    assert WRONG not in str(found)
    assert "catalog.properties.credential" in found.hint


def test_a_catalog_that_is_not_there(store: ObjectStore, tmp_path: Path) -> None:
    store.stop()
    found = refused(tmp_path, store.rest())
    assert isinstance(found, Unavailable), found
    assert found.message.startswith("cannot list namespaces in the catalog tables")
    assert SECRET not in str(found)


def test_a_warehouse_that_the_catalog_does_not_have(store: ObjectStore, tmp_path: Path) -> None:
    found = refused(tmp_path, store.rest(warehouse="nowhere"))
    assert isinstance(found, ConfigError), found
    assert found.message.startswith("the catalog has no warehouse nowhere")


def test_what_a_run_says_of_a_catalog_that_is_not_there(shop: LakePipeline, store: ObjectStore) -> None:
    shop.add("c", None, {"id": 1})
    store.stop()
    ran = shop.run()
    assert ran.code == 75
    assert "cannot list namespaces in the catalog tables" in ran.err
    assert SECRET not in ran.err + ran.out

    shop.file.write_text(f"{shop.file.read_text()}  sink.commit-interval: 0 s\n")
    run = shop.begin()
    until(lambda: "cannot list namespaces in the catalog tables" in run.said(), 60, run)
    store.start()  # a run without --once has waited for it
    until(lambda: '"event": "batch done"' in run.said(), 90, run)
    until(lambda: shop.rows() == [(1,)], 90, run)
    store.stop()
    shop.add("c", None, {"id": 2})
    until(lambda: run.said().count("; waiting") == 2, 60, run)  # in the middle of a batch
    store.start()
    until(lambda: shop.rows() == [(1,), (2,)], 90, run)
    run.terminate()
    assert finish(run).code == 0

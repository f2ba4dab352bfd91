"""Tables of both lakes in a real object store with S3's interface: runs that die, and what errors say."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, TypeAlias

import pytest
from lake_runs import LakePipeline
from lake_sink import SPLIT, lake_schema
from object_store import BUCKET, SECRET, ObjectStore, StoredLake, running

from ingest.encode.upsert_encoder import Record
from ingest.errors import AccessError, ConfigError, IngestError, Unavailable
from ingest.model.commit import CommitScope
from ingest.sinks import SINKS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import Any

    from shared_java import SharedJava

TABLE = ("shop", "t")
SCHEMA = lake_schema("id BIGINT", "n INT")
WRONG = "wrong-secret"
Options: TypeAlias = "Callable[..., dict[str, str]]"
"""Options of a sink, by the bucket and the secret."""


@pytest.fixture
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    yield from running(tmp_path_factory.mktemp("store"))


@pytest.fixture(params=["iceberg", "delta"])
def options(request: pytest.FixtureRequest, store: ObjectStore, tmp_path: Path) -> Options:
    def of(bucket: str = BUCKET, secret: str = SECRET) -> dict[str, str]:
        if request.param == "delta":
            return store.delta(bucket, secret)
        place = {"uri": f"sqlite:///{tmp_path / 'catalog.db'}", "warehouse": f"s3://{bucket}/iceberg"}
        return store.iceberg(secret, type="sql", **place)

    return of


@pytest.fixture
def shop(tmp_path: Path, shared_java: SharedJava, store: ObjectStore, options: Options) -> LakePipeline:
    return LakePipeline(tmp_path, shared_java, StoredLake(store, options()), options())


def test_tables_are_made_and_grow_while_rows_come(shop: LakePipeline) -> None:
    shop.grow()


def test_a_driver_that_dies_loses_and_doubles_nothing(shop: LakePipeline) -> None:
    shop.die_and_go_on("after-add:1")


class Writing:
    """A table in the store, and a batch for it."""

    def __init__(self, given: dict[str, str]) -> None:
        self._sink: Any = SINKS[given["type"]].model_validate(given)

    def write(self, number: int, *, when_files_are_there: Callable[[], None] = lambda: None) -> None:
        with closing(self._sink.coordinator("p", print)) as side, closing(self._sink.writer("p", 1)) as writer:
            side.connect()
            side.declare({TABLE: SCHEMA})
            writer.begin(CommitScope("checkpoint", 1, number, 1, 0, {SPLIT: 0}, kept=False))
            writer.write([Record(self._sink.table_for(TABLE, SCHEMA), b'{"id":1}', b'{"id":1,"n":%d}' % number)])
            writer.commit({SPLIT: 1}, b"", final=True)
            additions = side.additions(writer.delivered())
            when_files_are_there()
            side.add("checkpoint", number, additions)


def failed(writing: Writing, **more: Any) -> IngestError:
    with pytest.raises(IngestError) as found:
        writing.write(1, **more)
    text = str(found.value)
    assert SECRET not in text
    assert WRONG not in text
    return found.value


def test_rows_are_read_back(store: ObjectStore, options: Options) -> None:
    for number in (1, 2):
        Writing(options()).write(number)
    assert StoredLake(store, options()).rows(*TABLE) == [(1, 2)]


def test_a_wrong_key_is_said_to_be_one(options: Options) -> None:
    found = failed(Writing(options(secret=WRONG)))
    assert isinstance(found, AccessError), found
    assert "properties" in found.hint


def test_a_bucket_that_was_never_there(options: Options) -> None:
    found = failed(Writing(options(bucket="nowhere")))
    assert isinstance(found, ConfigError), found
    assert "nowhere" in found.message
    assert "warehouse" in found.hint


def test_a_bucket_that_goes(store: ObjectStore, options: Options) -> None:
    files = store.files()
    files.create_dir("short")
    found = failed(Writing(options(bucket="short")), when_files_are_there=lambda: files.delete_dir("short"))
    assert isinstance(found, ConfigError), found
    assert "short" in found.message


def test_a_store_that_goes_and_comes_back(store: ObjectStore, options: Options) -> None:
    writing = Writing(options())
    found = failed(writing, when_files_are_there=store.stop)
    assert isinstance(found, Unavailable), found
    store.start()
    Writing(options()).write(1)
    assert StoredLake(store, options()).rows(*TABLE) == [(1, 1)]


def test_what_a_run_says_of_a_wrong_key(shop: LakePipeline) -> None:
    text = shop.file.read_text()
    assert text.count(SECRET) == 1
    shop.file.write_text(text.replace(SECRET, WRONG))
    shop.add("c", None, {"id": 1})
    ran = shop.run()
    assert ran.code == 78
    assert "the rights" in ran.err or "rights there" in ran.err
    assert WRONG not in ran.err + ran.out

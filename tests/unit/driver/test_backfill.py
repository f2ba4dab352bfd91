"""Tables that are read once more, in this process: what is written, what is left alone, and where it goes on."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import inmemory
import pytest
from harness import debezium

from ingest.checkpoint.checkpoint import Checkpoint
from ingest.checkpoint.place import CheckpointAccess, StoredPlace
from ingest.driver import ranges
from ingest.driver.backfill import BackfillStartup
from ingest.driver.context import RunContext, Settings
from ingest.driver.counters import Counters
from ingest.driver.pacing import Pacing
from ingest.driver.parts import Listeners, Sides, make_parts
from ingest.driver.run import started
from ingest.driver.startup import PipelineStartup
from ingest.errors import ConfigError, IngestError
from ingest.native import native
from ingest.observe.events import OptionChanged, RunEnded, Warned
from ingest.sources.backfill import BackfillSource
from ingest.task import worker
from ingest.testing.capturing import Captured, capturing_sink
from ingest.testing.dry_run import dry_run
from ingest.testing.in_memory_run import by_split, shared_spark
from ingest.testing.in_memory_source import InMemoryCoordinator, in_memory
from ingest.testing.in_process import InProcessEngine, InProcessRunner, NoStop
from ingest.testing.records import MemoryRecord

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from ingest.config.pipeline import Pipeline
    from ingest.model.reject import RejectedRecord
    from ingest.testing.in_memory_source import InMemorySource

NEW = [{"source-table": "shop.orders", "sink-table": "ods.orders2"}]
BOTH = [*NEW, {"source-table": "shop.users", "sink-table": "ods.users2"}]


class Killed(BaseException):
    """The death of a process."""


class Dying:
    """A run that is killed when it is asked for the so-many-th time whether it is to stop."""

    def __init__(self, left: int) -> None:
        self._left = left
        self._none = NoStop()
        self.installed, self.listen = self._none.installed, self._none.listen

    @property
    def asked(self) -> bool:
        self._left -= 1
        if not self._left:
            raise Killed
        return False


class Slow(Pacing):
    """Batches of so many records."""

    def __init__(self, at_once: int) -> None:
        super().__init__(0.0, None, None)
        self._at_once = at_once

    def ranges(self, positions: Any, ends: Any, shards: Any) -> dict[tuple[str, int], tuple[int, int]]:
        return ranges.ranges(positions, ends, shards, self._at_once)


@dataclass
class Shop:
    """Records, and pipelines over them with one checkpoint."""

    folder: Path
    messages: list[tuple[int, bytes | None, bytes | None]] = field(default_factory=list)
    first: int = 0
    """The first position that the topic still has."""
    warnings: list[str] = field(default_factory=list)
    rejects: list[RejectedRecord] = field(default_factory=list)
    own_sink: bool = False
    """True if rows go to the pipeline's own sink."""

    def add(self, op: str, key: int, n: Any = None, table: str = "orders", split: int = 0, **more: Any) -> None:
        row = {"id": key, "n": n, **more}
        value = debezium(op, row if op == "d" else None, None if op == "d" else row, table=table)
        self.messages.append((split, json.dumps({"id": key}).encode(), value))

    def source(self, pipeline: Pipeline) -> InMemorySource:
        records = by_split(
            [MemoryRecord(i, "topic", k, v, partition_number=p) for i, (p, k, v) in enumerate(self.messages)]
        )
        made = in_memory(pipeline.source, records or {("topic", 0): []})
        return replace(made, side=Expiring(records, self.first))

    def go(self, tables: Iterable[str] = (), dies: int = 0, at_once: int = 1000, **sections: Any) -> Any:
        """Run the pipeline, or read tables once more; returns the records that were written, and the summary."""
        pipeline = inmemory.pipeline(**sections)
        self.warnings, self.rejects = [], []
        seen: list[Any] = []
        context = RunContext(pipeline, Settings(str(self.folder / "c"), self.folder, once=True), seen.append)
        captured, source = Captured(), self.source(pipeline)
        sink = pipeline.sink if self.own_sink else capturing_sink(pipeline.sink, captured, "test", context.warn)
        sides = Sides(BackfillSource(source) if tables else source, sink, None)
        engine = InProcessEngine(InProcessRunner(_no_java), shared_spark)
        listeners = Listeners(self.rejects.append, lambda *_: None)
        parts = make_parts(context, pipeline.rules, sides, engine, Dying(dies) if dies else NoStop(), listeners)
        parts = replace(parts, pacing=Slow(at_once))
        summary = RunEnded("test")
        counters = Counters(summary, 100)
        startup: Any = PipelineStartup(context, parts, counters)
        if tables:
            startup = BackfillStartup(context, parts, counters, [*tables])
        try:
            with (
                CheckpointAccess(StoredPlace(str(self.folder / "c"))) as access,
                started(context, parts, startup, access, counters) as (_, driver),
            ):
                startup.carry_out(driver, summary) if tables else driver.run()
        except Killed:
            pass
        finally:
            worker.discard()
            self.warnings = [event.text for event in seen if isinstance(event, Warned)]
        assert all(isinstance(event, OptionChanged) or event for event in seen)
        return captured.records, summary


class Expiring(InMemoryCoordinator):
    """The driver's side of records of which the first are gone."""

    def __init__(self, records: Any, first: int) -> None:
        super().__init__(records or {("topic", 0): []})
        self._first = first

    def resolve(self, splits: Iterable[tuple[str, int]], to: object) -> dict[tuple[str, int], int]:
        found = super().resolve(splits, to)
        return {split: max(at, self._first) for split, at in found.items()}


def _no_java() -> tuple[Any, Any]:
    raise AssertionError


def table(records: Iterable[tuple[str, bytes | None, bytes | None]], topic: str) -> dict[int, Any]:
    """The rows of a topic after these records: `n` by key."""
    rows: dict[int, Any] = {}
    for to, key, value in records:
        if to == topic:
            at = json.loads(key or b"")["id"]
            rows.pop(at, None)
            if value is not None:
                rows[at] = json.loads(value)["n"]
    return rows


@pytest.fixture(params=["native", "reference"])
def shop(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    if request.param == "reference":
        monkeypatch.setattr(native, "BUILT", False)
    made = Shop(tmp_path)
    for key in range(10):
        made.add("c", key, key)
        made.add("c", key, key, table="users")
    made.add("u", 1, 100)
    made.add("d", 2)
    written, _ = made.go()
    assert table(written, "shop.orders") == {key: 100 if key == 1 else key for key in range(10) if key != 2}
    assert made.warnings == []
    return made


def test_a_new_route_says_which_table_lacks_rows_and_a_backfill_brings_them(shop: Shop) -> None:
    planned, _ = dry_run(
        inmemory.pipeline(route=NEW), Settings(str(shop.folder / "c"), shop.folder),
        shop.source(inmemory.pipeline(route=NEW)), capturing_sink(inmemory.pipeline().sink, Captured(), "test", print),
    )  # fmt: skip
    shop.add("u", 3, 300)
    shop.add("d", 4)
    shop.add("c", 2, 200)
    written, _ = shop.go(route=NEW)
    assert table(written, "ods.orders2") == {3: 300, 2: 200}
    said = (
        "table ods.orders2 lacks the rows of shop.orders that were read before: it is new to them, and this pipeline "
        "goes on where it was. What brings them: ingest backfill pipeline.yaml --table shop.orders"
    )
    assert shop.warnings == planned.warnings == [said]
    more, summary = shop.go(["shop.orders"], route=NEW)
    assert {topic for topic, _, _ in more} == {"ods.orders2"}
    assert table([*written, *more], "ods.orders2") == {
        0: 0,
        1: 100,
        2: 200,
        3: 300,
        **{key: key for key in range(5, 10)},
    }
    assert summary.skipped == {"not-selected": 10}
    assert [*summary.tables] == ["shop.orders"]
    assert shop.warnings == []
    nothing, _ = shop.go(route=NEW)
    assert (nothing, shop.warnings) == ([], [])


def test_a_backfill_before_the_first_run_with_the_route_leaves_nothing_to_say_of_its_table(shop: Shop) -> None:
    more, _ = shop.go(["shop.orders"], route=BOTH)
    assert table(more, "ods.orders2") == {key: 100 if key == 1 else key for key in range(10) if key != 2}
    shop.go(route=BOTH)
    assert ["ods.users2" in text for text in shop.warnings] == [True]


def test_a_table_that_goes_where_another_one_was_lacks_rows_there(shop: Shop) -> None:
    shop.go(route=[{"source-table": r"shop.\.*", "sink-table": "shop.users"}])
    (said,) = shop.warnings
    assert said.startswith("table shop.users lacks the rows of shop.orders that were read before")
    shop.go()
    (said,) = shop.warnings
    assert said.startswith("table shop.orders lacks the rows of shop.orders that were read before")


def test_a_checkpoint_of_an_earlier_version_knows_no_places(shop: Shop) -> None:
    (shop.folder / "c" / "places.json").unlink()
    shop.go()
    assert shop.warnings == []
    (shop.folder / "c" / "places.json").unlink()
    shop.go(route=NEW)
    assert len(shop.warnings) == 1


@pytest.mark.parametrize("dies", [1, 6])
@pytest.mark.parametrize("where", ["between batches", "before a batch is stored"])
def test_a_backfill_that_is_killed_goes_on_where_it_was(
    shop: Shop, dies: int, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, _ = shop.go(route=NEW)
    if where == "between batches":
        first, _ = shop.go(["shop.orders"], dies=dies, at_once=3, route=NEW)
    else:
        left, done = iter(range(dies + 1)), Checkpoint.done

        def die(*of: Any) -> None:
            if next(left, None) is None:
                raise Killed
            done(*of)

        with monkeypatch.context() as patched:
            patched.setattr(Checkpoint, "done", die)
            first, _ = shop.go(["shop.orders"], at_once=3, route=NEW)
    shop.add("u", 5, 500)
    between, _ = shop.go(route=NEW)
    (said,) = shop.warnings
    assert said.startswith("a backfill of shop.orders has not come to its end")
    assert said.endswith("go on with ingest backfill pipeline.yaml --table shop.orders")
    last, _ = shop.go(["shop.orders"], route=NEW)
    assert len(first) + len(last) <= 13 + 3, "it begins where it was"
    rows = {key: 100 if key == 1 else 500 if key == 5 else key for key in range(10) if key != 2}
    assert table([*written, *first, *between, *last], "ods.orders2") == rows
    shop.go(route=NEW)
    assert shop.warnings == []
    again, _ = shop.go(["shop.orders"], route=NEW)
    assert len(again) == 13, "one that is over begins at the beginning"


def test_another_place_makes_another_backfill(shop: Shop) -> None:
    shop.go(["shop.orders"], dies=4, at_once=3, route=NEW)
    other = [{"source-table": "shop.orders", "sink-table": "ods.orders3"}]
    more, _ = shop.go(["shop.orders"], route=other)
    assert table(more, "ods.orders3") == {key: 100 if key == 1 else key for key in range(10) if key != 2}


def test_schemas_and_rejects_of_other_tables_are_left_alone(shop: Shop) -> None:
    shop.add("c", 20, 20, table="users", late="x")
    shop.messages.append((0, b'{"id":21}', debezium("c", None, {"n": 1}, table="users")))
    shop.messages.append((0, b'{"id":22}', b"{"))
    shop.go()
    versions = sorted(path.name for path in (shop.folder / "c" / "schemas").iterdir())
    assert [one.code for one in shop.rejects] == ["null-key", "malformed"]
    _, summary = shop.go(["shop.orders"])
    assert [one.code for one in shop.rejects] == ["malformed"], "one that names no table may be of any"
    assert summary.skipped == {"not-selected": 12}
    assert sorted(path.name for path in (shop.folder / "c" / "schemas").iterdir()) == versions


def test_a_transform_makes_its_rows_of_what_is_read_again(java: None, shop: Shop) -> None:
    rule = [{"source-table": "shop.orders", "primary-keys": "id", "filter": "n > 6", "projection": r"\*"}]
    more, _ = shop.go(["shop.orders"], route=NEW, transform=rule)
    assert table(more, "ods.orders2") == {1: 100, 7: 7, 8: 8, 9: 9}


def test_a_beginning_that_is_gone_is_said(shop: Shop) -> None:
    shop.first = 8
    more, _ = shop.go(["shop.orders"], route=NEW)
    assert table(more, "ods.orders2") == {key: 100 if key == 1 else key for key in (1, *range(4, 10))}
    (said,) = shop.warnings
    assert said.startswith(
        "topics no longer have their beginning: topic[0] begins at offset 8: rows whose changes were"
    )


def test_a_table_that_is_not_there_is_an_error_that_says_which_ones_are(shop: Shop) -> None:
    with pytest.raises(ConfigError) as refused:
        shop.go(["shop.order"])
    assert "knows no source table 'shop.order'; it knows shop.orders, shop.users" in refused.value.message
    assert refused.value.hint == "did you mean shop.orders?"


def test_a_pipeline_that_never_ran_has_nothing_to_read_again(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="this pipeline never ran"):
        Shop(tmp_path).go(["shop.orders"])


# -- tables of a lake --------------------------------------------------------------------------------------------------


def lake(folder: Path, kind: str, **more: str) -> dict[str, Any]:
    place = "catalog.properties.warehouse" if kind == "iceberg" else "warehouse"
    return {"type": kind, place: str(folder / "lake"), **more}


def lake_rows(folder: Path, kind: str, *name: str) -> list[tuple[int, Any]]:
    if kind == "iceberg":
        from pyiceberg.catalog import load_catalog

        from ingest.iceberg.catalog import with_defaults

        found = load_catalog("default", **with_defaults({"warehouse": str(folder / "lake")})).load_table(name)
        rows = found.scan().to_arrow().to_pylist()
    else:
        from deltalake import DeltaTable

        rows = DeltaTable(str(folder / "lake" / "/".join(name))).to_pyarrow_table().to_pylist()
    return sorted((row["id"], row["n"]) for row in rows)


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_a_backfill_into_a_lake_is_there_once_and_goes_on_after_a_death(kind: str, tmp_path: Path) -> None:
    shop, sink = Shop(tmp_path, own_sink=True), lake(tmp_path, kind)
    for key in range(10):
        shop.add("c", key, key)
    shop.add("d", 2)
    shop.go(sink=sink)
    shop.add("u", 3, 300)
    shop.go(sink={**sink, "sink.default-namespace": "unused"}, route=NEW)
    assert lake_rows(tmp_path, kind, "ods", "orders2") == [(3, 300)]
    shop.go(["shop.orders"], dies=2, at_once=4, sink=sink, route=NEW)
    shop.go(["shop.orders"], sink=sink, route=NEW)
    whole = [(key, 300 if key == 3 else key) for key in range(10) if key != 2]
    assert lake_rows(tmp_path, kind, "ods", "orders2") == whole


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_a_table_with_all_states_is_filled_only_while_it_is_empty(kind: str, tmp_path: Path) -> None:
    shop, sink = Shop(tmp_path, own_sink=True), lake(tmp_path, kind, **{"sink.write-mode": "append"})
    for key in range(3):
        shop.add("c", key, key)
    shop.go(sink=sink)
    with pytest.raises(ConfigError, match=r"table shop\.orders has rows, and keeps all states"):
        shop.go(["shop.orders"], sink=sink)
    shop.go(["shop.orders"], dies=2, at_once=2, sink=sink, route=NEW)
    shop.add("c", 3, 3)
    shop.go(sink=sink, route=NEW)  # it has the fourth row by then
    shop.go(["shop.orders"], sink=sink, route=NEW)
    assert lake_rows(tmp_path, kind, "ods", "orders2") == [(key, key) for key in range(4)]


def test_a_log_of_changes_that_has_some_is_warned_about(tmp_path: Path) -> None:
    shop, sink = Shop(tmp_path, own_sink=True), {"type": "file", "path": str(tmp_path / "out")}
    shop.add("c", 1, 1)
    shop.go(sink=sink)
    shop.go(["shop.orders"], sink=sink)
    assert any("has changes already" in text for text in shop.warnings)
    shop.go(sink={**sink, "path": str(tmp_path / "other")})
    (said,) = shop.warnings
    assert "lacks the rows of shop.orders" in said
    assert str(tmp_path / "other" / "shop.orders") in said


def test_rejects_too_many_end_a_backfill_as_they_end_a_run(shop: Shop) -> None:
    shop.messages.append((0, b'{"id":22}', b"{"))
    shop.go()
    with pytest.raises(IngestError) as ended:
        shop.go(["shop.orders"], source={"ingestion.ignore-errors": False})
    assert ended.value.exit_code == 65

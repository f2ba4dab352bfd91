"""Tables that are read once more, in this process: what is written, what is left alone, and where it goes on."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import inmemory
import pytest
from backfills import NEW, BackfillShop, Killed, table
from commands import called
from harness import debezium

from ingest.checkpoint.checkpoint import Checkpoint
from ingest.driver.context import Settings
from ingest.errors import ConfigError, IngestError
from ingest.native import native
from ingest.sources.backfill import BackfillSource
from ingest.testing.capturing import Captured, capturing_sink
from ingest.testing.dry_run import dry_run

if TYPE_CHECKING:
    from pathlib import Path

BOTH = [*NEW, {"source-table": "shop.users", "sink-table": "ods.users2"}]


@pytest.fixture(params=["native", "reference"])
def shop(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BackfillShop:
    if request.param == "reference":
        monkeypatch.setattr(native, "BUILT", False)
    made = BackfillShop(tmp_path)
    for key in range(10):
        made.add("c", key, key)
        made.add("c", key, key, table="users")
    made.add("u", 1, 100)
    made.add("d", 2)
    written, _ = made.go()
    assert table(written, "shop.orders") == {key: 100 if key == 1 else key for key in range(10) if key != 2}
    assert made.warnings == []
    return made


def plan(shop: BackfillShop) -> list[str]:
    """What a plan of the pipeline with another route warns of."""
    pipeline = inmemory.pipeline(route=NEW)
    sink = capturing_sink(pipeline.sink, Captured(), "test", print)
    found, error = dry_run(pipeline, Settings(str(shop.folder / "c"), shop.folder), shop.source(pipeline), sink)
    assert error is None
    return found.warnings


def test_a_new_route_says_which_table_lacks_rows_and_a_backfill_brings_them(shop: BackfillShop) -> None:
    planned = plan(shop)
    shop.add("u", 3, 300)
    shop.add("d", 4)
    shop.add("c", 2, 200)
    written, _ = shop.go(route=NEW)
    assert table(written, "ods.orders2") == {3: 300, 2: 200}
    said = (
        "table ods.orders2 lacks the rows of shop.orders that were read before: it is new to them, and this pipeline "
        "goes on where it was. What brings them: ingest backfill pipeline.yaml --table shop.orders"
    )
    assert shop.warnings == planned == plan(shop) == [said]
    assert shop.go(route=NEW)[0] == []
    assert shop.warnings == [], "a run says it once"
    shown = called("checkpoint", "show", str(shop.folder / "c")).out
    assert "table ods.orders2 lacks earlier rows of shop.orders: ingest backfill FILE --table shop.orders\n" in shown
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
    assert (nothing, shop.warnings, plan(shop)) == ([], [], [])


def test_a_backfill_before_the_first_run_with_the_route_leaves_nothing_to_say_of_its_table(shop: BackfillShop) -> None:
    more, _ = shop.go(["shop.orders"], route=BOTH)
    assert table(more, "ods.orders2") == {key: 100 if key == 1 else key for key in range(10) if key != 2}
    shop.go(route=BOTH)
    assert ["ods.users2" in text for text in shop.warnings] == [True]


def test_a_table_that_goes_where_another_one_was_lacks_rows_there(shop: BackfillShop) -> None:
    shop.go(route=[{"source-table": r"shop.\.*", "sink-table": "shop.users"}])
    (said,) = shop.warnings
    assert said.startswith("table shop.users lacks the rows of shop.orders that were read before")
    shop.go()
    (said,) = shop.warnings
    assert said.startswith("table shop.orders lacks the rows of shop.orders that were read before")


ONE = [{"source-table": "shop.orders", "sink-table": "orders"}]
KAFKA = {"type": "kafka", "properties.bootstrap.servers": "memory:1"}
PG = {"type": "postgres", "endpoint": "127.0.0.1", "dbname": "d", "username": "u"}
MOVES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "topic": (KAFKA, {"topic": "all"}, "orders (all)"),
    "mapping": (KAFKA, {"sink.tableId-to-topic.mapping": "orders:mine"}, "orders (mine)"),
    "path": ({"type": "file", "path": "a"}, {"path": "b"}, "orders (b/orders)"),
    "namespace of iceberg": (
        {"type": "iceberg", "catalog.properties.warehouse": "w"}, {"sink.default-namespace": "n"}, "orders (n.orders)",
    ),
    "namespace of delta": ({"type": "delta", "warehouse": "w"}, {"sink.default-namespace": "n"}, "orders (n.orders)"),
    "schema of postgres": (PG, {"sink.default-schema": "s"}, "orders (s.orders)"),
    "schema of hologres": ({**PG, "type": "hologres"}, {"sink.default-schema": "s"}, "orders (s.orders)"),
}  # fmt: skip


@pytest.mark.parametrize(("sink", "moved", "place"), MOVES.values(), ids=MOVES)
def test_a_table_that_an_option_of_the_sink_moves_lacks_rows(
    tmp_path: Path, sink: dict[str, Any], moved: dict[str, Any], place: str
) -> None:
    shop = BackfillShop(tmp_path)
    shop.add("c", 1, 1)
    shop.go(sink=sink, route=ONE)
    shop.go(sink=sink, route=ONE)
    assert not any("lacks" in text for text in shop.warnings)
    shop.go(sink={**sink, **moved}, route=ONE)
    (said,) = [text for text in shop.warnings if "lacks" in text]
    assert said.startswith(f"table {place} lacks the rows of shop.orders that were read before")


def test_a_checkpoint_of_an_earlier_version_knows_no_places(shop: BackfillShop) -> None:
    (shop.folder / "c" / "places.json").unlink()
    shop.go()
    assert shop.warnings == []
    (shop.folder / "c" / "places.json").unlink()
    shop.go(route=NEW)
    assert len(shop.warnings) == 1


@pytest.mark.parametrize("dies", [1, 6])
@pytest.mark.parametrize("where", ["between batches", "before a batch is stored"])
def test_a_backfill_that_is_killed_goes_on_where_it_was(
    shop: BackfillShop, dies: int, where: str, monkeypatch: pytest.MonkeyPatch
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


def test_a_backfill_of_more_tables_is_one_of_each(shop: BackfillShop) -> None:
    shop.go(["shop.orders"], dies=4, at_once=3, route=BOTH)
    more, _ = shop.go(["shop.users", "shop.orders"], route=BOTH)
    assert {topic for topic, _, _ in more} == {"ods.orders2", "ods.users2"}
    shop.go(route=BOTH)
    assert shop.warnings == []


def test_another_place_makes_another_backfill(shop: BackfillShop) -> None:
    shop.go(["shop.orders"], dies=4, at_once=3, route=NEW)
    other = [{"source-table": "shop.orders", "sink-table": "ods.orders3"}]
    more, _ = shop.go(["shop.orders"], route=other)
    assert table(more, "ods.orders3") == {key: 100 if key == 1 else key for key in range(10) if key != 2}


def test_schemas_and_rejects_of_other_tables_are_left_alone(shop: BackfillShop) -> None:
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


def test_a_transform_makes_its_rows_of_what_is_read_again(java: None, shop: BackfillShop) -> None:
    rule = [{"source-table": "shop.orders", "primary-keys": "id", "filter": "n > 6", "projection": r"\*"}]
    more, _ = shop.go(["shop.orders"], route=NEW, transform=rule)
    assert table(more, "ods.orders2") == {1: 100, 7: 7, 8: 8, 9: 9}


def test_a_beginning_that_is_gone_is_said(shop: BackfillShop) -> None:
    shop.first = 8
    more, _ = shop.go(["shop.orders"], route=NEW)
    assert table(more, "ods.orders2") == {key: 100 if key == 1 else key for key in (1, *range(4, 10))}
    (said,) = shop.warnings
    assert said.startswith(
        "topics no longer have their beginning: topic[0] begins at offset 8: rows whose changes were"
    )


def test_a_table_that_is_not_there_is_an_error_that_says_which_ones_are(shop: BackfillShop) -> None:
    with pytest.raises(ConfigError) as refused:
        shop.go(["shop.order"])
    assert "knows no source table 'shop.order'; it knows shop.orders, shop.users" in refused.value.message
    assert refused.value.hint == "did you mean shop.orders?"


def test_a_pipeline_that_never_ran_has_nothing_to_read_again(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="this pipeline never ran"):
        BackfillShop(tmp_path).go(["shop.orders"])


def test_a_command_that_is_copied_runs_nothing_of_what_a_message_holds(tmp_path: Path) -> None:
    shop, name = BackfillShop(tmp_path), "a; rm -rf $HOME\n'"
    shop.add("c", 1, 1, table=name)
    shop.go()
    shop.go(route=[{"source-table": r"shop.\.*", "sink-table": "all"}])
    (said,) = shop.warnings
    command = shlex.split(said.partition("What brings them: ")[2])
    assert command[:4] == ["ingest", "backfill", "pipeline.yaml", "--table"]
    assert len(command) == 5


# -- tables of a lake --------------------------------------------------------------------------------------------------


def lake(folder: Path, kind: str, **more: str) -> dict[str, Any]:
    place = "catalog.properties.warehouse" if kind == "iceberg" else "warehouse"
    return {"type": kind, place: str(folder / "lake"), **more}


def lake_table(folder: Path, *name: str) -> Any:
    """A table of Iceberg."""
    from pyiceberg.catalog import load_catalog

    from ingest.sinks.iceberg.warehouse import with_defaults

    return load_catalog("default", **with_defaults({"warehouse": str(folder / "lake")})).load_table(name)


def lake_rows(folder: Path, kind: str, *name: str) -> list[tuple[int, Any]]:
    if kind == "iceberg":
        rows = lake_table(folder, *name).scan().to_arrow().to_pylist()
    else:
        from deltalake import DeltaTable

        rows = DeltaTable(str(folder / "lake" / "/".join(name))).to_pyarrow_table().to_pylist()
    return sorted((row["id"], row["n"]) for row in rows)


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_a_backfill_into_a_lake_is_there_once_and_goes_on_after_a_death(kind: str, tmp_path: Path) -> None:
    shop, sink = BackfillShop(tmp_path, own_sink=True), lake(tmp_path, kind)
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
    shop, sink = BackfillShop(tmp_path, own_sink=True), lake(tmp_path, kind, **{"sink.write-mode": "append"})
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


def emptied(folder: Path, kind: str, *name: str) -> None:
    """Delete all rows of a table, as somebody else."""
    if kind == "iceberg":
        lake_table(folder, *name).delete("id >= 0")
    else:
        from deltalake import DeltaTable

        DeltaTable(str(folder / "lake" / "/".join(name))).delete()


@pytest.mark.parametrize("mode", ["upsert", "append"])
@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_a_backfill_whose_tables_were_emptied_begins_at_the_beginning(kind: str, mode: str, tmp_path: Path) -> None:
    shop, sink = BackfillShop(tmp_path, own_sink=True), lake(tmp_path, kind, **{"sink.write-mode": mode})
    for key in range(8):
        shop.add("c", key, key)
    shop.go(sink=sink)
    shop.go(["shop.orders"], dies=3, at_once=2, sink=sink, route=NEW)
    assert len(lake_rows(tmp_path, kind, "ods", "orders2")) == 4
    emptied(tmp_path, kind, "ods", "orders2")
    shop.go(["shop.orders"], sink=sink, route=NEW)
    assert lake_rows(tmp_path, kind, "ods", "orders2") == [(key, key) for key in range(8)]
    shop.go(sink=sink, route=NEW)
    assert shop.warnings == []


def test_a_backfill_of_more_tables_does_not_go_on_once_one_of_them_is_read_by_itself(tmp_path: Path) -> None:
    shop, sink = BackfillShop(tmp_path, own_sink=True), lake(tmp_path, "delta", **{"sink.write-mode": "append"})
    for key in range(4):
        shop.add("c", key, key)
        shop.add("c", key, key, table="users")
    shop.go(sink=sink)
    shop.go(["shop.orders", "shop.users"], dies=3, at_once=2, sink=sink, route=BOTH)
    emptied(tmp_path, "delta", "ods", "orders2")
    shop.go(["shop.orders"], sink=sink, route=BOTH)
    assert lake_rows(tmp_path, "delta", "ods", "orders2") == [(key, key) for key in range(4)]
    (said,) = [text for text in shop.warnings if "does not go on" in text]
    assert said.endswith("what their rows go to, then ingest backfill pipeline.yaml --table shop.users")
    with pytest.raises(ConfigError, match=r"table ods\.orders2 has rows, and keeps all states"):
        shop.go(["shop.orders", "shop.users"], sink=sink, route=BOTH)
    emptied(tmp_path, "delta", "ods", "users2")
    shop.go(["shop.users"], sink=sink, route=BOTH)
    for name in ("orders2", "users2"):
        assert lake_rows(tmp_path, "delta", "ods", name) == [(key, key) for key in range(4)]


def test_a_log_of_changes_that_has_some_is_warned_about(tmp_path: Path) -> None:
    shop, sink = BackfillShop(tmp_path, own_sink=True), {"type": "file", "path": str(tmp_path / "out")}
    shop.add("c", 1, 1)
    shop.go(sink=sink)
    shop.go(["shop.orders"], sink=sink)
    assert any("has changes already" in text for text in shop.warnings)
    shop.go(sink={**sink, "path": str(tmp_path / "other")})
    (said,) = shop.warnings
    assert "lacks the rows of shop.orders" in said
    assert str(tmp_path / "other" / "shop.orders") in said


def test_rejects_too_many_end_a_backfill_as_they_end_a_run(shop: BackfillShop) -> None:
    shop.messages.append((0, b'{"id":22}', b"{"))
    shop.go()
    with pytest.raises(IngestError) as ended:
        shop.go(["shop.orders"], source={"ingestion.ignore-errors": False})
    assert ended.value.exit_code == 65


# -- formats -----------------------------------------------------------------------------------------------------------


def canal(table: str, key: int) -> bytes:
    value = f'{{"data":[{{"id":{key}}},{{"id":{key + 100}}}],"database":"shop","pkNames":["id"],"table":"{table}"'
    return f'{value},"type":"INSERT"}}'.encode()


def maxwell(table: str, key: int) -> bytes:
    start = f'{{"database":"shop","table":"{table}","type":"insert","ts":1,"data":{{"id":{key}}}'
    return f'{start},"primary_key_columns":["id"]}}'.encode()


def ogg(table: str, key: int) -> bytes:
    return f'{{"table":"shop.{table}","op_type":"I","after":{{"id":{key}}},"primary_keys":["id"]}}'.encode()


FORMATS: dict[str, Any] = {"canal-json": canal, "maxwell-json": maxwell, "ogg-json": ogg}


@pytest.mark.parametrize("form", FORMATS)
def test_messages_of_other_tables_are_left_out_in_each_format(
    tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = FORMATS[form]
    options: dict[str, Any] = {"source": {"value.format": form}}
    found = []
    for way in ("native", "reference"):
        shop = BackfillShop(tmp_path / way)
        for key in range(5):
            shop.messages += [(0, None, made(table, key)) for table in ("orders", "users")]
        shop.messages.append((0, None, made("users", 1).replace(b":1", b":[", 1)))
        monkeypatch.setattr(native, "BUILT", way == "native" and native.BUILT)
        shop.go(**options)
        written, summary = shop.go(["shop.orders"], **options)
        found.append((written, summary.skipped, [one.code for one in shop.rejects]))
    assert found[0] == found[1]
    assert {topic for topic, _, _ in found[0][0]} == {"shop.orders"}
    assert found[0][1] == {"not-selected": 5}


def test_topics_of_other_tables_are_not_read_where_a_topic_is_a_table(tmp_path: Path) -> None:
    row: dict[str, Any] = {"source": {"value.format": "json", "key.format": "json"}}
    rows = BackfillShop(tmp_path, topics=("a", "b"))
    for key in range(3):
        rows.messages += [(place, f'{{"id":{key}}}'.encode(), b'{"n":1}') for place in (0, 1)]
    rows.messages.append((1, b'{"id":9}', b"{"))
    rows.go(**row)
    assert [one.code for one in rows.rejects] == ["malformed"]
    written, summary = rows.go(["a"], **row)
    assert {topic for topic, _, _ in written} == {"a"}
    assert (summary.skipped, rows.rejects) == ({"not-selected": 4}, [])
    source = BackfillSource(inmemory.pipeline(**row).source, frozenset({("a",)}))
    assert [source.reads((topic, 0)) for topic in ("a", "b")] == [True, False]
    named: dict[str, Any] = {"source": {"value.format": "debezium-json"}}
    assert BackfillSource(inmemory.pipeline(**named).source, frozenset({("a",)})).reads(("b", 0))

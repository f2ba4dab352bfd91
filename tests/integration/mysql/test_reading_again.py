"""Tables of a server that are read again: rows of the sink that the server does not have leave it, and no others."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest
from delta_lake import DeltaLake
from lake import Lake
from mysql_in_process import BEGINNINGS, KEYS, InProcessPipeline, change, dies_and_goes_on, dying, make, texts

from ingest.checkpoint.backfills import BackfillRequest, answered, ask
from ingest.checkpoint.checkpoint import Checkpoint
from ingest.checkpoint.storage import LocalStorage
from ingest.driver import replacement
from ingest.driver.ledger import Ledger
from ingest.driver.replacement import TableReplacement
from ingest.driver.schemas import SchemaStore
from ingest.driver.sink_tables import SinkTables
from ingest.errors import ConfigError, DataLoss
from ingest.sinks.topics.transactions import TransactionalWriter

if TYPE_CHECKING:
    from pathlib import Path

    from harness import Kafka
    from mysql_in_process import Death
    from mysql_servers import MySql


def sink_of(kind: str, folder: Path, **more: Any) -> tuple[dict[str, Any], Any]:
    """The options of a lake's sink, and its tables as another engine reads them."""
    place = "catalog.properties.warehouse" if kind == "iceberg" else "warehouse"
    found: Any = Lake(folder) if kind == "iceberg" else DeltaLake(folder)
    return {"type": kind, place: str(folder), **more}, found


def to_topics(server: MySql, kafka: Kafka, folder: Path, base: str, guarantee: str) -> InProcessPipeline:
    """A pipeline into topics of rows."""
    return InProcessPipeline(
        folder, server, base,
        {"type": "upsert-kafka", "properties.bootstrap.servers": kafka.bootstrap, "sink.delivery-guarantee": guarantee,
         "sink.transactional-id-prefix": kafka.name},
        route=[{"source-table": rf"{base}.\.*", "sink-table": f"{kafka.name}.<>", "replace-symbol": "<>"}],
    )  # fmt: skip


def of_topic(kafka: Kafka, topic: str) -> list[tuple[Any, ...]]:
    """The rows of an upsert topic."""
    out: dict[bytes, Any] = {}
    for record in kafka.read(topic):
        out.pop(record.key or b"", None)
        if record.value is not None:
            out[record.key or b""] = json.loads(record.value, parse_float=str)
    return [(row["k"], row["v"]) for row in out.values()]


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_rows_of_a_lake_that_the_server_lacks_are_deleted(mariadb: MySql, tmp_path: Path, kind: str) -> None:
    options, lake = sink_of(kind, tmp_path / "lake")
    pipeline = InProcessPipeline(tmp_path, mariadb, f"again_{kind}", options)
    make(pipeline, **KEYS)
    pipeline.run()
    change(pipeline, **KEYS)
    pipeline.run(*KEYS)
    for name in KEYS:
        base = pipeline.database
        found = sorted(one[0] for one in lake.rows(base, name, columns="v"))
        assert found == sorted(row[0] for row in pipeline.execute(f"SELECT v FROM {name}")), name
    assert [one for one in pipeline.warnings if "1 rows that the source does not have are deleted" in one]
    pipeline.execute("DELETE FROM whole WHERE v = 100")
    pipeline.run()
    assert texts(lake.rows(pipeline.database, "whole", columns="k, v")) == pipeline.rows("whole", "k, v")


@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
def test_rows_of_topics_that_the_server_lacks_get_tombstones(
    mariadb: MySql, kafka: Kafka, tmp_path: Path, guarantee: str
) -> None:
    base = f"again_{guarantee}".replace("-", "_")
    pipeline = to_topics(mariadb, kafka, tmp_path, base, guarantee)
    make(pipeline, **KEYS)
    pipeline.run()
    before = {name: kafka.end(f"{kafka.name}.{name}") for name in KEYS}
    change(pipeline, **KEYS)
    pipeline.run(*KEYS)
    for name in KEYS:
        found = sorted(one[1] for one in of_topic(kafka, f"{kafka.name}.{name}"))
        assert found == sorted(row[0] for row in pipeline.execute(f"SELECT v FROM {name}")), name
        written = kafka.read(f"{kafka.name}.{name}")
        gone = [one for one in written if one.value is None]
        assert len(gone) == 1, "no other row was away for a moment"
        assert kafka.end(f"{kafka.name}.{name}") > before[name]


DEATHS: Final = {
    "planned": (Checkpoint, "plan", 1, "after"),
    "before rows are deleted": (TableReplacement, "_replace", 1, "before"),
    "rows are deleted": (SinkTables, "keep_only", 1, "after"),
    "before it is stored": (Ledger, "store", 1, "before"),
    "decided": (Checkpoint, "decide", 1, "after"),
}


@pytest.mark.parametrize("death", DEATHS.values(), ids=DEATHS)
def test_whatever_dies_the_next_run_goes_on(
    mariadb: MySql, tmp_path: Path, death: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    options, lake = sink_of("iceberg", tmp_path / "lake")
    pipeline = InProcessPipeline(tmp_path, mariadb, "again_dying", options)
    make(pipeline, whole=KEYS["whole"], texts=KEYS["texts"])
    pipeline.run()
    change(pipeline, whole=KEYS["whole"], texts=KEYS["texts"])
    with dying(monkeypatch, death):
        pipeline.run("whole", "texts")
    pipeline.execute("INSERT INTO whole VALUES (50, 50)", "DELETE FROM whole WHERE v = 2")
    pipeline.run()
    for name in ("whole", "texts"):
        assert texts(lake.rows("again_dying", name, columns="k, v")) == pipeline.rows(name, "k, v")


OF_TOPICS: Final[dict[str, Death]] = {
    "planned": (Checkpoint, "plan", 1, "after"),
    "before a commit": (TransactionalWriter, "commit", 1, "before"),
    "after a commit": (TransactionalWriter, "commit", 1, "after"),
    "before rows are deleted": (TableReplacement, "_replace", 1, "before"),
    "rows are deleted": (SinkTables, "keep_only", 1, "after"),
    "before it is stored": (Ledger, "store", 1, "before"),
}


@pytest.mark.parametrize(
    ("death", "beginning"), [("after a commit", "request"), ("rows are deleted", "all")],
)  # fmt: skip
def test_topics_that_are_filled_again_are_filled_by_the_next_run_where_one_dies(
    mariadb: MySql, kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, death: str, beginning: str
) -> None:
    pipeline = to_topics(mariadb, kafka, tmp_path, "again_dying", "exactly-once")
    dies_and_goes_on(
        pipeline, beginning, dying(monkeypatch, OF_TOPICS[death]), lambda name: of_topic(kafka, f"{kafka.name}.{name}")
    )


@pytest.mark.parametrize("beginning", BEGINNINGS)
@pytest.mark.parametrize(
    ("guarantee", "death"),
    [(guarantee, death) for guarantee in ("exactly-once", "at-least-once") for death, where in OF_TOPICS.items()
     if guarantee == "exactly-once" or where[0] is not TransactionalWriter],
)  # fmt: skip
def test_topics_at_each_death(
    mariadb: MySql, kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    guarantee: str, beginning: str, death: str,
) -> None:  # fmt: skip
    pipeline = to_topics(mariadb, kafka, tmp_path, "again_dying_topics", guarantee)
    dies_and_goes_on(
        pipeline, beginning, dying(monkeypatch, OF_TOPICS[death]), lambda name: of_topic(kafka, f"{kafka.name}.{name}")
    )


def test_a_table_that_was_emptied_is_emptied_though_the_run_is_killed_before(
    mariadb: MySql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a lake's driver has decided is carried out when the run begins again; and then what was due behind it."""
    options, lake = sink_of("iceberg", tmp_path / "lake")
    pipeline = InProcessPipeline(tmp_path, mariadb, "emptied_dying", options)
    make(pipeline, whole=KEYS["whole"], other=KEYS["whole"])
    pipeline.run()
    pipeline.execute("INSERT INTO other VALUES (77, 77)", "TRUNCATE TABLE whole", "INSERT INTO whole VALUES (8, 8)")
    with dying(monkeypatch, (SchemaStore, "empty", 2, "before")):
        pipeline.run()
    pipeline.run()
    assert texts(lake.rows("emptied_dying", "whole", columns="k, v")) == [("8", "8")]
    assert texts(lake.rows("emptied_dying", "other", columns="k, v")) == pipeline.rows("other", "k, v")


def test_a_run_takes_requests_and_answers_them(mariadb: MySql, tmp_path: Path) -> None:
    """Two at once, of one table; and one for a table that is not there."""
    options, lake = sink_of("delta", tmp_path / "lake")
    pipeline = InProcessPipeline(tmp_path, mariadb, "requested", options)
    make(pipeline, whole=KEYS["whole"], texts=KEYS["texts"])
    pipeline.run()
    change(pipeline, whole=KEYS["whole"], texts=KEYS["texts"])
    storage = LocalStorage(tmp_path / "c", lock=False)
    names: list[str] = []

    def request() -> None:
        asked = ["requested.whole"], ["requested.whole", "requested.texts"], ["requested.wholes"]
        names.extend(ask(storage, BackfillRequest(tables)) for tables in asked)

    pipeline.run(while_it_runs=request)
    first, second, third = (answered(storage, name) for name in names)
    assert first is not None
    assert second is not None
    assert third is not None
    assert (first.tables, second.tables) == (["requested.whole"], ["requested.texts", "requested.whole"])
    assert "knows no source table 'requested.wholes'" in third.refused
    assert third.hint == "did you mean requested.whole?"
    assert storage.names("requests") == []
    for name in ("whole", "texts"):
        assert texts(lake.rows("requested", name, columns="k, v")) == pipeline.rows(name, "k, v")


def test_a_request_that_a_killed_run_has_taken_goes_on_with_the_next_one(
    mariadb: MySql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options, lake = sink_of("delta", tmp_path / "lake")
    pipeline = InProcessPipeline(tmp_path, mariadb, "taken", options)
    make(pipeline, whole=KEYS["whole"])
    pipeline.run()
    change(pipeline, whole=KEYS["whole"])
    storage = LocalStorage(tmp_path / "c", lock=False)

    def request() -> None:
        ask(storage, BackfillRequest(["taken.whole"]))

    with dying(monkeypatch, (Checkpoint, "plan", 1, "before")):
        pipeline.run(while_it_runs=request)
    pipeline.run()
    assert texts(lake.rows("taken", "whole", columns="k, v")) == pipeline.rows("whole", "k, v")


def test_a_sink_that_keeps_all_rows_takes_only_a_table_whose_place_is_empty(mariadb: MySql, tmp_path: Path) -> None:
    options, lake = sink_of("iceberg", tmp_path / "lake", **{"sink.write-mode": "append"})
    pipeline = InProcessPipeline(tmp_path, mariadb, "appended", options)
    make(pipeline, whole=KEYS["whole"])
    pipeline.execute("CREATE TABLE nothing (k INT PRIMARY KEY, v INT)")
    pipeline.run()
    with pytest.raises(ConfigError, match=r"table appended\.whole has rows, and keeps all that come"):
        pipeline.run("whole")
    storage = LocalStorage(tmp_path / "c", lock=False)
    names: list[str] = []

    def request() -> None:
        names.extend(ask(storage, BackfillRequest([f"appended.{table}"])) for table in ("whole", "nothing"))

    pipeline.unlogged("INSERT INTO nothing VALUES (1, 1)")
    pipeline.run(while_it_runs=request)
    refused, taken = (answered(storage, name) for name in names)
    assert refused is not None
    assert refused.refused.startswith("table appended.whole has rows, and keeps all that come")
    assert refused.hint == "empty it first, or route the table to a new one"
    assert taken is not None
    assert taken.tables == ["appended.nothing"]
    assert len(lake.rows("appended", "whole")) == 4
    assert texts(lake.rows("appended", "nothing", columns="k, v")) == [("1", "1")]


def test_rows_that_the_sink_marks_as_deleted_are_marked(mariadb: MySql, tmp_path: Path) -> None:
    options, lake = sink_of("delta", tmp_path / "lake", **{"sink.delete-strategy": "soft"})
    pipeline = InProcessPipeline(tmp_path, mariadb, "marked_again", options)
    make(pipeline, whole=KEYS["whole"])
    pipeline.run()
    change(pipeline, whole=KEYS["whole"])
    pipeline.run("whole")
    rows = texts(lake.rows("marked_again", "whole", columns="k, v, _deleted"))
    assert [row[:2] for row in rows if row[2] != "True"] == pipeline.rows("whole", "k, v")
    assert [row for row in rows if row[2] == "True"] == [("1", "0", "True")]


def test_a_table_whose_rows_others_share_keeps_theirs(mariadb: MySql, tmp_path: Path) -> None:
    """Two tables in one, of which one is read again."""
    options, lake = sink_of("iceberg", tmp_path / "lake")
    both = [{"source-table": f"shared.part{n}", "sink-table": "shared.parts"} for n in (1, 2)]
    pipeline = InProcessPipeline(tmp_path, mariadb, "shared", options, route=both)
    make(pipeline, part1=("INT", ["1", "2", "3"]), part2=("INT", ["11", "12", "13"]))
    pipeline.run()
    change(pipeline, part1=("INT", ["1", "2", "3"]))
    pipeline.run("part1")
    found = texts(lake.rows("shared", "parts", columns="k, v"))
    assert found == sorted([*pipeline.rows("part1", "k, v"), *pipeline.rows("part2", "k, v")], key=repr)


def test_a_merged_table_that_is_emptied_is_marked_until_it_is_read_again(mariadb: MySql, tmp_path: Path) -> None:
    """Its rows cannot be told from the other's when they go; when it is read again, by their keys."""
    options, lake = sink_of("delta", tmp_path / "lake")
    both = [{"source-table": f"merged.part{n}", "sink-table": "merged.parts"} for n in (1, 2)]
    pipeline = InProcessPipeline(tmp_path, mariadb, "merged", options, route=both)
    make(pipeline, part1=("INT", ["1", "2", "3"]), part2=("INT", ["11", "12", "13"]))
    pipeline.run()
    pipeline.execute("TRUNCATE part1", "INSERT INTO part1 VALUES (2, 22)")
    pipeline.run()
    assert texts(lake.rows("merged", "parts", columns="k, v")) == [("1", "0"), ("11", "0"), ("12", "1"), ("2", "22")]
    assert pipeline.marked() == ["merged.part1"]
    assert [one for one in pipeline.warnings if "rows of merged.part2 are there, too" in one]
    pipeline.run("part1")
    assert texts(lake.rows("merged", "parts", columns="k, v")) == [("11", "0"), ("12", "1"), ("2", "22")]
    assert pipeline.marked() == []


FILTERED: Final = [{
    "source-table": r"filtered.part\d?", "filter": "v <> 1 AND v < 50",
    "projection": "k, v, v * 2 AS twice, UPPER(t) AS t",
}]  # fmt: skip


def fill(pipeline: InProcessPipeline, *names: str) -> None:
    """Make tables with keys and values 0 to 3, above a hundred times the table's number."""
    for at, name in enumerate(names):
        pipeline.execute(f"CREATE TABLE {name} (k INT PRIMARY KEY, v INT, t VARCHAR(9))")
        for v in range(4):
            pipeline.execute(f"INSERT INTO {name} VALUES ({at * 100 + v}, {v}, 'x{v}')")


def move(pipeline: InProcessPipeline, name: str, first: int = 0) -> None:
    """Let one row fail the filter, one pass it, one be new and one be gone: of which the log has nothing."""
    pipeline.unlogged(
        f"UPDATE {name} SET v = 99 WHERE k = {first}", f"UPDATE {name} SET v = 10 WHERE k = {first + 1}",
        f"DELETE FROM {name} WHERE k = {first + 2}", f"INSERT INTO {name} VALUES ({first + 9}, 9, 'y')",
    )  # fmt: skip


def left_by_the_filter(pipeline: InProcessPipeline, *names: str) -> list[tuple[Any, ...]]:
    """What the sink is to have of tables."""
    rows = [
        row for name in names
        for row in pipeline.execute(f"SELECT k, v, v * 2, UPPER(t) FROM {name} WHERE v <> 1 AND v < 50")
    ]  # fmt: skip
    return texts(rows)


WHEN: Final = {
    "": None, "it is stored": (SchemaStore, "empty", 1, "before"), "emptied": (SchemaStore, "empty", 1, "after"),
    "read": (Checkpoint, "decide", 1, "after"), "planned": (Checkpoint, "plan", 1, "after"),
}  # fmt: skip


@pytest.mark.parametrize("death", WHEN.values(), ids=WHEN)
def test_a_filtered_table_is_emptied_and_read_whatever_dies(
    mariadb: MySql, java: None, tmp_path: Path, death: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that the filter leaves no more go, as do those that the database lacks; computed columns are right."""
    options, lake = sink_of("iceberg", tmp_path / "lake")
    there = [{"source-table": r"filtered.\.*", "sink-table": "ods.<>", "replace-symbol": "<>"}]
    pipeline = InProcessPipeline(tmp_path, mariadb, "filtered", options, transform=FILTERED, route=there)
    fill(pipeline, "part")
    pipeline.run()
    move(pipeline, "part")
    if death is not None:
        with dying(monkeypatch, death):
            pipeline.run("part")
        pipeline.execute("INSERT INTO part VALUES (50, 5, 'z')", "UPDATE part SET v = 77 WHERE k = 3")
        pipeline.run()
    else:
        pipeline.run("part")
    wanted = left_by_the_filter(pipeline, "part")
    assert texts(lake.rows("ods", "part", columns="k, v, twice, t")) == wanted
    pipeline.execute("UPDATE part SET v = 80 WHERE k = 9", "UPDATE part SET v = 4 WHERE k = 0")
    pipeline.run()
    assert texts(lake.rows("ods", "part", columns="k, v, twice, t")) == left_by_the_filter(pipeline, "part") != wanted


def test_a_filtered_table_leaves_the_rows_of_others_in_its_sink_table(
    mariadb: MySql, java: None, tmp_path: Path
) -> None:
    """Its own that nobody can tell by their keys stay, which is said; a request beside a run does the same."""
    options, lake = sink_of("delta", tmp_path / "lake")
    both = [{"source-table": r"filtered.\.*", "sink-table": "filtered.parts"}]
    pipeline = InProcessPipeline(tmp_path, mariadb, "filtered", options, transform=FILTERED, route=both)
    fill(pipeline, "part1", "part2")
    pipeline.run()
    move(pipeline, "part1")

    def request() -> None:
        ask(LocalStorage(tmp_path / "c", lock=False), BackfillRequest(["filtered.part1"]))

    pipeline.run(while_it_runs=request)
    stay = [("0", "0", "0", "X0"), ("2", "2", "4", "X2")]
    found = texts(lake.rows("filtered", "parts", columns="k, v, twice, t"))
    assert found == sorted([*left_by_the_filter(pipeline, "part1", "part2"), *stay], key=repr)
    assert [one for one in pipeline.warnings if "rows that it lacks stay in filtered.parts" in one]


def test_a_table_that_was_swapped_for_one_with_fewer_rows_loses_the_others(mariadb: MySql, tmp_path: Path) -> None:
    """Nobody asks for it: the table is read again by the statement."""
    options, lake = sink_of("iceberg", tmp_path / "lake")
    pipeline = InProcessPipeline(tmp_path, mariadb, "swapped_less", options)
    make(pipeline, whole=KEYS["whole"])
    pipeline.run()
    pipeline.execute(
        "CREATE TABLE fresh LIKE whole", "INSERT INTO fresh VALUES (2, 22), (9, 9)",
        "RENAME TABLE whole TO former, fresh TO whole", "INSERT INTO whole VALUES (10, 10)",
    )  # fmt: skip
    pipeline.run()
    for table in ("whole", "former"):
        assert texts(lake.rows("swapped_less", table, columns="k, v")) == pipeline.rows(table, "k, v")


def test_rows_stay_where_no_key_says_which_they_are(mariadb: MySql, tmp_path: Path) -> None:
    """Dates that are no days are keys of no row."""
    options, lake = sink_of("delta", tmp_path / "lake")
    pipeline = InProcessPipeline(tmp_path, mariadb, "no_days", options)
    pipeline.source["ingestion.ignore-errors"] = True
    make(pipeline, days=KEYS["days"])
    pipeline.run()
    pipeline.unlogged("SET sql_mode = ''", "DELETE FROM days", "INSERT INTO days VALUES ('0000-00-00', 1)")
    pipeline.run("days")
    assert len(lake.rows("no_days", "days")) == 2
    assert [one for one in pipeline.warnings if "rows that it lacks stay in no_days.days: the sink takes none" in one]


def test_rows_stay_where_there_are_too_many_keys(
    mariadb: MySql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replacement, "MOST_KEYS", 1)
    options, lake = sink_of("delta", tmp_path / "lake")
    pipeline = InProcessPipeline(tmp_path, mariadb, "too_many", options)
    make(pipeline, days=KEYS["days"])
    pipeline.run()
    pipeline.unlogged("DELETE FROM days LIMIT 1", "INSERT INTO days VALUES ('2031-01-01', 1)")
    pipeline.run("days")
    assert len(lake.rows("too_many", "days")) == 3
    assert len([one for one in pipeline.warnings if "stay in too_many.days: there are more than 1 keys" in one]) == 1
    pipeline.run()
    assert not [one for one in pipeline.warnings if "stay in" in one], "it is said once"


def test_rows_stay_where_the_key_has_another_name_by_now(mariadb: MySql, tmp_path: Path) -> None:
    """The sink's key cannot follow; each later row is a reject."""
    options, lake = sink_of("iceberg", tmp_path / "lake")
    pipeline = InProcessPipeline(tmp_path, mariadb, "renamed_key", options)
    pipeline.source["ingestion.ignore-errors"] = True
    make(pipeline, whole=KEYS["whole"])
    pipeline.run()
    pipeline.execute("ALTER TABLE whole CHANGE k other INT NOT NULL")
    pipeline.run("whole")
    why = "rows that it lacks stay in renamed_key.whole: renamed_key.whole has no column k, by which"
    assert len([one for one in pipeline.warnings if why in one]) == 1
    assert len(lake.rows("renamed_key", "whole")) == len(KEYS["whole"][1]) - 1


LOSSES: Final = ["purged", "reset"]


@pytest.mark.parametrize("loss", LOSSES)
def test_the_way_out_after_a_lost_log(mariadb: MySql, tmp_path: Path, loss: str) -> None:
    """A run writes nothing and names the way; that way ends with what the database has, deletes included."""
    options, lake = sink_of("iceberg", tmp_path / "lake")
    pipeline = InProcessPipeline(tmp_path, mariadb, f"lost_{loss}", options)
    base = pipeline.database
    make(pipeline, **KEYS)
    pipeline.execute("CREATE TABLE dropped (k INT PRIMARY KEY, v INT)", "INSERT INTO dropped VALUES (1, 1)")
    pipeline.run()
    for name, (_, values) in KEYS.items():
        pipeline.execute(
            f"DELETE FROM {name} WHERE v = 0", f"UPDATE {name} SET v = 100 WHERE v = 1",
            f"INSERT INTO {name} VALUES ({values[-1]}, 9)",
        )  # fmt: skip
    pipeline.execute(
        "ALTER TABLE whole ADD COLUMN w VARCHAR(5)", "UPDATE whole SET w = 'new'", "DROP TABLE dropped",
        "CREATE TABLE made (k INT PRIMARY KEY, v INT)", "INSERT INTO made VALUES (1, 1)",
    )  # fmt: skip
    if loss == "purged":
        mariadb.rotate()
        mariadb.purge(mariadb.position()[0])
    else:
        mariadb.reset_master()
        pipeline.execute("UPDATE whole SET v = v + 1 WHERE v = 9")
    before = {name: lake.rows(base, name) for name in KEYS}
    with pytest.raises(DataLoss) as caught:
        pipeline.run()
    assert "`ingest backfill FILE --all`" in caught.value.hint
    assert {name: lake.rows(base, name) for name in KEYS} == before, "nothing is written"
    if loss == "purged":
        pipeline.run(everything=True)
    else:  # table by table, the others being marked meanwhile
        first, *others = KEYS
        pipeline.run(first)
        marked = pipeline.marked()
        assert marked == sorted(f"{base}.{table}" for table in [*others, "dropped"])
        pipeline.run(*others)
        assert pipeline.marked() == [f"{base}.dropped"], "its rows stay, and somebody has to see to them"
    for name in KEYS:
        found = sorted(one[0] for one in lake.rows(base, name, columns="v"))
        assert found == sorted(row[0] for row in pipeline.execute(f"SELECT v FROM {name}")), name
    assert texts(lake.rows(base, "whole", columns="k, v, w")) == pipeline.rows("whole", "k, v, w")
    assert texts(lake.rows(base, "made", columns="k, v")) == [("1", "1")]
    assert texts(lake.rows(base, "dropped", columns="k, v")) == [("1", "1")], "rows of a table that is gone stay"
    pipeline.execute("DELETE FROM whole WHERE v = 100", "INSERT INTO made VALUES (2, 2)")
    pipeline.run()
    assert texts(lake.rows(base, "whole", columns="k, v, w")) == pipeline.rows("whole", "k, v, w")
    assert texts(lake.rows(base, "made", columns="k, v")) == [("1", "1"), ("2", "2")]


def test_the_way_out_after_a_failover_that_lost_the_tail(mariadb: MySql, mariadb11: MySql, tmp_path: Path) -> None:
    """The new server has other rows, and never had changes that were read."""
    options, lake = sink_of("delta", tmp_path / "lake")
    pipeline = InProcessPipeline(tmp_path, mariadb, "lost_tail", options)
    make(pipeline, whole=KEYS["whole"], texts=KEYS["texts"])
    pipeline.run()
    other = InProcessPipeline(tmp_path, mariadb11, "lost_tail", options)
    make(other, whole=("INT", ["4", "5", "6"]), texts=KEYS["texts"])
    with pytest.raises(DataLoss) as caught:
        other.run()
    assert "`ingest backfill FILE --all`" in caught.value.hint
    other.run(everything=True)
    other.execute("INSERT INTO whole VALUES (70, 70)", "DELETE FROM whole WHERE k = 4")
    other.run()
    for name in ("whole", "texts"):
        assert texts(lake.rows("lost_tail", name, columns="k, v")) == other.rows(name, "k, v")


def test_the_way_out_may_die_as_well(mariadb: MySql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options, lake = sink_of("delta", tmp_path / "lake")
    pipeline = InProcessPipeline(tmp_path, mariadb, "lost_dying", options)
    make(pipeline, whole=KEYS["whole"])
    pipeline.run()
    change(pipeline, whole=KEYS["whole"])
    mariadb.rotate()
    mariadb.purge(mariadb.position()[0])
    with dying(monkeypatch, (Checkpoint, "plan", 1, "after")):
        pipeline.run(everything=True)
    pipeline.execute("INSERT INTO whole VALUES (60, 60)")
    pipeline.run()
    assert texts(lake.rows("lost_dying", "whole", columns="k, v")) == pipeline.rows("whole", "k, v")


def test_a_batch_of_many_chunks_is_committed_exactly_once(mariadb: MySql, kafka: Kafka, tmp_path: Path) -> None:
    """A broker takes 4,096 bytes with an offset, in which the marks of all of them are."""
    pipeline = to_topics(mariadb, kafka, tmp_path, "again_chunks", "exactly-once")
    pipeline.execute("CREATE TABLE many (k INT PRIMARY KEY, v INT)")
    pipeline.execute("INSERT INTO many SELECT seq, seq FROM seq_1_to_900")
    pipeline.run()
    assert sorted(of_topic(kafka, f"{kafka.name}.many")) == [(number, number) for number in range(1, 901)]

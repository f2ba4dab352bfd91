"""What a sink should have, by its options and those of the pipeline: nothing that a run wrote is a difference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from deltalake import write_deltalake
from lake_tables import overwrite
from verified import FilePipeline, change_orders, found

from ingest.sinks.delta.warehouse import DeltaWarehouse

if TYPE_CHECKING:
    from pathlib import Path

    from ingest.verify.rows import TableVerdict
    from ingest.verify.verification import Verdict


def _delta(folder: Path, **more: Any) -> dict[str, Any]:
    return {"type": "delta", "warehouse": str(folder / "lake"), **more}


def _overwrite(folder: Path, name: str, change: Any) -> None:
    overwrite(folder / "lake", ("shop", name), change)


def _only(report: Verdict) -> TableVerdict:
    (table,) = report.tables
    return table


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"sink.delete-strategy": "soft"},
        {"sink.delete-strategy": "ignore"},
        {"sink.delete-strategy": "soft", "sink.sequence-by": "v"},
        {"sink.delete-strategy": "ignore", "sink.sequence-by": "v"},
        {"sink.write-mode": "append"},
        {"sink.write-mode": "append", "sink.delete-strategy": "ignore"},
    ],
    ids=lambda options: "-".join(options.values()) or "upsert",
)
def test_what_a_run_wrote_is_right_by_every_rule(options: dict[str, str], tmp_path: Path) -> None:
    pipeline = FilePipeline(tmp_path, _delta(tmp_path, **options))
    change_orders(pipeline)
    pipeline.run()
    report = pipeline.verify()
    assert report.equal, report
    old = {"id": 1, "name": "older", "v": 0}
    pipeline.change("u", {**old, "v": -1}, old)
    pipeline.change("d", {"id": 5, "name": "n5", "v": 5}, None)
    pipeline.change("c", None, {"id": 5, "name": "older", "v": 4})
    pipeline.run()
    report = pipeline.verify()
    assert report.equal, report
    _overwrite(tmp_path, "orders", lambda rows: [{**one, "name": "wrong"} if one["id"] == 5 else one for one in rows])
    assert sum(found(pipeline.verify()).values()) == 1


def test_states_that_an_appending_sink_lacks_or_has_twice(tmp_path: Path) -> None:
    pipeline = FilePipeline(tmp_path, _delta(tmp_path, **{"sink.write-mode": "append"}))
    change_orders(pipeline)
    pipeline.run()
    _overwrite(tmp_path, "orders", lambda rows: [one for one in rows if (one["id"], one["name"]) != (1, "n1")])
    report = pipeline.verify()
    assert found(report) == {"missing": 1}
    assert dict(_only(report).differences[0].key) == {"id": "1"}
    _overwrite(tmp_path, "orders", lambda rows: [*rows, {"id": 1, "name": "n1", "v": 1}, rows[-1]])
    assert found(pipeline.verify()) == {"duplicate": 1}


@pytest.mark.usefixtures("java")
def test_tables_that_are_routed_merged_filtered_and_computed(tmp_path: Path) -> None:
    pipeline = FilePipeline(
        tmp_path,
        _delta(tmp_path),
        route=[{"source-table": "shop.orders_\\.*", "sink-table": "shop.orders"}],
        transform=[
            {
                "source-table": "shop.\\.*",
                "projection": "id, UPPER(name) AS name, CAST(n AS DOUBLE) / 3 AS third",
                "filter": "n > 0",
            }
        ],
    )
    for shard in (1, 2):
        for i in range(6):
            one = {"id": 10 * shard + i, "name": f"n{i}", "n": i - 1}
            pipeline.change("c", None, one, table=f"orders_{shard}", file=f"shop{shard}")
            pipeline.change("u", one, {**one, "n": i - 2}, table=f"orders_{shard}", file=f"shop{shard}")
    pipeline.run()
    report = pipeline.verify()
    assert report.equal, report
    assert _only(report).sources == ["shop.orders_1", "shop.orders_2"]
    _overwrite(
        tmp_path,
        "orders",
        lambda rows: [{**one, "third": 0.3333333333333334} if one["id"] == 13 else one for one in rows],
    )
    report = pipeline.verify("shop.orders_1")
    assert found(report) == {"other": 1}
    assert _only(report).differences[0].cells == (("third", "0.3333333333333333", "0.3333333333333334"),)


def test_a_key_of_several_files_may_have_the_last_state_of_each(tmp_path: Path) -> None:
    pipeline = FilePipeline(tmp_path, _delta(tmp_path))
    pipeline.change("c", None, {"id": 1, "name": "a"}, file="a")
    pipeline.change("c", None, {"id": 1, "name": "b"}, file="b")
    pipeline.run()
    report = pipeline.verify()
    assert report.equal
    assert _only(report).counts.open == 1
    _overwrite(tmp_path, "orders", lambda _: [{"id": 1, "name": "c"}])
    assert found(pipeline.verify()) == {"other": 1}


def test_columns_that_came_later_or_became_wider(tmp_path: Path) -> None:
    pipeline = FilePipeline(tmp_path, _delta(tmp_path))
    pipeline.change("c", None, {"id": 1, "n": 1})
    pipeline.change("c", None, {"id": 2, "n": 9007199254740993})
    pipeline.run()
    pipeline.change("c", None, {"id": 3, "n": "x", "more": 1.5})
    pipeline.change("c", None, {"id": 4, "n": None, "more": None, "never": None})
    pipeline.run()
    report = pipeline.verify()
    assert report.equal, report
    assert _only(report).counts.compared == 4


def test_a_column_or_a_table_that_the_sink_lacks(tmp_path: Path) -> None:
    pipeline = FilePipeline(tmp_path, _delta(tmp_path))
    pipeline.change("c", None, {"id": 1, "name": "a", "n": 1})
    pipeline.change("c", None, {"id": 1, "name": "a"}, table="items")
    pipeline.run()
    warehouse = DeltaWarehouse(str(tmp_path / "lake"), {})
    table = warehouse.load(("shop", "orders"))
    write_deltalake(table, table.to_pyarrow_table().drop(["name"]), mode="overwrite", schema_mode="overwrite")
    items = warehouse.load(("shop", "items"))
    for path in (tmp_path / "lake" / "shop" / "items").rglob("*"):
        if path.is_file():
            path.unlink()
    assert items.version() >= 0
    lacking, absent = pipeline.verify().tables[::-1]
    assert (lacking.missing_columns, lacking.counts.different, lacking.equal) == (["name"], 0, False)
    assert (absent.absent, absent.counts.missing, absent.equal) == (True, 1, False)


def test_rejects_are_no_rows_and_what_is_cut_is_no_difference(tmp_path: Path) -> None:
    ddl = "CREATE TABLE shop (id BIGINT, ts TIMESTAMP(9), x DOUBLE, PRIMARY KEY (id) NOT ENFORCED)"
    source = {
        "value.format": "json", "key.format": "json", "scan.value.initial-schemas.ddls": ddl,
        "ingestion.ignore-errors": True, "schema.inference.strategy": "static",
    }  # fmt: skip
    pipeline = FilePipeline(tmp_path, _delta(tmp_path), source)
    pipeline.add(
        ({"id": 1}, {"id": 1, "ts": "2026-01-01 00:00:00.123456789", "x": 0.1234567890123456789}),
        ({"id": 2}, {"id": 2, "ts": "no time", "x": 1}),
        ({"id": 3}, {"id": 3, "ts": None, "x": 1e300}),
    )
    pipeline.run()
    report = pipeline.verify()
    assert report.equal, report
    assert report.rejected == 1
    assert report.changed == {"cut to microseconds": 1}


@pytest.mark.parametrize("strategy", ["hard", "soft", "ignore"])
def test_rows_whose_state_a_compacted_topic_has_forgotten(strategy: str, tmp_path: Path) -> None:
    ddl = "CREATE TABLE shop (id BIGINT, name STRING, PRIMARY KEY (id) NOT ENFORCED)"
    source = {"value.format": "json", "key.format": "json", "scan.value.initial-schemas.ddls": ddl}
    sink = _delta(tmp_path, **{"sink.delete-strategy": strategy})
    pipeline = FilePipeline(tmp_path, sink, source)
    pipeline.add(*[({"id": i}, {"id": i, "name": "a"}) for i in range(5)], ({"id": 1}, None), ({"id": 2}, None))
    pipeline.run()
    compacted = [({"id": i}, {"id": i, "name": "a"}) for i in (0, 3, 4)]  # one delete is left, and one is not
    (tmp_path / "shop.in").unlink()
    pipeline.add(({"id": 9}, None), *compacted, ({"id": 1}, None), ({"id": 9}, None), ({"id": 9}, None))
    report = pipeline.verify()
    (table,) = report.tables
    known = {"hard": (0, 0), "soft": (2, 0), "ignore": (0, 2)}[strategy]
    assert (table.counts.unjudged, table.counts.extra) == known

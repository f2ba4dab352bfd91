"""Numbers of messages in the tables of all sinks: whole runs in this process, each into a real table."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

import pytest
from any_lake import KINDS, lake_of
from backfills import BackfillShop
from delta_lake import DeltaLake
from lake import Lake
from lake_sink import lake_schema

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from postgres import Database

SINKS = ("postgres", "hologres", *KINDS)
KEY = {"key.format": "json"}
AVRO = {"type": "record", "name": "R", "fields": [
    {"name": "id", "type": "long"}, {"name": "d", "type": "double"}, {"name": "f", "type": "float"},
]}  # fmt: skip
PROTO = 'syntax = "proto3"; message R { int64 id = 1; double d = 2; float f = 3; }'
DDL = "CREATE TABLE t (id BIGINT, d DOUBLE, f FLOAT)"


def as_row(row: dict[str, Any]) -> bytes:
    return ("{" + ",".join(f'"{name}":{value}' for name, value in row.items()) + "}").encode()


def debezium(row: dict[str, Any]) -> bytes:
    return b'{"op":"c","after":%b,"source":{"db":"","table":"t"}}' % as_row(row)


def canal(row: dict[str, Any]) -> bytes:
    kinds = {"id": "bigint", "d": "double", "f": "float"}
    given = {name: str(value) for name, value in row.items()}
    told = {"data": [given], "table": "t", "type": "INSERT", "pkNames": ["id"], "mysqlType": kinds}
    return json.dumps(told).encode()


def maxwell(row: dict[str, Any]) -> bytes:
    return b'{"data":%b,"table":"t","type":"insert","primary_key_columns":["id"]}' % as_row(row)


def avro(row: dict[str, Any]) -> bytes:
    return struct.pack("<Bdf", int(row["id"]) * 2, float(row["d"]), float(row["f"]))


def protobuf(row: dict[str, Any]) -> bytes:
    return struct.pack("<BBBdBf", 0x08, int(row["id"]), 0x11, float(row["d"]), 0x1D, float(row["f"]))


FORMATS: dict[str, tuple[dict[str, Any], Callable[[dict[str, Any]], bytes]]] = {
    "json": ({**KEY, "value.format": "json"}, as_row),
    "debezium-json": ({"value.format": "debezium-json"}, debezium),
    "maxwell-json": ({"value.format": "maxwell-json"}, maxwell),
    "canal-json": ({"value.format": "canal-json", "canal-json.infer-schema.strategy": "MYSQL_TYPE"}, canal),
    "avro": ({**KEY, "value.format": "avro", "avro.schema": json.dumps(AVRO)}, avro),
    "protobuf": (
        {**KEY, "value.format": "protobuf", "protobuf.schema": PROTO, "protobuf.message-class-name": "R"}, protobuf,
    ),
    "json, declared": ({**KEY, "value.format": "json", "scan.value.initial-schemas.ddls": DDL}, as_row),
    "csv, declared": (
        {**KEY, "value.format": "csv", "scan.value.initial-schemas.ddls": DDL},
        lambda row: ",".join(map(str, row.values())).encode(),
    ),
}  # fmt: skip
TOLD, DECLARED = ("canal-json", "avro", "protobuf"), ("json, declared", "csv, declared")


class Tables:
    """A sink, and a pipeline into its table `t`, which may run again and again."""

    def __init__(self, folder: Path, postgres: Database, name: str, kind: str) -> None:
        self.postgres, self.name, self.kind = postgres, name, kind
        self.shop = BackfillShop(folder, own_sink=True)
        self.lake: Any = {"iceberg": Lake, "delta": DeltaLake}[kind](folder / "lake") if kind in KINDS else None
        self.sink: dict[str, Any] = {
            "type": kind, "endpoint": f"127.0.0.1:{postgres.port}", "dbname": "postgres", "username": "ingest",
            "password": "of-the-tests", "sink.transactional-id-prefix": name,
        }  # fmt: skip
        if kind in KINDS:
            place = "catalog.properties.warehouse" if kind == "iceberg" else "warehouse"
            self.sink = {"type": kind, place: str(folder / "lake")}

    def become(self, columns: str) -> None:
        """Let somebody change the table: `columns` with the types that it has then."""
        if self.lake is not None:
            other = lake_of(self.kind, self.lake.folder).side
            other.declare({(self.name, "t"): lake_schema("id BIGINT", *columns.split(", "))})
            return
        kinds = {"DOUBLE": "double precision", "FLOAT": "real"}
        for column, _, kind in (one.partition(" ") for one in columns.split(", ")):
            self.postgres.ask(f"ALTER TABLE {self.name}.t ALTER {column} TYPE {kinds.get(kind, kind)}")

    def run(self, form: str, *rows: dict[str, Any], source: Any = None, **sections: Any) -> dict[str, int]:
        """Run once more, with further rows; returns how many numbers of columns are rounded."""
        options, encode = FORMATS[form]
        for row in rows:
            self.shop.messages.append((0, b'{"id":%d}' % row["id"], encode(row)))
        source = {"topic": "t", **options, **(source or {})}
        sink = {**self.sink, **sections.pop("sink", {})}
        route = [{"source-table": r"\.*", "sink-table": f"{self.name}.t"}]
        self.shop.topics = ("t",)
        _, summary = self.shop.go(source=source, sink=sink, route=route, **sections)
        return {column.rpartition(".")[2]: count for column, count in summary.rounded.items()}

    def rows(self, columns: str = "d, f", order: str = "id") -> list[tuple[Any, ...]]:
        if self.lake is None:
            return self.postgres.ask(f"SELECT {columns} FROM {self.name}.t ORDER BY {order}")
        found: list[tuple[Any, ...]] = self.lake.ask(f"SELECT {columns} FROM {{}} ORDER BY {order}", self.name, "t")
        return found


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("kind", SINKS)
def test_a_table_has_the_numbers_of_messages(
    tmp_path: Path, postgres: Database, name: str, kind: str, form: str
) -> None:
    tables = Tables(tmp_path, postgres, name, kind)
    large = "1.2345678901234567E17" if form in TOLD else "9007199254740993"
    first = tables.run(form, {"id": 1, "d": 0.5, "f": 0.25}, {"id": 2, "d": "3.3333333333333335", "f": "0.1"})
    second = tables.run(form, {"id": 3, "d": large, "f": 0.5})
    (_, f1), (d2, f2), (d3, f3) = tables.rows()
    stays = form in DECLARED or kind == "hologres"
    if form in TOLD:
        assert (first, second) == ({}, {})
        assert (d2, d3) == (10 / 3, float(large))
        assert (f1, struct.pack("<f", f2), f3) == (0.25, struct.pack("<f", 0.1), 0.5)
    elif stays:
        assert (first, second) == ({"f": 1} if form in DECLARED else {}, {"d": 1})
        assert (d2, d3) == (10 / 3, 9007199254740992)
        assert sum("column 'd' that no FLOAT or DOUBLE is" in text for text in tables.shop.warnings) == 1
        assert any("its numbers are rounded and counted" in text for text in tables.shop.warnings) == (
            form not in DECLARED
        )
    else:
        assert (first, second) == ({}, {})
        assert (d2, d3) == ("3.3333333333333335", "9007199254740993")
    assert not tables.shop.rejects


STAY: list[dict[str, Any]] = [
    {"source": {"scan.value.initial-schemas.ddls": "CREATE TABLE t (id BIGINT, d BIGINT)"}},
    {"source": {"schema.inference.strategy": "static"}},
    {"sink": {"exclude.schema.changes": "alter"}},
]


@pytest.mark.parametrize("more", [{}, {"pipeline": {"schema.change.behavior": "try_evolve"}}, *STAY])
@pytest.mark.parametrize("kind", SINKS)
def test_integers_in_a_column_that_is_a_double_by_now(
    tmp_path: Path, postgres: Database, name: str, kind: str, more: dict[str, Any]
) -> None:
    tables = Tables(tmp_path, postgres, name, kind)
    assert tables.run("json", {"id": 1, "d": 1, "f": 1}, **more) == {}
    tables.become("d DOUBLE, f DOUBLE")
    assert tables.run("json", {"id": 2, "d": 9007199254740994, "f": 5}, **more) == {}
    assert tables.rows() == [(1.0, 1.0), (9007199254740994.0, 5.0)]
    third = tables.run("json", {"id": 3, "d": -9007199254740993, "f": 6}, **more)
    if more in STAY or kind == "hologres":
        assert third == {"d": 1}
        assert tables.rows()[-1] == (-9007199254740992.0, 6.0)
        assert sum("column 'd' that no FLOAT or DOUBLE is" in text for text in tables.shop.warnings) == 1
        assert tables.run("json", {"id": 4, "d": 7, "f": 7}, **more) == {}, "it goes on"
    else:
        assert third == {}
        assert tables.rows()[-1] == ("-9007199254740993", 6.0)
    assert not tables.shop.rejects


@pytest.mark.parametrize("known", [True, False], ids=["known", "first-seen"])
@pytest.mark.parametrize("kind", ["postgres", "hologres", "iceberg"])
def test_a_column_that_cannot_change_takes_the_nearest_number(
    tmp_path: Path, postgres: Database, name: str, kind: str, known: bool
) -> None:
    """A view uses it, Hologres changes none, or it makes partitions: the run says so once, and goes on."""
    tables = Tables(tmp_path, postgres, name, kind)
    more = {"transform": [{"source-table": "t", "partition-keys": "d"}]} if kind == "iceberg" else {}
    assert tables.run("json", {"id": 1, "d": 0.5, "f": 1}, **more) == {}
    if kind == "postgres":
        postgres.ask(f"CREATE VIEW {name}.v AS SELECT d FROM {name}.t")
    if not known:  # by another checkpoint
        tables.shop = BackfillShop(tmp_path / "other", own_sink=True)
    rows = [{"id": at, "d": d, "f": 1} for at, d in ((2, "9007199254740993.5"), (3, "0.25"))]
    assert tables.run("json", *rows, **more) == {"d": 1}
    assert [d for (d,) in tables.rows("d")] == [0.5, 9007199254740994.0, 0.25]
    (kept,) = [text for text in tables.shop.warnings if "its numbers are rounded and counted" in text]
    assert "ALTER COLUMN d DOUBLE -> STRING, for 9007199254740993.5, cannot be done in the sink" in kept
    ignoring = {"ingestion.ignore-errors": True}
    assert tables.run("json", {"id": 4, "d": '"x"', "f": 1}, {"id": 5, "d": 4, "f": 1}, source=ignoring, **more) == {}
    assert [one.code for one in tables.shop.rejects] == ["withheld-change"]
    assert tables.rows("d")[-1] == (4.0,)
    extreme = [{"id": at, "d": d, "f": 1} for at, d in ((6, "-1e400"), (7, "1e-400"), (8, "0.75"))]
    assert tables.run("json", *extreme, source=ignoring, **more) == {"d": 1}
    assert [d for (d,) in tables.rows("d")][-2:] == [0.0, 0.75]
    refused = tables.shop.rejects[-1]
    assert (refused.code, refused.offset) == ("type-mismatch", 4 + known)
    assert "column 'd' holds -1e400, which is beyond every DOUBLE" in refused.message


@pytest.mark.parametrize("kind", SINKS)
def test_the_column_that_orders_changes_never_becomes_a_text(
    tmp_path: Path, postgres: Database, name: str, kind: str
) -> None:
    """By texts, 9 would be newer than 10."""
    tables = Tables(tmp_path, postgres, name, kind)
    more = {
        "sink": {"sink.sequence-by": "d", "sink.delete-strategy": "soft"},
        "source": {"ingestion.ignore-errors": True},
    }
    assert tables.run("json", {"id": 2, "d": 0.5, "f": 1}, {"id": 1, "d": 9, "f": 1}, **more) == {}
    rows = [{"id": 1, "d": d, "f": at} for at, d in enumerate(['"x"', "10", "9", "9007199254740993", "11"])]
    assert tables.run("json", *rows, **more) == {"d": 1}
    assert tables.rows() == [(9007199254740992.0, 3), (0.5, 1)]
    assert [one.code for one in tables.shop.rejects] == ["withheld-change"]
    assert tables.run("json", {"id": 1, "d": '"999"', "f": 8}, {"id": 1, "d": 100, "f": 9}, **more) == {}
    assert tables.rows()[0] == (9007199254740992.0, 3)
    assert [one.code for one in tables.shop.rejects] == ["withheld-change"]


@pytest.mark.parametrize("kind", SINKS)
def test_numbers_beyond_a_declared_column_are_rejects(tmp_path: Path, postgres: Database, name: str, kind: str) -> None:
    """What is nearer to zero than all numbers of the column is zero, also for a server that refuses to read it."""
    tables = Tables(tmp_path, postgres, name, kind)
    numbers = [("1e400", "0.5"), ("-1e-400", "1e-50"), ("0.5", "-1e39"), ("4.9E-324", "1.0")]
    rows = [{"id": at, "d": d, "f": f} for at, (d, f) in enumerate(numbers)]
    counted = tables.run("json, declared", *rows, source={"ingestion.ignore-errors": True})
    assert counted == {"d": 1, "f": 1}
    assert tables.rows() == [(0.0, 0.0), (5e-324, 1.0)]
    assert [(one.offset, one.code) for one in tables.shop.rejects] == [(0, "type-mismatch"), (2, "type-mismatch")]


@pytest.mark.parametrize("kind", ["numeric", "text", "numeric(20,2)"])
def test_a_column_that_keeps_all_digits_stays_for_any_number(
    tmp_path: Path, postgres: Database, name: str, kind: str
) -> None:
    tables = Tables(tmp_path, postgres, name, "postgres")
    postgres.ask(f"CREATE SCHEMA {name}; CREATE TABLE {name}.t (id bigint PRIMARY KEY, d {kind}, f bigint)")
    numbers = ["0.5", "3.3333333333333333", "123456789012345678.91", "9007199254740993"]
    for at, number in enumerate(numbers):  # each in a batch of its own
        assert tables.run("json", {"id": at, "d": number, "f": 1}) == {}
    assert [str(d) for (d,) in tables.rows("d::text")] == numbers
    (found,) = postgres.ask(f"SELECT DISTINCT pg_typeof(d)::text FROM {name}.t")
    assert found == (kind.partition("(")[0],), "numbers of any size fit it, so that it is no text"


@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.parametrize("kind", SINKS)
def test_two_keys_are_never_one_number(
    tmp_path: Path, postgres: Database, name: str, kind: str, declared: bool
) -> None:
    tables = Tables(tmp_path, postgres, name, kind)
    ddl = "CREATE TABLE t (d DOUBLE, f INT, PRIMARY KEY (d) NOT ENFORCED)"
    source: dict[str, Any] = {"value.format": "debezium-json", "ingestion.ignore-errors": True}
    if declared:
        source["scan.value.initial-schemas.ddls"] = ddl

    def run(op: str, *keys: str) -> None:
        rows = [f'{{"d":{key},"f":1}}' for key in keys]
        before, after = ("null", rows[0]) if op == "c" else (rows[0], "null")
        value = f'{{"op":"{op}","before":{before},"after":{after},"source":{{"db":"","table":"t"}}}}'
        tables.shop.messages.append((0, f'{{"d":{keys[0]}}}'.encode(), value.encode()))
        tables.run("debezium-json", source=source)

    run("c", "0.5")
    run("c", "3.3333333333333335")
    run("d", "3.3333333333333333")
    run("d", "9007199254740993")
    assert [float(d) for (d,) in tables.rows("d", "d")] == [0.5, 10 / 3], "no row had these keys"
    run("c", "3.3333333333333333")
    found = [d for (d,) in tables.rows("d", "d")]
    if declared and kind != "hologres":  # where keys are texts
        assert found == [0.5, 10 / 3]
        assert [one.code for one in tables.shop.rejects] == ["type-mismatch"]
        assert "column 'd' holds 3.3333333333333333, which its DOUBLE would round" in tables.shop.rejects[0].message
    else:
        assert found == ["0.5", "3.3333333333333333", "3.3333333333333335"]
        run("d", "3.3333333333333333")
        assert [d for (d,) in tables.rows("d", "d")] == ["0.5", "3.3333333333333335"]


@pytest.mark.parametrize("kind", SINKS)
def test_a_key_of_floats_that_becomes_double_finds_its_rows(
    tmp_path: Path, postgres: Database, name: str, kind: str
) -> None:
    """Lakes read a FLOAT of 0.1 as the DOUBLE 0.10000000149011612, which is another key."""
    tables = Tables(tmp_path, postgres, name, kind)

    def run(op: str, f: int, key: str, kind: str) -> None:
        row, column = f'{{"d":{key},"f":{f}}}', f'{{"type":"{kind}","field":"d"}}'
        before, after = ("null" if op == "c" else row), ("null" if op == "d" else row)
        image = f'{{"type":"struct","field":"after","fields":[{column},{{"type":"int32","field":"f"}}]}}'
        payload = f'{{"op":"{op}","before":{before},"after":{after},"source":{{"db":"","table":"t"}}}}'
        of_key = f'{{"schema":{{"type":"struct","fields":[{column}]}},"payload":{{"d":{key}}}}}'
        value = f'{{"schema":{{"type":"struct","fields":[{image}]}},"payload":{payload}}}'
        tables.shop.messages.append((0, of_key.encode(), value.encode()))
        tables.run("debezium-json", source={"value.format": "debezium-json"})

    run("c", 1, "0.1", "float")
    run("c", 2, "0.3", "double")
    run("u", 3, "0.1", "float")
    assert tables.rows("f", "f") == [(2,), (3,)]
    run("d", 3, "0.1", "float")
    assert tables.rows("f", "f") == [(2,)]
    assert not tables.shop.rejects


KEYS = {
    "DOUBLE": "1e300 -1e300 1.5 0.1 -0.0 1e-7 1.5e-7 1e15 1e16 123456.789 5e22 7e22 1.9e22 1e23 1.25e40 1e40 1e41 "
    "-1.5e42 1.801439850948199e16 -1.801439850948199e16 1e-41 1e-42 -2.5e-300 5e-324 1.7976931348623157e308 0.00001 "
    "3.3333333333333335",
    "FLOAT": "1.5 0.1 -0.0 1e-7 1.5e-7 1e15 1e22 30000000000 -30000000000.0 0.00001 1e-41 -1e-42 3.4028235e38",
    "DECIMAL(38,10)": "1.50 0.1000000000 0.0000000001 100.0 -0.00 -12.340 12345678901234567890.0000000000",
    "DECIMAL(100,50)": "1.50 1e60 -2.5e45 1e-45 -1.25e-46 100.0",
}
"""Numbers of a key, by the type of their column."""


@pytest.mark.parametrize("declared", KEYS)
@pytest.mark.parametrize("kind", SINKS)
def test_a_key_that_becomes_text_finds_its_rows(
    tmp_path: Path, postgres: Database, name: str, kind: str, declared: str
) -> None:
    """Whatever text the server or the library has for the number."""
    tables = Tables(tmp_path, postgres, name, kind)
    numeric = declared.startswith("DECIMAL(100")
    if numeric:
        postgres.ask(f"CREATE SCHEMA {name}; CREATE TABLE {name}.t (d numeric PRIMARY KEY, f bigint)")
        if kind != "postgres":
            return  # the others have no such column
    ddl = "" if numeric else f"CREATE TABLE t (d {declared}, f INT, PRIMARY KEY (d) NOT ENFORCED)"
    source = {"value.format": "debezium-json"} | ({"scan.value.initial-schemas.ddls": ddl} if ddl else {})

    def run(op: str, f: int, *keys: str) -> None:
        for key in keys:
            row = f'{{"d":{key},"f":{f}}}'
            before, after = ("null" if op == "c" else row), ("null" if op == "d" else row)
            value = f'{{"op":"{op}","before":{before},"after":{after},"source":{{"db":"","table":"t"}}}}'
            tables.shop.messages.append((0, f'{{"d":{key}}}'.encode(), value.encode()))
        tables.run("debezium-json", source=source)

    keys = KEYS[declared].split()
    run("c", 1, *keys)
    assert len(tables.rows("d", "d")) == len(keys)
    run("c", 2, '"x"')
    run("u", 3, *keys)
    assert tables.rows("d, f", "f")[0] == ("x", 2), "no row has its first state"
    assert len(tables.rows("d", "d")) == len(keys) + 1
    run("d", 3, *keys)
    assert tables.rows("d, f", "f") == [("x", 2)]
    assert not tables.shop.rejects

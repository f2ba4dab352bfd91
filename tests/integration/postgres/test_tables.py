"""Tables of a real PostgreSQL: types, those that widen, names, and what a run may not change."""

from __future__ import annotations

import dataclasses
import itertools
import json
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from inmemory import pipeline
from postgres_sink import SPLIT, VALUES, made, options, owned, schema, task, write

from ingest.errors import IngestError, SchemaChangeRefused
from ingest.model import types
from ingest.model.schema import Column, TableSchema
from ingest.schema.evolve import Schemas, SourceTable
from ingest.sinks.postgres.ddl import changes
from ingest.sinks.postgres.tables import look_up, table_of
from ingest.sinks.postgres.types import holds, joined, type_of
from ingest.task import worker
from ingest.task.pipeline import run_task
from ingest.task.task import Setup, Task
from ingest.testing.in_memory import MemoryRecord, in_memory

if TYPE_CHECKING:
    from postgres import Database

    from ingest.model.types import DataType
    from ingest.sinks.postgres.options import SqlSinkOptions


class Sent:
    """What a worker sees of a broadcast."""

    def __init__(self, value: object) -> None:
        self.value: Any = value


@pytest.mark.usefixtures("_staged")
def test_each_type_takes_its_values_and_gives_them_back(postgres: Database, sink: SqlSinkOptions, name: str) -> None:
    kinds = list(VALUES)
    columns = [f"c{at} {kind}" for at, kind in enumerate(kinds)]
    table = made(sink, name, schema("id INT", *columns))
    most = max(map(len, VALUES.values()))
    rows = []
    for number in range(most + 1):
        found = [VALUES[kind][number] if number < len(VALUES[kind]) else "null" for kind in kinds]
        fields = ",".join(f'"c{at}":{text}' for at, text in enumerate(found))
        rows.append((f'{{"id":{number}}}', f'{{"id":{number},{fields}}}'))
    write(sink, table, *rows)
    for at, kind in enumerate(kinds):
        column = f"c{at}"
        texts = "json_agg(x ORDER BY id)"
        if kind == "BYTES":
            texts = "json_agg(encode(x, 'base64') ORDER BY id)"
        query = f"SELECT {texts}::text FROM (SELECT id, {column} AS x FROM {name}.t WHERE {column} IS NOT NULL) r"
        (shown,) = postgres.ask(query)[0]
        query = "SELECT %s::jsonb = %s::jsonb"
        wanted = "[" + ",".join(VALUES[kind]) + "]"
        if kind.startswith("TIMESTAMP"):
            shown = shown.replace("T", " ").replace("+00:00", "Z")
        assert postgres.ask(query, shown, wanted) == [(True,)], (kind, shown)


@pytest.mark.usefixtures("_staged")
def test_states_of_a_key_become_its_last_one(postgres: Database, sink: SqlSinkOptions, name: str) -> None:
    table = made(sink, name, schema("id BIGINT", "n INT"))
    write(
        sink, table,
        ('{"id":1}', '{"id":1,"n":1}'), ('{"id":2}', '{"id":2,"n":1}'), ('{"id":1}', None), ('{"id":3}', None),
        ('{"id":1}', '{"id":1,"n":2}'), ('{"id":4}', '{"n":4, "id" :\n4}'), ('{"id":4}', None),
    )  # fmt: skip
    assert postgres.rows(f"{name}.t", "id, n") == [(1, 2), (2, 1)]
    write(sink, table, ('{"id":2}', None), ('{"id":1}', '{"id":1,"n":null}'), batch=2)
    assert postgres.rows(f"{name}.t", "id, n") == [(1, None)]


@pytest.mark.usefixtures("_staged")
@pytest.mark.parametrize(("kind", "one", "other"), [
    ("STRING", "41", '"41"'), ("DOUBLE", "0.1", "0.10000000000000001"), ("INT", "41", '"41"'),
    ("DECIMAL(5,2)", "1.5", '"1.50"'), ("TIME(6)", '"12:00:00"', '"12:00:00.0"'), ("BYTES", '"QQ=="', '"QR=="'),
    ("TIMESTAMP_LTZ", '"2020-01-31 12:00:00Z"', '"2020-01-31T12:00:00Z"'),
])  # fmt: skip
def test_two_texts_of_one_key_are_one_row(
    postgres: Database, sink: SqlSinkOptions, name: str, kind: str, one: str, other: str
) -> None:
    table = made(sink, name, schema(f"id {kind}", "n INT"))

    def row(key: str, number: int | None) -> tuple[str, str | None]:
        return f'{{"id":{key}}}', None if number is None else f'{{"id":{key},"n":{number}}}'

    for batch, (rows, left) in enumerate((
        ([row(one, 1), row(other, 2)], [2]),
        ([row(other, 3), row(one, 4)], [4]),
        ([row(one, None), row(other, 5)], [5]),
        ([row(one, 6), row(other, None)], []),
        ([row(other, 7)], [7]),
        ([row(one, None)], []),
    ), start=1):  # fmt: skip
        write(sink, table, *rows, batch=batch)
        assert postgres.rows(f"{name}.t", "n") == [(number,) for number in left], rows


@pytest.mark.usefixtures("_staged")
@pytest.mark.parametrize(("kind", "key", "spelled"), [
    ("STRING", "1.5", "1.50"), ("STRING", "100", "1e2"), ("STRING", '"a"', '"a"'), ("BIGINT", "5", "5.0e0"),
    ("ARRAY<INT>", '"[1]"', "[ 1 ]"), ("ROW<a INT>", '"{\\"a\\":1}"', '{"a": 1}'),
])  # fmt: skip
def test_a_key_is_what_keys_say_however_rows_spell_it(
    postgres: Database, sink: SqlSinkOptions, name: str, kind: str, key: str, spelled: str
) -> None:
    table = made(sink, name, schema(f"id {kind}", "n INT"))
    write(sink, table, (f'{{"id":{key}}}', f'{{"id":{spelled},"n":1}}'))
    write(sink, table, (f'{{"id":{key}}}', f'{{"id":{key},"n":2}}'), batch=2)
    assert postgres.rows(f"{name}.t", "n") == [(2,)]
    write(sink, table, (f'{{"id":{key}}}', None), batch=3)
    assert postgres.rows(f"{name}.t", "n") == []


@pytest.mark.usefixtures("_staged")
def test_a_key_of_two_columns_in_another_order_than_the_table(
    postgres: Database, sink: SqlSinkOptions, name: str
) -> None:
    two = TableSchema(
        (Column("b", types.STRING, nullable=False), Column("n", types.INT), Column("a", types.BIGINT, nullable=False)),
        ("a", "b"),
    )
    table = made(sink, name, two)
    key = '{"a":1,"b":"x"}'
    write(sink, table, (key, '{"b":"x","n":1,"a":1}'), ('{"a":1,"b":"y"}', '{"b":"y","n":2,"a":1}'))
    write(sink, table, (key, None), batch=2)
    assert postgres.rows(f"{name}.t", "b, n, a") == [("y", 2, 1)]


@pytest.mark.usefixtures("_staged")
def test_a_key_that_becomes_text_is_still_the_key(postgres: Database, sink: SqlSinkOptions, name: str) -> None:
    coordinator = owned(sink)
    number = schema("id DECIMAL(5,2)", "n INT")
    coordinator.declare({(name, "t"): number})
    write(sink, table_of((name, "t"), number, "public"), ('{"id":1.5}', '{"id":1.50,"n":1}'))
    text = schema("id STRING", "n INT")
    coordinator.declare({(name, "t"): text})
    write(sink, table_of((name, "t"), text, "public"), ('{"id":1.5}', '{"id":"1.50","n":2}'), batch=2)
    assert postgres.rows(f"{name}.t", "id, n") == [("1.5", 2)]


@pytest.mark.usefixtures("_staged")
def test_a_table_of_its_key_alone(postgres: Database, sink: SqlSinkOptions, name: str) -> None:
    table = made(sink, name, schema("id INT"))
    for batch in (1, 2):
        write(sink, table, ('{"id":1}', '{"id":1}'), batch=batch)
    assert postgres.rows(f"{name}.t", "id") == [(1,)]


# -- types that widen --------------------------------------------------------------------------------------------------


def _merges() -> list[tuple[str, str]]:
    """Pairs of types of which rows had the first one, and then the second one."""
    return [(one, two) for one, two in itertools.product(VALUES, VALUES) if _merged(one, two) != types.parse(one)]


def _merged(one: str, two: str) -> DataType:
    return types.merge(types.parse(one), types.parse(two))


@pytest.mark.parametrize("first", list(VALUES))
def test_every_type_widens_as_schemas_do(postgres: Database, sink: SqlSinkOptions, name: str, first: str) -> None:
    """Each other type makes a column wider, and the values that are there stay what they are."""
    coordinator = owned(sink)
    for at, (_, second) in enumerate(pair for pair in _merges() if pair[0] == first):
        table, wide = (name, f"t{at}"), _merged(first, second)
        narrow = schema("id INT", f"c {first}")
        coordinator.declare({table: narrow})
        rows = [(f'{{"id":{i}}}', f'{{"id":{i},"c":{text}}}') for i, text in enumerate(VALUES[first])]
        write(sink, table_of(table, narrow, "public"), *rows, batch=2 * at + 1)
        before = [text for _, text in postgres.rows(f"{name}.t{at}", "id, c::text")]
        widened = TableSchema((narrow.columns[0], Column("c", wide)), ("id",))
        for _ in range(2):
            coordinator.declare({table: widened})
        there = dict(postgres.ask(
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = %s::regclass"
            " AND attnum > 0", f"{name}.t{at}",
        ))  # fmt: skip
        assert holds(there["c"], type_of(wide) or ""), (first, second)
        after = [text for _, text in postgres.rows(f"{name}.t{at}", "id, c::text")]
        if wide == types.STRING and first == "BYTES":
            assert after == ["AP8=", ""]
        elif wide == types.STRING:
            assert after == [text.replace("+00", "Z") for text in before]
        (count,) = postgres.rows(f"{name}.t{at}", "count(c)")[0]
        assert count == len(rows), (first, second)


@pytest.mark.parametrize(("known", "wanted", "expected"), [
    ("bigint", "integer", "bigint"), ("integer", "bigint", "bigint"), ("numeric", "numeric(38,10)", "numeric"),
    ("numeric(10,2)", "integer", "numeric(12,2)"), ("numeric(12,2)", "integer", "numeric(12,2)"),
    ("numeric(5,2)", "numeric(5,3)", "numeric(6,3)"), ("numeric(6,3)", "numeric(5,2)", "numeric(6,3)"),
    ("numeric(900,0)", "numeric(900,500)", "numeric"), ("text", "integer", "text"), ("integer", "text", "text"),
    ("character varying(5)", "integer", "text"), ("text", "bytea", None), ("bytea", "text", "text"),
    ("json", "jsonb", "json"), ("jsonb", "text", "text"), ("uuid", "text", "text"), ("uuid", "integer", None),
    ("double precision", "real", "double precision"), ("real", "double precision", "double precision"),
    ("double precision", "bigint", "double precision"), ("bigint", "double precision", "numeric"),
    ("real", "integer", "double precision"), ("real", "smallint", "real"), ("smallint", "real", "real"),
    ("real", "bigint", "numeric"), ("double precision", "numeric(5,2)", "numeric"),
    ("time(6) without time zone", "time(3) without time zone", "time(6) without time zone"),
    ("time(3) without time zone", "time(6) without time zone", "time(6) without time zone"),
    ("timestamp without time zone", "date", "timestamp without time zone"),
    ("date", "timestamp without time zone", "timestamp without time zone"),
    ("timestamp(3) without time zone", "timestamp without time zone", "timestamp without time zone"),
    ("timestamp(3) with time zone", "timestamp without time zone", "timestamp with time zone"),
    ("timestamp with time zone", "timestamp without time zone", "timestamp with time zone"),
    ("timestamp with time zone", "date", "timestamp with time zone"), ("boolean", "integer", None),
])  # fmt: skip
def test_the_type_that_holds_both(known: str, wanted: str, expected: str | None) -> None:
    assert joined(known, wanted) == expected
    assert holds(known, wanted) is (joined(known, wanted) == known)


# -- tables that are there ---------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("_staged")
def test_a_table_of_the_users_is_used_as_it_is(postgres: Database, sink: SqlSinkOptions, name: str) -> None:
    postgres.ask(
        f"CREATE SCHEMA {name}; CREATE TABLE {name}.t (own text DEFAULT 'x', id bigint, n text, gone int);"
        f"ALTER TABLE {name}.t DROP COLUMN gone; CREATE UNIQUE INDEX ON {name}.t (id) INCLUDE (n)"
    )
    table = made(sink, name, schema("id INT", "n INT", "m DATE"))
    write(sink, table, ('{"id":1}', '{"id":1,"n":5,"m":null}'))
    assert postgres.rows(f"{name}.t", "own, id, n, m") == [("x", 1, "5", None)]


@pytest.mark.usefixtures("_staged")
def test_a_column_of_the_users_is_never_made_narrower(postgres: Database, sink: SqlSinkOptions, name: str) -> None:
    postgres.ask(
        f"CREATE SCHEMA {name}; CREATE TABLE {name}.t (id text PRIMARY KEY, price numeric(12,2), d double precision,"
        " f double precision, at timestamptz(3), r real)"
    )
    table = made(sink, name, schema("id INT", "price BIGINT", "d INT", "f DECIMAL(38,18)", "at TIMESTAMP", "r DOUBLE"))
    row = '{"id":1,"price":5,"d":7,"f":0.12345678901234568,"at":"2020-01-31 12:00:00.123456","r":0.1}'
    write(sink, table, ('{"id":1}', row))
    kinds = "pg_typeof(price)::text, pg_typeof(d)::text, f::text, at::text, r::text"
    assert postgres.rows(f"{name}.t", kinds) == [
        ("numeric", "double precision", "0.12345678901234568", "2020-01-31 12:00:00.123456+00", "0.1")
    ]
    write(sink, table, ('{"id":1}', None), batch=2)
    assert postgres.rows(f"{name}.t", "id") == []


def test_numbers_keep_their_digits_when_they_widen(postgres: Database, sink: SqlSinkOptions, name: str) -> None:
    postgres.ask(
        f"CREATE SCHEMA {name}; CREATE TABLE {name}.t (id int PRIMARY KEY, d double precision, r real, b bigint);"
    )
    postgres.ask(
        psycopg.sql.SQL("INSERT INTO {} VALUES (1, 0.12345678901234568, 16777215, 9007199254740993)").format(
            psycopg.sql.Identifier(name, "t")
        )
    )
    made(sink, name, schema("id INT", "d DECIMAL(38,18)", "r DECIMAL(20,2)", "b DOUBLE"))
    assert postgres.rows(f"{name}.t", "d::text, r::text, b::text") == [
        ("0.12345678901234568", "16777215", "9007199254740993")
    ]


def test_integers_that_no_double_holds_are_found(postgres: Database, sink: SqlSinkOptions, name: str) -> None:
    postgres.ask(f"CREATE SCHEMA {name}; CREATE TABLE {name}.t (id int PRIMARY KEY, a bigint, b bigint, c numeric)")
    for at, number in enumerate([2**53, -(2**53), 2**53 + 1]):
        small = min(number, 2**53)
        postgres.ask(f"INSERT INTO {name}.t VALUES ({at}, {small}, {number}, {number})")
    asked = owned(sink)
    assert asked.beyond((name, "t"), schema("id INT", "a DOUBLE"), ["a", "b", "c", "other"]) == {"b"}
    assert asked.beyond((name, "none"), schema("id INT", "a DOUBLE"), ["a"]) == set()


@pytest.mark.parametrize(("kind", "of_text"), [("postgres", {"s": types.STRING}), ("hologres", {})])
def test_types_by_which_a_table_keeps_numbers_are_seen(
    postgres: Database, name: str, kind: str, of_text: dict[str, DataType]
) -> None:
    """So that rows of another type are rounded with a count, or widen the column, by what the table is."""
    there = "id text PRIMARY KEY, d double precision, f real, n numeric, s text, m double precision, b bigint"
    postgres.ask(f"CREATE SCHEMA {name}; CREATE TABLE {name}.t ({there})")
    asked = owned(options(postgres, type=kind))
    rows = schema("id DOUBLE", "d BIGINT", "f SMALLINT", "n DOUBLE", "s DOUBLE", "m DOUBLE", "b INT")
    wanted = {"id": types.STRING, "d": types.DOUBLE, "f": types.FLOAT, "n": types.STRING, **of_text}
    for ask in (asked.undeclared, asked.declare):
        asked.stored.clear()
        ask({(name, "t"): rows})
        assert asked.stored == {(name, "t"): wanted}
    asked.declare({(name, "t"): schema("id DOUBLE", "d STRING")} if of_text else {})
    assert asked.stored[name, "t"].get("d") == (None if of_text else types.DOUBLE)


@pytest.mark.parametrize("user", [
    "CREATE VIEW {0}.v AS SELECT d FROM {0}.t", "CREATE MATERIALIZED VIEW {0}.v AS SELECT d FROM {0}.t",
    "ALTER TABLE {0}.t ADD g double precision GENERATED ALWAYS AS (d * 2) STORED",
    "CREATE POLICY p ON {0}.t USING (d > 0)",
])  # fmt: skip
def test_a_column_that_something_uses_is_told_before_it_is_changed(
    postgres: Database, sink: SqlSinkOptions, name: str, user: str
) -> None:
    """The server refuses to change its type, and by then a run would have stopped."""
    asked = owned(sink)
    asked.declare({(name, "t"): schema("id INT", "d DOUBLE", "free DOUBLE")})
    wanted = schema("id INT", "d STRING", "free STRING")
    assert asked.unfit((name, "t"), wanted) == {}
    postgres.ask(user.format(name))
    assert list(asked.unfit((name, "t"), wanted)) == ["d"]
    assert "uses it" in asked.unfit((name, "t"), wanted)["d"]
    with pytest.raises(IngestError):
        asked.declare({(name, "t"): wanted})
    asked.declare({(name, "t"): schema("id INT", "d DOUBLE", "free STRING")})


@pytest.mark.parametrize(("table", "why"), [
    ("(id int, n int)", "no unique index of (id)"),
    ("(id int UNIQUE DEFERRABLE, n int)", "no unique index of (id)"),
    ("(id int, n int, UNIQUE (id, n))", "there: (id, n)"),
    ("(id int PRIMARY KEY, n uuid)", "'n' is uuid"),
    ("(id int PRIMARY KEY, n boolean)", "'n' is boolean"),
])  # fmt: skip
def test_a_table_that_cannot_take_the_rows_is_refused(
    postgres: Database, sink: SqlSinkOptions, name: str, table: str, why: str
) -> None:
    postgres.ask(f"CREATE SCHEMA {name}; CREATE TABLE {name}.t {table}")
    with pytest.raises(SchemaChangeRefused) as refused:
        made(sink, name, schema("id INT", "n INT"))
    assert why in refused.value.message


def test_two_tables_of_one_place_are_refused(sink: SqlSinkOptions, name: str) -> None:
    coordinator = owned(sink)
    with pytest.raises(SchemaChangeRefused, match="would be one table there"):
        coordinator.declare({("a", name, "t"): schema("id INT"), ("b", name, "t"): schema("id INT")})


def test_a_table_that_is_there_needs_no_change(postgres: Database, sink: SqlSinkOptions, name: str) -> None:
    table = made(sink, name, schema("id INT", "n STRING"))
    with postgres.connection() as connection:
        assert list(changes(table, look_up(connection, table))) == []


@pytest.mark.usefixtures("_staged")
def test_infinity_of_a_message_arrives_as_such(
    postgres: Database, sink: SqlSinkOptions, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task without Spark, from messages with their schemas to the table."""
    kinds = {"at": ("int64", "MicroTimestamp"), "day": ("int32", "Date"), "moment": ("string", "ZonedTimestamp")}
    fields = [
        {"type": kind, "name": f"io.debezium.time.{said}", "field": field} for field, (kind, said) in kinds.items()
    ]
    row = {"type": "struct", "fields": [{"type": "int32", "field": "id"}, *fields]}
    envelope = {"type": "struct", "fields": [{**row, "field": "before"}, {**row, "field": "after"}]}
    given = [
        (9223372036825200000, 2146033979, "infinity"), (-9223372036832400000, -2147472691, "-infinity"),
        (1, 1, "2024-05-10T13:00:01Z"),
    ]  # fmt: skip
    messages = []
    for number, values in enumerate(given):
        after = {"id": number, **dict(zip(kinds, values, strict=True))}
        payload = {"op": "c", "before": None, "after": after, "source": {"db": name, "table": "t"}}
        message = json.dumps({"schema": envelope, "payload": payload}).encode()
        messages.append(MemoryRecord(number, "topic", json.dumps({"id": number}).encode(), message, position=number))
    table = schema("id INT", "at TIMESTAMP", "day DATE", "moment TIMESTAMP_LTZ")
    made(sink, name, table)
    pipe = pipeline()
    source: Any = in_memory(pipe.source, {SPLIT: messages})
    rules, inference = (
        pipe.rules,
        dataclasses.replace(pipe.source.inference(10), infinite=sink.capabilities.infinite_times),
    )
    known = Schemas(1, {(name, "t"): SourceTable(table, ((name, "t"),), key_from_message=True)}, {(name, "t"): table})
    run = int(name[1:], 16)  # a worker keeps what it has of a run
    owned(sink, run)
    writer = task(sink, run)  # is closed with the test
    monkeypatch.setattr(type(sink), "writer", lambda *_: writer)
    into: Any = sink
    setup: Any = Sent(Setup("checkpoint", run, "p", source, into, None, inference, 3, rules))
    base: Any = Sent(known)
    try:
        result = run_task(Task(1, run, 0, {SPLIT: (0, 3)}, {"topic": "id"}, 0, 60.0, "", setup, base, 1, ()))
    finally:
        worker.discard()
    assert (result.progress.failure, result.progress.rejects, result.progress.positions) == (None, [], {SPLIT: 3})
    assert postgres.rows(f"{name}.t", "id, at::text, day::text, moment::text") == [
        (0, "infinity", "infinity", "infinity"), (1, "-infinity", "-infinity", "-infinity"),
        (2, "1970-01-01 00:00:00.000001", "1970-01-02", "2024-05-10 13:00:01+00"),
    ]  # fmt: skip

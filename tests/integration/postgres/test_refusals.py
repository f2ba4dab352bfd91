"""Rows that a real PostgreSQL refuses: they become rejects, and all others are written."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING

import pytest
from postgres_sink import BY, SPLIT, made, options, schema, scope, task

from ingest.encode.upsert_encoder import Record
from ingest.model.commit import RowsRefused
from ingest.sinks.postgres.writer import MAX_SEARCHED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness import Kafka
    from postgres import Database
    from postgres_shop import Shop

    from ingest.sinks.postgres.options import SqlSinkOptions
    from ingest.sinks.postgres.tables import SqlTable
    from ingest.sinks.postgres.writer import PostgresWriter

CONSTRAINTS = [
    "ALTER TABLE {} ADD UNIQUE (%s)", "ALTER TABLE {} ADD UNIQUE (%s) DEFERRABLE",
    "ALTER TABLE {} ADD UNIQUE (%s) DEFERRABLE INITIALLY DEFERRED", "ALTER TABLE {} ADD EXCLUDE (%s WITH =)",
    "ALTER TABLE {} ADD EXCLUDE USING gist (int8range(%s, %s + 1) WITH &&)",
    "CREATE UNIQUE INDEX ON {} (%s) WHERE %s > 0",
]  # fmt: skip
"""Constraints of which the rows of the key are not one."""
IGNORE = "  ingestion.ignore-errors: true\n"


def row(key: int, value: str | None) -> tuple[bytes, bytes | None]:
    return f'{{"id":{key}}}'.encode(), None if value is None else f'{{"id":{key},"v":{value}}}'.encode()


def refused(writer: PostgresWriter, table: SqlTable, rows: Sequence[tuple[bytes, bytes | None]]) -> RowsRefused:
    """The error of a commit of these rows."""
    writer.write([Record(table, *one) for one in rows])
    with pytest.raises(RowsRefused) as caught:
        writer.commit({SPLIT: 9}, b"", final=True)
    writer.abort()
    return caught.value


def values(exc: RowsRefused) -> list[tuple[bytes | None, bytes | None]]:
    return [(one.key, one.value) for one in exc.rows]


@pytest.mark.usefixtures("_staged")
@pytest.mark.parametrize(
    ("there", "bad", "said"),
    [
        ("v text", r'"a\u0000b"', "cannot be converted to text"),
        ("v smallint", "70000", 'value "70000" is out of range for type smallint'),
        ("v integer CHECK (v > 0)", "-1", "violates check constraint"),
        ("v integer NOT NULL", "null", "violates not-null constraint"),
        ("v integer UNIQUE", "0", "violates unique constraint"),
        ("v varchar(3)", '"four"', "too long for type character varying(3)"),
    ],
)
def test_the_rows_at_fault_are_told(
    postgres: Database, sink: SqlSinkOptions, name: str, there: str, bad: str, said: str
) -> None:
    table = made(sink, name, schema("id BIGINT", "v STRING" if '"' in bad else "v BIGINT"))
    postgres.ask(f"ALTER TABLE {name}.t DROP COLUMN v, ADD COLUMN {there}")
    if "UNIQUE" in there:
        postgres.ask(f"INSERT INTO {name}.t VALUES (-1, 0)")
    good = [row(key, f'"{key}"' if '"' in bad else str(key + 1)) for key in range(9)]
    writer = task(sink)
    writer.begin(scope())
    exc = refused(writer, table, [*good[:4], row(100, bad), *good[4:], row(101, bad)])
    assert values(exc) == [row(100, bad), row(101, bad)]
    assert all(said in one.reason for one in exc.rows), exc.rows
    assert postgres.ask(f"SELECT count(*) FROM {name}.t WHERE id >= 0") == [(0,)], "nothing is committed"
    writer.write([Record(table, *one) for one in good])
    writer.commit({SPLIT: 9}, b"", final=True)
    assert postgres.ask(f"SELECT count(*) FROM {name}.t WHERE id >= 0") == [(9,)]


@pytest.mark.usefixtures("_staged")
def test_all_states_at_fault_of_a_key_are_told(postgres: Database, sink: SqlSinkOptions, name: str) -> None:
    table = made(sink, name, schema("id BIGINT", "v INT"))
    postgres.ask(f"ALTER TABLE {name}.t ADD CHECK (v > 0)")
    writer = task(sink)
    writer.begin(scope())
    states = [row(1, "-9"), row(1, "5"), row(1, "-1"), row(1, "-2"), row(1, "-3")]
    assert values(refused(writer, table, states)) == states[2:]
    writer.write([Record(table, *one) for one in states[:2]])
    writer.commit({SPLIT: 9}, b"", final=True)
    assert postgres.rows(f"{name}.t") == [(1, 5)]


@pytest.mark.usefixtures("_staged")
@pytest.mark.parametrize(("kind", "by"), [
    ("postgres", {}), ("postgres", {"sink.delete-strategy": "soft"}), ("hologres", {}), ("postgres", BY),
])  # fmt: skip
def test_rows_that_change_places_are_written_in_their_order(
    postgres: Database, name: str, kind: str, by: dict[str, str]
) -> None:
    """Their last states cannot be written at once, and neither can one of them before the other."""
    sink = options(postgres, type=kind, **by)
    for batch, constraint in enumerate(CONSTRAINTS):
        table = made(sink, name, schema("id BIGINT", "v BIGINT", "n BIGINT"))
        column = "n" if by == BY else "v"  # `v` is the time of the change then
        postgres.ask(constraint.replace("%s", column).format(f"{name}.t"))

        def changed(key: int, value: int, time: int, *, of: SqlTable = table, column: str = column) -> Record:
            values = {"v": value, "n": time} if column == "v" else {"v": time, "n": value}
            return Record(of, f'{{"id":{key}}}'.encode(), json.dumps({"id": key, **values}).encode())

        writer = task(sink)
        writer.begin(scope(batch=2 * batch + 1))
        writer.write([changed(3, 3, 1), changed(4, 4, 1), changed(5, 5, 1)])
        writer.commit({SPLIT: 3}, b"", final=True)
        writer.begin(scope(batch=2 * batch + 2))
        writer.write([
            changed(3, 99, 2), changed(4, 3, 2), changed(3, 4, 3), changed(5, 55, 2), Record(table, b'{"id":5}', None),
            changed(6, 5, 4), changed(7, 7, 1), changed(7, 8, 2), changed(8, 7, 1),
        ])  # fmt: skip
        writer.commit({SPLIT: 9}, b"", final=True)
        left = "NOT _deleted" if by else "true"
        found = postgres.ask(f"SELECT id, {column} FROM {name}.t WHERE {left} ORDER BY 1")
        assert found == [(3, 4), (4, 3), (6, 5), (7, 8), (8, 7)], constraint
        postgres.ask(f"DROP TABLE {name}.t")


def test_a_state_that_is_tried_again_stays_deleted_by_a_later_delete(postgres: Database, name: str) -> None:
    """Where deleted rows stay, the delete takes the place of no state: it is written after each that is tried again."""
    sink = options(postgres, **{"sink.delete-strategy": "soft"})
    table = made(sink, name, schema("id BIGINT", "v BIGINT"))
    postgres.ask(f"ALTER TABLE {name}.t ADD UNIQUE (v)")
    writer = task(sink)
    writer.begin(scope())
    writer.write([Record(table, *row(key, str(value))) for key, value in ((2, 1), (3, 10), (4, 11))])
    writer.commit({SPLIT: 3}, b"", final=True)
    writer.begin(scope(batch=2))
    moved = [row(1, "1"), row(3, "99"), row(4, "10"), row(3, "11")]
    writer.write([Record(table, *one) for one in (*moved, (b'{"id":1}', None), row(2, "3"))])
    writer.commit({SPLIT: 9}, b"", final=True)
    found = postgres.ask(f"SELECT id, v, _deleted FROM {name}.t ORDER BY 1")
    assert found == [(1, 1, True), (2, 3, False), (3, 11, False), (4, 10, False)]


def test_rows_that_refer_to_others_of_the_transaction_are_taken(
    postgres: Database, sink: SqlSinkOptions, name: str
) -> None:
    table = made(sink, name, schema("id BIGINT", "v BIGINT"))
    postgres.ask(f"CREATE TABLE {name}.z (id bigint PRIMARY KEY, v bigint)")
    postgres.ask(f"ALTER TABLE {name}.t ADD FOREIGN KEY (v) REFERENCES {name}.z (id)")
    parents = dataclasses.replace(table, name="z")
    writer = task(sink)
    writer.begin(scope())
    children = [row(key, str(key)) for key in range(5)]
    writer.write([Record(table, *one) for one in children] + [Record(parents, *row(key, "1")) for key in range(4)])
    with pytest.raises(RowsRefused) as caught:
        writer.commit({SPLIT: 9}, b"", final=True)
    assert values(caught.value) == [children[4]], "the others' rows come later in the same transaction"
    writer.abort()
    writer.write([Record(table, *one) for one in children[:4]] + [Record(parents, *row(key, "1")) for key in range(4)])
    writer.commit({SPLIT: 9}, b"", final=True)
    assert len(postgres.rows(f"{name}.t")) == 4


def test_constraints_that_wait_for_the_commit_tell_their_rows(
    postgres: Database, sink: SqlSinkOptions, name: str
) -> None:
    table = made(sink, name, schema("id BIGINT", "v BIGINT"))
    postgres.ask(f"ALTER TABLE {name}.t ADD FOREIGN KEY (v) REFERENCES {name}.t (id) DEFERRABLE INITIALLY DEFERRED")
    writer = task(sink)
    writer.begin(scope())
    exc = refused(writer, table, [row(1, "2"), row(2, "3"), row(3, "null"), row(4, "9")])
    assert values(exc) == [row(4, "9")]


@pytest.mark.usefixtures("_staged")
def test_many_rows_are_searched_only_when_they_come_again(postgres: Database, sink: SqlSinkOptions, name: str) -> None:
    table = made(sink, name, schema("id BIGINT", "v INT"))
    postgres.ask(f"ALTER TABLE {name}.t ADD CHECK (v > 0)")
    writer = task(sink)
    writer.begin(scope())
    rows = [row(key, "-1" if key == 7 else "1") for key in range(MAX_SEARCHED + 1)]
    first = refused(writer, table, rows)
    assert first.rows == ()
    assert "violates check constraint" in first.message
    assert values(refused(writer, table, rows)) == [row(7, "-1")]


def test_a_refused_row_stops_the_run_by_default(shop: Shop) -> None:
    shop.add("c", None, {"id": 1, "name": "Ada"})
    shop.add("c", None, {"id": 2, "name": "a\0b"})
    shop.add("c", None, {"id": 3, "name": "Grace"})
    for _ in range(2):
        stopped = shop.run()
        assert stopped.code == 65, stopped.err
        assert "at offset 1: write/refused: unsupported Unicode escape sequence" in stopped.err
        assert "Traceback" not in stopped.err
        assert shop.rows() == [(1, "Ada")], "what is before it is written"
    shop.write(IGNORE)
    ran = shop.run()
    assert ran.code == 0, ran.err
    assert shop.rows() == [(1, "Ada"), (3, "Grace")]


@pytest.mark.parametrize("transform", [False, True])
def test_bad_rows_among_many_are_rejects_and_counted(shop: Shop, *, transform: bool) -> None:
    rules = "transform:\n  - {source-table: '\\.*', projection: '\\*, n + 1 AS m'}\n" if transform else ""
    shop.write(IGNORE + "  ingestion.error-tolerance.max-count: 60\n", rest=rules)
    if transform:  # the table's rows go through expressions once it is known
        shop.add("c", None, {"id": 0, "n": 0, "name": ""})
        assert shop.run().code == 0
    for number in range(5000):
        name = "\0" if number % 100 == 7 else f"n{number}"
        shop.add("c", None, {"id": number, "n": number, "name": name})
    ran = shop.run()
    assert ran.code == 0, ran.err
    found = shop.rows("id, n, name" + (", m" if transform else ""))
    good = [number for number in range(5000) if number % 100 != 7]
    assert found == [(n, n, f"n{n}", n + 1)[: 4 if transform else 3] for n in good]
    assert '"rejected": 50, "left": 0' in ran.err, ran.err
    shop.add("c", None, {"id": 1, "n": 1, "name": "again"})
    for number in range(11):
        shop.add("c", None, {"id": number, "n": -number, "name": "\0"})
    over = shop.run()
    assert over.code == 65, over.err
    assert shop.postgres.ask(f"SELECT name FROM shop.{shop.table} WHERE id = 1") == [("again",)]


def test_the_state_before_a_refused_one_is_written(shop: Shop) -> None:
    shop.write(IGNORE)
    for number in range(300):
        shop.add("c", None, {"id": number % 3, "n": number, "name": "\0" if number >= 150 else f"n{number}"})
    shop.add("u", {"id": 1}, {"id": 9, "n": 1, "name": "\0"})
    ran = shop.run()
    assert ran.code == 0, ran.err
    assert shop.rows() == [(0, 147, "n147"), (1, 148, "n148"), (2, 149, "n149")]


@pytest.mark.parametrize("transform", [False, True])
def test_values_pass_between_rows_of_two_tasks(shop: Shop, *, transform: bool) -> None:
    """Rows 3 and 4 change their values by way of a third one; each task needs what the other one is yet to write."""
    rules = "transform:\n  - {source-table: '\\.*', projection: '\\*, id + 1 AS m'}\n" if transform else ""
    shop.write(rest=f"  parallelism: 2\n{rules}")
    text = shop.file.read_text()
    assert str(shop.lines) in text
    shop.file.write_text(text.replace(str(shop.lines), str(shop.folder / "*.jsonl")))
    for number in (3, 4):
        shop.add("c", None, {"id": number, "v": f"m{number}"})
    assert shop.run().code == 0
    shop.postgres.ask(f"ALTER TABLE shop.{shop.table} ADD UNIQUE (v)")
    shop.add("u", {"id": 4}, {"id": 4, "v": "m3"})
    shop.lines = shop.folder / "other.jsonl"
    for number in range(100, 600):
        shop.add("c", None, {"id": number, "v": f"n{number}"})
    shop.add("u", {"id": 3}, {"id": 3, "v": "tmp"})
    shop.add("u", {"id": 3}, {"id": 3, "v": "m4"})
    ran = shop.run()
    assert ran.code == 0, ran.err
    assert shop.rows("id, v")[:2] == [(3, "m4"), (4, "m3")]
    assert len(shop.rows()) == 502
    shop.add("c", None, {"id": 5, "v": "m4"})
    assert shop.run().code == 65, "nobody is to free this one"


def test_a_refused_row_becomes_a_dead_letter_once(shop: Shop, kafka: Kafka) -> None:
    topic = f"{kafka.name}.dead"
    collector = (
        f"  dirty-data.collector:\n    type: kafka\n    topic: {topic}\n"
        f"    properties.bootstrap.servers: {kafka.bootstrap}\n"
    )
    shop.write(IGNORE, collector)
    shop.add("c", None, {"id": 1, "n": 1})
    assert shop.run().code == 0
    shop.postgres.ask(f"ALTER TABLE shop.{shop.table} ADD CHECK (n < 100)")
    for number in range(200):
        shop.add("c", None, {"id": number, "n": number % 101})
        if number % 50 == 0:
            shop.add("c", None, {"id": None, "n": number})
    ran = shop.run()
    assert ran.code == 0, ran.err
    assert shop.rows() == [(number, number % 101) for number in range(200) if number != 100]
    found = kafka.read(topic)
    about = [{name: value.decode() for name, value in one.headers} for one in found]
    assert sorted(one["__ingest.errors.code"] for one in about) == ["null-key"] * 4 + ["refused"]
    (one,) = [one for one in about if one["__ingest.errors.code"] == "refused"]
    assert one["__ingest.errors.stage"] == "write"
    assert "violates check constraint" in one["__ingest.errors.message"]
    assert one["__ingest.errors.table"] == f"shop.{shop.table}"

"""The sink `hologres` on a real PostgreSQL: types by strategy, texts of values, and changes that it cannot make.

Nothing here has met Hologres itself: a PostgreSQL takes all that the dialect says, and more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from postgres_sink import SPLIT, VALUES, made, options, owned, schema, scope, task, to_write, write
from pydantic import ValidationError

from ingest.encode.upsert_encoder import Record
from ingest.errors import SchemaChangeRefused
from ingest.model.commit import RowsRefused
from ingest.sinks.postgres.array_statements import MAX_ROWS
from ingest.sinks.postgres.connection import server_of
from ingest.sinks.postgres.dialect import HologresDialect, dialect_of

if TYPE_CHECKING:
    from postgres import Database

    from ingest.sinks.postgres.options import SqlSinkOptions

STRATEGIES = ("STANDARD", "BROADEN", "ONLY_BIGINT_OR_TEXT")
TEXT = ("text",) * 3
TYPES: dict[str, tuple[str, ...]] = {
    "BOOLEAN": ("boolean", "boolean", "text"),
    "TINYINT": ("smallint", "bigint", "bigint"),
    "SMALLINT": ("smallint", "bigint", "bigint"),
    "INT": ("integer", "bigint", "bigint"),
    "BIGINT": ("bigint",) * 3,
    "DECIMAL(5,2)": ("numeric(5,2)", "numeric(5,2)", "text"),
    "DECIMAL(38,18)": ("numeric(38,18)", "numeric(38,18)", "text"),
    "FLOAT": ("real", "double precision", "text"),
    "DOUBLE": ("double precision", "double precision", "text"),
    "STRING": TEXT,
    "CHAR(3)": ("character(3)", "text", "text"),
    "VARCHAR(9)": ("character varying(9)", "text", "text"),
    "BYTES": ("bytea", "bytea", "text"),
    "DATE": ("date", "date", "text"),
    "TIME(3)": ("time without time zone", "time without time zone", "text"),
    "TIME(6)": ("time without time zone", "time without time zone", "text"),
    "TIMESTAMP": ("timestamp without time zone", "timestamp without time zone", "text"),
    "TIMESTAMP_LTZ": ("timestamp with time zone", "timestamp with time zone", "text"),
    "ARRAY<INT>": ("jsonb", "jsonb", "text"),
    "MAP<STRING, INT>": ("jsonb", "jsonb", "text"),
    "ROW<a INT, b STRING>": ("jsonb", "jsonb", "text"),
}
"""The type of a column for each strategy, by the type of its rows."""


def hologres(postgres: Database, strategy: str = "STANDARD", **more: Any) -> SqlSinkOptions:
    return options(postgres, type="hologres", **{"sink.type-normalize-strategy": strategy, **more})


def kinds(postgres: Database, table: str) -> dict[str, str]:
    """The types of a table's columns."""
    return dict(postgres.ask(
        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
        " WHERE attrelid = %s::regclass AND attnum > 0", table,
    ))  # fmt: skip


def shown(postgres: Database, kind: str, value: str) -> str:
    """A value as PostgreSQL shows it when it is cast to text."""
    (text,) = postgres.ask("SELECT %s::json #>> '{}'", value)[0]
    if kind == "bytea":
        return str(postgres.ask("SELECT decode(%s, 'base64')::text", text)[0][0])
    with postgres.connection() as connection:
        connection.execute("SET TIME ZONE 'UTC'")
        kind = "json" if kind == "jsonb" else kind
        query = psycopg.sql.SQL("SELECT %s::{}::text").format(psycopg.sql.SQL(kind))
        return str(connection.execute(query, (text,)).fetchall()[0][0])


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_columns_are_as_wide_as_the_strategy_says_and_texts_are_casts(
    postgres: Database, name: str, strategy: str
) -> None:
    at = STRATEGIES.index(strategy)
    sink = hologres(postgres, strategy)
    table = made(sink, name, schema("id INT", *(f"c{i} {kind}" for i, kind in enumerate(VALUES))))
    there = kinds(postgres, f"{name}.t")
    assert {kind: there[f"c{i}"] for i, kind in enumerate(VALUES)} == {kind: TYPES[kind][at] for kind in VALUES}
    for number in range(max(map(len, VALUES.values()))):
        texts = [found[number] if number < len(found) else "null" for found in VALUES.values()]
        fields = ",".join(f'"c{i}":{text}' for i, text in enumerate(texts))
        write(sink, table, (f'{{"id":{number}}}', f'{{"id":{number},{fields}}}'), batch=number + 1)
        for i, (kind, text) in enumerate(zip(VALUES, texts, strict=True)):
            (found,) = postgres.ask(f"SELECT c{i}::text FROM {name}.t WHERE id = {number}")[0]
            if text == "null":
                assert found is None
            elif there[f"c{i}"] == "jsonb":
                assert postgres.ask("SELECT %s::jsonb = %s::jsonb", found, text) == [(True,)]
            elif strategy == "BROADEN" and kind == "FLOAT":
                assert found == shown(postgres, "double precision", text)
            else:
                assert found == shown(postgres, TYPES[kind][0], text), kind


def test_values_in_text_are_readable(postgres: Database, name: str) -> None:
    sink = hologres(postgres, "ONLY_BIGINT_OR_TEXT")
    table = made(
        sink, name,
        schema("id INT", "b BOOLEAN", "d DECIMAL(5,2)", "t TIMESTAMP", "z TIMESTAMP_LTZ", "j ROW<a INT>", "y BYTES"),
    )  # fmt: skip
    row = '{"id":1,"b":true,"d":1.5,"t":"2020-01-31T12:00:00","z":"2020-01-31 12:00:00Z","j":{ "a":1},"y":"AP8="}'
    write(sink, table, ('{"id":1}', row))
    assert postgres.rows(f"{name}.t") == [
        (1, "true", "1.50", "2020-01-31 12:00:00", "2020-01-31 12:00:00+00", '{ "a":1}', "\\x00ff")
    ]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_keys_have_their_own_text_whatever_their_type_became(postgres: Database, name: str, strategy: str) -> None:
    sink = hologres(postgres, strategy)
    narrow, wide = (schema(f"id {kind}", "n INT") for kind in ("DECIMAL(5,2)", "DECIMAL(7,3)"))
    table = made(sink, name, narrow)
    assert kinds(postgres, f"{name}.t")["id"] == "text"
    write(sink, table, ('{"id":1.5}', '{"id":1.50,"n":1}'), ('{"id":2}', '{"id":2.00,"n":1}'))
    owned(sink, 2).declare({(name, "t"): wide})
    write(sink, to_write(sink, name, wide), ('{"id":1.5}', '{"id":1.500,"n":2}'), ('{"id":2}', None), run=2, batch=2)
    assert postgres.rows(f"{name}.t", "id, n") == [("1.5", 2)]


@pytest.mark.parametrize(("strategy", "before", "after"), [
    ("BROADEN", "INT", "BIGINT"), ("BROADEN", "TINYINT", "INT"), ("BROADEN", "FLOAT", "DOUBLE"),
    ("BROADEN", "VARCHAR(3)", "STRING"), ("ONLY_BIGINT_OR_TEXT", "SMALLINT", "BIGINT"),
    ("ONLY_BIGINT_OR_TEXT", "DECIMAL(5,2)", "DECIMAL(9,4)"), ("ONLY_BIGINT_OR_TEXT", "DATE", "TIMESTAMP_LTZ"),
    ("ONLY_BIGINT_OR_TEXT", "BOOLEAN", "STRING"), ("ONLY_BIGINT_OR_TEXT", "BYTES", "STRING"),
    ("STANDARD", "TIME(3)", "TIME(6)"),
])  # fmt: skip
def test_what_stays_inside_of_a_wide_type_changes_nothing(
    postgres: Database, name: str, strategy: str, before: str, after: str
) -> None:
    sink = hologres(postgres, strategy)
    coordinator = owned(sink)
    coordinator.declare({(name, "t"): schema("id INT", f"c {before}")})
    there = kinds(postgres, f"{name}.t")
    assert coordinator.undeclared({(name, "t"): schema("id INT", f"c {after}")}) == set()
    coordinator.declare({(name, "t"): schema("id INT", f"c {after}")})
    assert kinds(postgres, f"{name}.t") == there


@pytest.mark.parametrize(("strategy", "before", "after", "advice"), [
    ("STANDARD", "INT", "BIGINT", "BROADEN or ONLY_BIGINT_OR_TEXT"),
    ("STANDARD", "VARCHAR(3)", "VARCHAR(5)", "BROADEN"), ("STANDARD", "CHAR(3)", "VARCHAR(3)", "BROADEN"),
    ("BROADEN", "INT", "STRING", "ONLY_BIGINT_OR_TEXT"),
    ("BROADEN", "DECIMAL(5,2)", "DECIMAL(7,2)", "ONLY_BIGINT_OR_TEXT"),
    ("ONLY_BIGINT_OR_TEXT", "INT", "DOUBLE", "another table"),
])  # fmt: skip
def test_a_type_that_would_have_to_change_is_refused_with_what_to_do(
    postgres: Database, name: str, strategy: str, before: str, after: str, advice: str
) -> None:
    coordinator = owned(hologres(postgres, strategy))
    coordinator.declare({(name, "t"): schema("id INT", f"c {before}")})
    for ask in (coordinator.declare, coordinator.undeclared):
        with pytest.raises(SchemaChangeRefused, match="its column 'c' is") as refused:
            ask({(name, "t"): schema("id INT", f"c {after}")})
        assert advice in refused.value.hint
        assert "route the rows to another table" in refused.value.hint


def test_tables_that_are_there_need_only_hold_the_rows(postgres: Database, name: str) -> None:
    postgres.ask(f"CREATE SCHEMA {name}; CREATE TABLE {name}.t (id int PRIMARY KEY, c varchar(5), own int DEFAULT 7)")
    sink = hologres(postgres, "BROADEN", **{"sink.delete-strategy": "soft"})
    table = made(sink, name, schema("id SMALLINT", "c VARCHAR(5)", "n TINYINT"))
    assert list(kinds(postgres, f"{name}.t").items())[2:] == [
        ("own", "integer"), ("_deleted", "boolean"), ("n", "bigint")
    ]  # fmt: skip
    write(sink, table, ('{"id":1}', '{"id":1,"c":"five!","n":1}'))
    assert postgres.rows(f"{name}.t") == [(1, "five!", 7, False, 1)]
    writer = task(sink)
    writer.begin(scope(batch=2))
    writer.write(
        [Record(table, b'{"id":2}', b'{"id":2,"c":"sixsix"}'), Record(table, b'{"id":3}', b'{"id":3,"c":"a"}')]
    )
    with pytest.raises(RowsRefused, match="too long") as caught:
        writer.commit({SPLIT: 9}, b"", final=True)
    assert [one.key for one in caught.value.rows] == [b'{"id":2}'], "others are not, and nothing is written"
    assert len(postgres.rows(f"{name}.t")) == 1


def test_states_of_a_key_become_its_last_one_over_several_statements(postgres: Database, name: str) -> None:
    sink = hologres(postgres)
    table = made(sink, name, schema("id STRING", "n INT"))
    rows = [(f'{{"id":"{key}"}}', f'{{"n":{key}}}') for key in range(MAX_ROWS + 1)]
    write(sink, table, ('{"id":1}', '{"n":-1}'), *rows, ('{"id":"2"}', '{"n":2}'), ('{"id":2}', None))
    assert postgres.ask(f"SELECT count(*), sum(n), min(n) FROM {name}.t") == [
        (MAX_ROWS, MAX_ROWS * (MAX_ROWS + 1) // 2 - 2, 0)
    ]
    write(sink, table, *((key, None) for key, _ in rows), batch=2)
    assert postgres.rows(f"{name}.t") == []


def test_properties_of_tables_are_set_when_they_are_made(postgres: Database, name: str) -> None:
    into = f"INSERT INTO {name}.told (place, name, value) VALUES ($1, $2, $3)"
    postgres.ask(
        f"CREATE SCHEMA {name}; CREATE TABLE {name}.told (at serial, place text, name text, value text);"
        f" CREATE PROCEDURE public.set_table_property(text, text, text) LANGUAGE sql AS '{into}'"
    )
    try:
        sink = hologres(postgres, **{"table_property.distribution_key": "id", "table_property.binlog.ttl": "60",
                                     "table_property.binlog.level": "replica"})  # fmt: skip
        for table in (schema("id INT"), schema("id INT", "n INT")):
            owned(sink).declare({(name, "t"): table})
    finally:
        postgres.ask("DROP PROCEDURE public.set_table_property(text, text, text)")
    place = f'"{name}"."t"'
    assert [row[1:] for row in postgres.rows(f"{name}.told")] == [
        (place, "binlog.level", "replica"), (place, "distribution_key", "id"), (place, "binlog.ttl", "60"),
    ]  # fmt: skip


def test_options_are_those_of_alibabas_connector(postgres: Database) -> None:
    ignored = hologres(postgres, **{"sink.delete-strategy": "IGNORE_DELETE"})
    assert (ignored.delete_strategy, dialect_of(ignored)) == ("ignore", HologresDialect("STANDARD"))
    assert hologres(postgres, **{"sink.delete-strategy": "DELETE_ROW_ON_PK"}).delete_strategy == "hard"
    assert server_of(hologres(postgres, endpoint="db.example.org")).port == 80
    for odd in ({"sink.type-normalize-strategy": "WIDE"}, {"table_property.a b": "c"}, {"sink.delete-strategy": "x"}):
        with pytest.raises(ValidationError):
            hologres(postgres, **odd)
